"""BERT on packed sequences: what it gives, and that a vector knows its own sequence only."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import Bert
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.nn import products
from bertwright.nn.encoder import Encoded
from bertwright.nn.init import initialize
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.nn.transformer.attention import SelfAttention

CONFIG = BertConfig(
    vocab_size=53,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=17,
)
LENGTHS = [11, 7, 7, 4, 1]


@pytest.fixture
def bert() -> Bert:
    model = Bert(CONFIG)
    initialize(model, 0.1, torch.Generator().manual_seed(0))
    return model.eval()


def make_ids(lengths: list[int], seed: int = 1) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, CONFIG.vocab_size, (sum(lengths),), generator=chance)
    return ids, torch.randint(0, 2, ids.shape, generator=chance)


def encode(bert: Bert, lengths: list[int], **options: object) -> Encoded:
    ids, types = make_ids(lengths)
    with torch.no_grad():
        return bert(Inputs(ids, Sequences(lengths), types), **options)


def test_shapes(bert: Bert) -> None:
    encoded = encode(bert, LENGTHS, keep_layers=True)
    assert encoded.last.shape == (30, 24)
    assert [tuple(layer.shape) for layer in encoded.layers] == [(30, 24)] * 4
    assert encoded.layers[-1] is encoded.last
    assert encoded.pooled is not None
    assert encoded.pooled.shape == (5, 24)


@pytest.mark.parametrize("top", [0, 1, 2, 3])
def test_stops_at_the_highest_layer_asked_for(bert: Bert, top: int) -> None:
    whole = encode(bert, LENGTHS, keep_layers=True)
    part = encode(bert, LENGTHS, top=top, keep_layers=True)
    assert len(part.layers) == top + 1
    assert part.pooled is None
    assert torch.equal(part.last, whole.layers[top])


@pytest.mark.parametrize("places", [[], [1, 7, 8, 29], [29, 3]])
def test_the_last_layer_at_some_tokens(bert: Bert, places: list[int]) -> None:
    """The same vectors and the same gradients as of all tokens."""
    ids, types = make_ids(LENGTHS)
    at = torch.tensor(places, dtype=torch.long)
    found = []
    for asked in (None, at):
        bert.zero_grad()
        encoded = bert(Inputs(ids, Sequences(LENGTHS), types), positions=asked)
        assert len(encoded.last) == (30 if asked is None else len(places))
        x = torch.cat([encoded.at(at), encoded.pooled])
        (x * torch.arange(1.0, x.numel() + 1).view_as(x)).sum().backward()
        found.append([x.detach(), *(p.grad.clone() for p in bert.parameters())])
    for whole, part in zip(*found, strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-4, atol=1e-4)


def test_vectors_that_were_not_computed_are_refused(bert: Bert) -> None:
    encoded = encode(bert, LENGTHS, positions=torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="other positions"):
        encoded.at(torch.tensor([1, 3]))
    nothing = encode(bert, LENGTHS, positions=torch.tensor([], dtype=torch.long))
    assert len(nothing.at(torch.tensor([], dtype=torch.long))) == 0  # of another objective
    for options in ({"top": 2}, {"keep_layers": True}):
        with pytest.raises(ValueError, match="top and keep_layers"):
            encode(bert, LENGTHS, positions=torch.tensor([1]), **options)


def test_layers_are_kept_only_if_asked_for(bert: Bert) -> None:
    assert encode(bert, LENGTHS).layers == ()


def test_a_vector_does_not_depend_on_its_batch(bert: Bert) -> None:
    ids, types = make_ids(LENGTHS)
    together = encode(bert, LENGTHS)
    start = 0
    for number, length in enumerate(LENGTHS):
        rows = slice(start, start + length)
        with torch.no_grad():
            alone = bert(Inputs(ids[rows], Sequences([length]), types[rows]))
        torch.testing.assert_close(alone.last, together.last[rows], rtol=0, atol=1e-6)
        torch.testing.assert_close(alone.pooled[0], together.pooled[number], rtol=0, atol=1e-6)
        start += length


def test_the_order_of_sequences_does_not_matter(bert: Bert) -> None:
    ids, types = make_ids(LENGTHS)
    together = encode(bert, LENGTHS)
    order = [3, 1, 4, 0, 2]
    parts, kinds, vectors = (x.split(LENGTHS) for x in (ids, types, together.last))
    with torch.no_grad():
        inputs = Inputs(
            torch.cat([parts[n] for n in order]),
            Sequences([LENGTHS[n] for n in order]),
            torch.cat([kinds[n] for n in order]),
        )
        other = bert(inputs)
    expected = torch.cat([vectors[n] for n in order])
    torch.testing.assert_close(other.last, expected, rtol=0, atol=1e-6)


def test_segments_and_positions_matter(bert: Bert) -> None:
    ids, types = make_ids([6])
    sequences = Sequences([6])
    with torch.no_grad():
        one = bert(Inputs(ids, sequences, types)).last
        other_segment = bert(Inputs(ids, sequences, 1 - types)).last
        same_tokens = bert(Inputs(ids[:1].repeat(6), sequences, types[:1].repeat(6))).last
    assert (one - other_segment).abs().max() > 1e-3
    assert (same_tokens[0] - same_tokens[1]).abs().max() > 1e-3


def test_too_long(bert: Bert) -> None:
    with pytest.raises(ValueError, match=r"18 tokens; .* positions for 17"):
        encode(bert, [4, 18])


def test_dropout_acts_in_training_only(bert: Bert) -> None:
    assert torch.equal(encode(bert, LENGTHS).last, encode(bert, LENGTHS).last)
    bert.train()
    assert not torch.equal(encode(bert, LENGTHS).last, encode(bert, LENGTHS).last)


def test_every_part_has_its_own_setting() -> None:
    shares = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    config = replace(CONFIG, layer_norm_eps=1e-3, **shares)
    learner = make_learner(config, ["masked_lm"])
    parts = list(learner.modules())
    assert {part.eps for part in parts if isinstance(part, nn.LayerNorm)} == {1e-3}
    assert {part.p for part in parts if isinstance(part, Dropout)} == {0.2}
    assert {part.dropout for part in parts if isinstance(part, SelfAttention)} == {0.3}


def test_bfloat16_is_near(bert: Bert) -> None:
    exact = encode(bert, LENGTHS).last
    with torch.autocast("cpu", torch.bfloat16):
        low = encode(bert, LENGTHS).last
    assert low.dtype == torch.bfloat16  # from the embeddings on: float32 would take twice the room
    assert torch.nn.functional.cosine_similarity(exact, low.float()).min() > 0.99


def test_products_of_training_have_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding changes no loss and no gradient; without it oneDNN compiles kernels in every step."""
    config = replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    learner = make_learner(config, ["masked_lm", "next_sentence"])
    initialize(learner, 0.1, torch.Generator().manual_seed(0))
    ids, types = make_ids(LENGTHS)
    places, pairs = torch.tensor([1, 7, 29]), torch.tensor([0, 1, 0, 1, 1])
    inputs = Inputs(ids, Sequences(LENGTHS), types)
    batch = MaskedBatch(inputs, places, ids[places], pairs, torch.arange(len(LENGTHS)))
    rows: list[int] = []
    for part in (*learner.encoder.layers.modules(), learner.objectives["masked_lm"].transform):
        if isinstance(part, nn.Linear):
            part.register_forward_hook(lambda part, given, y: rows.append(len(y)))
    found = []
    for block in (1, 32):
        monkeypatch.setattr(products, "BLOCK", block)
        rows.clear()
        learner.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            losses = learner(batch)
            total = sum(loss.total for loss in losses.values())
        total.backward()
        gradients = [part.grad for part in learner.parameters() if part.grad is not None]
        found.append(([loss.total for loss in losses.values()], gradients))
        assert all(count % block == 0 for count in rows)
    assert set(rows) == {32}
    torch.testing.assert_close(found[0], found[1], rtol=0.02, atol=0.02)


def test_layers_that_there_are_not(bert: Bert) -> None:
    for top in (-1, 4):
        with pytest.raises(ValueError, match=f"top.* {top}.*0 to 3"):
            encode(bert, LENGTHS, top=top)


def test_vectors_start_as_narrow_as_published() -> None:
    embeddings = Bert(CONFIG).embeddings
    for part in (embeddings.token, embeddings.position, embeddings.segment):
        assert part.weight.requires_grad
        assert 0 < part.weight.abs().max() <= 0.04


@pytest.mark.parametrize("masked", [1, 7])
def test_operations_are_those_that_are_done(masked: int) -> None:
    """Against PyTorch's own count, which has the pooler's beside."""
    learner = make_learner(CONFIG, ["masked_lm"])
    lengths, places = [9, 9, 9], torch.arange(masked) * 3
    ids, types = make_ids(lengths)
    inputs = Inputs(ids, Sequences(lengths), types)
    batch = MaskedBatch(inputs, places, ids[places], None, torch.arange(len(lengths)))
    with FlopCounterMode(display=False) as counter:
        learner(batch)["masked_lm"].total.backward()
    pooler = 2 * len(lengths) * CONFIG.hidden_size**2
    said = learner.flops(batch)
    assert said == counter.get_total_flops() - pooler


@pytest.mark.slow
def test_a_plan_of_a_bert_needs_no_compiler() -> None:
    """`nn.Embedding` on the meta device imports torch._dynamo, which takes longer than loading."""
    code = (
        "import sys, torch; from bertwright.models.bert.encoder import Bert, BertConfig\n"
        "with torch.device('meta'): Bert(BertConfig())\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
