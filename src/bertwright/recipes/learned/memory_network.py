"""Examine what a memory network has learned: its answers after each hop, and its attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bertwright.models.memory_network.answer import StoryAnswer
from bertwright.models.memory_network.stories import StoryBatch
from bertwright.recipes.learned.run import (
    FinishedRun,
    most_frequent_label,
    validation_batches,
    validation_labels,
)
from bertwright.report import sections
from bertwright.report.verdict import Verdict, pretraining_verdict

STORIES, MOST_SENTENCES = 3, 14


def verdict(run: FinishedRun) -> Verdict:
    """Return whether the model answers better than the most frequent answer."""
    count = len(validation_labels(run.shards, run.config, "answers")) if run.last else 0
    return pretraining_verdict(run.records, run.once(_levels), {"answer.accuracy": count})


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: accuracy by hops, and attention over three stories."""
    learner = run.model.runner.learner
    head = learner.objectives["answer"]
    assert isinstance(head, StoryAnswer)
    right, total = np.zeros(head.config.hops + 1), 0
    read: list[tuple[StoryBatch, int, Any, int]] = []
    for batch in validation_batches(run.shards, run.config, "dev"):
        with torch.inference_mode():
            states, maps = head.states(learner.encoder(batch.inputs), batch)
            answers = [head.logits(u).argmax(1) for u in states]
        right += [int((each == batch.answers).sum()) for each in answers]
        total += len(batch.answers)
        attention = torch.stack(maps, 1).numpy()  # [M, hops]
        for number, answer in enumerate(answers[-1].tolist()):
            read.append((batch, number, attention, answer))
    order = np.random.default_rng(0).permutation(len(read)).tolist()
    order.sort(key=lambda n: int(read[n][0].story_sentences[read[n][1]]) > MOST_SENTENCES + 1)
    stories = [_story(f"Story {n}", run, *read[at]) for n, at in enumerate(order[:STORIES], 1)]
    levels = run.once(_levels)
    names = ["the question alone", *(f"after hop {n}" for n in range(1, len(right)))]
    figures = dict(zip(names, (right / max(1, total)).tolist(), strict=True))
    figures["the most frequent answer"] = levels["answer.accuracy"]
    note = (
        f"Of {total:,} held-out questions: the fraction that is answered right if reading ends "
        "after so many hops. The model was trained to answer after the last one."
    )
    shown = [sections.bars("Accuracy by hops", figures, True, note), *stories]
    return {"baselines": levels, "sections": shown}


def _levels(run: FinishedRun) -> dict[str, float]:
    """Return the accuracy of always the most frequent answer, by key of a record."""
    return {"answer.accuracy": most_frequent_label(run.shards, run.config, "answers")}


def _story(
    title: str, run: FinishedRun, batch: StoryBatch, number: int, attention: Any, answer: int
) -> sections.Section:
    """Return the attention of each hop over the sentences of one story of a batch.

    Args:
        title: the heading.
        run: the run.
        batch: the batch.
        number: the number of the story in the batch.
        attention: the attention to all memories of the batch, `[M, hops]`.
        answer: the id of the model's answer.
    """
    tokenizer = run.tokenizer
    counts = batch.story_sentences.numpy()
    first = int(counts[:number].sum())
    sentences_of_all = torch.split(batch.inputs.ids, batch.sentence_lengths.tolist())
    texts = [
        tokenizer.decode(ids.tolist())
        for ids in sentences_of_all[first : first + int(counts[number])]
    ]
    *sentences, question = texts
    memories = int((counts[:number] - 1).sum())
    rows = attention[memories : memories + len(sentences)]
    said, truth = tokenizer.tokens_of([answer, int(batch.answers[number])])
    outcome = "right" if said == truth else f"the answer is {truth!r}"
    note = f"{question} The model answers {said!r}: {outcome}. Numbers are percent of a hop."
    kept = slice(max(0, len(sentences) - MOST_SENTENCES), None)
    hops = [f"hop {n}" for n in range(1, attention.shape[1] + 1)]
    values = np.clip(rows[kept], 0, 1).tolist()
    return sections.heat(title, sentences[kept], hops, values, note)
