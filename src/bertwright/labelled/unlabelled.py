"""Leave out the examples whose label says that they have none.

| label | written by | left out |
|---|---|---|
| -1 | data sets of Hugging Face: SNLI's pairs without agreement, the test files of GLUE | yes |
| -1 in a file of -1, 0 and 1, or of -1 and 1 | also a usual class, such as negative | a bad row |
| - | SNLI and MNLI, of whose pairs the other labels are entailment, neutral, contradiction | yes |
"""

from __future__ import annotations

from collections.abc import Sequence

from bertwright.errors import listed, shorten
from bertwright.labelled.examples import Example, SimilarityExample, TextExample
from bertwright.labelled.label_names import UNSEEN, expected_label
from bertwright.rows.bad_rows import BadRowLog

_INFERENCE = {"entailment", "neutral", "contradiction", "not_entailment"}
_MINUS_ONE = "the label -1, with which data sets of Hugging Face say that there is no label"
_DASH = "the label '-', with which SNLI and MNLI say that the annotators did not agree"


def without_unlabelled(
    examples: list[Example], log: BadRowLog, known: Sequence[str] | None
) -> list[Example]:
    """Return the examples without those that have no label, which are counted in the log.

    Args:
        known: the classes of the model that the file is read for; None: not known.
    """
    marks = [_mark(example) for example in examples]
    rest = {*marks} - {"-", "-1", ""}
    classes = {*(known or ())}
    has_dash = "-" in marks and rest and {name.lower() for name in rest} <= _INFERENCE
    has_one = "-1" in marks and "-1" not in classes and not any(map(_is_negative, rest))
    if not {"-", "-1"}.intersection(marks):
        return examples
    if known is None:
        unclear = bool(rest) and rest <= {"0", "1"}
    else:  # 0 and 1 were read as the first classes of a model with names, but -1 may be its first
        unclear = len(known) > 2 and rest <= {*known[:2]} and not all(map(str.isdecimal, known))
    kept: list[Example] = []
    for example, mark in zip(examples, marks, strict=True):
        if mark == "-" and has_dash:
            log.skipped.add(example.line, _DASH)
        elif mark != "-1" or not has_one:
            if known is None or mark not in ("-", "-1") or mark in classes:
                kept.append(example)
            else:
                log.bad(example.line, UNSEEN, shorten(mark), expected_label(mark, known))
        elif unclear:
            expected = (
                f"a class. Beside the labels {listed(sorted(rest))} it may also be one, as "
                "negative: then name it with --label-map -1=NAME"
            )
            log.bad(example.line, _MINUS_ONE, "", expected)
        else:
            log.skipped.add(example.line, f"{_MINUS_ONE} (if it is a class: --label-map -1=NAME)")
    return kept


def _mark(example: Example) -> str:
    """Return the label of a text or a pair, with numbers in their shortest form; "" for others."""
    if not isinstance(example, TextExample | SimilarityExample):
        return ""
    label = example.label
    if isinstance(label, tuple):
        label = label[0] if len(label) == 1 else None
    if label is None:
        return ""
    try:
        number = float(label)
    except ValueError:
        return label if isinstance(label, str) else ""
    return f"{number:g}"


def _is_negative(mark: str) -> bool:
    return mark.startswith("-") and mark[1:].replace(".", "", 1).isdecimal()
