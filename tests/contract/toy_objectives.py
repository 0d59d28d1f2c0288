"""Toy objectives in one file: replaced-token detection, and a masked and causal mixture.

They show what an objective may do before the batch is encoded (`Objective.prepare`). Encoder and
instances are BERT's.

Replaced-token detection (Clark et al. 2020, "ELECTRA", section 2): a small generator predicts the
masked tokens, a sample of its predictions replaces them, and the encoder tells for every token
whether it was replaced. Letters: N tokens, K masked tokens, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert.config import BertConfig, BertRun
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import held_out, phases
from bertwright.models.catalogue import Row
from bertwright.models.system import System
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.layers.recurrent import Lstm
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.sequences import Sequences
from tests.contract.toy import add_system


@dataclass(frozen=True)
class ReplacedBatch(MaskedBatch):
    """A batch in which masked tokens are replaced by samples of the generator."""

    generator_loss: Tensor
    """The summed cross-entropy of the generator, with its gradient."""
    is_replaced: Tensor
    """`[N]`, float32: 1 where the token is not the original one."""


class Generator(VocabularyOutput):
    """A small bidirectional LSTM between the token embeddings of the encoder, which it shares."""

    def __init__(self, config: BertConfig, embeddings: nn.Embedding) -> None:
        super().__init__(config.vocab_size, embeddings)
        self.lstm = Lstm(config.hidden_size, config.hidden_size // 2, "both")

    def vectors(self, batch: MaskedBatch) -> Tensor:
        """Return the vectors from which the masked tokens are predicted, `[K, H]`."""
        x = F.embedding(batch.inputs.ids, self.weight)  # [N, H]
        states: Tensor = self.lstm(x, batch.inputs.sequences.lengths)
        return states[batch.masked_positions]


class ReplacedTokens(Objective[MaskedBatch]):
    """Tell for every token whether the generator has replaced it."""

    title = "replaced tokens"
    reads_embeddings = True

    def __init__(self, config: BertConfig, encoder: Encoder) -> None:
        super().__init__()
        embeddings = encoder.token_embedding()
        assert embeddings is not None
        self.generator = Generator(config, embeddings)
        self.scores = nn.Linear(config.hidden_size, 1)

    def count(self, batch: MaskedBatch) -> int:
        """Return N: every token is judged."""
        return batch.num_tokens

    def prepare(
        self, batch: MaskedBatch, encoder: Encoder, generator: torch.Generator | None
    ) -> MaskedBatch:
        """Replace the masked tokens by samples of the generator's predictions."""
        x = self.generator.vectors(batch)
        loss = self.generator.cross_entropy(x, batch.masked_labels)
        probabilities = self.generator.logits(x.detach()).softmax(1)
        sampled = torch.multinomial(probabilities, 1, generator=generator)[:, 0]  # [K]
        original = batch.restored().inputs.ids
        ids = original.index_copy(0, batch.masked_positions, sampled)
        return ReplacedBatch(
            **{**vars(batch), "inputs": replace(batch.inputs, ids=ids)},
            generator_loss=loss.total,
            is_replaced=(ids != original).float(),
        )

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Return the loss of both, summed over the N tokens."""
        assert isinstance(batch, ReplacedBatch)
        scores = self.scores(encoded.last)[:, 0].float()  # [N]
        total = F.binary_cross_entropy_with_logits(scores, batch.is_replaced, reduction="sum")
        correct = ((scores > 0) == (batch.is_replaced > 0)).sum()
        return Loss(total + batch.generator_loss, batch.num_tokens, correct)


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
class ReplacedTokensConfig(BertConfig):
    """A BERT that is trained by replaced-token detection."""


PRESETS_OF_REPLACED_TOKENS = {"toy-replaced": ReplacedTokensConfig()}


@dataclass(frozen=True)
class ReplacedTokensRun(BertRun):
    """A run of it."""

    presets = PRESETS_OF_REPLACED_TOKENS
    default_model = "toy-replaced"


@dataclass(frozen=True)
class MixtureConfig(BertConfig):
    """A BERT that is trained by masked and by causal prediction."""


PRESETS_OF_THE_MIXTURE = {"toy-mixture": MixtureConfig()}


@dataclass(frozen=True)
class MixtureRun(BertRun):
    """A run of it."""

    presets = PRESETS_OF_THE_MIXTURE
    default_model = "toy-mixture"


REPLACED_TOKENS = System(
    row=Row("toy-replaced-tokens", ReplacedTokensConfig, ReplacedTokensRun),
    encoder=Bert,
    spec=bert_spec,
    objectives={"replaced_tokens": ReplacedTokens},
    instances=held_out,
    phases=phases,
)
MIXTURE = System(
    row=Row("toy-mixture", MixtureConfig, MixtureRun),
    encoder=Bert,
    spec=bert_spec,
    objectives={"masked_lm": MaskedLM, "causal": causal},
    instances=held_out,
    phases=phases,
)


def add_toy_objectives(patch: pytest.MonkeyPatch) -> None:
    """Enter both systems into the catalogue."""
    for system in (REPLACED_TOKENS, MIXTURE):
        add_system(patch, system)
