"""Plan a comparison: its rungs, its steps, their maximum time, and the disk space they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.errors import ConfigError, MissingExtra
from bertwright.inference.word_vectors.evaluate import read_word_test
from bertwright.models.catalogue import make_run, trainable
from bertwright.models.load import load
from bertwright.recipes.compare.fit import Baselines, Fit
from bertwright.recipes.compare.rungs import NO_RUNGS, RUNGS, SAME, Rung
from bertwright.recipes.compare.steps import Comparison, Step
from bertwright.recipes.compare.text import TrainVocabularies, WriteShards, WriteText
from bertwright.recipes.compare.train import Pretrain
from bertwright.rows.open import size_on_disk
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.text.corpus.find import find_files

WORD_KERNELS = ("word2vec", "fasttext", "glove")
"""The systems whose training needs the extra `words`."""
BYTES_A_CHARACTER = 4
"""The disk space for each byte of the corpus: the text is written twice, and its ids in two
vocabularies.
"""
NOT_NAMED = "not among --systems"
"""The reason of systems that the user left out, which need not be reported."""


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison."""

    rungs: list[Rung]
    left_out: dict[str, str]
    """The reason for each system that is not compared."""
    steps: list[Step]
    """All steps in their order."""
    todo: list[tuple[Step, float]]
    """The steps that are not done yet, with their maximum seconds."""
    bytes_needed: int
    warnings: list[str]

    @property
    def seconds(self) -> float:
        """The maximum time of all steps that are not done yet."""
        return sum(seconds for _, seconds in self.todo)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        steps = [
            {"name": step.name, "system": step.system, "what": step.what, "seconds": seconds}
            for step, seconds in self.todo
        ]
        return {
            "systems": [rung.name for rung in self.rungs],
            "left_out": self.left_out,
            "steps": steps,
            "seconds": self.seconds,
            "bytes_needed": self.bytes_needed,
            "warnings": self.warnings,
        }


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


def make_plan(of: Comparison, afresh: bool = False) -> Plan:
    """Return the plan of a comparison; if `afresh`, no step counts as done.

    Raises:
        ConfigError, MissingExtra: as for `choose`.
        DataError: a table of minimal pairs or a word test cannot be read.
        IntegrityError: a file that the comparison wrote was changed.
    """
    config = of.config
    for path in config.word_tests:
        read_word_test(path)
    rungs, left_out = choose(config, None if of.labelled is None else of.labelled.task.kind)
    shared, own = list(_shared_steps(of, rungs)), list(_steps_of_systems(of, rungs))
    todo = [(step, step.seconds(of)) for step in (*shared, *own) if afresh or of.done(step) is None]
    if not afresh:
        for step in shared:
            of.finished.verify(step.name)
    characters = size_on_disk(find_files(of.inputs)) or 0
    kept = 3 + 2 * (of.labelled is not None)  # weights and moments of AdamW; the weights of fits
    sizes = [_bytes(rung, config) for rung in rungs if not rung.is_that_of]
    needed = BYTES_A_CHARACTER * characters + sum(kept * size for size in sizes) * config.seeds
    warnings = []
    if config.tokens is not None:
        warnings.append("with --tokens the time is not known: shown is that of --minutes")
    return Plan(rungs, left_out, [*shared, *own], todo, needed, warnings)


def _shared_steps(of: Comparison, rungs: Sequence[Rung]) -> Iterator[Step]:
    """Yield the steps that are for all systems."""
    yield WriteText()
    yield TrainVocabularies()
    for data in dict.fromkeys(rung.data for rung in rungs):
        yield WriteShards(data)
    if of.labelled is not None:
        for fraction in of.config.sorted_fractions:
            for seed in of.config.seeds_of_fits:
                yield Baselines(fraction, seed)


def _steps_of_systems(of: Comparison, rungs: Sequence[Rung]) -> Iterator[Step]:
    """Yield the steps of each system."""
    config = of.config
    for rung in rungs:
        for seed in config.seeds_of_fits:
            if seed in config.seeds_of_training:
                if not rung.is_that_of:
                    yield Pretrain(rung, seed)
                for measurement in of.measurements:
                    if measurement.suits(rung, config):
                        yield measurement(rung, seed)
            if of.labelled is not None and rung.vectors:
                yield from _fits(of, rung, seed)


def _fits(of: Comparison, rung: Rung, seed: int) -> Iterator[Fit]:
    """Yield the fits of the task with a system and a seed.

    A linear layer on frozen features is fitted once for each pre-training, because all seeds give
    the same layer, unless they draw the examples of a fraction.
    """
    assert of.labelled is not None
    is_again = seed not in of.config.seeds_of_training
    for way in of.labelled.ways:
        if way != "frozen" and not rung.tuned:
            continue
        for fraction in of.config.sorted_fractions:
            is_same = way == "frozen" and rung.network == "linear" and fraction == 1
            if not (is_again and is_same):
                yield Fit(rung, seed, way, fraction)


def _bytes(rung: Rung, config: CompareConfig) -> int:
    """Return the size of a rung's model on disk in bytes, in float32."""
    size = config.word_vocab_size if rung.data.startswith("word") else config.vocab_size
    if rung.data.startswith("wordpiece"):
        size = config.vocab_size
    keys = values.merge(rung.settings, {"data": "", "out": "", "model": rung.model})
    run = make_run(trainable()[rung.system], keys)
    system = load(rung.system)
    with torch.device("meta"):
        learner = system.make_learner(run.model_config(size), system.heads(run))
    tensors = [*learner.parameters(), *learner.buffers()]
    return sum(4 * tensor.numel() for tensor in tensors)
