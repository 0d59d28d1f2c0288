"""Greedy, sampling and beam search over a decoder whose probabilities are a written table."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.decoding.search import (
    Row,
    RowsInFlight,
    beam_steps,
    best_of,
    draw,
    finish,
    penalize,
)
from bertwright.errors import ConfigError
from bertwright.models.ngram.encoder import LastTokens

V, END = 5, 4


class Chain:
    """The next token depends on the last two; a state is what was read."""

    def __init__(self, seed: int) -> None:
        self.table = torch.randn(V, V, V, generator=torch.Generator().manual_seed(seed)) * 2
        self.rows = 0

    def begin(self, source: list[list[int]]) -> tuple[Tensor, LastTokens]:
        state = torch.tensor([ids[-2:] for ids in source])
        return self._logits(state), LastTokens(state)

    def advance(self, ids: Tensor, state: LastTokens) -> tuple[Tensor, LastTokens]:
        read = torch.stack([state.ids[:, 1], ids], 1)
        self.rows += len(ids)
        return self._logits(read), LastTokens(read)

    def _logits(self, state: Tensor) -> Tensor:
        return self.table[state[:, 0], state[:, 1]].clone()

    def best(self, prompt: list[int], limit: int, penalty: float) -> tuple[float, list[int]]:
        """The best of all texts of at most `limit` tokens, by trying them all."""
        found = []
        for length in range(1, limit + 1):
            for ids in itertools.product(range(V), repeat=length):
                if END in ids[:-1] or (length < limit and ids[-1] != END):
                    continue
                score, read = 0.0, prompt
                for token in ids:
                    score += float(self.table[read[-2], read[-1]].log_softmax(0)[token])
                    read = [*read, token]
                kept = list(ids[:-1]) if ids[-1] == END else list(ids)
                found.append((score / length**penalty, kept))
        return max(found)


PROMPTS = [[0, 1], [3, 2], [2, 2]]


def run(chain: Chain, rows: list[Row], prompts: list[list[int]] = PROMPTS) -> None:
    flight = RowsInFlight(chain, {END})
    flight.add(prompts, [[row] for row in rows])
    while len(flight):
        flight.step()


def test_greedy_takes_the_most_probable_until_the_end() -> None:
    for seed in range(5):
        chain = Chain(seed)
        rows = [Row(GenerationConfig(), 7) for _ in PROMPTS]
        run(chain, rows)
        for prompt, row in zip(PROMPTS, rows, strict=True):
            read = list(prompt)
            while len(read) < 9 and (token := int(chain.table[read[-2], read[-1]].argmax())) != END:
                read.append(token)
            assert row.ids == read[2:]
            assert row.reason == ("length" if len(read) == 9 else "stop")
        # a row that ended is not computed again
        assert chain.rows == sum(len(row.ids) - (row.reason == "length") for row in rows)


def test_a_sample_does_not_depend_on_its_neighbours() -> None:
    chain, config = Chain(0), GenerationConfig(sample=True, seed=3)
    together = [Row(config, 9, number=n) for n in range(3)]
    run(chain, together)
    for number, prompt in enumerate(PROMPTS):
        alone = Row(config, 9, number=number)
        run(chain, [alone], [prompt])
        assert alone.ids == together[number].ids


def test_rows_join_at_any_step() -> None:
    chain = Chain(2)
    first, second, third = (Row(GenerationConfig(), 6) for _ in range(3))
    flight = RowsInFlight(chain, {END})
    flight.add(PROMPTS[:1], [[first]])
    flight.step()
    flight.step()
    flight.add(PROMPTS[1:], [[second], [third]])
    while len(flight):
        flight.step()
    rows = [Row(GenerationConfig(), 6) for _ in range(3)]
    run(chain, rows)
    assert [first.ids, second.ids, third.ids] == [row.ids for row in rows]


@pytest.mark.slow
def test_draws_have_the_probabilities_of_the_settings() -> None:
    logits = torch.tensor([1.0, 0.2, 2.0, -1.0, 0.9])

    def frequencies(**settings: float) -> Tensor:
        row = Row(GenerationConfig(sample=True, **settings), 1)
        drawn = Counter(draw(logits, row.config, row.random) for _ in range(3000))
        return torch.tensor([drawn[n] / 3000 for n in range(V)])

    p = logits.softmax(0)
    torch.testing.assert_close(frequencies(), p, atol=0.03, rtol=0)
    cold = (logits / 0.5).softmax(0)
    torch.testing.assert_close(frequencies(temperature=0.5), cold, atol=0.03, rtol=0)
    two = torch.where(torch.tensor([1, 0, 1, 0, 0]) > 0, p, 0.0)
    torch.testing.assert_close(frequencies(top_k=2), two / two.sum(), atol=0.03, rtol=0)
    # 0.49, 0.18, 0.16 reach 0.8 together, and not without the third
    three = torch.where(torch.tensor([1, 0, 1, 0, 1]) > 0, p, 0.0)
    torch.testing.assert_close(frequencies(top_p=0.8), three / three.sum(), atol=0.03, rtol=0)
    assert frequencies(top_p=0.01)[2] == 1


def test_a_nucleus_wider_than_what_is_sorted_first() -> None:
    config = GenerationConfig(sample=True, top_p=0.999)
    row = Row(config, 1)
    drawn = {draw(torch.zeros(3000), config, row.random) for _ in range(500)}
    assert max(drawn) > 2000


def test_the_repetition_penalty_is_the_published_one() -> None:
    x = torch.tensor([2.0, -1.0, 3.0])
    torch.testing.assert_close(penalize(x, [0, 1, 1], 2.0), torch.tensor([1.0, -2.0, 3.0]))


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
def test_a_wide_beam_finds_the_best_text(penalty: float) -> None:
    for seed in range(4):
        chain = Chain(seed)
        limits = [3, 4, 2]
        found = finish(
            beam_steps(chain, PROMPTS, {END}, limits, beam=V**4, norm=lambda n: n**penalty)
        )
        for prompt, limit, of_source in zip(PROMPTS, limits, found, strict=True):
            score, ids = chain.best(prompt, limit, penalty)
            assert of_source[0].ids == ids
            assert math.isclose(of_source[0].score, score, abs_tol=1e-5)


def test_beams_of_a_source_do_not_depend_on_the_others() -> None:
    chain = Chain(7)
    together = finish(beam_steps(chain, PROMPTS, {END}, [6, 6, 6], beam=3))
    for number, prompt in enumerate(PROMPTS):
        alone = finish(beam_steps(chain, [prompt], {END}, [6], beam=3))
        assert alone == [together[number]]


def test_settings_that_contradict_each_other() -> None:
    for settings, message in (
        ({"beam": 0}, "beam is 0"),
        ({"top_k": 3}, "--sample"),
        ({"beam": 2, "sample": True}, "sample"),
        ({"beam": 2, "stop": ("a",)}, "stop"),
        ({"beam": 2, "repetition_penalty": 1.2}, "repetition_penalty"),
        ({"num": 3}, "--beam 3"),
        ({"stop": ("",)}, "empty"),
    ):
        with pytest.raises(ConfigError, match=message):
            GenerationConfig(**settings)


@pytest.mark.parametrize("vocabulary", [40, 512, 1003])
def test_the_best_of_all_beams(vocabulary: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    p = torch.randn(6, vocabulary, generator=generator)
    p[1, -1] = p[1, 0] = p[4, -1] = 9.0  # in the last part, and behind it
    p[2, 7:] = -torch.inf
    scores = torch.randn(3, 2, generator=generator)
    for count in (1, 6):
        sums, beams, tokens = best_of(p, scores, count)
        every = (p.view(3, 2, -1) + scores[:, :, None]).flatten(1)
        expected = every.topk(count)
        assert torch.equal(sums, expected.values)
        assert torch.equal(every.gather(1, beams * vocabulary + tokens), sums)
        assert all(len(set(row)) == count for row in (beams * vocabulary + tokens).tolist())
