"""Scores of words as tags, and tags as entities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.tag_schemes import chunks
from bertwright.tasks.predictions import Entity, TaggingPrediction


def decode_tagging(
    task: TaskConfig,
    example: TaggingExample,
    probabilities: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[np.integer[Any]],
) -> TaggingPrediction:
    """What a model says of a sentence.

    Args:
        task: its task.
        example: the sentence, of W words.
        probabilities: [W, C], of every label.
        labels: [W], the number of each word's label; with a CRF not always the likeliest.

    Returns:
        Tags and entities, in characters of the text where it and its offsets are known, otherwise
        in words (`TaggingExample.read`). Tags that break the scheme are read as conlleval reads
        them; those without a scheme mark no entities.

    Raises:
        ValueError: the shapes are not of W words and C labels.
    """
    expected = (len(example.words), len(task.labels))
    if probabilities.shape != expected or labels.shape != expected[:1]:
        raise ValueError(
            f"probabilities {list(probabilities.shape)} and labels {list(labels.shape)}; expected "
            f"{list(expected)} and {list(expected[:1])}"
        )
    tags = tuple(task.labels[number] for number in labels)
    scores = probabilities[np.arange(len(tags)), labels].tolist()
    found = []
    for start, stop, label in chunks(tags) if task.scheme != "none" else ():
        score = sum(scores[start:stop]) / (stop - start)
        first, last = start, stop
        if example.text is not None and example.offsets is not None:
            first, last = example.offsets[start][0], example.offsets[stop - 1][1]
        found.append(Entity(label, first, last, example.read(start, stop), score))
    return TaggingPrediction(example.words, tags, tuple(scores), tuple(found), example.offsets)
