"""Judge whether one text follows another: the next-sentence head over the pooled [CLS]."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bertwright.errors import DataError
from bertwright.inference.pieces import only_text, shares
from bertwright.inference.runner import Runner
from bertwright.objectives.next_sentence import NextSentence


class Judgement(NamedTuple):
    """What the head says of a pair."""

    probability: float
    """That B follows A."""
    tokens_cut: int
    """Tokens left out because the pair was too long: from A's beginning and B's end."""


class Pair(NamedTuple):
    """Two texts as one sequence."""

    ids: list[int]
    types: list[int]
    tokens_cut: int
    """As `Judgement` has it."""


def make_pair(runner: Runner, first: str, second: str) -> Pair:
    """Two texts as the head reads them; see `next_sentence`."""
    runner.require("next_sentence", "judging next sentences")
    room = runner.room - 1
    if runner.config.type_vocab_size < 2 or room < 2:
        raise DataError(f"{runner.name} reads no pairs: it has one segment or too few positions")
    tokenizer = runner.tokenizer
    a, b = (tokenizer.encode(only_text(text)).ids[1:-1] for text in (first, second))
    kept_a, kept_b = shares(len(a), len(b), room)
    cut = len(a) + len(b) - kept_a - kept_b
    a, b = a[len(a) - kept_a :], b[:kept_b]
    ids = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
    return Pair(ids, [0] * (len(a) + 2) + [1] * (len(b) + 1), cut)


def judge_pairs(runner: Runner, pooled: Tensor) -> list[float]:
    """The probabilities that B follows A, by the pooler's vectors `[B, H]`."""
    head = runner.learner.objectives["next_sentence"]
    assert isinstance(head, NextSentence)
    with torch.inference_mode():
        found: list[float] = head.logits(pooled).float().softmax(-1)[:, 0].tolist()
    return found


def next_sentence(runner: Runner, first: str, second: str) -> Judgement:
    """The probability that `second` follows `first`.

    A pair longer than the model's positions keeps the tokens around its joint: the end of A and
    the beginning of B, half of the room each or more where the other needs less.

    Raises:
        DataError: no next-sentence head, a model that cannot read pairs, or something is no text.
    """
    pair = make_pair(runner, first, second)
    ((_, encoded),) = runner.run([pair.ids], [pair.types], places=[()])
    assert encoded.pooled is not None
    return Judgement(judge_pairs(runner, encoded.pooled)[0], pair.tokens_cut)
