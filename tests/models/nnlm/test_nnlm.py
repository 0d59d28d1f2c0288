"""NNLM equals the formula of Bengio et al. 2003, computed token by token in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.data.token_streams import TokenStreamBatch
from bertwright.models.nnlm.config import NnlmConfig
from bertwright.nn.sequences import Inputs, Sequences

LENGTHS = [6, 4, 1]


@pytest.mark.parametrize("direct", [False, True])
def test_equal_to_the_formula(direct: bool) -> None:
    torch.manual_seed(1)
    config = NnlmConfig(17, 5, 3, direct)
    learner = make_learner(config, ["next_token"]).double()
    for parameter in learner.parameters():
        torch.nn.init.normal_(parameter)
    ids = torch.randint(0, 17, (sum(LENGTHS),))
    state = {name: x.detach().numpy() for name, x in learner.state_dict().items()}
    vectors, start = state["encoder.embeddings.weight"], state["encoder.layer.start"]
    output = state["objectives.next_token.own.weight"]  # U, then W: [V, H + C H]
    expected, first = 0.0, 0
    for length in LENGTHS:
        own = ids[first : first + length].tolist()
        for at in range(length - 1):
            x = np.concatenate([vectors[own[at - j]] if j <= at else start for j in range(3)])
            hidden = state["encoder.layer.hidden.weight"] @ x
            h = np.tanh(state["encoder.layer.hidden.bias"] + hidden)
            y = state["objectives.next_token.bias"] + output[:, :5] @ h
            if direct:
                y = y + output[:, 5:] @ x
            expected -= y[own[at + 1]] - np.log(np.exp(y).sum())
        first += length
    positions = torch.tensor([0, 1, 2, 3, 4, 6, 7, 8])
    inputs = Inputs(ids, Sequences(LENGTHS))
    batch = TokenStreamBatch(inputs, ids, positions)
    (loss,) = learner(batch).values()
    assert loss.total.item() == pytest.approx(expected, rel=1e-9)
    assert output.shape == (17, 5 + 15 * direct)
