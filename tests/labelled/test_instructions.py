"""Instructions with inputs, as files for instruction tuning have them."""

from __future__ import annotations

from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import GenerationExample
from tests.labelled.conftest import parse

ROWS = [
    {"instruction": "reverse", "input": "a b", "output": "b a"},
    {"instruction": "greet", "input": "", "output": "hello"},
    {"instruction": "count", "input": " ", "output": "two"},
]


def test_the_source_is_the_instruction_and_its_input(write):
    read = parse(write("a.json", ROWS), "generation")
    assert [(each.source, each.target) for each in read.examples] == [
        ("reverse\na b", "b a"),
        ("greet", "hello"),
        ("count", "two"),
    ]
    hint = read.columns
    (first, *_) = parse(
        write("b.json", ROWS), "generation", hint=hint, require_labels=False
    ).examples
    assert first == GenerationExample("reverse\na b", None, "", 1)


def test_other_names_of_inputs_and_outputs(write):
    row = {"instruction": "reverse", "context": "a b", "response": "b a", "category": "x"}
    (example,) = parse(write("a.json", [row]), "generation").examples
    assert (example.source, example.target) == ("reverse\na b", "b a")


def test_an_option_names_one_column(write):
    read = parse(write("a.json", ROWS[:1]), "generation", Columns("input"))
    assert read.examples[0].source == "a b"
