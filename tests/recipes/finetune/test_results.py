"""The texts that the card of a fine-tuned model offers to try it with."""

from __future__ import annotations

from bertwright.labelled.examples import (
    Example,
    GenerationExample,
    SpanExample,
    TaggingExample,
    TextExample,
)
from bertwright.recipes.finetune.results import example_texts


def test_one_short_text_of_each_label() -> None:
    texts = [("a", "x"), ("b", "x"), ("c" * 999, "y"), ("d\ne", "y"), ("f", "y"), ("g", "z")]
    examples = [TextExample(text, label=label) for text, label in texts]
    assert example_texts(examples) == ["a", "f", "g"]


def test_texts_of_other_kinds() -> None:
    numbers: list[Example] = [TextExample(text, label=0.5) for text in "aabcd"]
    assert example_texts(numbers) == ["a", "b", "c"]
    several: list[Example] = [TextExample(text, label=("x", "y")) for text in "ab"]
    assert example_texts(several) == ["a", "b"]
    assert example_texts([TaggingExample(("Ada", "came"))]) == ["Ada came"]
    assert example_texts([GenerationExample("a source", "a target")]) == ["a source"]


def test_a_task_of_several_texts_has_none() -> None:
    assert example_texts([TextExample("a", "b", "x")]) == []
    assert example_texts([SpanExample("a ?", "a b")]) == []
