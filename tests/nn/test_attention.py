"""Attention over packed sequences: the formula, its gradient, its bounds, its dropout."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bertwright.nn import attention
from bertwright.nn.attention import SelfAttention, attend
from bertwright.nn.sequences import Sequences

HEADS, HEAD = 3, 5
HIDDEN = HEADS * HEAD
LENGTHS = [7, 4, 4, 4, 2, 1, 6]


def by_formula(qkv: Tensor, heads: int, lengths: list[int]) -> Tensor:
    """softmax(Q K^T / sqrt(D)) V, one sequence and one head at a time."""
    rows = []
    for part in qkv.split(lengths):
        q, k, v = (x.unflatten(1, (heads, -1)) for x in part.chunk(3, dim=1))  # [T, A, D]
        heads_out = []
        for head in range(heads):
            scores = q[:, head] @ k[:, head].T / math.sqrt(q.shape[-1])
            heads_out.append(torch.softmax(scores, dim=1) @ v[:, head])
        rows.append(torch.cat(heads_out, dim=1))
    return torch.cat(rows)


def make_qkv(lengths: list[int], dtype: torch.dtype = torch.float64) -> Tensor:
    chance = torch.Generator().manual_seed(1)
    return torch.randn(sum(lengths), 3 * HIDDEN, dtype=dtype, generator=chance)


@pytest.mark.parametrize("lengths", [LENGTHS, [1], [9], [3, 3, 3]])
def test_equals_the_formula(lengths: list[int]) -> None:
    qkv = make_qkv(lengths)
    ours = attend(qkv, HEADS, Sequences(lengths))
    torch.testing.assert_close(ours, by_formula(qkv, HEADS, lengths), rtol=0, atol=1e-12)


def test_gradient_equals_the_formulas() -> None:
    ours, plain = make_qkv(LENGTHS).requires_grad_(), make_qkv(LENGTHS).requires_grad_()
    upstream = torch.randn(sum(LENGTHS), HIDDEN, dtype=torch.float64)
    attend(ours, HEADS, Sequences(LENGTHS)).backward(upstream)
    by_formula(plain, HEADS, LENGTHS).backward(upstream)
    torch.testing.assert_close(ours.grad, plain.grad, rtol=0, atol=1e-12)


def test_gradcheck() -> None:
    lengths = [3, 2, 2, 1]
    sequences = Sequences(lengths)
    qkv = torch.randn(8, 3 * 2 * 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: attend(x, 2, sequences), (qkv,))


NEARLY_EQUAL = [20, 20, 19, 18, 18, 17, 9, 8, 8, 3, 3, 1, 12, 13, 11]


def test_nearly_equal_lengths_share_a_block_and_change_nothing() -> None:
    sequences = Sequences(NEARLY_EQUAL)
    blocks = attention._blocks(sequences, HEADS)
    assert len(blocks) < len(sequences.groups)
    assert [b.group.start for b in blocks[1:]] == [b.group.stop for b in blocks[:-1]]
    assert sum(block.group.count for block in blocks) == len(NEARLY_EQUAL)
    ours, plain = make_qkv(NEARLY_EQUAL).requires_grad_(), make_qkv(NEARLY_EQUAL).requires_grad_()
    upstream = torch.randn(sum(NEARLY_EQUAL), HIDDEN, dtype=torch.float64)
    rows, expected = attend(ours, HEADS, sequences), by_formula(plain, HEADS, NEARLY_EQUAL)
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-12)
    rows.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, plain.grad, rtol=0, atol=1e-12)


def test_blocks_fit_the_cache_and_are_hardly_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BLOCK", 4 * HEADS * 20 * 20)
    monkeypatch.setattr(attention, "SPARE", 0)
    for block in attention._blocks(Sequences([20] * 6 + NEARLY_EQUAL), HEADS):
        count, longest = block.group.count, block.group.length
        assert HEADS * count * longest**2 <= attention.BLOCK
        assert count * longest <= 1.2 * (block.group.stop - block.group.start)


def test_short_sequences_share_a_block_whatever_their_lengths() -> None:
    short, long = [17, 9, 4, 1], [200, 120]
    assert len(attention._blocks(Sequences(short), HEADS)) == 1
    assert len(attention._blocks(Sequences(long), HEADS)) == 1  # 80 empty places
    assert len(attention._blocks(Sequences([900, 500]), HEADS)) == 2


def test_models_of_other_heads_may_read_the_same_batch() -> None:
    lengths = [7, 6, 6]  # one block
    qkv, sequences = make_qkv(lengths), Sequences(lengths)
    for heads in (3, 5):
        rows = attend(qkv, heads, sequences)
        torch.testing.assert_close(rows, by_formula(qkv, heads, lengths), rtol=0, atol=1e-12)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.sampled_from([1.0, 1.2, 3.0]))
def test_any_lengths_in_any_blocks_are_the_formula(lengths: list[int], near: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "NEAR", near)
        ours, plain = make_qkv(lengths).requires_grad_(), make_qkv(lengths).requires_grad_()
        attend(ours, HEADS, Sequences(lengths)).square().sum().backward()
        by_formula(plain, HEADS, lengths).square().sum().backward()
        torch.testing.assert_close(ours.grad, plain.grad, rtol=0, atol=1e-10)


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [6] * 5 + [3] * 4
    whole, cut = make_qkv(lengths).requires_grad_(), make_qkv(lengths).requires_grad_()
    attend(whole, HEADS, Sequences(lengths)).square().sum().backward()
    monkeypatch.setattr(attention, "BLOCK", 2 * HEADS * 6 * 6)
    attend(cut, HEADS, Sequences(lengths)).square().sum().backward()
    torch.testing.assert_close(whole.grad, cut.grad, rtol=0, atol=1e-12)


def test_nothing_attends_across_a_bound() -> None:
    qkv = make_qkv(LENGTHS)
    changed = qkv.clone()
    changed[:7] += 1.0  # the first sequence
    sequences = Sequences(LENGTHS)
    before, after = attend(qkv, HEADS, sequences), attend(changed, HEADS, sequences)
    assert torch.equal(before[7:], after[7:])
    assert not torch.allclose(before[:7], after[:7])


def test_dropped_probabilities_keep_their_mean() -> None:
    lengths = [6, 4, 4]
    sequences = Sequences(lengths)
    qkv = make_qkv(lengths, torch.float32)
    torch.manual_seed(0)
    many = torch.stack([attend(qkv, HEADS, sequences, 0.3) for _ in range(500)])
    exact = attend(qkv, HEADS, sequences)
    error = many.std(0) / math.sqrt(500)
    assert ((many.mean(0) - exact).abs() < 5.5 * error).all()
    assert many.std(0).min() > 0


def test_the_path_with_dropout_is_the_formula_when_nothing_falls() -> None:
    qkv = make_qkv(LENGTHS)
    almost = attend(qkv, HEADS, Sequences(LENGTHS), 1e-15)
    torch.testing.assert_close(almost, by_formula(qkv, HEADS, LENGTHS), rtol=0, atol=1e-12)


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
    assert torch.autograd.gradgradcheck(lambda x: attend(x, 2, sequences), (qkv.requires_grad_(),))
