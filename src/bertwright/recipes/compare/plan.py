"""Plan a comparison: its rungs, its steps, their maximum time, and the disk space they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.errors import ConfigError, MissingExtra
from bertwright.inference.word_vectors.evaluate import read_word_test
from bertwright.models.catalogue import trainable
from bertwright.models.load import load
from bertwright.recipes.compare.measure import seconds_of_pairs
from bertwright.recipes.compare.rungs import NO_RUNGS, RUNGS, SAME, Rung
from bertwright.recipes.compare.use import WAYS, Way
from bertwright.tasks.catalogue import KINDS, kind_of

WORD_KERNELS = ("word2vec", "fasttext", "glove")
"""The systems whose training needs the extra `words`."""
BYTES_A_CHARACTER = 4
"""The disk space for each byte of the corpus: the text is written twice, and its ids in two
vocabularies.
"""
NOT_NAMED = "not among --systems"
"""The reason of systems that the user left out, which need not be reported."""
OVERHEAD = 15.0
"""The seconds that pre-training takes in addition to its minutes, and that a measurement takes."""


@dataclass(frozen=True)
class Step:
    """A part of a comparison, which is done once."""

    name: str
    """The name in the folder `stages` and in `--json`."""
    rung: str
    """The name of its rung; empty: it is for all rungs."""
    what: str
    """A description for users."""
    seconds: float
    """The maximum time."""


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison."""

    rungs: list[Rung]
    left_out: dict[str, str]
    """The reason for each system that is not compared."""
    steps: list[Step]
    bytes_needed: int
    ways: tuple[Way, ...] = ()
    """The ways in which the task is fitted."""
    warnings: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The maximum time of all steps."""
        return sum(step.seconds for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        found: dict[str, Any] = values.to_dict(self)
        found["rungs"] = [rung.name for rung in self.rungs]
        return {**found, "seconds": self.seconds}


def choose(config: CompareConfig, kind: str | None) -> tuple[list[Rung], dict[str, str]]:
    """Return the rungs of a comparison, in the order of the papers, and the reason for each system
    that is left out.

    Raises:
        ConfigError: a name is not that of a rung, the task or the files do not allow a rung that
            was named, or no rung is left.
        MissingExtra: a rung that was named needs a package that is not installed.
    """
    named = [SAME.get(name, name) for name in config.names_of_systems]
    for name in named:
        if name in NO_RUNGS:
            raise ConfigError(f"--systems names {name}: {NO_RUNGS[name]}")
        if name not in RUNGS:
            near = values.nearest(name, RUNGS)
            meant = f"; did you mean {near}?" if near else ""
            raise ConfigError(f"no system {name!r}; expected {', '.join(RUNGS)}{meant}")
    reasons = {name: reason for name, reason in NO_RUNGS.items() if not named}
    for rung in RUNGS.values():
        if named and rung.name not in named:
            reasons[rung.name] = NOT_NAMED
            continue
        reason = _reason(rung, config, kind)
        missing = rung.system in WORD_KERNELS and find_spec("numba") is None
        if rung.name in named and missing:
            raise MissingExtra("words", "numba", f"training {rung.title}")
        if rung.name in named and reason:
            raise ConfigError(f"--systems names {rung.name}: {reason}")
        if missing:
            reason = 'its training needs numba: pip install "bertwright[words]"'
        if reason:
            reasons[rung.name] = reason
    rungs = [rung for rung in RUNGS.values() if rung.name not in reasons]
    names = {rung.name for rung in rungs}
    for rung in [rung for rung in rungs if {rung.needs, rung.is_that_of} - {""} - names]:
        other = RUNGS[rung.needs or rung.is_that_of].title
        if rung.name in named:
            raise ConfigError(
                f"--systems names {rung.name}, which reads the run of {other}: name "
                f"{rung.needs or rung.is_that_of} too"
            )
        reasons[rung.name] = f"it reads the run of {other}, which is left out"
        rungs.remove(rung)
    if not rungs:
        raise ConfigError(f"no system is left to compare: {reasons}")
    return rungs, reasons


def _reason(rung: Rung, config: CompareConfig, kind: str | None) -> str:
    """Return the reason why the files or the task do not allow a rung; empty if they do."""
    if rung.reads_pairs and not config.parallel:
        return "it is trained on translations: --parallel SOURCE TARGET"
    if rung.reads_pairs and kind is None and not config.word_tests:
        return "it is no language model, and there is no task: --train LABELLED"
    if rung.of_words and (kind is None or not KINDS[kind].of_words):
        kinds = [name for name, entry in KINDS.items() if entry.of_words]
        return f"it is for tasks of the kind {', '.join(kinds)}"
    if kind is not None and kind_of(kind).generates and rung.vectors and not rung.writes:
        return "it has no head that writes text after another text"
    return ""


def make_plan(
    config: CompareConfig,
    kind: str | None,
    characters: int,
    done: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Return the plan of a comparison, without the steps that are `done`.

    Args:
        config: the settings of the comparison.
        kind: the kind of the task; None: there is no task.
        characters: the size of the corpus in bytes.
        done: returns whether the step of a name is done.

    Raises:
        ConfigError, MissingExtra: as for `choose`.
        DataError: a table of minimal pairs or a word test cannot be read.
    """
    for path in config.word_tests:
        read_word_test(path)
    rungs, left_out = choose(config, kind)
    ways: tuple[Way, ...] = ()
    if kind is not None:
        ways = ("tuned", "random") if kind_of(kind).generates else tuple(WAYS)
    steps = [step for step in _steps(config, rungs, ways, characters) if not done(step.name)]
    sizes = [_bytes(rung, config) for rung in rungs if not rung.is_that_of]
    kept = 3 + (2 if ways else 0)  # the weights and the optimizer's moments; for fits the weights
    needed = BYTES_A_CHARACTER * characters + sum(kept * size for size in sizes) * config.seeds
    warnings = []
    if config.tokens is not None:
        warnings.append("with --tokens the time is not known: shown is that of --minutes")
    return Plan(rungs, left_out, steps, needed, ways, warnings)


def data_of(rungs: Sequence[Rung]) -> list[str]:
    """Return the names of the shards that the rungs read."""
    return list(dict.fromkeys(rung.data for rung in rungs))


def _steps(
    config: CompareConfig, rungs: Sequence[Rung], ways: Sequence[Way], characters: int
) -> list[Step]:
    reading = 2 + characters / 2e6
    steps = [
        Step("text", "", "Reading the corpus", reading),
        Step("vocabulary", "", "Training the vocabularies", 10 + reading),
    ]
    steps += [
        Step(f"shards/{data}", "", f"Writing shards of {data}", 1 + reading)
        for data in data_of(rungs)
    ]
    if ways:
        steps += [
            Step(f"baselines/{fraction:g}-{seed}", "", "Baselines", 5.0)
            for fraction in config.sorted_fractions
            for seed in config.seeds_of_fits
        ]
    pairs = {
        scores: OVERHEAD + seconds_of_pairs(config.pairs, scores == "masked")
        for scores in {rung.scores for rung in rungs} - {""}
    }
    for rung in rungs:
        for seed in config.seeds_of_fits:
            if seed in config.seeds_of_training:
                steps += _steps_of_training(config, rung, seed, pairs.get(rung.scores, 0.0), ways)
            steps += _fits_of(config, rung, seed, ways)
    return steps


def _step(rung: Rung, seed: int, what: str, shown: str, seconds: float) -> Step:
    return Step(f"{rung.name}-{seed}/{what}", rung.name, f"{rung.title}: {shown}", seconds)


def _steps_of_training(
    config: CompareConfig, rung: Rung, seed: int, scoring: float, ways: Sequence[Way]
) -> list[Step]:
    """Return the steps that pre-train a rung and measure what it has learned."""
    step = partial(_step, rung, seed)
    steps = []
    if not rung.is_that_of:
        steps.append(step("pretrain", "pre-training", 60 * config.minutes_each + OVERHEAD))
    if rung.scores:
        steps.append(step("text", "held-out text", OVERHEAD))
        steps.append(step("pairs", "minimal pairs", scoring))
    if rung.vectors and not rung.is_that_of:
        if config.word_tests:
            steps.append(step("words", "word tests", OVERHEAD))
        steps.append(step("senses", "senses of words", OVERHEAD))
    if ways and rung.vectors:
        steps.append(step("speed", "a trial of fine-tuning", OVERHEAD / 3))
    return steps


def _fits_of(config: CompareConfig, rung: Rung, seed: int, ways: Sequence[Way]) -> list[Step]:
    """Return the steps that fit the task with a rung.

    A linear layer on frozen features is fitted once for each pre-training, because all seeds give
    the same layer, unless they draw the examples of a fraction.
    """
    again = seed not in config.seeds_of_training
    return [
        _step(rung, seed, f"{way}-{fraction:g}", WAYS[way], 60 * config.minutes_of_fit + OVERHEAD)
        for way in ways
        if rung.vectors and (rung.tuned or way == "frozen")
        for fraction in config.sorted_fractions
        if not (again and way == "frozen" and rung.network == "linear" and fraction == 1)
    ]


def _bytes(rung: Rung, config: CompareConfig) -> int:
    """Return the size of a rung's model on disk in bytes, in float32."""
    size = config.word_vocab_size if rung.data.startswith("word") else config.vocab_size
    if rung.data.startswith("wordpiece"):
        size = config.vocab_size
    keys = values.merge(rung.settings, {"data": "", "out": "", "model": rung.model})
    run = values.from_dict(trainable()[rung.system], keys)
    system = load(rung.system)
    with torch.device("meta"):
        learner = system.make_learner(run.model_config(size), system.heads(run))
    tensors = [*learner.parameters(), *learner.buffers()]
    return sum(4 * tensor.numel() for tensor in tensors)
