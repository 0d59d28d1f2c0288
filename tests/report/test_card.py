"""The model card, as people and as Hugging Face read it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.models.bert.config import BertRun
from bertwright.models.gpt.config import GptRun
from bertwright.report.card import card, checkpoint_card, quoted
from bertwright.serve.engine.folder import examples_of
from tests.raising import assert_names
from tests.report.finetuned_runs import (
    KINDS,
    classification,
    multi_label,
    multi_task,
    span,
    tagging,
    task_of,
)

yaml = pytest.importorskip("yaml")
HOSTILE = '<script>"x": [a]|`b`\n---\n# \\ \u2028\x85\ud800 é אב {c}: #d'


def written(results: dict[str, Any], *more: Any) -> str:
    return card(results, {"bertwright": "0.3.0"}, *more)


def front_of(text: str) -> dict[str, Any]:
    assert text.startswith("---\n")
    front: dict[str, Any] = yaml.safe_load(text.split("\n---\n")[0])
    return front


def test_examples_are_a_widget_that_serve_reads(tmp_path: Path) -> None:
    text = written(classification(), "bert", True, ["a text", HOSTILE])
    assert front_of(text)["widget"] == [
        {"text": "a text"},
        {"text": HOSTILE.replace("\ud800", "\ufffd")},
    ]
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert examples_of(tmp_path)[0] == "a text"
    assert "widget" not in front_of(written(classification()))


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("classification", "text-classification"),
        ("regression", "text-classification"),
        ("tagging", "token-classification"),
        ("span", "question-answering"),
        ("multiple_choice", "multiple-choice"),
    ],
)
def test_the_front_matter(kind: str, pipeline: str) -> None:
    front = front_of(written(KINDS[kind]()))
    assert front["library_name"] == "transformers"
    assert front["pipeline_tag"] == pipeline
    assert "license" not in front
    assert "base_model" not in front  # a folder of a run
    result = front["model-index"][0]["results"][0]
    assert result["task"]["type"] == pipeline
    assert result["dataset"]["name"] == "dev.tsv"


def test_the_figures_are_those_of_the_seed_that_was_kept() -> None:
    front = front_of(written(classification()))
    found = front["model-index"][0]["results"][0]["metrics"]
    assert [metric["value"] for metric in found] == [0.912, 0.908]


def test_the_hub_reads_it() -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(written(classification())).data
    assert data.pipeline_tag == "text-classification"
    assert data.model_name == "reviews"
    assert [each.metric_value for each in data.eval_results] == [0.912, 0.908]


@pytest.mark.parametrize(
    ("model", "base"),
    [("hf:bert-base-uncased", "bert-base-uncased"), ("hf:a/b@main", "a/b"), ("runs/mine", None)],
)
def test_a_base_model_is_one_of_the_hub(model: str, base: str | None) -> None:
    assert front_of(written(classification() | {"model": model})).get("base_model") == base


def test_a_folder_is_no_base_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert "base_model" not in front_of(written(classification() | {"model": "mine"}))


def test_what_it_says() -> None:
    text = written(classification())
    for said in (
        "fine-tuned from `step-00012000` with Bertwright 0.3.0",
        "transfer: finetune",
        "| accuracy | 77.5% ± 23.1 | 91.2% | 89.2% to 93.1% | 50.9% | 82.2% |",
        "| train | train.tsv | 6,920 |",
        "negative, positive",
        "| learning_rate | 5e-05 |",
        "bertwright predict --model FOLDER --input FILE --out predictions.jsonl",
        'bertwright.load("FOLDER")',
        'AutoModelForSequenceClassification.from_pretrained("FOLDER")',
        "3 examples of dev",
    ):
        assert said in text, said
    for absent in ("None", "nan"):
        assert absent not in text.replace("unan", "")


def test_other_kinds_say_other_things() -> None:
    assert "for multi-label classification" in written(multi_label())
    text = written(span())
    for said in (
        "| null_threshold | -2.1375 |",
        "| F1 | 78.3% |",
        "AutoModelForQuestionAnswering",
    ):
        assert said in text, said
    assert "worth it" not in text  # nothing was measured beside it


@pytest.mark.parametrize(
    "change",
    [{"options": {"crf": True}}, {"head": {"layers": "mix", "network": "bilstm"}}],
    ids=["crf", "bilstm"],
)
def test_transformers_loads_no_head_that_is_ours_alone(change: dict[str, Any]) -> None:
    found = tagging()
    plain = {"options": {"crf": False}, "head": {"layers": "last"}}
    found["task"] = task_of("tagging", **plain)
    assert "AutoModelForTokenClassification" in written(found)
    found["task"] = task_of("tagging", **(plain | change))
    one = classification()
    one["task"] = task_of("classification", labels=["only"])
    for each in (found, one):
        assert "AutoModelFor" not in written(each)


def test_several_tasks() -> None:
    text = written(multi_task())
    found = front_of(text)["model-index"][0]["results"]
    assert [each["task"]["type"] for each in found] == [
        "text-classification",
        "token-classification",
    ]
    assert "# 2 tasks over one encoder" in text
    assert text.index("## sentiment\n") < text.index("### Results") < text.index("## names\n")
    assert text.count("## How to load") == 1
    assert "AutoModelFor" not in text


def test_a_task_without_a_name_has_that_of_the_run() -> None:
    found = classification() | {"name": "task", "settings": {"out": "/srv/someone/runs/news"}}
    text = written(found)
    assert "\n# news\n" in text
    assert front_of(text)["model-index"][0]["name"] == "news"


def test_how_to_predict_is_of_the_kind() -> None:
    for kind, shown in (
        ("classification", 'predict(["'),
        ("tagging", 'predict(["'),
        ("span", 'predict([("'),
        ("multiple_choice", '", ["'),
    ):
        text = written(KINDS[kind]())
        assert shown in text
        for code in re.findall("```python\n(.*?)```", text, re.DOTALL):
            compile(code, "card", "exec")
    text = written(multi_task())
    assert "task='sentiment')" in text
    assert "--task sentiment --input" in text


def test_what_is_said_of_other_starts() -> None:
    found = classification()
    assert "random" not in written(found)
    assert "random at the start" in written(found | {"settings": {"random_start": True}})
    assert "fine-tuned from `minilm` with" in written(found | {"model": "/srv/minilm"})


def test_settings_name_no_folder() -> None:
    found = classification()
    found["settings"] = {"train": "/srv/someone/train.tsv", "out": "/srv/someone/x", "epochs": 3}
    found["warnings"] = ["/srv/someone/train.tsv, line 3 has no text"]
    text = written(found)
    assert "/srv/someone" not in text
    assert "| epochs | 3 |" in text
    assert "train.tsv, line 3" in text


def test_hostile_text_stays_text() -> None:
    found = classification() | {"name": HOSTILE, "model": HOSTILE, "warnings": [HOSTILE]}
    found["task"] = {**found["task"], "labels": [HOSTILE, "b"]}
    found["data"]["dev"]["file"] = HOSTILE.replace("/", "")
    found["settings"] = {HOSTILE: HOSTILE}
    text = written(found)
    text.encode("utf-8")
    front = front_of(text)
    assert front["model-index"][0]["name"] == HOSTILE.replace("\ud800", "\ufffd")
    assert "<script>" not in re.sub("`[^`]*`", "", text.split("\n---\n", 1)[1])
    assert next(line for line in text.splitlines() if line.startswith("# ")).startswith("# &lt;")


@pytest.mark.parametrize(
    ("model_type", "known", "says"),
    [
        ("bert", True, "AutoModelForSequenceClassification"),
        ("gpt2", True, None),
        ("awd-lstm", False, None),
    ],
)
def test_the_card_is_of_its_encoder(model_type: str, known: bool, says: str | None) -> None:
    text = written(classification(), model_type, known)
    front = front_of(text)
    assert front["tags"] == ["bertwright", model_type]
    assert front.get("library_name") == ("transformers" if known else None)
    assert says in text if says else "AutoModel" not in text


@given(st.text(st.characters(exclude_categories=[])))
def test_yaml_reads_quoted_strings_as_they_were(value: str) -> None:
    expected = re.sub("[\ud800-\udfff]", "\ufffd", value)
    assert yaml.safe_load(f"- {quoted(value)}") == [expected]


def test_the_card_of_a_checkpoint_is_of_its_objectives() -> None:
    config = BertRun(data="shards", out="runs/mine", model="bert-mini", steps=9)
    position = SimpleNamespace(step=1200, tokens=5_000_000, seconds=90.0)
    record = {"step": 1100, "split": "dev", "loss": 3.0, "masked_lm.accuracy": 0.25}
    corpus = {"documents": 12, "sentences": 90, "tokens": 3_000_000, "vocab_size": 8192}
    example = ('it "is" [MASK] | here', "wet")
    text = checkpoint_card(
        config,
        position,
        ["masked_lm", "next_sentence"],
        corpus | {"files": ["a_b.txt"]},
        record,
        example,
    )
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["pipeline_tag"] == "fill-mask"
    assert head["widget"] == [{"text": example[0]}]
    assert "\n# bert-mini, pre-trained with Bertwright\n" in text
    assert "| masked lm accuracy | 25.0% |" in text
    assert_names(text, "12 documents, 90 sentences, 3M tokens", "8,192", "a_b.txt")
    assert r'model.fill("it \"is\" [MASK] | here")' in text
    assert_names(text, "1,200", "5M tokens", "1.5 minutes")
    assert "model.fill" in text
    assert "AutoModelForPreTraining" in text
    assert tomllib.loads(text.split("```toml\n")[1].split("```")[0])["data"] == "shards"
    assert "AutoModelForMaskedLM" in checkpoint_card(config, position, ["masked_lm"])
    run = GptRun(data="shards", out="runs/mine", model="gpt-mini", steps=9)
    other = checkpoint_card(run, position, ["next_token"])
    assert yaml.safe_load(other.split("---\n")[1])["pipeline_tag"] == "text-generation"
    assert "\nbertwright generate --model FOLDER " in other
    assert "transformers" not in other.split("## Configuration")[0]
