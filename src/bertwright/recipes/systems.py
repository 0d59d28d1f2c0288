"""What pre-training must know of a system, beyond the class of its runs and its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from bertwright.config.run import RunConfig
from bertwright.data.instances import Instances
from bertwright.data.shards import Shards
from bertwright.data.split import Split, rule_of_new_run
from bertwright.errors import ConfigError
from bertwright.nn.init import initialize
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Pass, Phase


def keep_architecture(run: RunConfig, found: Any, folder: Path) -> Any:
    """The model's configuration when a run goes on from a checkpoint: its own, but for what has no
    weights (dropout, a memory network's softmax).

    Raises:
        ConfigError: the run asks for another architecture.
    """
    given = run.changes()
    changed = {key: value for key, value in given.items() if "dropout" in key or key == "softmax"}
    for key in given.keys() - changed.keys():
        if given[key] != getattr(found, key):
            raise ConfigError(
                f"architecture.{key} is {given[key]}, but {folder} has {getattr(found, key)}; "
                "leave it out: the checkpoint brings its architecture"
            )
    return replace(found, **changed)


def initialize_as_published(learner: Learner, run: RunConfig, shards: Shards) -> None:
    """The encoder by its `reset_parameters`, linear layers of objectives with a deviation of
    0.02."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    initialize(learner.objectives, 0.02, generator)


@dataclass(frozen=True)
class System:
    """A system on the road to BERT, or BERT. `R` is the class of its runs, `C` of its model."""

    instances: Callable[[Any, Shards, Split, int], Instances[Any]] | None = None
    """(R, shards, split, seed) -> what it is trained and evaluated on; None: it has no held-out
    loss."""
    phases: Callable[[Any, Shards], Sequence[Phase]] | None = None
    """(R, shards) -> what it is trained on, where that changes on the way."""
    model: Callable[[Any, Shards], Any] = lambda run, shards: run.model_config(shards.vocab_size)
    """(R, shards) -> C of a new run."""
    objectives: Callable[[Any], Sequence[str]] | None = None
    """R -> names of the objectives it is trained with; None: all of its format."""
    continued: Callable[[Any, Any, Path], Any] = keep_architecture
    """(R, C of a checkpoint, its folder) -> C of a run that goes on from it, or ConfigError."""
    initialize: Callable[[Learner, Any, Shards], None] = initialize_as_published
    """(learner, R, shards): gives all weights their initial values, by the seed of R."""
    fit: Callable[[Any, Shards, Learner, int], Iterator[Pass]] | None = None
    """For systems that are counted, or that have a training loop of their own (`R.own_loop`):
    (R, shards, learner, passes done) changes the learner pass by pass; after each the run is
    evaluated, logged and saved."""

    def trained_on(self, run: RunConfig, shards: Shards) -> Sequence[Phase]:
        """The phases of a run; of most systems the documents that are not held out, all the
        time."""
        if self.phases is not None:
            return self.phases(run, shards)
        assert self.instances is not None
        return [Phase(self.instances(run, shards, "train", run.seed), run.batch.tokens)]

    def evaluated_on(self, run: RunConfig, shards: Shards, split: Split) -> Instances[Any] | None:
        """What a run is evaluated on, the same whatever its seed; None: it has no held-out loss."""
        return None if self.instances is None else self.instances(run, shards, split, 0)

    def heads(self, run: RunConfig) -> list[str]:
        """The names of the objectives of a run."""
        if self.objectives is not None:
            return list(self.objectives(run))
        return list(resolve_name(run.format).objectives)


def with_hold_out(run: RunConfig, shards: Shards) -> RunConfig:
    """A new run with the rule by which it holds out text, where it does not name one."""
    if run.validation.hold_out is not None or system_of(run).instances is None:
        return run
    rule = rule_of_new_run(shards, run.validation.share)
    rule = "documents" if run.whole_documents else rule
    return replace(run, validation=replace(run.validation, hold_out=rule))


def system_of(run: RunConfig | type[RunConfig]) -> System:
    """The system of a run, or of a class of runs."""
    found = resolve_name(run.system)
    assert isinstance(found, System)
    return found
