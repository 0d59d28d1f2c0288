"""What every encoder promises: `nn/encoder.py`, and sums that no packing of a batch changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertwright.config.run import PassRun, RunConfig, StepRun
from bertwright.data.loading.phases import Phase
from bertwright.data.shards import Shards
from bertwright.models.catalogue import MODELS
from bertwright.models.load import system_of_config
from bertwright.models.system import System
from bertwright.nn.encoder import Encoded, GoesOn
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from tests.contract.conftest import gradients

LENGTHS = [9, 7, 7, 4, 1]


def make_inputs(learner: Learner, lengths: list[int], seed: int = 0) -> Inputs:
    spec, generator = learner.encoder.spec, torch.Generator().manual_seed(seed)
    ids = torch.randint(0, spec.vocab_size, (sum(lengths),), generator=generator)
    segments = torch.randint(0, spec.segments, ids.shape, generator=generator)
    return Inputs(ids, Sequences(lengths), segments if spec.segments > 1 else None)


def part(inputs: Inputs, number: int) -> Inputs:
    """One sequence alone."""
    start, stop = inputs.sequences.offsets[number : number + 2]
    segments = None if inputs.segments is None else inputs.segments[start:stop]
    return Inputs(inputs.ids[start:stop], Sequences([stop - start]), segments)


def encode(learner: Learner, inputs: Inputs, **options: Any) -> Encoded:
    with torch.no_grad():
        encoded: Encoded = learner.eval().encoder(inputs, **options)
    return encoded


def median_draw(probabilities: Tensor, count: int, **options: Any) -> Tensor:
    """Of each row, the class at half of its probability: `[R, C]` -> `[R, 1]`."""
    assert count == 1
    return (probabilities.cumsum(1) < 0.5).sum(1, keepdim=True)


@pytest.fixture
def phase(system: System, config: RunConfig, shards: Shards) -> Phase:
    """The first of a run in steps; a system that is trained in passes has none."""
    if not isinstance(config, StepRun):
        pytest.skip("trained in passes")
    return system.trained_on(config, shards)[0]


def test_any_split_and_order_of_a_batch_gives_the_same_gradient(
    learner: Learner, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # otherwise the replacements of ELECTRA's generator differ for each split of a batch
    monkeypatch.setattr(torch, "multinomial", median_draw)
    rows = np.arange(11)

    def batches(*splits: Any) -> list[Any]:
        return [phase.instances.batch(0, np.asarray(each)) for each in splits]

    whole = gradients(learner, batches(rows))
    assert whole
    for splits in ([rows[::-1]], [rows[:3], rows[3:]], [[number] for number in rows]):
        found = gradients(learner, batches(*splits))
        assert found.keys() == whole.keys()
        for key, value in whole.items():
            torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-7, msg=key)


def test_every_parameter_that_is_trained_has_a_gradient(learner: Learner, phase: Phase) -> None:
    batch = phase.instances.batch(0, np.arange(8))
    found = gradients(learner, [batch])
    assert set(found) == {name for name, p in learner.named_parameters() if p.requires_grad}


def test_a_batch_is_made_of_its_own_epoch(config: RunConfig, phase: Phase, system: System) -> None:
    instances = phase.instances
    lengths = instances.lengths(0)
    assert lengths.max() <= instances.longest <= config.longest_sequence
    rows = np.array([5, 1, 3])
    first, again = instances.batch(0, rows), instances.batch(0, rows)
    in_batch = first.inputs.sequences.lengths
    assert in_batch == sorted(in_batch, reverse=True)
    assert first.inputs.ids.tolist() == again.inputs.ids.tolist()
    assert first.inputs.ids.tolist() != instances.batch(1, rows).inputs.ids.tolist()
    assert first.num_tokens == lengths[rows].sum()
    if system.row.reads != "pairs":  # else the targets are beside what the encoder reads
        assert first.num_tokens == len(first.inputs.ids) == sum(in_batch)


def test_the_specification_is_true(learner: Learner) -> None:
    encoder = learner.encoder
    spec = encoder.spec
    encoded = encode(learner, make_inputs(learner, LENGTHS), keep_layers=True)
    assert encoded.last.shape == (sum(LENGTHS), spec.width)
    assert [x.shape[1] for x in encoded.layers] == list(spec.widths)
    assert [len(x) for x in encoded.layers] == [sum(LENGTHS)] * (spec.depth + 1)
    assert spec.widths[-1] == spec.width
    assert (encoded.pooled is not None) == spec.pooled == (encoder.pooler is not None)
    assert -spec.depth - 1 <= spec.default_layer <= spec.depth
    table = encoder.token_embedding()
    if table is not None:
        assert table.weight.shape[0] == spec.vocab_size
    if spec.max_length is not None:
        with pytest.raises(ValueError, match=str(spec.max_length)):
            encode(learner, make_inputs(learner, [spec.max_length + 1]))


def test_stages_are_the_whole_encoder(learner: Learner) -> None:
    encoder = learner.encoder
    stages = encoder.stages()
    assert len(stages) in (0, encoder.spec.depth + 1)
    own = {id(p) for stage in stages for p in stage.parameters()}
    pooler = {id(p) for p in encoder.pooler.parameters()} if encoder.pooler else set()
    assert own | pooler == {id(p) for p in encoder.parameters()}
    assert set(learner.depths().values()) <= set(range(len(stages) + 1))


def test_layers_below_the_top_are_the_same(learner: Learner) -> None:
    inputs = make_inputs(learner, LENGTHS)
    whole = encode(learner, inputs, keep_layers=True)
    for top in range(learner.encoder.spec.depth + 1):
        found = encode(learner, inputs, top=top)
        assert found.layers == ()
        torch.testing.assert_close(found.last, whole.layers[top])


def test_reading_some_positions_reads_the_same(learner: Learner) -> None:
    inputs, positions = make_inputs(learner, LENGTHS), torch.tensor([0, 8, 20, 27])
    whole = encode(learner, inputs)
    some = encode(learner, inputs, positions=positions)
    torch.testing.assert_close(some.at(positions), whole.last[positions])


def cut(inputs: Inputs, starts: list[int], stops: list[int]) -> Inputs:
    """The tokens from `starts` to `stops` of each sequence, in the segment 0."""
    offsets = inputs.sequences.offsets[:-1]
    index = [
        torch.arange(offset + start, offset + stop)
        for offset, start, stop in zip(offsets, starts, stops, strict=True)
    ]
    return Inputs(inputs.ids[torch.cat(index)], Sequences(map(len, index)))


def test_further_tokens_together_are_those_one_by_one(learner: Learner) -> None:
    encoder = learner.eval().encoder
    if not isinstance(encoder, GoesOn):
        pytest.skip("does not continue sequences")
    starts, middles, stops = [3, 6, 1, 4, 1], [7, 7, 5, 5, 2], [9, 8, 8, 6, 4]
    inputs = make_inputs(learner, stops)
    with torch.no_grad():
        # a source that is read both ways is read whole: what follows it comes in parts
        _, state = encoder.begin(cut(inputs, [0] * 5, starts))
        _, state = encoder.extend(cut(inputs, starts, middles), state)
        x, state = encoder.extend(cut(inputs, middles, stops), state)
        new = torch.arange(5)
        after, _ = encoder.advance(new, state)
        for number, stop in enumerate(stops):
            one = inputs.ids[inputs.sequences.offsets[number] :][:stop]
            start = starts[number]
            _, state = encoder.begin(Inputs(one[:start], Sequences([start])))
            for token in one[start:]:
                alone, state = encoder.advance(token[None], state)
            torch.testing.assert_close(x[number], alone[0], atol=1e-6, rtol=0)
            alone, _ = encoder.advance(new[number : number + 1], state)
            torch.testing.assert_close(after[number], alone[0], atol=1e-6, rtol=0)
            if encoder.spec.causal:
                whole, state = encoder.begin(Inputs(one, Sequences([stop])))
                torch.testing.assert_close(x[number], whole[0], atol=1e-6, rtol=0)
            if encoder.spec.prefixed:
                sequence = Sequences([stop], prefixes=[start])
                last = encoder(Inputs(one, sequence)).last[-1]
                torch.testing.assert_close(x[number], last, atol=1e-6, rtol=0)


def test_nothing_leaks_across_sequences(learner: Learner) -> None:
    inputs = make_inputs(learner, LENGTHS)
    together = encode(learner, inputs)
    for number, own in enumerate(together.last.split(LENGTHS)):
        alone = encode(learner, part(inputs, number))
        torch.testing.assert_close(alone.last, own)
        if together.pooled is not None:
            assert alone.pooled is not None
            torch.testing.assert_close(alone.pooled[0], together.pooled[number])


def test_what_is_causal_does_not_see_the_future(learner: Learner) -> None:
    spec = learner.encoder.spec
    inputs = make_inputs(learner, [9])
    changed = inputs.ids.clone()
    changed[6] = (changed[6] + 1) % spec.vocab_size
    before = encode(learner, inputs).last
    after = encode(learner, Inputs(changed, inputs.sequences, inputs.segments)).last
    same = torch.isclose(before, after, rtol=0, atol=1e-12).all(1)
    assert not same[6]
    if spec.causal:
        assert same[:6].all()
    else:
        assert not same[:6].any()


def test_initialization_is_a_function_of_its_generator(learner: Learner) -> None:
    encoder = learner.encoder
    found = []
    for seed in (1, 1, 2):
        encoder.reset_parameters(torch.Generator().manual_seed(seed))
        found.append({name: value.clone() for name, value in encoder.state_dict().items()})
    one, again, other = found
    if not one:
        assert not any(True for _ in encoder.parameters())
        return
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    assert any(not torch.equal(value, other[name]) for name, value in one.items())


def test_operations_grow_with_the_tokens(learner: Learner) -> None:
    encoder = learner.encoder
    few, more = encoder.flops([4, 3], 7), encoder.flops([8, 6], 14)
    assert 0 <= few < more or few == more == encoder.spec.depth == 0


def test_the_record_says_what_it_names(name: str, learner: Learner, system: System) -> None:
    model = learner.encoder.config
    assert system_of_config(model) is system
    assert system.row is MODELS[name]
    assert system.row.config is type(model)
    assert system.spec(model) == learner.encoder.spec
    if system.row.run is None:
        assert not system.row.presets
        assert MODELS[system.row.instead].run is not None


def test_the_row_says_what_its_runs_are(config: RunConfig, system: System) -> None:
    assert system.row.default in system.row.presets
    assert {type(preset) for preset in system.row.presets.values()} == {system.row.config}
    assert set(system.heads(config)) <= system.objectives.keys()
    assert (system.fit is not None) == isinstance(config, PassRun)
