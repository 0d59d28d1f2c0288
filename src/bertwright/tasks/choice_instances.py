"""A text and its choices as ids, for multiple choice.

Devlin et al. 2019, section 4.4: each choice is a sequence of its own, [CLS] A [SEP] B [SEP], where
A is the text and B what begins every choice with the choice behind it, as transformers' SWAG
example builds it. A long pair is read in windows (`windows.cut_pair`); which choice a window is of
is in `Instance.owners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import ChoiceExample, Example
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.text_instances import check_text, length_of, place, read_in_windows
from bertwright.text.tokenizer.tokenizer import Tokenizer

_AT_ONCE = 1024  # examples


def make_choice_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance an example, with the windows of all its choices.

    The tokens of an example in `Lengths` are those of its longest choice.

    Args:
        task: multiple choice.
        tokenizer: the model's.
        examples: `ChoiceExample`s.

    Raises:
        DataError: an empty text or choice, fewer than two choices, or a label that is the number
            of none; with the line.
    """
    chosen = cast(Sequence[ChoiceExample], examples)
    instances: list[Instance] = []
    lengths = Lengths()
    for begin in range(0, len(chosen), _AT_ONCE):
        part = chosen[begin : begin + _AT_ONCE]
        for number, example in enumerate(part, begin):
            _check(example, number)
        firsts = tokenizer.encode_bare_ids([example.text for example in part])
        seconds = iter(
            tokenizer.encode_bare_ids(
                [f"{e.text2} {choice}".strip() for e in part for choice in e.choices]
            )
        )
        for number, (example, first) in enumerate(zip(part, firsts, strict=True), begin):
            own = list(islice(seconds, len(example.choices)))
            read = [read_in_windows(task, tokenizer, first, second) for second in own]
            ids = tuple(window for windows, _ in read for window in windows)
            types = tuple(window for _, windows in read for window in windows)
            owners = tuple(n for n, (windows, _) in enumerate(read) for _ in windows)
            instances.append(Instance(number, ids, types, example.label, owners))
            lengths.tokens.append(max(length_of(first, second) for second in own))
            lengths.windows += len(ids)
            lengths.in_windows += len(ids) > len(own)
    lengths.examples = len(instances)
    return instances, lengths


def _check(example: ChoiceExample, number: int) -> None:
    check_text(example.text, "text", example.line, number)
    where, count = place(example.line, number), len(example.choices)
    if count < 2:
        raise DataError(f"{where}: an example with {count} choices; expected 2 or more")
    for n, choice in enumerate(example.choices):
        check_text(choice, f"choice {n}", example.line, number)
    if example.label is not None and not 0 <= example.label < count:
        raise DataError(
            f"{where}: the label is {example.label}; expected the number of a choice, 0 to "
            f"{count - 1}"
        )
