"""`bertwright fill`: the tokens that a model predicts for [MASK]."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter

from bertwright.cli.options import NOT_FINITE, Json
from bertwright.cli.output import print_json, print_table
from bertwright.errors import DataError


def fill(
    text: Annotated[str, Parameter(help="A text with one or more [MASK].")],
    *,
    model: Annotated[
        str, Parameter(help="A run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME).")
    ],
    top: Annotated[int, Parameter(help="Tokens to show per [MASK].")] = 5,
    json: Json = False,
) -> None:
    """Predict the [MASK] tokens of a text."""
    from bertwright.inference.model import load

    blanks = load(model).fill(text, top)
    if not all(math.isfinite(p) for blank in blanks for _, p in blank):
        raise DataError(f"{model} {NOT_FINITE}")
    if json:
        listed = [[{"token": token, "probability": p} for token, p in blank] for blank in blanks]
        print_json({"text": text, "blanks": listed})
        return
    many = len(blanks) > 1
    rows = [
        [*([str(number)] if many else []), token, f"{probability:.4f}"]
        for number, blank in enumerate(blanks, start=1)
        for token, probability in blank
    ]
    print_table([*(["blank"] if many else []), "token", "probability"], rows)
