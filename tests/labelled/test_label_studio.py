"""Label Studio's JSON export: choices, spans, ratings."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.tables.columns import Columns
from tests.labelled.conftest import parse, parse_stream, tagged


def task(number, text, *results, **more):
    annotations = [{"id": 1, "was_cancelled": True, "result": []}, {"id": 2, "result": [*results]}]
    return {"id": number, "data": {"text": text}, "annotations": annotations, "meta": {}, **more}


def choices(*names, control="sentiment"):
    value = {"choices": [*names]}
    return {"type": "choices", "value": value, "from_name": control, "to_name": "text"}


def span(start, end, text, label):
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    return {"type": "labels", "value": value, "from_name": "label", "to_name": "text"}


def test_choices_are_labels(write):
    twice = task(3, "so", choices("bad"))
    twice["annotations"].append(twice["annotations"][1])
    none = {"id": 4, "data": {"text": "none"}, "annotations": []}
    path = write("a.json", [task(1, "fine", choices("good")), twice, none])
    read = parse(path, "classification")
    assert [(e.text, e.label, e.id) for e in read.examples] == [
        ("fine", "good", "1"),
        ("so", "bad", "3"),
    ]
    assert read.format.startswith("JSON of Label Studio")
    assert [*read.log.skipped] == ["the task has no annotation"]
    assert any("several annotations" in each for each in read.warnings)
    several = write(
        "b.json", [task(1, "x", choices("a", "b")), task(2, "y"), task(3, "z", choices("b"))]
    )
    with pytest.raises(DataError, match="--multi-label"):
        parse(several, "classification")
    read = parse(several, "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("a", "b"), (), ("b",)]
    stream = parse_stream(write("c.json", [none]), "classification")
    assert [each.text for each in stream.examples] == ["none"]


def test_two_controls_are_two_columns(write):
    both = (choices("good"), choices("short", control="length"))
    path = write("a.json", [task(1, "fine", *both), task(2, "so", *both)])
    read = parse(path, "classification", Columns(None, None, "length"))
    assert [each.label for each in read.examples] == ["short", "short"]


def test_ratings_and_texts(write):
    rating = {"type": "rating", "value": {"rating": 4}, "from_name": "stars"}
    read = parse(write("a.json", [task(1, "fine", rating)]), "regression")
    assert [each.label for each in read.examples] == [4.0]
    area = {"type": "textarea", "value": {"text": ["short"]}, "from_name": "summary"}
    read = parse(write("b.json", [task(1, "a long text", area)]), "generation")
    assert [(each.source, each.target) for each in read.examples] == [("a long text", "short")]


def test_spans_are_entities(write):
    text = "😀 Ann sees Rome"
    exact = task(1, text, span(2, 5, "Ann", "PER"), span(11, 15, "Rome", "LOC"))
    wide = task(2, text, span(3, 6, "Ann", "PER"), {"type": "relation", "from_id": "a"})
    read = parse(write("a.json", [exact, wide]), "tagging")
    assert tagged(read) == [
        ("😀 Ann sees Rome", "O B-PER O B-LOC"),
        ("😀 Ann sees Rome", "O B-PER O O"),
    ]
    entity = {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}
    small = write("min.json", [{"id": 1, "text": "Ann sees", "label": [entity]}])  # JSON-MIN
    assert tagged(parse(small, "tagging")) == [("Ann sees", "B-PER O")]
    outside = write("b.json", [task(1, "short", span(3, 60, "x", "PER"))])
    with pytest.raises(DataError, match="entity that is not in the text"):
        parse(outside, "tagging")
