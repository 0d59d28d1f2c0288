"""Fill blanks: the masked LM head over the places where a text says [MASK]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bertwright.errors import ConfigError, DataError
from bertwright.inference.runner import Runner, window_around
from bertwright.objectives.masked_lm import MaskedLM

Blank = list[tuple[str, float]]
"""Tokens and their probabilities, likeliest first."""


@dataclass(frozen=True)
class Blanks:
    """A text with blanks, as sequences."""

    pieces: list[list[int]]
    """The text, or, where it is too long, the windows around its blanks."""
    places: list[tuple[int, int]]
    """Of each blank, the piece it is judged in and its place there."""
    tokens: int
    """Of the whole text, [CLS] and [SEP] too."""


def find_blanks(runner: Runner, text: str) -> Blanks:
    """The blanks of a text, each in its window; see `fill` for the errors."""
    runner.require("masked_lm", "filling blanks")
    tokenizer = runner.tokenizer
    ids = tokenizer.encode(text).ids[1:-1]
    blanks = [place for place, token in enumerate(ids) if token == tokenizer.mask_id]
    if not blanks:
        (mask,) = tokenizer.tokens_of([tokenizer.mask_id])
        raise DataError(f"the text has no {mask}: write {mask} where a token is to be found")
    bounds = [window_around(place, len(ids), runner.room) for place in blanks]
    spans = list(dict.fromkeys(bounds))
    return Blanks(
        [[tokenizer.cls_id, *ids[a:b], tokenizer.sep_id] for a, b in spans],
        [(spans.index(b), place - b[0] + 1) for place, b in zip(blanks, bounds, strict=True)],
        len(ids) + 2,
    )


def judge_blanks(runner: Runner, x: Tensor, top: int) -> list[Blank]:
    """What stands at K places, by their vectors `[K, H]` of the last layer."""
    head, tokenizer = runner.learner.objectives["masked_lm"], runner.tokenizer
    assert isinstance(head, MaskedLM)
    with torch.inference_mode():
        probabilities = head.logits(x).float().softmax(-1)[:, : tokenizer.vocab_size]
        best = probabilities.topk(min(top, probabilities.shape[1]))
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [list(zip(tokenizer.tokens_of(ids), shares, strict=True)) for ids, shares in found]


def fill(runner: Runner, text: str, top: int = 5) -> list[Blank]:
    """The likeliest tokens of every blank of a text, each judged with the others left blank.

    A text longer than the model's positions is read, for each blank, in the window around it.

    Args:
        runner: a model with the masked LM head.
        text: a text with [MASK] in it, once or more.
        top: how many tokens a blank.

    Returns:
        One list a blank, in the text's order.

    Raises:
        DataError: no [MASK] in the text, or no masked LM head in the checkpoint.
        ConfigError: `top` is below 1.
    """
    if top < 1:
        raise ConfigError(f"top is {top}; expected 1 or more")
    blanks = find_blanks(runner, text)
    found: dict[tuple[int, int], Blank] = {}
    for rows, encoded in runner.run(blanks.pieces, top=runner.config.num_hidden_layers):
        for row, offset in zip(rows, encoded.sequences.offsets[:-1], strict=True):
            here = [place for place in blanks.places if place[0] == row]
            x = encoded.last[[offset + place for _, place in here]]
            found.update(zip(here, judge_blanks(runner, x, top), strict=True))
    return [found[place] for place in blanks.places]
