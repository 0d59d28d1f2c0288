"""Attention over packed sequences: the formula, its gradient, its bounds, its dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.gpu.device import plain_attention
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer import blocks
from bertwright.nn.transformer.attention import CrossAttention, SelfAttention, attend

HEADS, HEAD = 3, 5
HIDDEN = HEADS * HEAD
LENGTHS = [7, 4, 4, 4, 2, 1, 6]


def apart(
    q: Tensor, k: Tensor, v: Tensor, own: list[int], theirs: list[int], causal: bool
) -> Tensor:
    """The formula, one sequence at a time."""
    each = zip(q.split(own), k.split(theirs), v.split(theirs), strict=True)
    return torch.cat([plain_attention(*one, causal).flatten(1) for one in each])


def by_formula(
    qkv: Tensor,
    heads: int,
    lengths: list[int],
    causal: bool = False,
    prefixes: Sequence[int | None] = (),
    reach: int = -1,
    bias: Tensor | None = None,
) -> Tensor:
    """The same of sequences to themselves, with a bias `[A, T, T]` at each pair of positions."""
    rows = []
    each = qkv.view(len(qkv), 3, heads, -1).split(lengths)
    for x, prefix in zip(each, prefixes or [None] * len(lengths), strict=True):
        added = None if bias is None else bias[:, : len(x), : len(x)]
        rows.append(plain_attention(*x.unbind(1), causal, prefix, reach, added).flatten(1))
    return torch.cat(rows)


def parts_of(qkv: Tensor, heads: int) -> list[Tensor]:
    """Queries, keys and values of rows `[N, 3 H]`."""
    return [qkv.view(len(qkv), 3, heads, -1)]


def make_qkv(lengths: list[int], dtype: torch.dtype = torch.float64) -> Tensor:
    chance = torch.Generator().manual_seed(1)
    return torch.randn(sum(lengths), 3 * HIDDEN, dtype=dtype, generator=chance)


def blocks_of(sequences: Sequences) -> list[blocks.Block]:
    return blocks.make_blocks(sequences, sequences, HEADS, causal=False, window=None, exact=False)


NEARLY_EQUAL = [20, 20, 19, 18, 18, 17, 9, 8, 8, 3, 3, 1, 12, 13, 11]


def test_nearly_equal_lengths_share_a_block() -> None:
    sequences = Sequences(NEARLY_EQUAL)
    groups = [block.queries.group for block in blocks_of(sequences)]
    assert len(groups) < len(sequences.groups)
    assert [each.start for each in groups[1:]] == [each.stop for each in groups[:-1]]
    assert sum(each.count for each in groups) == len(NEARLY_EQUAL)


def test_blocks_fit_the_cache_and_are_hardly_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4 * HEADS * 20 * 20)
    monkeypatch.setattr(blocks, "SPARE", 0)
    for block in blocks_of(Sequences([20] * 6 + NEARLY_EQUAL)):
        count, longest = block.queries.group.count, block.queries.group.length
        assert HEADS * count * longest**2 <= blocks.BLOCK
        assert count * longest <= 1.2 * (block.queries.group.stop - block.queries.group.start)


def test_short_sequences_share_a_block_whatever_their_lengths() -> None:
    short, long = [17, 9, 4, 1], [200, 120]
    assert len(blocks_of(Sequences(short))) == 1
    assert len(blocks_of(Sequences(long))) == 1  # 80 empty places
    assert len(blocks_of(Sequences([900, 500]))) == 2


def test_models_of_other_heads_may_read_the_same_batch() -> None:
    lengths = [7, 6, 6]  # one block
    qkv, sequences = make_qkv(lengths), Sequences(lengths)
    for heads in (3, 5):
        rows = attend(parts_of(qkv, heads), sequences)
        torch.testing.assert_close(rows, by_formula(qkv, heads, lengths), rtol=0, atol=1e-12)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.sampled_from([1.0, 1.2, 3.0]),
    st.sampled_from([2 * HEADS * 36, 1 << 21]),
    st.booleans(),
    st.sampled_from([0.0, 1e-15]),
)
def test_any_lengths_in_any_blocks_are_the_formula(
    lengths: list[int], near: float, block: int, causal: bool, dropout: float
) -> None:
    ours, plain = make_qkv(lengths).requires_grad_(), make_qkv(lengths).requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "NEAR", near)
        patch.setattr(blocks, "BLOCK", block)
        found = attend(parts_of(ours, HEADS), Sequences(lengths), causal=causal, dropout=dropout)
    expected = by_formula(plain, HEADS, lengths, causal)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    upstream = torch.randn(found.shape, dtype=torch.float64)
    found.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, plain.grad, rtol=0, atol=1e-10)


def test_nothing_attends_across_a_bound() -> None:
    qkv = make_qkv(LENGTHS)
    changed = qkv.clone()
    changed[:7] += 1.0  # the first sequence
    sequences = Sequences(LENGTHS)
    before, after = (attend(parts_of(x, HEADS), sequences) for x in (qkv, changed))
    assert torch.equal(before[7:], after[7:])
    assert not torch.allclose(before[:7], after[:7])


@pytest.mark.parametrize("exact", [True, False])
def test_dropped_probabilities_keep_their_mean(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By groups of equal lengths, and by the blocks of a GPU, which have padding rows."""
    lengths = [6, 4, 4]
    sequences = Sequences(lengths)
    if not exact:
        monkeypatch.setattr(blocks, "blocks_of", lambda *_, **__: blocks_of(sequences))
        assert len(blocks_of(sequences)) == 1
    qkv = make_qkv(lengths, torch.float32)
    torch.manual_seed(0)
    many = torch.stack([attend(parts_of(qkv, HEADS), sequences, dropout=0.3) for _ in range(500)])
    expected = attend(parts_of(qkv, HEADS), sequences)
    error = many.std(0) / math.sqrt(500)
    assert ((many.mean(0) - expected).abs() < 5.5 * error).all()
    assert many.std(0).min() > 0


def test_dropout_rests_in_eval_mode() -> None:
    layer = SelfAttention(HIDDEN, HEADS, dropout=0.5).eval()
    x = torch.randn(sum(LENGTHS), HIDDEN)
    sequences = Sequences(LENGTHS)
    assert torch.equal(layer(x, sequences), layer(x, sequences))
    layer.train()
    assert not torch.equal(layer(x, sequences), layer(x, sequences))


def test_second_derivatives() -> None:
    sequences = Sequences([3, 3, 2])  # one block of unequal lengths
    qkv = torch.randn(8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert torch.autograd.gradgradcheck(
        lambda x: attend(parts_of(x, 2), sequences), (qkv.requires_grad_(),)
    )


OWN, THEIRS = [5, 4, 4, 1, 2], [3, 6, 6, 2, 1]


def make_apart(own: list[int], theirs: list[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    shapes = [(sum(own), HEADS, HEAD), (sum(theirs), HEADS, HEAD), (sum(theirs), HEADS, HEAD)]
    made = [torch.randn(each, dtype=torch.float64, generator=generator) for each in shapes]
    return [each.requires_grad_() for each in made]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_queries_over_other_keys(
    pairs: list[tuple[int, int]], causal: bool, through_dropout: bool
) -> None:
    own, theirs = [t for t, _ in pairs], [t + more for t, more in pairs]
    if not causal:
        own, theirs = theirs, own
    ours, plain = make_apart(own, theirs), make_apart(own, theirs)
    dropout = 1e-15 if through_dropout else 0.0
    parts = [x[:, None] for x in ours]
    found = attend(parts, Sequences(own), Sequences(theirs), causal=causal, dropout=dropout)
    expected = apart(*plain, own, theirs, causal)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    upstream = torch.randn(found.shape, dtype=torch.float64)
    found.backward(upstream)
    expected.backward(upstream)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-10)


def test_a_cache_of_keys_gives_the_whole_pass() -> None:
    """The last queries of each sequence over all of its keys: what generation step by step does."""
    q, k, v = (x.detach() for x in make_apart(THEIRS, THEIRS))
    sequences, keys_values = Sequences(THEIRS), torch.stack([k, v], 1)
    whole = attend([q[:, None], keys_values], sequences, causal=True)
    ends = torch.tensor(sequences.offsets[1:]) - 1
    last = attend([q[ends, None], keys_values], Sequences([1] * 5), sequences, causal=True)
    torch.testing.assert_close(last, whole[ends], rtol=0, atol=1e-12)


def test_second_derivatives_of_attention_apart() -> None:
    own, theirs = Sequences([2, 1]), Sequences([1, 3])
    generator = torch.Generator().manual_seed(3)
    inputs = [
        torch.randn(n, 1, 2, 2, dtype=torch.float64, generator=generator, requires_grad=True)
        for n in (3, 4, 4)
    ]
    assert torch.autograd.gradgradcheck(lambda *x: attend([*x], own, theirs), inputs)


def test_cross_attention_reads_its_own_memory_alone() -> None:
    layer = CrossAttention(12, 3, key_size=7).double()
    x, memory = torch.randn(sum(OWN), 12).double(), torch.randn(sum(THEIRS), 7).double()
    found = layer(x, Sequences(OWN), memory, Sequences(THEIRS))
    assert found.shape == x.shape
    changed = memory.clone()
    changed[:3] += 1.0  # the first sequence's
    other = layer(x, Sequences(OWN), changed, Sequences(THEIRS))
    assert torch.equal(found[5:], other[5:])
    assert not torch.allclose(found[:5], other[:5])


def test_what_cannot_be() -> None:
    parts, one = [x[:, None] for x in make_apart([2], [1])], Sequences([1])
    with pytest.raises(ValueError, match="more queries than keys"):
        attend(parts, Sequences([2]), one, causal=True)
    with pytest.raises(ValueError, match=r"2 sequences.*1 "):
        attend(parts, Sequences([1, 1]), one)
    with pytest.raises(ValueError, match="local"):
        attend(parts, Sequences([2]), one, reach=1)


def test_probabilities_of_a_causal_layer() -> None:
    maps = SelfAttention(HIDDEN, HEADS, causal=True).probabilities(torch.randn(4, HIDDEN))
    assert maps.shape == (HEADS, 4, 4)
    assert not maps.triu(1).any()
    torch.testing.assert_close(maps.sum(-1), torch.ones(HEADS, 4))


@pytest.mark.parametrize("dropout", [0.0, 1e-12])
def test_a_prefix_is_seen_both_ways_and_the_rest_from_left_to_right(dropout: float) -> None:
    prefixes = [3, 4, 1, 2, 1, 1, 5]
    qkv, plain = make_qkv(LENGTHS).requires_grad_(), make_qkv(LENGTHS).requires_grad_()
    expected = by_formula(plain, HEADS, LENGTHS, prefixes=prefixes)
    ours = attend(parts_of(qkv, HEADS), Sequences(LENGTHS, prefixes=prefixes), dropout=dropout)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-11)
    upstream = torch.randn(sum(LENGTHS), HIDDEN, dtype=torch.float64)
    ours.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(qkv.grad, plain.grad, rtol=0, atol=1e-10)


def test_what_is_causal_stays_so_with_a_prefix() -> None:
    qkv, prefixes = make_qkv(LENGTHS), [1] * len(LENGTHS)
    both = (Sequences(LENGTHS), Sequences(LENGTHS, prefixes=prefixes))
    plain, ours = (attend(parts_of(qkv, HEADS), each, causal=True) for each in both)
    torch.testing.assert_close(ours, plain)


# All in one block of unequal lengths; in chunks, the last of them short; and beyond every sequence.
@pytest.mark.parametrize(
    ("reach", "lengths"), [(5, [17, 15, 9, 4, 1]), (2, [17, 15, 9, 4, 1]), (3, LENGTHS), (9, [8])]
)
def test_local_attention_is_the_formula_with_its_gradient(reach: int, lengths: list[int]) -> None:
    qkv = make_qkv(lengths).requires_grad_()
    expected = by_formula(qkv, HEADS, lengths, reach=reach)
    for dropout in (0.0, 1e-9):  # which goes another way
        rows = qkv.view(len(qkv), 3, HEADS, -1)
        parts = [rows[:, :2], rows[:, 2:]]
        found = attend(parts, Sequences(lengths), reach=reach, dropout=dropout)
        torch.testing.assert_close(found, expected)
        upstream = torch.randn(found.shape, dtype=found.dtype)
        torch.testing.assert_close(
            *(
                torch.autograd.grad(x, qkv, upstream, retain_graph=True)[0]
                for x in (found, expected)
            )
        )


def test_a_bias_by_distance_has_a_gradient() -> None:
    bias = torch.randn(HEADS, 7, 7, dtype=torch.float64, requires_grad=True)
    qkv = make_qkv(LENGTHS).requires_grad_()
    expected = by_formula(qkv, HEADS, LENGTHS, bias=bias)
    for dropout in (0.0, 1e-9):
        found = attend(parts_of(qkv, HEADS), Sequences(LENGTHS), bias=bias, dropout=dropout)
        torch.testing.assert_close(found, expected)
        upstream = torch.randn(found.shape, dtype=found.dtype)
        ours = torch.autograd.grad(found, (qkv, bias), upstream, retain_graph=True)
        theirs = torch.autograd.grad(expected, (qkv, bias), upstream, retain_graph=True)
        torch.testing.assert_close(ours, theirs)
    second = []
    for each in (attend(parts_of(qkv, HEADS), Sequences(LENGTHS), bias=bias), expected):
        (first,) = torch.autograd.grad(each.square().sum(), bias, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), (qkv, bias)))
    torch.testing.assert_close(*second)


@pytest.mark.parametrize(("causal", "reach"), [(False, None), (True, None), (False, 1)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_the_fast_methods_use_the_probabilities_of_the_formula(
    causal: bool, reach: int | None, has_bias: bool
) -> None:
    """Attention maps are computed by the formula, one sequence at a time."""
    layer = SelfAttention(HIDDEN, HEADS, causal=causal).eval()
    layer.reach = reach
    if has_bias:
        slopes = torch.tensor([0.1, 0.4, -0.3])
        layer.bias_at = lambda distances: (distances[..., None] * slopes).movedim(-1, 0)
    x = torch.randn(sum(LENGTHS), HIDDEN, generator=torch.Generator().manual_seed(4))
    rows = []
    for part in x.split(LENGTHS):
        values = layer.qkv(part).view(len(part), 3, HEADS, -1)[:, 2].transpose(0, 1)  # [A, T, D]
        rows.append((layer.probabilities(part) @ values).transpose(0, 1).flatten(1))
    torch.testing.assert_close(layer.context(x, Sequences(LENGTHS)), torch.cat(rows))
