"""Entities marked in texts by characters, as annotation tools write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.file import Read
from tests.labelled.conftest import parse, tagged

Write = Callable[[str, Any], Path]
TEXT = "Ann Lee lives in Berlin."
TAGS = ("B-PER", "I-PER", "O", "O", "B-LOC", "O")


def lines(*rows: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, rows))


def read(write: Write, *rows: dict[str, Any], **options: Any) -> Read:
    return parse(write("a.jsonl", lines(*rows)), "tagging", **options)


@pytest.mark.parametrize(
    ("column", "entities"),
    [
        ("label", [[17, 23, "LOC"], [0, 7, "PER"]]),
        ("labels", [[0, 7, "PER"], [17, 23, "LOC"], [0, 7, "PER"]]),
        (
            "entities",
            [
                {"id": 3, "label": "PER", "start_offset": 0, "end_offset": 7},
                {"id": 4, "label": "LOC", "start_offset": 16, "end_offset": 23},
            ],
        ),
        (
            "spans",
            [{"start": 0, "end": 8, "label": "PER"}, {"start": 17, "end": 23, "type": "LOC"}],
        ),
    ],
)
def test_what_tools_write(write: Write, column: str, entities: list[Any]) -> None:
    """Also unsorted, twice the same, and with a blank at an end."""
    found = read(write, {"id": 1, "text": TEXT, column: entities}, {"text": "no one", column: []})
    first, second = found.examples
    assert isinstance(first, TaggingExample)
    assert isinstance(second, TaggingExample)
    assert (first.words, first.tags) == (("Ann", "Lee", "lives", "in", "Berlin", "."), TAGS)
    assert first.offsets is not None
    assert tuple(TEXT[start:end] for start, end in first.offsets) == first.words
    assert (first.text, second.tags) == (TEXT, ("O", "O"))
    assert found.columns == Columns("text", None, column)
    assert found.scheme == "iob2"
    assert found.warnings == []


def test_neighbours_of_one_label_stay_two(write: Write) -> None:
    found = read(write, {"text": "Ann Bob 李雷", "label": [[0, 3, "P"], [4, 7, "P"], [8, 10, "P"]]})
    assert tagged(found) == [("Ann Bob 李 雷", "B-P B-P B-P I-P")]


def test_an_entity_within_a_word_cuts_it_and_is_told(write: Write) -> None:
    found = read(
        write,
        {"text": "in Berlin", "label": [[3, 9, "LOC"]]},
        {"text": "pro-German e-mail", "label": [[4, 10, "MISC"], [13, 17, "X"]]},
    )
    assert tagged(found)[1] == ("pro- German e- mail", "O B-MISC O B-X")
    (warning,) = found.warnings
    assert "1 texts have entities that begin or end within a word" in warning
    assert "(line 2)" in warning


def test_the_columns_may_be_named(write: Write) -> None:
    path = write("a.json", [{"body": TEXT, "marks": [[0, 7, "PER"], [17, 23, "LOC"]]}])
    found = parse(path, "tagging", Columns("body", label="marks"))
    assert tagged(found) == [("Ann Lee lives in Berlin .", " ".join(TAGS))]
    assert parse(path, "tagging", hint=found.columns).examples == found.examples


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"text": "ab", "label": [[0, 3, "X"]]},
            r"line 1: entity that is not in the text: .*'X'.* 2 characters",
        ),
        ({"text": "ab", "label": [[1, 1, "X"]]}, "entity that is not in the text"),
        ({"text": "ab", "label": [[-1, 1, "X"]]}, "entity that is not in the text"),
        ({"text": "a  b", "label": [[1, 3, "X"]]}, "entity that is not in the text"),
        ({"text": "ab", "label": [[0, 1]]}, r"expected \[start, end, \"label\"\]"),
        ({"text": "ab", "label": [["0", "1", "X"]]}, r"expected \[start, end"),
        ({"text": "ab", "label": [[0, 1, " "]]}, r"expected \[start, end"),
        ({"text": "ab", "label": [{"start": 0, "label": "X"}]}, "an object with start, end"),
        ({"text": "ab", "label": "PER"}, "no list of entities: 'PER'; expected a list of"),
        ({"text": "ab", "label": ["O"]}, "'ab' in the column 'text'; expected a list of strings"),
        (
            {"text": "Bank of China", "label": [[8, 13, "LOC"], [0, 13, "ORG"]]},
            "line 1: entities that overlap: 'China'; expected one tag per word",
        ),
        ({"text": "ab", "other": []}, r"no column of entities or tags \(entities, spans, label"),
    ],
)
def test_what_is_refused(write: Write, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(write, row)


def test_a_label_that_training_had_not_is_refused_or_left_out(write: Write) -> None:
    rows = [{"text": "ab", "label": [[0, 2, label]]} for label in ("LOK", "LOC")]
    known: dict[str, Any] = {"labels": ["O", "B-LOC"], "as_scheme": "iob2"}
    message = "line 1: .*unseen in training: 'B-LOK'.*did you mean.*--bad-rows skip"
    with pytest.raises(DataError, match=message):
        read(write, *rows, **known)
    found = read(write, *rows, **known, bad_rows="skip")
    assert tagged(found) == [("ab", "B-LOC")]
    assert found.log.skipped["label unseen in training"].lines == [1]


PRODIGY = {
    "text": TEXT,
    "_task_hash": 7,
    "tokens": [{"text": "Ann", "start": 0, "end": 3, "id": 0}],
    "spans": [{"start": 0, "end": 7, "token_start": 0, "token_end": 1, "label": "PER"}],
    "answer": "accept",
}


def test_prodigys_own_tokens_are_passed_over_and_what_was_not_accepted_is_left_out(
    write: Write,
) -> None:
    """Rows without entities have no `spans` in some versions."""
    rest = ({**PRODIGY, "answer": "reject"}, {**PRODIGY, "answer": "ignore", "spans": []})
    bare = {key: value for key, value in PRODIGY.items() if key != "spans"}
    found = read(write, PRODIGY, *rest, bare)
    expected = ["B-PER I-PER O O O O", "O O O O O O"]
    assert [tags for _, tags in tagged(found)] == expected
    assert found.log.skipped["the annotator did not accept it (answer)"].lines == [2, 3]
    to_predict = read(write, PRODIGY, *rest, require_labels=False)
    assert tagged(to_predict) == [("Ann Lee lives in Berlin .", "")] * 3


def test_label_studios_small_export(write: Write) -> None:
    """JSON-MIN; `examples/label_studio.py` converts the other."""
    entity = {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}
    small = write("min.json", [{"id": 1, "text": "Ann sees", "label": [entity]}])
    assert tagged(parse(small, "tagging")) == [("Ann sees", "B-PER O")]


def test_characters_counted_as_in_javascript_are_told(write: Write) -> None:
    """There an emoji is two."""
    text = "\N{GRINNING FACE} Ann Lee lives"
    assert tagged(read(write, {"text": text, "label": [[2, 9, "P"]]}))[0][1] == "O B-P I-P O"
    found = read(write, {"text": text, "label": [[3, 10, "P"]]})
    assert "where an emoji is one" in found.warnings[0]
    with pytest.raises(DataError, match=r"of 15 characters.*an emoji as one"):
        read(write, {"text": text, "label": [[11, 16, "P"]]})
