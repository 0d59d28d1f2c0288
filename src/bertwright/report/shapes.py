"""What the files of a run hold, as far as a page reads them; a file that differs is damaged.

A shape is a kind of value, a list of one shape, a tuple of shapes, None for anything, or an object:
its keys with a shape each, where `key?` may be missing or null, and `ANY` stands for every other
key. Keys that a shape does not name are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from bertwright.errors import DataError
from bertwright.report.numbers import number

ANY = "*"
_LONGEST = 40
"""Characters of a value in a message."""


class Kind(NamedTuple):
    """A value that is no list and no object."""

    expected: str
    fits: Callable[[object], bool]


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
FINITE = Kind("a number", lambda value: number(value) is not None)
NUMBER = Kind("a number", lambda value: value is None or type(value) in (int, float))
"""Or null, as infinity and NaN are written: such a figure is shown as a dash."""
SHARE = Kind("a number from 0 to 1", lambda value: 0 <= _finite(value) <= 1)
COUNT = Kind(
    "a whole number, 0 or more",
    lambda value: 0 <= _finite(value) < 2**63 and float(_finite(value)).is_integer(),
)
WORD = Kind("a text or a number", lambda value: isinstance(value, (str, int, float)))

METRICS = {ANY: NUMBER}
_LENGTHS = {
    "examples?": COUNT,
    "histogram?": {"width?": COUNT, "counts?": [COUNT], "beyond?": COUNT},
    ANY: NUMBER,
}
_TASK: dict[str, Any] = {
    "name?": TEXT,
    "model?": TEXT,
    "transfer?": TEXT,
    "main?": TEXT,
    "best_seed?": NUMBER,
    "task?": {"kind?": TEXT, "max_length?": COUNT, "stride?": COUNT},
    "settings?": {ANY: None},
    "data?": {
        ANY: {"examples?": COUNT, "skipped?": {ANY: {"count?": COUNT}}},
    },
    "seeds?": [
        {
            "seed?": NUMBER,
            "metrics?": METRICS,
            "best_epoch?": NUMBER,
            "epochs?": NUMBER,
            "seconds?": NUMBER,
            "examples_per_second?": NUMBER,
        }
    ],
    "diverged?": [NUMBER],
    "summary?": {ANY: METRICS},
    "intervals?": {ANY: (NUMBER, NUMBER)},
    "baselines?": {ANY: METRICS},
    "per_class?": [
        {
            "label?": WORD,
            "precision?": NUMBER,
            "recall?": NUMBER,
            "f1?": NUMBER,
            "support?": COUNT,
        }
    ],
    "confusion?": {
        "labels?": [WORD],
        "counts?": [[COUNT]],
        "by_label?": [((COUNT, COUNT), (COUNT, COUNT))],
    },
    "calibration?": {
        "error?": NUMBER,
        "bins?": [{"count?": COUNT, "confidence?": NUMBER, "accuracy?": SHARE}],
    },
    "worst?": [{"score?": NUMBER}],
    "lengths?": {ANY: _LENGTHS},
    "tuned?": METRICS,
    "warnings?": [TEXT],
}
_RECORD = {"split?": TEXT, ANY: NUMBER}
_GLUE = {
    "model?": TEXT,
    "average?": NUMBER,
    "average_without_wnli?": NUMBER,
    "tasks?": {
        ANY: {
            "train?": COUNT,
            "dev?": COUNT,
            "seeds?": COUNT,
            "metrics?": {ANY: METRICS},
            "baselines?": {ANY: METRICS},
            "more?": METRICS,
            "warnings?": [TEXT],
        }
    },
    "settings?": {ANY: None},
}
_DOCTOR = {"findings?": [{"level?": TEXT, "name?": TEXT, "message?": TEXT, "advice?": TEXT}]}
_SENTENCE = {"text": TEXT, "module": TEXT}
_EXAMPLES = {
    "baselines?": METRICS,
    "comparison?": [
        {
            "task": TEXT,
            "measure": TEXT,
            "count": COUNT,
            "figures": {ANY: FINITE},
            "note?": TEXT,
        }
    ],
    "blanks?": [
        {
            "text": TEXT,
            "truth": TEXT,
            "module": TEXT,
            "top": [{"token": TEXT, "probability": FINITE}],
        }
    ],
    "pairs?": [{"first": TEXT, "second": TEXT, "follows": FLAG, "probability": FINITE}],
    "neighbours?": [{"query": TEXT, "module": TEXT, "bert": _SENTENCE, "tfidf": _SENTENCE}],
    "note?": TEXT,
}
_CURVE = {
    "labels": [TEXT],
    "sizes": [COUNT],
    "epochs": [COUNT],
    "learning_rate": FINITE,
    "test": {"examples": COUNT},
    "methods": [
        {"name": TEXT, "accuracy": [SHARE], "intervals": [(FINITE, FINITE)], "degenerate": [FLAG]}
    ],
    "hidden": TEXT,
    "words": (COUNT, COUNT),
    "command": TEXT,
}


Check = Callable[[object, str], None]
"""What raises DataError unless a value, of the file it names, is what pages read of it."""


def expect_object(found: object, file: str) -> None:
    """`environment.json`, `trainer.json`: any object."""
    _expect(found, {}, file)


def expect_record(found: object, file: str) -> None:
    """An object of `metrics.jsonl`."""
    _expect(found, _RECORD, file)


def expect_doctor(found: object, file: str) -> None:
    """`doctor.json`."""
    _expect(found, _DOCTOR, file)


def expect_examples(found: object, file: str) -> None:
    """`examples.json` of a quickstart."""
    _expect(found, _EXAMPLES, file)


def expect_glue(found: object, file: str) -> None:
    """`glue.json`."""
    _expect(found, _GLUE, file)


def expect_results(found: object, file: str) -> None:
    """`results.json`, of a task or several; a matrix has a row and a column for each label."""
    _expect(found, {**_TASK, "tasks?": {ANY: _TASK}}, file)
    whole = cast(dict[str, Any], found)
    tasks = {f"tasks.{name}.": each for name, each in (whole.get("tasks") or {}).items()}
    for prefix, task in {"": whole, **tasks}.items():
        confusion = (task or {}).get("confusion") or {}
        labels = confusion.get("labels") or []
        place = f"{prefix}confusion.counts"
        counts = confusion.get("counts") or []
        if labels and counts:
            _expect_as_many(counts, labels, file, place)
            for number_of, row in enumerate(counts):
                _expect_as_many(row, labels, file, f"{place}[{number_of}]")


def expect_curve(found: object, file: str) -> None:
    """`learning_curve.json` of a quickstart: every method has a figure of each size."""
    if isinstance(found, Mapping) and "left_out" in found:
        return
    _expect(found, _CURVE, file)
    whole = cast(dict[str, Any], found)
    for key in ("sizes", "methods"):
        if not whole[key]:
            raise _damaged(file, key, whole[key], "a list that is not empty")
    for place, method in enumerate(whole["methods"]):
        for key in ("accuracy", "intervals", "degenerate"):
            _expect_as_many(method[key], whole["sizes"], file, f"methods[{place}].{key}")


def _expect(found: object, shape: Any, file: str, place: str = "") -> None:
    """Hold a value against a shape.

    Args:
        found: as JSON gave it.
        shape: as above; None takes everything.
        file: named in the message.
        place: of the value in the file, `seeds[0].metrics`; empty: the whole.

    Raises:
        DataError: it differs.
    """
    if shape is None:
        return
    if isinstance(shape, Kind):
        if not shape.fits(found):
            raise _damaged(file, place, found, shape.expected)
    elif isinstance(shape, Mapping):
        if not isinstance(found, Mapping):
            raise _damaged(file, place, found, "an object")
        _expect_keys(found, shape, file, place)
    else:
        if not isinstance(found, list):
            raise _damaged(file, place, found, "a list")
        if isinstance(shape, tuple) and len(found) != len(shape):
            raise _damaged(file, place, found, f"a list of {len(shape)}")
        shapes = shape if isinstance(shape, tuple) else shape * len(found)
        for index, (each, its) in enumerate(zip(found, shapes, strict=True)):
            _expect(each, its, file, f"{place}[{index}]")


def _damaged(file: str, place: str, found: object, expected: str) -> DataError:
    """The error of a value that is not what a file of a run has there."""
    shown = json.dumps(found, default=str)
    shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
    what = f"{place} is" if place else "it holds"
    return DataError(
        f"{file} is damaged: {what} {shown}, expected {expected}; remove it or write it again"
    )


def _expect_as_many(found: list[Any], others: list[Any], file: str, place: str) -> None:
    """One for each of the others."""
    if len(found) != len(others):
        raise _damaged(file, place, found, f"a list of {len(others)}")


def _expect_keys(found: Mapping[str, Any], shape: Mapping[str, Any], file: str, place: str) -> None:
    prefix = f"{place}." if place else ""
    known = {key.removesuffix("?"): (value, key.endswith("?")) for key, value in shape.items()}
    for key, (value, may_be_missing) in known.items():
        if key == ANY or (may_be_missing and found.get(key) is None):
            continue
        if key not in found:
            raise _damaged(file, place, found, f"the key {key!r} in it")
        _expect(found[key], value, file, f"{prefix}{key}")
    if ANY in known:
        for key in [key for key in found if key not in known]:
            _expect(found[key], known[ANY][0], file, f"{prefix}{key}")


def _finite(value: object) -> float:
    """A finite number as it is, of all else one below 0."""
    found = number(value)
    return -1.0 if found is None else found
