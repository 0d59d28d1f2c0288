"""Every kind of task, and a toy beside them, by the same public functions and verbs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import bertwright
from bertwright.checkpoint import checkpoint
from bertwright.cli.app import run as run_verb
from bertwright.cli.finetune import verb_for
from bertwright.config.values import read_toml
from bertwright.errors import ConfigError, DataError
from bertwright.tasks.catalogue import KINDS, check_kind, kind_of, options_of
from bertwright.tasks.evaluate import metrics_of
from tests.contract import toy_kind
from tests.task_files import write_model

QUICK: dict[str, Any] = {
    "config": {"epochs": 1.0, "batch_size": 4, "max_length": 16, "stride": 4, "precision": "fp32"},
    "progress": False,
}
ROWS: dict[str, list[Any]] = {
    "classification": [(f"{'a ' * (n % 2)}b", ("with", "without")[n % 2]) for n in range(12)],
    "regression": [(f"{'a ' * (n % 3)}b", n % 3) for n in range(12)],
    "tagging": [(["a", "b"], ["B-X", "O"]), (["c"], ["O"])] * 6,
    "span": [("c ?", "a b j d", "j"), ("c ?", "a b d", "")] * 6,
    "multiple-choice": [("d", ["a", "b"], n % 2) for n in range(12)],
    "generation": [("a b", "b a"), ("c", "c")] * 6,
    "similarity": [(f"a b {'c ' * (n % 4)}", f"a {'d ' * n}", n % 4 / 4) for n in range(12)],
    toy_kind.NAME: [(f"{'a ' * (n % 4)}b", n % 4) for n in range(12)],
}
"""Rows as tuples to train on."""
INPUTS: dict[str, list[Any]] = {
    "classification": ["a b", ("a", "b")],
    "regression": ["a b", ("a", "b")],
    "tagging": ["a b", ["a", "b"]],
    "span": [("c ?", "a b j d"), {"question": "c ?", "context": "j"}],
    "multiple-choice": [("d", ["a", "b"]), {"text": "d", "choices": ["a", "b", "c"]}],
    "generation": ["a b", "c"],
    "similarity": [("a b", "a"), {"text": "a b", "text2": "c d"}],
    toy_kind.NAME: ["a b", "a a a"],
}
"""What `Model.predict` takes."""


@pytest.fixture(scope="module", params=[*KINDS, toy_kind.NAME])
def kind(request: pytest.FixtureRequest) -> str:
    """Of a task."""
    assert request.param in ROWS, f"tests/contract/test_kinds.py has no rows of {request.param}"
    return str(request.param)


@pytest.fixture(scope="module")
def run(kind: str, tmp_path_factory: pytest.TempPathFactory) -> bertwright.Run:
    """A model that is fine-tuned for it."""
    folder = tmp_path_factory.mktemp(kind)
    model = write_model(folder / "model")
    rows = ROWS[kind]
    return bertwright.finetune(kind, model=model, train=rows, dev=rows, out=folder / "run", **QUICK)


def test_the_record_is_that_of_its_row(kind: str) -> None:
    assert kind_of(kind).name == kind


def test_trained_and_evaluated(kind: str, run: bertwright.Run) -> None:
    task = run.model.tasks["task"]
    assert task.kind == kind
    assert run.metrics.keys() >= {metrics_of(task)[0]}
    scores = bertwright.evaluate(run.model, ROWS[kind], intervals=False, **WITHOUT_BAR)
    assert scores.metrics == pytest.approx(run.metrics, abs=1e-3, nan_ok=True)
    assert (run.folder / "report.html").is_file() or run.report.is_file()


WITHOUT_BAR: dict[str, Any] = {"precision": "fp32", "progress": False}


def test_predicted_one_by_one_as_together(kind: str, run: bertwright.Run) -> None:
    together = run.model.predict(INPUTS[kind])
    for given, expected in zip(INPUTS[kind], together, strict=True):
        (alone,) = run.model.predict([given])
        assert _close(asdict(alone), asdict(expected))
    wrongs: list[Any] = [3, [], {"no field": "a"}]
    for wrong in wrongs:
        with pytest.raises(DataError, match=f"input 1 .*{kind}"):
            run.model.predict([wrong])


def test_predicted_from_a_file(kind: str, run: bertwright.Run, tmp_path: Path) -> None:
    fields = next(each for each in kind_of(kind).fields if len(each) == len(ROWS[kind][0]))
    rows = [dict(zip(fields[:-1], row, strict=False)) for row in ROWS[kind]]
    data, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["predict", "--model", str(run.folder), "--input", str(data), "--out", str(out)]
    assert run_verb(words) == 0
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len(rows)
    (example,) = run.model.predict(INPUTS[kind][:1])
    assert lines[0].keys() >= asdict(example).keys()


def test_saved_and_loaded(kind: str, run: bertwright.Run, tmp_path: Path) -> None:
    loaded = checkpoint.load(run.folder)
    checkpoint.save(tmp_path, loaded.learner, loaded.opened.folder, "a card", tasks=loaded.tasks)
    again = bertwright.load(tmp_path)
    assert again.tasks == loaded.tasks
    assert again.predict(INPUTS[kind]) == run.model.predict(INPUTS[kind])


def test_an_unknown_kind() -> None:
    with pytest.raises(ConfigError, match=r"'tagger'.*'tagging'"):
        check_kind("tagger")
    with pytest.raises(ConfigError, match="'nothing'"):
        kind_of("nothing")


def _close(a: Any, b: Any) -> bool:
    """Whether two predictions are equal but for rounding."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_close, a, b))
    return bool(a == (pytest.approx(b, abs=1e-4) if isinstance(b, float) else b))


OPTIONS: dict[str, tuple[str, Any]] = {
    "classification": ("merge", "max"),
    "regression": ("both_orders", False),
    "tagging": ("crf", False),
    "span": ("max_answer_tokens", 30),
    "multiple-choice": ("merge", "max"),
    "generation": ("max_target_tokens", 8),
    "similarity": ("temperature", 0.1),
    toy_kind.NAME: ("most", 1.5),
}
"""An option of each kind, with a value that its rows allow."""


def test_an_option_of_the_kind_is_saved(kind: str, run: bertwright.Run, tmp_path: Path) -> None:
    key, value = OPTIONS[kind]
    rows, config = ROWS[kind], {**QUICK["config"], key: value}
    again = bertwright.finetune(
        kind,
        model=write_model(tmp_path / "model"),
        train=rows,
        dev=rows,
        out=tmp_path / "run",
        config=config,
        progress=False,
    )
    assert getattr(again.model.tasks["task"].options, key) == value
    settings = read_toml(again.folder / "config.toml")
    assert settings[key] == value
    assert settings.keys() >= {*options_of(kind)}


def test_an_option_of_another_kind(kind: str, tmp_path: Path) -> None:
    other, key = ("tagging", "crf") if kind != "tagging" else ("span", "max_answer_tokens")
    with pytest.raises(ConfigError, match=f"{key}.*{other}.*{kind}"):
        bertwright.finetune(kind, model="m", train="t", out=tmp_path / "run", **{key: 1})
    words = ["finetune", kind, "--model", "m", "--train", "t", "--out", str(tmp_path / "run")]
    with pytest.raises(ConfigError, match=f"--{key.replace('_', '-')}.*{other}.*{kind}"):
        verb_for([*words, f"--{key.replace('_', '-')}"])


def test_the_help_shows_the_options_of_the_kind(kind: str, capsys: Any) -> None:
    assert run_verb(["finetune", kind, "--help"]) == 0
    shown = capsys.readouterr().out.partition("Examples:")[0]
    for each in options_of(kind):
        assert f"--{each.replace('_', '-')}" in shown
    others = {key for name in KINDS for key in options_of(name)} - {*options_of(kind)}
    for each in others:
        assert f"--{each.replace('_', '-')} " not in shown
