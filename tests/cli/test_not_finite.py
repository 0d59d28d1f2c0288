"""Weights that are finite and too large: no verb shows or writes what is not a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertwright.atomic import MANIFEST
from bertwright.cli.app import run
from bertwright.inference.model import load
from tests.cli.conftest import Files, Finetuned, Ran
from tests.raising import assert_names
from tests.small_runs import build_data

NAMED = "not finite"


def ruin(folder: Path, out: Path) -> Path:
    """A copy of a model whose weights are finite and as large as float32 holds."""
    out.mkdir()
    source = folder / "model" if (folder / "model").exists() else folder
    for path in source.iterdir():
        if path.name != MANIFEST and path.is_file():
            (out / path.name).write_bytes(path.read_bytes())
    tensors = load_file(out / "model.safetensors")
    large = {n: x.sign() * 3e38 if x.is_floating_point() else x for n, x in tensors.items()}
    assert all(torch.isfinite(x).all() for x in large.values())
    save_file(large, out / "model.safetensors", {"format": "pt"})
    return out


@pytest.fixture
def ruined(tiny: Path, tmp_path: Path) -> Path:
    return ruin(tiny, tmp_path / "ruined")


@pytest.mark.parametrize(
    "words",
    [
        ["embed", "--input", "in.txt", "--out", "v.npy"],
        ["embed", "--input", "in.txt", "--out", "v.jsonl", "--pooling", "none"],
        ["whiten", "--input", "in.txt", "--out", "w.npz"],
        ["plot", "--input", "in.txt", "--out", "p.html"],
        ["similar", "--corpus", "in.txt", "a b"],
        ["fill", "a [MASK] c"],
        ["perplexity", "in.txt"],
        ["attention", "a b", "--out", "page.html"],
    ],
)
def test_a_masked_language_model(
    ruined: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: Ran,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("a b c\nd e f g\nb d\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert NAMED in ran(*words, "--model", ruined, code=4).err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", ["classification", "regression", "tagging", "span"])
def test_a_task_head(
    finetuned: Finetuned, files: Files, tmp_path: Path, ran: Ran, kind: str
) -> None:
    model, (_, dev) = ruin(finetuned(kind), tmp_path / "ruined"), files[kind]
    assert NAMED in ran("evaluate", "--model", model, "--data", dev, code=4).err
    out = tmp_path / "p.jsonl"
    assert NAMED in ran("predict", "--model", model, "--input", dev, "--out", out, code=4).err
    assert not out.exists()


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("shards"))


SMALL = ["--architecture.hidden-size", "16", "--architecture.num-hidden-layers", "1"]
SMALL += ["--architecture.num-attention-heads", "2", "--sequence-length", "32"]


def gpt(shards: Path, out: Path, *more: str) -> list[str]:
    words = ["pretrain", "--model", "gpt2-mini", "--data", str(shards), "--out", str(out)]
    return [*words, *SMALL, "--device", "cpu", "--precision", "fp32", "--steps", "1", *more]


def test_a_run_without_validation_is_checked_after_its_last_step(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = ["--schedule.warmup", "0", "--validation.fraction", "0"]
    wild += ["--optimizer.matrix-learning-rate", "1e38"]
    assert run(gpt(shards, tmp_path / "run", *wild)) == 1
    said = capsys.readouterr().err
    assert_names(said, "step 1", "not finite", "--optimizer.matrix-learning-rate")
    assert not (tmp_path / "run" / "model").exists()
    assert run(gpt(shards, tmp_path / "good", "--validation.fraction", "0")) == 0


def test_a_generator(shards: Path, tmp_path: Path, ran: Ran) -> None:
    out = tmp_path / "run"
    assert run(gpt(shards, out)) == 0
    model = ruin(out, tmp_path / "ruined")
    for more in ([], ["--sample"], ["--num", "2", "--sample"]):
        assert NAMED in ran("generate", "--model", model, "ba be", *more, code=4).err
    assert NAMED in ran("perplexity", shards.parent / "corpus.txt", "--model", model, code=4).err


def test_a_translator(tmp_path: Path, ran: Ran) -> None:
    from tests.small_runs import build_pairs

    shards, out = build_pairs(tmp_path), tmp_path / "run"
    words = ["pretrain", "--model", "transformer-small", "--data", str(shards), "--out", str(out)]
    words += [*SMALL[:6], "--device", "cpu", "--precision", "fp32", "--steps", "1"]
    assert run(words) == 0
    model = ruin(out, tmp_path / "ruined")
    for beam in ("1", "4"):
        assert NAMED in ran("translate", "--model", model, "ba be", "--beam", beam, code=4).err


def test_the_library(ruined: Path) -> None:
    model: Any = load(ruined)
    for work in (model.embed, model.score):
        with pytest.raises(ValueError, match="not finite"):
            work(["a b c"])
