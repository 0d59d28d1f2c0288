"""The pages of the command line and of its files: every verb, every option, every key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import getdoc
from typing import Any

from bertwright.cli.app import VERBS
from bertwright.cli.examples import examples
from bertwright.models.catalogue import MODELS, trainable
from docs.generator.options import Option, command_of, options_of, variants

FOLDER = "reference/verbs"
"""The folder of the site with the pages of the verbs."""
SIZES = "architecture"
"""The section whose keys are the sizes of a model, which each system has of its own."""
KEY_COLUMNS = ("key", "type", "default", "meaning")


@dataclass(frozen=True)
class Entry:
    """An option of a verb over all its variants, such as the systems of `pretrain`."""

    option: Option
    defaults: Mapping[str | None, list[str]]
    """Default -> the variants that have it."""
    only: tuple[str, ...] = ()
    """The variants that have the option, unless all have."""

    @property
    def default(self) -> str:
        """The default as Markdown: the most frequent one, and those of the other variants."""
        usual, *others = sorted(self.defaults, key=lambda each: -len(self.defaults[each]))
        if usual is None:
            return "required"
        first = f"`{usual}`" if usual != "none" else "unset"
        return "; ".join(
            [first, *(f"`{each}` for {', '.join(self.defaults[each])}" for each in others)]
        )


def entries(verb: Sequence[str]) -> list[Entry]:
    """Return the options of a verb, each once; the sizes of models are left out."""
    several = variants().get(" ".join(verb))
    if several is None:
        return [Entry(option, {option.default: []}) for option in options_of(verb)]
    found: dict[Option, dict[str | None, list[str]]] = {}
    for name, words in several.items():
        for option in options_of(verb, words):
            if option.section != SIZES:
                defaults = found.setdefault(replace(option, default=None), {})
                defaults.setdefault(option.default, []).append(name)
    merged = []
    for option, defaults in found.items():
        having = [name for names in defaults.values() for name in names]
        only = () if len(having) == len(several) else tuple(filter(having.__contains__, several))
        merged.append(Entry(option, defaults, only))
    return merged


def verb_page(command: str) -> str:
    """Return the page of a verb: what it does, examples, and every option."""
    verb = command.split()
    function = command_of(verb).default_command
    text = (getdoc(function) or "").partition("\n\nArgs:")[0]
    lines = [f"# {command}", "", _escaped(text), "", "```bash", *examples(command), "```", ""]
    lines += [f"```{{program}} bertwright {command}\n```", ""]
    for title, some in by_section(entries(verb)).items():
        lines += [f"## {title}", ""]
        for each in some:
            lines += [*_directive(each), ""]
    if command == "pretrain":
        lines += [
            "## Sizes of the model",
            "",
            "`--architecture.KEY` replaces a size of the preset. [The keys of each "
            "system](../configuration.md#sizes-and-presets) are those of its files.",
            "",
        ]
    return "\n".join(lines)


def by_section(some: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Return entries by the title of their section: arguments, options, then by section."""
    found: dict[str, list[Entry]] = {}
    for each in some:
        section = each.option.section
        title = f"Options of {section}" if section else "Options"
        found.setdefault("Arguments" if each.option.positional else title, []).append(each)
    return found


def shown_names(option: Option) -> tuple[str, ...]:
    """Return the names of an option as a reader writes them; a positional argument in capitals."""
    if option.positional:
        return (option.names[0].lstrip("-").upper(),)
    return option.names


def _directive(entry: Entry) -> list[str]:
    """Return an option as a directive of Sphinx, which search and links find."""
    option = entry.option
    kind = option.type.removesuffix(" | none").replace(", ", ",")  # a comma and a blank part names
    kind = "" if kind == "bool" or option.positional else f" <{kind}>"
    names = ", ".join(f"{name}{kind}" for name in shown_names(option))
    facts = f"Default: {entry.default}." if entry.default != "required" else "Required."
    if option.positional and option.type.startswith("{"):
        facts += f" One of: {option.type.strip('{}')}."
    if entry.only:
        facts += f" Only for: {', '.join(entry.only)}."
    if option.type == "bool" and entry.defaults.keys() == {"False"}:
        facts = facts.removeprefix("Default: `False`.").strip()
    return [f"````{{option}} {names}", _escaped(option.help), "", facts, "````"]


def list_of_verbs() -> str:
    """Return the table of the verbs with links to their pages, which belong to this page."""
    rows = [(f"[{verb}](verbs/{_file(verb)}.md)", line) for verb, (_, line) in VERBS.items()]
    names = [f"verbs/{_file(verb)}" for verb in VERBS]
    return "\n".join(
        [*table(("verb", "what it does"), rows), "", "```{toctree}", ":hidden:", "", *names, "```"]
    )


def pages() -> dict[str, str]:
    """Return the page of each verb by its path in the site."""
    return {f"{FOLDER}/{_file(verb)}.md": verb_page(verb) for verb in VERBS}


def _file(verb: str) -> str:
    return verb.replace(" ", "-")


def configuration() -> str:
    """Return the keys of the files that `--config` takes, verb by verb, and the sizes of models."""
    lines: list[str] = []
    for command in VERBS:
        some = entries(command.split())
        if not any(each.option.names[0] == "--config" for each in some):
            continue
        lines += [f"## Files of {command}", ""]
        keys = [each for each in some if each.option.names[0] != "--config"]
        sections: dict[str, list[Entry]] = {}
        for each in keys:
            sections.setdefault(each.option.section, []).append(each)
        for section, keys_of_section in sections.items():
            if section:
                lines += [f"`[{section}]`", ""]
            lines += [
                *table(KEY_COLUMNS, map(_key_row, keys_of_section)),
                "",
            ]
    return "\n".join([*lines, "## Sizes and presets", "", *sizes()])


def _key_row(entry: Entry) -> tuple[str, ...]:
    """Return the row of a key in the table of its section."""
    option = entry.option
    meaning = _escaped(option.help)
    if entry.only:
        meaning += f" Only for: {', '.join(entry.only)}."
    return f"`{option.key.rpartition('.')[2]}`", f"`{option.type}`", entry.default, meaning


def sizes() -> list[str]:
    """Return the keys of `[architecture]` of each system, and the sizes of its presets."""
    lines = [
        "The section `[architecture]` of a file for `pretrain`; on the command line "
        "`--architecture.KEY`. The defaults are those of the first preset.",
        "",
    ]
    for system in trainable():
        presets = MODELS[system].presets
        words = variants()["pretrain"][system]
        keys = [each for each in options_of(["pretrain"], words) if each.section == SIZES]
        rows = [_key_row(Entry(each, {each.default: []})) for each in keys]
        lines += [f"### {system}", "", *table(KEY_COLUMNS, rows), ""]
        values: Mapping[str, Mapping[str, Any]] = {k: asdict(v) for k, v in presets.items()}
        first = next(iter(values.values()))
        differ = [key for key in first if len({str(each[key]) for each in values.values()}) > 1]
        if differ:
            head = ("preset", *(f"`{key}`" for key in differ))
            of_presets = [(f"`{k}`", *(str(v[key]) for key in differ)) for k, v in values.items()]
            lines += [*table(head, of_presets), ""]
        else:
            lines += [f"Presets: {', '.join(f'`{name}`' for name in presets)}.", ""]
    return lines


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines]


def _escaped(text: str) -> str:
    """Return a plain text of `--help` as Markdown: `<` and `*` are no markup in it, and options
    are code.
    """
    parts = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(parts), 2):
        escaped = re.sub(r"([<>*_\[\]])", r"\\\1", parts[index])
        parts[index] = re.sub(r"(?<![\w-])--[a-z][\w.-]*[a-z]", r"`\g<0>`", escaped)
    return "".join(parts)
