"""A GPU computes what the CPU does, in float32 and bf16: every model that is trained by gradients.

`pytest -m gpu` runs these tests on a GPU. `pytest -m slow` runs them on the CPU, where a stand-in
checks the arguments of CUDA's variable-length kernel and computes the same by plain products.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import varlen

from benchmarks.gpu.device import plain_attention, rehearse_flash, relative_error
from bertwright.checkpoint import checkpoint
from bertwright.config.generation import GenerationConfig
from bertwright.config.run import (
    CheckpointConfig,
    LogConfig,
    OptimizerConfig,
    ValidationConfig,
)
from bertwright.data.loading.phases import DataPosition
from bertwright.decoding.search import Row, RowsInFlight, finish
from bertwright.decoding.targets import TargetSearch
from bertwright.decoding.texts import CausalDecoder
from bertwright.nn.batch import Batch
from bertwright.nn.features import pool
from bertwright.nn.layers.dropout import drop
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer import flash
from bertwright.nn.transformer.attention import attend
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware
from bertwright.train.loop import Trainer
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget
from bertwright.train.state import Position, encode_state, load_state
from tests.gpu.sample import READ, RUNS, TASKS, TinyRun, tiny_run, tiny_task

EXACT, ROUGH, MAXIMA = 1e-3, 0.1, 0.6
"""The largest relative errors: of float32, of bf16 of tiny random models, and of bf16 where a head
takes the largest of numbers, as rounding makes another one the largest."""
TAKES_MAXIMA = (
    "classification by an LSTM over a mix of layers",
    "classification by three poolings",
)
LENGTHS = [37, 21, 21, 16, 9, 3, 1]
PREFIXES = [12, 8, 20, 3, 9, 1, 1]
REACH = 5
KEYS = [40, 25, 22, 16, 12, 7, 2]
CPU = torch.device("cpu")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("cpu", marks=pytest.mark.slow),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The GPU, or the CPU with a stand-in for the variable-length kernel."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU that PyTorch sees")
    with pytest.MonkeyPatch.context() as patch:
        # else cuDNN computes LSTMs and convolutions of float32 in TF32, with 10 bits of a fraction
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        if request.param == "cpu":
            patch.setattr(flash, "takes_flash", flash.takes_flash)
            patch.setattr(varlen, "varlen_attn", varlen.varlen_attn)
            rehearse_flash()  # undone with the patch
        yield torch.device(request.param)
    flash.has_windows.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data of the tiny runs are."""
    return tmp_path_factory.mktemp("parity")


@pytest.fixture
def bert(folder: Path) -> tuple[TinyRun, list[Batch]]:
    """A tiny BERT and two micro-batches."""
    tiny = tiny_run("bert", folder)
    return tiny, [tiny.batch(8), tiny.batch(5)]


def assert_within(errors: dict[str, float], most: float) -> None:
    """None of the errors is larger, or no number."""
    assert {name: error for name, error in errors.items() if not error <= most} == {}


@pytest.mark.parametrize("width", [64, 8, 20, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_of_every_kind_is_the_formula(
    device: torch.device, dtype: torch.dtype, width: int
) -> None:
    """Over sequences of mixed lengths, with gradients, against float64."""
    generator = torch.Generator().manual_seed(width)
    heads = 3
    errors: dict[str, float] = {}

    def draw(rows: int) -> Tensor:
        return torch.randn(rows, heads, width, generator=generator).to(dtype)

    own, others = sum(LENGTHS), sum(KEYS)
    q, k, v = draw(own), draw(own), draw(own)
    far_k, far_v = draw(others), draw(others)
    upstream = torch.randn(own, heads * width, generator=generator)
    kinds: dict[str, tuple[tuple[Tensor, Tensor], list[int], bool, list[int] | None]] = {
        "local": ((k, v), LENGTHS, False, None),
        "both ways": ((k, v), LENGTHS, False, None),
        "causal": ((k, v), LENGTHS, True, None),
        "prefixes": ((k, v), LENGTHS, False, PREFIXES),
        "over others": ((far_k, far_v), KEYS, False, None),
        "causal over more keys": ((far_k, far_v), KEYS, True, None),
    }
    for kind, ((keys, values), lengths, causal, prefixes) in kinds.items():
        exact = [x.double().requires_grad_() for x in (q, keys, values)]
        reach = REACH if kind == "local" else -1
        expected = _by_formula(exact, lengths, causal, prefixes, reach)
        wanted = torch.autograd.grad(expected, exact, upstream.double())
        there = [x.to(device).requires_grad_() for x in (q, keys, values)]
        queries = Sequences(LENGTHS, device, prefixes)
        if kind == "local":
            found = attend([torch.stack(there, 1)], queries, reach=reach)
        elif lengths is LENGTHS:
            found = attend([torch.stack(there, 1)], queries, causal=causal)
        else:
            there_q, *there_kv = (x[:, None] for x in there)
            of_keys = Sequences(lengths, device)
            found = attend([there_q, torch.cat(there_kv, 1)], queries, of_keys, causal=causal)
        given = torch.autograd.grad(found, there, upstream.to(found))
        errors[kind] = relative_error(found, expected)
        pairs = zip("qkv", given, wanted, strict=True)
        errors |= {f"{kind}, d{name}": relative_error(a, b) for name, a, b in pairs}
    assert_within(errors, 1e-4 if dtype == torch.float32 else 2e-2)


def _by_formula(
    parts: list[Tensor],
    lengths: list[int],
    causal: bool,
    prefixes: list[int] | None,
    reach: int,
) -> Tensor:
    sizes = (LENGTHS, lengths, lengths)
    pieces = [torch.split(x, each) for x, each in zip(parts, sizes, strict=True)]
    kept: Iterable[int | None] = prefixes or [None] * len(LENGTHS)
    found = [
        plain_attention(q, k, v, causal, prefix, reach)
        for q, k, v, prefix in zip(*pieces, kept, strict=True)
    ]
    return torch.cat(found).flatten(1)


def test_dropout_keeps_the_mean_and_has_its_gradient(device: torch.device) -> None:
    """Of numbers, and of the probabilities of attention."""
    torch.manual_seed(0)
    x = torch.ones(1 << 20, device=device, requires_grad=True)
    y = drop(x, 0.1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    errors = {
        "fraction": abs(float((y == 0).float().mean()) - 0.1),
        "mean": abs(float(y.detach().mean()) - 1),
        "gradient": relative_error(gradient, y),
    }
    sequences = Sequences([64] * 16, device)
    qkv = torch.zeros(1024, 3 * 64, device=device)
    qkv[:, 128:] = 1.0
    attended = attend([qkv.view(1024, 3, 4, -1)], sequences, dropout=0.1)
    errors["mean of attention"] = abs(float(attended.mean()) - 1)
    assert_within(errors, 0.02)


def test_every_pooling(device: torch.device) -> None:
    """Over mixed lengths."""
    x = torch.randn(sum(LENGTHS), 16, generator=torch.Generator().manual_seed(0))
    errors = {}
    for pooling in ("cls", "last", "mean", "mean-sqrt", "max", "weighted", "cls+mean+max"):
        expected = pool(x, Sequences(LENGTHS), pooling, PREFIXES)
        there = x.to(device)
        found = pool(there, Sequences(LENGTHS, device), pooling, PREFIXES)
        errors[pooling] = relative_error(found, expected)
    assert_within(errors, 1e-5)


def losses_and_gradients(
    learner: Learner, batch: Any, device: torch.device, low: bool = False
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses by objective, gradients by parameter; under bf16 autocast where `low`."""
    learner.train()
    learner.zero_grad()
    torch.manual_seed(3)
    with torch.autocast(device.type, torch.bfloat16, enabled=low):
        losses = learner(batch)
    means = {name: loss.total / max(1, loss.count) for name, loss in losses.items()}
    torch.stack(list(means.values())).sum().backward()
    gradients = {
        name: p.grad.detach().clone()
        for name, p in learner.named_parameters()
        if p.grad is not None
    }
    return {name: mean.detach() for name, mean in means.items()}, gradients


def compare(learner: Learner, batch: Any, device: torch.device, rough: float) -> None:
    """One learner has the same losses and gradients on the device in both precisions."""
    moved = copy.deepcopy(learner).to(device)
    expected, gradients = losses_and_gradients(learner, batch.to(CPU), CPU)
    for low, most in ((False, EXACT), (True, rough)):
        losses, found = losses_and_gradients(moved, batch.to(device), device, low)
        assert found.keys() == gradients.keys()
        errors = {f"{key} loss": relative_error(losses[key], expected[key]) for key in expected}
        ours, theirs = (
            torch.cat([of[name].double().cpu().flatten() for name in gradients])
            for of in (found, gradients)
        )
        assert_within(errors | {"gradient": relative_error(ours, theirs)}, most)


@pytest.mark.parametrize("system", [*RUNS, *READ])
def test_a_training_step_of_a_system(device: torch.device, system: str, folder: Path) -> None:
    """Losses and gradients of its own objectives on its own instances."""
    tiny = tiny_run(system, folder)
    compare(tiny.learner(), tiny.batch(), device, ROUGH)


@pytest.mark.parametrize("task", TASKS)
def test_a_training_step_of_a_task(device: torch.device, task: str) -> None:
    """The same of a task head over a BERT."""
    compare(*tiny_task(task), device, MAXIMA if task in TAKES_MAXIMA else ROUGH)


class Batches:
    """Steps of two micro-batches of a tiny run, the same on every device."""

    def __init__(self, batches: list[Batch], device: torch.device) -> None:
        self.batches, self.device = batches, device

    def step(self, at: DataPosition, done: float) -> tuple[list[Batch], DataPosition]:
        """See `train.loop.StepSource`."""
        batches = [batch.to(self.device) for batch in self.batches]
        return batches, replace(at, step=at.step + 1)


def make_trainer(
    learner: Learner, batches: list[Batch], place: torch.device, matrices: str, steps: int
) -> Trainer:
    """The training loop itself over such steps."""
    config = OptimizerConfig(matrices=matrices)
    optimizers = make_optimizers(learner, config)
    never = 10**9

    def begin_step(done: float, width: float) -> float:
        optimizers.set_rates(1.0)
        return config.learning_rate

    return Trainer(
        learner=learner,
        optimizers=optimizers,
        begin_step=begin_step,
        clip_norm=1.0,
        source=Batches(batches, place),
        budget=Budget(steps=steps),
        seed=1,
        hardware=Hardware(Ranks(0, 1, place), "fp32", 1e12),
        log=None,
        evaluate=None,
        save=lambda position: None,
        when_to_log=LogConfig(every_steps=never),
        when_to_validate=ValidationConfig(every_steps=never),
        when_to_save=CheckpointConfig(every_steps=never),
    )


def _weights(learner: Learner) -> Tensor:
    return torch.cat([p.detach().double().cpu().flatten() for p in learner.parameters()])


@pytest.mark.parametrize("matrices", ["adamw", "muon"])
def test_four_steps_of_the_loop(
    device: torch.device, matrices: str, bert: tuple[TinyRun, list[Batch]]
) -> None:
    """With its optimizers, clipping and late reading: the change of all weights."""
    tiny, batches = bert
    start = _weights(tiny.learner())
    changes: list[Tensor] = []
    for place in (CPU, device):
        learner = tiny.learner().to(place)
        trainer = make_trainer(learner, batches, place, matrices, 4)
        trainer.reads_late = bool(changes)
        trainer.run(Position())
        changes.append(_weights(learner) - start)
    # the first steps of AdamW are of the sign of a gradient, also where that is rounding alone
    assert relative_error(changes[1], changes[0]) <= 0.05


def test_a_step_that_is_not_finite_is_left_out(
    device: torch.device, bert: tuple[TinyRun, list[Batch]]
) -> None:
    """It leaves the weights as they were, and the next ones go on."""
    tiny, batches = bert
    learner = tiny.learner().to(device)
    trainer = make_trainer(learner, batches, device, "muon", 3)
    trainer.reads_late = True
    forward, calls, states = learner.forward, [0], []

    def sometimes_infinite(batch: Any) -> Any:
        states.append(_weights(learner))
        calls[0] += 1
        losses = forward(batch)
        if calls[0] in (3, 4):  # the second step
            losses = {k: replace(x, total=x.total * math.inf) for k, x in losses.items()}
        return losses

    learner.forward = sometimes_infinite
    position = trainer.run(Position())
    moved = [relative_error(b, a) for a, b in ((states[0], states[2]), (states[2], states[4]))]
    last = relative_error(_weights(learner), states[4])
    assert moved[0] > 0 == moved[1]
    assert 0 < last < 1
    assert position.tokens == 2 * sum(int(each.num_tokens) for each in batches)


@pytest.mark.parametrize("system", ["gpt2", "gpt", "bert-ltr"])
def test_generation_chooses_the_same_tokens(
    device: torch.device, system: str, folder: Path
) -> None:
    """Over a cache, with prompts of mixed lengths."""
    tiny = tiny_run(system, folder)
    prompts = [list(range(5, 5 + n)) for n in (12, 9, 9, 4, 2)]
    found = []
    for place in (CPU, device):
        learner = tiny.learner().to(place).eval().requires_grad_(False)
        head: Any = learner.objectives["next_token"]
        decoder = CausalDecoder(learner.encoder, head)
        flight = RowsInFlight(decoder, {3}, {0})
        rows = [Row(GenerationConfig(max_new_tokens=12), 12, ids) for ids in prompts]
        with torch.inference_mode():
            flight.add(prompts, [[row] for row in rows])
            while len(flight):
                flight.step()
        found.append([row.ids for row in rows])
    assert_nearly_all_agree(*found)


@pytest.mark.parametrize("system", ["transformer", "seq2seq"])
def test_beam_search_finds_the_same_targets(
    device: torch.device, system: str, folder: Path
) -> None:
    tiny = tiny_run(system, folder)
    tokenizer = load_tokenizer(tiny.shards.tokenizer_folder)
    sources = [[2, *range(6, 6 + n), 3] for n in (9, 7, 4, 2)]
    found = []
    for place in (CPU, device):
        learner = tiny.learner().to(place).eval().requires_grad_(False)
        search = TargetSearch(learner, tokenizer, 4096, learner.encoder.spec.max_length)
        steps = search.begin(sources, [14] * len(sources), 4, 0.6)
        found.append([best[0].ids for best in finish(steps)])
    assert_nearly_all_agree(*found)


def assert_nearly_all_agree(ours: list[list[int]], theirs: list[list[int]]) -> None:
    """Of random weights two tokens may be nearly as likely: one text may differ."""
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= len(ours) - 1


def test_a_run_resumes_on_the_other_device(
    device: torch.device, bert: tuple[TinyRun, list[Batch]], tmp_path: Path
) -> None:
    """Two steps on one device, saved, two more on the other: the weights of four on the CPU."""
    tiny, batches = bert
    straight = tiny.learner()
    start = _weights(straight)
    make_trainer(straight, batches, CPU, "muon", 4).run(Position())
    expected = _weights(straight) - start
    for first, second in ((device, CPU), (CPU, device)):
        learner = tiny.learner().to(first)
        trainer = make_trainer(learner, batches, first, "muon", 2)
        position = trainer.run(Position())
        files = encode_state(position, learner, trainer.optimizers, trainer.ranks)
        place = tmp_path / f"from-{first.type}-{second.type}"
        place.mkdir(exist_ok=True)
        checkpoint.save(place, learner, tiny.shards.tokenizer_folder, "", extra_files=files)
        again = checkpoint.load(place, list(learner.objectives)).learner.to(second)
        trainer = make_trainer(again, batches, second, "muon", 4)
        position = load_state(place, again, trainer.optimizers)
        trainer.run(replace(position, finished=False))
        assert relative_error(_weights(again) - start, expected) <= 0.05
