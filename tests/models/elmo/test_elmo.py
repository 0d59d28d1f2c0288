"""ELMo against a float64 computation by hand, and its clipped LSTMs against PyTorch's."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertwright.config.run import OptimizerConfig
from bertwright.errors import ConfigError
from bertwright.models.elmo.both_directions import BothDirections
from bertwright.models.elmo.config import PRESETS
from bertwright.models.elmo.encoder import Elmo
from bertwright.nn.layers.characters import character_ids
from bertwright.nn.layers.recurrent import ClippedLstm
from bertwright.nn.sequences import Sequences
from bertwright.train.optim import make_optimizers
from tests.models.elmo.sample import CONFIG, IDS, TOKENS, inputs


@pytest.fixture
def elmo() -> Elmo:
    made = Elmo(CONFIG).double()
    made.set_tokens(TOKENS, (1, 2))
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        parameter.data.normal_(0, 0.6, generator=generator)
    return made


@pytest.mark.parametrize(("preset", "millions"), [("elmo-small", 13.6), ("elmo", 93.6)])
def test_sizes_are_those_of_the_published_files(preset: str, millions: float) -> None:
    with torch.device("meta"):
        made = Elmo(PRESETS[preset])
    assert sum(p.numel() for p in made.parameters()) == pytest.approx(millions * 1e6, abs=0.1e6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(elmo: Elmo, ids: list[int]) -> list[np.ndarray]:
    """The layers of one sequence, position by position, as the paper has them."""
    w = {name: value.detach().numpy() for name, value in elmo.state_dict().items()}
    rows = []
    for index in ids:
        x = w["token.bytes.weight"][w["characters"][index].astype(int)]  # [C, size]
        found = []
        for number, (width, _) in enumerate(CONFIG.filters):
            kernel = w[f"token.convolutions.{number}.weight"]  # [filters, size, width]
            windows = [x[i : i + width].T for i in range(len(x) - width + 1)]
            scores = [(kernel * window).sum((1, 2)) for window in windows]
            found.append(np.max(scores, 0) + w[f"token.convolutions.{number}.bias"])
        v = np.maximum(0, np.concatenate(found))
        for number in range(CONFIG.n_highway):
            name = f"token.highways.{number}"
            gate = sigmoid(w[f"{name}.carry.weight"] @ v + w[f"{name}.carry.bias"])
            new = np.maximum(0, w[f"{name}.transform.weight"] @ v + w[f"{name}.transform.bias"])
            v = gate * new + (1 - gate) * v
        rows.append(w["token.projection.weight"] @ v + w["token.projection.bias"])
    own = [np.stack(rows), np.stack(rows)]
    layers = [np.concatenate(own, 1)]
    for number in range(CONFIG.n_layers):
        for k in range(2):
            p = f"layers.{number}.{k}.inner.lstm"
            before = own[k][::-1] if k else own[k]
            h, c, states = np.zeros(CONFIG.projection_dim), np.zeros(CONFIG.dim), []
            for x in before:
                z = w[f"{p}.weight_ih_l0"] @ x + w[f"{p}.weight_hh_l0"] @ h
                i, f, g, o = np.split(z + w[f"{p}.bias_ih_l0"] + w[f"{p}.bias_hh_l0"], 4)
                c = np.clip(sigmoid(f) * c + sigmoid(i) * np.tanh(g), -0.3, 0.3)
                h = np.clip(w[f"{p}.weight_hr_l0"] @ (sigmoid(o) * np.tanh(c)), -0.2, 0.2)
                states.append(h + x if number else h)
            own[k] = np.stack(states[::-1] if k else states)
        layers.append(np.concatenate(own, 1))
    return layers


def test_every_layer_is_the_papers(elmo: Elmo) -> None:
    encoded = elmo(inputs(), keep_layers=True)
    start = 0
    for ids in IDS:
        for found, expected in zip(encoded.layers, by_hand(elmo, ids), strict=True):
            own = found[start : start + len(ids)].detach().numpy()
            np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)
        start += len(ids)


def test_one_direction_is_the_left_half_of_both(elmo: Elmo) -> None:
    one = Elmo(replace(CONFIG, direction="forward")).double()
    state = elmo.state_dict()
    one.load_state_dict({name: state[name] for name in one.state_dict()})
    torch.testing.assert_close(one(inputs()).last, elmo(inputs()).last[:, : CONFIG.projection_dim])


def test_tokens_are_spelled_by_their_bytes() -> None:
    assert character_ids("aé", 7) == [258, 97, 195, 169, 259, 260, 260]
    assert character_ids("abcdefgh", 5) == [258, 97, 98, 99, 259]
    assert character_ids(256, 4) == [258, 256, 259, 260]


def test_what_a_token_is_beside_does_not_change_its_layer_0(elmo: Elmo) -> None:
    """Convolutions are over the longest token of a batch, not over all C bytes."""
    together = elmo(inputs([[3, 7]]), top=0).last
    torch.testing.assert_close(elmo(inputs([[3]]), top=0).last, together[:1])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("projection", [0, 4])
def test_an_lstm_that_never_clips_is_pytorchs(direction: str, projection: int) -> None:
    torch.manual_seed(0)
    sequences = Sequences([6, 4, 1])
    x = torch.randn(11, 3, dtype=torch.float64, requires_grad=True)

    def run(clip: float) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(1)
        lstm = ClippedLstm(3, 5, direction, projection, clip, clip).double()
        states = lstm(x, sequences)
        weights = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).view_as(states)
        return states, list(torch.autograd.grad((states * weights).sum(), [x, *lstm.parameters()]))

    plain, loop = run(0.0), run(1e6)
    torch.testing.assert_close(loop[0], plain[0])
    torch.testing.assert_close(loop[1], plain[1])
    clipped, _ = run(0.1)
    assert clipped.abs().max() <= 0.1 < plain[0].abs().max()


def test_a_projection_is_narrower_than_the_cell() -> None:
    with pytest.raises(ConfigError, match=r"projection_dim.*7.*dim"):
        replace(CONFIG, projection_dim=CONFIG.dim)


def test_training_samples_the_softmax_and_evaluation_does_not() -> None:
    assert PRESETS["elmo"].negative_samples == 8192  # as published
    assert 0 < PRESETS["elmo-mini"].negative_samples < 8192
    chance = torch.Generator().manual_seed(0)
    batch: Any = SimpleNamespace(
        tokens=torch.randint(0, 40, (9,), generator=chance), positions=torch.arange(8)
    )
    encoded: Any = SimpleNamespace(last=torch.randn(9, 4, generator=chance))

    def losses(samples: int, training: bool) -> list[float]:
        torch.manual_seed(0)
        head = BothDirections(2, 40, both=True, samples=samples).train(training)
        found = [head(encoded, batch) for _ in range(2)]
        is_sampled = training and 0 < samples < 40
        assert [loss.correct is None for loss in found] == [is_sampled] * 2
        return [float(loss.total.detach()) for loss in found]

    whole = losses(0, training=True)
    assert whole[0] == whole[1]
    sampled = losses(8, training=True)
    assert sampled[0] != sampled[1]
    assert losses(8, training=False) == whole
    # drawing as many samples as there are tokens would cost more and give less
    assert losses(40, training=True) == losses(8192, training=True) == whole


def test_muon_does_not_move_the_tokens_that_were_not_drawn() -> None:
    torch.manual_seed(0)
    head = BothDirections(16, 300, both=False, samples=20)
    batch: Any = SimpleNamespace(tokens=torch.arange(9), positions=torch.arange(8))
    encoded: Any = SimpleNamespace(last=torch.randn(9, 16))
    optimizers = make_optimizers(head, OptimizerConfig(weight_decay=0.0))
    (group,) = optimizers.parts[1].param_groups
    assert [id(parameter) for parameter in group["params"]] == [id(head.output.weight)]
    before = head.output.weight.detach().clone()
    head(encoded, batch).total.backward()
    gradient = head.output.weight.grad
    assert gradient is not None
    optimizers.step()
    drawn, moved = gradient.any(1), (head.output.weight.detach() != before).any(1)
    assert 8 < int(drawn.sum()) < 40
    assert torch.equal(drawn, moved)


def test_samples_hold_the_last_word_that_stands_for_many() -> None:
    """Else its score grows above all others, as it is rarely a wrong answer."""
    torch.manual_seed(0)
    head = BothDirections(2, 40, both=False, samples=4)
    odds = torch.cat([0.6 * torch.ones(39) / 39, torch.tensor([0.4])])
    nn.init.zeros_(head.output.weight)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.03)
    losses = []
    for step in range(400):
        tokens = torch.multinomial(odds, 65, replacement=True)
        batch: Any = SimpleNamespace(tokens=tokens, positions=torch.arange(64))
        encoded: Any = SimpleNamespace(last=torch.zeros(65, 2))
        if step >= 300:
            head.eval()
            losses.append(float(head(encoded, batch).total.detach()) / 64)
            head.train()
        optimizer.zero_grad()
        head(encoded, batch).total.backward()
        optimizer.step()
    entropy = -float((odds * odds.log()).sum())
    assert sum(losses) / len(losses) < entropy + 0.25
