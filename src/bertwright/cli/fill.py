"""`bertwright fill`: predict the [MASK] tokens of a text."""

from __future__ import annotations

from bertwright.cli.options import Json
from bertwright.cli.output import print_json, print_table


def fill(text: str, *, model: str, top: int = 5, json: Json = False) -> None:
    """Predict the [MASK] tokens of a text.

    Args:
        text: A text with one or more [MASK].
        model: A run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME).
        top: Number of tokens to show for each [MASK].
    """
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    from bertwright.inference.model import load

    blanks = load(model).fill(text, top)
    if json:
        listed = [[{"token": token, "probability": p} for token, p in blank] for blank in blanks]
        print_json({"text": text, "blanks": listed})
        return
    many = len(blanks) > 1
    rows = [
        [*([str(number)] if many else []), token, f"{probability:.1%}"]
        for number, blank in enumerate(blanks, start=1)
        for token, probability in blank
    ]
    print_table([*(["blank"] if many else []), "token", "probability"], rows)
