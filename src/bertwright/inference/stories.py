"""A use of a model: a memory network answers the questions of stories (`bertwright answer`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.data.batch import collate
from bertwright.data.to_device import to_device
from bertwright.errors import DataError
from bertwright.models.memory_network.answer import Answer
from bertwright.models.memory_network.stories import StoryBatch
from bertwright.nn.finite import require_finite
from bertwright.text.corpus.stories import babi_questions, is_babi
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def answer_stories(model: str, path: Path) -> Iterator[dict[str, Any]]:
    """Answer each question of a file of stories, which `_read_questions` describes. Sentences are
    the newest that the model keeps, `attention` is of each, by hop.

    Raises:
        DataError: the model is no memory network, or the file has something else.
    """
    loaded = checkpoint.load(model)
    head = getattr(loaded.learner.objectives, "answer", None)
    if not isinstance(head, Answer):
        raise DataError(f"{model} is no memory network: train one with --model memory-network")
    tokenizer = load_tokenizer(loaded.folder)
    learner = loaded.learner.eval()
    for sentences, question in _read_questions(path):
        kept = [*sentences[-head.config.memory_size :], question]
        ids = tokenizer.encode_bare_ids(kept)
        inputs, _ = collate([[token for sentence in ids for token in sentence]])
        lengths = np.array([len(sentence) for sentence in ids])
        story = StoryBatch(inputs, lengths, np.array([len(ids)]), np.zeros(1, int))
        batch = to_device(story, "cpu")
        with torch.no_grad():
            logits, maps = head.hops(learner.encoder(batch.inputs), batch)
        probability, best = require_finite(logits[0].softmax(0), "probabilities").max(0)
        (word,) = tokenizer.tokens_of([int(best)])
        yield {
            "sentences": kept[:-1],
            "question": kept[-1],
            "answer": word,
            "probability": float(probability),
            "attention": [each.tolist() for each in maps],
        }


def _read_questions(path: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the sentences and the question of each story of a file.

    A story is a sentence a line, then a line with a question mark, then a blank line; what stands
    between these is the known answer, and is not read. Or the file is one of the bAbI tasks, whose
    stories have several questions each.

    Raises:
        DataError: the file cannot be read, or a story has no question or nothing before it.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}") from error
    if is_babi(text, answered=False):
        for found in babi_questions(text.split("\n"), str(path)):
            yield found.sentences, found.question
        return
    for number, story in enumerate(re.split(r"\n\s*\n", text.strip()), 1):
        lines = [line.strip() for line in story.splitlines()]
        asked = next((n for n, line in enumerate(lines) if "?" in line), 0)
        if asked < 1:
            raise DataError(
                f"story {number} of {path} has no sentence followed by a question; expected a "
                "sentence a line, then a line with a question mark; or a file of a bAbI task, "
                "with a number before each line"
            )
        yield lines[:asked], lines[asked]
