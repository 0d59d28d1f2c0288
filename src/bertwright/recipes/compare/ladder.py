"""Compare systems on a text and a labelled task, and write a folder with results and their page.

Each step is done once (`stages.py`). The same command continues after an interruption and repeats
steps that failed. If systems, seeds, fractions or tests are added, only the new steps are done. If
a rung fails, the results contain the reason, and the comparison continues with the other rungs.

```
OUT/ ladder.json                     the settings that the comparison began with
     text/ vocabulary/ shards/       (text.py)
     runs/RUNG/seed-1/               pre-training runs
     tasks/RUNG/seed-1/tuned-1/      fits of the task
     stages/                         the results of finished steps
     results.json results.csv report.html log.txt
```
"""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch

from bertwright.atomic import (
    MANIFEST,
    atomic_file,
    disk_errors,
    held,
    parents_made,
    refuse_existing,
    sha256_file,
)
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, Interrupted
from bertwright.inference.model import load
from bertwright.machine import processor, usable_cores
from bertwright.progress import silent
from bertwright.recipes.compare import measure, plan, text, use
from bertwright.recipes.compare.plan import Plan, Step
from bertwright.recipes.compare.results import Results, run_folder, task_folder
from bertwright.recipes.compare.rungs import RUNGS, SAME, Rung
from bertwright.recipes.compare.stages import Found, Stages
from bertwright.recipes.compare.train import train
from bertwright.report.ladder import LADDER, RESULTS, rows_of, write_ladder
from bertwright.report.numbers import count
from bertwright.rows.open import size_on_disk
from bertwright.tasks.catalogue import KINDS
from bertwright.text.corpus.find import find_files
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.signals import SeveralRuns
from bertwright.version import __version__

LABELLED = "labelled"
"""The folder of the labelled files that were given as rows in memory."""
PRESET = "python"
FOLDERS = ("text", "vocabulary", "shards", "runs", "tasks", "stages", LABELLED, PRESET)
FILES = (LADDER, RESULTS, "results.csv", "report.html", "log.txt")
OnStep = Callable[[str, float, float, float], None]
"""Called before each step with its description and the maximum seconds of the step, of the steps
before it, and of all steps; and after the last step with an empty description.
"""


@dataclass
class Folder:
    """The folder of a comparison, which this process alone uses."""

    path: Path
    overwrite: bool
    """Whether to begin from scratch."""
    has_begun: bool = False
    """Whether the folder holds a comparison that can be continued."""
    unexpected: Exception | None = None
    """The last error of a rung that is a bug of ours; `log.txt` has the traceback of each."""


@contextlib.contextmanager
def hold(out: Path, overwrite: bool = False) -> Iterator[Folder]:
    """Create a folder, and keep other processes from using it while the block runs.

    If the block fails before the comparison began, the folder is left as it was: if it was new or
    empty, it is removed.

    Raises:
        ConfigError: the folder holds something else, or another process is comparing in it.
        BertwrightError: the disk is full or the folder is not writable.
    """
    refuse_other_folder(out, overwrite)
    is_new = not out.exists()
    with disk_errors(out), parents_made(out):
        out.mkdir(exist_ok=True)
        with held(out, "comparing in"):
            folder = Folder(out, overwrite, has_begun=any(out.iterdir()))
            try:
                yield folder
            except BaseException:
                if not folder.has_begun:
                    _empty(out, but=())
                    with contextlib.suppress(OSError):  # another process has written into it
                        if is_new:
                            out.rmdir()
                raise


def compare(
    folder: Folder,
    inputs: Sequence[str],
    config: CompareConfig,
    *,
    task: use.Task | None = None,
    reading: CorpusConfig = CorpusConfig(),  # noqa: B008 - frozen
    most_held_out: int | None = text.MOST_HELD_OUT,
    say: Callable[[str], None],
    on_step: OnStep = silent,
) -> dict[str, Any]:
    """Compare systems on a corpus and a task, and return the content of `results.json`.

    Args:
        folder: the folder of `config.out`, as `hold` yields it.
        inputs: files, folders or globs, as `data build` reads them.
        config: the settings of the comparison.
        task: the labelled task; None: only text, words and senses are evaluated.
        reading: how documents are read.
        most_held_out: the maximum number of characters to hold out; None: no limit below the
            configured fraction. Models are evaluated on about `text.MOST_HELD_OUT` of them at most.
        say: prints a line.
        on_step: called before each step.

    Raises:
        ConfigError: a setting is wrong, or the folder holds a comparison with other settings.
        DataError: the corpus or a labelled file cannot be used.
        IntegrityError: a file that the comparison wrote was changed.
        BertwrightError: the disk is full.
        Interrupted: a signal arrived; the same command continues.
    """
    ladder = _prepare(inputs, config, task, reading, most_held_out, folder.overwrite, say)
    ladder.plan(afresh=folder.overwrite)  # what is wrong is an error before anything is written
    if folder.overwrite:
        _empty(folder.path)
    ladder.write_settings()
    return ladder.run(folder, on_step)


def plan_of(
    inputs: Sequence[str],
    config: CompareConfig,
    task: use.Task | None = None,
    reading: CorpusConfig = CorpusConfig(),  # noqa: B008 - frozen
    overwrite: bool = False,
) -> Plan:
    """Return the plan of what `compare` would do, without writing anything.

    Raises:
        ConfigError, DataError, IntegrityError: as for `compare`.
    """
    refuse_other_folder(Path(config.out), overwrite)
    ladder = _prepare(inputs, config, task, reading, text.MOST_HELD_OUT, overwrite, silent)
    return ladder.plan(afresh=overwrite)


def _prepare(
    inputs: Sequence[str],
    config: CompareConfig,
    task: use.Task | None,
    reading: CorpusConfig,
    most_held_out: int | None,
    overwrite: bool,
    say: Callable[[str], None],
) -> _Ladder:
    """Read the labelled files and the settings of an existing comparison; write nothing."""
    out = Path(config.out)
    labelled = None if task is None else use.read_task(task, config, say)
    settings = _fixed(inputs, config, reading, task)
    if (out / LADDER).is_file() and not overwrite:
        config = _with_former_systems(config, _read_mark(out, settings))
    return _Ladder(
        inputs=list(inputs),
        config=config,
        reading=reading,
        most_held_out=most_held_out,
        settings=settings,
        labelled=labelled,
        out=out,
        say=say,
    )


def refuse_other_folder(out: Path, overwrite: bool) -> None:
    """Raise ConfigError if a folder holds something that is not part of a comparison."""
    refuse_existing(out, overwrite=out.is_dir())
    known = {*FOLDERS, *FILES}
    names = {place.name for place in out.iterdir()} if out.is_dir() else set()
    begun = {LABELLED, PRESET}  # these are written before `ladder.json`
    if names - begun and LADDER not in names and not all(n.startswith(".") for n in names):
        raise ConfigError(
            f"{out} holds something that is no comparison (it has no {LADDER}), so it is left as "
            "it is: choose another --out"
        )
    if overwrite and (other := sorted(n for n in names - known if not n.startswith("."))):
        raise ConfigError(
            f"{out} holds {other[0]}, which no comparison wrote: remove it, or choose another --out"
        )


def _empty(out: Path, but: Sequence[str] = (LABELLED, PRESET)) -> None:
    """Remove the files that a comparison wrote, but keep the input that is stored in its folder."""
    for name in FOLDERS:
        if name not in but:
            shutil.rmtree(out / name, ignore_errors=True)
    for name in FILES:
        (out / name).unlink(missing_ok=True)


def _fixed(
    inputs: Sequence[str], config: CompareConfig, reading: CorpusConfig, task: use.Task | None
) -> dict[str, Any]:
    """Return the settings that all pre-training depends on. They cannot change within a folder.

    Raises:
        DataError: a file of `--parallel` does not exist.
    """
    paths = [*find_files(inputs), *map(Path, config.parallel)]
    for path in map(Path, config.parallel):
        if not path.is_file():
            raise DataError(f"{path} of --parallel is no file; expected SOURCE TARGET")
    lowercase = config.lowercase
    if lowercase is None:
        lowercase = task is None or not KINDS[task.kind].of_words
    names = ("tokens", "seed", "vocab_size", "word_vocab_size", "held_out")
    found: dict[str, Any] = values.plain(
        {
            "files": _contents(paths),
            "device": _device(config.device),
            "reading": reading,
            "parallel": config.parallel,
            "lowercase": lowercase,
            "minutes": config.minutes_each,
            **{name: getattr(config, name) for name in names},
        }
    )
    return found


def _read_mark(out: Path, settings: dict[str, Any]) -> list[str]:
    """Return the systems of the existing comparison.

    Raises:
        ConfigError: it began with other settings, or its file is damaged.
    """
    try:
        mark = json.loads((out / LADDER).read_text(encoding="utf-8"))
        before, systems = dict(mark["settings"]), list(mark["systems"])
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
    return systems


def _with_former_systems(config: CompareConfig, systems: Sequence[str]) -> CompareConfig:
    """Return the configuration with the systems of the existing comparison added.

    An empty list means all systems; if either list is empty, so is the result.
    """
    if not config.names_of_systems or not systems:
        return replace(config, systems=())
    named = (SAME.get(name, name) for name in config.names_of_systems)
    return replace(config, systems=tuple(dict.fromkeys((*systems, *named))))


@dataclass
class _Ladder:
    """A comparison and the folder that it is written to."""

    inputs: list[str]
    config: CompareConfig
    reading: CorpusConfig
    most_held_out: int | None
    settings: dict[str, Any]
    """The settings that cannot change within a folder (`_fixed`)."""
    labelled: use.Labelled | None
    out: Path
    say: Callable[[str], None]
    failed: dict[str, str] = field(default_factory=dict)
    """The reasons of the steps that failed in this session, by step."""

    def __post_init__(self) -> None:
        self.folders = text.TextFolders(self.out)
        self.stages = Stages(self.out / "stages")

    def plan(self, afresh: bool = False) -> Plan:
        """Return the plan of the steps that are not done yet; if `afresh`, of all steps.

        Raises:
            ConfigError, MissingExtra, DataError: as for `make_plan`.
            IntegrityError: a file of the comparison was changed.
        """
        kind = None if self.labelled is None else self.labelled.task.kind
        size = size_on_disk(find_files(self.inputs)) or 0
        if afresh:
            return plan.make_plan(self.config, kind, size)
        todo = plan.make_plan(self.config, kind, size, self._is_done)
        for name in (
            "text",
            "vocabulary",
            *(f"shards/{each}" for each in plan.data_of(todo.rungs)),
        ):
            self.stages.verify(name)
        return todo

    def write_settings(self) -> None:
        """Write the settings with which a later command is compared, and the systems."""
        mark = {"format": 1, "bertwright": __version__, "settings": self.settings}
        with atomic_file(self.out / LADDER, overwrite=True) as file:
            json.dump(mark | {"systems": self.config.names_of_systems}, file, indent=1)
            file.write("\n")

    def run(self, folder: Folder, on_step: OnStep) -> dict[str, Any]:
        """Do all steps that are not done yet, and return the results."""
        todo = self.plan()
        for name, reason in todo.left_out.items():
            if reason != plan.NOT_NAMED:
                self.say(f"{name} is left out: {reason}")
        done, total = 0.0, todo.seconds
        rung = ""
        try:
            with SeveralRuns() as runs:
                for step in todo.steps:
                    if step.rung != rung and rung:
                        self._write(todo)
                    rung = step.rung
                    folder.has_begun |= bool(rung)
                    on_step(step.what, step.seconds, done, total)
                    self._do(step, folder)
                    runs.heed()
                    done += step.seconds
        except KeyboardInterrupt:
            folder.has_begun = True
            raise Interrupted(2, self._how_to_go_on(todo)) from None
        except Interrupted as error:
            folder.has_begun = True
            raise Interrupted(error.signal_number, self._how_to_go_on(todo)) from error
        on_step("", 0.0, total, total)
        return self._write(todo)

    def _how_to_go_on(self, todo: Plan) -> str:
        with contextlib.suppress(BertwrightError, OSError):
            self._write(todo)
        return f"interrupted; what is finished is kept in {self.out}: the same command goes on"

    def _is_done(self, name: str) -> bool:
        return self.stages.find(name, self._key(name)) is not None

    def _key(self, name: str) -> Any:
        """Return everything that the result of a step depends on besides the folder's settings."""
        what, _, rest = name.rpartition("/")
        if what == "baselines" or rest.startswith(("speed", "frozen-", "tuned-", "random-")):
            key = {} if self.labelled is None else self.labelled.key
            if what == "baselines" or rest == "speed":
                return {"task": key, "task_minutes": 0.0}
            seed = int(what.rpartition("-")[2])
            of_run = self.config.pretrained_by(seed)
            again = {} if of_run == seed else {"pretrained_by": of_run}
            return {"task": key, "task_minutes": self.config.minutes_of_fit, **again}
        if rest == "pairs":
            return {"files": _contents(self.config.pairs)}
        if rest == "words":
            return {"files": _contents(self.config.word_tests)}
        return {}

    def _do(self, step: Step, folder: Folder) -> None:
        """Do a step and store its result, or the reason why it failed."""
        owner = step.name.partition("/")[0]
        if step.rung and (reason := self._why_impossible(step)):
            self.failed[step.name] = reason
            return
        try:
            with _log(self.out / "log.txt", step) as say:
                found = self._result(step, say)
        except (Interrupted, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if not step.rung or _ends_all(error):
                raise
            self.failed[step.name] = use.reason_of(error)
            if not isinstance(error, BertwrightError):
                folder.unexpected = error
                with (self.out / "log.txt").open("a", encoding="utf-8") as log:
                    traceback.print_exception(error, file=log)
            self.say(f"{step.what} failed: {self.failed[step.name]}")
            _forget_cuda()
            return
        self.stages.keep(step.name, self._key(step.name), found, self._files_of(step.name))
        for line in _said(step, found, owner):
            self.say(line)
        if found.get("page") is False:
            self.say(f"{step.what}: its page could not be written; log.txt has the reason")

    def _files_of(self, step: str) -> list[Path]:
        """Return the files that a step wrote and that later steps depend on."""
        folders = self.folders
        if step == "text":
            return [folders.train, folders.held_out, folders.sentences]
        if step == "vocabulary":
            inside = sorted(each for each in folders.vocabulary.rglob("*") if each.is_file())
            return [folders.words, *inside]
        if step.startswith("shards/"):
            return [folders.shards / step.removeprefix("shards/") / MANIFEST]
        return []

    def _why_impossible(self, step: Step) -> str:
        """Return the reason why a step cannot be done; empty if it can be done."""
        name, _, what = step.name.partition("/")
        rung = RUNGS[step.rung]
        seed = self.config.pretrained_by(int(name.rpartition("-")[2]))
        first = f"{rung.is_that_of or rung.name}-{seed}/pretrain"
        before = [f"{rung.needs}-{seed}/pretrain"] if rung.needs else []
        before += [first] if what != "pretrain" else []
        for each in before:
            if not self._is_done(each):
                return self.failed.get(each, f"{each} is not there")
        speed = f"{rung.name}-{seed}/speed"
        if what.startswith(("frozen", "tuned", "random")) and not self._is_done(speed):
            return self.failed.get(speed, f"{speed} is not there")
        return ""

    def _result(self, step: Step, say: Callable[[str], None]) -> Found:
        """Do a step, and return its result."""
        config, folders = self.config, self.folders
        if step.name == "text":
            return text.write_text(
                self.inputs, self.reading, folders, config.held_out, self.most_held_out
            )
        if step.name == "vocabulary":
            return text.train_vocabularies(folders, config, self.settings["lowercase"])
        first, _, what = step.name.partition("/")
        if first == "shards":
            return text.build(folders, what, config.parallel)
        if first == "baselines":
            assert self.labelled is not None
            fraction, seed = what.split("-")
            return use.baselines(self.labelled, float(fraction), int(seed))
        return self._result_of_rung(RUNGS[step.rung], int(first.rpartition("-")[2]), what, say)

    def _result_of_rung(
        self, rung: Rung, seed: int, what: str, say: Callable[[str], None]
    ) -> Found:
        run = run_folder(self.out, rung, seed)
        if what == "pretrain":
            run.parent.mkdir(parents=True, exist_ok=True)
            return train(rung, self.config, self.folders.shards / rung.data, run, seed, say)
        device = None if self.config.device == "auto" else self.config.device
        if what == "text":
            return measure.measure_text(rung, load(run, device), self.folders)
        if what == "pairs":
            own = self._is_english()
            if not own and not self.config.pairs:
                return {}
            return measure.measure_pairs(load(run, device), self.config.pairs, own)
        if what == "words":
            return measure.measure_words(run, self.config.word_tests)
        if what == "senses":
            return measure.measure_senses(load(run, device)) if self._is_english() else {}
        return self._fit(rung, seed, what, say)

    def _fit(self, rung: Rung, seed: int, what: str, say: Callable[[str], None]) -> Found:
        """Measure the speed of fits, or fit the task in one way, and return the result."""
        assert self.labelled is not None
        of_run = self.config.pretrained_by(seed)
        pretrained = self._found(f"{rung.is_that_of or rung.name}-{of_run}/pretrain") or {}
        precision: Literal["auto", "bf16", "fp32"] = pretrained.get("precision", "auto")
        fits = use.Fits(
            rung=rung,
            run=run_folder(self.out, rung, of_run),
            labelled=self.labelled,
            config=self.config,
            seed=seed,
            precision=precision,
            folder=task_folder(self.out, rung, seed),
            say=say,
        )
        if what == "speed":
            return fits.speed()
        way, _, fraction = what.partition("-")
        speed = self._found(f"{rung.name}-{of_run}/speed") or {}
        is_first = seed == self.config.seed
        first = None if is_first else self._found(f"{rung.name}-{self.config.seed}/{what}")
        found = fits.fit(cast(use.Way, way), float(fraction), speed, first)
        if way == "random" or not is_first:
            fits.drop_weights(cast(use.Way, way), float(fraction))
        return found

    def _is_english(self) -> bool:
        return measure.is_english(load_tokenizer(self.folders.vocabulary / "words"))

    def _found(self, name: str) -> Found | None:
        return self.stages.find(name, self._key(name))

    def _write(self, todo: Plan) -> dict[str, Any]:
        """Write the results so far, their table and their page; return the results."""
        results = Results(
            config=self.config,
            labelled=self.labelled,
            out=self.out,
            rungs=todo.rungs,
            left_out=todo.left_out,
            failed=self.failed,
            found=self._found,
        ).as_dict()
        with atomic_file(self.out / RESULTS, overwrite=True) as file:
            json.dump(values.plain(results), file, indent=1, ensure_ascii=False)
            file.write("\n")
        rows = rows_of(results)
        names = list(dict.fromkeys(name for row in rows for name in row))
        with atomic_file(self.out / "results.csv", overwrite=True) as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        write_ladder(self.out)
        return results


def _contents(paths: Sequence[str | Path]) -> dict[str, str | None]:
    """Return the SHA-256 of each file; None for what is no file, such as standard input."""
    return {str(p): sha256_file(Path(p)) if Path(p).is_file() else None for p in paths}


def _device(name: str) -> str:
    """Return the name of the device on which a comparison runs.

    Times, and what is trained in a time, are comparable on one device only.
    """
    if name != "cpu" and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {usable_cores()} cores"


def _ends_all(error: Exception) -> bool:
    """Return whether an error affects all rungs, such as a full disk or a folder without access."""
    fatal = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, None)
    causes = (error, error.__cause__, error.__context__)
    return any(isinstance(each, OSError) and each.errno in fatal for each in causes)


def _forget_cuda() -> None:
    """Free GPU memory that a failed rung left in the cache."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _log(path: Path, step: Step) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes lines of a step to the log."""
    lock = threading.Lock()
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"== {step.name}\n")

        def write(line: str) -> None:
            with lock:
                file.write(f"{line}\n")
                file.flush()

        yield write


def _said(step: Step, found: Found, owner: str) -> list[str]:
    """Return the lines to print about a finished step."""
    what = step.name.rpartition("/")[2]
    if step.name == "text":
        train, held_out = found["train"], found["held_out"]
        return [
            f"text: {count(train['characters'])} characters to train on, "
            f"{held_out['characters']:,} held out"
        ]
    if step.name == "vocabulary":
        case = "lower-cased" if found["lowercase"] else "cased"
        return [
            f"vocabularies, {case}: {found['wordpieces']['size']:,} wordpieces, "
            f"{found['words']['size']:,} words ({found['words']['unknown']:.1%} of text unknown)"
        ]
    if what == "pretrain":
        return [
            f"{owner}: {found['parameters']:,} parameters, {count(found['tokens'])} tokens "
            f"in {found['seconds']:,.0f} s"
        ]
    if what == "text":
        kind = "pseudo-bits" if found["pseudo"] else "bits"
        return [f"{owner}: {found['bits_per_character']:.3f} {kind} a character"]
    if "value" in found:
        return [f"{owner}: {step.what.partition(': ')[2]}: {found['value']:.4f}"]
    return []
