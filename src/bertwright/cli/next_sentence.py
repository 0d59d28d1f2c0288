"""`bertwright next-sentence`: whether one text follows another."""

from __future__ import annotations

import math
from typing import Annotated

from cyclopts import Parameter

from bertwright.cli.options import NOT_FINITE, Json
from bertwright.cli.output import print_fields, print_json, say
from bertwright.errors import DataError


def next_sentence(
    first: Annotated[str, Parameter(help="Text A.")],
    second: Annotated[str, Parameter(help="Text B: does it follow A?")],
    *,
    model: Annotated[str, Parameter(help="A run, a checkpoint or a Hugging Face BERT folder.")],
    json: Json = False,
) -> None:
    """Judge whether one text follows another."""
    from bertwright.inference.model import load
    from bertwright.inference.next_sentence import next_sentence as judge

    runner = load(model).runner
    judgement = judge(runner, first, second)
    if not math.isfinite(judgement.probability):
        raise DataError(f"{model} {NOT_FINITE}")
    if judgement.tokens_cut:
        say(f"{judgement.tokens_cut} tokens far from the joint were cut: the pair was too long")
    if json:
        print_json(
            {
                "first": first,
                "second": second,
                "probability": judgement.probability,
                "tokens_cut": judgement.tokens_cut,
            }
        )
        return
    print_fields({"probability that B follows A": f"{judgement.probability:.4f}"})
