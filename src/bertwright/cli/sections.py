"""How `--help` shows options: in one panel, or in the sections that a user thinks of."""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from cyclopts import Group

_LEARNING = {
    "Data": (
        *("train", "dev", "data", "tasks", "text", "text2", "label", "multi-label", "weight"),
        *("bad-rows", "bad-tags", "wrong-answers"),
    ),
    "Long texts": ("max-length", "stride", "merge", "context", "max-answer-tokens"),
    "Model and transfer": (
        *("model", "transfer", "layers", "network", "network-size", "pooling", "crf"),
        *("random-start", "dropout", "attention-dropout"),
    ),
    "Training": (
        *("epochs", "learning-rate", "batch-size", "warmup", "layer-decay", "weight-decay"),
        *("clip-norm", "bias-correction", "class-weights"),
    ),
    "Seeds, and what dev decides": (
        *("seeds", "seed", "metric", "keep", "evaluations-per-epoch", "patience", "baselines"),
    ),
    "Machine": ("device", "precision", "micro-tokens"),
    "Output": ("out", "name", "overwrite", "json", "config"),
}
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {"finetune": _LEARNING, "glue": _LEARNING}
"""Verb -> the title of each section and its options, as they are shown; a verb may lack some."""


def options_of(verb: str) -> Group:
    """The group of a verb's options, which knows how to show them."""
    sections = SECTIONS.get(verb, {})

    def show(console: Any, options: Any, panel: Any) -> None:
        for title, entries in _split(panel, sections):
            _show(console, options, panel, title, entries)

    return Group("Parameters", help_formatter=show)


def _split(panel: Any, sections: dict[str, tuple[str, ...]]) -> list[tuple[str, list[Any]]]:
    """The entries of a panel by section; those of no section come last."""
    left = {entry.positive_names[0].removeprefix("--"): entry for entry in panel.entries}
    found = [
        (title, [left.pop(name) for name in names if name in left])
        for title, names in sections.items()
    ]
    found.append((panel.title, list(left.values())))
    return [(title, entries) for title, entries in found if entries]


def _show(console: Any, options: Any, panel: Any, title: str, entries: list[Any]) -> None:
    """Some options of a verb; their texts have the lines of the console, not those of the source,
    and a list without a word is no default to show."""
    from cyclopts.help import DefaultFormatter

    for entry in entries:
        text = getattr(entry.description, "primary_renderable", None)
        if text is not None:
            text.plain = re.sub(r"\s*\n\s*", " ", text.plain)
        if entry.default == "()":
            entry.default = None
    shown = copy(panel)
    shown.title, shown.entries = title, entries
    DefaultFormatter()(console, options, shown)
