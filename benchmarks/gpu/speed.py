"""How fast: training steps, beside transformers by SDPA, on fixed and on mixed lengths; where the
time of a step goes, and where the host waits.

A step of either side is forward and backward under bf16 autocast, clipping and fused AdamW of all
weights, dropout 0. Tokens are those of texts, without padding. The share of the peak is of the
operations that `Learner.flops` counts for our batch, for both sides, over the rate of a large bf16
product on this card.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bertwright.config.run import OptimizerConfig
from bertwright.nn.transformer.layers import TransformerLayer
from bertwright.train.cuda_step import clip_unread
from bertwright.train.optim import Optimizers, make_optimizers

from .device import Device, measure_card, ten_kernels, where_it_waits
from .models import (
    Size,
    import_peers,
    our_batch,
    our_learner,
    their_batch,
    their_model,
)
from .record import Checks

TOKENS = 32768
EAGER = (
    Size("bert-base", 128, False, TOKENS),
    Size("bert-base", 128, True, TOKENS),
    Size("bert-base", 512, False, TOKENS),
    Size("bert-base", 512, True, TOKENS),
    Size("bert-large", 512, False, TOKENS // 2),
    Size("gpt2", 512, False, TOKENS // 2),
    Size("gpt2", 512, True, TOKENS // 2),
)
COMPILED = (
    Size("bert-base", 128, False, TOKENS),
    Size("bert-base", 128, True, TOKENS),
    Size("bert-base", 512, True, TOKENS),
)
Step = Callable[[], None]


def run(checks: Checks, device: Device) -> None:
    """Eager figures first, then the profile, then what is compiled, then what time is left for."""
    checks.run("card", lambda: _card(device), most=20)
    checks.run("imports", import_peers, most=60)
    sizes = [_fitted(size, device) for size in EAGER]
    for size in sizes:
        for side in ("ours", "transformers"):
            checks.run(
                f"{side}: {size.name}",
                lambda: time_step(device, size, side),  # noqa: B023
                most=18,
            )
    first, mixed = sizes[:2]
    checks.run("kernels of a step", lambda: profile_step(device, first), most=20)
    checks.run("kernels of a step, mixed lengths", lambda: profile_step(device, mixed), most=20)
    checks.run("waits of a step", lambda: step_waits(device, mixed), most=10)
    for size in (_fitted(each, device) for each in COMPILED):
        for side in ("ours", "transformers"):
            checks.run(
                f"{side}, compiled: {size.name}",
                lambda: time_step(device, size, side, compiled=True),  # noqa: B023
                most=45,
                least=10,
            )
    checks.run(
        f"ours with Muon: {first.name}",
        lambda: time_step(device, first, "ours", matrices="muon"),
        most=15,
    )
    long = _fitted(Size("gpt2", 1024, False, TOKENS // 2), device)
    for side in ("ours", "transformers"):
        checks.run(f"{side}: {long.name}", lambda: time_step(device, long, side), most=15)  # noqa: B023


def _fitted(size: Size, device: Device) -> Size:
    small = replace(size, length=min(64, size.length), tokens=256, title=size.name)
    return small if device.smoke else size


def _card(device: Device) -> dict[str, Any]:
    found = measure_card(device)
    device.peak = found["bf16_tflops"] * 1e12
    return found


def our_step(device: Device, size: Size, compiled: bool, matrices: str) -> tuple[Step, float]:
    """A step of ours, as the training loop does it on a GPU, and its operations."""
    torch.manual_seed(0)
    learner = our_learner(size, device.smoke).to(device.device).train()
    vocabulary = learner.encoder.spec.vocab_size
    if compiled:
        for module in learner.encoder.modules():
            if isinstance(module, TransformerLayer):
                module.compile_parts()
    config = OptimizerConfig(matrices=matrices, learning_rate=1e-4)  # type: ignore[arg-type]
    optimizers: Optimizers = make_optimizers(learner, config, "bf16")
    batch = our_batch(size, vocabulary, device.device)
    counts = learner.counts(batch)

    def step() -> None:
        fresh = our_batch(size, vocabulary, device.device) if device.smoke else batch
        optimizers.zero_grad()
        with torch.autocast(device.device.type, torch.bfloat16):
            losses = learner(fresh)
        total = torch.stack([loss.total / counts[name] for name, loss in losses.items()]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        norm = clip_unread(learner.parameters(), 1.0)
        optimizers.step(good=norm.isfinite())

    return step, learner.flops(batch)


def their_step(device: Device, size: Size, compiled: bool) -> Step:
    """A step of transformers' model."""
    torch.manual_seed(0)
    model = their_model(size, device.smoke).to(device.device).train()
    batch = their_batch(size, model.config.vocab_size, device.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    forward = torch.compile(model, dynamic=size.mixed) if compiled else model

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.device.type, torch.bfloat16):
            loss = forward(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def time_step(
    device: Device, size: Size, side: str, compiled: bool = False, matrices: str = "adamw"
) -> dict[str, Any]:
    """Tokens a second, share of the peak, peak memory; with fewer tokens where they do not fit."""
    if compiled and device.smoke:
        return {"ok": True, "left_out": "nothing is compiled in a rehearsal"}
    while True:
        device.free()
        try:
            return _time_step(device, size, side, compiled, matrices)
        except torch.cuda.OutOfMemoryError:
            if size.tokens < 4096:
                raise
            size = replace(size, tokens=size.tokens // 2)


def _time_step(
    device: Device, size: Size, side: str, compiled: bool, matrices: str
) -> dict[str, Any]:
    lengths, flops = size.lengths(), 0.0
    if side == "ours":
        step, flops = our_step(device, size, compiled, matrices)
    else:
        meant = our_learner(size, device.smoke)
        flops = meant.flops(our_batch(size, meant.encoder.spec.vocab_size, torch.device("cpu")))
        del meant
        step = their_step(device, size, compiled)
    first = device.seconds(step, 1, warm=0)[0]
    times = device.fill_for(step, 0.1 if device.smoke else 2.5, least=2 if device.smoke else 5)
    seconds, tokens = statistics.median(times), sum(lengths)
    return {
        "rows": len(lengths),
        "tokens": tokens,
        "padded_tokens": tokens if side == "ours" else len(lengths) * max(lengths),
        "tokens_per_second": tokens / seconds,
        "step_ms": 1e3 * seconds,
        "fastest_ms": 1e3 * min(times),
        "slowest_ms": 1e3 * max(times),
        "steps": len(times),
        "first_step_s": first,
        "flops_of_step": flops,
        "share_of_peak": flops / seconds / device.peak if device.peak else None,
        "peak_memory_gb": device.memory_gb(),
    }


def profile_step(device: Device, size: Size) -> dict[str, Any]:
    """The ten kernels with most time of a step of ours, and how much of it the device was busy."""
    device.free()
    step, _ = our_step(device, size, False, "adamw")
    plain = statistics.median(device.seconds(step, 2 if device.smoke else 8))
    found = ten_kernels(device, step)
    return {
        "size": size.name,
        "step_ms": 1e3 * plain,
        **found,
        "busy": found["busy_ms"] / plain / 1e3,
    }


def step_waits(device: Device, size: Size) -> dict[str, Any]:
    """Where a step waits: forward, backward, clipping, both optimizers."""
    step, _ = our_step(device, size, False, "muon")
    return {"size": size.name, **where_it_waits(device, step)}
