"""`bertwright next-sentence`: whether one text follows another."""

from __future__ import annotations

import math

from bertwright.cli.options import NOT_FINITE, Json
from bertwright.cli.output import print_fields, print_json, say
from bertwright.errors import DataError


def next_sentence(first: str, second: str, *, model: str, json: Json = False) -> None:
    """Predict whether text B follows text A.

    Args:
        first: Text A.
        second: Text B.
        model: A run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME).
    """
    from bertwright.inference.model import load
    from bertwright.inference.next_sentence import next_sentence as predict

    runner = load(model).runner
    found = predict(runner, first, second)
    if not math.isfinite(found.probability):
        raise DataError(f"{model} {NOT_FINITE}")
    if found.tokens_truncated:
        say(f"{found.tokens_truncated} tokens far from the joint were left out: the pair is long")
    if json:
        print_json(
            {
                "first": first,
                "second": second,
                "probability": found.probability,
                "tokens_cut": found.tokens_truncated,
            }
        )
        return
    print_fields({"probability that B follows A": f"{found.probability:.4f}"})
