"""Task heads saved and loaded: every kind, alone, together, over other layers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.atomic import write_manifest
from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.task_heads import initialized, make_head, same_head
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert.encoder import bert_spec
from bertwright.nn.objective import Learner
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.checkpoint.conftest import (
    CONFIG,
    VOCABULARY,
    assert_same,
    new_learner,
    refused,
    rewrite,
)
from tests.checkpoint.task_heads import (
    ODD,
    TAGGING,
    TASKS,
    TEXT,
    change_task,
    inputs,
    saved,
    scores,
    tasks_learner,
)
from tests.tasks.sample import unlabelled_batch


def assert_same_head(one: Learner, other: Learner, name: str, task: TaskConfig) -> None:
    assert_same(one.objectives[name], other.objectives[name])
    found, expected = (scores(learner, name, task.kind) for learner in (one, other))
    assert expected.abs().max() > 0.05
    assert torch.equal(found, expected)


ARCHITECTURES = {
    "classes": "BertForSequenceClassification",
    "labels": "BertForSequenceClassification",
    "number": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "answers": "BertForQuestionAnswering",
    "choices": "BertForMultipleChoice",
    "crf": "BertForTokenClassification",
}


@pytest.mark.parametrize("name", [*TASKS, *ODD])
def test_one_task_there_and_back(tmp_path: Path, name: str) -> None:
    task = (TASKS | ODD)[name]
    learner = saved(tmp_path, {name: task})
    loaded = load(tmp_path)
    assert loaded.tasks == {name: task}
    assert list(loaded.learner.objectives) == [name]
    assert_same_head(loaded.learner, learner, name, task)
    assert loaded.report.parts[-1] == name
    assert not loaded.report.unused
    assert not any(p.is_meta for p in [*loaded.learner.parameters(), *loaded.learner.buffers()])
    # where it lies
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["architectures"] == [ARCHITECTURES.get(name, "BertModel")]
    in_model = {f"classifier.{kind}" for kind in ("weight", "bias")}
    in_model = {n.replace("classifier", "qa_outputs") for n in in_model} | in_model
    in_model &= load_file(tmp_path / "model.safetensors").keys()
    assert len(in_model) == (2 if name in ARCHITECTURES else 0)
    assert (tmp_path / "heads.safetensors").exists() == (name in ODD)
    if name in ODD:
        beside = load_file(tmp_path / "heads.safetensors")
        assert all(n.startswith(f"objectives.{name}.") for n in beside)
        assert any(n.endswith((".classifier.weight", ".qa_outputs.weight")) for n in beside) != (
            name in ARCHITECTURES
        )


def test_several_tasks_and_the_heads_of_pretraining(tmp_path: Path) -> None:
    tasks = TASKS | ODD
    learner = saved(tmp_path, tasks, ("masked_lm", "next_sentence"))
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["architectures"] == ["BertForPreTraining"]
    loaded = load(tmp_path)
    assert loaded.tasks == tasks
    assert_same(loaded.learner, learner)
    assert loaded.report.parts == ("encoder", "pooler", "masked_lm", "next_sentence", *tasks)


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    tasks = {name: TASKS[name] for name in ("classes", "tags")}
    saved(tmp_path, tasks, ("masked_lm",))
    assert list(load(tmp_path).learner.objectives) == ["masked_lm", "classes", "tags"]
    assert list(load(tmp_path, []).learner.objectives) == []
    assert list(load(tmp_path, ["masked_lm"]).learner.objectives) == ["masked_lm"]
    one = load(tmp_path, tasks={"tags": TASKS["tags"]})
    assert list(one.learner.objectives) == ["tags"]
    assert one.tasks == {"tags": TASKS["tags"]}
    assert "objectives.classes.classifier.weight" in one.report.unused
    assert "objectives.tags.classifier.weight" in one.report.matched
    both = load(tmp_path, ["masked_lm"], tasks={"tags": TASKS["tags"]})
    assert list(both.learner.objectives) == ["masked_lm", "tags"]


def test_fine_tuning_starts_on_a_pretrained_encoder(tmp_path: Path) -> None:
    trained = new_learner()
    save(tmp_path, trained, None, "")
    tasks = {"classes": TEXT, "lstm": ODD["lstm"], "mixed": ODD["mixed"]}

    def start(seed: int) -> Any:
        torch.manual_seed(torch.randint(1000, ()).item())
        return load(tmp_path, [], torch.Generator().manual_seed(seed), tasks=tasks)

    one, same, other = start(1), start(1), start(2)
    assert one.tasks == tasks
    assert one.report.started == ("classes", "lstm", "mixed")
    assert one.report.parts == ("encoder", "pooler", "masked_lm", "next_sentence")
    assert "initialized: classes, lstm, mixed" in str(one.report)
    assert_same(one.learner.encoder, trained.encoder)
    states = [loaded.learner.objectives.state_dict() for loaded in (one, same, other)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    for key in (
        "classes.classifier.weight",
        "lstm.classifier.weight",
        "lstm.network.lstm.weight_hh_l0_reverse",
    ):
        assert not torch.equal(states[0][key], states[2][key])
    weight = states[0]["classes.classifier.weight"]
    assert 0 < weight.abs().max() <= 2 * CONFIG.initializer_range
    assert states[0]["lstm.network.lstm.weight_hh_l0"].abs().max() > 0.1  # as torch starts it
    for key in ("classes.classifier.bias", "lstm.crf.transitions", "mixed.mix.weights"):
        assert (states[0][key] == 0).all()
    assert states[0]["mixed.mix.gamma"] == 1


def test_starting_a_head_leaves_the_chance_of_others_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make = partial(make_head, bert_spec(CONFIG), ODD["lstm"])
    initialized(make, 0.02, torch.Generator().manual_seed(1))
    assert torch.equal(torch.rand(3), expected)


def test_heads_of_the_folder_are_used_where_they_fit(tmp_path: Path) -> None:
    task = replace(TEXT, head=HeadConfig(dropout=0.3))
    learner = saved(tmp_path, {"classes": task})
    going_on = replace(
        TEXT,
        max_length=12,
        options=ClassificationOptions(merge="max"),
        text_column="review",
    )
    loaded = load(tmp_path, [], torch.Generator(), tasks={"classes": going_on})
    assert loaded.tasks == {"classes": going_on}
    assert loaded.report.started == ()
    assert_same_head(loaded.learner, learner, "classes", going_on)

    other = replace(TEXT, labels=("good", "fair", "bad"))
    anew = load(tmp_path, [], torch.Generator().manual_seed(1), tasks={"classes": other})
    assert anew.report.started == ("classes",)
    assert anew.report.unused == ("classifier.weight", "classifier.bias")
    weight = anew.learner.objectives["classes"].classifier.weight
    assert weight.abs().max() <= 0.04
    with pytest.raises(DataError, match=r"classes.*encoder, pooler"):
        load(tmp_path, tasks={"classes": other})
    with pytest.raises(DataError, match=r"has no stars head"):
        load(tmp_path, tasks={"stars": TEXT})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TEXT, replace(TEXT, max_length=9, text_column="a", stride=1), True),
        (TEXT, replace(TEXT, labels=("bad", "fair", "fine")), False),
        (TEXT, replace(TEXT, options=ClassificationOptions(multi_label=True)), False),
        (TEXT, replace(TAGGING, labels=TEXT.labels), False),
        (TEXT, replace(TEXT, head=HeadConfig(dropout=0.5, network_size=9, pooling="max")), True),
        (TEXT, replace(TEXT, head=HeadConfig(layers="last")), False),
        (TAGGING, replace(TAGGING, head=HeadConfig(layers="last", pooling="cls")), True),
        (TAGGING, ODD["crf"], False),
        (ODD["mixed"], replace(TEXT, head=HeadConfig(layers="mix", pooling="mean")), False),
        (ODD["crf"], ODD["lstm"], False),
    ],
)
def test_which_heads_are_the_same(one: TaskConfig, other: TaskConfig, same: bool) -> None:
    assert same_head(one, other) == same_head(other, one) == same


def test_a_pooler_that_is_not_there_is_told(tmp_path: Path) -> None:
    saved(tmp_path, {"tags": TAGGING})
    assert not any("pooler" in name for name in load_file(tmp_path / "model.safetensors"))
    tagger = load(tmp_path)
    assert (tagger.report.started, tagger.learner.encoder.pooler) == ((), None)
    loaded = load(tmp_path, [], torch.Generator().manual_seed(1), tasks={"classes": TEXT})
    assert loaded.report.started == ("pooler", "classes")
    assert 0 < loaded.learner.encoder.pooler.dense.weight.abs().max() <= 0.04


def test_another_dropout_with_a_task(tmp_path: Path) -> None:
    saved(tmp_path, {"classes": TEXT})
    config = replace(CONFIG, hidden_dropout_prob=0.0)
    task = replace(TEXT, head=HeadConfig(dropout=0.5))
    learner = load(tmp_path, config=config, tasks={"classes": task}).learner
    assert learner.encoder.layers[0].dropout.p == 0
    assert learner.objectives["classes"].dropout.p == 0.5


def test_what_is_loaded_can_learn(tmp_path: Path) -> None:
    saved(tmp_path, {"lstm": ODD["lstm"]})
    learner = load(tmp_path).learner
    asked: Any = unlabelled_batch("tagging", inputs(), "lstm")
    asked = replace(asked, labels=torch.arange(52) % 3)
    learner(asked)["lstm"].total.backward()
    for parameter in learner.objectives["lstm"].parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


def test_a_state_of_elsewhere(tmp_path: Path) -> None:
    learner = tasks_learner({"crf": ODD["crf"]})
    state = {name: torch.zeros_like(value) for name, value in learner.state_dict().items()}
    save(tmp_path, learner, None, "", state=state, tasks={"crf": ODD["crf"]})
    assert all((v == 0).all() for v in load(tmp_path).learner.objectives.state_dict().values())
    del state["objectives.crf.crf.end"]
    with pytest.raises(IntegrityError, match=r"lacks 'objectives.crf.crf.end'"):
        save(tmp_path, learner, None, "", state=state, tasks={"crf": ODD["crf"]})


def test_tasks_that_are_not_the_learners(tmp_path: Path) -> None:
    learner = tasks_learner({"classes": TEXT})
    two = replace(TEXT, labels=("a", "b"))
    for tasks, message in (
        (None, "has the tasks classes; expected no tasks"),
        ({"stars": TEXT}, "has the tasks classes; expected the tasks stars"),
        ({"classes": two}, r"head of task classes has the shapes .*\(3, 24\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            save(tmp_path, learner, None, "", tasks=tasks)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    ["", "a.b", "masked_lm", "encoder", "pooler", "items", "training", "../x", "_a", "x" * 65],
)
def test_names_no_task_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="named"):
        make_learner(CONFIG, [], {name: TEXT})


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (replace(TEXT, max_length=18), "max_length is 18; this model has positions for 17"),
        (replace(TASKS["answers"], null_threshold=float("nan")), "null_threshold is nan"),
        (replace(TEXT, head=HeadConfig(layers="sum-last-4")), "has 3 layers; it needs 4"),
    ],
)
def test_tasks_no_bert_of_this_shape_can_have(task: TaskConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_learner(CONFIG, [], {"a": task})


def test_a_missing_tensor_of_a_head(tmp_path: Path) -> None:
    saved(tmp_path, {"classes": TEXT})
    tensors = load_file(tmp_path / "model.safetensors")
    bias = tensors.pop("classifier.bias")
    rewrite(tmp_path, tensors)
    refused(tmp_path, IntegrityError, r"'classifier\.bias'.*task\.json")
    del tensors["classifier.weight"]
    for more in ({}, {"qa_outputs.bias": bias}):
        rewrite(tmp_path, {**tensors, **more})
        refused(tmp_path, IntegrityError, r"lacks 'classifier.bias', 'classifier.weight'")


END = "objectives.crf.crf.end"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({END: None}, IntegrityError, f"heads.safetensors lacks '{END}'"),
        ({"objectives.crf.extra": torch.zeros(1)}, IntegrityError, "has 'objectives.crf.extra'"),
        ({END: torch.zeros(4)}, IntegrityError, rf"'{END}' .* \[4\]; its task.json asks for \[3\]"),
        ({END: torch.full((3,), torch.nan)}, DataError, "not finite"),
    ],
)
def test_tensors_of_heads_beside_that_are_others(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    saved(tmp_path, {"crf": ODD["crf"]})
    path = tmp_path / "heads.safetensors"
    tensors = {name: x for name, x in {**load_file(path), **change}.items() if x is not None}
    save_file(tensors, path)
    refused(tmp_path, error, message)


def test_heads_beside_that_are_missing_or_truncated(tmp_path: Path) -> None:
    saved(tmp_path, {"crf": ODD["crf"]})
    (tmp_path / "heads.safetensors").write_bytes(b"cut")
    refused(tmp_path, IntegrityError, r"heads\.safetensors")
    (tmp_path / "heads.safetensors").unlink()
    refused(tmp_path, IntegrityError, r"lacks heads\.safetensors.*task\.json")
    saved(tmp_path, {"crf": ODD["crf"]})
    (tmp_path / "task.json").unlink()
    refused(tmp_path, IntegrityError, r"'objectives\.crf.*config\.json")


def test_labels_that_do_not_fit_the_weights(tmp_path: Path) -> None:
    for name in ("classes", "mixed"):
        folder = tmp_path / name
        saved(folder, {name: (TASKS | ODD)[name]})
        change_task(folder, labels=["a", "b"])
        refused(folder, IntegrityError, r"\[3, 24\].*task\.json.*\[2, 24\]")


def test_the_manifest_covers_what_is_read(tmp_path: Path) -> None:
    saved(tmp_path, {"crf": ODD["crf"]})
    write_manifest(tmp_path)
    assert load(tmp_path).tasks
    for name, message in (
        ("task.json", "task.json was changed after it was written"),
        ("heads.safetensors", "heads.safetensors has .* truncated or changed"),
    ):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(
            whole.replace(b"B-PER", b"B-ORG") if b"B-PER" in whole else b"x"
        )
        refused(tmp_path, IntegrityError, message)
        (tmp_path / name).write_bytes(whole)
    (tmp_path / "heads.safetensors").unlink()
    refused(tmp_path, IntegrityError, r"heads\.safetensors is missing")


def test_the_program_of_the_document_runs(tmp_path: Path, monkeypatch: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "checkpoints.md"
    text = page.read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    (program,) = [program for program in programs if "ClassificationTask" in program]
    mine = tmp_path / "runs" / "mine"
    mine.mkdir(parents=True)
    learner = make_learner(replace(CONFIG, max_position_embeddings=128), ["masked_lm"])
    save(mine, learner, None, "")
    make_tokenizer(VOCABULARY).save(mine)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert load("some/folder").tasks["reviews"].labels == ("bad", "good")
