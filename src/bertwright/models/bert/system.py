"""BERT and the left-to-right BERT of its table 5 as systems: objectives, instances and phases.

A run of BERT has one or two phases: short sequences first, then, if configured, long ones (Devlin
et al. 2019, appendix A.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertwright.data.loading.phases import Phase
from bertwright.data.shards import Shards
from bertwright.data.split import Split
from bertwright.errors import ConfigError
from bertwright.models.bert.config import (
    BertConfig,
    MaskedRun,
    MaskingConfig,
)
from bertwright.models.bert.contrast import NeighbourContrast
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.models.bert.huggingface import BertLayout
from bertwright.models.bert.initialization import initialize_from_data
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.masked_pairs import MaskedPairs
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.models.bert.tensorflow import TensorFlowLayout
from bertwright.models.catalogue import MODELS
from bertwright.models.language_models import token_streams
from bertwright.models.system import RunSources, System, model_of_the_run
from bertwright.nn.encoder import Encoder
from bertwright.nn.outputs.next_token import next_token


def objectives(config: MaskedRun) -> list[str]:
    """Return the names of the objectives of a run."""
    second = {"mlm": [], "mlm+contrast": ["contrast"]}
    return ["masked_lm", *second.get(config.instances.objectives, ["next_sentence"])]


def phases(config: MaskedRun, shards: Shards) -> Sequence[Phase]:
    """Return the phases of a run: short sequences, then long ones for the last
    `long_phase.fraction` of the budget, if that is above 0."""
    first = Phase(_instances(config, shards, config.seed), config.batch.tokens)
    long = config.long_phase
    if not long.fraction:
        return [first]
    longer = replace(config.instances, sequence_length=long.sequence_length)
    second = _instances(replace(config, instances=longer), shards, config.seed + 1)
    tokens = long.batch_tokens or config.batch.tokens
    return [first, Phase(second, tokens, begin=1 - long.fraction)]


def _instances(config: MaskedRun, shards: Shards, seed: int) -> MaskedPairs:
    return MaskedPairs(
        shards,
        config.instances,
        config.masking,
        validation_fraction=config.validation.fraction,
        hold_out=config.validation.hold_out,
        seed=seed,
    )


def held_out(config: MaskedRun, shards: Shards, split: Split, seed: int) -> MaskedPairs:
    """Return the instances that a run is evaluated on, masked at the paper's rate."""
    return MaskedPairs(
        shards,
        config.instances,
        replace(config.masking, probability=MaskingConfig.probability),
        validation_fraction=config.validation.fraction,
        hold_out=config.validation.hold_out,
        seed=seed,
        split=split,
    )


def without_unread_pooler(run: MaskedRun, shards: Shards, sources: RunSources) -> Any:
    """Return the configuration of a new model, which has a pooler if an objective reads it."""
    pooler = "next_sentence" in objectives(run)
    return replace(model_of_the_run(run, shards, sources), pooler=pooler)


def next_sentence(config: BertConfig, encoder: Encoder) -> NextSentence:
    """Return the objective of next-sentence prediction over the pooled [CLS]."""
    if not config.pooler:
        raise ConfigError(
            "next-sentence prediction reads the pooler, and architecture.pooler is false; train "
            "with --instances.objectives mlm"
        )
    return NextSentence(config.hidden_size)


BERT = System(
    row=MODELS["bert"],
    encoder=Bert,
    spec=bert_spec,
    objectives={
        "masked_lm": MaskedLM,
        "next_sentence": next_sentence,
        "contrast": NeighbourContrast,
    },
    layout=BertLayout,
    layouts={"tensorflow": TensorFlowLayout},
    is_padded=True,
    vocabulary=("encoder.embeddings.token.weight", "objectives.masked_lm.bias"),
    trained_with=objectives,
    instances=held_out,
    phases=phases,
    initialize=initialize_from_data,
)
LEFT_TO_RIGHT_BERT = System(
    row=MODELS["bert-ltr"],
    encoder=Bert,
    spec=bert_spec,
    objectives={"next_token": next_token},
    instances=token_streams,
    initialize=initialize_from_data,
)
"""Its files have our own names, as transformers has no class for it."""
