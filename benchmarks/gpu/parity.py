"""Does it run and is it right: the same numbers on the CPU and on the device, in float32 and in
bf16, of every model that is trained by gradients, at tiny sizes.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Sequences
from bertwright.nn.transformer.attention import attend, attend_locally, attend_packed
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks
from bertwright.train.loop import LoopConfig, Trainer
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget
from bertwright.train.state import Position, encode_state, load_state

from .device import Device, plain_attention, relative_error
from .models import RUNS, TASKS, tiny_run, tiny_task
from .record import Checks

EXACT, ROUGH, MAXIMA = 1e-3, 0.1, 0.6
"""Relative errors above which a check fails: of float32, of bf16 of tiny random models, and of bf16
where a head takes the largest of numbers, as rounding makes another one the largest."""
TAKES_MAXIMA = (
    "classification by an LSTM over a mix of layers",
    "classification by three poolings",
)
LENGTHS = [37, 21, 21, 16, 9, 3, 1]
PREFIXES = [12, 8, 20, 3, 9, 1, 1]
REACH = 5
KEYS = [40, 25, 22, 16, 12, 7, 2]
PLACES = ("cpu", "device")


def run(checks: Checks, device: Device) -> None:
    """All checks, the ones that the rest builds on first."""
    # else cuDNN computes LSTMs and convolutions of float32 in TF32, with 10 bits of a fraction
    torch.backends.cudnn.allow_tf32 = False
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        for width in (64, 8, 20, 128):
            checks.run(
                f"attention, {name}, heads of {width}",
                lambda: check_attention(device, dtype, width),  # noqa: B023
                most=15,
            )
    checks.run("dropout", lambda: check_dropout(device), most=10)
    checks.run("pooling", lambda: check_pooling(device), most=10)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for system in RUNS:
            checks.run(
                f"training step of {system}",
                lambda: check_system(device, system, folder),  # noqa: B023
                most=12,
            )
        for task in TASKS:
            checks.run(f"task: {task}", lambda: check_task(device, task), most=8)  # noqa: B023
        for matrices in ("adamw", "muon"):
            checks.run(
                f"the training loop with {matrices}",
                lambda: check_loop(device, matrices, folder),  # noqa: B023
                most=12,
            )
        checks.run("a step that is not finite", lambda: check_bad_step(device, folder), most=10)
        for system in ("gpt2", "gpt", "bert-ltr"):
            checks.run(
                f"generation by {system}",
                lambda: check_generation(device, system, folder),  # noqa: B023
                most=10,
            )
        for system in ("transformer", "seq2seq"):
            checks.run(
                f"translation by {system}",
                lambda: check_translation(device, system, folder),  # noqa: B023
                most=10,
            )
        checks.run("resuming elsewhere", lambda: check_resuming(device, folder), most=15)


def _within(errors: dict[str, float], most: float) -> dict[str, Any]:
    """Figures of a check: is the largest error small enough?"""
    worst = max(errors.values())
    return {"ok": worst <= most, "worst": worst, "allowed": most, "errors": errors}


def check_attention(device: Device, dtype: torch.dtype, width: int) -> dict[str, Any]:
    """All kinds of attention over sequences of mixed lengths, and their gradients, against the
    formula in float64."""
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
        there = [x.to(device.device).requires_grad_() for x in (q, keys, values)]
        queries = Sequences(LENGTHS, device.device, prefixes)
        of_keys = queries if lengths is LENGTHS else Sequences(lengths, device.device)
        if kind == "local":
            found = attend_locally([torch.stack(there, 1)], queries, reach)
        elif lengths is LENGTHS:
            found = attend_packed([torch.stack(there, 1)], queries, causal=causal)
        else:
            there_q, there_k, there_v = there
            found = attend(there_q, there_k, there_v, queries, of_keys, causal=causal)
        given = torch.autograd.grad(found, there, upstream.to(found))
        errors[kind] = relative_error(found, expected)
        pairs = zip("qkv", given, wanted, strict=True)
        errors |= {f"{kind}, d{name}": relative_error(a, b) for name, a, b in pairs}
    return _within(errors, 1e-4 if dtype == torch.float32 else 2e-2)


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


def check_dropout(device: Device) -> dict[str, Any]:
    """The fraction that is dropped, the mean that stays, and the gradient, of numbers and of the
    probabilities of attention."""
    from bertwright.nn.layers.dropout import drop

    torch.manual_seed(0)
    x = torch.ones(1 << 20, device=device.device, requires_grad=True)
    y = drop(x, 0.1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    errors = {
        "fraction": abs(float((y == 0).float().mean()) - 0.1),
        "mean": abs(float(y.detach().mean()) - 1),
        "gradient": relative_error(gradient, y),
    }
    sequences = Sequences([64] * 16, device.device)
    qkv = torch.zeros(1024, 3 * 64, device=device.device)
    qkv[:, 128:] = 1.0
    attended = attend_packed([qkv.view(1024, 3, 4, -1)], sequences, dropout=0.1)
    errors["mean of attention"] = abs(float(attended.mean()) - 1)
    return _within(errors, 0.02)


def check_pooling(device: Device) -> dict[str, Any]:
    """Every pooling, over mixed lengths."""
    x = torch.randn(sum(LENGTHS), 16, generator=torch.Generator().manual_seed(0))
    errors = {}
    for pooling in ("cls", "last", "mean", "mean-sqrt", "max", "weighted", "cls+mean+max"):
        expected = pool(x, Sequences(LENGTHS), pooling, PREFIXES)
        there = x.to(device.device)
        found = pool(there, Sequences(LENGTHS, device.device), pooling, PREFIXES)
        errors[pooling] = relative_error(found, expected)
    return _within(errors, 1e-5)


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
    torch.stack(list(means.values())).sum().backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: p.grad.detach().clone()
        for name, p in learner.named_parameters()
        if p.grad is not None
    }
    return {name: mean.detach() for name, mean in means.items()}, gradients


def compare(
    learner: Learner,
    batch_on: Callable[[torch.device], Any],
    device: Device,
    rough: float = ROUGH,
) -> dict[str, Any]:
    """One learner on the CPU in float32 and on the device in both precisions."""
    cpu = torch.device("cpu")
    moved = copy.deepcopy(learner).to(device.device)
    expected, gradients = losses_and_gradients(learner, batch_on(cpu), cpu)
    figures: dict[str, Any] = {"ok": True}
    batch = batch_on(device.device)
    for name, low, most in (("fp32", False, EXACT), ("bf16", True, rough)):
        losses, found = losses_and_gradients(moved, batch, device.device, low)
        own = {f"{key} loss": relative_error(losses[key], expected[key]) for key in expected}
        flat = [torch.cat([x.double().cpu().flatten() for x in (g[n] for n in gradients)])
                for g in (found, gradients)]  # fmt: skip
        own["gradient"] = relative_error(*flat)
        least = 1e-4 * float(flat[1].norm())  # below it all is rounding
        some = [n for n in gradients if float(gradients[n].norm()) > least]
        worst = max(some, key=lambda n: relative_error(found[n], gradients[n]))
        figures[name] = _within(own, most) | {
            "worst_parameter": worst,
            "worst_parameter_error": relative_error(found[worst], gradients[worst]),
        }
        figures["ok"] = figures["ok"] and figures[name]["ok"] and found.keys() == gradients.keys()
    return figures


def check_system(device: Device, system: str, folder: Path) -> dict[str, Any]:
    """Losses and gradients of a system's own objectives on its own instances."""
    tiny = tiny_run(system, folder)
    return compare(tiny.learner(), tiny.batch().to, device)


def check_task(device: Device, name: str) -> dict[str, Any]:
    """The same of a task head over a BERT."""
    return compare(*tiny_task(name), device, MAXIMA if name in TAKES_MAXIMA else ROUGH)


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
    config = OptimizerConfig(matrices=matrices)  # type: ignore[arg-type]
    optimizers = make_optimizers(learner, config)
    never = 10**9
    loop = LoopConfig(
        seed=1,
        precision="fp32",
        peak=1e12,
        clip_norm=1.0,
        log=LogConfig(every_steps=never),
        validation=ValidationConfig(every_steps=never),
        checkpoint=CheckpointConfig(every_steps=never),
    )

    def begin_step(done: float, width: float) -> float:
        optimizers.set_rates(1.0)
        return config.learning_rate

    return Trainer(
        learner,
        optimizers,
        Batches(batches, place),
        Budget(steps=steps),
        loop,
        Ranks(0, 1, place),
        log=None,
        flops=lambda batch: 0.0,
        evaluate=None,
        save=lambda position: None,
        begin_step=begin_step,
    )


def _batches(folder: Path) -> tuple[Any, list[Batch]]:
    tiny = tiny_run("bert", folder)
    phase_rows = [tiny.batch(8), tiny.batch(5)]
    return tiny, phase_rows


def _weights(learner: Learner) -> Tensor:
    return torch.cat([p.detach().double().cpu().flatten() for p in learner.parameters()])


def check_loop(device: Device, matrices: str, folder: Path) -> dict[str, Any]:
    """Four steps of the training loop, with its optimizers, clipping and late reading: the change
    of all weights, as on the CPU."""
    tiny, batches = _batches(folder)
    start = _weights(tiny.learner())
    changes: list[Tensor] = []
    for place in (torch.device("cpu"), device.device):
        learner = tiny.learner().to(place)
        trainer = make_trainer(learner, batches, place, matrices, 4)
        trainer.reads_late = trainer.reads_late or (device.smoke and bool(changes))
        trainer.run(Position())
        changes.append(_weights(learner) - start)
    # the first steps of AdamW are of the sign of a gradient, also where that is rounding alone
    return _within({"change of weights": relative_error(changes[1], changes[0])}, 0.05)


def check_bad_step(device: Device, folder: Path) -> dict[str, Any]:
    """A step whose loss is infinite leaves the weights as they were, and the next ones go on."""
    tiny, batches = _batches(folder)
    learner = tiny.learner().to(device.device)
    trainer = make_trainer(learner, batches, device.device, "muon", 3)
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
    one_step = sum(int(each.num_tokens) for each in batches)
    return {
        "ok": moved[0] > 0 and moved[1] == 0 and 0 < last < 1 and position.tokens == 2 * one_step,
        "moved": [*moved, last],
    }


def check_generation(device: Device, system: str, folder: Path) -> dict[str, Any]:
    """Greedy texts and beams over a cache, prompts of mixed lengths: the tokens that the CPU
    chooses."""
    tiny = tiny_run(system, folder)
    prompts = [list(range(5, 5 + n)) for n in (12, 9, 9, 4, 2)]
    found = []
    for place in (torch.device("cpu"), device.device):
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
    return _agree(found)


def check_translation(device: Device, system: str, folder: Path) -> dict[str, Any]:
    """Beam search over a decoder: the targets that the CPU finds."""
    tiny = tiny_run(system, folder)
    tokenizer = load_tokenizer(tiny.shards.tokenizer_folder)
    sources = [[2, *range(6, 6 + n), 3] for n in (9, 7, 4, 2)]
    found = []
    for place in (torch.device("cpu"), device.device):
        learner = tiny.learner().to(place).eval().requires_grad_(False)
        search = TargetSearch(learner, tokenizer, 4096)
        steps = search.begin(sources, [14] * len(sources), 4, 0.6)
        found.append([best[0].ids for best in finish(steps)])
    return _agree(found)


def _agree(found: list[list[list[int]]]) -> dict[str, Any]:
    ours, theirs = found
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    # of random weights two tokens may be nearly as likely: one text may differ
    return {"ok": same >= len(ours) - 1, "texts": len(ours), "same": same}


def check_resuming(device: Device, folder: Path) -> dict[str, Any]:
    """Two steps on one device, saved, two more on the other: the weights of four on the CPU."""
    tiny, batches = _batches(folder)
    cpu = torch.device("cpu")
    straight = tiny.learner()
    start = _weights(straight)
    make_trainer(straight, batches, cpu, "muon", 4).run(Position())
    expected, errors = _weights(straight) - start, {}
    for name, first, second in (
        ("from the device to the CPU", device.device, cpu),
        ("from the CPU to the device", cpu, device.device),
    ):
        learner = tiny.learner().to(first)
        trainer = make_trainer(learner, batches, first, "muon", 2)
        position = trainer.run(Position())
        files = encode_state(position, learner, trainer.optimizers, trainer.ranks)
        with tempfile.TemporaryDirectory() as place:
            checkpoint.save(
                Path(place), learner, tiny.shards.tokenizer_folder, "", extra_files=files
            )
            again = checkpoint.load(place, list(learner.objectives)).learner.to(second)
            trainer = make_trainer(again, batches, second, "muon", 4)
            position = load_state(Path(place), again, trainer.optimizers)
        trainer.run(replace(position, finished=False))
        errors[name] = relative_error(_weights(again) - start, expected)
    return _within(errors, 0.05)
