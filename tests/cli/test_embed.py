"""`bertwright embed` and `similar`: options, output, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bertwright.checkpoint.sentence_transformers import EmbeddingDefaults, write_defaults
from bertwright.cli.app import run
from bertwright.inference.model import load
from tests.inference.conftest import write_model

ROWS = [("a b", "x"), ("c d e", "y"), ("a b a", "x"), ("the j", "z")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model(tmp_path_factory.mktemp("cli") / "model", ()))


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "in.csv"
    path.write_text("text,kind\n" + "".join(f"{a},{b}\n" for a, b in ROWS), encoding="utf-8")
    return str(path)


def test_layers_and_json(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "v.npy"
    words = ["embed", "--model", model, "--input", table, "--out", str(out), "--json"]
    assert run([*words, "--layers", "0,-1", "--combine", "sum", "--pooling", "max"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shape"] == [4, 24]
    assert found["layers"] == [0, 3]
    right = load(model).embed([a for a, _ in ROWS], [0, -1], "max", combine="sum")
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)
    assert run([*words, "--layers", "first-last", "--overwrite"]) == 0
    right = load(model).embed([a for a, _ in ROWS], [1, 3], combine="mean")
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)


def test_a_sentence_transformers_folder_brings_its_own_way(
    tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_model(tmp_path / "model", ())
    write_defaults(folder, EmbeddingDefaults("cls", True, 6), 24)
    out = tmp_path / "v.npy"
    words = ["embed", "--model", str(folder), "--input", table, "--out", str(out), "--json"]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["pooling"] == "cls"
    right = load(folder).embed([a for a, _ in ROWS], [-1], "cls", normalize=True)
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)
    assert run([*words, "--pooling", "mean", "--no-normalize", "--overwrite"]) == 0
    right = load(folder).embed([a for a, _ in ROWS], [-1])
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)


def test_whitening_and_back(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "w.npz")
    words = ["embed", "--model", model, "--input", table]
    assert run([*words, "--fit-whitening", file, "--dimensions", "2"]) == 0
    assert "whitening of 2 dimensions, fitted on 4 texts" in capsys.readouterr().out
    out = tmp_path / "v.npy"
    assert run([*words, "--whiten", file, "--out", str(out)]) == 0
    assert np.load(out).shape == (4, 2)


def test_a_plot(model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "p.html"
    words = ["embed", "--model", model, "--input", table, "--plot", str(page), "--color", "kind"]
    assert run(words) == 0
    assert "4 texts" in capsys.readouterr().out
    assert "x (2)" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["--out", "v.npy", "--plot", "p.html"], 2, "name one of --out FILE"),
        ([], 2, "name one of --out FILE"),
        (["--out", "v.npy", "--color", "kind"], 2, "--color is of --plot"),
        (["--out", "v.npy", "--layers", "last"], 2, "expected numbers, or first-last alone"),
        (["--out", "v.npy", "--layers", "4"], 2, "no layer 4: this model has 0"),
        (["--out", "v.npy", "--tokens"], 2, "write .jsonl or .parquet"),
        (["--out", "v.npy", "--text", "nothing"], 4, "no column 'nothing'"),
        (["--out", "v.npy", "--backend", "openvino"], 2, "--exported DIR"),
        (["--fit-whitening", "w.npy"], 2, "ends in .npz"),
    ],
)
def test_what_is_refused(
    model: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["embed", "--model", model, "--input", table, *change]) == code
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_similar(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["similar", "--model", model, "--corpus", table, "c d e", "--top", "2"]
    assert run([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["queries"]
    assert found["query"] == "c d e"
    assert next(each["row"] for each in found["found"]) == 2
    assert found["found"][0]["cosine"] == pytest.approx(1, abs=1e-5)
    assert run(words) == 0
    assert "1.0000" in capsys.readouterr().out
    out = tmp_path / "v.npy"
    embed = ["embed", "--model", model, "--input", table, "--out", str(out), "--dtype", "int8"]
    assert run(embed) == 0
    capsys.readouterr()
    assert run([*words, "--vectors", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["queries"][0]
    assert [each["row"] for each in again["found"]] == [each["row"] for each in found["found"]]


def test_similar_refuses(
    model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["similar", "--model", model, "--corpus", table]
    assert run(words) == 4
    assert "no query" in capsys.readouterr().err
    np.save(tmp_path / "v.npy", np.zeros((3, 24), np.float32))
    assert run([*words, "a", "--vectors", str(tmp_path / "v.npy")]) == 4
    assert "has 3 vectors and" in capsys.readouterr().err
