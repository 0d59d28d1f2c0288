"""The encoder-decoder Transformer is `torch.nn.Transformer`, padded there, end to end here."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.models.transformer.config import TransformerConfig
from bertwright.models.transformer.encoder import Transformer
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.translation import Translation, TranslationBatch
from bertwright.nn.sequences import Inputs, Sequences

V, H, A, F, L = 23, 12, 3, 20, 2
SOURCES, TARGETS = [7, 5, 5, 2], [3, 6, 4, 1]


def make(norm: str) -> tuple[Learner, nn.Transformer]:
    """Ours and torch's, with equal random weights, in float64."""
    config = TransformerConfig(V, H, L, A, F, norm=norm, hidden_dropout_prob=0.0)
    learner = make_learner(config, ["translation"]).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 4
    reference = nn.Transformer(
        H, A, L, L, F, 0.0, "relu", batch_first=True, norm_first=norm == "pre"
    ).double()
    if norm == "post":  # torch has a norm more behind each stack
        reference.encoder.norm, reference.decoder.norm = None, None
    for module, parameters in pairs(learner, reference).items():
        for parameter, (attribute, part) in parameters.items():
            theirs = getattr(module, attribute)
            with torch.no_grad():
                (theirs if part is None else theirs[part]).copy_(parameter)
    return learner, reference


def pairs(
    learner: Learner, reference: nn.Transformer
) -> dict[nn.Module, dict[Tensor, tuple[str, slice | None]]]:
    """Module of torch's -> parameter of ours -> its attribute there, and the rows of it."""
    encoder, translation = learner.encoder, learner.objectives["translation"]
    assert isinstance(encoder, Transformer)
    assert isinstance(translation, Translation)
    found: dict[nn.Module, dict[Tensor, tuple[str, slice | None]]] = {}

    def add(
        theirs: nn.Module, ours: nn.Module, prefix: str = "", part: slice | None = None
    ) -> None:
        for kind in ("weight", "bias"):
            found.setdefault(theirs, {})[getattr(ours, kind)] = (prefix + kind, part)

    stacks = (reference.encoder, encoder.layers), (reference.decoder, translation.decoder.layers)
    for stack, layers in stacks:
        for theirs, ours in zip(stack.layers, layers, strict=True):
            add(theirs.self_attn, ours.attention.qkv, "in_proj_")
            add(theirs.self_attn.out_proj, ours.attention.output)
            add(theirs.linear1, ours.feed_forward.intermediate)
            add(theirs.linear2, ours.feed_forward.output)
            norms = [ours.attention_norm, ours.feed_forward_norm]
            if hasattr(theirs, "multihead_attn"):
                cross = ours.cross_attention
                add(theirs.multihead_attn, cross.query, "in_proj_", slice(H))
                add(theirs.multihead_attn, cross.key_value, "in_proj_", slice(H, 3 * H))
                add(theirs.multihead_attn.out_proj, cross.output)
                norms.insert(1, ours.cross_norm)
            for number, norm in enumerate(norms, start=1):
                add(getattr(theirs, f"norm{number}"), norm)
        if getattr(layers[-1], "final_norm", None) is not None:
            add(stack.norm, layers[-1].final_norm)
    return found


def batch() -> tuple[Inputs, Inputs]:
    generator = torch.Generator().manual_seed(2)
    return tuple(
        Inputs(torch.randint(V, (sum(lengths),), generator=generator), Sequences(lengths))
        for lengths in (SOURCES, TARGETS)
    )


def padded(x: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """`[N, H]` -> `[B, T, H]`, and where it is padding, `[B, T]`."""
    rows = nn.utils.rnn.pad_sequence(list(x.split(lengths)), batch_first=True)
    return rows, torch.arange(rows.shape[1]) >= torch.tensor(lengths)[:, None]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_vectors_and_gradients(norm: str, training: bool) -> None:
    learner, reference = make(norm)
    learner.train(training)
    reference.train(training)
    source, target = batch()
    translation, encoder = learner.objectives["translation"], learner.encoder
    found = translation.decoder(encoder(source), target)
    embed = encoder.embeddings
    (x, no_x), (y, no_y) = (
        padded(embed(each.ids, each.sequences.positions), each.sequences.lengths)
        for each in (source, target)
    )
    causal = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
    expected = reference(
        x,
        y,
        tgt_mask=causal,
        src_key_padding_mask=no_x,
        tgt_key_padding_mask=no_y,
        memory_key_padding_mask=no_x,
    )[~no_y]
    torch.testing.assert_close(found, expected)
    upstream = torch.randn(found.shape, generator=torch.Generator().manual_seed(3)).double()
    table = embed.token.weight
    ours = [p for parameters in pairs(learner, reference).values() for p in parameters]
    got = torch.autograd.grad(found, [*ours, table], upstream)
    (expected * upstream).sum().backward()
    torch.testing.assert_close(got[-1], table.grad)
    theirs = []
    for module, parameters in pairs(learner, reference).items():
        for attribute, part in parameters.values():
            gradient = getattr(module, attribute).grad
            theirs.append(gradient if part is None else gradient[part])
    for one, other in zip(got, theirs, strict=False):
        torch.testing.assert_close(one, other)


def test_the_loss_is_the_smoothed_cross_entropy_in_training_alone() -> None:
    learner, _ = make("post")
    source, target = batch()
    labels = torch.randint(V, (sum(TARGETS),), generator=torch.Generator().manual_seed(4))

    pairs = TranslationBatch(source, target, labels)
    translation = learner.objectives["translation"]
    x = translation.decoder(learner.encoder(source), target)
    for training, smoothing in ((True, 0.1), (False, 0.0)):
        learner.train(training)
        loss = learner(pairs)["translation"]
        expected = nn.functional.cross_entropy(
            x @ learner.encoder.embeddings.token.weight.T + translation.bias,
            labels,
            reduction="sum",
            label_smoothing=smoothing,
        )
        torch.testing.assert_close(loss.total, expected)
        assert loss.count == sum(TARGETS)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    "picks",
    [
        ([0, 0, 2, 3, 3], [1, 0, 2, 4, 4]),
        ([0, 0, 1, 1, 2, 2, 3, 3], [1, 0, 3, 3, 6, 7]),  # two beams of each, then one source less
    ],
)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_one_token_at_a_time_is_the_same_as_all_at_once(
    norm: str, picks: tuple[list[int], ...]
) -> None:
    learner, _ = make(norm)
    learner.eval()
    decoder = learner.objectives["translation"].decoder
    source, _ = batch()
    with torch.no_grad():
        memory = learner.encoder(source)
        state = decoder.begin(memory)
        owners = torch.arange(len(SOURCES))
        history = torch.zeros(len(SOURCES), 0, dtype=torch.long)
        generator = torch.Generator().manual_seed(5)
        for step in range(6):
            ids = torch.randint(V, (len(history),), generator=generator)
            history = torch.cat([history, ids[:, None]], 1)
            x, state = decoder.advance(ids, state)
            parts = source.ids.split(SOURCES)
            again = Inputs(
                torch.cat([parts[n] for n in owners]), Sequences([SOURCES[n] for n in owners])
            )
            whole = decoder(
                learner.encoder(again),
                Inputs(history.flatten(), Sequences([history.shape[1]] * len(history))),
            )
            torch.testing.assert_close(x, whole.view(*history.shape, H)[:, -1])
            if step in (1, 3):
                picked = torch.tensor(picks[step // 2])
                state, history = state.select(picked), history[picked]
                owners = owners[picked]


def test_sinusoids_are_the_papers() -> None:
    learner, _ = make("post")
    positions = learner.encoder.embeddings.positions
    for t, i in itertools.product((0, 1, 9), range(H // 2)):
        angle = torch.tensor(t / 10000 ** (2 * i / H), dtype=torch.float64)
        torch.testing.assert_close(positions[t, 2 * i], angle.sin(), atol=1e-6, rtol=0)
        torch.testing.assert_close(positions[t, 2 * i + 1], angle.cos(), atol=1e-6, rtol=0)
