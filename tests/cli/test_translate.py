"""`bertwright translate` on a small Transformer, and the mean of checkpoints."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertwright.cli.app import run
from bertwright.inference.model import load
from bertwright.inference.translation import translate as translation
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.cli.conftest import JsonOf, Ran
from tests.inference.translation.sample import TEXTS, make
from tests.raising import assert_names
from tests.small_runs import SPECIAL, WORDS, build_data, newest, train
from tests.small_runs import config_of as bert_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("translation"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "test.de"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def test_arguments_files_and_standard_input(
    folder: Path, source: Path, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    expected = load(folder).translate(TEXTS, beam=3)
    lines = [each.text for each in expected]
    assert len(set(lines)) > 2
    settings = ("--model", folder, "--beam", 3)
    assert ran("translate", TEXTS[0], TEXTS[2], *settings).out.splitlines() == [lines[0], lines[2]]
    assert ran("translate", "--input", source, *settings).out.splitlines() == lines
    out = tmp_path / "out.jsonl"
    printed = ran("translate", "--input", source, "--out", out, "--json", *settings)
    assert json.loads(printed.out) == {"out": str(out), "texts": len(TEXTS)}
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["text"] for each in written] == lines
    assert [each["source"] for each in written] == TEXTS
    found = json_of("translate", "--input", "-", *settings, stdin=source.read_bytes())
    assert [each["text"] for each in found["translations"]] == lines


def test_a_line_that_comes_alone_is_not_kept_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = [f"{TEXTS[0]}\n".encode(), f"{TEXTS[2]}\n{TEXTS[0]}\nba".encode(), b" be\n"]
    printed: list[int] = []

    class Pipe(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            printed.append(len(capsys.readouterr().out.splitlines()))
            block = sent.pop(0) if sent else b""
            buffer[: len(block)] = block
            return len(block)

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Pipe())))
    assert run(["translate", "--input", "-", "--model", str(folder)]) == 0
    assert printed == [0, 1, 2, 1]  # before each read, the last of which finds the end


def test_figures_are_those_of_sacrebleu(
    folder: Path, source: Path, tmp_path: Path, ran: Ran
) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    found = [each.text for each in load(folder).translate(TEXTS)]
    wanted = [text and f"{text} ba be" for text in found]
    reference = tmp_path / "test.en"
    reference.write_text("\n".join(wanted) + "\n")
    printed = ran(
        "translate", "--input", source, "--reference", reference, "--model", folder, "--json"
    )
    figures = json.loads(printed.out)
    expected = sacrebleu.corpus_bleu(found, [wanted])
    assert figures["bleu"] == round(expected.score, 2) > 0
    assert figures["sentences"] == len(TEXTS)
    assert "tok:13a" in figures["signature"]
    out = tmp_path / "out.txt"
    words = ("--input", source, "--reference", reference, "--model", folder, "--out", out)
    assert f"{figures['bleu']}" in ran("translate", *words).out
    assert out.read_text().splitlines() == found


def test_an_interrupted_run_keeps_what_was_written(
    folder: Path, source: Path, tmp_path: Path, interrupted: Callable[[str], None], ran: Ran
) -> None:
    interrupted("bertwright.inference.translation.translate.translate")
    out = tmp_path / "out.txt"
    ran("translate", "--input", source, "--out", out, "--model", folder, code=130)
    assert len(out.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (TEXTS[:3], "line 3"),
        ([*TEXTS[:5], ""], "empty"),
        ([*TEXTS, "ba"], "test.de ends after line 6"),
    ],
)
def test_references_of_other_lines(
    folder: Path, source: Path, tmp_path: Path, lines: list[str], message: str, ran: Ran
) -> None:
    pytest.importorskip("sacrebleu")
    reference = tmp_path / "test.en"
    reference.write_text("\n".join(lines) + "\n")
    printed = ran(
        "translate", "--input", source, "--reference", reference, "--model", folder, code=4
    )
    assert message in printed.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["x", "--beam", "0"], 2, "beam is 0"),
        ([], 2, "--input"),
        (["x", "--input", "a.txt"], 2, "--input"),
        (["x", "--reference", "a.txt"], 2, "--input"),
        (["ba " * 99], 4, "101 tokens"),
        (["--input", "missing.txt"], 4, "missing.txt"),
    ],
)
def test_errors(folder: Path, words: list[str], code: int, message: str, ran: Ran) -> None:
    assert message in ran("translate", *words, "--model", folder, code=code).err


def test_a_vocabulary_of_another_model(folder: Path, tmp_path: Path, ran: Ran) -> None:
    swapped = tmp_path / "swapped"
    shutil.copytree(folder, swapped)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (swapped / name).unlink()
    make_tokenizer([*SPECIAL, *WORDS, "xa", "xe"]).save(swapped)
    said = ran("translate", "ba be", "--model", swapped, code=5).err
    size = len(SPECIAL) + len(WORDS)
    assert_names(said, f"{size + 2} tokens", f"{size}")


def test_without_sacrebleu(
    folder: Path, source: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    printed = ran("translate", "--input", source, "--reference", source, "--model", folder, code=3)
    assert 'pip install "bertwright[translation]"' in printed.err
    with pytest.raises(ImportError, match="sacrebleu"):
        translation.evaluate_translations(["a"], ["a"])


@pytest.mark.slow
def test_checkpoints_are_averaged_and_a_bert_translates_nothing(tmp_path: Path, ran: Ran) -> None:
    data = build_data(tmp_path)
    train(bert_run(data, tmp_path / "run", checkpoint={"every_steps": 6, "keep": 5}))
    out = tmp_path / "mean"
    ran("convert", tmp_path / "run", out, "--average", "3")
    there = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert len(there) == 4
    states = [load_file(each / "model.safetensors") for each in there[-3:]]
    found = load_file(out / "model.safetensors")
    assert found.keys() == states[0].keys()
    for name, value in found.items():
        torch.testing.assert_close(value, torch.stack([x[name] for x in states]).mean(0))
    assert any(not torch.equal(found[name], states[-1][name]) for name in found)
    printed = ran("convert", tmp_path / "run", str(out) + "9", "--average", "9", code=2)
    assert "has 4 checkpoints" in printed.err
    printed = ran("translate", "x", "--model", newest(tmp_path / "run"), code=4)
    assert "translation head" in printed.err


def test_a_newline_in_a_translation_makes_no_line(
    folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    def translate(runner: Any, groups: Any, config: Any) -> Iterator[translation.Translated]:
        for text in next(iter(groups)):
            yield translation.Translated(text, "one\ntwo", 0.0, "stop")

    monkeypatch.setattr("bertwright.inference.translation.translate.translate", translate)
    out = tmp_path / "out.txt"
    ran("translate", "--input", source, "--out", out, "--model", folder)
    assert out.read_text().splitlines() == ["one two"] * len(TEXTS)
