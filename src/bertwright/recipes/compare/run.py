"""Compare systems on a text and a labelled task, and write a folder with results and their page.

Each step is done once (`steps.py`). The same command continues after an interruption and repeats
steps that failed. If systems, seeds, fractions or tests are added, only the new steps are done. If
a step of a system fails, the results contain the reason, and the comparison continues.

```
OUT/ ladder.json                     the settings that the comparison began with
     text/ vocabulary/ shards/       (text.py)
     runs/SYSTEM/seed-1/             pre-training runs
     tasks/SYSTEM/seed-1/tuned-1/    fits of the task
     steps.jsonl                     the results of finished steps
     results.json results.csv report.html log.txt
```
"""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import platform
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mode
from typing import Any

import torch

from bertwright.atomic import atomic_file
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, Interrupted
from bertwright.machine import processor, usable_cores
from bertwright.progress import silent
from bertwright.recipes.compare.folder import TABLE, Folder, empty, refuse_other_folder
from bertwright.recipes.compare.labelled import Task, read_task
from bertwright.recipes.compare.measure import MEASUREMENTS, Examples, contents
from bertwright.recipes.compare.plan import NOT_NAMED, Plan, make_plan
from bertwright.recipes.compare.steps import Comparison, Finished, Step, SystemStep
from bertwright.recipes.compare.systems import SAME, SYSTEMS, Entry
from bertwright.recipes.compare.text import MOST_HELD_OUT, TrainVocabularies, WriteText
from bertwright.report.comparison.conclusion import conclusion, remarks
from bertwright.report.comparison.page import write_comparison
from bertwright.report.comparison.rows import Results, Row, columns_of
from bertwright.report.read import LADDER
from bertwright.report.verdict import RESULTS
from bertwright.tasks.catalogue import KINDS
from bertwright.text.corpus.find import find_files
from bertwright.train.signals import SeveralRuns
from bertwright.version import __version__

TASK_MINUTES = 1.0
"""The maximum minutes of a fit, if they are not set."""
OnStep = Callable[[str, float, float, float], None]
"""Called before each step with its description and the maximum seconds of the step, of the steps
before it, and of all steps; and after the last step with an empty description.
"""


@dataclass(frozen=True)
class Request:
    """What is to be compared."""

    inputs: Sequence[str]
    """Files, folders or globs of text, as `data build` reads them."""
    config: CompareConfig
    task: Task | None = None
    """The labelled task; None: only text, words and senses are evaluated."""
    reading: CorpusConfig = field(default_factory=CorpusConfig)
    """How documents are read."""
    most_held_out: int | None = MOST_HELD_OUT
    """The maximum number of characters to hold out; None: no limit below the configured fraction.
    Models are evaluated on about `text.MOST_HELD_OUT` of them at most.
    """
    task_minutes: float = TASK_MINUTES
    """The maximum minutes of a fit, if neither the configuration sets them nor the folder's
    comparison has others.
    """
    preset: str = ""
    """The name of the preset; empty: none."""
    systems: Mapping[str, Entry] = field(default_factory=lambda: SYSTEMS)
    """The systems that can be compared, by name."""
    measurements: Sequence[type[SystemStep]] = MEASUREMENTS
    """What is measured of each system without labels."""
    names: Sequence[tuple[str, str]] = ()
    """A name and a group for each document that is not held out; empty: they have numbers."""
    page: Callable[[Path], object] = write_comparison
    """Writes the page of the comparison in a folder."""


def compare(
    folder: Folder,
    request: Request,
    *,
    say: Callable[[str], None],
    on_step: OnStep = silent,
) -> dict[str, Any]:
    """Compare systems on a corpus and a task, and return the content of `results.json`.

    Args:
        folder: the folder of `config.out`, as `hold` yields it.
        request: what is to be compared.
        say: prints a line.
        on_step: called before each step.

    Raises:
        ConfigError: a setting is wrong, or the folder holds a comparison with other settings.
        DataError: the corpus or a labelled file cannot be used.
        IntegrityError: a file that the comparison wrote was changed.
        BertwrightError: the disk is full.
        Interrupted: a signal arrived; the same command continues.
    """
    of = _prepare(request, folder.overwrite, say)
    plan = make_plan(of, folder.overwrite)  # what is wrong is an error before anything is written
    if folder.overwrite:
        empty(folder.path)
        of = replace(of, finished=Finished(of.out))
    _write_settings(of, [entry.name for entry in plan.entries])
    return _Run(of, plan, folder, request.page, say).all_steps(on_step)


def refuse_failures(results: Mapping[str, Any], folder: Folder) -> None:
    """Raise BertwrightError if a part of the comparison failed."""
    failed = dict.fromkeys(row["system"] for row in results["rows"] if row["failed"])
    if failed:
        raise BertwrightError(
            f"{', '.join(failed)} failed, for the reasons on {folder.path / 'report.html'}; the "
            "others are whole. The same command tries again what failed"
        ) from folder.unexpected


def plan_of(request: Request, overwrite: bool = False) -> Plan:
    """Return the plan of what `compare` would do, without writing anything.

    Raises:
        ConfigError, DataError, IntegrityError: as for `compare`.
    """
    refuse_other_folder(Path(request.config.out), overwrite)
    return make_plan(_prepare(request, overwrite, silent), overwrite)


def _prepare(request: Request, overwrite: bool, say: Callable[[str], None]) -> Comparison:
    """Read the labelled files and the settings of an existing comparison; write nothing."""
    config, task = request.config, request.task
    out = Path(config.out)
    labelled = None if task is None else read_task(task, config, say)
    settings = _fixed(request)
    named = [SAME.get(name, name) for name in config.names_of_systems]
    minutes: dict[str, float] = {}
    if (out / LADDER).is_file() and not overwrite:
        systems, minutes = _read_settings(out, settings)
        every = (*systems, *named) if systems and named else ()  # an empty list means all
        config = replace(config, systems=tuple(dict.fromkeys(every)))
    for name in named or request.systems:
        if config.task_minutes is not None or name not in minutes:
            minutes[name] = config.task_minutes or request.task_minutes
    return Comparison(
        inputs=request.inputs,
        config=config,
        reading=request.reading,
        most_held_out=request.most_held_out,
        settings=settings,
        labelled=labelled,
        out=out,
        minutes_of_fits=minutes,
        finished=Finished(out),
        systems=request.systems,
        measurements=request.measurements,
        names=request.names,
    )


def _fixed(request: Request) -> dict[str, Any]:
    """Return the settings that all steps depend on. They cannot change within a folder.

    Raises:
        DataError: a file of `--parallel` does not exist.
    """
    config = request.config
    paths = [*find_files(request.inputs), *map(Path, config.parallel)]
    for path in map(Path, config.parallel):
        if not path.is_file():
            raise DataError(f"{path} of --parallel is no file; expected SOURCE TARGET")
    lowercase = config.lowercase
    if lowercase is None:
        lowercase = request.task is None or not KINDS[request.task.kind].of_words
    names = ("tokens", "seed", "vocab_size", "word_vocab_size", "held_out")
    found: dict[str, Any] = values.plain(
        {
            "files": contents(paths),
            "device": _device(config.device),
            "reading": request.reading,
            "parallel": config.parallel,
            "lowercase": lowercase,
            "preset": request.preset,
            "minutes": config.minutes_each,
            **{name: getattr(config, name) for name in names},
        }
    )
    return found


def _device(name: str) -> str:
    """Return the name of the device on which a comparison runs.

    Times, and what is trained in a time, are comparable on one device only.
    """
    if name != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {usable_cores()} cores"


def _read_settings(out: Path, settings: dict[str, Any]) -> tuple[list[str], dict[str, float]]:
    """Return the systems of the existing comparison, and the minutes of the fits of each.

    Raises:
        ConfigError: it began with other settings, or its file is damaged.
    """
    try:
        mark = json.loads((out / LADDER).read_text(encoding="utf-8"))
        before, systems = dict(mark["settings"]), list(mark["systems"])
        minutes = dict(mark["task_minutes"])
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{out / LADDER} is damaged ({error}); --overwrite begins from scratch"
        ) from error
    if differing := values.differing_keys(before, settings):
        was, now = (values.flatten(each) for each in (before, settings))
        changes = ", ".join(
            f"{key.removeprefix('files.')} (its content has changed)"
            if key.startswith("files.") and key in was and key in now
            else f"{key} (was {was.get(key)}, now {now.get(key)})"
            for key in differing
        )
        raise ConfigError(
            f"{out} was begun with other settings: {changes}. Pass the same, choose another --out, "
            "or begin from scratch with --overwrite"
        )
    return systems, minutes


def _write_settings(of: Comparison, systems: Sequence[str]) -> None:
    """Write the settings with which a later command is compared, and the systems."""
    mark = {
        "format": 1,
        "bertwright": __version__,
        "settings": of.settings,
        "systems": of.config.names_of_systems,
        "task_minutes": {name: of.fit_minutes(name) for name in systems},
    }
    with atomic_file(of.out / LADDER, overwrite=True) as file:
        json.dump(mark, file, indent=1)
        file.write("\n")


@dataclass
class _Run:
    """Does the steps of a comparison, and writes its results."""

    of: Comparison
    plan: Plan
    folder: Folder
    page: Callable[[Path], object]
    say: Callable[[str], None]
    failed: dict[str, str] = field(default_factory=dict)
    """The reasons of the steps that failed in this session, by the names of the steps."""

    def all_steps(self, on_step: OnStep) -> dict[str, Any]:
        """Do all steps that are not done yet, and return the results."""
        for name, reason in self.plan.left_out.items():
            if reason != NOT_NAMED:
                self.say(f"{name} is left out: {reason}")
        done, total = 0.0, self.plan.seconds
        system = ""
        try:
            with SeveralRuns() as runs:
                for step, seconds in self.plan.todo:
                    if step.system != system and system:
                        self._write()
                    system = step.system
                    self.folder.has_begun |= bool(system)
                    on_step(step.what, seconds, done, total)
                    self._do(step)
                    runs.heed()
                    done += seconds
        except (KeyboardInterrupt, Interrupted) as error:
            self.folder.has_begun = True
            with contextlib.suppress(BertwrightError, OSError):
                self._write()
            raise Interrupted(
                error.signal_number if isinstance(error, Interrupted) else 2,
                f"interrupted; what is finished is kept in {self.of.out}: the same command goes on",
            ) from error
        on_step("", 0.0, total, total)
        return self._write()

    def _do(self, step: Step) -> None:
        """Do a step and store its result, or the reason why it failed."""
        if reason := self._why_impossible(step):
            self.failed[step.name] = reason
            return
        log = self.of.out / "log.txt"
        try:
            with _lines(log, step) as write:
                done = step.do(self.of, write)
        except (Interrupted, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if not step.system or _ends_all(error):
                raise
            reason = str(error)
            if not isinstance(error, BertwrightError):
                reason = f"unexpected {type(error).__name__}: {error} (log.txt has the traceback)"
                self.folder.unexpected = error
                with log.open("a", encoding="utf-8") as file:
                    traceback.print_exception(error, file=file)
            self.failed[step.name] = reason
            self.say(f"{step.what} failed: {reason}")
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            return
        self.of.finished.keep(step.name, step.key(self.of), done)
        for line in done.notes:
            self.say(line)

    def _why_impossible(self, step: Step) -> str:
        """Return the reason why a step cannot be done; empty if it can be done."""
        for needed in step.needs(self.of):
            if self.of.done(needed) is None:
                return self.failed.get(needed.name, f"{needed.name} is not there")
        return ""

    def _write(self) -> dict[str, Any]:
        """Write the results so far, their table and their page; return the results."""
        content = self._results()
        results = Results.of(content)
        content |= {"conclusion": conclusion(results), "remarks": remarks(results)}
        with atomic_file(self.of.out / RESULTS, overwrite=True) as file:
            json.dump(values.plain(content), file, indent=1, ensure_ascii=False)
            file.write("\n")
        rows = [row.flat() for row in results.rows]
        with atomic_file(self.of.out / TABLE, overwrite=True) as file:
            writer = csv.DictWriter(file, columns_of(rows), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        self.page(self.of.out)
        return content

    def _results(self) -> dict[str, Any]:
        """Return the content of `results.json`, without its conclusion and remarks."""
        of, config = self.of, self.of.config
        settings = values.to_dict(config) | {
            "minutes": config.minutes_each,
            "task_minutes": mode(of.fit_minutes(entry.name) for entry in self.plan.entries),
        }
        text, vocabulary = of.done(WriteText()), of.done(TrainVocabularies())
        return {
            "format": 1,
            "bertwright": __version__,
            "out": str(of.out),
            "environment": {
                "processor": processor(),
                "cores": usable_cores(),
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
            "settings": settings,
            "text": {} if text is None else text.facts,
            "vocabulary": {} if vocabulary is None else vocabulary.facts,
            "task": self._task(),
            "systems": [self._system(entry) for entry in self.plan.entries],
            "rows": [asdict(row) for row in self._rows()],
            "left_out": self.plan.left_out,
        }

    def _rows(self) -> Iterator[Row]:
        """Yield the rows of all steps that are done or failed, in the order of the steps."""
        for step in self.plan.steps:
            done = self.of.done(step)
            if done is not None:
                yield from done.rows
            elif step.name in self.failed and (row := step.failure(self.failed[step.name])):
                yield row

    def _task(self) -> Mapping[str, Any] | None:
        """Return the facts of the task; None without a task."""
        own = self.of.labelled
        if own is None:
            return None
        files = own.task.files
        examples = {"train": len(own.train), "dev": len(own.dev)}
        return {
            "kind": own.task.kind,
            "metric": own.metric,
            "ways": list(own.ways),
            "files": {"train": files.train, "dev": files.dev, "test": own.task.test},
            "examples": examples if own.test is None else examples | {"test": len(own.test)},
            "evaluated_on": "dev" if own.test is None else "test",
            "labels": list(own.config.labels),
        }

    def _system(self, entry: Entry) -> dict[str, Any]:
        """Return the facts of a system."""
        examples = self.of.done(Examples(entry, self.of.config.seed))
        return {
            "name": entry.name,
            "title": entry.title,
            "system": entry.system,
            "model": entry.model,
            "adds": entry.adds,
            "page": entry.page,
            "run": self.of.inside(self.of.run_folder(entry, self.of.config.seed)),
            "run_of": entry.is_that_of or entry.name,
            "trained_on": "translations" if entry.reads_pairs else "text",
            "fits_tasks": self.of.labelled is not None and entry.vectors,
            "examples": {} if examples is None else examples.facts,
        }


def _ends_all(error: Exception) -> bool:
    """Return whether an error affects all systems, such as a full disk or a folder without
    access.
    """
    fatal = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, None)
    causes = (error, error.__cause__, error.__context__)
    return any(isinstance(each, OSError) and each.errno in fatal for each in causes)


@contextlib.contextmanager
def _lines(path: Path, step: Step) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes lines of a step to the log."""
    lock = threading.Lock()
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"== {step.name}\n")

        def write(line: str) -> None:
            with lock:
                file.write(f"{line}\n")
                file.flush()

        yield write
