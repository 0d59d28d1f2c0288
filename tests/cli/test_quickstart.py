"""`bertwright quickstart`: the whole road, with a small vocabulary, model and corpus."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.cli import quickstart
from bertwright.cli.app import make_app, run
from bertwright.config.compare import CompareConfig
from bertwright.errors import DataError, Interrupted
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.compare import presets
from bertwright.recipes.quickstart import corpus
from bertwright.recipes.quickstart import run as recipe
from bertwright.recipes.quickstart.corpus import Module
from bertwright.report.comparison.rows import Results
from tests.cli.conftest import Ran
from tests.raising import assert_names

pytestmark = pytest.mark.slow
FACTS = ("task", "systems", "settings")


@dataclass(frozen=True)
class Finished:
    """A quickstart that ran."""

    out: Path
    told: dict[str, Any]
    said: str


def some_modules(search: object = None) -> list[Module]:
    """Half of the standard library's modules, shared out to three packages by first letter."""
    library = Path(sysconfig.get_path("stdlib"))
    paths = [*sorted(library.glob("*.py"))[::2], *sorted((library / "email").glob("*.py"))]
    names = [p.stem for p in paths]
    packages = ["early" if n < "f" else "middle" if n < "r" else "late" for n in names]
    return [
        Module(*each, "packages")
        for each in zip(paths, names, packages, strict=True)
        if each[1] != "antigravity"
    ]


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = presets.QUICKSTART
    systems = {"bert": replace(preset.systems["bert"], model="bert-tiny")}
    sizes = [(0.0, 12), (0.0, 24)]
    preset = replace(preset, systems=systems, sizes=sizes, task_minutes=0.02)
    config = partial(CompareConfig, vocab_size=600, word_vocab_size=600)
    monkeypatch.setattr(corpus, "find_modules", some_modules)
    monkeypatch.setattr(recipe, "QUICKSTART", preset)
    monkeypatch.setattr(recipe, "CompareConfig", config)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out = tmp_path_factory.mktemp("quick") / "start"
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        told, said = io.StringIO(), io.StringIO()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # so small a model gains nothing from more
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
            code = run(["quickstart", "--minutes", "0.02", "--out", str(out), "--json"])
        torch.set_num_threads(threads)
        assert code == 0, said.getvalue()
    (line,) = told.getvalue().splitlines()
    return Finished(out, json.loads(line), said.getvalue())


def test_everything_is_there(finished: Finished) -> None:
    for name in ("report.html", "results.json", "run/examples.json", "run/model/config.json"):
        assert (finished.out / name).is_file(), name
    assert finished.told["report"] == str(finished.out / "report.html")
    assert finished.told["corpus"]["documents"] > 20


def test_every_step_says_what_and_how_long(finished: Finished) -> None:
    assert finished.told["seconds"]
    for name, seconds in finished.told["seconds"].items():
        assert name in finished.said
        assert seconds > 0
    assert "learned nothing" in finished.said
    assert "\x1b" not in finished.said


@pytest.mark.parametrize("has_learned", [True, False])
def test_the_end_says_what_to_do(
    finished: Finished, has_learned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = {"verdict": {"answer": "yes" if has_learned else "no"}}
    quickstart.print_end(finished.told | {"examples": finished.told["examples"] | verdict})
    shown = capsys.readouterr().out
    longer = f"bertwright quickstart --minutes 20 --out {finished.out} --overwrite"
    assert (longer in shown) is not has_learned
    assert f"bertwright serve --model {finished.out}" in shown


def test_figures_and_baselines(finished: Finished) -> None:
    masked, near = finished.told["comparison"]
    assert masked["note"]
    for row in (masked, near):
        assert len(row["figures"]) == 3
        assert all(0 <= value <= 1 for value in row["figures"].values())
    lines = (finished.out / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (last,) = [r for r in map(json.loads, lines) if r["split"] == "dev"][-1:]
    assert masked["figures"]["this model"] == last["masked_lm.accuracy"]  # one figure for one thing


def test_the_folder_is_a_model(finished: Finished) -> None:
    for folder in (finished.out, finished.out / "run" / "model"):
        assert run(["inspect", str(folder)]) == 0


def test_examples_are_of_the_text(finished: Finished) -> None:
    examples = finished.told["examples"]
    (blanks,) = [each["blanks"] for each in examples["sections"] if each["kind"] == "blanks"]
    assert len(blanks) == 8
    for blank in blanks:
        assert "[MASK]" in blank["text"]
        assert len(blank["top"]) == 5
    page = (finished.out / "report.html").read_text(encoding="utf-8")
    for title in ("beside simple baselines", "Masked words", "by their vectors"):
        assert title in page


def test_the_labelled_task(finished: Finished) -> None:
    found = Results.of(
        {key: value for key, value in finished.told.items() if key in (*FACTS, "rows")}
    )
    assert found.facts["task"]["labels"] == ["early", "late", "middle", "python"]
    assert found.fractions == [0.5, 1.0]
    methods = {(row.system, row.way) for row in found.find(measure="task")}
    ways = {("bert", way) for way in ("frozen", "tuned", "random")}
    assert methods == ways | {("tfidf", "baseline"), ("majority", "baseline")}
    assert found.baselines()["majority"].value == pytest.approx(1 / 4)
    for row in found.find(measure="task"):
        assert row.low is not None
        assert row.low <= row.value <= row.high  # type: ignore[operator]
    test = (finished.out / "python" / "task" / "test.jsonl").read_text("utf-8").splitlines()
    assert len(test) == found.facts["task"]["examples"]["test"]
    assert set(json.loads(test[0])) == {"text", "label", "module"}
    page = (finished.out / "report.html").read_text(encoding="utf-8")
    assert "number of labelled examples" in page
    assert run(["report", str(finished.out)]) == 0
    assert (finished.out / "report.html").read_text(encoding="utf-8") == page


def test_the_next_commands_are_understood(finished: Finished) -> None:
    assert len(finished.told["next"]) == 5
    for command in [*finished.told["next"], finished.told["command"]]:
        words = shlex.split(command)[1:]
        make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)


def test_what_is_finished_is_not_done_again(
    finished: Finished, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    before = (finished.out / "steps.jsonl").stat().st_mtime_ns
    ran("quickstart", "--minutes", "0.02", "--out", finished.out)
    assert (finished.out / "steps.jsonl").stat().st_mtime_ns == before
    printed = ran("quickstart", "--minutes", "1", "--out", finished.out, code=2)
    assert_names(printed.err, finished.out, "minutes", "--overwrite")


def test_overwrite_takes_nothing_but_its_own(tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.txt").write_text("mine")
    assert "no comparison" in ran("quickstart", "--out", tmp_path, "--overwrite", code=2).err
    assert (tmp_path / "corpus" / "mine.txt").read_text() == "mine"


def test_without_any_text_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    def finds_none(folder: Path, **how: object) -> None:
        folder.mkdir(parents=True)
        raise DataError("no documentation")

    monkeypatch.setattr(presets, "write_python_docs", finds_none)
    assert "no documentation" in ran("quickstart", "--out", tmp_path / "a" / "q", code=4).err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_minutes(minutes: str, tmp_path: Path, ran: Ran) -> None:
    printed = ran("quickstart", f"--minutes={minutes}", "--out", tmp_path / "q", code=2)
    assert_names(printed.err, "minutes", "0")
    assert not (tmp_path / "q").exists()


def test_interrupted_while_pre_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    def stopped(*words: object, **how: object) -> None:
        raise Interrupted(signal.SIGTERM, "the same command with --resume goes on")

    make_small(monkeypatch)
    monkeypatch.setattr(pretraining, "pretrain", stopped)
    out = tmp_path / "quickstart"
    said = " ".join(ran("quickstart", "--out", out, code=143).err.split())
    assert "the same command goes on" in said


def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    words = ["-m", "bertwright", "quickstart", "--out", str(tmp_path / "q")]
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stderr is not None
    said = ""
    while "collecting" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of the group
    try:
        _, rest = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, rest
    assert rest.strip() == "bertwright: interrupted"
