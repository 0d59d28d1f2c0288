"""Damage inside the files of a run: a page, or an error that names the run."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run
from bertwright.errors import DataError
from bertwright.report.pages import run_page
from bertwright.report.read import read_run
from tests.report.finetuned_runs import KINDS, classification, multi_task, records, write_finetuned
from tests.report.test_labelled_curve import figures
from tests.report.test_pretrained_page import examples, record, write_run

DAMAGE: list[Any] = [None, "a word", math.nan, [], [1, "x"], {"a": 1}, -1, 1e308, [None], [[]]]
MOST = 30
"""Kinds of damage tried per file, sampled."""


def places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value, that of the whole first."""
    yield path
    inside = found.items() if isinstance(found, dict) else ()
    for key, each in enumerate(found[:2]) if isinstance(found, list) else inside:
        yield from places(each, (*path, key))


def damaged(found: Any) -> Iterator[tuple[str, Any]]:
    """Copies with a value each deleted or replaced, and what was done."""
    generator = random.Random(5)
    every = [(path, value) for path in places(found) for value in ("deleted", *DAMAGE)]
    for path, value in generator.sample(every, min(MOST, len(every))):
        whole = {"": copy.deepcopy(found)}
        *above, last = ("", *path)
        at: Any = whole
        for key in above:
            at = at[key]
        if value == "deleted" and path:
            del at[last]
        else:
            at[last] = value
        yield f"{path}: {value}", whole[""]


def hold(folder: Path, what: str) -> None:
    """Fails on anything but a page or an error of ours."""
    try:
        run_page(read_run(folder))
    except DataError as error:
        if str(folder) not in str(error):
            pytest.fail(f"{what}: {error} names no folder")
    except Exception as error:
        pytest.fail(f"{what}: {error!r}")


@pytest.mark.parametrize("kind", [*KINDS, "several"])
def test_damaged_results(kind: str, tmp_path: Path) -> None:
    found = {**KINDS, "several": multi_task}[kind]()
    folder = write_finetuned(tmp_path / "r", found)
    for what, each in damaged(found):
        (folder / "results.json").write_text(json.dumps(each))
        hold(folder, what)


@pytest.mark.parametrize(
    ("name", "found"),
    [("examples", examples()), ("learning_curve", figures())],
)
def test_damaged_files_of_a_quickstart(name: str, found: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    for what, each in damaged(found):
        (folder / f"{name}.json").write_text(json.dumps(each))
        hold(folder, what)


def test_damaged_measurements(tmp_path: Path) -> None:
    whole = classification()
    for folder, lines in (
        (write_run(tmp_path / "p"), [record(1), record(2), record(2, "dev")]),
        (write_finetuned(tmp_path / "f", whole), records(whole)[:2]),
    ):
        for what, each in damaged(lines[1]):
            made = "".join(json.dumps(line) + "\n" for line in [lines[0], each, *lines[2:]])
            (folder / "metrics.jsonl").write_text(made)
            hold(folder, what)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("results.json", "[1]", "results.json is damaged: it holds [1], expected an object"),
        ("results.json", "[" * 100_000, "results.json is damaged (maximum recursion depth"),
        ("metrics.jsonl", "[" * 100_000 + "\n", "line 1 is damaged (maximum recursion depth"),
        ("config.toml", "steps = ", "config.toml is not TOML"),
        ("config.toml", "\0", "config.toml is not TOML"),
        ("results.json", '{"seeds": "many"}', "is damaged: it holds a value that no run writes"),
    ],
)
def test_the_command_says_it(
    name: str, content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_finetuned(tmp_path / "r", classification())
    (folder / name).write_text(content)
    assert run(["report", str(folder)]) == 4
    assert told in capsys.readouterr().err


def test_other_configurations_are_shown_as_they_are(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    for content in ("data = 3", "instances = 3", "masking = 1", "steps = [1]", "minutes = nan"):
        (folder / "config.toml").write_text(content)
        assert f"<code>{content.partition(' ')[0]}</code>" in run_page(read_run(folder))
