"""The front matter of a model card: YAML as the hub reads it.

https://huggingface.co/docs/hub/model-cards. Strings are JSON strings, which YAML reads as they are;
what YAML does not allow in them is written as an escape. `model-index` holds the metrics of the
model in the folder: the seed that was kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bertwright.tasks.results import Results, number, title

PIPELINES = {
    "classification": "text-classification",
    "regression": "text-classification",
    "tagging": "token-classification",
    "span": "question-answering",
    "multiple-choice": "multiple-choice",
}
_HUB_METRICS = {
    "macro_f1": "f1",
    "micro_f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "mean_squared_error": "mse",
    "mean_absolute_error": "mae",
}
"""Our names to those of the hub; others are the same or are given as they are."""
_PUBLISHED = re.compile(
    r"(google-bert/)?bert-(base|large)-[\w.-]+|google/bert_uncased_L-\d+_H-\d+_A-\d+"
)
"""Names that can only be of the hub: `runs/mine` is a folder."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def front_matter(results: Results, tasks: Sequence[Results]) -> str:
    """What the hub reads, between its two lines of dashes; `tasks` are the results of each task."""
    pipelines = [
        PIPELINES.get(str(_task(each).get("kind")), "text-classification") for each in tasks
    ]
    base = base_model(results)
    lines = ["---", "library_name: transformers", f"pipeline_tag: {pipelines[0]}"]
    if base:
        lines.append(f"base_model: {quoted(base)}")
    lines += ["tags:", "- bertwright", "- bert"]
    measured = [_measured(each) for each in tasks]
    names = dict.fromkeys(_HUB_METRICS.get(metric, metric) for each in measured for metric in each)
    if names:
        lines += ["metrics:", *(f"- {quoted(metric)}" for metric in names)]
        lines += ["model-index:", f"- name: {quoted(model_name(results) or 'model')}", "  results:"]
    for each, pipeline, values in zip(tasks, pipelines, measured, strict=True):
        if not values:
            continue
        file = quoted(file_name((each.get("data") or {}).get("dev")) or "dev")
        lines += ["  - task:", f"      type: {pipeline}", "    dataset:", f"      name: {file}"]
        lines += ["      type: local", "      split: dev", "    metrics:"]
        for metric, value in values.items():
            lines += [f"    - type: {quoted(_HUB_METRICS.get(metric, metric))}"]
            lines += [f"      value: {value:.6f}", f"      name: {quoted(title(metric))}"]
    return "\n".join([*lines, "---"])


def _measured(results: Results) -> dict[str, float]:
    """The metrics of the seed that was kept."""
    found = kept_seed(results).get("metrics") or {}
    return {str(name): value for name, each in found.items() if (value := number(each)) is not None}


def _task(results: Results) -> Mapping[str, Any]:
    return results.get("task") or {}


def base_model(results: Results) -> str | None:
    """Name on the hub of the model that was fine-tuned, if it has one.

    `base_model` of the results, or `model` where that can be no folder: `bert-base-uncased`.
    """
    if results.get("base_model"):
        return str(results["base_model"])
    model = str(results.get("model") or "")
    return model if _PUBLISHED.fullmatch(model) else None


def model_name(results: Results) -> str:
    """The name that was given to the task, else that of the run's folder; empty: unknown."""
    name = str(results.get("name") or "")
    if name not in ("", "task"):
        return name
    return PurePath(str((results.get("settings") or {}).get("out") or "")).name or name


def kept_seed(results: Results) -> Mapping[str, Any]:
    """The seed whose model was saved."""
    seeds = results.get("seeds") or []
    found = [seed for seed in seeds if seed.get("seed") == results.get("best_seed")]
    return dict(found[0] if found else {})


def file_name(found: object) -> str:
    """The name of a split's file, without its folder."""
    file = found.get("file") if isinstance(found, Mapping) else None
    return PurePath(str(file)).name if file else ""


def quoted(value: object) -> str:
    """A string in quotes that YAML 1.1 and 1.2 read as it was; lone surrogates become U+FFFD."""
    clean = re.sub("[\ud800-\udfff]", "\ufffd", str(value))
    made = json.dumps(clean, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", made)
