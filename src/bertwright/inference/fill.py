"""Fill blanks: the masked LM head over the places where a text says [MASK]."""

from __future__ import annotations

import torch

from bertwright.errors import ConfigError, DataError
from bertwright.inference.runner import Runner, window_around
from bertwright.objectives.masked_lm import MaskedLM

Blank = list[tuple[str, float]]
"""Tokens and their probabilities, likeliest first."""


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
    runner.require("masked_lm", "filling blanks")
    tokenizer = runner.tokenizer
    ids = tokenizer.encode(text).ids[1:-1]
    blanks = [place for place, token in enumerate(ids) if token == tokenizer.mask_id]
    if not blanks:
        (mask,) = tokenizer.tokens_of([tokenizer.mask_id])
        raise DataError(f"the text has no {mask}: write {mask} where a token is to be found")
    bounds = [window_around(place, len(ids), runner.room) for place in blanks]
    spans = list(dict.fromkeys(bounds))
    pieces = [[tokenizer.cls_id, *ids[a:b], tokenizer.sep_id] for a, b in spans]
    head = runner.learner.objectives["masked_lm"]
    assert isinstance(head, MaskedLM)
    found: dict[int, Blank] = {}
    for rows, encoded in runner.run(pieces, top=runner.config.num_hidden_layers):
        for row, offset in zip(rows, encoded.sequences.offsets[:-1], strict=True):
            start = spans[row][0]
            here = [p for p, bound in zip(blanks, bounds, strict=True) if bound == spans[row]]
            with torch.inference_mode():
                x = encoded.last[[offset + 1 + place - start for place in here]]
                probabilities = head.logits(x).float().softmax(-1)[:, : tokenizer.vocab_size]
                best = probabilities.topk(min(top, probabilities.shape[1]))
            for place, ids_of, shares in zip(
                here, best.indices.tolist(), best.values.tolist(), strict=True
            ):
                found[place] = list(zip(tokenizer.tokens_of(ids_of), shares, strict=True))
    return [found[place] for place in blanks]
