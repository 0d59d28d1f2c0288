"""Predictions: what a model says does not depend on batches, neighbours or parts, in any kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.config.task import HeadConfig, Layers, TaskConfig
from bertwright.errors import ConfigError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    SpanExample,
    TaggingExample,
    TextExample,
)
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    Prediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.span.options import SpanOptions, SpanTask
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.task_data import TaskData, joined, make_batch, task_parts
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask
from tests.tasks.sample import LETTERS, TOKENIZER, make_learner

SHORT: dict[str, Any] = {"max_length": 14, "stride": 3}
TASKS = {
    "classes": ClassificationTask(labels=("x", "y", "z"), **SHORT),
    "largest": ClassificationTask(
        labels=("x", "y", "z"), options=ClassificationOptions(merge="max"), **SHORT
    ),
    "multi-label": ClassificationTask(
        labels=("x", "y", "z"), options=ClassificationOptions(multi_label=True), **SHORT
    ),
    "regression": RegressionTask(**SHORT),
    "tagging": TaggingTask(labels=("O", "B-A", "I-A", "B-B", "I-B"), scheme="iob2", **SHORT),
    "crf": TaggingTask(
        labels=("O", "B-A", "I-A"), options=TaggingOptions(context="document", crf=True), **SHORT
    ),
    "span": SpanTask(unanswerable=True, options=SpanOptions(max_answer_tokens=4), **SHORT),
    "choices": MultipleChoiceTask(**SHORT),
}
CLASSES: dict[str, type] = {
    "classification": TextPrediction,
    "regression": NumberPrediction,
    "tagging": TaggingPrediction,
    "span": SpanPrediction,
    "multiple-choice": ChoicePrediction,
}


def examples_of(task: TaskConfig, count: int = 17) -> list[Example]:
    """Examples of any kind, many of them longer than a window."""
    chance = Random(task.kind)

    def words(least: int, most: int) -> list[str]:
        return ["".join(chance.choices(LETTERS, k=2)) for _ in range(chance.randint(least, most))]

    def text(least: int, most: int) -> str:
        return " ".join(words(least, most))

    made: list[Example] = []
    for number in range(count):
        if task.kind == "tagging":
            made.append(TaggingExample(tuple(words(1, 12)), document=number // 4))
        elif task.kind == "span":
            made.append(SpanExample(text(1, 3), text(1, 25)))
        elif task.kind == "multiple-choice":
            choices = tuple(text(1, 9) for _ in range(chance.randint(2, 4)))
            made.append(ChoiceExample(text(1, 9), choices, text(0, 2)))
        else:
            made.append(TextExample(text(1, 20), text(1, 5) if number % 3 == 0 else None))
    return made


def numbers(value: Any) -> Iterator[Any]:
    """Everything in a prediction's JSON, in its order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from numbers(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner)
    else:
        yield value


def assert_same(found: list[Prediction], wanted: list[Prediction]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert type(one) is type(other)
        for a, b in zip(numbers(one.as_dict()), numbers(other.as_dict()), strict=True):
            assert a == (pytest.approx(b, abs=2e-6) if isinstance(b, float) else b)


@pytest.mark.parametrize("layers", [None, "mix"])
def test_the_parts_of_a_very_long_sentence_are_predicted_together(layers: Layers | None) -> None:
    task = replace(TASKS["tagging"], head=HeadConfig(layers=layers))
    learner = make_learner(task).eval()
    words = tuple("".join(Random(n).choices(LETTERS, k=2)) for n in range(60))
    examples = [TaggingExample(("ab",)), TaggingExample(words), *examples_of(task, 3)]
    parts = TaskData("head", task, TOKENIZER, examples)
    assert len(parts.instances) > len(examples) == 5
    whole = predict(learner, parts)
    assert whole[1].words == words
    assert_same(predict(learner, parts, batch_tokens=40), whole)


@pytest.mark.parametrize("name", TASKS)
def test_predictions_do_not_depend_on_batches(name: str) -> None:
    task = TASKS[name]
    learner = make_learner(task).train()
    learner.encoder.eval()  # as a frozen one is
    data = TaskData("head", task, TOKENIZER, examples_of(task))
    assert max(len(instance.ids[0]) for instance in data.instances) <= task.max_length
    assert data.lengths.in_windows > 3 or task.kind == "tagging"
    told: list[tuple[int, int | None]] = []
    wanted = predict(
        learner, data, batch_tokens=1, on_progress=lambda done, total: told.append((done, total))
    )
    modes = learner.training, learner.encoder.training, learner.objectives["head"].training
    assert modes == (True, False, True)
    assert told[-1] == (data.num_tokens, data.num_tokens)
    assert all(isinstance(prediction, CLASSES[task.kind]) for prediction in wanted)
    assert len({str(prediction) for prediction in wanted}) > len(wanted) // 2  # they tell apart
    for tokens in (40, 100_000):
        assert_same(predict(learner, data, batch_tokens=tokens), wanted)
    # Nor on the other examples, nor their order. Documents stay whole.
    half = TaskData("head", task, TOKENIZER, data.examples[8:])
    assert_same(predict(learner, half), wanted[8:])
    if not task.reads_documents:
        turned = TaskData("head", task, TOKENIZER, data.examples[::-1])
        assert_same(predict(learner, turned), wanted[::-1])
    for at_once in (1, 3, 5, 100):
        parts = [*task_parts("head", task, TOKENIZER, iter(data.examples), at_once)]
        assert [example for part in parts for example in part.examples] == list(data.examples)
        assert_same([one for part in parts for one in predict(learner, part)], wanted)


def test_parts_read_no_further_than_they_must() -> None:
    examples = count()
    endless = (TextExample(f"a b {number}") for number in examples)
    parts = task_parts("head", TASKS["classes"], TOKENIZER, endless, 4)
    assert [len(next(parts).examples) for _ in range(2)] == [4, 4]
    assert next(examples) <= 9


def windows_scores(name: str, task: TaskConfig, text: str) -> tuple[Any, list[torch.Tensor]]:
    """A prediction, and the scores of each of its windows read alone."""
    learner = make_learner(task).eval()
    data = TaskData("head", task, TOKENIZER, [TextExample(text)])
    head = learner.objectives["head"]
    found = []
    for ids, types in zip(data.instances[0].ids, data.instances[0].segments, strict=True):
        alone = [replace(data.instances[0], ids=(ids,), segments=(types,))]
        batch = make_batch("head", task, alone, [0], with_labels=False)
        with torch.no_grad():
            found.append(head.scores(learner.encode(batch, [head]), batch)[0])
    assert len(found) > 2, name
    return predict(learner, data)[0], found


@pytest.mark.parametrize("name", ["classes", "largest", "multi-label", "regression"])
def test_merging_is_the_formula(name: str) -> None:
    prediction, scores = windows_scores(name, TASKS[name], " ".join(LETTERS))
    windows = torch.stack(scores)
    if name == "regression":
        assert prediction.value == pytest.approx(float(windows.mean()), abs=1e-6)
        return
    merged = windows.amax(0) if name == "largest" else windows.mean(0)
    several = name == "multi-label"
    right = (torch.sigmoid(merged) if several else torch.softmax(merged, 0)).tolist()
    assert prediction.scores == pytest.approx(dict(zip("xyz", right, strict=True)), abs=1e-6)
    label = "xyz"[int(merged.argmax())]
    assert prediction.label == (
        tuple(n for n in "xyz" if prediction.scores[n] >= 0.5) if several else label
    )


def test_choices_share_one_probability() -> None:
    task = TASKS["choices"]
    learner = make_learner(task)
    example = ChoiceExample("a b", ("c d", "e", "f g h"))
    (prediction,) = predict(learner, TaskData("head", task, TOKENIZER, [example]))
    assert sum(prediction.scores) == pytest.approx(1)
    assert prediction.choice == int(np.argmax(prediction.scores))
    twice = ChoiceExample("a b", ("c d", "c d"))
    (even,) = predict(learner, TaskData("head", task, TOKENIZER, [twice]))
    assert even.scores == pytest.approx((0.5, 0.5))


def test_bf16_is_near() -> None:
    task = TASKS["classes"]
    learner = make_learner(task)
    data = TaskData("head", task, TOKENIZER, examples_of(task))
    exact, near = predict(learner, data), predict(learner, data, precision="bf16")
    gaps = [
        abs(a.scores[label] - b.scores[label])
        for a, b in zip(exact, near, strict=True)
        for label in a.scores
    ]
    assert 0 < max(gaps) < 0.1


def test_no_examples_and_no_head() -> None:
    task = TASKS["classes"]
    learner = make_learner(task)
    assert predict(learner, TaskData("head", task, TOKENIZER, [])) == []
    assert list(task_parts("head", task, TOKENIZER, [], 4)) == []
    with pytest.raises(ConfigError, match=r"'other'.*: head"):
        predict(learner, TaskData("other", task, TOKENIZER, [TextExample("a")]))


def test_joined_data_counts_the_lengths_of_all_parts() -> None:
    texts = [TextExample("a b c " * n) for n in range(1, 9)]
    task = replace(TASKS["classes"], max_windows=1)
    whole = TaskData("head", task, TOKENIZER, texts)
    parts = [
        TaskData("head", task, TOKENIZER, texts[:3]),
        TaskData("head", task, TOKENIZER, texts[3:]),
    ]
    together = joined(parts)
    assert together.lengths == whole.lengths
    assert together.lengths.cut
    assert parts[0].lengths.examples == 3
    assert [each.example for each in together.instances] == list(range(8))
