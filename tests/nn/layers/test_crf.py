"""The CRF against every path written out."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertwright.nn.layers.crf import Crf


def make(tags: int, counts: list[int], seed: int) -> tuple[Crf, Tensor, Tensor]:
    """A CRF of random weights, scores and labels."""
    chance = torch.Generator().manual_seed(seed)
    crf = Crf(tags)
    for parameter in crf.parameters():
        parameter.data.normal_(0.0, 1.5, generator=chance)
    scores = torch.randn(sum(counts), tags, generator=chance) * 2
    labels = torch.randint(0, tags, (sum(counts),), generator=chance)
    return crf, scores, labels


def path_score(crf: Crf, scores: Tensor, path: tuple[int, ...]) -> Tensor:
    """s(y), term by term."""
    score = crf.start[path[0]] + crf.end[path[-1]]
    for place, tag in enumerate(path):
        score = score + scores[place, tag]
    for before, after in pairwise(path):
        score = score + crf.transitions[before, after]
    return score


def examples(
    crf: Crf, scores: Tensor, counts: list[int]
) -> Iterator[tuple[slice, list[tuple[int, ...]], Tensor]]:
    """Of each example that has words: its rows, all its paths, and their scores."""
    start = 0
    for count in counts:
        rows = slice(start, start + count)
        start += count
        if count:
            paths = list(product(range(scores.shape[1]), repeat=count))
            yield rows, paths, torch.stack([path_score(crf, scores[rows], p) for p in paths])


RAGGED = st.lists(st.integers(0, 4), min_size=1, max_size=5)
SOME = settings(max_examples=25)


@given(st.integers(1, 3), RAGGED, st.integers(0, 99))
@SOME
def test_likelihood_and_gradients(tags: int, counts: list[int], seed: int) -> None:
    crf, scores, labels = make(tags, counts, seed)
    scores.requires_grad_()
    inputs = [scores, *crf.parameters()]
    ours = crf.log_likelihood(scores, labels, counts)
    expected = torch.zeros(len(counts))
    with_words = [number for number, count in enumerate(counts) if count]
    for number, (rows, paths, all_scores) in zip(
        with_words, examples(crf, scores, counts), strict=True
    ):
        gold = all_scores[paths.index(tuple(labels[rows].tolist()))]
        expected = expected.index_add(
            0, torch.tensor([number]), (gold - all_scores.logsumexp(0))[None]
        )
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    if not with_words:
        return
    # Each example with a weight of its own, so that none can stand for another.
    share = torch.arange(1.0, len(counts) + 1)
    our_gradients = torch.autograd.grad((share * ours).sum(), inputs)
    gradients = torch.autograd.grad((share * expected).sum(), inputs, allow_unused=True)
    for gradient, other in zip(our_gradients, gradients, strict=True):
        other = torch.zeros_like(gradient) if other is None else other
        torch.testing.assert_close(gradient, other, rtol=1e-5, atol=1e-5)


@given(st.integers(1, 3), RAGGED, st.integers(0, 99))
@SOME
def test_decoding_and_probabilities(tags: int, counts: list[int], seed: int) -> None:
    crf, scores, _ = make(tags, counts, seed)
    best = crf.decode(scores, counts)
    assert best.shape == (sum(counts),)
    assert best.dtype == torch.int64
    with torch.no_grad():
        ours = crf.probabilities(scores, counts)
    assert not ours.requires_grad
    for rows, paths, all_scores in examples(crf, scores, counts):
        assert tuple(best[rows].tolist()) == paths[int(all_scores.argmax())]
        expected = torch.zeros(rows.stop - rows.start, tags)
        for path, share in zip(paths, all_scores.detach().softmax(0), strict=True):
            for place, tag in enumerate(path):
                expected[place, tag] += share
        torch.testing.assert_close(ours[rows], expected, rtol=1e-5, atol=1e-5)


def test_starts_as_independent_tags() -> None:
    scores = torch.randn(9, 5)
    labels = torch.randint(0, 5, (9,))
    crf = Crf(5)
    alone = scores.log_softmax(1).gather(1, labels[:, None])[:, 0]
    expected = torch.stack([part.sum() for part in alone.split([4, 5])])
    torch.testing.assert_close(crf.log_likelihood(scores, labels, [4, 5]), expected)
    torch.testing.assert_close(crf.probabilities(scores, [4, 5]), scores.softmax(1))
    assert torch.equal(crf.decode(scores, [4, 5]), scores.argmax(1))


def test_float32_under_autocast() -> None:
    crf, scores, labels = make(4, [60, 30], 1)
    expected = crf.log_likelihood(scores, labels, [60, 30])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = crf.log_likelihood(scores, labels, [60, 30])
        tags = crf.decode(scores, [60, 30])
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, expected)
    assert torch.equal(tags, crf.decode(scores, [60, 30]))
    assert crf.log_likelihood(scores.bfloat16(), labels, [60, 30]).dtype == torch.float32
    narrow, rows = copy.deepcopy(crf).bfloat16(), scores.bfloat16()
    wide = copy.deepcopy(narrow).float()
    assert torch.equal(narrow.decode(rows, [60, 30]), wide.decode(rows.float(), [60, 30]))


def test_probabilities_in_inference_mode() -> None:
    crf, scores, _ = make(4, [3, 6], 1)
    expected = crf.probabilities(scores, [3, 6])
    with torch.inference_mode():
        torch.testing.assert_close(crf.probabilities(scores * 1, [3, 6]), expected)


@pytest.mark.parametrize("counts", [[], [0], [0, 0]])
def test_no_words(counts: list[int]) -> None:
    crf, scores, labels = make(3, counts, 0)
    assert torch.equal(crf.log_likelihood(scores, labels, counts), torch.zeros(len(counts)))
    assert crf.decode(scores, counts).shape == (0,)
    assert crf.probabilities(scores, counts).shape == (0, 3)


def test_a_long_example_stays_finite() -> None:
    crf, scores, labels = make(5, [2000], 3)
    scores = scores * 30
    with torch.no_grad():
        likelihood = crf.log_likelihood(scores, labels, [2000])
        best = crf.log_likelihood(scores, crf.decode(scores, [2000]), [2000])
    assert likelihood.isfinite().all()
    assert likelihood < best
    assert best <= 0.5
