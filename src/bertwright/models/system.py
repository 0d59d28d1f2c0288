"""The record that describes a system; every system defines one in `models/NAME/system.py`.

The record states how the encoder is built and stored, which objectives train it on which instances,
and how its weights are initialized; the row of the catalogue (`models/catalogue.py`) has its name,
its classes of configurations and runs, and its presets. The training loop, checkpoints, inference
and the server use only these two.

Letters: R the class of the system's runs, C the class of its models' configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from bertwright.config.run import EvaluatedRun, RunConfig, StepRun
from bertwright.data.instances import Instances
from bertwright.data.loading.phases import Pass, PassBudget, Phase
from bertwright.data.shards import Shards
from bertwright.data.split import Split, rule_of_new_run
from bertwright.errors import ConfigError
from bertwright.models.catalogue import Row, row_of
from bertwright.models.layout import Layout
from bertwright.nn.batch import Batch
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner, Objective
from bertwright.storage.tensor_names import ParameterMapping, Parts
from bertwright.text.tokenizer.tokenizer import Tokenizer

R = TypeVar("R", bound=RunConfig)


@dataclass(frozen=True)
class PretrainedEncoder:
    """An encoder that a run starts from, as the recipe opened it."""

    name: str
    """The path that the run names."""
    folder: Path
    """The folder from which it was read."""
    config: Any
    """The configuration of its model."""
    weights: Mapping[str, Tensor]
    """Its parameters by name, without the prefix `encoder.`."""
    tokenizer: Tokenizer
    """The tokenizer in its folder."""


class KnownWords(Protocol):
    """Word vectors that a run starts from, as the recipe opened them."""

    @property
    def vectors(self) -> Any:
        """The vector of each word, `[V, H]` float32."""

    @property
    def row(self) -> Mapping[str, int]:
        """The row of each spelling."""

    def spelling(self, word: str) -> str | None:
        """Return the spelling under which the table has a word; None if it does not have it."""


@dataclass(frozen=True)
class RunSources:
    """The files that a run names by path, which the recipe opens before it builds the model."""

    encoder: PretrainedEncoder | None = None
    """The encoder that `--encoder` names."""
    words: KnownWords | None = None
    """The word vectors that `--word-vectors` names."""


WITHOUT_WEIGHTS = frozenset(
    ("softmax", "label_smoothing", "activation_penalty", "temporal_penalty", "negative_samples")
)
"""The keys of architectures that determine no weights: a run that goes on may change them."""


def keep_architecture(run: RunConfig, config: Any, folder: Path) -> Any:
    """Return the model's configuration for a run that starts from a checkpoint: the checkpoint's
    own, with the run's values for settings without weights (`WITHOUT_WEIGHTS`, and all dropouts).
    """
    row = row_of(run)
    if run.architecture is None:
        require_preset(row, run.model, config, folder)
        return replace(config, **row.settings)
    changed = {}
    for key, value in vars(run.architecture).items():
        if value == getattr(config, key) or key in row.fixed:
            continue
        if "dropout" not in key and key not in WITHOUT_WEIGHTS:
            raise ConfigError(
                f"architecture.{key} is {value}, but {folder} has {getattr(config, key)}; "
                "leave it out: the checkpoint brings its architecture"
            )
        changed[key] = value
    return replace(config, **changed)


def require_preset(
    row: Row, model: str | None, config: Any, folder: Path, given: Collection[str] = ()
) -> None:
    """Raise ConfigError if the model in a folder has other sizes than the preset that a run names,
    but for the keys that are `given`.
    """
    if model is None:
        return
    preset = row.preset(model)
    for key in _sizes_of(row):
        if key not in given and getattr(preset, key) != getattr(config, key):
            raise ConfigError(
                f"{folder} has another architecture than --model {model}; leave it out: --init "
                "brings the model's architecture"
            )


def _sizes_of(row: Row) -> list[str]:
    """Return the keys of the architecture in which the presets differ and which shape weights."""
    first, *others = map(vars, row.presets.values())
    return [
        key
        for key, value in first.items()
        if "dropout" not in key and key not in WITHOUT_WEIGHTS
        if any(other[key] != value for other in others)
    ]


def initialize_as_published(
    learner: Learner, run: RunConfig, shards: Shards, sources: RunSources
) -> None:
    """Initialize the encoder by its `reset_parameters`, and the linear layers of objectives with a
    standard deviation of 0.02.
    """
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    initialize(learner.objectives, 0.02, generator)


def model_of_the_run(run: RunConfig, shards: Shards, sources: RunSources) -> Any:
    """Return the configuration of a new model, with the run's sizes and the size of the shards'
    vocabulary.
    """
    return run.model_config(shards.vocab_size)


@dataclass(frozen=True)
class System:
    """One system: its model, its objectives and its pre-training."""

    row: Row
    """Its row in the catalogue: its name, and the classes C and R."""
    encoder: Callable[[Any], Encoder]
    """C -> encoder: returns a new encoder, which has its configuration as `encoder.config`."""
    spec: Callable[[Any], EncoderSpec]
    """C -> spec: returns the encoder's specification without building the encoder."""
    objectives: Mapping[str, Callable[[Any, Encoder], Objective[Any]]] = field(default_factory=dict)
    """By name, (C, encoder) -> objective: returns a new pre-training head for the encoder."""
    layout: type[Layout[Any]] = Layout
    """The layout of its models' folders."""
    layouts: Mapping[str, type[Layout[Any]]] = field(default_factory=dict)
    """Further layouts that its models' folders may have, by the name of the file format."""
    is_padded: bool = False
    """Whether there is an implementation of its encoder for padded batches: that of transformers,
    so that a folder of sentence-transformers can contain it, and the graph that `export` writes."""
    vocabulary: tuple[str, ...] = ()
    """The tensors that have a row for each token, which grow when the vocabulary is extended;
    empty: it cannot be extended."""
    trained_with: Callable[[Any], Sequence[str]] | None = None
    """R -> names: returns the names of the objectives of a run; None: all are trained."""
    instances: Callable[[Any, Shards, Split, int], Instances[Batch]] | None = None
    """(R, shards, split, seed) -> instances: returns the instances for training and evaluation.
    None: the system has no held-out loss.
    """
    phases: Callable[[Any, Shards], Sequence[Phase]] | None = None
    """(R, shards) -> phases: returns the phases of training, for systems whose instances change
    during the run."""
    model: Callable[[Any, Shards, RunSources], Any] = model_of_the_run
    """(R, shards, sources) -> C: returns the model's configuration for a new run."""
    continued: Callable[[Any, Any, Path], Any] = keep_architecture
    """(R, C of a checkpoint, its folder) -> C: returns the model's configuration for a run that
    starts from this checkpoint, or raises ConfigError.
    """
    initialize: Callable[[Learner, Any, Shards, RunSources], None] = initialize_as_published
    """(learner, R, shards, sources) -> None: initializes all weights, with the seed of R."""
    fit: Callable[[Any, Shards, Learner, PassBudget], Iterator[Pass]] | None = None
    """(R, shards, learner, budget) -> passes: trains the learner pass by pass until the budget is
    used up, for systems that are counted or have their own training loop: those whose R is a
    `PassRun`. After each pass the run is evaluated, logged and saved.
    """

    def in_layout(self, name: str) -> System:
        """Return this system with a further layout of folders, named by its file format."""
        return replace(self, layout=self.layouts[name])

    @cached_property
    def names(self) -> Layout[Any]:
        """The layout of its models' folders."""
        return self.layout(self.row.model_type or self.row.name, self.row.config)

    def mappings(self, config: Any) -> Parts:
        """Return all parameters of a model by part, with their names in a file."""
        foreign = self.names.foreign_names(config)
        if foreign is not None:
            return foreign
        with torch.device("meta"):
            learner = self.make_learner(config, self.objectives)
        parts: Parts = {"encoder": []}
        for name in learner.state_dict():
            first, second, *_ = name.split(".")
            part = "encoder" if first == "encoder" else second
            parts.setdefault(part, []).append(ParameterMapping(name, (name,)))
        return parts

    def make_learner(self, config: Any, objectives: Collection[str]) -> Learner:
        """Return a new encoder with the pre-training heads of the given names, with the initial
        weights of their modules.
        """
        for name in objectives:
            if name not in self.objectives:
                raise ConfigError(f"no objective {name!r}; there are {', '.join(self.objectives)}")
        encoder = self.encoder(config)
        heads = {
            name: make(config, encoder)
            for name, make in self.objectives.items()
            if name in objectives
        }
        return Learner(encoder, heads)

    def trained_on(self, run: StepRun, shards: Shards) -> Sequence[Phase]:
        """Return the phases of a run. Most systems have one, which reads the documents that are not
        held out.
        """
        if self.phases is not None:
            return self.phases(run, shards)
        assert self.instances is not None
        return [Phase(self.instances(run, shards, "train", run.seed), run.batch.tokens)]

    def evaluated_on(self, run: RunConfig, shards: Shards, split: Split) -> Instances[Batch] | None:
        """Return the instances on which a run is evaluated, which are the same for every seed; None
        if the system has no held-out loss.
        """
        return None if self.instances is None else self.instances(run, shards, split, 0)

    def heads(self, run: RunConfig) -> list[str]:
        """Return the names of the objectives of a run."""
        return list(self.objectives if self.trained_with is None else self.trained_with(run))

    def with_hold_out(self, run: R, shards: Shards) -> R:
        """Return the configuration of a new run with the rule by which it holds out text set,
        unless the run names one."""
        if not isinstance(run, EvaluatedRun) or run.validation.hold_out is not None:
            return run
        rule = rule_of_new_run(shards, run.validation.fraction)
        rule = rule if self.row.reads == "text" else "documents"
        return replace(run, validation=replace(run.validation, hold_out=rule))
