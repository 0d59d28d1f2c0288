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
from bertwright.config.task import HeadConfig
from bertwright.errors import DataError, IntegrityError
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import bert_spec
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask
from tests.checkpoint.conftest import refused
from tests.checkpoint.task_heads import TEXT, change_task, saved

SPEC = bert_spec(BertConfig())
TASK = replace(
    TEXT, head=HeadConfig(layers="mix", dropout=0.25), text_column="Größe", labels=("é",)
)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    saved(tmp_path, {"classes": TEXT})
    return tmp_path


def test_there_and_back(tmp_path: Path) -> None:
    tasks = {"a": TASK, "b-2": SpanTask(null_threshold=-3.5), "C_": TEXT}
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
    task = ClassificationTask(
        labels=tuple(labels),
        max_length=length,
        stride=length // 2,
        text_column=column,
        head=HeadConfig(dropout=dropout),
        options=ClassificationOptions(multi_label=multi_label),
    )
    write_tasks(tmp_path, {"a": task})
    assert read_tasks(tmp_path, SPEC) == {"a": task}


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_tasks(tmp_path, SPEC) is None


HOSTILE: dict[str, list[Any]] = {
    "kind": ["translation", ["classification"]],
    "labels": [[], ["a", "a", "b"], ["a", 1, "b"], "abc", {"0": "a"}, None],
    "multi_label": [1],
    "scheme": ["iob3"],
    "max_length": [10**400, 18, 16.0, True, -1],
    "stride": [-1],
    "max_answer_tokens": [0],
    "null_threshold": [float("nan"), float("-inf"), 10**400, "0"],
    "text_column": [3],
    "head": [
        None,
        [],
        {"layer": "mix"},
        {"layers": "all"},
        {"layers": "concat-last-4"},
        {"dropout": float("nan")},
        {"dropout": 1},
        {"network_size": 0},
        {"network": "bilstm", "network_size": 10**12},
        {"network": "bilstm", "network_size": 10**400},
        {"crf": True},
    ],
    "labelz": [["a"]],
    "x" * 100_000: [1],
}


@pytest.mark.parametrize("key", HOSTILE, ids=lambda key: key[:20])
def test_hostile_tasks(tuned: Path, key: str) -> None:
    for value in HOSTILE[key]:
        change_task(tuned, **{key: value})
        with pytest.raises(DataError, match=r"task\.json") as caught:
            load(tuned)
        assert caught.value.exit_code == 4
        assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"[1, 2]",
        b"{}",
        b'{"format": 2, "tasks": {}}',
        b'{"format": true, "tasks": {}}',
        b'{"format": 1}',
        b'{"format": 1, "tasks": {}}',
        b'{"format": 1, "tasks": []}',
        b'{"format": 1, "tasks": {"a": {}}, "code": "x"}',
        b'{"format": 1, "tasks": {"a": 5}}',
        b'{"format": 1, "tasks": {"a": {}}}',
        b'{"format": 1, "tasks": {"a": {"kind": "tagging"}}}',
        b'{"format": 1, "tasks": {"a/b": {}}}',
        b'{"format": 1, "tasks": {"next_sentence": {}}}',
        b'{"format": 1, "tasks": {"__class__": {}}}',
    ],
)
def test_files_that_list_no_task(tuned: Path, content: bytes) -> None:
    (tuned / "task.json").write_bytes(content)
    refused(tuned, DataError, r"task\.json")


def test_too_many_tasks(tuned: Path) -> None:
    content = {"format": 1, "tasks": {f"t{n}": {"kind": "span"} for n in range(1001)}}
    (tuned / "task.json").write_text(json.dumps(content))
    refused(tuned, DataError, "1001 tasks.*1000")


def test_large_heads_are_held_against_the_weights_before_memory_is_taken(tmp_path: Path) -> None:
    """An LSTM of 65,536 numbers a direction has 137 GB: refused by the header, in no time."""
    mixed = replace(TEXT, head=HeadConfig(network="bilstm", network_size=5))
    saved(tmp_path, {"mixed": mixed})
    change_task(tmp_path, head={"network": "bilstm", "network_size": 65_536})
    with pytest.raises(IntegrityError, match=r"task\.json.*262144"):
        load(tmp_path)
