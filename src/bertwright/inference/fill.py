"""Fill blanks: the masked LM head over the places where a text says [MASK]."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from bertwright.errors import ConfigError, DataError
from bertwright.inference.pieces import only_text
from bertwright.inference.runner import Runner, is_count, window_around
from bertwright.objectives.masked_lm import MaskedLM
from bertwright.text.tokenizer.tokenizer import Tokenizer

Blank = list[tuple[str, float]]
"""Tokens and their probabilities, likeliest first."""


@dataclass(frozen=True)
class Blanks:
    """A text with blanks, and the windows it is read in."""

    ids: list[int]
    """Of the text, without [CLS] and [SEP]."""
    spans: list[tuple[int, int]]
    """Bounds of the text, or, where it is too long, of the windows around its blanks."""
    places: list[list[int]]
    """Of each window the places of the blanks judged in it, behind [CLS]; window after window, the
    blanks in the order of the text."""

    @property
    def tokens(self) -> int:
        """Of the whole text, [CLS] and [SEP] too."""
        return len(self.ids) + 2

    @property
    def tokens_read(self) -> int:
        """Of all windows."""
        return sum(stop - start + 2 for start, stop in self.spans)

    def pieces(self, tokenizer: Tokenizer) -> list[list[int]]:
        """The windows as sequences."""
        cls, sep = tokenizer.cls_id, tokenizer.sep_id
        return [[cls, *self.ids[start:stop], sep] for start, stop in self.spans]


def find_blanks(runner: Runner, text: str) -> Blanks:
    """The blanks of a text, and the window of each; see `fill` for the errors."""
    runner.require("masked_lm", "filling blanks")
    tokenizer = runner.tokenizer
    ids = tokenizer.encode(only_text(text)).ids[1:-1]
    blanks = [place for place, token in enumerate(ids) if token == tokenizer.mask_id]
    if not blanks:
        (mask,) = tokenizer.tokens_of([tokenizer.mask_id])
        raise DataError(f"the text has no {mask}: write {mask} where a token is to be found")
    bounds = [window_around(place, len(ids), runner.room) for place in blanks]
    windows: dict[tuple[int, int], list[int]] = {}
    for place, (start, stop) in zip(blanks, bounds, strict=True):
        windows.setdefault((start, stop), []).append(place - start + 1)
    return Blanks(ids, list(windows), list(windows.values()))


def judge_blanks(runner: Runner, x: Tensor, top: int) -> list[Blank]:
    """What stands at K places, by their vectors `[K, H]` of the last layer; ids that stand for no
    token are no answer."""
    head, tokenizer = runner.learner.objectives["masked_lm"], runner.tokenizer
    assert isinstance(head, MaskedLM)
    missing = tokenizer.ids_without_token
    with torch.inference_mode():
        probabilities = head.logits(x).float().softmax(-1)[:, : tokenizer.vocab_size]
        probabilities[:, missing] = -1
        best = probabilities.topk(min(top, probabilities.shape[1] - len(missing)))
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
        DataError: no text, no [MASK] in it, or no masked LM head in the checkpoint.
        ConfigError: `top` is no whole number from 1.
    """
    if not is_count(top):
        raise ConfigError(f"top is {top!r}; expected 1 or more")
    blanks = find_blanks(runner, text)
    found: list[list[Blank]] = [[]] * len(blanks.places)
    for rows, encoded in runner.run(blanks.pieces(runner.tokenizer), places=blanks.places):
        of_rows = torch.split(encoded.last, [len(blanks.places[row]) for row in rows])
        for row, x in zip(rows, of_rows, strict=True):
            found[row] = judge_blanks(runner, x, top)
    return list(chain.from_iterable(found))
