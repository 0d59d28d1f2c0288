"""Multiple choice: a text and its choices as an instance, and the metrics.

Devlin et al. 2019, section 4.4: each choice is a sequence of its own, [CLS] A [SEP] B [SEP], where
A is the text and B what begins every choice with the choice behind it, as transformers' SWAG
example builds it. A long pair is read in windows (`text/windows.py`); which choice a window is of
is in `Instance.owners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import ChoiceExample, Example
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    check_text,
    in_parts,
    in_words,
    make_windows,
    whole_length,
)
from bertwright.tasks.metrics import Metrics, calibration, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import ChoicePrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer


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
    framing = tokenizer.framing
    instances: list[Instance] = []
    lengths = Lengths()
    for begin, end in in_parts(len(e.text) + sum(map(len, e.choices)) for e in chosen):
        part = chosen[begin:end]
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
            most = max(1, task.most_windows // max(1, len(own)))  # of a choice
            read = [make_windows(task, framing, first, second, most) for second in own]
            ids = tuple(window for windows, *_ in read for window in windows)
            segments = tuple(window for _, windows, _ in read for window in windows)
            owners = tuple(n for n, (windows, *_) in enumerate(read) for _ in windows)
            instances.append(Instance(number, ids, segments, example.label, owners))
            lengths.tokens.append(max(whole_length(framing, first, second) for second in own))
            lengths.windows += len(ids)
            lengths.in_windows += len(ids) > len(own)
            lengths.cut += any(lost for *_, lost in read)
            lengths.tokens_cut += max(lost for *_, lost in read)
    lengths.examples = len(instances)
    return instances, lengths


def _check(example: ChoiceExample, number: int) -> None:
    check_text(example.text, "text", example.line, number)
    where, count = in_words(example.line, number), len(example.choices)
    if count < 2:
        raise DataError(f"{where}: an example with {count} choices; expected 2 or more")
    for n, choice in enumerate(example.choices):
        check_text(choice, f"choice {n}", example.line, number)
    if example.label is not None and not 0 <= example.label < count:
        raise DataError(
            f"{where}: the label is {example.label}; expected the number of a choice, 0 to "
            f"{count - 1}"
        )


def choice_metrics(
    task: TaskConfig, examples: Sequence[ChoiceExample], predictions: Sequence[ChoicePrediction]
) -> Metrics:
    """The number of a choice."""
    gold = np.array([e.label for e in examples], dtype=np.int64)
    predicted = np.array([p.choice for p in predictions], dtype=np.int64)
    confidence = np.array([p.scores[p.choice] for p in predictions])
    right = np.stack([gold == predicted, np.ones(len(gold))], axis=1)
    return Metrics(
        main="accuracy",
        statistic=of_sums(right, lambda sums: {"accuracy": ratio(sums[:, 0], sums[:, 1])}),
        errors={int(row): float(confidence[row]) for row in np.flatnonzero(gold != predicted)},
        describe=lambda row: (
            examples[row].choices[gold[row]],
            examples[row].choices[predicted[row]],
        ),
        degenerate=only_prediction(gold.tolist(), predicted.tolist(), lambda n: f"choice {n + 1}"),
        calibration=calibration(confidence, gold == predicted),
    )
