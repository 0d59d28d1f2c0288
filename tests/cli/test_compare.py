"""`bertwright compare` on the command line: what is refused, the plan, and a whole run."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from bertwright.cli.app import run
from bertwright.config.compare import CompareConfig
from bertwright.errors import BertwrightError
from bertwright.recipes.compare import presets, train
from bertwright.recipes.compare.folder import PRESET, hold
from tests.cli.conftest import JsonOf, Ran
from tests.recipes.compare.conftest import write_labels, write_text
from tests.recipes.quickstart.sample import write_package

SMALL = ("--minutes", "0.01", "--vocab-size", "200", "--sentences", "line", "--device", "cpu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--preset python"),
        (("corpus.txt", "--preset", "python"), "--preset python"),
        (("--preset", "python", "--held-out", "0.2"), "--held-out 0.2"),
        (("corpus.txt", "--test", "x.tsv"), "--train"),
        (("corpus.txt", "--systems", "brt"), "bert"),
        (("corpus.txt", "--fractions", "2"), "fractions"),
        (("corpus.txt", "--parallel", "one"), "SOURCE TARGET"),
    ],
)
def test_wrong_options(
    words: tuple[str, ...], said: str, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "corpus.txt")
    assert said in ran("compare", *words, "--out", "out", code=2).err
    assert not (tmp_path / "out").exists()


def test_bad_data_is_found_before_anything_is_trained(ran: Ran, tmp_path: Path) -> None:
    corpus, out = write_text(tmp_path / "corpus.txt"), tmp_path / "out"
    labels = tmp_path / "labels.tsv"
    labels.write_text("text\tlabel\na text\tsame\nother text\tsame\n")
    words = ("compare", corpus, "--train", labels, "--out", out)
    assert "labels.tsv" in ran(*words, code=4).err
    labels.write_text("text\tlabel\n" + "".join(f"a text\tnumber {n}\n" for n in range(30)))
    assert "'number 0'" in ran(*words, code=4).err
    assert "nothing.txt" in ran("compare", tmp_path / "nothing.txt", "--out", out, code=4).err
    assert not out.exists()
    few = tmp_path / "few.txt"
    few.write_text("A short text.\n\nAnother one.\n")
    assert "words" in ran("compare", few, "--systems", "ngram", "--out", out, code=4).err
    assert not out.exists()


def test_a_dry_run_writes_nothing(json_of: JsonOf, ran: Ran, tmp_path: Path) -> None:
    corpus, labels = write_text(tmp_path / "corpus.txt"), write_labels(tmp_path / "a.tsv", 40)
    words = ("compare", corpus, "--train", labels, "--out", tmp_path / "out", "--dry-run")
    plan = json_of(*words)
    assert {"bert", "word2vec", "ngram"} <= set(plan["systems"])
    some = json_of(*words, "--systems", "bert,ngram", "gpt2", "--fractions", "0.1,0.5", "1")
    assert some["systems"] == ["ngram", "gpt2", "bert"]
    assert {step["name"] for step in some["steps"]} >= {
        f"bert-1/frozen-{fraction}" for fraction in ("0.1", "0.5", "1")
    }
    assert "--parallel" in plan["left_out"]["cove"]
    assert plan["seconds"] > 60 * len(plan["systems"])
    assert plan["bytes_needed"] > 10**6
    assert "transformer is left out" in ran(*words).out
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_the_preset_writes_and_deletes_nothing(
    json_of: JsonOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    write_package(tmp_path / "in")
    write = partial(presets.write_python_docs, search=[str(tmp_path / "in")], workers=1)
    monkeypatch.setattr(presets, "write_python_docs", write)
    out = tmp_path / "out"
    words = ("compare", "--preset", "python", "--out", out, "--dry-run")
    assert "bert" in json_of(*words)["systems"]
    assert not out.exists()
    with hold(out) as folder:  # a comparison of the preset
        presets.python_docs(presets.PYTHON, CompareConfig(out=str(out)), out / PRESET, print)
        folder.has_begun = True
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert files
    assert "bert" in json_of(*words, "--overwrite")["systems"]
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_an_unexpected_error_of_a_system_has_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*args: object, **how: object) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(train.pretraining, "pretrain", bug)
    words = ["compare", str(write_text(tmp_path / "corpus.txt")), "--systems", "ngram", *SMALL]
    with pytest.raises(BertwrightError, match="ngram") as failed:
        run([*words, "--out", str(tmp_path / "out"), "--debug"])
    assert isinstance(failed.value.__cause__, RuntimeError)


def test_a_comparison_and_its_files(json_of: JsonOf, ran: Ran, tmp_path: Path) -> None:
    corpus, out = write_text(tmp_path / "corpus.txt"), tmp_path / "out"
    words = ("compare", corpus, "--systems", "ngram", "--out", out, *SMALL)
    shown = ran(*words).out
    assert "n-gram" in shown
    assert "report.html" in shown
    results = json_of(*words)
    assert results == json.loads((out / "results.json").read_text("utf-8"))
    (out / "report.html").unlink()
    assert "report.html" in ran("report", out).out
    assert "n-gram" in (out / "report.html").read_text("utf-8")
    changed = ran(*words, "--word-vocab-size", "300", code=2).err
    assert "word_vocab_size" in changed
