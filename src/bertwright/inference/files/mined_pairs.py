"""Read the pairs for which hard negatives are mined, and write them with these; without torch, so
that a wrong file is reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO, cast

from bertwright.errors import DataError
from bertwright.labelled.examples import SimilarityExample
from bertwright.labelled.read import read_examples
from bertwright.labelled.similarities import PAIRS
from bertwright.tasks.similarity.forms import form_of, is_positive


def read_pairs(path: str) -> list[SimilarityExample]:
    """Return the pairs of a file whose texts belong together.

    Raises:
        DataError: the file cannot be read, or has scores.
    """
    try:
        read = read_examples(path, PAIRS)
    except DataError as error:
        what, no_columns, _ = str(error).partition(". Name ")
        if not no_columns:
            raise
        raise DataError(
            f"{what}. Rename the two columns of --pairs to anchor and positive"
        ) from error
    examples = cast(Sequence[SimilarityExample], read.examples)
    if form_of(examples) == "scores":
        raise DataError(
            f"{path} has scores, which do not say what belongs together; expected pairs, or labels "
            "such as 0 and 1"
        )
    return [each for each in examples if is_positive(each)]


def write_mined(
    file: TextIO, pairs: Sequence[SimilarityExample], negatives: Sequence[Sequence[str]]
) -> None:
    """Write pairs with their hard negatives as JSON lines, which `finetune similarity` reads."""
    for pair, hard in zip(pairs, negatives, strict=True):
        row: dict[str, Any] = {"anchor": pair.text, "positive": pair.text2}
        row["negatives"] = [*pair.negatives, *hard]
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
