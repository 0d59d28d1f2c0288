"""`bertwright finetune`: fine-tune a model on labelled files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from bertwright.cli.options import (
    EVERY_KEY,
    EVERY_KEY_OF_SEVERAL,
    ConfigFile,
    Json,
    OptionsOfKind,
    Overwrite,
    of_kind,
    refuse_other_options,
)
from bertwright.cli.output import counted, print_json, print_table
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.task import TaskOptions
from bertwright.console import bar, say
from bertwright.errors import ConfigError
from bertwright.tasks.catalogue import KINDS, check_kind, files_and_options, kind_of

if TYPE_CHECKING:
    KindOrSeveral = str
else:
    KindOrSeveral = Literal[*KINDS, "multitask"]


def verb_for(words: Sequence[str]) -> Callable[..., None]:
    """Return the verb with the options of the kind of task that the command line names.

    Raises:
        ConfigError: an option of the command line, or a key of the file of --config, is one of
            other kinds only.
    """
    kind = words[1] if len(words) > 1 else ""
    if kind in (*KINDS, "multitask"):
        refuse_other_options(kind, words)
    return of_kind(_verb(), kind)


def _verb() -> Callable[..., None]:
    """Return the verb `finetune`, whose options `of_kind` completes."""

    def finetune(
        kind: KindOrSeveral,
        /,
        *,
        config: Annotated[FinetuneConfig, EVERY_KEY],
        files: Annotated[TaskFilesConfig | None, EVERY_KEY_OF_SEVERAL] = None,
        options: OptionsOfKind = None,
        tasks: Path | None = None,
        name: str = "task",
        config_file: ConfigFile = None,
        overwrite: Overwrite = False,
        json: Json = False,
    ) -> None:
        """Fine-tune a model on labelled files: classification, regression, tagging, span,
        multiple-choice, generation, similarity, or several tasks at once.

        The run's folder contains the best model, results.json with mean, standard deviation and
        confidence intervals, the predictions on dev, and the log. Ctrl-C keeps the finished seeds.
        Each kind has options of its own: finetune KIND --help.

        Args:
            kind: Kind of task; multitask: several tasks at once, with --tasks.
            tasks: With multitask: TOML file with a section for each task, which has its kind, its
                training file (train), and the other keys of a task.
            name: Name of the task in the model.
        """
        _finetune(kind, config, _tasks(kind, name, files, options, tasks), name, overwrite, json)

    return finetune


def _finetune(
    kind: str, config: FinetuneConfig, chosen: Chosen, name: str, overwrite: bool, json: bool
) -> None:
    """Fine-tune, and print the results."""
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.labelled.look import look_at

    refuse_missing_model(config.model)
    for each in chosen.values():
        look_at(*each)

    from bertwright.recipes.finetune.run import finetune as run_finetuning
    from bertwright.recipes.finetune.setup import TaskSpec

    tasks_to_train = [TaskSpec(each, *chosen[each]) for each in chosen]
    said: set[str] = set()

    def speak(line: str) -> None:
        said.add(line)
        say(line)

    encodes = config.transfer == "features"
    with bar("Encoding" if encodes else "Fine-tuning", "tokens", lines=encodes) as on_progress:
        results = run_finetuning(tasks_to_train, config, speak, overwrite, on_progress)
    if os.environ.get("RANK", "0") != "0":  # only one of torchrun's processes prints
        return
    if json:
        print_json(results)
        return
    from bertwright.report.verdict import failed, falling_loss, needs_epochs
    from bertwright.train.log import METRICS, read_records

    found = list(results.get("tasks", {name: results}).values())
    for each in found:
        _show(each, said)
    some = " --task NAME" if len(chosen) > 1 else ""
    run = shlex.quote(config.out)
    records = read_records(Path(config.out) / METRICS)
    useless = [each for each in found if failed(each)]
    if useless:
        names = ", ".join(each["name"] for each in useless)
        say(
            f"WARNING: {config.out} holds a model that has learned nothing of {names}: it is of no "
            "use."
        )
    epochs = found[0]["settings"]["epochs"]
    falls = ""
    if epochs is not None:  # None: the head was fitted without training steps
        learned = [needs_epochs(each, records) for each in found]
        failures = [falling_loss(each, records) for each in useless]
        falls = next(filter(None, failures if useless else learned), "")
    if falls:
        settings = shlex.quote(str(Path(config.out) / "config.toml"))
        longer = shlex.quote(f"{config.out.rstrip('/')}-longer")
        say(f"{falls}: train for more epochs:")
        more = f"--epochs {(3 if useless else 2) * epochs:g}"
        if found[0]["learning_rates"]:
            more += f" --learning-rate {found[0]['settings']['learning_rate']:g}"
        say(f"  bertwright finetune {kind} --config {settings} {more} --out {longer}")
    say("To see what it predicts:" if useless else f"{config.out} is ready. What to do next:")
    say(f"  bertwright report {run}")
    say(f"  bertwright evaluate --model {run}{some} --data FILE")
    say(f"  bertwright predict --model {run}{some} --input FILE --out predictions.jsonl")
    if any(kind_of(each).vectors for each, *_ in chosen.values()):
        say(f"  bertwright embed --model {run} --input FILE --out vectors.npy")
        say(f'  bertwright similar --model {run} --corpus FILE "what to look for"')


Chosen = dict[str, tuple[str, TaskFilesConfig, TaskOptions]]
"""Name of a task -> its kind, its files and its options."""


def _tasks(
    kind: str,
    name: str,
    files: TaskFilesConfig | None,
    options: TaskOptions | None,
    tasks: Path | None,
) -> Chosen:
    """Return the task of the command line, or for multitask those of the file `tasks`.

    Raises:
        ConfigError: the options do not fit the kind, or the file to train on is missing.
    """
    if kind == "multitask":
        if files is not None or tasks is None:
            raise ConfigError(
                "multitask takes its files from --tasks FILE.toml, with a section per task and the "
                "keys kind, train, dev and the others of a task's files; not from the command line"
            )
        return read_tasks(tasks)
    if tasks is not None:
        raise ConfigError(f"--tasks is for several tasks: finetune multitask, not finetune {kind}")
    options = KINDS[kind].options() if options is None else options
    files = TaskFilesConfig() if files is None else files
    if not (files.train or options.has_examples):
        raise ConfigError(
            "missing --train, the labelled file to train on. "
            "bertwright finetune --help-all lists what there is."
        )
    return {name: (kind, files, options)}


def read_tasks(path: Path) -> Chosen:
    """Read a file with a section per task: `kind`, the keys of `TaskFilesConfig`, and the options
    of the kind.

    Raises:
        ConfigError: the file is not TOML or has no section, or a section has an unknown key (the
            message names the nearest key), a wrong kind, or no `train`.
    """
    chosen: Chosen = {}
    for name, section in values.read_toml(path).items():
        if not isinstance(section, dict):
            raise ConfigError(
                f"{path}: the key {name!r} is in no section; each task has one, as [sst2]. What "
                "is not of one task is an option, or a key of --config"
            )
        where = f"{path}, [{name}]"
        rest = dict(section)
        try:
            kind = check_kind(rest.pop("kind", None))
        except ConfigError as error:
            raise ConfigError(f"{where}, the key 'kind': {error}") from error
        files, options = files_and_options(kind, rest, where)
        chosen[name] = (kind, files, options)
        if not (files.train or options.has_examples):
            raise ConfigError(f"missing key 'train' in {where}: the labelled file to train on")
    if not chosen:
        raise ConfigError(f"{path} has no section; expected one per task, as [sst2]")
    return chosen


def _show(results: Mapping[str, Any], said: set[str]) -> None:
    """Print the metrics of one task, the main one first, the verdict on it, and advice.

    A warning is printed unless the lines in `said`, which were printed before, include it.
    """
    from bertwright.report.numbers import show, title
    from bertwright.report.verdict import (
        baselines,
        next_steps,
        show_interval,
        show_summary,
        verdict,
    )

    metrics = list(results["summary"])
    others = list(results["baselines"])
    seeds = len(results["seeds"])
    rows = [
        [
            title(metric),
            show_summary(results, metric),
            show_interval(results, metric),
            *(show(metric, results["baselines"][each].get(metric)) for each in others),
        ]
        for metric in metrics
    ]
    dev = results["data"]["dev"]
    spread = ["mean ± sd"] if seeds > 1 else ["value"]
    over = f", {seeds} seeds; the interval is the best seed's" if seeds > 1 else ""
    print_table(
        ["metric", *spread, "95 % interval", *others],
        rows,
        f"{results['name']}: {counted(dev['examples'], 'example')} of {dev['file']}{over}",
    )
    if baselines(results, results["main"]):
        say(f"Is the model worth it? {verdict(results).sentence}")
    if advice := next_steps(results):
        say(f"What to try next: {advice}")
    if results["tuned"]:
        names = ", ".join(title(name) for name in results["tuned"])
        say(f"The {names} was tuned on these examples: on others expect a little less.")
    for warning in results["warnings"]:
        if f"warning: {warning}" not in said:
            say(f"warning: {warning}")
