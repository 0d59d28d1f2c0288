"""Predict whether one text follows another, with the next-sentence head over the pooled [CLS]."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, only_text
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import GivesLogits
from bertwright.text.windows import truncate_pair


class Pair(NamedTuple):
    """Two texts as one sequence."""

    ids: list[int]
    segments: list[int]
    tokens_truncated: int
    """The number of tokens left out because the pair was too long: from A's beginning and B's
    end.
    """


def make_pair(runner: ModelRunner, first: str, second: str) -> Pair:
    """Return two texts as one sequence, truncated as in `next_sentence`, which lists the errors."""
    runner.require("next_sentence", "judging next sentences")
    room = runner.room(paired=True)
    if not runner.spec.reads_pairs or room < 2:
        raise DataError(
            f"{runner.name} reads no pairs; expected a model of BERT's family with room for two "
            "texts"
        )
    a, b = runner.tokenizer.encode_bare_ids([only_text(text) for text in (first, second)])
    of_a, of_b = truncate_pair(len(a), len(b), room)
    left_out = len(a) + len(b) - of_a - of_b
    framing = runner.tokenizer.framing
    ids = framing.two(a[len(a) - of_a :], b[:of_b])
    return Pair(ids, framing.segments(of_a, of_b), left_out)


def predict_pairs(runner: ModelRunner, pooled: Tensor) -> list[float]:
    """Return the probabilities that B follows A, from the pooler's vectors `[B, H]`."""
    head = runner.learner.objectives["next_sentence"]
    assert isinstance(head, GivesLogits)
    with torch.inference_mode():
        follows = head.logits(pooled).float().softmax(-1)[:, 0]
    probabilities: list[float] = require_finite(follows, "probabilities").tolist()
    return probabilities


def next_sentence(runner: ModelRunner, first: str, second: str) -> tuple[float, int]:
    """Return the probability that `second` follows `first`, and the number of tokens left out.

    A pair longer than the encoder reads keeps the tokens around the boundary: the end of A and the
    beginning of B, each half of the room, or more if the other needs less.

    Raises:
        DataError: there is no next-sentence head, the model reads no pairs, or an input is not a
            text.
    """
    pair = make_pair(runner, first, second)
    ((_, encoded),) = runner.run([pair.ids], [pair.segments], positions=[()])
    assert encoded.pooled is not None
    return predict_pairs(runner, encoded.pooled)[0], pair.tokens_truncated
