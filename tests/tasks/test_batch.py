"""Batches: every field of every kind, by hand and as properties."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.task import TaskConfig
from bertwright.tasks.batch import TaskBatch, instance_batches
from bertwright.tasks.choices.kind import ChoiceInstance
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.instances import Instance
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.kind import TaggingInstance
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.task_data import make_batch
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask


def instance(number: int, *sizes: int, **fields: Any) -> Instance:
    """Windows of some sizes whose ids say whose they are: 1000 number + 100 window + place."""
    ids = tuple(
        [1000 * number + 100 * window + place for place in range(size)]
        for window, size in enumerate(sizes)
    )
    types = tuple([place % 2 for place in range(size)] for size in sizes)
    of_a_kind = TaggingInstance if "words" in fields else Instance
    of_a_kind = ChoiceInstance if "owners" in fields else of_a_kind
    return of_a_kind(number, ids, types, **fields)


TEXTS = [instance(0, 3, label=1), instance(1, 5, 4, label=0), instance(2, 4, label=1)]
TASK = ClassificationTask(labels=("x", "y", "z"))


def sequences_of(batch: TaskBatch) -> list[tuple[int, int]]:
    """Of each sequence, the instance and window its ids name; its bounds are checked."""
    found = []
    for ids, types in zip(
        batch.inputs.ids.split(batch.inputs.sequences.lengths),
        batch.inputs.segments.split(batch.inputs.sequences.lengths),
        strict=True,
    ):
        first = int(ids[0])
        assert ids.tolist() == list(range(first, first + len(ids)))
        assert types.tolist() == [place % 2 for place in range(len(ids))]
        found.append((first // 1000, first % 1000 // 100))
    return found


def test_texts() -> None:
    batch = make_batch("head", TASK, TEXTS, [2, 0, 1])
    assert sequences_of(batch) == [(1, 0), (2, 0), (1, 1), (0, 0)]
    assert batch.inputs.sequences.lengths == [5, 4, 4, 3]
    assert batch.task == "head"
    assert batch.rows == (2, 0, 1)
    assert batch.owners.tolist() == [2, 0, 2, 1]  # counted in the batch
    assert batch.labels.tolist() == [1, 1, 0]
    assert batch.labels.dtype == batch.inputs.ids.dtype == torch.int64


NUMBERS = [instance(0, 3, label=0.5), instance(1, 3, label=-2.0)]
SETS = [instance(0, 3, label=(2, 0)), instance(1, 3, label=())]


@pytest.mark.parametrize(
    ("task", "instances", "expected"),
    [
        (
            ClassificationTask(labels=TASK.labels, options=ClassificationOptions(multi_label=True)),
            SETS,
            [[1, 0, 1], [0] * 3],
        ),
        (RegressionTask(), NUMBERS, [0.5, -2.0]),
    ],
)
def test_labels_of_other_texts(
    task: TaskConfig, instances: list[Instance], expected: list[Any]
) -> None:
    labels = make_batch("head", task, instances, [0, 1]).labels
    assert labels.tolist() == expected
    assert labels.dtype == torch.float32


def test_tagging() -> None:
    task = TaggingTask(labels=("O", "B"))
    instances = [
        instance(0, 4, label=[0, 1], words=(1, 2), counts=(2,)),
        instance(1, 6, label=[1, 0, 1], words=(1, 2, 4), counts=(3,)),
        instance(2, 2, label=[], words=(), counts=(0,)),
    ]
    batch = make_batch("head", task, instances, [0, 2, 1])
    assert batch.inputs.ids[batch.words].tolist() == [1, 2, 1001, 1002, 1004]
    assert batch.labels.tolist() == [0, 1, 1, 0, 1]
    assert batch.counts == (2, 0, 3)
    assert batch.rows == (0, 2, 1)


def test_sentences_of_one_window_are_examples_of_their_own() -> None:
    task = TaggingTask(labels=("O", "B"))
    instances = [
        instance(0, 6, label=[0, 1, 1], words=(1, 3, 4), counts=(1, 2)),
        instance(2, 5, label=[1], words=(2,), counts=(1,)),
    ]
    batch = make_batch("head", task, instances, [1, 0])
    assert (batch.rows, batch.counts) == ((2, 0, 1), (1, 1, 2))
    assert batch.labels.tolist() == [1, 0, 1, 1]
    assert batch.inputs.ids[batch.words].tolist() == [2002, 1, 3, 4]


def test_spans_are_judged_window_by_window() -> None:
    task = SpanTask()
    instances = [
        instance(0, 4, label=(1, 2)),
        instance(1, 6, label=(0, 0)),
        instance(2, 5, label=(3, 4)),
    ]
    batch = make_batch("head", task, instances, [0, 2, 1])
    assert batch.rows == (1, 2, 0)
    assert [number for number, _ in sequences_of(batch)] == [1, 2, 0]
    assert batch.labels.tolist() == [[0, 0], [3, 4], [1, 2]]


def test_choices_are_counted_through() -> None:
    task = MultipleChoiceTask()
    instances = [
        instance(0, 3, 6, 4, label=1, owners=(0, 1, 1)),
        instance(1, 5, 2, 7, label=2, owners=(0, 1, 2)),
    ]
    batch = make_batch("head", task, instances, [1, 0])
    assert batch.counts == (3, 2)
    assert sequences_of(batch) == [(1, 2), (0, 1), (1, 0), (0, 2), (0, 0), (1, 1)]
    assert batch.owners.tolist() == [2, 4, 0, 4, 3, 1]
    assert batch.labels.tolist() == [2, 1]


def test_labels_are_only_read_where_they_are_wanted() -> None:
    instances = [instance(0, 3, label=0), instance(1, 3)]
    assert make_batch("head", TASK, instances, [0, 1], with_labels=False).labels is None
    with pytest.raises(ValueError, match=r"instance 1 .*label"):
        make_batch("head", TASK, instances, [0, 1])
    with pytest.raises(ValueError, match="no instances"):
        make_batch("head", TASK, instances, [])


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), max_size=12), st.integers(1, 30)
)
def test_batches_hold_every_instance_once(sizes: list[list[int]], most: int) -> None:
    instances = [instance(number, *own) for number, own in enumerate(sizes)]
    batches = instance_batches(instances, most)
    assert sorted(row for rows in batches for row in rows) == list(range(len(instances)))
    assert all(len(b) == 1 or sum(instances[r].num_tokens for r in b) <= most for b in batches)
    tokens = [instances[row].num_tokens for rows in batches for row in rows]
    assert tokens == sorted(tokens, reverse=True)
    chosen = list(range(0, len(instances), 2))[::-1]
    parts = instance_batches(instances, most, chosen)
    assert sorted(row for rows in parts for row in rows) == sorted(chosen)
    assert all(len(b) == 1 or sum(instances[r].num_tokens for r in b) <= most for b in parts)
