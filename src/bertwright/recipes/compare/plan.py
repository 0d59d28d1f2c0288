"""Plan a comparison: its systems, its steps, their maximum time, and the disk space they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from bertwright.recipes.compare.steps import Comparison, Step
from bertwright.recipes.compare.systems import NOT_COMPARED, SAME, SYSTEMS, Entry
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

    entries: list[Entry]
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
            "systems": [entry.name for entry in self.entries],
            "left_out": self.left_out,
            "steps": steps,
            "seconds": self.seconds,
            "bytes_needed": self.bytes_needed,
            "warnings": self.warnings,
        }


def choose(
    config: CompareConfig, kind: str | None, systems: Mapping[str, Entry] = SYSTEMS
) -> tuple[list[Entry], dict[str, str]]:
    """Return the systems of a comparison, in the order of the papers, and the reason for each one
    that is left out.

    Raises:
        ConfigError: a name is not that of a system, the task or the files do not allow a system
            that was named, or no system is left.
        MissingExtra: a system that was named needs a package that is not installed.
    """
    named = [SAME.get(name, name) for name in config.names_of_systems]
    for name in named:
        if name in NOT_COMPARED:
            raise ConfigError(f"--systems names {name}: {NOT_COMPARED[name]}")
        if name not in systems:
            near = values.nearest(name, systems)
            meant = f"; did you mean {near}?" if near else ""
            raise ConfigError(f"no system {name!r}; expected {', '.join(systems)}{meant}")
    reasons = {name: reason for name, reason in NOT_COMPARED.items() if not named}
    for entry in systems.values():
        if named and entry.name not in named:
            reasons[entry.name] = NOT_NAMED
            continue
        reason = _reason(entry, config, kind)
        missing = entry.system in WORD_KERNELS and find_spec("numba") is None
        if entry.name in named and missing:
            raise MissingExtra("words", "numba", f"training {entry.title}")
        if entry.name in named and reason:
            raise ConfigError(f"--systems names {entry.name}: {reason}")
        if missing:
            reason = 'its training needs numba: pip install "bertwright[words]"'
        if reason:
            reasons[entry.name] = reason
    entries = [entry for entry in systems.values() if entry.name not in reasons]
    names = {entry.name for entry in entries}
    for entry in [entry for entry in entries if {entry.needs, entry.is_that_of} - {""} - names]:
        other = systems[entry.needs or entry.is_that_of].title
        if entry.name in named:
            raise ConfigError(
                f"--systems names {entry.name}, which reads the run of {other}: name "
                f"{entry.needs or entry.is_that_of} too"
            )
        reasons[entry.name] = f"it reads the run of {other}, which is left out"
        entries.remove(entry)
    if not entries:
        raise ConfigError(f"no system is left to compare: {reasons}")
    return entries, reasons


def _reason(entry: Entry, config: CompareConfig, kind: str | None) -> str:
    """Return the reason why the files or the task do not allow a system; empty if they do."""
    if entry.reads_pairs and not config.parallel:
        return "it is trained on translations: --parallel SOURCE TARGET"
    if entry.reads_pairs and kind is None and not config.word_tests:
        return "it is no language model, and there is no task: --train LABELLED"
    if entry.of_words and (kind is None or not KINDS[kind].of_words):
        kinds = [name for name, entry in KINDS.items() if entry.of_words]
        return f"it is for tasks of the kind {', '.join(kinds)}"
    if kind is not None and kind_of(kind).generates and entry.vectors and not entry.writes:
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
    entries, left_out = choose(
        config, None if of.labelled is None else of.labelled.task.kind, of.systems
    )
    shared, own = list(_shared_steps(of, entries)), list(_steps_of_systems(of, entries))
    todo = [(step, step.seconds(of)) for step in (*shared, *own) if afresh or of.done(step) is None]
    if not afresh:
        for step in shared:
            of.finished.verify(step.name)
    characters = size_on_disk(find_files(of.inputs)) or 0
    kept = 3 + 2 * (of.labelled is not None)  # weights and moments of AdamW; the weights of fits
    sizes = [_bytes(entry, config) for entry in entries if not entry.is_that_of]
    needed = BYTES_A_CHARACTER * characters + sum(kept * size for size in sizes) * config.seeds
    warnings = []
    if config.tokens is not None:
        warnings.append("with --tokens the time is not known: shown is that of --minutes")
    return Plan(entries, left_out, [*shared, *own], todo, needed, warnings)


def _shared_steps(of: Comparison, entries: Sequence[Entry]) -> Iterator[Step]:
    """Yield the steps that are for all systems."""
    yield WriteText()
    yield TrainVocabularies()
    for data in dict.fromkeys(entry.data for entry in entries):
        yield WriteShards(data)
    if of.labelled is not None:
        for fraction in of.config.sorted_fractions:
            for seed in of.config.seeds_of_fits:
                yield Baselines(fraction, seed)


def _steps_of_systems(of: Comparison, entries: Sequence[Entry]) -> Iterator[Step]:
    """Yield the steps of each system."""
    config = of.config
    for entry in entries:
        for seed in config.seeds_of_fits:
            if seed in config.seeds_of_training:
                if not entry.is_that_of:
                    yield Pretrain(entry, seed)
                for measurement in of.measurements:
                    if measurement.suits(entry, config):
                        yield measurement(entry, seed)
            if of.labelled is not None and entry.vectors:
                yield from _fits(of, entry, seed)


def _fits(of: Comparison, entry: Entry, seed: int) -> Iterator[Fit]:
    """Yield the fits of the task with a system and a seed.

    A linear layer on frozen features is fitted once for each pre-training, because all seeds give
    the same layer, unless they draw the examples of a fraction.
    """
    assert of.labelled is not None
    is_again = seed not in of.config.seeds_of_training
    for way in of.labelled.ways:
        if way != "frozen" and not entry.tuned:
            continue
        for fraction in of.config.sorted_fractions:
            is_same = way == "frozen" and entry.network == "linear" and fraction == 1
            if not (is_again and is_same):
                yield Fit(entry, seed, way, fraction)


def _bytes(entry: Entry, config: CompareConfig) -> int:
    """Return the size of a system's model on disk in bytes, in float32."""
    size = config.word_vocab_size if entry.data.startswith("word") else config.vocab_size
    if entry.data.startswith("wordpiece"):
        size = config.vocab_size
    keys = values.merge(entry.settings, {"data": "", "out": "", "model": entry.model})
    run = make_run(trainable()[entry.system], keys)
    system = load(entry.system)
    with torch.device("meta"):
        learner = system.make_learner(run.model_config(size), system.heads(run))
    tensors = [*learner.parameters(), *learner.buffers()]
    return sum(4 * tensor.numel() for tensor in tensors)
