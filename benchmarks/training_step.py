"""One pre-training step (masked LM + next sentence), ours beside transformers' BertForPreTraining.

    python benchmarks/training_step.py [--sizes tiny mini small base] [--rows 32] [--profile mini]

A step is forward, backward, clipping and AdamW (of all weights) over 32 sequences of 128 tokens,
vocabulary 30,522, 15 % masked, no padding in either. transformers runs as published, with dropout
0.1 everywhere, in float32 (its default) and under bf16 autocast. Ours runs as `pretrain` does,
with hidden dropout 0.1 and without dropout of attention probabilities (its fast path), and once
more with no dropout at all, as its recipes are. Every figure is the best of several steps in a
process of its own; systems take turns, so that a slow minute of the machine falls on all. Prints
one JSON line a size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from machine import machine

SIZES = ("tiny", "mini", "small", "base")
LENGTH, VOCABULARY, MASKED = 128, 30522, 19
WARM_UP, LEAST = 2, 3
"""Steps before those that count, and of those at least."""
SYSTEMS = ("transformers-fp32", "transformers-bf16", "bertwright-bf16", "bertwright-bf16-nodropout")


def make_inputs(rows: int) -> dict[str, Any]:
    """Random ids, the same for every system."""
    import torch

    torch.manual_seed(0)
    ids = torch.randint(1000, VOCABULARY, (rows, LENGTH))
    places = torch.stack([torch.randperm(LENGTH)[:MASKED].sort()[0] for _ in range(rows)])
    types = (torch.arange(LENGTH) > LENGTH // 2).long().repeat(rows, 1)
    labels = ids.gather(1, places)
    return {
        "ids": ids.scatter(1, places, 103),
        "types": types,
        "places": places,
        "labels": labels,
        "next": torch.randint(0, 2, (rows,)),
    }


def transformers_step(size: str, rows: int, bf16: bool) -> Callable[[], None]:
    """A training step of the peer."""
    import torch
    import transformers

    from bertwright.models.bert.config import PRESETS

    ours = PRESETS[f"bert-{size}"]
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=ours.hidden_size,
        num_hidden_layers=ours.num_hidden_layers,
        num_attention_heads=ours.num_attention_heads,
        intermediate_size=ours.intermediate_size,
    )
    model = transformers.BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    inputs = make_inputs(rows)
    labels = torch.full_like(inputs["ids"], -100).scatter(1, inputs["places"], inputs["labels"])

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(
                input_ids=inputs["ids"],
                token_type_ids=inputs["types"],
                attention_mask=torch.ones_like(inputs["ids"]),
                labels=labels,
                next_sentence_label=inputs["next"],
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def bertwright_step(size: str, rows: int, dropout: float) -> Callable[[], None]:
    """A training step of ours, as the trainer does it."""
    import numpy as np
    import torch

    from bertwright.checkpoint.checkpoint import make_learner
    from bertwright.config.run import OptimizerConfig
    from bertwright.data.batch import inputs_of
    from bertwright.models.bert.config import PRESETS
    from bertwright.models.bert.masked_batch import MaskedBatch
    from bertwright.nn.init import initialize
    from bertwright.process_settings import keep_freed_memory
    from bertwright.train.optim import clip_gradients, make_optimizers

    keep_freed_memory()
    config = replace(
        PRESETS[f"bert-{size}"], hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0
    )
    learner = make_learner(config, ["masked_lm", "next_sentence"]).train()
    initialize(learner, config.initializer_range, torch.Generator().manual_seed(0))
    optimizer = make_optimizers(learner, OptimizerConfig("adamw", learning_rate=1e-4))
    inputs = make_inputs(rows)
    starts = torch.arange(rows)[:, None] * LENGTH

    def step() -> None:
        batch = MaskedBatch(
            inputs_of(
                inputs["ids"].flatten().numpy(),
                np.full(rows, LENGTH),
                inputs["types"].flatten().numpy(),
            ),
            masked_positions=(inputs["places"] + starts).flatten(),
            masked_labels=inputs["labels"].flatten(),
            next_sentence_labels=inputs["next"],
            instances=torch.arange(rows),
        )
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            losses = learner(batch)
        total = torch.stack([loss.total / loss.count for loss in losses.values()]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        clip_gradients(learner.parameters(), 1.0)
        optimizer.step()

    return step


def make_step(system: str, size: str, rows: int) -> Callable[[], None]:
    """The step of a system by name."""
    if system.startswith("transformers"):
        return transformers_step(size, rows, system.endswith("bf16"))
    return bertwright_step(size, rows, 0.0 if system.endswith("nodropout") else 0.1)


def measure(system: str, size: str, rows: int, seconds: float) -> float:
    """Tokens a second of the best step."""
    step = make_step(system, size, rows)
    for _ in range(WARM_UP):
        step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return rows * LENGTH / min(times)


def profile(size: str, rows: int) -> None:
    """Where the time of our step goes, by operator."""
    import torch

    step = make_step("bertwright-bf16", size, rows)
    step()
    with torch.profiler.profile() as profiler:
        step()
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15))


def main() -> None:
    """Measure each size in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--profile", choices=SIZES)
    parser.add_argument("--one", choices=SYSTEMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments.profile, arguments.rows)
        return
    if arguments.one:
        print(measure(arguments.one, arguments.sizes[0], arguments.rows, arguments.seconds))
        return
    print(json.dumps({"machine": machine()}), flush=True)
    for size in arguments.sizes:
        rates = dict.fromkeys(SYSTEMS, 0.0)
        for _ in range(arguments.rounds):
            for system in SYSTEMS:
                options = ["--one", system, "--sizes", size, "--rows", str(arguments.rows)]
                command = [sys.executable, __file__, *options, "--seconds", str(arguments.seconds)]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                rates[system] = max(rates[system], float(output.stdout.split()[-1]))
        ours = rates["bertwright-bf16"]
        ratios = {system: round(ours / rates[system], 2) for system in SYSTEMS[:2]}
        rounded = {system: round(rate) for system, rate in rates.items()}
        print(json.dumps({"size": size, "tokens_per_second": rounded, "ours_over": ratios}))


if __name__ == "__main__":
    main()
