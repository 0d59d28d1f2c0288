"""The tables of `experiments/tables`: files, commands, and what becomes of orderings."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import make_app
from tests.house.source import ROOT

sys.path.append(str(ROOT / "experiments"))

from tables.cut import cut_file, cut_parallel
from tables.orderings import Column, Ordering, judge
from tables.plan import make_plan
from tables.run import execute, shown
from tables.table import BUDGETS, Table, read_results, read_table, table_names

CLAIM = Ordering("accuracy", better="new", worse="old")
COLUMN = Column("accuracy", margin=1.0)


@pytest.mark.parametrize(
    ("new", "old", "verdict"),
    [
        ([80.0, 81.0], [70.0, 71.0], "held"),
        ([70.0, 71.0], [80.0, 81.0], "not held"),
        ([80.0, 81.0], [80.2, 79.9], "undecided"),  # within the margin
        ([80.0, 90.0], [75.0, 76.0], "undecided"),  # further apart, but within the noise
        ([80.0], [79.5], "undecided"),
        ([80.0], [78.0], "held"),
        ([80.0], [], "undecided"),
    ],
)
def test_orderings_are_judged_by_margin_and_noise(
    new: list[float], old: list[float], verdict: str
) -> None:
    figures = {"new": {"accuracy": new}, "old": {"accuracy": old}}
    assert judge(CLAIM, COLUMN, figures)[0] == verdict


def test_lower_figures_may_be_better() -> None:
    figures = {"new": {"accuracy": [3.0]}, "old": {"accuracy": [9.0]}}
    assert judge(CLAIM, Column("loss", 1.0, lower_is_better=True), figures)[0] == "held"


def test_a_column_below_its_floor_decides_nothing() -> None:
    column = Column("F1", margin=2.0, floor=18.6, floor_is="a baseline")
    figures = {"new": {"accuracy": [11.0]}, "old": {"accuracy": [5.0]}}
    verdict, why = judge(CLAIM, column, figures)
    assert verdict == "undecided"
    assert "a baseline" in why
    assert "18.6" in why
    figures["third"] = {"accuracy": [60.0]}
    assert judge(CLAIM, column, figures)[0] == "held"


def every_file(table: Table, data: Path) -> None:
    """Empty files where the commands of a table look for data."""
    wanted = [
        need for column in table.commands["columns"].values() for need in column.get("needs", [])
    ]
    for entry in table.commands.get("data", []):
        wanted += [entry["from"]] if isinstance(entry["from"], str) else entry["from"]
    for path in wanted:
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).touch()


def keep_longest(lines: list[str], commands: dict[str, list[str]]) -> None:
    """Keep the command with most words of each verb, and of `pretrain` for each model."""
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words:
            of_model = words[words.index("--model") + 1] if words[0] == "pretrain" else words[1]
            key = f"{words[0]} {of_model}"
            commands[key] = max(words, commands.get(key, []), key=len)


def test_tables_read_and_their_commands_are_understood(tmp_path: Path) -> None:
    commands: dict[str, list[str]] = {}
    for name in table_names():
        table = read_table(name)
        assert table.source
        assert table.url.startswith("https://")
        assert table.orderings
        every_file(table, tmp_path / "data")
        for budget in BUDGETS:
            plan = make_plan(table, budget, tmp_path / "data", tmp_path / "out", seeds=1)
            assert plan.cells
            keep_longest(shown(plan), commands)
        for entry in read_results(name).values():
            assert {"date", "command", "hardware", "figures"} <= set(entry)
            assert all(set(row) <= set(table.columns) for row in entry["figures"].values())
    for words in commands.values():
        make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)


def write_table(folder: Path, **changes: Any) -> None:
    """A table of our own, whose command reads a figure that another printed."""
    expected = {
        "title": "Made up",
        "source": "Nobody 2026, table 1",
        "url": "https://example.org",
        "shown": "anything",
        "columns": {
            "size": {"metric": "entries", "margin": 1.0},
            "far": {"metric": "m", "margin": 1},
        },
        "published": {"small": {"size": 1.0}},
        "orderings": [{"columns": ["size"], "best_first": ["large", "small"]}],
    }
    folder.joinpath("own").mkdir(parents=True)
    (folder / "own" / "expected.json").write_text(json.dumps(expected | changes), "utf-8")
    (folder / "own" / "commands.toml").write_text(
        "[small]\nlines = 3\n"
        '[[data]]\nmakes = "some.txt"\nfrom = "all.txt"\ntake = "lines"\ncount = "{lines}"\n'
        '[rows.large]\noption = "--version"\n[rows.small]\noption = "--version"\n'
        '[columns.size]\nneeds = ["all.txt"]\nrun = ["info --json"]\nread = "figure"\n'
        '[columns.far]\nneeds = ["not/there.txt"]\nrun = ["info --json"]\nread = "figure"\n',
        "utf-8",
    )


def test_a_plan_leaves_out_what_has_no_data_and_goes_on(tmp_path: Path) -> None:
    write_table(tmp_path)
    (tmp_path / "all.txt").write_text("a\nb\nc\nd\n", "utf-8")
    table = read_table("own", tmp_path)
    plan = make_plan(table, "small", tmp_path, tmp_path / "out", seeds=2)
    assert list(plan.left_out) == ["far"]
    assert "not/there.txt" in plan.left_out["far"]
    assert "# left out: far" in "\n".join(shown(plan))
    for cell in plan.cells:  # as if the commands had been run before
        cell.output.parent.mkdir(parents=True, exist_ok=True)
        figure = 10.0 * len(cell.row) + cell.seed
        cell.output.write_text(json.dumps({"figure": figure}), "utf-8")
    kept: list[Any] = []
    assert execute(plan, None, lambda line: None, kept.append)
    assert kept[-1] == {"large": {"size": [51.0, 52.0]}, "small": {"size": [51.0, 52.0]}}
    assert (tmp_path / "out" / "files" / "some.txt").read_text("utf-8") == "a\nb\nc\n"


def test_a_table_without_source_or_with_an_unknown_row_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "a", source="")
    with pytest.raises(ValueError, match="source"):
        read_table("own", tmp_path / "a")
    orderings = [{"columns": ["size"], "best_first": ["large", "huge"]}]
    write_table(tmp_path / "b", orderings=orderings)
    with pytest.raises(ValueError, match="huge"):
        read_table("own", tmp_path / "b")


def test_parts_of_files(tmp_path: Path) -> None:
    table, target = tmp_path / "t.tsv", tmp_path / "cut" / "t.tsv"
    table.write_text("text\tlabel\na\t1\nb\t0\nc\t1\n", "utf-8")
    cut_file("rows", table, target, count=2, shuffle=True)
    header, *rows = target.read_text("utf-8").splitlines()
    assert header == "text\tlabel"
    assert len(rows) == 2
    pairs = [{"paradigm": name, "phenomenon": "s-selection"} for name in ("a", "a", "b")]
    table.write_text("".join(json.dumps(each) + "\n" for each in pairs), "utf-8")
    cut_file("pairs a paradigm", table, tmp_path / "pairs", count=1, shuffle=False)
    kept = [json.loads(line) for line in (tmp_path / "pairs").read_text("utf-8").splitlines()]
    assert [each["paradigm"] for each in kept] == ["a", "b"]
    assert {each["phenomenon"] for each in kept} == {"argument_structure"}
    table.write_text(f"Too short. {'x' * 300}.\nA sentence that is read whole! No.\n", "utf-8")
    cut_file("short sentences", table, tmp_path / "sentences", count=0, shuffle=False)
    assert (tmp_path / "sentences").read_text("utf-8") == "A sentence that is read whole!\n"
    pair, parts = (tmp_path / "x", tmp_path / "y"), (tmp_path / "p", tmp_path / "q")
    pair[0].write_text("one\none two\none two three\n", "utf-8")
    pair[1].write_text("1\n2\n3\n", "utf-8")
    cut_parallel(pair, parts, shortest=2, longest=2)
    assert [path.read_text("utf-8") for path in parts] == ["one two\n", "2\n"]
