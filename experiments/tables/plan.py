"""What has to be done for a table: steps, and where the figures are read.

A table measures each row in each column: a command of `bertwright` whose options are those of the
row and the column. What it reads is made by earlier commands, and only what is read is made.

- `[commands.NAME]`: options. `run` names a verb, or another command, whose options are added.
- `[make.NAME]`: something to make in OUT/NAME, by `run` with options, or by `take`, a part of the
  file `from` (`cut.py`; `count`, `shuffle`, `words`; `package`, a Python package that it needs).
- `[rows]`: the options of a row. `budget`: only at this one.
- `[columns]`: the options of a column, over those of its row; below both those of `[every_column]`
  and of `[tasks.TASK]`, where TASK is `task`, or else the name of the column. `rows`: only these.
  `budget`: only at this one. The figure is in what the command prints, at the path `read`
  (`metrics/accuracy`), or in place of a command in the last record of held-out text in the log of
  the row's model, at the key `log`; times `scale` (100 for percent), or `exponential`.

Options are keys with underscores. `inputs` are the arguments without a name. A value is

- `out/NAME`, something that is made, or a file in it; `data/FILE`, a file in the folder of the
  data; `package/NAME/FILE`, a file of a Python package; `column/NAME`, what the command of another
  column writes for the same row and seed;
- `seed = "each"`: there is one for each seed, and for each one that reads it;
- a table of values by budget or row: without a value for the one at hand, there is no such option.

`{row}` and `{task}` in a value are the names of the row and of the column's task.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tables.cut import Part
from tables.table import COLUMN, Options, Table, derived

WRITES = ("tokenizer train", "data build", "pretrain", "finetune", "translate", "convert")
"""The verbs that write something."""
OF_FIGURE = ("task", "rows", "budget", "read", "log", "scale", "exponential", *COLUMN)
"""The keys of a column that are no options of its command."""


@dataclass(frozen=True, eq=False)
class Step:
    """A part of a file, or a command, and everything that its result depends on."""

    name: str
    path: Path
    """What is written; of a command that only prints, nothing is."""
    do: Part | tuple[str, ...]
    """The part, or the words of the command."""
    options: Options
    """The options as the table has them."""
    needs: tuple[Step, ...]
    reads: tuple[Path, ...]
    """The files of the data that it reads itself."""
    seeded: bool
    """Whether there is one for each seed."""
    prints: bool
    """Whether it prints figures, as JSON."""
    lacks: tuple[str, ...]
    """What is not there: files of the data, and packages."""

    def in_order(self) -> Iterator[Step]:
        """Yield the steps that must be done before, and this one."""
        for need in self.needs:
            yield from need.in_order()
        yield self

    @property
    def shown(self) -> str:
        """The step as a line for a shell."""
        if isinstance(self.do, Part):
            return f"# {self.do.shown}: {self.path}"
        return shlex.join(["bertwright", *self.do])


@dataclass(frozen=True)
class Figure:
    """A figure of one seed, and the step that measures it."""

    row: str
    column: str
    seed: int
    step: Step
    options: Options
    """Those of the row and the column; `read`, `log`, `scale` and `exponential` among them."""


@dataclass(frozen=True)
class Plan:
    """The figures of a table at a budget, in the order in which they are measured."""

    figures: list[Figure]
    left_out: dict[str, str] = field(default_factory=dict)
    """Column or row -> why it is not measured."""

    @property
    def steps(self) -> list[Step]:
        """All steps, each once, in the order in which they are done."""
        steps = (step for figure in self.figures for step in figure.step.in_order())
        return list({step.name: step for step in steps}.values())

    @property
    def shown(self) -> list[str]:
        """Everything that is done, as lines for a shell."""
        return [
            *(step.shown for step in self.steps),
            *(f"# left out: {name}: {why}" for name, why in self.left_out.items()),
        ]


def make_plan(table: Table, budget: str, data: Path, out: Path, seeds: int) -> Plan:
    """Return what is to be done, without the columns and rows whose data are not there.

    Raises:
        ValueError: nothing is left.
    """
    left_out: dict[str, str] = {}
    rows, columns = rows_of(table, budget), []
    for column, options in table.column_options.items():
        if options.get("budget", budget) != budget:
            left_out[column] = f"it is for the budget {options['budget']}"
        elif not {"run", "log"} & table.command(column).keys():
            left_out[column] = "no command of ours makes it"
        else:
            columns.append(column)
    maker = _Maker(table, budget, data, out)
    figures = [
        figure
        for seed in range(1, seeds + 1)
        for row in rows
        for column in columns
        if (figure := maker.figure(row, column, seed)) and (seed == 1 or figure.step.seeded)
    ]
    for name in [*columns, *rows]:
        lacking = [each.step.lacks for each in figures if name in (each.row, each.column)]
        if lacking and all(lacking):
            left_out[name] = f"no {', '.join(lacking[0])}"
            figures = [each for each in figures if name not in (each.row, each.column)]
    figures = [each for each in figures if not each.step.lacks]
    if not figures:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise ValueError(
            f"{table.name}: no column can be measured with the data of {data}: {reasons}"
        )
    return Plan(figures, left_out)


def rows_of(table: Table, budget: str) -> list[str]:
    """Return the rows that are measured at a budget."""
    entries = table.rows.items()
    return [name for name, entry in entries if entry.get("budget", budget) == budget]


class _Maker:
    """Makes the steps of a table at a budget, each once."""

    def __init__(self, table: Table, budget: str, data: Path, out: Path) -> None:
        self.table, self.budget, self.data, self.out = table, budget, data, out
        self._steps: dict[str, Step] = {}

    def figure(self, row: str, column: str, seed: int) -> Figure | None:
        """Return the figure of a row and column; None: it is not measured."""
        options = self._picked(self.table.command(column, row), row)
        if row not in options.get("rows", [row]) or not {"read", "log"} & options.keys():
            return None
        names = {"row": row, "task": options["task"]}
        options = {
            key: value.format_map(names) if isinstance(value, str) else value
            for key, value in options.items()
        }
        if "log" in options:
            step = self.made(options["model"].split("/")[1], seed)
        else:
            name = re.sub(r"\W+", "-", f"{column}-{row}").strip("-").lower()
            of_command = {k: value for k, value in options.items() if k not in OF_FIGURE}
            step = self._step(f"figures/{name}", of_command, seed, row)
        return Figure(row, column, seed, step, options)

    def made(self, name: str, seed: int) -> Step:
        """Return the step that makes something.

        Raises:
            ValueError: the table does not say how it is made.
        """
        if name not in self.table.make:
            raise ValueError(f"{self.table.name}: nothing makes {name}, which a command reads")
        options = derived(self.table.make[name], self.table.commands)
        return self._step(name, self._picked(options), seed)

    def _picked(self, options: Mapping[str, Any], row: str = "") -> Options:
        """Return options with the values for the budget and the row."""
        found = dict(options)
        for key, value in options.items():
            if isinstance(value, dict):
                values = [value[name] for name in (self.budget, row) if name in value]
                found |= {key: values[0]} if values else {}
                if not values:
                    del found[key]
        return found

    def _step(self, name: str, options: Options, seed: int, row: str = "") -> Step:
        """Return a step of these options; the same one if there is one already."""
        reading = _Reading(self, seed, row)
        values = {key: reading.value(value) for key, value in options.items() if key != "run"}
        if "package" in values and find_spec(values.pop("package")) is None:
            reading.lacks.append(f"package {options['package']}")
        seeded = options.get("seed") == "each" or any(need.seeded for need in reading.needs)
        name = f"{name}-{seed}" if seeded else name
        same = json.dumps([options["run"], values], default=str) if row else name
        if same in self._steps:  # several figures may be read from what one command prints
            return self._steps[same]
        path = self.out / name
        is_part = "take" in values
        self._steps[same] = Step(
            name=name,
            path=path,
            do=_part(values) if is_part else _words(options["run"], values, path, bool(row)),
            options=options,
            needs=tuple(reading.needs),
            reads=tuple(reading.reads),
            seeded=seeded,
            prints=bool(row),
            lacks=tuple(dict.fromkeys(reading.lacks)),
        )
        return self._steps[same]


class _Reading:
    """The values of a step's options, and what they say about the step."""

    def __init__(self, maker: _Maker, seed: int, row: str) -> None:
        self.maker, self.seed, self.row = maker, seed, row
        self.needs: list[Step] = []
        self.reads: list[Path] = []
        self.lacks: list[str] = []

    def value(self, value: Any) -> Any:
        """Return a value with its path, and note what the step reads and lacks."""
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if value == "each":
            return self.seed
        place, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
        if place == "data":
            path = self.maker.data / name
            self.reads.append(path)
            if not path.exists():
                self.lacks.append(name)
            return path
        if place == "package":
            package, _, file = name.partition("/")
            spec = find_spec(package)
            if spec is None or spec.origin is None:
                self.lacks.append(f"package {package}")
                return value
            return Path(spec.origin).parent / file
        if place == "out":
            name, _, file = name.partition("/")
            return self._of(self.maker.made(name, self.seed)) / file
        if place == "column":
            figure = self.maker.figure(self.row, name, self.seed)
            assert figure is not None
            return self._of(figure.step)
        return value

    def _of(self, step: Step) -> Path:
        self.needs.append(step)
        self.lacks += step.lacks
        return step.path


def _part(values: Options) -> Part:
    sources = values["from"] if isinstance(values["from"], list) else [values["from"]]
    return Part(
        take=values["take"],
        sources=tuple(sources),
        count=values.get("count", 0),
        shuffle=values.get("shuffle", False),
        words=tuple(values.get("words", ())),
    )


def _words(verb: str, values: Options, path: Path, is_figure: bool) -> tuple[str, ...]:
    """Return the words of a command, which prints JSON if it measures a figure."""
    words = [*verb.split(), *map(str, values.get("inputs", ()))]
    if verb in WRITES:
        words += [str(path)] if verb == "convert" else ["--out", str(path)]
        words.append("--overwrite")
    for key, value in values.items():
        name = key.replace("_", "-")
        if value is True:
            words.append(f"--{name}")
        elif value is False:
            words.append(f"--no-{name}")
        elif key != "inputs":
            words += [f"--{name}", str(value)]
    return (*words, *(["--json"] if is_figure else ()))
