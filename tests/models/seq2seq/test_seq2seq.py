"""Sequence to sequence: the formula of the papers, token by token as all at once, gradients."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.checkpoint import make_learner
from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.models.seq2seq.config import Seq2SeqConfig
from bertwright.nn.encoder import Encoded
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_runs import SPECIAL, WORDS

V, E, H = 23, 5, 8
SOURCES, TARGETS = [7, 5, 5, 2], [3, 6, 4, 1]
KINDS = list(product(("additive", "multiplicative", "none"), (True, False)))


def make(attention: str, feeds: bool, layers: int = 2) -> Learner:
    config = Seq2SeqConfig(V, E, H, layers, attention, feeds, 0.0)
    learner = make_learner(config, ["translation"]).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2
    return learner.eval()


def inputs(lengths: list[int], seed: int) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    return Inputs(torch.randint(V, (sum(lengths),), generator=generator), Sequences(lengths))


def cell(module: torch.nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    gates = module.weight_ih @ x + module.bias_ih + module.weight_hh @ h + module.bias_hh
    i, f, g, o = gates.split(H)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def by_hand(learner: Learner, memory: Tensor, target: list[int]) -> Tensor:
    """`[T, E]` of one pair by the formula, memory `[S, H]`."""
    decoder = learner.objectives["translation"].decoder
    config = learner.encoder.config
    ends = torch.cat([memory[-1, : H // 2], memory[0, H // 2 :]])
    first = (decoder.initial.weight @ ends + decoder.initial.bias).tanh().split(H)
    states = [(first[0], first[1]), (first[2], first[3])]
    fed, found = torch.zeros(E).double(), []
    for token in target:
        x = learner.encoder.embeddings.weight[token]
        x = torch.cat([x, fed]) if config.input_feeding else x
        for layer, module in enumerate(decoder.cells):
            states[layer] = cell(module, x, *states[layer])
            x = states[layer][0]
        context = torch.zeros(0).double()
        if config.attention != "none":
            attention = decoder.attention
            scores = []
            for m in memory:
                key = attention.keys.weight @ m
                if config.attention == "additive":
                    scores.append(
                        attention.score.weight[0] @ (attention.query.weight @ x + key).tanh()
                    )
                else:
                    scores.append(x @ key)
            context = torch.stack(scores).softmax(0) @ memory
        fed = (decoder.output.weight @ torch.cat([context, x])).tanh()
        found.append(fed)
    return torch.stack(found)


@pytest.mark.parametrize(("attention", "feeds"), KINDS)
def test_the_formula(attention: str, feeds: bool) -> None:
    learner, source, target = make(attention, feeds), inputs(SOURCES, 2), inputs(TARGETS, 3)
    memory = learner.encoder(source)
    found = learner.objectives["translation"].decoder(memory, target)
    parts = zip(
        memory.last.split(SOURCES), target.ids.split(TARGETS), found.split(TARGETS), strict=True
    )
    for own, ids, x in parts:
        torch.testing.assert_close(x, by_hand(learner, own, ids.tolist()))


@pytest.mark.parametrize(("attention", "feeds"), KINDS)
def test_token_by_token_is_all_at_once(attention: str, feeds: bool) -> None:
    learner, source, target = make(attention, feeds), inputs(SOURCES, 2), inputs([4] * 4, 3)
    decoder = learner.objectives["translation"].decoder
    memory = learner.encoder(source)
    whole = decoder(memory, target).view(4, 4, E)
    state = decoder.begin(memory)
    ids = target.ids.view(4, 4)
    rows = torch.arange(4)
    for position in range(4):
        x, state = decoder.advance(ids[rows, position], state)
        torch.testing.assert_close(x, whole[rows, position])
        chosen = torch.tensor([3, 1, 1, 0, 2])[: 5 - position]  # rows go, and some are there twice
        rows, state = rows[chosen % len(rows)], state.select(chosen % len(rows))


@pytest.mark.parametrize("attention", ["additive", "multiplicative", "none"])
def test_gradients_are_differences(attention: str) -> None:
    learner = make(attention, True, 1)
    source, target = inputs([3, 2], 2), inputs([1, 3], 3)
    decoder = learner.objectives["translation"].decoder
    upstream = torch.randn(4, E, generator=torch.Generator().manual_seed(4)).double()

    def loss() -> Tensor:
        return (decoder(learner.encoder(source), target) * upstream).sum()

    loss().backward()
    for name, parameter in learner.named_parameters():
        if parameter.grad is None:
            assert name == "objectives.translation.bias"
            continue
        direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5))
        direction = direction.double()
        with torch.no_grad():
            parameter += 1e-5 * direction
            above = loss()
            parameter -= 2e-5 * direction
            below = loss()
            parameter += 1e-5 * direction
        expected = (above - below) / 2e-5
        torch.testing.assert_close(
            (parameter.grad * direction).sum(), expected, rtol=1e-4, atol=1e-7
        )


def test_attention_of_a_pair() -> None:
    learner = make("additive", True)
    decoder = learner.objectives["translation"].decoder
    memory: Encoded = learner.encoder(inputs([6], 2))
    own, (over,) = decoder.attention_maps(memory, inputs([4], 3))
    assert own == []
    assert over.shape == (1, 4, 6)
    torch.testing.assert_close(over.sum(2), torch.ones(1, 4).double())
    without = make("none", True)
    decoder = without.objectives["translation"].decoder
    assert decoder.attention_maps(without.encoder(inputs([6], 2)), inputs([4], 3)) == ([], [])


def test_it_translates_and_shows_attention(tmp_path: Path) -> None:
    make_tokenizer([*SPECIAL, *WORDS]).save(tmp_path / "tokenizer")
    config = Seq2SeqConfig(len(SPECIAL) + len(WORDS), 6, 8, 1)
    learner = make_learner(config, ["translation"])
    for parameter in learner.parameters():
        parameter.data = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    (tmp_path / "model").mkdir()
    checkpoint.save(tmp_path / "model", learner, tmp_path / "tokenizer", "a card")
    model = load(tmp_path / "model")
    texts = ["ba be bi", "fu", "", "do ga ke mi no pu ba"]
    found = model.translate(texts, beam=3, max_length=7)
    assert [each.source for each in found] == texts
    for text, each in zip(texts, found, strict=True):
        (alone,) = model.translate(text, beam=3, max_length=7)
        assert alone.text == each.text
    low = load(tmp_path / "model", precision="bf16").translate(texts, max_length=7)
    assert [each.source for each in low] == texts
    (maps,) = model.attention(("ba be", "fu ga"))
    assert (maps.name, maps.weights.shape) == ("encoder-decoder", (1, 1, 3, 4))
    (maps,) = model.attention("ba be")  # over its own translation
    assert maps.columns == ["[CLS]", "ba", "be", "[SEP]"]


def test_settings() -> None:
    with pytest.raises(ConfigError, match="even number"):
        Seq2SeqConfig(hidden_size=7)
