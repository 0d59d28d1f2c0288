"""BERT as a system: its instances, its phases, its initialization.

A run is one phase, or two: short sequences first, then, if wanted, long ones (Devlin et al. 2019,
appendix A.2).

The data-dependent initialization gives a masked LM three cheap facts that it would otherwise spend
its first minutes on: where a masked token's neighbours are (`nn/init.py`), which tokens are alike
(`data/token_vectors.py`), and how frequent each is. Embeddings are larger than published: Adam
moves a number by about the learning rate a step, so at 0.02 a few dozen steps could erase what the
positions and vectors say. The architecture stays BERT's; only initial values differ. What each part
is worth is measured in `experiments/small_budget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bertwright.config.bert import SIZES, BertConfig
from bertwright.config.runs.bert import BertRun, MaskingConfig
from bertwright.data.masked_pairs import MaskedPairs
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.data.token_vectors import make_token_vectors, sample_tokens
from bertwright.errors import ConfigError
from bertwright.models.bert import Bert
from bertwright.nn.init import aim_heads, initialize, place_vectors
from bertwright.objectives.masked_lm import MaskedLM
from bertwright.objectives.objective import Learner
from bertwright.recipes.phases import Phase
from bertwright.recipes.systems import System, keep_architecture

COUNTED_TOKENS = 4_000_000
"""Tokens of training documents to count in: some seconds' work."""


def objectives(config: BertRun) -> list[str]:
    """The names of the objectives of a run."""
    return ["masked_lm"] if config.instances.objectives == "mlm" else ["masked_lm", "next_sentence"]


def phases(config: BertRun, shards: Shards) -> Sequence[Phase]:
    """Short sequences, then for a fraction of the budget long ones, if wanted."""
    first = Phase(_instances(config, shards, config.seed), config.batch.tokens)
    long = config.long_phase
    if not long.share:
        return [first]
    longer = replace(config.instances, sequence_length=long.sequence_length)
    second = _instances(replace(config, instances=longer), shards, config.seed + 1)
    tokens = long.batch_tokens or config.batch.tokens
    return [first, Phase(second, tokens, begin=1 - long.share)]


def _instances(config: BertRun, shards: Shards, seed: int) -> MaskedPairs:
    return MaskedPairs(
        shards,
        config.instances,
        config.masking,
        validation_share=config.validation.share,
        hold_out=config.validation.hold_out,
        seed=seed,
    )


def held_out(config: BertRun, shards: Shards, split: Split, seed: int) -> MaskedPairs:
    """What a run is evaluated on: masked at the paper's rate."""
    return MaskedPairs(
        shards,
        config.instances,
        replace(config.masking, probability=MaskingConfig.probability),
        validation_share=config.validation.share,
        hold_out=config.validation.hold_out,
        seed=seed,
        split=split,
    )


def continued(config: BertRun, found: BertConfig, folder: Path) -> BertConfig:
    """The model's configuration when a run goes on from a checkpoint: its own, other dropout.

    Raises:
        ConfigError: the run asks for another architecture, or for longer sequences.
    """
    kept: BertConfig = keep_architecture(config, found, folder)
    wanted = config.model_config(found.vocab_size)
    if config.model and any(getattr(wanted, name) != getattr(found, name) for name in SIZES):
        raise ConfigError(
            f"{folder} has another architecture than --model {config.model}; leave it out: --init "
            "brings the model's architecture"
        )
    if config.longest_sequence > found.max_position_embeddings:
        raise ConfigError(
            f"sequences of {config.longest_sequence} tokens do not fit {folder}, which has "
            f"positions for {found.max_position_embeddings}; lower --instances.sequence-length"
        )
    return kept


def initialize_from_data(learner: Learner, config: BertRun, shards: Shards) -> None:
    """Initialize all weights, in place; nothing is counted in held-out documents."""
    encoder, masked_lm = learner.encoder, learner.objectives["masked_lm"]
    assert isinstance(encoder, Bert)
    assert isinstance(masked_lm, MaskedLM)
    bert, start = encoder.config, config.start
    generator = torch.Generator().manual_seed(config.seed)
    initialize(learner, bert.initializer_range, generator)
    embeddings, std = encoder.embeddings, start.embedding_std
    initialize(embeddings, std, generator)
    if start.aimed_heads:
        qkv = encoder.layer(0).attention.qkv.weight
        aim_heads(embeddings.position.weight, qkv, bert.num_attention_heads, std)
    if not (start.counted_vectors or start.frequency_bias):
        return
    held = config.validation
    shards, documents, _ = split_text(shards, "train", held.share, held.hold_out)
    tokens = sample_tokens(shards, documents, COUNTED_TOKENS, config.seed)
    if start.counted_vectors:
        vectors = make_token_vectors(tokens, bert.vocab_size, bert.hidden_size, config.seed)
        place_vectors(embeddings.token.weight, torch.from_numpy(vectors), std, generator)
    if start.frequency_bias:
        counts = np.bincount(tokens, minlength=bert.vocab_size) + 1.0
        logarithms = np.log(counts / counts.sum())
        with torch.no_grad():
            masked_lm.bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))


BERT = System(
    instances=held_out,
    phases=phases,
    objectives=objectives,
    continued=continued,
    initialize=initialize_from_data,
)
