"""What a comparison will do: its rungs, its steps, their time at most, and the disk they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import torch

from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.errors import ConfigError, MissingExtra
from bertwright.inference.word_vectors.evaluate import read_word_test
from bertwright.models.catalogue import MODELS
from bertwright.recipes.compare.measure import seconds_of_pairs
from bertwright.recipes.compare.rungs import NO_RUNGS, RUNGS, SAME, Rung
from bertwright.recipes.compare.use import WAYS, Way
from bertwright.tasks.catalogue import KINDS, kind_of

WORD_KERNELS = ("word2vec", "fasttext", "glove")
"""Systems whose training needs the extra `words`."""
BYTES_A_CHARACTER = 4
"""Of the text on disk: itself twice, and its ids in two vocabularies."""
NOT_NAMED = "not among --systems"
"""Why a system is left out that the user left out; it need not be said."""
OVERHEAD = 15.0
"""Seconds that a pre-training takes beside its minutes, and that measures take."""


@dataclass(frozen=True)
class Step:
    """A part of the work that is done once."""

    name: str
    """Its name in the folder `stages`, and in `--json`."""
    rung: str
    """The rung it is for; empty: for all."""
    what: str
    """What is done, for readers."""
    seconds: float
    """How long it takes, at most."""


@dataclass(frozen=True)
class Plan:
    """What a comparison will do."""

    rungs: list[Rung]
    left_out: dict[str, str]
    """Systems that are not compared, and why."""
    steps: list[Step]
    bytes_needed: int
    ways: tuple[Way, ...] = ()
    """The ways in which the task is fitted."""
    warnings: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all steps, at most."""
        return sum(step.seconds for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        found: dict[str, Any] = values.to_dict(self)
        found["rungs"] = [rung.name for rung in self.rungs]
        return {**found, "seconds": self.seconds}


def choose(config: CompareConfig, kind: str | None) -> tuple[list[Rung], dict[str, str]]:
    """Return the rungs of a comparison, in the order of the papers, and the systems that are left
    out, each with its reason.

    Raises:
        ConfigError: a name of no rung, or one that the task or the files do not allow.
        MissingExtra: a rung that was named needs a package that is not installed.
    """
    named = [SAME.get(name, name) for name in config.systems]
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
    """Why the files and the task do not allow a rung; empty: they do."""
    if rung.reads_pairs and not config.parallel:
        return "it is trained on translations: --parallel SOURCE TARGET"
    if rung.reads_pairs and kind is None and not config.word_tests:
        return "it is no language model, and there is no task: --train LABELLED"
    if rung.of_words and (kind is None or not KINDS[kind].of_words):
        kinds = [name for name, entry in KINDS.items() if entry.of_words]
        return f"it is for tasks of the kind {', '.join(kinds)}"
    writes = rung.system in ("bert", "gpt2", "openai-gpt", "bert-ltr")
    if kind is not None and kind_of(kind).generates and rung.vectors and not writes:
        return "it has no head that writes text after another text"
    return ""


def make_plan(
    config: CompareConfig,
    kind: str | None,
    characters: int,
    done: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """Return the plan of a comparison; steps that are `done` are not in it.

    Args:
        kind: of the task; None: there is none.
        characters: bytes of the corpus.

    Raises:
        ConfigError, MissingExtra: as `choose`.
        DataError: a table of minimal pairs or a test of words that cannot be read.
    """
    for path in config.word_tests:
        read_word_test(path)
    rungs, left_out = choose(config, kind)
    ways: tuple[Way, ...] = ()
    if kind is not None:
        ways = ("tuned", "random") if kind_of(kind).generates else tuple(WAYS)
    steps = [step for step in _steps(config, rungs, ways, characters) if not done(step.name)]
    sizes = [_bytes(rung, config) for rung in rungs if not rung.is_that_of]
    kept = 3 + (2 if ways else 0)  # weights and moments of the optimizer; of fits the weights
    needed = BYTES_A_CHARACTER * characters + sum(kept * size for size in sizes) * config.seeds
    warnings = []
    if config.tokens is not None:
        warnings.append("with --tokens the time is not known: shown is that of --minutes")
    return Plan(rungs, left_out, steps, needed, ways, warnings)


def data_of(rungs: Sequence[Rung]) -> list[str]:
    """Return the shards that rungs read."""
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
            for seed in seeds_of(config)
        ]
    pairs = {
        scores: OVERHEAD + seconds_of_pairs(config.pairs, scores == "masked")
        for scores in {rung.scores for rung in rungs} - {""}
    }
    for rung in rungs:
        for seed in seeds_of(config):
            steps += _steps_of(config, rung, seed, ways, pairs.get(rung.scores, 0.0))
    return steps


def seeds_of(config: CompareConfig) -> range:
    """Return the seeds of a comparison."""
    return range(config.seed, config.seed + config.seeds)


def _steps_of(
    config: CompareConfig, rung: Rung, seed: int, ways: Sequence[Way], scoring: float
) -> list[Step]:
    name = f"{rung.name}-{seed}"

    def step(what: str, shown: str, seconds: float) -> Step:
        return Step(f"{name}/{what}", rung.name, f"{rung.title}: {shown}", seconds)

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
    fitting = 60 * config.minutes_of_fit + OVERHEAD
    if ways and rung.vectors:
        steps.append(step("speed", "a trial of fine-tuning", OVERHEAD / 3))
        steps += [
            step(f"{way}-{fraction:g}", WAYS[way], fitting)
            for way in ways
            if rung.tuned or way == "frozen"
            for fraction in config.sorted_fractions
        ]
    return steps


def _bytes(rung: Rung, config: CompareConfig) -> int:
    """What a model of a rung takes on disk, in float32."""
    entry = MODELS[rung.system]
    assert entry.run is not None
    size = config.word_vocab_size if rung.data.startswith("word") else config.vocab_size
    if rung.data.startswith("wordpiece"):
        size = config.vocab_size
    run = values.from_dict(
        entry.run, values.merge(rung.settings, {"data": "", "out": "", "model": rung.model})
    )
    system = entry.load()
    with torch.device("meta"):
        learner = system.make_learner(run.model_config(size), system.heads(run))
    tensors = [*learner.parameters(), *learner.buffers()]
    return sum(4 * tensor.numel() for tensor in tensors)
