"""What `--help` shows: the list of verbs, and the common options of a verb.

`--help-all` shows all options of a verb, in sections.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from cyclopts import Group

from bertwright.cli.variants import Variant

_FINETUNE = (
    "train dev data tasks model out text label transfer epochs learning-rate batch-size seeds "
    "metric baselines device config overwrite json"
)
COMMON = {
    "compare": "train dev test kind text label out systems minutes task-minutes seeds "
    "fractions parallel pairs word-tests preset dry-run overwrite json",
    "finetune": _FINETUNE,
    "glue": _FINETUNE,
    "pretrain": "data out model init encoder word-vectors steps minutes epochs seed "
    "instances.sequence-length instances.objectives batch.tokens optimizer.learning-rate device "
    "resume config overwrite",
    "embed": "model input out text text2 layers pooling normalize prompt max-length precision "
    "overwrite json",
    "whiten": "model input out text text2 layers pooling dimensions prompt max-length precision "
    "overwrite json",
    "plot": "model input out color projection text text2 layers pooling normalize prompt "
    "max-length precision overwrite json",
    "serve": "model host port device precision api-keys config",
}
"""Verb -> the options that `--help` shows; a verb that is not here shows all its options. The other
options are put in sections by the part of their name before the dot."""
VERB_WIDTH = 16
"""Width of the column of verbs, which is the same in all sections of their list."""


def verb_section(title: str, position: int) -> Group:
    """Return a section of the list of verbs, which prints one verb per line, without a frame."""

    def show(console: Any, options: Any, panel: Any) -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", min_width=VERB_WIDTH, no_wrap=True)
        table.add_column()
        for entry in panel.entries:
            table.add_row(entry.positive_names[0], entry.description)
        console.print(Text(title, style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))

    return Group(title, sort_key=position, help_formatter=show)


def options_of(verb: str, everything: bool, variant: Variant) -> Group:
    """Return the group of a verb's options, which formats their help.

    With `everything` it shows all options, not the common ones alone.
    """

    def show(console: Any, options: Any, panel: Any) -> None:
        from cyclopts.help import DefaultFormatter

        entries = [entry for entry in panel.entries if variant.has_option(_key(entry))]
        for entry in entries:
            if (value := variant.defaults.get(_key(entry))) is not None:
                entry.default = str(value)
            if text := variant.texts.get(_key(entry)):
                entry.description.primary_renderable.plain = text
        sections = _split(entries, verb, variant.section)
        titles = list(sections)
        if not everything and verb in COMMON:
            always = ["Arguments", "Common options"]
            always += [variant.section[0].capitalize()] if variant.section else []
            titles = [title for title in always if title in sections]
        for title in titles:
            shown = copy(panel)
            shown.title, shown.entries = title, sections[title]
            DefaultFormatter()(console, options, shown)
        if hidden := len(entries) - sum(len(sections[title]) for title in titles):
            console.print(f"{hidden} more options: bertwright {verb} --help-all\n")

    return Group("Parameters", help_formatter=show)


def _key(entry: Any) -> str:
    """Return the key of an option: `--optimizer.learning-rate` -> `optimizer.learning_rate`."""
    return str(entry.positive_names[0]).removeprefix("--").replace("-", "_")


def _split(entries: Any, verb: str, own: tuple[str, list[str]] | None) -> dict[str, list[Any]]:
    """Return the entries of a panel by section, with the line breaks in their texts removed."""
    common = [f"--{name}" for name in COMMON.get(verb, "").split()]
    sections: dict[str, list[Any]] = {"Arguments": [], "Common options": []}
    for entry in entries:
        name = entry.positive_names[0]
        part = name[2:].partition(".")[0].replace("-", " ") if "." in name else "parameters"
        part = own[0] if own and _key(entry) in own[1] else part
        title = "Common options" if name in common else part.capitalize()
        if entry.positional_label:  # cyclopts would list its name as an option too: SRC --SRC
            title, entry.positive_names = "Arguments", ()
        sections.setdefault(title, []).append(entry)
        if text := getattr(entry.description, "primary_renderable", None):
            text.plain = re.sub(r"\s*\n\s*", " ", text.plain)
        if entry.default == "()":  # an empty list is not worth showing as a default
            entry.default = None
    return {title: entries for title, entries in sections.items() if entries}
