"""ELECTRA's loss: the mean over masked tokens, and 50 times the mean over all tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.electra.config import PRESETS
from bertwright.nn.init import initialize
from bertwright.nn.sequences import Inputs, Sequences


@pytest.mark.parametrize("probability", [0.15, 0.3, 0.5])
def test_the_generator_has_the_weight_of_the_paper(probability: float) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = replace(PRESETS["electra-tiny"], vocab_size=61, **still)
    learner = make_learner(config, ["replaced_tokens"])
    initialize(learner, 0.2, torch.Generator().manual_seed(0))
    ids = torch.randint(5, 61, (60,), generator=torch.Generator().manual_seed(1))
    masked = torch.arange(round(60 * probability))  # exactly the fraction of the run
    batch = MaskedBatch(
        Inputs(ids.index_fill(0, masked, 4), Sequences([33, 27])),
        masked,
        ids[masked],
        None,
        torch.arange(2),
        masking_probability=probability,
    )

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        parameter = learner.get_parameter("objectives.replaced_tokens.generator.project.weight")
        (found,) = torch.autograd.grad(loss, [parameter])
        return found

    torch.manual_seed(2)
    loss = learner(batch)["replaced_tokens"]
    generator = learner.get_submodule("objectives.replaced_tokens.generator")
    x = generator.vectors(batch, learner.encoder.get_submodule("embeddings"))
    mean = F.cross_entropy(generator.logits(x), batch.masked_labels)
    # the discriminator's factor of 50 is taken as 1, and the generator's as 1/50
    torch.testing.assert_close(gradient(loss.total / loss.count), gradient(mean) / 50)
