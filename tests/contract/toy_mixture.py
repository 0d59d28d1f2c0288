"""A toy system in one file: a mixture of masked and causal prediction in one encoder.

It shows what an objective may do before the batch is encoded (`Objective.prepare`). Encoder and
instances are BERT's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from bertwright.models.bert.config import BertConfig, BertRun
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import held_out, phases
from bertwright.models.catalogue import NO_DROPOUT, PUBLISHED, Row
from bertwright.models.system import System
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.sequences import Sequences
from tests.contract.toy import add_system


class Causal(VocabularyOutput, Objective[MaskedBatch]):
    """Predict every token but the first from those before it, in the same encoder.

    A prefix of one token makes its attention causal (`Sequences.prefixes`).
    """

    title = "next token"

    def count(self, batch: MaskedBatch) -> int:
        """Return the number of tokens that are not the first of their sequence."""
        return batch.num_tokens - batch.inputs.sequences.count

    def prepare(
        self, batch: MaskedBatch, encoder: Encoder, generator: torch.Generator | None
    ) -> MaskedBatch:
        """Return the original tokens under causal attention."""
        lengths = batch.inputs.sequences.lengths
        causal = Sequences(lengths, batch.inputs.ids.device, [1] * len(lengths))
        original = batch.restored()
        return replace(original, inputs=replace(original.inputs, sequences=causal))

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Return the cross-entropy summed over the predicted tokens."""
        at = (batch.inputs.sequences.positions > 0).nonzero()[:, 0]
        return self.cross_entropy(encoded.last[at - 1], batch.inputs.ids[at])


def causal(config: BertConfig, encoder: Encoder) -> Causal:
    """Return the causal objective, tied to the token embeddings."""
    return Causal(config.vocab_size, encoder.token_embedding())


@dataclass(frozen=True)
class MixtureConfig(BertConfig):
    """A BERT that is trained by masked and by causal prediction."""


PRESETS_OF_THE_MIXTURE = {"toy-mixture": MixtureConfig()}


@dataclass(frozen=True)
class MixtureRun(BertRun):
    """A run of it."""


MIXTURE = System(
    row=Row(
        "toy-mixture",
        MixtureConfig,
        MixtureRun,
        PRESETS_OF_THE_MIXTURE,
        "toy-mixture",
        NO_DROPOUT,
        PUBLISHED,
    ),
    encoder=Bert,
    spec=bert_spec,
    objectives={"masked_lm": MaskedLM, "causal": causal},
    instances=held_out,
    phases=phases,
)


def add_mixture(patch: pytest.MonkeyPatch) -> None:
    """Enter it into the catalogue."""
    add_system(patch, MIXTURE)
