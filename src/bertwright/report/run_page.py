"""The page of a run: what a run's folder holds, as one HTML file.

Read are `config.toml`, `environment.json`, `metrics.jsonl` (docs/architecture.md names their keys)
and, where they are, `examples.json` and `learning_curve.json` (as the quickstart writes them) and
`doctor.json` (what `bertwright data check` found). What is not there has no place on the page;
numbers are as measured. A run with `results.json` was fine-tuned: its page is another one
(`finetuned_page`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertwright.config import values
from bertwright.config.bert_run import MaskingConfig
from bertwright.errors import ConfigError, DataError
from bertwright.report.examples import comparison, examples
from bertwright.report.finetuned_data import mapping
from bertwright.report.finetuned_page import sections
from bertwright.report.html import Markup, page, settings, table, text, tiles, write_page
from bertwright.report.labelled_curve import labelled_curve
from bertwright.report.numbers import clock, count, figure, number, short
from bertwright.report.plots import Series, chart
from bertwright.report.shapes import (
    Check,
    expect_curve,
    expect_doctor,
    expect_examples,
    expect_object,
    expect_record,
    expect_results,
)
from bertwright.report.verdict import PREDICTIONS, RESULTS
from bertwright.train.log import read_records

METRICS = "metrics.jsonl"
LEARNING_CURVE = "learning_curve.json"
_FILES: dict[str, Check] = {
    "environment.json": expect_object,
    "examples.json": expect_examples,
    "doctor.json": expect_doctor,
    RESULTS: expect_results,
    LEARNING_CURVE: expect_curve,
}
"""What a `Run` has after its configuration, in the order of its fields."""


@dataclass(frozen=True)
class Run:
    """All that a run's folder tells."""

    folder: Path
    records: list[dict[str, Any]]
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, Any] = field(default_factory=dict)
    checkup: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    """`results.json`, of a fine-tuned run."""
    learning_curve: dict[str, Any] = field(default_factory=dict)
    """Accuracy by labelled examples, of a quickstart."""
    predictions: list[dict[str, Any]] = field(default_factory=list, kw_only=True)
    """On dev, of a fine-tuned run that predicts numbers."""
    finished: bool = field(default=False, kw_only=True)
    """Whether the newest checkpoint says so; the last record may be older than the end."""

    def split(self, name: str) -> list[dict[str, Any]]:
        """The records of `train` or `dev`, in the order of steps."""
        return [record for record in self.records if record.get("split") == name]


def read_run(folder: Path | str) -> Run:
    """Read a run's folder.

    Raises:
        DataError: it is no run, or nothing was measured yet, or a file is damaged.
    """
    folder = Path(folder)
    nested = folder / "run"
    if not is_run(folder) and (nested / METRICS).is_file():
        folder = nested  # the folder of a quickstart
    path = folder / METRICS
    if not is_run(folder):
        raise _no_run(folder)
    config = _read_config(folder / "config.toml")
    records = read_records(path) if path.is_file() else []
    for number_of, record in enumerate(records, 1):
        expect_record(record, f"{path}, record {number_of}")
    if not (folder / RESULTS).is_file() and not any(
        number(record.get("loss")) is not None for record in records
    ):
        go_on = "let the run go on (bertwright pretrain ... --resume)"
        if config.keys() & {"train", "tasks"}:  # of labelled files
            go_on = "let the run go on, or begin it again (bertwright finetune ... --overwrite)"
        raise DataError(
            f"{path} holds no measurements yet: a line is written every few seconds and at the "
            f"end; {go_on} and write the page again"
        )
    found = (read_object(folder / name, check) for name, check in _FILES.items())
    run = Run(folder, records, config, *found, finished=_is_finished(folder))
    path = folder / PREDICTIONS
    if path.is_file() and _predicts_numbers(run.results):
        return replace(run, predictions=read_records(path))
    return run


def write_report(run: Run, out: Path | None = None) -> Path:
    """Write the page (unset: `report.html` in the run's folder); its path.

    Raises:
        ConfigError: `out` cannot be the name of a file.
        BertwrightError: the disk is full or the place is not writable.
    """
    out = out or run.folder / "report.html"
    write_page(out, render(run))
    return out


def render(run: Run) -> str:
    """The page as a string."""
    name = run.folder.resolve().name
    if name == "run":
        name = run.folder.resolve().parent.name
    if run.results:
        parts = sections(name, run.results, run.records, run.environment, run.predictions)
    else:
        parts = _sections(run, name)
    return page(f"{name} · Bertwright", parts)


def _sections(run: Run, name: str) -> Iterator[str]:
    yield f"<h1>{text(name)}</h1>"
    yield f'<p class="soft">{_subtitle(run)}</p>'
    yield tiles(_headline(run))
    if run.examples:
        yield comparison(run.examples)
    yield labelled_curve(run.learning_curve)
    yield _curves(run)
    if run.examples:
        yield examples(run.examples)
    yield _final(run)
    yield _doctor(run.checkup)
    yield settings("Configuration", values.flatten(run.config))
    yield settings("Environment", run.environment)


def _subtitle(run: Run) -> str:
    """Model, data, objectives, machine, in one line."""
    instances, data = run.config.get("instances", {}), run.config.get("data")
    facts = [
        run.config.get("model"),
        instances.get("objectives") if isinstance(instances, Mapping) else None,
        f"on {data}" if isinstance(data, str) and data else None,
        run.environment.get("gpu") or _threads(run.environment),
        f"Bertwright {run.environment['bertwright']}" if "bertwright" in run.environment else None,
    ]
    return " · ".join(text(fact) for fact in facts if fact)


def _threads(environment: Mapping[str, Any]) -> str | None:
    threads = environment.get("threads")
    return (
        f"{threads} thread{'s' * (threads != 1)}, {environment.get('precision', '')}".rstrip(", ")
        if threads
        else None
    )


def _headline(run: Run) -> Iterator[tuple[str, str]]:
    """The figures one looks for first."""
    dev, train = run.split("dev"), run.split("train")
    last = dev[-1] if dev else train[-1] if train else run.records[-1]
    where = "on held-out text" if dev else "on training text"
    for key, name in (
        ("masked_lm.accuracy", "masked tokens right"),
        ("next_sentence.accuracy", "next sentences right"),
    ):
        value = number(last.get(key))
        if value is not None:
            yield f"{value:.1%}", f"{name}, {where}"
    loss = number(last.get("masked_lm.loss"))
    if loss is not None:
        yield f"{loss:.3f}", f"masked LM loss {where}, nats a token"
    end = run.records[-1]
    yield count(end.get("tokens")), "tokens trained on"
    yield clock(number(end.get("seconds")) or 0.0), _length(run, end)
    rates = [r for r in (number(each.get("tokens_per_second")) for each in train) if r is not None]
    if rates:
        yield count(sorted(rates)[len(rates) // 2]), "tokens a second, median"


def _length(run: Run, end: Mapping[str, Any]) -> str:
    """Steps up to the last record and, while they are less, how long the run is to be."""
    step, seconds = number(end.get("step")) or 0, number(end.get("seconds")) or 0.0
    steps, minutes = number(run.config.get("steps")) or 0, number(run.config.get("minutes")) or 0
    if step < steps:
        return f"for {count(step)} of {count(steps)} steps, not finished"
    told = f"for {count(step)} step{'s' * (step != 1)}"
    if run.finished or seconds >= 60 * minutes:
        return told
    return f"{told}, of {clock(60 * minutes)}, not finished"


_CHARTS = (
    ("masked_lm.loss", "Masked LM loss", "{:.3g}", False),
    ("masked_lm.accuracy", "Masked tokens right", "{:.0%}", True),
    ("next_sentence.loss", "Next-sentence loss", "{:.3g}", False),
    ("next_sentence.accuracy", "Next sentences right", "{:.0%}", False),
    ("loss", "Loss, all objectives", "{:.3g}", False),
    ("learning_rate", "Learning rate", "{:.2g}", True),
    ("gradient_norm", "Gradient norm", "{:.3g}", True),
    ("tokens_per_second", "Tokens a second", "", True),
    ("utilization", "Share of the machine's measured peak", "{:.0%}", True),
    ("memory_gb", "Memory, GB", "{:.3g}", True),
)


def _curves(run: Run) -> str:
    """Every chart twice, over tokens and over time; two buttons choose."""
    figures = []
    objectives = {key for record in run.records for key in record if key.endswith(".loss")}
    unit, size = _unit_of_time(number(run.records[-1].get("seconds")) or 0.0)
    for kind, x_key, x_name, x_unit in (
        ("tokens", "tokens", "tokens", 1.0),
        ("time", "seconds", unit, size),
    ):
        for key, title, form, from_zero in _CHARTS:
            if key == "loss" and len(objectives) == 1:
                continue  # the same as that objective's
            lines = [
                Series(shown, *_points(run.split(split), x_key, key, x_unit), style=split)
                for split, shown in (("train", "training"), ("dev", "held out"))
            ]
            level = number((run.examples.get("baselines") or {}).get(key))
            if level is not None and any(line.ys for line in lines):
                lines.append(Series("baseline", [], [level], "baseline"))
            y_format = short if not form else form.format
            drawn = chart(title, lines, x_name, short, y_format, from_zero)
            if drawn:
                figures.append(f'<div class="{kind}">{drawn}</div>')
    return (
        "<h2>Curves</h2>"
        '<input type="radio" name="across" id="by-tokens" checked>'
        '<label for="by-tokens">over tokens</label>'
        '<input type="radio" name="across" id="by-time"><label for="by-time">over time</label>'
        f'<div class="charts">{"".join(figures)}</div>{_about_masks(run)}'
    )


def _about_masks(run: Run) -> str:
    """Why held-out text may be the easier one."""
    masking = run.config.get("masking")
    share = number(masking.get("probability")) if isinstance(masking, Mapping) else None
    if share is None or share <= MaskingConfig.probability or not run.split("dev"):
        return ""
    return (
        f'<p class="soft">Of held-out text {MaskingConfig.probability:.0%} of the tokens are '
        f"masked, as in the BERT paper, of training text {share:.0%}: a harder text.</p>"
    )


def _unit_of_time(seconds: float) -> tuple[str, float]:
    """What a run of that length is measured in, and its seconds: its axis has round numbers."""
    for name, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return name, size
    return "seconds", 1.0


def _points(
    records: list[dict[str, Any]], x_key: str, key: str, x_unit: float
) -> tuple[list[float], list[float]]:
    """What was measured of one key."""
    pairs = [(number(r.get(x_key)), number(r.get(key))) for r in records]
    kept = [(x / x_unit, y) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in kept], [y for _, y in kept]


def _final(run: Run) -> str:
    """The last record of each split, side by side."""
    last = {name: run.split(name)[-1] for name in ("train", "dev") if run.split(name)}
    keys = list(dict.fromkeys(k for record in last.values() for k in record if k != "split"))
    shown = {"train": "training, last line", "dev": "held out"}
    rows = [
        [
            Markup(f"<code>{text(key)}</code>"),
            *(figure(record.get(key)) for record in last.values()),
        ]
        for key in keys
    ]
    columns = ["", *(shown[name] for name in last)]
    return f"<h2>Final numbers</h2>{table(columns, rows, numbers=range(1, len(columns)))}"


def _doctor(checkup: Mapping[str, Any]) -> str:
    """What the doctor found in the data."""
    findings = checkup.get("findings")
    if not isinstance(findings, list) or not findings:
        return ""
    rows = []
    for found in findings:
        level = str(found.get("level", ""))
        style = level if level in ("ok", "warning", "error") else ""
        advice = (
            f'<br><span class="soft">{text(found["advice"])}</span>' if found.get("advice") else ""
        )
        rows.append(
            [
                Markup(f'<span class="level {style}">{text(level)}</span>'),
                str(found.get("name", "")).replace("_", " "),
                Markup(text(found.get("message", "")) + advice),
            ]
        )
    return "<h2>The data</h2>" + table(["", "looked at", "found"], rows)


def _predicts_numbers(results: Mapping[str, Any]) -> bool:
    """Whether one of its tasks does."""
    tasks = [results, *mapping(results.get("tasks")).values()]
    return any(mapping(mapping(each).get("task")).get("kind") == "regression" for each in tasks)


def _no_run(folder: Path) -> DataError:
    """What a folder is in place of a run."""
    if not folder.is_dir():
        found = "it is a file" if folder.is_file() else "no such folder"
    elif runs := sorted(each.name for each in folder.iterdir() if is_run(each)):
        return DataError(
            f"{folder} is no run, but holds {', '.join(runs[:20])}; name one of them: "
            f"bertwright report {folder / runs[0]}"
        )
    else:
        found = f"it has no {METRICS}"
    return DataError(
        f"{folder} is no run ({found}); name the --out of a run, as written by bertwright "
        "pretrain, finetune, glue or quickstart"
    )


def _is_finished(folder: Path) -> bool:
    """Whether a pre-training run went to its end."""
    checkpoints, state = folder / "checkpoints", {}
    with contextlib.suppress(OSError, ValueError, DataError):  # a checkpoint that cannot tell
        name = (checkpoints / "latest").read_text(encoding="utf-8").strip()
        state = read_object(checkpoints / name / "trainer.json", expect_object)
    return mapping(state.get("position")).get("finished") is True


def is_run(folder: Path) -> bool:
    """Whether a folder holds what a run measured."""
    return (folder / METRICS).is_file() or (folder / RESULTS).is_file()


def read_object(path: Path, check: Check) -> dict[str, Any]:
    """A JSON file that a check knows; empty where there is none.

    Raises:
        DataError: it is damaged.
    """
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it or write it again") from error
    check(found, str(path))
    return found


def _read_config(path: Path) -> dict[str, Any]:
    """The configuration of a run; empty where there is none."""
    try:
        return values.read_toml(path) if path.is_file() else {}
    except ConfigError as error:
        raise DataError(f"{error}; restore it, or remove it: the page goes without") from error
