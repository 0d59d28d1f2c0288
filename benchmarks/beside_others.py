"""Pre-training steps alone, and beside processes that take all the time they are given.

    python benchmarks/beside_others.py [--size mini] [--busy 0 1 2] [--rounds 1] [--steps 40]
        [--products] [--sessions]

A step is 32 random sequences of 128 tokens, masked LM and next sentence, by the training loop
itself with the optimizers of `pretrain`: as one micro-batch, whose products all cores share; and as
two or four, each computed by one core (`train/cpu_step.py`). The ways take turns. A busy process is
a loop of one thread; with --products, torch's small products on all cores; with --sessions, in a
session of its own, as programs of a desktop are, to which Linux gives time session by session.
Prints a JSON line for each number of busy processes: tokens a second, the median of all steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import torch
from machine import machine

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.run import (
    CheckpointConfig,
    LogConfig,
    OptimizerConfig,
    ValidationConfig,
)
from bertwright.data.batch import inputs_of
from bertwright.data.loading.phases import DataPosition
from bertwright.models.bert.config import PRESETS
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.process_settings import keep_few_kernels, keep_freed_memory
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware, choose_precision
from bertwright.train.loop import Trainer
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget
from bertwright.train.state import Position

ROWS, LENGTH, MASKED, WARM_UP = 32, 128, 19, 2
WAYS = (1, 2, 4)
PRODUCTS = """
import torch
a = torch.randn(64, 256)
while True: a = torch.tanh(a @ torch.randn(256, 256) / 16)
"""
"""Micro-batches of a step."""


class Clock:
    """The same random step again and again, and when each began."""

    def __init__(self, parts: int, vocabulary: int) -> None:
        rows = ROWS // parts
        self.batches = [make_batch(rows, vocabulary, seed) for seed in range(parts)]
        self.began: list[float] = []

    def step(self, at: DataPosition, done: float) -> tuple[list[MaskedBatch], DataPosition]:
        self.began.append(time.perf_counter())
        return self.batches, replace(at, step=at.step + 1)


def make_batch(rows: int, vocabulary: int, seed: int) -> MaskedBatch:
    chance = np.random.default_rng(seed)
    masked = np.arange(rows)[:, None] * LENGTH + np.arange(5, 5 + 6 * MASKED, 6)
    return MaskedBatch(
        inputs_of(
            chance.integers(vocabulary, size=rows * LENGTH),
            np.full(rows, LENGTH),
            np.arange(rows * LENGTH) % LENGTH // 64,
        ),
        torch.from_numpy(masked.ravel()),
        torch.from_numpy(chance.integers(vocabulary, size=rows * MASKED)),
        torch.from_numpy(chance.integers(2, size=rows)),
        torch.arange(rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="mini")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--sessions", action="store_true")
    options = parser.parse_args()
    busy_program = PRODUCTS if options.products else "while True: pass"
    keep_freed_memory()
    keep_few_kernels()
    torch.manual_seed(0)
    device = torch.device("cpu")
    precision, peak = choose_precision(device)
    config = replace(PRESETS[f"bert-{options.size}"], vocab_size=options.vocabulary)
    learner = make_learner(config, ["masked_lm", "next_sentence"])
    optimizers = make_optimizers(learner, OptimizerConfig(), precision)

    def rates(parts: int) -> list[float]:
        clock = Clock(parts, options.vocabulary)
        trainer = Trainer(
            learner=learner,
            optimizers=optimizers,
            begin_step=lambda done, width: 0.0,
            clip_norm=1.0,
            source=clock,
            budget=Budget(steps=WARM_UP + options.steps),
            seed=1,
            hardware=Hardware(Ranks(0, 1, device), precision, peak),
            log=None,
            evaluate=None,
            save=lambda position: None,
            when_to_log=LogConfig(every_steps=10**9),
            when_to_validate=ValidationConfig(every_steps=10**9),
            when_to_save=CheckpointConfig(every_steps=10**9),
        )
        trainer.run(Position())
        times = clock.began[WARM_UP:]
        return [ROWS * LENGTH / (b - a) for a, b in itertools.pairwise(times)]

    for busy in options.busy:
        command, own = [sys.executable, "-c", busy_program], options.sessions
        others = [subprocess.Popen(command, start_new_session=own) for _ in range(busy)]
        try:
            found: dict[int, list[float]] = {parts: [] for parts in WAYS}
            for _ in range(options.rounds):
                for parts in WAYS:
                    found[parts] += rates(parts)
        finally:
            for other in others:
                other.kill()
        line = {
            "busy": busy,
            "products": options.products,
            "sessions": options.sessions,
            "size": options.size,
            "precision": precision,
            **machine(),
        }
        speeds = {f"{parts} micro-batches": statistics.median(found[parts]) for parts in WAYS}
        print(json.dumps(line | {"tokens_per_second": speeds}), flush=True)


if __name__ == "__main__":
    main()
