"""AWD-LSTM: torch's LSTM where nothing is dropped, and each kind of dropout as it is defined."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from bertwright.errors import ConfigError
from bertwright.models.awd_lstm.config import AwdLstmConfig
from bertwright.models.awd_lstm.encoder import AwdLstm
from bertwright.nn.encoder import Encoded
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.sequences import Inputs, Sequences

CONFIG = AwdLstmConfig(
    vocab_size=31,
    embedding_size=6,
    hidden_size=10,
    dropout_scale=0.0,
    activation_penalty=0.0,
    temporal_penalty=0.0,
)
LENGTHS = [7, 5, 5, 2]


def make(**over: float) -> tuple[AwdLstm, Inputs]:
    """A model in float64 in training, with only the dropouts that are given."""
    none = {name: 0.0 for name in CONFIG.__dataclass_fields__ if name.endswith("_dropout")}
    dropouts = {**none, "dropout_scale": 1.0} if over else {}
    model = AwdLstm(replace(CONFIG, **{**dropouts, **over}))
    model.reset_parameters(torch.Generator().manual_seed(0))
    ids = torch.randint(0, 31, (sum(LENGTHS),), generator=torch.Generator().manual_seed(1))
    return model.double().train(), Inputs(ids, Sequences(LENGTHS))


def test_without_dropout_it_is_torchs_lstm_one_sequence_at_a_time() -> None:
    model, inputs = make()
    found = model(inputs).last
    found.square().sum().backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    layers = []
    for below, width, own in zip((6, 10, 10), (10, 10, 6), model.layers, strict=True):
        layers.append(nn.LSTM(below, width).double())
        layers[-1].load_state_dict(own.lstm.state_dict())
    parts = []
    for ids in inputs.ids.split(LENGTHS):
        x = model.embeddings(ids)[:, None]
        for layer in layers:
            x = layer(x)[0]
        parts.append(x[:, 0])
    expected = torch.cat(parts)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.pop("embeddings.weight"), model.embeddings.weight.grad)
    for number, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            torch.testing.assert_close(ours.pop(f"layers.{number}.lstm.{name}"), parameter.grad)
    assert not ours


def by_hand(lstm: nn.LSTM, recurrent: Tensor, x: Tensor) -> Tensor:
    """The equations of an LSTM, with other recurrent weights: x `[T, F]` -> `[T, width]`."""
    h = c = x.new_zeros(lstm.hidden_size)
    states = []
    for row in x:
        gates = lstm.weight_ih_l0 @ row + lstm.bias_ih_l0 + recurrent @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


@pytest.mark.parametrize("lengths", [LENGTHS, [9, 9]])
def test_weight_dropout_is_one_mask_of_the_recurrent_weights(lengths: list[int]) -> None:
    model, inputs = make(weight_dropout=0.4)
    layer = model.layers[0]
    x = model.embeddings(inputs.ids)[: sum(lengths)].detach()
    torch.manual_seed(5)
    found = layer(x, lengths)
    found.square().sum().backward()
    lstm = layer.lstm
    assert isinstance(lstm, nn.LSTM)
    ours = {name: p.grad.clone() for name, p in lstm.named_parameters()}
    lstm.zero_grad()
    torch.manual_seed(5)
    mask = layer.weight_dropout(torch.ones_like(lstm.weight_hh_l0))
    assert 0 < (mask == 0).sum() < mask.numel()
    parts = [by_hand(lstm, lstm.weight_hh_l0 * mask, part) for part in x.split(lengths)]
    torch.cat(parts).square().sum().backward()
    torch.testing.assert_close(found, torch.cat(parts))
    for name, parameter in lstm.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad)
    assert (ours["weight_hh_l0"][mask == 0] == 0).all()
    model.eval()
    whole = torch.cat([by_hand(lstm, lstm.weight_hh_l0, part) for part in x.split(lengths)])
    torch.testing.assert_close(layer(x, lengths), whole)


def test_embedding_dropout_takes_tokens_out_wherever_they_occur() -> None:
    model, inputs = make(embedding_dropout=0.5)
    inputs.ids[[1, 9, 16]] = inputs.ids[0].clone()
    torch.manual_seed(2)
    rows = model(inputs, top=0).last
    kept = rows.abs().sum(1) > 0
    assert 0 < kept.sum() < len(kept)
    for token in inputs.ids.unique():
        assert len(kept[inputs.ids == token].unique()) == 1
    torch.testing.assert_close(rows[kept], 2 * model.embeddings(inputs.ids)[kept])


@pytest.mark.parametrize("name", ["input_dropout", "hidden_dropout", "output_dropout"])
def test_a_mask_holds_for_a_whole_sequence(name: str) -> None:
    model, inputs = make(**{name: 0.5})
    torch.manual_seed(3)
    layers = model(inputs, keep_layers=True).layers
    dropped = {"input_dropout": (0,), "hidden_dropout": (1, 2), "output_dropout": (3,)}[name]
    for number, layer in enumerate(layers):
        zeros = [part == 0 for part in layer.split(LENGTHS)]
        if number not in dropped:
            assert not any(part.any() for part in zeros)
            continue
        assert all((part == part[0]).all() for part in zeros)
        assert any((part[0] != zeros[0][0]).any() for part in zeros)


def test_penalties_change_gradients_and_not_the_loss() -> None:
    torch.manual_seed(0)
    head = NextToken(4, 9, penalties=(0.7, 0.3)).double()
    x = torch.randn(sum(LENGTHS), 4, dtype=torch.float64, requires_grad=True)
    at = torch.tensor([2, 3, 7, 8, 12, 17])  # 7, 12 and 17 begin their sequences
    tokens = torch.randint(0, 9, (sum(LENGTHS),))
    batch = SimpleNamespace(positions=at, tokens=tokens)
    encoded = Encoded(Sequences(LENGTHS), x)
    loss = head(encoded, batch)
    plain = head.eval()(encoded, batch)
    assert torch.equal(loss.total, plain.total)
    assert loss.count == plain.count == len(at)
    penalty = 0.7 * sum(x[i].square().mean() for i in at)
    penalty = penalty + 0.3 * sum((x[i] - x[i - 1]).square().mean() for i in (2, 3, 8))
    (found,) = torch.autograd.grad(loss.total, x)
    (expected,) = torch.autograd.grad(plain.total + penalty, x)
    torch.testing.assert_close(found, expected)


def test_the_published_sizes() -> None:
    spec_of = AwdLstm(replace(AwdLstmConfig(), vocab_size=3)).spec
    assert spec_of.widths == (400, 1150, 1150, 400)
    with pytest.raises(ConfigError, match="dropout_scale"):
        replace(AwdLstmConfig(), dropout_scale=1.6)
