"""Replaced-token detection, the objective of ELECTRA (Clark et al. 2020, section 2).

A small generator predicts the masked tokens, and samples of its predictions replace them. The
encoder, which is the discriminator, predicts for every token whether it was replaced. The loss is
that of the generator, a mean over the masked tokens, plus 50 times that of the discriminator, a
mean over all tokens. No gradient passes through the samples. The generator shares the embeddings.

Letters: N tokens, K masked tokens, E width of the embeddings, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.models.bert.encoder import BertEmbeddings
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.electra.config import ElectraConfig
from bertwright.nn.encoder import Encoded, Encoder, Transform
from bertwright.nn.objective import Loss, Objective
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.transformer.layers import ACTIVATIONS, layers_of

WEIGHT = 50.0
"""The factor of the discriminator's loss (appendix A)."""


@dataclass(frozen=True)
class ReplacedBatch(MaskedBatch):
    """A batch whose masked tokens are replaced by samples of the generator."""

    generator_loss: Tensor
    """The summed cross-entropy of the generator, with its gradient."""
    is_replaced: Tensor
    """`[N]` float32: 1 where the token differs from the original one, else 0."""


class Generator(VocabularyOutput):
    """The generator: as many layers as the encoder has, but narrower, over its embeddings."""

    def __init__(self, config: ElectraConfig) -> None:
        width = config.generator_hidden_size
        transform = Transform(width, "gelu", config.layer_norm_eps, config.embedding_size)
        super().__init__(config.vocab_size, transform=transform)
        sizes = replace(
            config,
            hidden_size=width,
            num_attention_heads=config.generator_attention_heads,
            intermediate_size=config.generator_intermediate_size,
        )
        self.project = nn.Linear(config.embedding_size, width)
        self.layers = layers_of(sizes)

    def vectors(self, batch: MaskedBatch, embeddings: BertEmbeddings) -> Tensor:
        """Return the vectors from which the masked tokens are predicted, `[K, H]`."""
        inputs, sequences = batch.inputs, batch.inputs.sequences
        x = embeddings.unprojected(inputs.ids, sequences.positions, inputs.segments)  # [N, E]
        x = self.project(x)
        for layer in self.layers[:-1]:
            x = layer(x, sequences)
        at_masks: Tensor = self.layers[-1](x, sequences, batch.masked_positions)
        return at_masks


class ReplacedTokens(Objective[MaskedBatch]):
    """The objective that predicts for every token whether the generator has replaced it.

    A published discriminator comes without a generator: it scores tokens, but this objective cannot
    train it further.
    """

    title = "replaced tokens"
    reads_embeddings = True

    def __init__(self, config: ElectraConfig, encoder: Encoder) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.prediction = nn.Linear(config.hidden_size, 1)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.generator: Generator | None = None
        if config.generator_hidden_size:
            self.generator = Generator(config)
            embedding = encoder.token_embedding()
            assert embedding is not None
            self.generator.tie_to(embedding)

    def count(self, batch: MaskedBatch) -> int:
        """Return N, the number of tokens, all of which are predicted."""
        return batch.num_tokens

    def prepare(
        self, batch: MaskedBatch, encoder: Encoder, generator: torch.Generator | None
    ) -> MaskedBatch:
        """Return the batch with its masked tokens replaced by samples of the generator's
        predictions."""
        assert self.generator is not None
        embeddings = cast(BertEmbeddings, encoder.get_submodule("embeddings"))
        x = self.generator.vectors(batch, embeddings)  # [K, H]
        loss = self.generator.cross_entropy(x, batch.masked_labels)
        with torch.no_grad():
            probabilities = self.generator.logits(x).softmax(1)
            sampled = torch.multinomial(probabilities, 1, generator=generator)[:, 0]  # [K]
        original = batch.restored().inputs.ids
        ids = original.index_copy(0, batch.masked_positions, sampled)
        return ReplacedBatch(
            **{**vars(batch), "inputs": replace(batch.inputs, ids=ids)},
            generator_loss=loss.total,
            is_replaced=(ids != original).float(),
        )

    def logits(self, x: Tensor) -> Tensor:
        """Return the score of each token: `[N, H]` -> `[N]`. A score above 0 predicts that it was
        replaced."""
        scores: Tensor = self.prediction(self.activation(self.dense(x)))
        return scores[:, 0].float()

    def flops(self, batch: MaskedBatch) -> float:
        """Return the operations of the head and of the generator."""
        head = 6.0 * batch.num_tokens * self.dense.weight.numel()
        if self.generator is None:
            return head
        matrices = sum(p.numel() for p in self.generator.layers.parameters() if p.dim() > 1)
        matrices += self.generator.project.weight.numel()
        generator = 6.0 * batch.num_tokens * matrices
        return head + generator + self.generator.output_flops(len(batch.masked_labels))

    def forward(self, encoded: Encoded, batch: MaskedBatch) -> Loss:
        """Return the discriminator's loss summed over the N tokens, whose gradient includes that of
        the generator's loss.

        The training loop divides a sum by the number of all tokens of a step. The generator's loss
        is a mean over masked tokens, so its sum is divided by the fraction that the run masks. The
        fraction of a micro-batch differs a little from it, and the gradient would depend on how a
        step is split.
        """
        assert isinstance(batch, ReplacedBatch)
        scores = self.logits(encoded.last)  # [N]
        total = F.binary_cross_entropy_with_logits(scores, batch.is_replaced, reduction="sum")
        correct = ((scores > 0) == (batch.is_replaced > 0)).sum()
        of_generator = batch.generator_loss / batch.masking_probability / WEIGHT
        total = total + (of_generator - of_generator.detach())  # the value does not change
        return Loss(total, batch.num_tokens, correct)
