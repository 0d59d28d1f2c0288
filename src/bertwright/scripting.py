"""Functions for scripts and notebooks: `build_data`, `pretrain`, `finetune`, `compare`, `evaluate`.

They run the recipes behind the verbs of the command line with plain arguments, and print their
progress. `pretrain` and `finetune` return a `Run`, which gives its metrics, its log, its model and
its page. Labelled data may be a file, a list of rows, a pandas DataFrame or a `datasets` Dataset.
docs/howto/python.md has examples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from bertwright.atomic import refuse_folder
from bertwright.checkpoint.tokenizer_folder import find_tokenizer
from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.finetune import FinetuneConfig
from bertwright.config.recipes import LENGTHS, recipe_file
from bertwright.config.run import RunConfig
from bertwright.config.task import BleuTokenize
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.console import bar, say, step_bars
from bertwright.data.build import build_shards
from bertwright.errors import BertwrightError, ConfigError, DataError, MissingExtra
from bertwright.inference.files.predictions import evaluate_file
from bertwright.inference.model import Model, load
from bertwright.labelled.columns import make_columns
from bertwright.models.catalogue import completed, row_of, system_and_preset, trainable
from bertwright.progress import OnProgress, silent
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.compare import run as comparison
from bertwright.recipes.compare.folder import LABELLED, hold
from bertwright.recipes.compare.labelled import Task
from bertwright.recipes.configure import configure
from bertwright.recipes.finetune import run as finetuning
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.recipes.finetune.training_file import compare_with_training
from bertwright.report.comparison.rows import Results
from bertwright.report.pages import write_report
from bertwright.report.read import read_run
from bertwright.report.verdict import RESULTS
from bertwright.rows.read import MemoryRows
from bertwright.tasks.catalogue import check_kind, files_and_options, kind_of
from bertwright.text.tokenizer.train import train_tokenizer
from bertwright.train.log import METRICS, Board, OnLog, read_records, summary_writer

Data = str | Path | Iterable[Any]
"""A file, or rows: mappings, tuples, a pandas DataFrame or a `datasets` Dataset."""
LogTo = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        """The content of `results.json` of a fine-tuned run; empty for a pre-training run."""
        path = self.folder / RESULTS
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @property
    def records(self) -> list[dict[str, Any]]:
        """The log, with one record for each line of `metrics.jsonl`."""
        return read_records(self.folder / METRICS)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The metrics on held-out data.

        They are those of the best seed for a fine-tuned run, with the names `TASK.METRIC` if it has
        several tasks, and those of the last validation for a pre-training run. For a pre-training
        run without validation, they are those of the last record of the log.
        """
        if "tasks" in self.results:
            tasks = self.results["tasks"].items()
            return {f"{name}.{k}": v for name, each in tasks for k, v in each["metrics"].items()}
        if self.results:
            return dict(self.results["metrics"])
        held_out = [each for each in self.records if each["split"] == "dev"]
        last = (held_out or self.records)[-1]
        return {k: v for k, v in last.items() if k not in ("step", "tokens", "seconds", "split")}

    @cached_property
    def model(self) -> Model:
        """The model, loaded when it is first used."""
        return load(self.folder)

    @cached_property
    def report(self) -> Path:
        """The path of the run's HTML page, which is written when it is first used."""
        return write_report(read_run(self.folder))


@dataclass(frozen=True)
class Scores:
    """The result of `evaluate`."""

    results: dict[str, Any]
    """The whole result, as `bertwright evaluate --json` prints it."""

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name, the main one first."""
        return dict(self.results["metrics"])

    @property
    def warnings(self) -> list[str]:
        """Warnings about the data and the metrics."""
        return list(self.results["warnings"])


def build_data(
    inputs: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    tokenizer: str | Path | None = None,
    vocab_size: int = 16384,
    reading: Mapping[str, Any] | None = None,
    workers: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> Path:
    """Turn text into shards for pre-training, and return their folder.

    Args:
        inputs: files, folders or globs, as `bertwright data build` reads them.
        out: the folder to write the shards to.
        tokenizer: the folder of a tokenizer or a model, or `hf:ORG/NAME`; None: a vocabulary is
            trained on the text.
        vocab_size: the size of the vocabulary if it is trained.
        reading: options of `bertwright data build` for finding documents and sentences, as
            `{"documents": "line"}`.
        workers: the number of processes; 0: one per core. With more than one, a script must call
            this function under `if __name__ == "__main__":`.
        overwrite: replace what is in `out`.
        progress: show a progress bar.

    Raises:
        ConfigError: an unknown key, or a folder that exists already.
        DataError: no documents, or a file that cannot be read.
    """
    files = [str(each) for each in ([inputs] if isinstance(inputs, str | Path) else inputs)]
    corpus = values.from_dict(CorpusConfig, reading or {})
    with TemporaryDirectory() as temporary:
        if tokenizer is None:
            refuse_folder(Path(out), overwrite)  # before the work starts
            config = TokenizerConfig(vocab_size=vocab_size, workers=workers)
            with _bar(progress, "Training the vocabulary", "bytes") as on_read:
                trained, _ = train_tokenizer(files, corpus, config, on_read=on_read)
            trained.save(temporary)
        with _bar(progress, "Building", "bytes") as on_progress:
            build_shards(
                files,
                out,
                find_tokenizer(Path(tokenizer)) if tokenizer else temporary,
                corpus,
                workers=workers,
                overwrite=overwrite,
                on_progress=on_progress,
            )
    return Path(out)


def pretrain(
    data: str | Path,
    *,
    out: str | Path,
    system: str | None = None,
    preset: str | None = None,
    config: RunConfig | Mapping[str, Any] | str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    on_log: OnLog = silent,
    log_to: LogTo | Sequence[LogTo] = (),
    **settings: Any,
) -> Run:
    """Pre-train a model on shards that `bertwright data build` wrote.

        run = bertwright.pretrain("shards", preset="mini", minutes=30, out="runs/mine")

    Args:
        data: the folder of shards.
        out: the folder of the run.
        system: the kind of model to train, as `bert` or `gpt`; None: that of `preset` or of the
            key `model`, which names a preset as `--model` does, or else BERT.
        preset: the size of the model, as `mini`, or the whole name, as `bert-mini`.
        config: settings to start from: a configuration, a mapping, a TOML file, or the name of a
            recipe, as `half-hour`.
        resume: continue the run in `out`, or start it if there is none.
        overwrite: replace the run in `out`.
        progress: print the log.
        on_log: called with each record of `metrics.jsonl`.
        log_to: further destinations of the log: `tensorboard`, `wandb`, or both as a list.
        settings: any key that `bertwright pretrain --model MODEL --help-all` lists; they override
            `config`, and a length the length that it has. A key of a section is given as
            `optimizer={"learning_rate": 1e-3}` or `**{"optimizer.learning_rate": 1e-3}`.

    Raises:
        ConfigError: an unknown key, a wrong value, or a folder that exists already.
        DataError: shards that cannot be trained on.
        MissingExtra: a package that `log_to` needs is not installed.
        Interrupted: Ctrl-C was pressed; the run is saved, and `resume=True` continues it.
    """
    if isinstance(config, str):
        config = recipe_file(config)
    named = _mapping(config) | settings
    if isinstance(config, RunConfig) and system is None:
        system = row_of(config).name
    system, model = system_and_preset(system, preset or named.get("model"))
    cls = trainable()[system]
    given: dict[str, Any] = {"data": str(data), "out": str(out)}
    if model is not None:
        given["model"] = model
    targets: set[str] = {log_to} if isinstance(log_to, str) else {*log_to}
    if "tensorboard" in targets:
        given["log"] = {"tensorboard": True}
    base = _mapping(config)
    if preset is not None or "model" in settings:
        base.pop("architecture", None)  # the preset's replaces all of it
    if settings.keys() & set(LENGTHS):
        base = {key: value for key, value in base.items() if key not in LENGTHS}
    made = completed(configure(cls, values.merge(base, _nested(settings | given))))
    others = targets - {"tensorboard"}
    with _sinks(on_log, others, made.out, made) as sink:
        folder = pretraining.pretrain(
            made, say if progress else silent, overwrite=overwrite, resume=resume, on_log=sink
        )
    return Run(folder)


def finetune(
    kind: str,
    *,
    model: str | Path,
    train: Data | None = None,
    dev: Data | None = None,
    out: str | Path,
    name: str = "task",
    text: str | None = None,
    text2: str | None = None,
    label: str | Sequence[str] | None = None,
    config: FinetuneConfig | Mapping[str, Any] | str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    on_log: OnLog = silent,
    log_to: LogTo | Sequence[LogTo] = (),
    **settings: Any,
) -> Run:
    """Fine-tune a model on labelled examples.

        rows = [("a wonderful film", "good"), ("two hours I want back", "bad"), ...]
        run = bertwright.finetune("classification", model="runs/mine", train=rows, out="runs/film")

    Args:
        kind: `classification`, `regression`, `tagging`, `span`, `multiple-choice`, `generation`
            or `similarity`.
        model: a run, a checkpoint, a Hugging Face folder or `hf:ORG/NAME`.
        train: examples: a file, or rows as mappings or tuples: `(text, label)`,
            `(text, text2, label)`, `(words, tags)`, `(question, context, answer)`,
            `(text, choices, index)`, `(source, target)`; a pandas DataFrame; a `datasets` Dataset.
            It may be None only for `similarity` on plain text, which is given as
            `corpus=["articles/"]`.
        dev: examples to evaluate on, in any of these forms; None: a tenth of `train`.
        out: the folder of the run.
        name: the name of the task in the model.
        text, text2, label: the columns of the text, of the second text of a pair, and of the label;
            None: they are found by their names. With `multi_label=True`, `label` is a list: a
            column for each class, or the names of the classes if a column holds lists of 0 and 1.
        config, overwrite, progress, on_log, log_to: as for `pretrain`.
        settings: any key that `bertwright finetune KIND --help-all` lists, as `epochs=3` or
            `multi_label=True`.

    Raises:
        ConfigError: an unknown key, a wrong value, or a folder that exists already.
        DataError: examples that cannot be read.
        MissingExtra: a package that `log_to` needs is not installed.
        Diverged: in every seed, the loss or the gradients became infinite or NaN.
        Interrupted: Ctrl-C was pressed; the seeds that were finished are saved.
    """
    check_kind(kind)
    examples = {"train": train, "dev": dev}
    rows = {key: input_rows(each, kind, key) for key, each in examples.items() if each is not None}
    given = {"text": text, "text2": text2, "label": label, "model": str(model), "out": str(out)}
    given |= {key: each if isinstance(each, str) else each.name for key, each in rows.items()}
    names = settings.get("label_map")
    if isinstance(names, Mapping):
        settings["label_map"] = [f"{name}={meant}" for name, meant in names.items()]
    flat = values.merge(_mapping(config), settings | {k: v for k, v in given.items() if v})
    of_run = values.keys_of(FinetuneConfig)
    of_task = {key: value for key, value in flat.items() if key not in of_run}
    files, options = files_and_options(kind, of_task, others=of_run)
    made = values.from_dict(FinetuneConfig, {k: v for k, v in flat.items() if k in of_run})
    in_memory = {key: each for key, each in rows.items() if isinstance(each, MemoryRows)}
    task = TaskSpec(name, kind, files, options, in_memory.get("train"), in_memory.get("dev"))
    targets: set[str] = {log_to} if isinstance(log_to, str) else {*log_to}
    with (
        _bar(progress, "Fine-tuning", "tokens", made.transfer == "features") as on_progress,
        _sinks(on_log, targets, made.out, made) as sink,
    ):
        on_line = say if progress else silent
        finetuning.finetune([task], made, on_line, overwrite, on_progress, sink)
    return Run(Path(made.out))


@dataclass(frozen=True)
class Ladder:
    """A finished comparison of systems."""

    folder: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        """The content of `results.json`."""
        found: dict[str, Any] = json.loads((self.folder / RESULTS).read_text(encoding="utf-8"))
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `results.csv`: one for each figure of a system or a baseline, with one seed
        (`report/comparison/rows.py` describes the columns).
        """
        return [row.flat() for row in Results.of(self.results).rows]

    @property
    def conclusion(self) -> str:
        """The conclusion that the results support, and the doubts about it, in a few sentences."""
        return " ".join([self.results["conclusion"], *self.results["remarks"]]).strip()

    @property
    def report(self) -> Path:
        """The path of the HTML page that shows the comparison."""
        return self.folder / "report.html"

    def to_pandas(self) -> Any:
        """Return the rows as a DataFrame.

        Raises:
            BertwrightError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            message = "to_pandas needs the package pandas: pip install pandas"
            raise BertwrightError(message) from error
        return pandas.DataFrame(self.rows)


def compare(
    corpus: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    train: Data | None = None,
    dev: Data | None = None,
    test: Data | None = None,
    kind: str = "classification",
    text: str | None = None,
    text2: str | None = None,
    label: str | Sequence[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Ladder:
    """Compare systems from n-grams to BERT on a corpus and a labelled task.

        ladder = bertwright.compare("corpus", train="labelled.tsv", out="runs/ladder", minutes=3)

    After an interruption, the same call continues the comparison. A call with more systems, seeds
    or fractions computes only what is new.

    Args:
        corpus: files, folders or globs, as `bertwright data build` reads them.
        out: the folder of the comparison.
        train: labelled examples, in any form that `finetune` takes; None: the systems are compared
            only as language models and by their words.
        dev: examples for model selection; None: a tenth of `train`.
        test: examples that are evaluated once, at the end; None: the metrics are those of dev.
        kind: the kind of the task, as for `finetune`.
        text, text2, label: columns, as for `finetune`.
        reading: options of `bertwright data build` for finding documents and sentences, as
            `{"documents": "line"}`.
        overwrite: replace the comparison in `out`, instead of continuing it.
        progress: print messages and show progress bars.
        settings: any key that `bertwright compare --help-all` lists, as
            `systems=["gpt2", "bert"]`.

    Returns:
        The comparison. What failed has a row with its `reason`.

    Raises:
        ConfigError: an unknown key, a wrong value, or a folder that holds something else or a
            comparison with other settings.
        DataError: a corpus or examples that cannot be used.
        Interrupted: Ctrl-C was pressed; the same call continues.
    """
    check_kind(kind)
    folder = Path(out)
    given = {k: v for k, v in {"text": text, "text2": text2, "label": label}.items() if v}
    given |= settings
    of_run = values.keys_of(CompareConfig)
    of_task = {key: value for key, value in given.items() if key not in of_run}
    files_and_options(kind, of_task, others=of_run)  # an error comes before a file is written
    config = values.from_dict(
        CompareConfig, {k: v for k, v in given.items() if k in of_run} | {"out": str(folder)}
    )
    files = [str(each) for each in ([corpus] if isinstance(corpus, str | Path) else corpus)]
    with (
        step_bars("all") if progress else nullcontext(silent) as on_step,
        hold(folder, overwrite) as held,
    ):
        task = None
        if train is not None:
            paths = {
                name: _labelled_file(rows, kind, name, folder)
                for name, rows in (("train", train), ("dev", dev), ("test", test))
                if rows is not None
            }
            test_file = paths.pop("test", None)
            task = Task(kind, *files_and_options(kind, of_task | paths), test_file)
        request = comparison.Request(
            files, config, task, values.from_dict(CorpusConfig, reading or {})
        )
        comparison.compare(held, request, say=say if progress else silent, on_step=on_step)
    return Ladder(folder)


def _labelled_file(data: Data, kind: str, name: str, folder: Path) -> str:
    """Return the path of a labelled file; rows in memory are first written to one in `folder`."""
    rows = input_rows(data, kind, name)
    if isinstance(rows, str):
        return rows
    path = folder / LABELLED / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows.rows)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    return str(path)


def evaluate(
    model: str | Path | Model,
    data: Data,
    *,
    task: str | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | Sequence[str] | None = None,
    label_map: Mapping[str, str] | None = None,
    metric: str | None = None,
    null_threshold: float | None = None,
    intervals: bool = True,
    bleu_tokenize: BleuTokenize | None = None,
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    progress: bool = True,
) -> Scores:
    """Evaluate a fine-tuned model on labelled examples.

        bertwright.evaluate("runs/film", [("a dull film", "bad")]).metrics["accuracy"]

    Args:
        model: a loaded model, or the folder of one.
        data: examples with labels, in any form that `finetune` takes.
        task: the name of the task; None: the model has only one.
        text, text2, label: columns; None: those of training, or found by their names. With several
            labels, `label` is a list with a column for each class.
        label_map: name of a label in the data -> its name in the model, as
            `{"0": "bad", "1": "good"}`.
        metric: the metric to put first; None: the main metric of the kind of task.
        null_threshold: for a span task, the threshold for predicting no answer, in place of the
            model's; `inf`: an answer is always predicted.
        intervals: whether to compute 95 % confidence intervals by bootstrap.
        bleu_tokenize: sacreBLEU's tokenizer for a generation task; None: that of training.
        precision: the precision of matrix products; `auto`: bf16 if the hardware multiplies it
            faster.
        progress: show a progress bar.

    Raises:
        ConfigError: there is no such task or metric.
        DataError: the model has no task head, examples cannot be read, or a label did not occur in
            training.
    """
    loaded = model if isinstance(model, Model) else load(model)
    kind = loaded.tasks[loaded.task_name(task)].kind
    rows = input_rows(data, kind, "data")
    with _bar(progress, "Predicting", "tokens") as on_progress:
        found = evaluate_file(
            loaded,
            rows,
            task,
            make_columns(text, text2, label),
            main=metric,
            label_map=label_map,
            null_threshold=null_threshold,
            intervals=intervals,
            bleu_tokenize=bleu_tokenize,
            precision=precision,
            on_progress=on_progress,
            compare=partial(compare_with_training, loaded, rows, metric),
        )
    return Scores(found)


def input_rows(data: Data, kind: str, name: str) -> str | MemoryRows:
    """Return the path of a file, or rows in memory as mappings from column to value.

    Raises:
        DataError: a row is neither a mapping nor a tuple, or a tuple has a wrong number of items.
    """
    if isinstance(data, str | Path):
        return str(data)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.to_dict(orient="records")
    classes = _class_names(data)
    found = []
    for number, row in enumerate(cast("Iterable[Any]", data), 1):
        if isinstance(row, tuple | list):
            row = _named(row, kind, f"{name}, row {number}")
        if not isinstance(row, Mapping):
            raise DataError(
                f"{name}, row {number} is a {type(row).__name__}; expected a mapping as "
                '{"text": ..., "label": ...} or a tuple as (text, label)'
            )
        found.append(
            {
                column: classes[column](value) if column in classes else values.plain(value)
                for column, value in row.items()
            }
        )
    return MemoryRows(f"{name} ({len(found):,} rows)", found)


def _named(row: Sequence[Any], kind: str, where: str) -> dict[str, Any]:
    """Return the items of a tuple as a mapping from the names of their columns.

    An answer that is given as a string is looked up in its context.
    """
    known = kind_of(kind).fields
    fields = next((each for each in known if len(each) == len(row)), None)
    if fields is None:
        expected = " or ".join(f"({', '.join(each)})" for each in known)
        raise DataError(f"{where} has {len(row)} items; expected {expected}")
    named = dict(zip(fields, row, strict=True))
    if isinstance(answer := named.get("answers"), str):
        starts = [named["context"].find(answer)] if answer else []
        named["answers"] = {"text": [answer] if answer else [], "answer_start": starts}
    return named


def _class_names(data: Any) -> dict[str, Callable[[Any], Any]]:
    """Return a function for each column of class numbers, which turns a number into its name.

    Only a `datasets` Dataset has such columns. A negative number, which means no label, becomes
    None.
    """

    def names(feature: Any) -> Callable[[Any], Any]:
        def name(value: Any) -> Any:
            if isinstance(value, list):
                return [name(each) for each in value]
            return None if value is None or value < 0 else feature.int2str(value)

        return name

    features = getattr(data, "features", None) or {}
    inner = {column: getattr(each, "feature", each) for column, each in features.items()}
    return {column: names(each) for column, each in inner.items() if hasattr(each, "int2str")}


def _mapping(config: Any) -> dict[str, Any]:
    """Return a configuration, a mapping or a TOML file as nested mappings."""
    if isinstance(config, str | Path):
        return values.read_toml(config)
    return {} if config is None else _nested(values.to_dict(config))


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as sections, with paths as text."""
    return values.nested({k: str(v) if isinstance(v, Path) else v for k, v in settings.items()})


def _bar(
    progress: bool, label: str, unit: str, lines: bool = True
) -> AbstractContextManager[OnProgress]:
    """Return the progress bar of the command line, or one that shows nothing without `progress`."""
    return bar(label, unit, lines) if progress else nullcontext(silent)


@contextmanager
def _sinks(on_log: OnLog, targets: set[str], out: str, config: Any) -> Iterator[OnLog]:
    """Yield a function that passes each record of the log on to `on_log`, TensorBoard and wandb.

    `targets` says whether TensorBoard and wandb are used.

    Raises:
        ConfigError: a target is unknown.
        MissingExtra: the package of a target is not installed.
    """
    if unknown := targets - {"tensorboard", "wandb"}:
        raise ConfigError(f"log_to is {min(unknown)!r}; expected 'tensorboard' or 'wandb'")
    sinks = [on_log]
    with ExitStack() as stack:
        if "wandb" in targets:
            try:
                import wandb
            except ImportError as error:
                raise MissingExtra("wandb", "wandb", "log_to='wandb'") from error
            project = os.environ.get("WANDB_PROJECT", "bertwright")
            run = wandb.init(project=project, name=Path(out).name, config=values.to_dict(config))
            stack.callback(run.finish)
            sinks.append(
                lambda record: run.log(
                    {f"{record['split']}/{k}": v for k, v in record.items() if k != "split"}
                )
            )
        if "tensorboard" in targets:
            summary_writer()  # its absence is an error before the run starts
            boards: dict[str, Board] = {}  # one per seed, made when the run's folder exists

            def write(record: dict[str, Any]) -> None:
                seed = f"seed-{record.get('seed', 1)}"
                if seed not in boards:
                    boards[seed] = Board(Path(out, "tensorboard", seed))
                    stack.callback(boards[seed].close)
                boards[seed].write(record)

            sinks.append(write)

        def every(record: dict[str, Any]) -> None:
            for sink in sinks:
                sink(record)

        yield every
