"""What a file calls a class, and what the model calls it.

A label that the model has not is read as one that it has where only one can be meant: a number by
the order of the model's classes (0 and 1 of a model of NEGATIVE and POSITIVE, or of LABEL_0 and
LABEL_1), another spelling of one number (`1.0`), other capital letters. Each is counted and said.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from bertwright.errors import DataError
from bertwright.labelled.source import BadRowLog, BadValue, listed, shorten

UNSEEN = "label unseen in training"
_OTHERWISE = "labels are written otherwise than in training, and read as the same"
_NUMBER = re.compile(r"(?:LABEL_)?(\d+)(?:\.0*)?", re.IGNORECASE)


def known_label(name: str, known: Sequence[str], log: BadRowLog, line: int) -> str:
    """Return the one of the model's `known` classes that a label of a file means.

    Raises:
        BadValue: none, or it is not clear which.
        DataError: a number that is no index of a class, where labels are numbers.
    """
    if name in known:
        return name
    same = [each for each in known if each.lower() == name.lower()]
    number = _NUMBER.fullmatch(name)
    if number and not same:
        same = [each for each in known if _number(each) == int(number[1])]
    if len(same) == 1:
        example = f"{_OTHERWISE} ({shorten(name)} as {shorten(same[0])})"
        log.mended.add(line, next((w for w in log.mended if w.startswith(_OTHERWISE)), example))
        return same[0]
    if number and not any(_number(each) is not None for each in known):
        index = int(number[1])
        if index >= len(known):
            raise DataError(
                f"{log.at(line)}: the label {shorten(name)} is no number of one of the model's "
                f"{len(known)} classes, which count from 0: {listed(known)}. Say which label means "
                f"which class: --label-map {name}={quoted(known[-1])} ..."
            )
        order = ", ".join(f"{at} = {each}" for at, each in enumerate(known[:20]))
        log.mended.add(
            line,
            f"labels are numbers, read as the classes of the model in its order ({order}); if the "
            f"order is another, say it: --label-map 0={quoted(known[-1])} ...",
        )
        return known[index]
    raise BadValue(UNSEEN, shorten(name), expected_label(name, known))


def expected_label(name: str, known: Sequence[str]) -> str:
    """Return the known labels, for a message, which of them is nearest, and the option for other
    names."""
    names = f"one of {listed(known)}"
    if near := difflib.get_close_matches(name, known, n=1):
        return f"{names} (did you mean {shorten(near[0])}?)"
    if len(name) > 40:
        return names
    return (
        f"{names}; if it is one under another name: --label-map {quoted(name)}={quoted(known[0])}"
    )


def warn_of_spellings(names: Iterable[str], log: BadRowLog) -> None:
    """Warn of classes that are one number (`1` and `1.0`), or differ in capital letters alone."""
    groups: dict[object, list[str]] = {}
    for name in sorted({*names}):
        number = _value(name)
        key = " ".join(name.lower().split()) if number is None else number
        groups.setdefault(key, []).append(name)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    if not several:
        return
    shown = "; ".join(" and ".join(map(shorten, group)) for group in [*several.values()][:5])
    numbers = any(isinstance(key, float) for key in several)
    what = "are one number" if numbers else "differ in capital letters or blanks alone"
    pairs = [
        f"{quoted(each)}={quoted(first)}" for first, *rest in several.values() for each in rest
    ]
    log.warn(
        f"labels that {what} are different classes: {shown}. To join them: --label-map "
        f"{' '.join(pairs[:10])}"
    )


def _number(name: str) -> int | None:
    found = _NUMBER.fullmatch(name)
    return int(found[1]) if found else None


def _value(name: str) -> float | None:
    try:
        return float(name) if re.fullmatch(r"[-+]?[\d.]+", name) else None
    except ValueError:
        return None


def quoted(name: str) -> str:
    """A label as a shell takes it."""
    return name if re.fullmatch(r"[\w.@%+,:/-]+", name) else "'" + name.replace("'", "'\\''") + "'"
