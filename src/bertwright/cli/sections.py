"""What `--help` shows: the common options; `--help-all` the others too, in sections."""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from cyclopts import Group

_FINETUNE = {
    "Common options": "train dev data tasks model out text label transfer epochs learning-rate "
    "batch-size seeds metric baselines device config overwrite json",
    "Labelled files": "format text2 multi-label bad-rows class-weights "
    "weight name",
    "Long texts": "max-length truncate stride max-windows merge context max-answer-tokens",
    "Model": "layers network pooling hidden-size crf random-start dropout dropout-scale "
    "attention-dropout",
    "Training": "warmup layer-decay weight-decay clip-norm bias-correction precision micro-tokens",
    "Seeds and evaluation on dev": "seed keep evaluations-per-epoch patience",
}
SECTIONS: dict[str, dict[str, str]] = {
    "finetune": _FINETUNE,
    "glue": _FINETUNE,
    "pretrain": {
        "Common options": "data out model init encoder word-vectors steps minutes epochs seed "
        "instances.sequence-length instances.objectives batch.tokens optimizer.learning-rate "
        "device resume config overwrite",
        "Hardware": "precision compile parallel",
    },
    "embed": {
        "Common options": "model input out text text2 layers pooling normalize prompt max-length "
        "precision overwrite json",
        "Which vector": "combine prompt-name truncate dimensions",
        "Input and output": "bad-rows dtype resume",
        "Scatter plot": "plot color projection",
    },
    "serve": {
        "Common options": "model host port device precision api-keys config",
        "Models and keys": "load-timeout",
        "Batches and the queue": "batch-tokens queue-tokens queue-requests deadline",
        "Limits of a request": "max-body-bytes max-characters max-items max-tokens",
        "Slow clients": "header-seconds body-seconds reply-seconds keep-alive",
        "Shutdown, failures, log": "drain-seconds failures batch-timeout log-requests",
    },
}
"""Verb -> the title of each section and its options; `--help` shows the first. Options that stand
in none follow by the part before their dot. A verb that is not here shows all it has."""


def options_of(verb: str, everything: bool) -> Group:
    """The group of a verb's options, which knows how to show them."""

    def show(console: Any, options: Any, panel: Any) -> None:
        from cyclopts.help import DefaultFormatter

        sections = _split(panel.entries, verb)
        titles = list(sections) if everything or verb not in SECTIONS else [*sections][:1]
        for title in titles:
            shown = copy(panel)
            shown.title, shown.entries = title, sections[title]
            DefaultFormatter()(console, options, shown)
        if hidden := len(panel.entries) - sum(len(sections[title]) for title in titles):
            console.print(f"{hidden} more options: bertwright {verb} --help-all\n")

    return Group("Parameters", help_formatter=show)


def _split(entries: Any, verb: str) -> dict[str, list[Any]]:
    """The entries of a panel by section, without the empty ones; texts in lines of the console."""
    titles = {
        f"--{name}": t for t, names in SECTIONS.get(verb, {}).items() for name in names.split()
    }
    order = {name: index for index, name in enumerate(titles)}
    sections: dict[str, list[Any]] = {title: [] for title in dict.fromkeys(titles.values())}
    for entry in sorted(entries, key=lambda e: order.get(e.positive_names[0], len(order))):
        name = entry.positive_names[0]
        part = name[2:].partition(".")[0].replace("-", " ") if "." in name else "parameters"
        sections.setdefault(titles.get(name, part.capitalize()), []).append(entry)
        if text := getattr(entry.description, "primary_renderable", None):
            text.plain = re.sub(r"\s*\n\s*", " ", text.plain)
        if entry.default == "()":  # a list without a word is no default to show
            entry.default = None
    return {title: listed for title, listed in sections.items() if listed}
