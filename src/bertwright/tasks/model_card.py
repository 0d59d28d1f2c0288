"""The model card: `README.md` of a fine-tuned model, as Hugging Face reads it.

Front matter (`model_card_front`), then what the model is, its data,
settings, results, labels, limits, and how to load it. Files are named without their folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bertwright.config import values
from bertwright.tasks.model_card_front import (
    base_model,
    file_name,
    front_matter,
    kept_seed,
    model_name,
)
from bertwright.tasks.model_card_loading import how_to_load
from bertwright.tasks.results import (
    Results,
    baseline_title,
    number,
    show,
    show_interval,
    show_summary,
    title,
    verdict,
)

MOST_LABELS = 100


def card(results: Results, environment: Mapping[str, Any] | None = None) -> str:
    """The text of `README.md`.

    Args:
        results: `results.json` of the run. Its `base_model`, if there is one, is the name of the
            model on the hub it was fine-tuned from.
        environment: `environment.json` of the run.
    """
    tasks = list((results.get("tasks") or {}).values())
    parts = [front_matter(results, tasks or [results])]
    if not tasks:
        parts += [f"# {_plain(model_name(results) or 'A fine-tuned BERT')}"]
        parts += _sections(results, environment or {})
        parts += [how_to_load(results["task"])] if results.get("task") else []
    else:
        parts += [f"# {len(tasks)} tasks over one BERT"]
        for place, found in enumerate(tasks, 1):
            name = _plain(found.get("name") or f"Task {place}")
            sections = [
                part.replace("## ", "### ", 1) for part in _sections(found, environment or {})
            ]
            parts += [f"## {name}", *sections]
        parts += [how_to_load(tasks[0].get("task") or {}, str(tasks[0].get("name")))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sections(results: Results, environment: Mapping[str, Any]) -> list[str]:
    """All that is told of one task."""
    task = results.get("task") or {}
    return [
        _what(results, task, environment),
        _results(results),
        _data(results),
        _labels(task),
        _lengths(results, task),
        _settings(results, task),
        _limits(results, task),
    ]


def _what(results: Results, task: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """What it does, and what it was made from."""
    does = {
        "classification": "gives a text one of the labels below",
        "regression": "gives a text, or a pair of texts, a number",
        "tagging": "gives every word of a sentence a tag",
        "span": "finds the answer to a question in a passage",
        "multiple-choice": "chooses among several ways to go on or to answer",
    }.get(str(task.get("kind")), "was fine-tuned")
    if task.get("multi_label"):
        does = "gives a text any number of the labels below"
    if task.get("text2_column") and task.get("kind") == "classification":
        does = does.replace("a text", "a pair of texts")
    if task.get("unanswerable"):
        does += ", or says that it has none"
    transfer = results.get("transfer")
    how = {
        "finetune": "all weights were trained",
        "features": "the encoder was frozen and gave the features",
        "gradual": "its layers were unfrozen one after another",
    }.get(str(transfer), f"transfer `{_code(transfer)}`")
    random = (results.get("settings") or {}).get("random_start")
    start = " Its weights were random at the start: only shape and tokens are that model's."
    start = start if random else ""
    version = f" {_plain(environment['bertwright'])}" if environment.get("bertwright") else ""
    return (
        f"A BERT that {does}. It was fine-tuned from `{_code(_model_name(results))}` with "
        f"Bertwright{version}; {how}.{start}"
    )


def _results(results: Results) -> str:
    """Every metric with its interval, beside the baselines."""
    summary = results.get("summary") or {}
    if not summary:
        return ""
    seeds = results.get("seeds") or []
    others = results.get("baselines") or {}
    first = f"mean ± sd of {len(seeds)} seeds" if len(seeds) > 1 else "value"
    columns = ["metric", first]
    columns += ["this model"] if len(seeds) > 1 else []
    columns += ["95% interval of this model"] if results.get("intervals") else []
    columns += [baseline_title(str(name)) for name in others]
    kept_metrics = kept_seed(results).get("metrics") or {}
    rows = []
    for metric in summary:
        row = [title(metric), show_summary(results, metric)]
        row += [show(metric, kept_metrics.get(metric))] if len(seeds) > 1 else []
        row += [show_interval(results, metric)] if results.get("intervals") else []
        row += [show(metric, (found or {}).get(metric)) for found in others.values()]
        rows.append(row)
    kept = f" The seed kept is {_plain(results.get('best_seed'))}." if len(seeds) > 1 else ""
    worth = f" Is the BERT worth it? {_plain(verdict(results).sentence)}" if others else ""
    return f"## Results\n\nOn dev.{kept}{worth}\n\n{_table(columns, rows)}"


def _data(results: Results) -> str:
    """Names and sizes of the files."""
    rows = [
        [split, file_name(found), _number((found or {}).get("examples"))]
        for split, found in (results.get("data") or {}).items()
    ]
    return f"## Data\n\n{_table(['', 'file', 'examples'], rows)}" if rows else ""


def _labels(task: Mapping[str, Any]) -> str:
    labels = [_plain(label) for label in task.get("labels") or ()]
    if not labels:
        return ""
    shown = ", ".join(labels[:MOST_LABELS])
    more = f", and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    scheme = str(task.get("scheme") or "none")
    tags = f" Tags mark entities as {scheme.upper()}." if scheme != "none" else ""
    return f"## Labels\n\nIn the order of the scores: {shown}{more}.{tags}"


def _lengths(results: Results, task: Mapping[str, Any]) -> str:
    """How long texts are read, and what was cut."""
    said = []
    if task.get("max_length"):
        said.append(
            f"A text longer than {_number(task['max_length'])} tokens is read in windows that "
            f"share {_number(task.get('stride'))} tokens."
        )
        if task.get("kind") in ("tagging", "span"):
            said.append("A token takes the window in which it has most context.")
        else:
            said.append(f"The scores of windows are merged by their {_plain(task.get('merge'))}.")
    for split, found in (results.get("lengths") or {}).items():
        if not found:
            continue
        cut = number(found.get("cut")) or 0
        lost = (
            f"{cut:,.0f} lost {_number(found.get('tokens_cut'))} tokens" if cut else "none was cut"
        )
        said.append(
            f"{_plain(split).capitalize()}: median {_number(found.get('median_tokens'))} tokens, "
            f"longest {_number(found.get('longest_tokens'))}; of {_number(found.get('examples'))} "
            f"examples {_number(found.get('in_windows'))} were read in several windows, {lost}."
        )
    return f"## Lengths and windows\n\n{' '.join(said)}" if said else ""


def _settings(results: Results, task: Mapping[str, Any]) -> str:
    """Settings that are not unset and did something, as they were."""
    kind, features = task.get("kind"), results.get("transfer") == "features"
    of_texts = kind not in ("tagging", "span")
    did = {
        "layers": features,
        "network": features,
        "network_size": (task.get("head") or {}).get("network") == "bilstm",
        "pooling": features and of_texts,
        "merge": of_texts,
        "multi_label": kind == "classification",
        "class_weights": kind in ("classification", "tagging"),
        "context": kind == "tagging",
        "crf": kind == "tagging",
        "bad_tags": kind == "tagging",
        "max_answer_tokens": kind == "span",
        "wrong_answers": kind == "span",
    }
    flat = values.flatten(results.get("settings") or {})
    paths = ("data", "train", "dev", "test", "out", "model", "file", "path")
    rows = [
        [name, value]
        for name, value in flat.items()
        if value is not None
        and did.get(name, True)
        and not any(part in paths for part in re.split(r"[._]", name))
    ]
    rows += [[name, value] for name, value in (results.get("tuned") or {}).items()]
    if not rows:
        return ""
    made = _table(["setting", "value"], [[name, _setting(value)] for name, value in rows])
    return f"## Settings\n\n{made}"


def _limits(results: Results, task: Mapping[str, Any]) -> str:
    """What the numbers above do not say."""
    dev = _number(((results.get("data") or {}).get("dev") or {}).get("examples"))
    said = [
        f"Measured on {dev} examples of one dev set; texts of another kind or language were not "
        "measured.",
    ]
    seeds = results.get("seeds") or []
    chosen = ["epoch"] if (results.get("settings") or {}).get("keep") != "last" else []
    chosen += ["seed"] if len(seeds) > 1 else []
    if chosen:
        said.append(
            f"The dev set also chose the {' and the '.join(chosen)}, so numbers on new data tend "
            "to be lower."
        )
    fallen = sum(bool(seed.get("degenerate")) for seed in seeds)
    if fallen:
        said.append(
            f"{fallen} of {len(seeds)} seeds were degenerate (one answer for all examples): "
            "training is not stable at these settings."
        )
    if len(seeds) == 1:
        said.append("One seed was run: how much numbers vary between seeds is not known.")
    error = number((results.get("calibration") or {}).get("error"))
    if error is not None:
        said.append(f"Expected calibration error of its probabilities on dev: {error:.3f}.")
    if results.get("tuned"):
        said.append("The null threshold was tuned on the same dev set.")
    if task.get("labels"):
        always = "" if task.get("multi_label") else " and always gives one of them"
        said.append(f"It knows no other labels than those above{always}.")
    said += [_plain(_without_folders(str(each), results)) for each in results.get("warnings") or ()]
    return "## Limits\n\n" + "\n".join(f"- {each}" for each in said)


def _without_folders(warning: str, results: Results) -> str:
    """A warning that names the files of the run by their names alone."""
    settings = results.get("settings") or {}
    files = [(found or {}).get("file") for found in (results.get("data") or {}).values()]
    for file in (*files, settings.get("train"), settings.get("dev")):
        if file:
            warning = warning.replace(str(file), PurePath(str(file)).name)
    return warning


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    marks = ["---", *("---:" for _ in columns[1:])]
    lines = [columns, marks, *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _plain(value: object) -> str:
    """A value as Markdown shows it letter by letter, on one line."""
    line = _line(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|#~]|(?<!\w)_|_(?!\w))", r"\\\1", line)


def _code(value: object) -> str:
    """A value between backticks, without those of its own."""
    return _line(value).replace("`", "'")


def _line(value: object) -> str:
    """A value on one line, without what no file or reader can show."""
    return " ".join(re.sub("[\x00-\x1f\x7f\ud800-\udfff]", " ", str(value)).split())


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: object) -> str:
    found = number(value)
    return "-" if found is None else f"{found:,.0f}"


def _model_name(results: Results) -> str:
    """A name of the hub whole, a folder by its name; a checkpoint after the name of its run."""
    base = base_model(results)
    if base:
        return base
    model = str(results.get("model") or "a BERT")
    path = PurePath(model)
    if path.parent.name == "checkpoints" and path.parent.parent.name:
        return f"{path.parent.parent.name}, {path.name}"
    return (path.parent.name if path.name == "model" else path.name) or model
