"""`export onnx` and `export openvino` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.checkpoint.export import write as exporting
from bertwright.cli.app import run
from tests.cli.conftest import Ran
from tests.raising import assert_names


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the verb asks for, in place of an export."""
    calls: list[dict[str, Any]] = []

    def export(model: str, out: Path, runtime: str, **options: Any) -> dict[str, Any]:
        calls.append({"model": model, "out": out, "runtime": runtime, **options})
        figures = {"texts": 2, "cosine_texts": {"mean": 0.99991, "least": 0.99}}
        more = {"int8_on_text": figures} if options["int8"] else {}
        facts = {"head": None, "outputs": {"a": "token"}, "largest_difference": 2e-6}
        return {**facts, "pooling": "cls", "crf": None, **more}

    monkeypatch.setattr(exporting, "export", export)
    return calls


def test_options_reach_the_export(
    asked: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sample.txt").write_text("A text.\n\n  Another. \n")
    words = ["--model", "m", "--out", str(tmp_path / "o"), "--int8", "--layers", "-2"]
    more = ["--sample", str(tmp_path / "sample.txt"), "--least", "0.99", "--overwrite"]
    assert run(["export", "openvino", *words, *more]) == 0
    (call,) = asked
    assert call.pop("on_step")
    assert call == {
        "model": "m", "out": tmp_path / "o", "runtime": "openvino", "head": None, "layers": (-2,),
        "int8": True, "sample": ["A text.", "Another."], "least": 0.99, "overwrite": True,
    }  # fmt: skip
    shown = capsys.readouterr().out
    assert "mean 0.99991, least 0.99000" in shown
    assert "2e-06" in shown
    assert_names(shown, "cls pooling", "modules.json")


def test_json_is_one_object(asked: list[dict[str, Any]], tmp_path: Path, ran: Ran) -> None:
    words = ["--model", "m", "--out", tmp_path / "o", "--task", "masked_lm", "--json"]
    assert json.loads(ran("export", "onnx", *words).out)["largest_difference"] == 2e-6
    assert asked[0]["head"] == "masked_lm"
    assert asked[0]["runtime"] == "onnx"


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no file"), (b"", "is empty"), (b"\xff\xfe", "expected UTF-8")],
)
def test_a_sample_that_is_none(
    content: bytes | None, message: str, tmp_path: Path, ran: Ran
) -> None:
    sample = tmp_path / "sample.txt"
    if content is not None:
        sample.write_bytes(content)
    words = ["--model", "m", "--out", tmp_path / "o", "--int8", "--sample", sample]
    assert message in ran("export", "onnx", *words, code=4).err


def test_a_sample_is_of_int8(asked: list[dict[str, Any]], tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "sample.txt").write_text("A text.\n")
    words = ["--model", "m", "--out", "o", "--sample", tmp_path / "sample.txt"]
    assert_names(ran("export", "onnx", *words, code=2).err, "--sample", "--int8")
    assert not asked


def test_the_extra_is_not_needed_to_develop() -> None:
    import tomllib

    from tests.house.source import ROOT

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = extras["optional-dependencies"]
    assert {r.partition(">")[0] for r in wanted["export"]} == {
        "onnx", "onnxscript", "onnxruntime", "openvino",
    }  # fmt: skip
    assert not [r for r in wanted["dev"] if r.startswith(("onnx", "openvino"))]
