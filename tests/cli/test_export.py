"""`export onnx` and `export openvino` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.checkpoint.export import write as exporting
from bertwright.cli.app import run
from tests.cli.conftest import Ran


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the verb asks for, in place of an export."""
    calls: list[dict[str, Any]] = []

    def export(model: str, out: Path, runtime: str, **options: Any) -> dict[str, Any]:
        calls.append({"model": model, "out": out, "runtime": runtime, **options})
        more = {"int8_correlation": 0.99991} if options["int8"] else {}
        facts = {"head": None, "outputs": {"a": "token"}, "largest_difference": 2e-6}
        return {**facts, "pooling": "cls", "crf": None, **more}

    monkeypatch.setattr(exporting, "export", export)
    return calls


def test_options_reach_the_export(
    asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "m", "--out", str(tmp_path / "o"), "--int8", "--overwrite"]
    assert run(["export", "openvino", *words]) == 0
    (call,) = asked
    assert call.pop("on_step")
    assert call == {
        "model": "m", "out": tmp_path / "o", "runtime": "openvino", "head": None, "int8": True,
        "overwrite": True,
    }  # fmt: skip
    shown = capsys.readouterr().out
    assert "0.99991" in shown
    assert "2e-06" in shown
    assert "cls pooling, as modules.json says" in shown


def test_json_is_one_object(asked: list[dict[str, Any]], tmp_path: Path, ran: Ran) -> None:
    words = ["--model", "m", "--out", tmp_path / "o", "--task", "masked_lm", "--json"]
    assert json.loads(ran("export", "onnx", *words).out)["largest_difference"] == 2e-6
    assert asked[0]["head"] == "masked_lm"
    assert asked[0]["runtime"] == "onnx"


def test_the_extra_is_not_needed_to_develop() -> None:
    import tomllib

    from tests.house.source import ROOT

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = extras["optional-dependencies"]
    assert {r.partition(">")[0] for r in wanted["export"]} == {
        "onnx", "onnxscript", "onnxruntime", "openvino",
    }  # fmt: skip
    assert not [r for r in wanted["dev"] if r.startswith(("onnx", "openvino"))]
