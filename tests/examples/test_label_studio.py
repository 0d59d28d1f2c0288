"""The example that converts Label Studio's export: its rows are read by every kind of task."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from bertwright.labelled.columns import Columns
from tests.house.source import ROOT
from tests.labelled.conftest import parse, tagged

CONVERT = runpy.run_path(str(ROOT / "examples" / "label_studio.py"))["main"]


@pytest.fixture
def converted(tmp_path: Path):
    def convert(*tasks: dict[str, Any]) -> Path:
        (tmp_path / "export.json").write_text(json.dumps(tasks))
        CONVERT(tmp_path / "export.json", tmp_path / "rows.jsonl")
        return tmp_path / "rows.jsonl"

    return convert


def task(number, text, *results):
    annotations = [{"id": 1, "was_cancelled": True, "result": []}, {"id": 2, "result": [*results]}]
    return {"id": number, "data": {"text": text}, "annotations": annotations, "meta": {}}


def choices(*names, control="sentiment"):
    return {"type": "choices", "value": {"choices": [*names]}, "from_name": control}


def span(start, end, text, label):
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    return {"type": "labels", "value": value, "from_name": "label", "to_name": "text"}


def test_choices_are_labels(converted):
    none = {"id": 4, "data": {"text": "none"}, "annotations": []}
    path = converted(task(1, "fine", choices("good")), task(3, "so", choices("bad")), none)
    read = parse(path, "classification")
    assert [(e.text, e.label, e.id) for e in read.examples] == [
        ("fine", "good", "1"),
        ("so", "bad", "3"),
    ]
    several = converted(task(1, "x", choices("a", "b")), task(2, "y"), task(3, "z", choices("b")))
    read = parse(several, "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("a", "b"), (), ("b",)]
    assert json.loads(converted(none).read_text())["text"] == "none"


def test_two_controls_are_two_columns(converted):
    both = (choices("good"), choices("short", control="length"))
    read = parse(
        converted(task(1, "fine", *both), task(2, "so", *both)),
        "classification",
        Columns(None, None, "length"),
    )
    assert [each.label for each in read.examples] == ["short", "short"]


def test_ratings_and_texts(converted):
    rating = {"type": "rating", "value": {"rating": 4}, "from_name": "stars"}
    read = parse(converted(task(1, "fine", rating)), "regression")
    assert [each.label for each in read.examples] == [4.0]
    area = {"type": "textarea", "value": {"text": ["short"]}, "from_name": "summary"}
    read = parse(converted(task(1, "a long text", area)), "generation")
    assert [(each.source, each.target) for each in read.examples] == [("a long text", "short")]


def test_spans_are_entities(converted):
    text = "😀 Ann sees Rome"
    exact = task(1, text, span(2, 5, "Ann", "PER"), span(11, 15, "Rome", "LOC"))
    wide = task(2, text, span(3, 6, "Ann", "PER"), {"type": "relation", "from_id": "a"})
    assert tagged(parse(converted(exact, wide), "tagging")) == [
        ("😀 Ann sees Rome", "O B-PER O B-LOC"),
        ("😀 Ann sees Rome", "O B-PER O O"),
    ]
