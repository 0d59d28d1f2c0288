"""Commands to run instead of one that failed, which the message of its error suggests.

An error may name the right value in place of a wrong one, or options that make a labelled file
readable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

LABELLED = ("finetune", "evaluate", "evaluate-vectors", "predict")
"""Verbs that have the options of labelled files."""
OF_PAIRS = (["data", "build"], ["tokenizer", "train"])
"""Verbs that have the options of files of pairs."""


def with_value(words: Sequence[str], wrong: str, right: str) -> str:
    """Return the command with the value `wrong` replaced by `right`.

    The value may also be given as `--option=wrong` or `NAME=wrong`. The result is empty if it is
    not on the command line, for instance because it came from a file.
    """
    pattern = rf"(^|=){re.escape(wrong)}$"
    changed = [re.sub(pattern, lambda match: match[1] + right, word) for word in words]
    return "" if changed == list(words) else shlex.join(["bertwright", *changed])


def with_options(words: Sequence[str], options: Sequence[str]) -> str:
    """Return the command with these options in place of its own options of the same names.

    The result is empty for a verb that does not have the options of labelled files or of files of
    pairs.
    """
    of_pairs = [*words[:2]] in OF_PAIRS and "--source" in options
    if not options or not words or not (of_pairs or words[0] in LABELLED):
        return ""
    added, given = _by_option(options), _by_option(words)
    if [*words[:2]] == ["data", "build"] and "--parallel" not in words:
        added.append(("--parallel", []))
    names = {name for name, _ in added if name != "--label" or words[0] != "predict"}
    return _joined(
        [option for option in given if option[0] not in names]
        + [option for option in added if option[0] in names]
    )


def _joined(options: Sequence[tuple[str, list[str]]]) -> str:
    """Return the command that consists of a verb and its options."""
    return shlex.join(
        ["bertwright", *(word for name, values in options for word in (name, *values))]
    )


def _by_option(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the options of a command line, each with the words that follow it.

    The first entry is the verb.
    """
    options: list[tuple[str, list[str]]] = []
    for word in words:
        name, sign, value = word.partition("=")
        is_option = len(word) > 2 and word.startswith("--")
        if is_option and sign:
            options.append((name, [value]))
        elif is_option or not options:
            options.append((word, []))
        else:
            options[-1][1].append(word)
    return options
