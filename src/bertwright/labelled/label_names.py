"""Map the labels of a file to the classes of a model.

A label that the model does not have is mapped to one of its classes if the meaning is unambiguous:
a number is the index of a class (0 and 1 for a model with NEGATIVE and POSITIVE, or LABEL_0 and
LABEL_1), `1.0` is `1`, and capitalization may differ. Every such mapping is counted and reported.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from bertwright.errors import DataError, listed, shorten
from bertwright.rows.bad_rows import BadRowLog, BadValue

UNSEEN = "label unseen in training"
_OTHERWISE = "labels are spelled differently than in training, and read as the same class"
_NUMBER = re.compile(r"(?:LABEL_)?(\d+)(?:\.0*)?", re.IGNORECASE)


def known_label(name: str, known: Sequence[str], log: BadRowLog, line: int) -> str:
    """Return the one of the model's `known` classes that a label in a file means.

    Raises:
        BadValue: no class fits, or more than one does.
    """
    if name in known:
        return name
    matches = [each for each in known if each.lower() == name.lower()]
    number = _NUMBER.fullmatch(name)
    if number and not matches:
        matches = [each for each in known if _number(each) == int(number[1])]
    if len(matches) == 1:
        example = f"{_OTHERWISE} ({shorten(name)} as {shorten(matches[0])})"
        log.mended.add(line, next((w for w in log.mended if w.startswith(_OTHERWISE)), example))
        return matches[0]
    if number and not any(_number(each) is not None for each in known):
        index = int(number[1])
        if index >= len(known):
            raise DataError(
                f"{log.at(line)}: the label {shorten(name)} is not the index of one of the model's "
                f"{len(known)} classes, which count from 0: {listed(known)}. Say which label means "
                f"which class: --label-map {name}={quoted(known[-1])} ..."
            )
        order = ", ".join(f"{at} = {each}" for at, each in enumerate(known[:20]))
        log.mended.add(
            line,
            f"labels are numbers, read as indices of the model's classes ({order}); if the order "
            f"differs, give it: --label-map 0={quoted(known[-1])} ...",
        )
        return known[index]
    raise BadValue(UNSEEN, shorten(name), expected_label(name, known))


def expected_label(name: str, known: Sequence[str]) -> str:
    """Return, for a message, the known labels, the nearest one, and the option that renames
    labels.
    """
    names = f"one of {listed(known)}"
    if near := difflib.get_close_matches(name, known, n=1):
        return f"{names} (did you mean {shorten(near[0])}?)"
    if len(name) > 40:
        return names
    return f"{names}; if it is another name for one: --label-map {quoted(name)}={quoted(known[0])}"


def warn_of_spellings(names: Iterable[str], log: BadRowLog) -> None:
    """Warn of classes that are the same number (`1` and `1.0`) or differ only in capitals or
    blanks.
    """
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
    what = "are the same number" if numbers else "differ only in capital letters or blanks"
    pairs = [
        f"{quoted(each)}={quoted(first)}" for first, *rest in several.values() for each in rest
    ]
    log.warn(
        f"labels that {what} are read as different classes: {shown}. To join them: --label-map "
        f"{' '.join(pairs[:10])}"
    )


def _number(name: str) -> int | None:
    match = _NUMBER.fullmatch(name)
    return int(match[1]) if match else None


def _value(name: str) -> float | None:
    try:
        return float(name) if re.fullmatch(r"[-+]?[\d.]+", name) else None
    except ValueError:
        return None


def quoted(name: str) -> str:
    """Return a label quoted for a shell."""
    return name if re.fullmatch(r"[\w.@%+,:/-]+", name) else "'" + name.replace("'", "'\\''") + "'"
