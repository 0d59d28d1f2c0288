"""Read multiple choice: tables like SWAG, HellaSwag and COPA (labels from 0), RACE (from A), or ARC
(letters, or numbers from 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

from bertwright.errors import DataError, listed, shorten
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import ChoiceExample
from bertwright.labelled.file import File, LabelledTable, Reader, Row, Stream, read_text
from bertwright.rows.bad_rows import BadRowLog, BadValue
from bertwright.rows.columns import plain
from bertwright.rows.read import MemoryRows

_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d+)")
_ARC = (
    "import json, sys; [print(json.dumps({**r, 'question': r['question']['stem'], 'choices': "
    "r['question']['choices']})) for r in map(json.loads, sys.stdin)]"
)
_RACE = (
    "import json, sys; [print(json.dumps({'article': r['article'], 'question': q, 'options': o, "
    "'answer': a})) for r in map(json.load, map(open, sys.argv[1:])) for q, o, a in "
    "zip(r['questions'], r['options'], r['answers'])]"
)


def read_choices(file: File) -> Stream:
    """Read a table of multiple-choice questions.

    The choices are either one column of lists, or several numbered columns with one choice each.
    """
    in_memory = isinstance(file.rows.content, MemoryRows)
    table = file.table()
    _refuse_nested(table)
    chosen, choices = table.chosen, _choices(table)
    target = table.label("right choices", [*choices, *chosen.texts()])
    others = [*choices, target, chosen.text2]
    text = table.find(chosen.text, "premises", "--text", others)
    text2 = None if chosen.text2 is None else table.named(chosen.text2, "--text2")
    if text2 is None and chosen.text is None:
        text2 = table.known("second texts", "--text2", [*others, text])
    columns = Columns(text, text2, target)
    names = file.options.label_map
    keys = _Keys(from_zero=in_memory or choices[0].endswith("0"))

    def make(row: Row, id_: str, line: int) -> ChoiceExample:
        first = read_text(row, text)
        second = read_text(row, text2) if row.get(text2) not in (None, "") else ""
        texts, own = _texts(row, choices)
        label = None
        if target is not None:
            name = str(row[target]).strip().removesuffix(".0")
            label = keys.index(names.get(name, name), own, len(texts), line)
            keys.letters |= name.isalpha() and not own
        return ChoiceExample(first, texts, second, label, id_, line)

    examples: Iterable[ChoiceExample]
    examples = table.examples([*columns.names(), *choices], make)
    if target is not None:
        examples = keys.counted(examples, file.log)
    return table.stream(examples, columns, *choices)


def _refuse_nested(table: LabelledTable) -> None:
    """Raise DataError for ARC, CommonsenseQA and RACE in the nesting of their authors."""
    first: dict[str, Any] = next(
        (dict(zip(table.columns, r, strict=True)) for r in table.sample()), {}
    )
    if isinstance(first.get("question"), dict) and "stem" in first["question"]:
        what, program, files = "a question with its choices inside (ARC, CommonsenseQA)", _ARC, "<"
    elif isinstance(first.get("questions"), list) and "options" in first:
        what, program, files = "several questions a row (RACE)", _RACE, ""
    else:
        return
    raise DataError(
        f'{table.name} has {what}; expected a question a row. Convert it: python -c "{program}" '
        f"{files} {table.name} > questions.jsonl".replace("  ", " ")
    )


def _choices(table: LabelledTable) -> list[str]:
    numbered: dict[str, dict[int, str]] = {}
    for column in table.columns:
        if match := _NUMBERED.fullmatch(plain(column)):
            numbered.setdefault(match[1], {})[int(match[2])] = column
    for columns in numbered.values():
        first, last = min(columns), max(columns)
        if first < 2 <= len(columns):
            if len(columns) != last - first + 1:
                raise DataError(
                    f"{table.name}: choices are missing among {listed([*columns.values()])}"
                )
            return [columns[number] for number in sorted(columns)]
    if lists := table.known("choices", "--text"):
        return [lists]
    raise DataError(
        f"{table.name} has no choices; it has {listed(table.columns)}. Name columns ending0, "
        "ending1, ... (or choice, option), or one column `choices` that holds lists"
    )


def _texts(row: Row, columns: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the choices of a row, and their own labels ([] if they have none)."""
    cells = [row[name] for name in columns]
    labels: list[str] = []
    if len(columns) == 1:
        cells, labels = _labelled(cells[0])
        if not isinstance(cells, list):
            came = f"{shorten(cells)} in the column {shorten(columns[0])}"
            raise BadValue("choices of a wrong form", came, "a list of texts")
        columns = columns * len(cells)
    if len(cells) < 2:
        raise BadValue("fewer than two choices", str(len(cells)), "two or more")
    texts = (read_text({name: each}, name) for name, each in zip(columns, cells, strict=True))
    return tuple(texts), labels


def _labelled(cell: Any) -> tuple[Any, list[str]]:
    """Return the choices of a cell and their labels: of `{"text": [...], "label": [...]}`, or of a
    list of `{"text": ..., "label": ...}`.
    """
    if isinstance(cell, list) and cell and all(isinstance(each, dict) for each in cell):
        cell = {key: [each.get(key) for each in cell] for key in ("text", "label")}
    if not isinstance(cell, dict):
        return cell, []
    texts, labels = cell.get("text"), cell.get("label")
    if not (isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels)):
        return cell, []
    return texts, [str(label).strip() for label in labels]


class _Keys:
    """The answer keys of a file. Whether numbers count from 0 or 1 is known when all are read."""

    def __init__(self, from_zero: bool) -> None:
        self.from_zero = from_zero
        """Whether numbers count from 0 if the keys do not show it."""
        self.letters = False
        """Whether a key is a letter."""
        self.numbers: dict[int, tuple[int, int]] = {}
        """The key and the number of choices by line, for keys that are numbers."""

    def index(self, name: str, own: list[str], choices: int, line: int) -> int:
        """Return the index of the right choice, or the number of which `counted` finds it."""
        if name in own:
            return own.index(name)
        if len(name) == 1 and name.isascii() and name.isalpha() and not own:
            number, most = ord(name.upper()) - ord("A"), choices - 1
        else:
            number, most = int(name) if name.isdecimal() and not own else -1, choices
            self.numbers[line] = number, choices
        if not 0 <= number <= most:
            self.numbers.pop(line, None)
            expected = listed(own) if own else f"a number up to {choices}, or a letter from A"
            raise BadValue("label is no choice", shorten(name), expected)
        return number

    def counted(self, examples: Iterable[ChoiceExample], log: BadRowLog) -> Iterator[ChoiceExample]:
        """Yield the examples with their indices, once all are read."""
        held = [*examples]
        least = min((number for number, _ in self.numbers.values()), default=0)
        beyond = next((line for line, (n, most) in self.numbers.items() if n == most), None)
        if least == 0 and beyond is not None:
            first = next(line for line, (number, _) in self.numbers.items() if number == 0)
            raise DataError(
                f"{log.at(beyond)}: the label {shorten(self.numbers[beyond][0])} is the last "
                f"choice if labels count from 1, but the label of {log.unit} {first:,} is 0"
            )
        from_one = least > 0 and (beyond is not None or self.letters)
        if least > 0 and not from_one and not self.from_zero:
            line, (number, most) = next(iter(self.numbers.items()))
            letters = dict(enumerate(ascii_uppercase[:most]))
            one = " ".join(f"{at + 1}={letter}" for at, letter in letters.items())
            zero = " ".join(f"{at}={letter}" for at, letter in letters.items() if at)
            raise DataError(
                f"{log.at(line)}: the label {shorten(number)} is a number, and no label of the "
                "file shows whether they count from 0 or 1 (none is 0, or the number of choices). "
                f"Say which: --label-map {one} (from 1), or --label-map {zero} (from 0)"
            )
        for each in held:
            if from_one and each.line in self.numbers and each.label is not None:
                each = replace(each, label=each.label - 1)
            yield each


CHOICES = Reader(read_choices)
