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

from tables import run
from tables.cut import Part
from tables.orderings import Column, Ordering, judge
from tables.plan import make_plan
from tables.table import (
    BUDGETS,
    Table,
    figure_row,
    read_results,
    read_table,
    table_names,
    write_results,
)

from bertwright.report.comparison.rows import Results

CLAIM = Ordering("accuracy", better="new", worse="old")
COLUMN = Column("accuracy", margin=1.0)
PUBLISHED_ONLY = {"figure", "margin", "task"}
"""The keys of a column without a command of ours."""


def results_of(**rows: list[float]) -> Results:
    """Results with one column, `accuracy`."""
    return Results(
        {"budget": "small"},
        [
            figure_row(row, "accuracy", seed, value)
            for row, values in rows.items()
            for seed, value in enumerate(values, 1)
        ],
    )


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
    assert judge(CLAIM, COLUMN, results_of(new=new, old=old))[0] == verdict


def test_lower_figures_may_be_better() -> None:
    column = Column("loss", 1.0, lower_is_better=True)
    assert judge(CLAIM, column, results_of(new=[3.0], old=[9.0]))[0] == "held"


def test_a_column_below_its_floor_decides_nothing() -> None:
    column = Column("F1", margin=2.0, floor=18.6, floor_is="a baseline")
    verdict, why = judge(CLAIM, column, results_of(new=[11.0], old=[5.0]))
    assert verdict == "undecided"
    assert "a baseline" in why
    assert "18.6" in why
    assert judge(CLAIM, column, results_of(new=[11.0], old=[5.0], third=[60.0]))[0] == "held"


def every_file(table: Table, data: Path) -> None:
    """Write an empty file for each that the commands of a table read."""
    sections = (table.column_options, table.make, table.tasks, table.commands)
    for entry in (entry for section in sections for entry in section.values()):
        for value in entry.values():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and each.startswith("data/"):
                    path = data / each.removeprefix("data/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()


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
        every_file(table, tmp_path / "data")
        measured = set()
        for budget in BUDGETS:
            plan = make_plan(table, budget, tmp_path / "data", tmp_path / "out", seeds=1)
            measured |= {figure.column for figure in plan.figures}
            keep_longest(plan.shown, commands)
        published_only = {c for c in table.columns if table.command(c).keys() <= PUBLISHED_ONLY}
        assert measured == set(table.columns) - published_only
        for results in read_results(name).values():
            assert {"date", "command", "hardware"} <= set(results.facts)
            assert {row.measure for row in results.rows} <= set(table.columns)
            assert {row.system for row in results.rows} <= set(table.rows)
    for words in commands.values():
        make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)


TABLE = """
title = "Made up"
source = "Nobody 2026, table 1"
url = "https://example.org"
shown = "anything"
orderings = [{columns = ["size"], best_first = ["large", "small"]}]

[published]
small = {size = 1.0}

[rows]
large = {model = "large"}
small = {model = "out/small"}

[every_column]
run = "measure"

[columns.size]
figure = "entries"
margin = 1.0
read = "figures/{row}"

[columns.far]
figure = "m"
margin = 1.0
input = "data/not/there.txt"

[commands.measure]
run = "evaluate"
data = "out/some.txt"
metric.name = {small = "f1", gpu = "accuracy"}
device = {gpu = "cuda"}
read = "figures/0"

[make]
"some.txt" = {count = {small = 3}}
small = {run = "pretrain", data = "out/some.txt", seed = "each"}
unread = {run = "pretrain", data = "data/not/there.txt"}
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of our own, and the data of one of its columns."""
    return write_table(tmp_path)


def write_table(folder: Path, old: str = "", new: str = "") -> Table:
    (folder / "own").mkdir(parents=True, exist_ok=True)
    (folder / "own" / "table.toml").write_text(TABLE.replace(old, new) if old else TABLE, "utf-8")
    (folder / "shared.toml").write_text(
        '[make."some.txt"]\ntake = "lines"\nfrom = "data/all.txt"\n', "utf-8"
    )
    (folder / "all.txt").write_text("a\nb\nc\nd\n", "utf-8")
    return read_table("own", folder)


def test_a_plan_makes_what_its_figures_read(table: Table, tmp_path: Path) -> None:
    plan = make_plan(table, "small", tmp_path, tmp_path / "out", seeds=2)
    assert plan.left_out == {"far": "no not/there.txt"}
    assert "# left out: far" in "\n".join(plan.shown)
    names = [step.name for step in plan.steps]
    assert names == [
        "some.txt",
        "figures/size-large",
        "small-1",
        "figures/size-small-1",
        "small-2",
        "figures/size-small-2",
    ]
    assert [(f.row, f.seed) for f in plan.figures] == [("large", 1), ("small", 1), ("small", 2)]
    words = plan.figures[1].step.do
    assert isinstance(words, tuple)
    assert words[0] == "evaluate"
    assert words[words.index("--model") + 1] == str(tmp_path / "out" / "small-1")
    assert words[words.index("--metric.name") + 1] == "f1"
    assert "--device" not in words
    gpu = make_plan(table, "gpu", tmp_path, tmp_path / "out", seeds=1).shown
    assert any("--device cuda" in line for line in gpu)


def test_columns_may_read_what_another_one_wrote_or_printed(tmp_path: Path) -> None:
    same = '[columns.same]\nfigure = "f"\nmargin = 1\nread = "figures/0"\n'
    again = '[columns.again]\nfigure = "f"\nmargin = 1\nmodel = "column/size"\n'
    log = '[columns.log]\nfigure = "f"\nmargin = 1\nlog = "loss"\nrows = ["small"]\n'
    table = write_table(tmp_path, "[make]\n", f"{same}{again}{log}[make]\n")
    figures = make_plan(table, "small", tmp_path, tmp_path / "out", seeds=1).figures
    steps = {(figure.row, figure.column): figure.step for figure in figures}
    assert steps["small", "same"] is steps["small", "size"]
    assert steps["small", "again"].needs[-1] is steps["small", "size"]
    assert steps["large", "again"].needs[-1] is steps["large", "size"]
    assert steps["small", "log"].name == "small-1"
    assert ("large", "log") not in steps


def test_what_is_finished_is_not_done_again(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def do(words: list[str]) -> int:
        done.append(words[0])
        print(json.dumps({"figures": {"large": 51.0, "small": 50.0 + len(done)}}))
        return 0

    monkeypatch.setattr(run, "run", do)
    out = tmp_path / "out"
    kept: list[Any] = []

    def measure(table: Table, seeds: int, deadline: float | None = None) -> bool:
        plan = make_plan(table, "small", tmp_path, out, seeds)
        return run.execute(plan, out, deadline, lambda line: None, lambda rows: kept.append(rows))

    assert not measure(table, 1, deadline=0.0)  # the part of the file was not begun either
    assert not kept
    assert measure(table, 1)
    assert (out / "some.txt").read_text("utf-8") == "a\nb\nc\n"
    assert done == ["evaluate", "pretrain", "evaluate"]
    assert [(row.system, row.value) for row in kept[-1]] == [("large", 51.0), ("small", 53.0)]
    assert measure(table, 2)
    assert done[3:] == ["pretrain", "evaluate"]
    assert [row.value for row in kept[-1]] == [51.0, 53.0, 55.0]
    assert measure(write_table(tmp_path, 'seed = "each"', 'seed = "each", steps = 5'), 1)
    assert done[5:] == ["pretrain", "evaluate"]


def test_results_are_kept(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    write_results("own", {"small": results_of(new=[80.0, 81.0], old=[70.5])}, tmp_path)
    text = (tmp_path / "own" / "results.jsonl").read_text("utf-8")
    assert [json.loads(line).get("values") for line in text.splitlines()] == [
        None,
        [80.0, 81.0],
        [70.5],
    ]
    found = read_results("own", tmp_path)["small"].mean(system="new", measure="accuracy")
    assert found
    assert found.value == 80.5


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('source = "Nobody 2026, table 1"', "", "source"),
        ('"large", "small"]', '"large", "huge"]', "huge"),
    ],
)
def test_a_table_without_source_or_with_an_unknown_row_is_refused(
    tmp_path: Path, old: str, new: str, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        write_table(tmp_path, old, new)


def test_what_nothing_makes_is_an_error(tmp_path: Path) -> None:
    table = write_table(tmp_path, "out/small", "out/other")
    with pytest.raises(ValueError, match="other"):
        make_plan(table, "small", tmp_path, tmp_path / "out", seeds=1)


def test_parts_of_files(tmp_path: Path) -> None:
    source, target = tmp_path / "t.tsv", tmp_path / "part.tsv"
    source.write_text("text\tlabel\na\t1\nb\t0\nc\t1\n", "utf-8")
    Part("rows", (source,), count=2, shuffle=True).write(target)
    header, *rows = target.read_text("utf-8").splitlines()
    assert header == "text\tlabel"
    assert len(rows) == 2
    pairs = [{"paradigm": name, "phenomenon": "s-selection"} for name in ("a", "a", "b")]
    source.write_text("".join(json.dumps(each) + "\n" for each in pairs), "utf-8")
    Part("pairs a paradigm", (source,), count=1).write(target)
    kept = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [each["paradigm"] for each in kept] == ["a", "b"]
    assert {each["phenomenon"] for each in kept} == {"argument_structure"}
    source.write_text(f"Too short. {'x' * 300}.\nA sentence that is read whole! No.\n", "utf-8")
    Part("short sentences", (source,)).write(target)
    assert target.read_text("utf-8") == "A sentence that is read whole!\n"
    pair = (tmp_path / "x", tmp_path / "y")
    pair[0].write_text("one\none two\none two three\n", "utf-8")
    pair[1].write_text("1\n2\n3\n", "utf-8")
    Part("pairs", pair, words=(2, 2)).write(tmp_path / "pairs")
    assert [(tmp_path / "pairs" / p.name).read_text("utf-8") for p in pair] == ["one two\n", "2\n"]
