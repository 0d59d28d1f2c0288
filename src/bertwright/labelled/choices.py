"""Multiple choice: SWAG's CSV and rows with a list of choices.

| files | text | text2 | choices | label |
|---|---|---|---|---|
| SWAG | sent1 | sent2 | ending0 to ending3 | from 0 |
| HellaSwag | ctx_a | ctx_b | endings | from 0 |
| COPA | premise | question | choice1, choice2 | from 0 |
| RACE | article | question | options | A, B, ... |
| ARC, CommonsenseQA | question | | choices (`text`, `label`) | one of `label` |

A label is the number of a choice from 0, a letter from A, or the text of a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns, Groups, find, find_chosen, find_id, find_one, plain
from bertwright.labelled.examples import ChoiceExample
from bertwright.labelled.source import BadRowLog, BadValue, listed, shorten
from bertwright.labelled.table import Table
from bertwright.labelled.texts import read_name, read_text

FIRST: Groups = (
    ("sent1", "ctx_a", "context", "article", "passage", "premise", "text"),
    ("question", "sentence", "ctx", "query"),
)
SECOND: Groups = (("sent2", "ctx_b", "text2"), ("question",))
LISTS: Groups = (("choices", "endings", "options"), ("answers", "candidates"))
LABELS: Groups = (("label", "labels", "gold_label"), ("answer", "answer_key", "answerkey"))
_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d+)")


def choice_columns(table: Table, chosen: Columns, *, label: bool) -> tuple[Columns, list[str]]:
    """The columns of text, second text and label, and those of the choices.

    One column of choices holds lists; several hold a choice each, in the order of their numbers.

    Raises:
        DataError: one is missing or ambiguous; lists those there.
    """
    there, name = table.columns, table.name
    choices = _choices(there, name)
    target = None
    if label:
        used = [*choices, chosen.text, chosen.text2]
        target = find(chosen.label, LABELS, "labels", "--label", there, name, used)
    used = [*choices, target, chosen.text2]
    text = find(chosen.text, FIRST, "texts", "--text", there, name, used)
    text2 = find_chosen(chosen.text2, there, name, "--text2") if chosen.text2 else None
    if text2 is None and chosen.text is None:
        rest = [column for column in there if column not in (*choices, target, text)]
        text2 = find_one(SECOND, rest, name, "--text2")
    return Columns(text, text2, target), choices


def _choices(there: list[str], name: str) -> list[str]:
    numbered: dict[str, list[tuple[int, str]]] = {}
    for column in there:
        if found := _NUMBERED.fullmatch(plain(column)):
            numbered.setdefault(found[1], []).append((int(found[2]), column))
    for columns in numbered.values():
        columns.sort()
        numbers = [number for number, _ in columns]
        if len(numbers) > 1 and numbers[0] in (0, 1):
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                raise DataError(f"{name}: choices are missing among {listed(columns)}")
            return [column for _, column in columns]
    lists = find_one(LISTS, there, name, "choices in the")
    if lists is None:
        raise DataError(
            f"{name} has no columns of choices; it has {listed(there)}. Expected ending0, ending1, "
            "... (or choice, option), or a list in choices, endings or options"
        )
    return [lists]


def choice_examples(
    table: Table, columns: Columns, choices: list[str], log: BadRowLog
) -> Iterator[ChoiceExample]:
    """The examples of a table; a bad row goes to `log`."""
    used = [*columns.names(), *choices]
    identifier = find_id(table.columns, used)
    names = [*used, *([identifier] if identifier else [])]
    for line, values in table.rows(names):
        row = dict(zip(names, values, strict=True))
        try:
            text = read_text(row[columns.text or ""], columns.text or "", log)
            second = row[columns.text2] if columns.text2 else None
            text2 = read_text(second, columns.text2 or "", log) if second not in (None, "") else ""
            texts, keys = _texts([row[name] for name in choices], choices, log)
            label = None
            if columns.label is not None:
                label = _label(row[columns.label], texts, keys, log.at(line))
        except BadValue as error:
            log.bad(line, error.reason, str(error))
            continue
        name = read_name(row[identifier] if identifier else None)
        yield ChoiceExample(text, texts, text2, label, name, line)


def _texts(
    cells: list[Any], columns: list[str], log: BadRowLog
) -> tuple[tuple[str, ...], list[str]]:
    """The choices of one row, and what its label may call them."""
    keys: list[str] = []
    if len(columns) == 1:
        (found,) = cells
        if isinstance(found, dict):
            letters, found = found.get("label"), found.get("text")
            keys = [str(key) for key in letters] if isinstance(letters, list) else []
        elif isinstance(found, list) and found and isinstance(found[0], dict):
            keys = [str(each.get("label")) for each in found if isinstance(each, dict)]
            found = [each.get("text") for each in found if isinstance(each, dict)]
        if not isinstance(found, list):
            raise BadValue(
                "choices of a wrong form",
                f"the column {shorten(columns[0])} holds {shorten(found)}; expected a list",
            )
        cells, columns = found, columns * len(found)
    if len(cells) < 2:
        raise BadValue("fewer than two choices", f"{len(cells)} choices; expected two or more")
    texts = tuple(read_text(cell, name, log) for cell, name in zip(cells, columns, strict=True))
    return texts, keys if len(keys) == len(texts) else []


def _label(value: Any, texts: tuple[str, ...], keys: list[str], where: str) -> int:
    """The number of the right choice.

    Raises:
        BadValue: it is no choice of this row.
        DataError: it is their number: labels that count from 1.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = "" if value is None else str(value).strip()
    if not name:
        raise BadValue("no label", "the label is empty; expected the number of a choice")
    if name in keys:
        return keys.index(name)
    if name.isdecimal():
        number = int(name)
    elif len(name) == 1 and name.isascii() and name.isalpha():
        number = ord(name.upper()) - ord("A")
    else:
        number = -1
    if not 0 <= number < len(texts) and name in texts:
        number = texts.index(name)
    if number == len(texts) and name.isdecimal():
        raise DataError(
            f"{where}: the label {shorten(value)} is one more than the last of {number} choices, "
            "which count from 0; where labels count from 1, take 1 from each"
        )
    if not 0 <= number < len(texts):
        raise BadValue(
            "label is no choice",
            f"the label {shorten(value)} is none of the {len(texts)} choices; expected 0 to "
            f"{len(texts) - 1}, a letter from A, or the text of one",
        )
    return number
