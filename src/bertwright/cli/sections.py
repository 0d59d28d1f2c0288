"""How `--help` shows options: in one panel, or in the sections that a user thinks of."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
_PRETRAINING = {
    "Data and output": ("data", "out", "resume", "overwrite", "config"),
    "Model": ("model", "init", "architecture."),
    "How long": ("steps", "minutes", "epochs", "seed"),
    "Sequences and masks": ("instances.", "masking.", "long-phase."),
    "First weights": ("start.",),
    "Optimizer": ("batch.", "optimizer.", "schedule."),
    "Held-out text, checkpoints, log": ("validation.", "checkpoint.", "log."),
    "Machine": ("precision", "compile", "device", "parallel"),
}
_EMBEDDING = {
    "Texts": ("model", "input", "text", "text2", "bad-rows"),
    "Which vector": (
        *("layers", "combine", "pooling", "normalize", "prompt", "prompt-name", "truncate"),
        *("max-length", "dimensions", "whiten", "fit-whitening"),
    ),
    "Output": ("out", "dtype", "tokens", "resume", "overwrite", "json"),
    "What computes": ("precision", "backend", "exported"),
    "A picture": ("plot", "color", "projection"),
}
_SERVING = {
    "Models": ("model", "precision", "device", "load-timeout"),
    "Address and keys": ("host", "port", "api-keys", "admin-keys", "playground", "config"),
    "Batches and the queue": ("batch-tokens", "queue-tokens", "queue-requests", "deadline"),
    "Bounds of a request": ("max-body-bytes", "max-characters", "max-items", "max-tokens"),
    "Slow clients": ("header-seconds", "body-seconds", "reply-seconds", "keep-alive"),
    "Ending, failing, logs": (
        *("drain-seconds", "drain-delay", "failures", "batch-timeout", "log-requests"),
    ),
}
SECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "finetune": _LEARNING,
    "glue": _LEARNING,
    "pretrain": _PRETRAINING,
    "embed": _EMBEDDING,
    "serve": _SERVING,
}
"""Verb -> the title of each section and its options, as they are shown (`log.`: all that begin so);
a verb may lack some."""


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
        (title, [left.pop(each) for name in names for each in _meant(name, left)])
        for title, names in sections.items()
    ]
    found.append((panel.title, list(left.values())))
    return [(title, entries) for title, entries in found if entries]


def _meant(name: str, options: Iterable[str]) -> list[str]:
    """The options that a name stands for."""
    return [each for each in options if each == name or (name[-1] == "." and each.startswith(name))]


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
