"""Multiple choice: a text and its choices as an instance, and the metrics.

Devlin et al. 2019, section 4.4: each choice is a sequence of its own, [CLS] A [SEP] B [SEP], where
A is the text and B what begins every choice with the choice behind it, as transformers' SWAG
example builds it. A long pair is read in windows (`text/windows.py`); which choice a window is of
is in `Instance.owners`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import ChoiceExample, Example
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
from bertwright.tasks.metrics import Metrics, calibration, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import ChoicePrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer


def make_choice_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance an example, with the windows of all its choices.

    The tokens of an example in `Lengths` are those of its longest choice. Raises `DataError` for an
    empty text or choice, with the line.
    """

    def texts_of(example: ChoiceExample) -> dict[str, str]:
        begin = f"{example.text2} " if example.text2 else ""
        read = {
            f"choice {n}": text.strip() and begin + text for n, text in enumerate(example.choices)
        }
        return {"text": example.text} | read

    chosen, framing = cast(Sequence[ChoiceExample], examples), tokenizer.framing
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example, (first, *seconds) in tokenized(tokenizer, chosen, texts_of):
        count = len(seconds)
        most = max(1, task.most_windows // count)  # of a choice
        read = [make_windows(task, framing, first, second, most) for second in seconds]
        ids = tuple(window for windows, *_ in read for window in windows)
        segments = tuple(window for _, windows, _ in read for window in windows)
        owners = tuple(n for n, (windows, *_) in enumerate(read) for _ in windows)
        instances.append(Instance(number, ids, segments, example.label, owners))
        longest = max(whole_length(framing, first, second) for second in seconds)
        lengths.add(longest, len(ids), max(lost for *_, lost in read), count)
    return instances, lengths


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
