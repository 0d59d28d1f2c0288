"""`task.json`: there and back, and hostile ones refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.task_heads import read_tasks, write_tasks
from bertwright.config.bert import BertConfig
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.errors import DataError
from bertwright.models.bert import bert_spec
from tests.checkpoint.test_task_heads import TEXT, change_task, saved

SPEC = bert_spec(BertConfig())
TASK = replace(
    TEXT, head=HeadConfig(layers="mix", dropout=0.25), text_column="Größe", labels=("é",)
)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    saved(tmp_path, {"classes": TEXT})
    return tmp_path


def test_there_and_back(tmp_path: Path) -> None:
    tasks = {"a": TASK, "b-2": TaskConfig(kind="span", null_threshold=-3.5), "C_": TEXT}
    write_tasks(tmp_path, tasks)
    assert read_tasks(tmp_path, SPEC) == tasks
    assert list(read_tasks(tmp_path, SPEC) or {}) == ["a", "b-2", "C_"]
    assert "Größe" in (tmp_path / "task.json").read_text(encoding="utf-8")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    labels=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True),
    multi_label=st.booleans(),
    length=st.integers(8, 512),
    column=st.none() | st.text("abc#\"'\\\n é", min_size=1),
    dropout=st.floats(0, 0.99),
)
def test_any_labels_come_back(
    tmp_path: Path,
    labels: list[str],
    multi_label: bool,
    length: int,
    column: str | None,
    dropout: float,
) -> None:
    task = TaskConfig(
        "classification",
        labels=tuple(labels),
        multi_label=multi_label,
        max_length=length,
        stride=length // 2,
        text_column=column,
        head=HeadConfig(dropout=dropout),
    )
    write_tasks(tmp_path, {"a": task})
    assert read_tasks(tmp_path, SPEC) == {"a": task}


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_tasks(tmp_path, SPEC) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kind", "translation", "'kind' in task classes must be one of 'classification'"),
        ("kind", ["classification"], "'kind' in task classes must be one of"),
        ("labels", [], "a classification task needs labels"),
        ("labels", ["a", "a", "b"], "labels are not all different"),
        ("labels", ["a", 1, "b"], r"'labels\[1\]' in task classes must be text, got 1"),
        ("labels", "abc", "'labels' in task classes must be a list"),
        ("labels", {"0": "a"}, "'labels' in task classes must be a list"),
        ("labels", None, "'labels' in task classes must be a list"),
        ("multi_label", 1, "'multi_label' in task classes must be true or false"),
        ("scheme", "iob3", "'scheme' in task classes must be one of"),
        ("max_length", 10**400, "max_length is 1000"),
        ("max_length", 18, "max_length is 18; this model has positions for 17"),
        ("max_length", 16.0, "'max_length' in task classes must be a whole number"),
        ("max_length", True, "'max_length' in task classes must be a whole number"),
        ("max_length", -1, "max_length is -1; expected 8 or more"),
        ("stride", -1, "stride is -1"),
        ("max_answer_tokens", 0, "max_answer_tokens is 0"),
        ("null_threshold", float("nan"), "null_threshold is nan; expected a finite number"),
        ("null_threshold", float("-inf"), "null_threshold is -inf"),
        ("null_threshold", 10**400, "task.json: "),
        ("null_threshold", "0", "'null_threshold' in task classes must be a number"),
        ("text_column", 3, "'text_column' in task classes must be"),
        ("head", None, "'head' in task classes must be a section with keys"),
        ("head", [], "'head' in task classes must be a section with keys"),
        ("head", {"layer": "mix"}, "unknown key 'head.layer' in task classes; did you mean"),
        ("head", {"layers": "all"}, "'head.layers' in task classes must be one of"),
        ("head", {"dropout": float("nan")}, "head.dropout is nan; expected a fraction"),
        ("head", {"dropout": 1}, "dropout is 1.0"),
        ("head", {"network_size": 0}, "network_size is 0"),
        ("head", {"network": "bilstm", "network_size": 10**12}, "network_size is 1000000000000"),
        ("head", {"network": "bilstm", "network_size": 10**400}, "network_size is 1000"),
        ("head", {"layers": "concat-last-4"}, "the encoder has 3 layers; it needs 4"),
        ("head", {"crf": True}, "crf is for tagging"),
        ("labelz", ["a"], "unknown key 'labelz' in task classes; did you mean 'labels'"),
        ("x" * 100_000, 1, "unknown key 'xxx"),
    ],
)
def test_hostile_tasks(tuned: Path, key: str, value: Any, message: str) -> None:
    change_task(tuned, **{key: value})
    with pytest.raises(DataError, match=message) as caught:
        load(tuned)
    assert caught.value.exit_code == 4
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "holds list; expected an object"),
        (b"{}", "'format' in .* is None; this Bertwright reads 1"),
        (b'{"format": 2, "tasks": {}}', "'format' in .* is 2; this Bertwright reads 1: a later"),
        (b'{"format": true, "tasks": {}}', "'format' in .* is True"),
        (b'{"format": 1}', r"holds \['format'\]; expected format and tasks"),
        (b'{"format": 1, "tasks": {}}', "expected format and tasks, by name"),
        (b'{"format": 1, "tasks": []}', "expected format and tasks, by name"),
        (b'{"format": 1, "tasks": {"a": {}}, "code": "x"}', "expected format and tasks, by name"),
        (b'{"format": 1, "tasks": {"a": 5}}', "must be a section with keys, got 5"),
        (b'{"format": 1, "tasks": {"a": {}}}', "missing key 'kind'"),
        (
            b'{"format": 1, "tasks": {"a": {"kind": "tagging"}}}',
            "a tagging task needs labels",
        ),
        (b'{"format": 1, "tasks": {"a/b": {}}}', "a task is named 'a/b'"),
        (b'{"format": 1, "tasks": {"next_sentence": {}}}', "no task can be named 'next_sentence'"),
        (b'{"format": 1, "tasks": {"__class__": {}}}', "a task is named '__class__'"),
    ],
)
def test_files_that_tell_of_no_task(tuned: Path, content: bytes, message: str) -> None:
    (tuned / "task.json").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tuned)


def test_too_many_tasks(tuned: Path) -> None:
    content = {"format": 1, "tasks": {f"t{n}": {"kind": "span"} for n in range(1001)}}
    (tuned / "task.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="lists 1001 tasks; expected 1000 at most"):
        load(tuned)


def test_large_heads_are_held_against_the_weights_before_memory_is_taken(tmp_path: Path) -> None:
    """An LSTM of 65,536 numbers a direction has 137 GB: refused by the header, in no time."""
    mixed = replace(TEXT, head=HeadConfig(network="bilstm", network_size=5))
    saved(tmp_path, {"mixed": mixed})
    change_task(tmp_path, head={"network": "bilstm", "network_size": 65_536})
    with pytest.raises(Exception, match=r"its task.json asks for \[") as caught:
        load(tmp_path)
    assert caught.value.exit_code == 5  # type: ignore[attr-defined]
