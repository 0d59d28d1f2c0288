"""The defaults of fine-tuning that depend on the encoder's specification and the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bertwright.config.finetune import FinetuneConfig
from bertwright.config.task import Layers, TaskConfig
from bertwright.labelled.examples import Example
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.objective import Objective
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.catalogue import kind_of

MOST_CHARACTERS, MOST_WORDS = 10_000_000, 300_000
"""The maximum number of characters of texts, or of words of sentences, for which baselines are
computed by default. They take about ten seconds.
"""

SMALL = 30_000_000
"""An encoder with fewer parameters than this reads a text by the mean of its last layer, and learns
at a higher rate if it has few steps."""
MANY_STEPS, MOST_TIMES = 500, 3.0
"""A small encoder with fewer steps learns at a higher rate, up to so many times."""
OF_STEPS = (
    *("batch_size", "warmup", "weight_decay", "bias_correction", "clip_norm", "dropout"),
    *("attention_dropout", "keep", "evaluations_per_epoch", "patience"),
)
"""The keys that apply only to heads that are trained in steps."""


def transfer_of(config: FinetuneConfig, spec: EncoderSpec, tasks: Sequence[TaskSpec]) -> str:
    """Return the transfer of a run: the configured one, or the one that suits the encoder.

    Frozen features are the default for encoders that were published with them
    (`spec.feature_based`), if the head of every task reads one vector of each text or word. Options
    that apply only to features, or only to a trained encoder, take precedence.
    """
    if config.transfer != "auto":
        return config.transfer
    if config.layers is not None:
        return "features"
    trains = config.language_model > 0 or config.layer_decay is not None
    of_vectors = all(kind_of(task.kind).linear for task in tasks)
    return "features" if spec.feature_based and of_vectors and not trains else "finetune"


def is_fitted(config: FinetuneConfig, tasks: Sequence[TaskSpec]) -> bool:
    """Return whether the heads are linear layers that are fitted on frozen vectors without steps.

    They are trained in steps instead if an option is set that applies to steps, or to a head that
    is not linear.
    """
    return (
        config.transfer == "features"
        and config.learning_rate == "auto"
        and config.epochs is None
        and config.network == "linear"
        and not config.hidden_size
        and not (config.layers or "").startswith("mix")
        and all(
            kind_of(task.kind).linear and kind_of(task.kind).is_linear(task.options)
            for task in tasks
        )
    )


def starts_fitted(config: FinetuneConfig, task: TaskConfig, head: Objective[Any]) -> bool:
    """Return whether a new head of a task begins as the layer that is fitted on the vectors of the
    encoder, which is then trained too.

    A head over a pooler begins at random, as it was published: the pooler's own vectors say less
    than those of tokens, and beginning from them gains nothing (experiments/finetuning).
    """
    kind = kind_of(task.kind)
    return (
        config.head_start == "fitted"
        and config.transfer != "features"
        and kind.linear
        and kind.is_linear(task.options)
        and task.head.network == "linear"
        and not task.head.hidden_size
        and not head.reads_pooled
    )


def without_effect(config: FinetuneConfig) -> list[str]:
    """Return the keys of the configuration that are set but have no effect on a fitted head."""
    usual = FinetuneConfig(config.model, config.out)
    return [key for key in OF_STEPS if getattr(config, key) != getattr(usual, key)]


def layer_of_vectors(
    config: FinetuneConfig, spec: EncoderSpec, parameters: int, task: TaskSpec, is_fitted: bool
) -> Layers | None:
    """Return the layer of which a linear head reads the vectors that `embed` computes; None: the
    head reads what the encoder was published with.

    A head that is fitted without steps reads the configured layer, or the one that `embed` reads. A
    head that is trained with a small encoder reads the last one, because a small encoder was not
    trained long enough for its first token to hold the text (experiments/finetuning).
    """
    if is_fitted:
        number = spec.default_layer % (spec.depth + 1)
        names: dict[int, Layers] = {0: "embeddings", spec.depth - 1: "second-to-last"}
        names[spec.depth] = "last"
        return config.layers or names[number]
    kind = kind_of(task.kind)
    of_texts = kind.linear and not kind.scores_tokens and kind.is_linear(task.options)
    usual = config.network == "linear" and config.pooling is None and not config.hidden_size
    begins = config.head_start == "fitted" and config.transfer != "features"
    return "last" if of_texts and usual and begins and parameters < SMALL else None


def epochs_of(config: FinetuneConfig, examples: int) -> float:
    """Return the configured number of epochs, or a default that is larger for fewer examples."""
    if config.epochs is not None:
        return config.epochs
    if config.transfer == "features":
        return float(min(30, max(10, round(60_000 / examples))))
    return float(min(20, max(3, round(20_000 / examples))))


def takes_seconds(task: TaskConfig, examples: Iterable[Example]) -> bool:
    """Return whether the baselines of a task take only seconds for its training and dev examples.

    Their time depends on the number of characters of the texts and on the number of labels, because
    they have a weight for each feature and label.
    """
    kind = kind_of(task.kind)
    if not kind.has_baselines:
        return False
    characters = sum(
        sum(map(len, filter(None, (getattr(example, name) for name in kind.inputs))))
        for example in examples
    )
    if kind.scores_tokens:
        return characters < MOST_WORDS  # its inputs are words
    pairs = 2 if task.text2_column is not None else 1
    return characters * pairs * max(1.0, len(task.labels) / 8) < MOST_CHARACTERS


def fixed_rate(config: FinetuneConfig, spec: EncoderSpec, parameters: int, steps: float) -> float:
    """Return the learning rate that suits an encoder: what `auto` means.

    It is the lowest that learns the task in the steps that there are, because a higher one spoils
    what the features know; random weights know nothing (experiments/finetuning). Recurrent encoders
    and word vectors, which have no maximum length, learn at 3e-3 in any case (Howard & Ruder 2018
    fine-tune at 4e-3 and 1e-2).

    Args:
        parameters: the number of parameters of the encoder.
        steps: the number of steps of all epochs.
    """
    rate = usual_rate(config, spec.width)
    if config.transfer == "features":
        return rate
    if spec.max_length is None:
        return 3e-3
    if parameters >= SMALL:
        return rate
    times = MOST_TIMES if config.random_start else math.sqrt(MANY_STEPS / max(1.0, steps))
    return rate * min(MOST_TIMES, max(1.0, times))


def usual_rate(config: FinetuneConfig, width: int) -> float:
    """Return the learning rate for the encoder's width; it is used if the rate is set to none."""
    if config.transfer == "features":
        return 1e-2 if config.network == "linear" else 1e-3
    return 3e-5 * 768 / width
