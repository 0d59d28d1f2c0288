"""The catalogue of systems: what pre-training must know of each, one entry a system.

A new system is one file in `models/`, its `Format` in `checkpoint/formats.py`, the class of its run
in `config/systems.py`, and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertwright.config.run import RunConfig
from bertwright.config.systems import RUN_CONFIGS
from bertwright.data.instances import Instances
from bertwright.data.shards import Shards
from bertwright.data.split import Split
from bertwright.errors import ConfigError
from bertwright.objectives.objective import Learner
from bertwright.recipes import bert, elmo, language_models
from bertwright.recipes.language_models import initialize_as_published
from bertwright.recipes.phases import Pass, Phase
from bertwright.recipes.road import memory_network, ngram
from bertwright.recipes.translation import system as translation
from bertwright.recipes.word_vectors import fasttext, glove, word2vec
from bertwright.train.optim import Optimizers, make_optimizers


def model_config(run: RunConfig, vocab_size: int) -> Any:
    """The configuration that the run names, for a vocabulary."""
    return run.model_config(vocab_size)


def keep_architecture(run: RunConfig, found: Any, folder: Path) -> Any:
    """The model's configuration when a run goes on from a checkpoint: its own, other dropout.

    Raises:
        ConfigError: the run asks for another architecture.
    """
    given = run.changes()
    changed = {key: value for key, value in given.items() if "dropout" in key}
    for key in given.keys() - changed.keys():
        if given[key] != getattr(found, key):
            raise ConfigError(
                f"architecture.{key} is {given[key]}, but {folder} has {getattr(found, key)}; "
                "leave it out: --init brings the model's architecture"
            )
    return replace(found, **changed)


@dataclass(frozen=True)
class System:
    """A system on the road to BERT, or BERT. `R` is the class of its runs, `C` of its model."""

    name: str
    paper: str
    objectives: Callable[[Any], Sequence[str]]
    """R -> names of the objectives it is trained with."""
    phases: Callable[[Any, Shards], Sequence[Phase]] | None = None
    """(R, shards) -> what it is trained on; None: it has `fit`."""
    held_out: Callable[[Any, Shards, Split], Instances[Any]] | None = None
    """(R, shards, split) -> what it is evaluated on, the same whatever the seed; None: it has no
    held-out loss."""
    continued: Callable[[Any, Any, Path], Any] = keep_architecture
    """(R, C of a checkpoint, its folder) -> C of a run that goes on from it, or ConfigError."""
    model_config: Callable[[Any, int], Any] = model_config
    """(R, size of the vocabulary) -> C."""
    initialize: Callable[[Learner, Any, Shards], None] = initialize_as_published
    """(learner, R, shards): gives all weights their initial values, by the seed of R."""
    optimizers: Callable[..., Optimizers] = make_optimizers
    """(learner, optimizer part of R, precision) -> its optimizers."""
    fit: Callable[[Any, Shards, Learner, int], Iterator[Pass]] | None = None
    """For systems that are counted, or that have a training loop of their own (`R.own_loop`):
    (R, shards, learner, passes done) changes the learner pass by pass; after each the run is
    evaluated, logged and saved."""


SYSTEMS: dict[str, System] = {
    "bert": System(
        name="bert",
        paper="Devlin et al. 2019, BERT",
        objectives=bert.objectives,
        phases=bert.phases,
        held_out=bert.held_out,
        continued=bert.continued,
        initialize=bert.initialize_from_data,
    ),
    "bert-ltr": System(
        name="bert-ltr",
        paper="Devlin et al. 2019, BERT, table 5: left to right",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
    ),
    "transformer": System(
        name="transformer",
        paper="Vaswani et al. 2017, Attention is all you need",
        objectives=translation.objectives,
        phases=translation.phases,
        held_out=translation.held_out,
        initialize=translation.initialize,
    ),
    "seq2seq": System(
        name="seq2seq",
        paper="Bahdanau et al. 2014; Luong et al. 2015, sequence to sequence with attention",
        objectives=translation.objectives,
        phases=translation.phases,
        held_out=translation.held_out,
        initialize=translation.initialize_seq2seq,
    ),
    "elmo": System(
        name="elmo",
        paper="Peters et al. 2018, Deep contextualized word representations",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
        initialize=elmo.initialize,
    ),
    "memory-network": System(
        name="memory-network",
        paper="Sukhbaatar et al. 2015, End-To-End Memory Networks",
        objectives=memory_network.objectives,
        phases=memory_network.phases,
        held_out=memory_network.held_out,
        initialize=memory_network.initialize,
    ),
    "awd-lstm": System(
        name="awd-lstm",
        paper="Merity et al. 2018, AWD-LSTM; Howard and Ruder 2018, ULMFiT",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
    ),
    "openai-gpt": System(
        name="openai-gpt",
        paper="Radford et al. 2018, GPT",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
    ),
    "gpt2": System(
        name="gpt2",
        paper="Radford et al. 2019, GPT-2",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
    ),
    "ngram": System(
        name="ngram",
        paper="Chen and Goodman 1998, modified Kneser-Ney smoothing",
        objectives=language_models.objectives,
        held_out=ngram.held_out,
        initialize=ngram.initialize,
        fit=ngram.fit,
    ),
    "nnlm": System(
        name="nnlm",
        paper="Bengio et al. 2003, A Neural Probabilistic Language Model",
        objectives=language_models.objectives,
        phases=language_models.phases,
        held_out=language_models.held_out,
    ),
    "glove": System(
        name="glove",
        paper="Pennington et al. 2014, GloVe",
        objectives=glove.objectives,
        initialize=glove.initialize,
        fit=glove.fit,
    ),
    "fasttext": System(
        name="fasttext",
        paper="Bojanowski et al. 2017, fastText",
        objectives=word2vec.objectives,
        initialize=fasttext.initialize,
        fit=fasttext.fit,
    ),
    "word2vec": System(
        name="word2vec",
        paper="Mikolov et al. 2013, word2vec",
        objectives=word2vec.objectives,
        initialize=word2vec.initialize,
        fit=word2vec.fit,
    ),
}
"""Every system by its name."""


def system_of(run: RunConfig) -> System:
    """The system that a run trains, by the class of its configuration."""
    (name,) = (name for name, config in RUN_CONFIGS.items() if config is type(run))
    return SYSTEMS[name]
