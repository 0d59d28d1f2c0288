"""New rows start from the pieces they replace; old ones do not move."""

from __future__ import annotations

import torch

from bertwright.checkpoint.extension import extend_learner
from tests.checkpoint.conftest import CONFIG, new_learner
from tests.checkpoint.export.sample import learner_of


def test_rows_and_biases_are_means() -> None:
    learner = new_learner()
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    larger, config = extend_learner(learner, CONFIG, {}, 35, [(5, 9, 9), (7, 8), ()])
    assert config.vocab_size == 38  # 35 and 36 were rows without a token
    state = larger.state_dict()
    for name, value in before.items():
        torch.testing.assert_close(learner.state_dict()[name], value, rtol=0, atol=0)
        kept = state[name][:35] if value.shape[:1] == (37,) else state[name]
        torch.testing.assert_close(kept, value[:35] if value.shape[:1] == (37,) else value)
    table = before["encoder.embeddings.token.weight"]
    rows = state["encoder.embeddings.token.weight"][35:]
    torch.testing.assert_close(rows[0], (table[5] + 2 * table[9]) / 3)
    torch.testing.assert_close(rows[1], (table[7] + table[8]) / 2)
    torch.testing.assert_close(rows[2], table[:35].mean(0))
    bias = before["objectives.masked_lm.bias"]
    torch.testing.assert_close(state["objectives.masked_lm.bias"][36], (bias[7] + bias[8]) / 2)
    # the output is tied to the new table
    x = torch.randn(2, CONFIG.hidden_size)
    logits = larger.objectives["masked_lm"].logits(x)
    assert logits.shape == (2, 38)
    torch.testing.assert_close(logits[:, :35], learner.objectives["masked_lm"].logits(x)[:, :35])


def test_task_heads_stay() -> None:
    learner, name, task = learner_of("mix-max")
    assert name is not None
    assert task is not None
    larger, config = extend_learner(learner, CONFIG, {name: task}, 37, [(5, 9)])
    assert config.vocab_size == 38
    old = learner.objectives[name].state_dict()
    for key, value in larger.objectives[name].state_dict().items():
        torch.testing.assert_close(value, old[key], rtol=0, atol=0)
