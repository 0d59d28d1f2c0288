"""Fill blanks: predict the tokens at the positions of [MASK] with the masked-LM head."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from bertwright.errors import ConfigError, DataError
from bertwright.inference.encode import ModelRunner, is_count, only_text
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import GivesLogits
from bertwright.text.framing import Framing
from bertwright.text.windows import Span, window_around

Blank = list[tuple[str, float]]
"""Tokens and their probabilities, the most probable first."""


@dataclass(frozen=True)
class Blanks:
    """A text with blanks, and the windows in which it is read."""

    framing: Framing
    ids: list[int]
    """The ids of the whole text, without special tokens."""
    spans: list[Span]
    """The whole text, or, if it is too long, the windows around its blanks."""
    positions: list[list[int]]
    """The positions in each window of the blanks that are predicted in it. Over all windows, the
    blanks are in the order of the text.
    """

    @property
    def tokens(self) -> int:
        """The number of tokens of the whole text, including special tokens."""
        return len(self.ids) + self.framing.special_tokens()

    @property
    def tokens_read(self) -> int:
        """The number of tokens of all windows."""
        special = self.framing.special_tokens()
        return sum(stop - start + special for start, stop in self.spans)

    def sequences(self) -> list[list[int]]:
        """Return the windows with special tokens. For a text with many blanks, they have many more
        ids than the text.
        """
        return [self.framing.one(self.ids[start:stop]) for start, stop in self.spans]


def find_blanks(runner: ModelRunner, text: str) -> Blanks:
    """Return the blanks of a text, with the window of each; see `fill` for the errors."""
    runner.require("masked_lm", "filling blanks")
    tokenizer, framing = runner.tokenizer, runner.tokenizer.framing
    (ids,) = tokenizer.encode_bare_ids([only_text(text)])
    blanks = [position for position, token in enumerate(ids) if token == tokenizer.mask_id]
    if not blanks:
        (mask,) = tokenizer.tokens_of([tokenizer.mask_id])
        raise DataError(f"the text has no {mask}: write {mask} where a token is to be found")
    windows: dict[Span, list[int]] = {}
    for position in blanks:
        start, stop = window_around(position, len(ids), runner.room())
        first = framing.inside(stop - start)[0].start
        windows.setdefault((start, stop), []).append(position - start + first)
    return Blanks(framing, ids, list(windows), list(windows.values()))


def predict_blanks(runner: ModelRunner, x: Tensor, top: int) -> list[Blank]:
    """Return the predictions for K positions from their vectors `[K, H]` of the last layer.

    Ids without a token are left out.
    """
    head, tokenizer = runner.learner.objectives["masked_lm"], runner.tokenizer
    assert isinstance(head, GivesLogits)
    missing = tokenizer.ids_without_token
    with torch.inference_mode():
        probabilities = head.logits(x).float().softmax(-1)[:, : tokenizer.vocab_size]
        require_finite(probabilities, "probabilities")
        probabilities[:, missing] = -1
        best = probabilities.topk(min(top, probabilities.shape[1] - len(missing)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [list(zip(tokenizer.shown(ids), values, strict=True)) for ids, values in pairs]


def fill(runner: ModelRunner, text: str, top: int = 5) -> list[Blank]:
    """Return the most probable tokens for every blank of a text.

    Each blank is predicted independently: the others stay blank.

    If a text is longer than the encoder reads at once, each blank is predicted in the window around
    it.

    Returns:
        A list of `top` tokens for each blank, in the text's order.

    Raises:
        DataError: the input is not a text, it has no [MASK], or the checkpoint has no masked-LM
            head.
        ConfigError: `top` is not an integer of at least 1.
    """
    if not is_count(top):
        raise ConfigError(f"top is {top!r}; expected 1 or more")
    blanks = find_blanks(runner, text)
    filled: list[list[Blank]] = [[]] * len(blanks.spans)
    for rows, encoded in runner.run(blanks.sequences(), positions=blanks.positions):
        of_rows = torch.split(encoded.last, [len(blanks.positions[row]) for row in rows])
        for row, x in zip(rows, of_rows, strict=True):
            filled[row] = predict_blanks(runner, x, top)
    return list(chain.from_iterable(filled))
