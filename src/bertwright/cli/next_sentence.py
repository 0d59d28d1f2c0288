"""`bertwright next-sentence`: predict whether one text follows another."""

from __future__ import annotations

from bertwright.cli.options import Json
from bertwright.cli.output import print_fields, print_json
from bertwright.console import say


def next_sentence(first: str, second: str, *, model: str, json: Json = False) -> None:
    """Predict whether text B follows text A.

    Args:
        first: Text A.
        second: Text B.
        model: A run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME).
    """
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    from bertwright.inference.model import load
    from bertwright.inference.next_sentence import next_sentence as predict

    runner = load(model).runner
    probability, left_out = predict(runner, first, second)
    if left_out:
        say(
            f"the pair is too long: {left_out} tokens were truncated at the start of the first "
            "text and the end of the second"
        )
    if json:
        print_json(
            {
                "first": first,
                "second": second,
                "probability": probability,
                "tokens_cut": left_out,
            }
        )
        return
    print_fields({"probability that B follows A": f"{probability:.4f}"})
