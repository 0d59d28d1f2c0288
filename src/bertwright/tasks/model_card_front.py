"""The front matter of a model card: YAML as the hub reads it.

https://huggingface.co/docs/hub/model-cards. Strings are JSON strings, which YAML reads as they are;
what YAML does not allow in them is written as an escape. `model-index` holds the metrics of the
model in the folder: the seed that was kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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


def front_matter(results: Results) -> str:
    """What the hub reads, between its two lines of dashes."""
    task = results.get("task") or {}
    pipeline = PIPELINES.get(str(task.get("kind")), "text-classification")
    base = base_model(results)
    values = {
        str(name): value
        for name, found in (kept_seed(results).get("metrics") or {}).items()
        if (value := number(found)) is not None
    }
    lines = ["---", "library_name: transformers", f"pipeline_tag: {pipeline}"]
    if base:
        lines.append(f"base_model: {quoted(base)}")
    lines += ["tags:", "- bertwright", "- bert"]
    if values:
        name = quoted(results.get("name") or "model")
        file = quoted(file_name((results.get("data") or {}).get("dev")) or "dev")
        hub_names = dict.fromkeys(_HUB_METRICS.get(metric, metric) for metric in values)
        lines += ["metrics:", *(f"- {quoted(metric)}" for metric in hub_names)]
        lines += ["model-index:", f"- name: {name}", "  results:", "  - task:"]
        lines += [f"      type: {pipeline}", "    dataset:", f"      name: {file}"]
        lines += ["      type: local", "      split: dev", "    metrics:"]
        for metric, value in values.items():
            lines += [f"    - type: {quoted(_HUB_METRICS.get(metric, metric))}"]
            lines += [f"      value: {value:.6f}", f"      name: {quoted(title(metric))}"]
    return "\n".join([*lines, "---"])


def base_model(results: Results) -> str | None:
    """Name on the hub of the model that was fine-tuned, if it has one.

    `base_model` of the results, or `model` where that can be no folder: `bert-base-uncased`.
    """
    if results.get("base_model"):
        return str(results["base_model"])
    model = str(results.get("model") or "")
    return model if _PUBLISHED.fullmatch(model) else None


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
