"""Choices as ids: a window or more each, as transformers' SWAG example lays them out."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.examples import ChoiceExample
from bertwright.tasks.choices.kind import MultipleChoiceKind
from bertwright.tasks.choices.options import MultipleChoiceTask
from tests.tasks.sample import LETTERS, TOKENIZER

TASK = MultipleChoiceTask(max_length=12, stride=2)


def test_choices_are_pairs() -> None:
    example = ChoiceExample("a b", ("d e", "f"), "c", label=1)
    (instance,), lengths = MultipleChoiceKind().make(TASK, TOKENIZER, [example])
    for number, choice in enumerate(("c d e", "c f")):
        encoding = TOKENIZER.encode("a b", choice)
        assert list(instance.ids[number]) == encoding.ids
        assert list(instance.segments[number]) == encoding.type_ids
    assert (instance.owners, instance.label) == ((0, 1), 1)
    assert (lengths.tokens, lengths.windows, lengths.in_windows) == ([8], 2, 0)


def test_long_choices_are_read_in_windows() -> None:
    examples = [
        ChoiceExample("a b", ("c", " ".join(LETTERS), "d"), label=None),
        ChoiceExample("e", ("f", "g")),
    ]
    instances, lengths = MultipleChoiceKind().make(TASK, TOKENIZER, examples)
    owners = instances[0].owners
    assert owners[0] == 0
    assert owners[-1] == 2
    assert set(owners[1:-1]) == {1}
    assert len(owners) == len(instances[0].ids) > 3
    assert all(len(ids) <= TASK.max_length for ids in instances[0].ids)
    assert lengths.in_windows == 1
    assert lengths.windows == len(owners) + 2
    assert lengths.tokens == [2 + 26 + 3, 1 + 1 + 3]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (ChoiceExample(" ", ("a", "b"), line=2), "line 2: text "),
        (ChoiceExample("a", ("a", ""), line=2), "line 2: choice 1 "),
    ],
)
def test_bad_examples(example: ChoiceExample, message: str) -> None:
    with pytest.raises(DataError) as error:
        MultipleChoiceKind().make(TASK, TOKENIZER, [example])
    assert message in str(error.value)
