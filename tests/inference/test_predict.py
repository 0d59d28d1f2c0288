"""`Model.predict`: what users hand in, what they get back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import Model, load
from bertwright.nn.init import initialize
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.predictions import (
    ChoicePrediction,
    NumberPrediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask
from tests.small_bert import CONFIG, write_model

SHORT: dict[str, Any] = {"max_length": 12, "stride": 2}
TASKS = {
    "mood": ClassificationTask(labels=("bad", "good"), **SHORT),
    "topics": ClassificationTask(
        labels=("x", "y", "z"), options=ClassificationOptions(multi_label=True), **SHORT
    ),
    "score": RegressionTask(**SHORT),
    "names": TaggingTask(labels=("O", "B-A", "I-A"), scheme="iob2", **SHORT),
    "answer": SpanTask(**SHORT),
    "next": MultipleChoiceTask(**SHORT),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """All six tasks over one encoder."""
    base = tmp_path_factory.mktemp("tasks")
    write_model(base / "bare", ())
    (base / "model").mkdir()
    learner = make_learner(CONFIG, [], TASKS)
    initialize(learner, 0.3, torch.Generator().manual_seed(1))
    save(base / "model", learner, base / "bare-tokenizer", "", tasks=TASKS)
    return load(base / "model", device="cpu")


INPUTS: dict[str, tuple[type, list[Any]]] = {
    "mood": (TextPrediction, ["a b", ("a", "b c"), {"text": "a", "text2": "b"}, {"text": "q"}]),
    "topics": (TextPrediction, ["a b", ["a", "b c"]]),
    "score": (NumberPrediction, ["a b", ("a", "b")]),
    "names": (TaggingPrediction, ["a, b.", ["a", "b"], {"text": "c d"}, {"words": ("c", "d")}]),
    "answer": (SpanPrediction, [("a ?", "b c"), {"question": "a ?", "context": "b c"}]),
    "next": (
        ChoicePrediction,
        [("a", ["b", "c d"]), {"text": "a", "text2": "x", "choices": ["b", "c", "d"]}],
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_kind(model: Model, name: str) -> None:
    kind, inputs = INPUTS[name]
    found = model.predict(inputs, name)
    assert [type(each) for each in found] == [kind] * len(inputs)
    alone = [model.predict([each], name)[0].as_dict() for each in inputs]
    for one, other in zip(found, alone, strict=True):
        assert one.as_dict().keys() == other.keys()
        for key in ("label", "tags", "answer", "choice", "words", "offsets"):
            assert one.as_dict().get(key) == other.get(key)
    assert model.predict([], name) == []


def test_ways_to_say_the_same(model: Model) -> None:
    one, other = model.predict([("a", "b c"), {"text": "a", "text2": "b c"}], "mood")
    assert one == other
    one, other = model.predict(["a b", ["a", "b"]], "names")
    assert (one.tags, one.offsets, other.offsets) == (other.tags, ((0, 1), (2, 3)), None)
    one, other = model.predict([("a ?", "b"), {"context": "b", "question": "a ?"}], "answer")
    assert one == other


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *[("mood", wrong) for wrong in (7, "", " ", ("a", "b", "c"), ("a", ""), {"words": "a"})],
        *[(name, {"a", "b"}) for name in ("mood", "names", "answer")],  # of no order
        *[("names", wrong) for wrong in ("", [], ["a", ""], [1], 7)],
        *[("answer", wrong) for wrong in ("ab", ("a", ""), ("a",), {"question": "a"}, 7)],
        *[("next", wrong) for wrong in ("ab", ("a", "bc"), ("a", ["b"]), ("a", ["b", ""]))],
        ("next", {"text": "a", "choices": ["b", "c"], "text2": 7}),
    ],
)
def test_wrong_inputs_are_named(model: Model, name: str, wrong: Any) -> None:
    right = INPUTS[name][1][0]
    with pytest.raises(DataError, match="input 2 "):
        model.predict([right, wrong], name)


def test_one_input_is_no_list(model: Model) -> None:
    for wrong in ("one text", {"text": "a"}, b"a", None, 3):
        with pytest.raises(DataError, match="list"):
            model.predict(wrong, "mood")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="one column"):
        model.predict(pandas.DataFrame({"text": ["a", "b"]}), "mood")


def test_which_task(model: Model, model_folder: Path) -> None:
    assert model.tasks == TASKS
    assert set(model.heads) == set(TASKS)
    with pytest.raises(ConfigError, match=r"--task.*mood, topics"):
        model.predict(["a"])
    with pytest.raises(ConfigError, match="'moood'"):
        model.predict(["a"], "moood")
    bare = load(model_folder, device="cpu")
    assert bare.tasks == {}
    with pytest.raises(DataError, match=r"task head.*masked_lm"):
        bare.predict(["a"])


def test_one_task_needs_no_name(model: Model) -> None:
    alone = Model(model.runner, model.config, model.report, {"mood": TASKS["mood"]})
    told: list[tuple[int, int | None]] = []
    found = alone.predict(["a b", "c"], on_progress=lambda done, total: told.append((done, total)))
    assert found == model.predict(["a b", "c"], "mood")
    assert told[-1] == (7, 7)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(model_folder: Path) -> None:
    with pytest.raises(ConfigError, match="no GPU"):
        load(model_folder, device="cuda")


def test_inputs_that_are_not_read_to_their_end_are_told(model: Model) -> None:
    tasks = {"mood": replace(TASKS["mood"], max_windows=1)}
    short = Model(model.runner, model.config, model.report, tasks)
    with pytest.warns(UserWarning, match="1 inputs"):
        short.predict(["a b", "a b c d e f g h i j k l m n o p q"])
