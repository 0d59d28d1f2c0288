"""Fine-tuning, ours beside transformers' Trainer: examples a second, in the same run.

    python benchmarks/finetuning.py [--model FOLDER] [--data FOLDER] [--tasks SST-2 ...]
        [--examples 320] [--rounds 1] [--threads 2] [--bf16]

The tasks, and their epochs, batches, lengths and strides are those of
`experiments/finetuning/settings.py`; of each the first examples after a shuffle, a quarter of them
where batches are of 8 and not 32 (SQuAD: questions). transformers runs as published: dynamic
padding, dropout 0.1 also of attention probabilities, its default attention, float32 (its default).
Ours runs by its default precision (bf16 where the hardware multiplies it faster) and in float32.
`--bf16`: also the Trainer under bf16 autocast, and ours in bf16 with attention dropout as the peer.
Seconds are of training alone, as both sides count them. Every side is a process of its own; sides
take turns, and the best of the rounds counts. Prints the machine, then one JSON line a task.

Needs beyond `.[dev]`: accelerate, which transformers' Trainer imports (`pip install accelerate`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import machine

EXPERIMENT = Path(__file__).resolve().parents[1] / "experiments" / "finetuning"
sys.path[:0] = [str(EXPERIMENT), str(EXPERIMENT.parent)]

from needs import needs  # noqa: E402
from settings import SETTINGS, data_folder, files, model_folder  # noqa: E402

SIDES = {
    "transformers-fp32": ("fp32", 0.1),
    "bertwright-default": ("auto", 0.0),
    "bertwright-fp32": ("fp32", 0.0),
}
"""Precision and dropout of attention probabilities."""
BF16_SIDES = {
    "transformers-bf16": ("bf16", 0.1),
    "bertwright-bf16-attention-dropout": ("bf16", 0.1),
}
RATIOS = {
    "default over default": ("bertwright-default", "transformers-fp32"),
    "both fp32": ("bertwright-fp32", "transformers-fp32"),
    "default over bf16": ("bertwright-default", "transformers-bf16"),
    "both bf16, attention dropout": ("bertwright-bf16-attention-dropout", "transformers-bf16"),
}
SEED, HELD_OUT = 1, 32


def measure_peer(name: str, given: argparse.Namespace, train: Path, dev: Path) -> float:
    """Examples a second of transformers' Trainer."""
    import transformers
    from peer import make_trainer
    from peer_tasks import make_task

    setting = SETTINGS[name]
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    task = make_task(setting, train, dev, tokenizer)
    trainer = make_trainer(setting, task, tokenizer, SEED, given)
    begin = time.perf_counter()
    trainer.train()
    return task.examples * setting.epochs / (time.perf_counter() - begin)


def measure_one(name: str, side: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Examples a second of one side, and the precision that it ran in."""
    precision, dropout = (SIDES | BF16_SIDES)[side]
    count = given.examples * SETTINGS[name].batch_size // 32
    parts = files(name, given.data, folder, count, HELD_OUT)
    asked = argparse.Namespace(
        model=given.model,
        out=folder,
        precision=precision,
        attention="sdpa",
        max_steps=None,
        attention_dropout=dropout,
        random_start=False,
        baselines=False,
    )
    if side.startswith("transformers"):
        return {"rate": measure_peer(name, asked, *parts), "precision": precision}
    from ours import run

    record = run(name, SEED, asked, *parts)
    return {"rate": record["examples_per_second"], "precision": record["precision"]}


def ask(name: str, side: str, given: argparse.Namespace) -> dict[str, Any]:
    """`measure_one` in a process of its own."""
    command = [sys.executable, __file__, "--one", side, "--tasks", name, "--data", str(given.data)]
    command += ["--model", given.model, "--examples", str(given.examples)]
    environment = os.environ | {"OMP_NUM_THREADS": str(given.threads)}
    environment["TRANSFORMERS_VERBOSITY"] = "error"
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{side} failed on {name}: see above")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure each side in processes of their own, in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--examples", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="the Trainer under autocast as well")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    needs("accelerate", "accelerate")
    given.model = given.model or model_folder()
    if given.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure_one(given.tasks[0], given.one, Path(folder), given)))
        return
    print(json.dumps({"machine": machine(), "threads": given.threads, "seed": SEED}), flush=True)
    sides = [*SIDES, *(BF16_SIDES if given.bf16 else ())]
    for name in given.tasks:
        rates = dict.fromkeys(sides, 0.0)
        chosen = ""
        for _ in range(given.rounds):
            for side in sides:
                found = ask(name, side, given)
                rates[side] = max(rates[side], found["rate"])
                chosen = found["precision"] if side == "bertwright-default" else chosen
        ratios = {
            what: round(rates[a] / rates[b], 2)
            for what, (a, b) in RATIOS.items()
            if a in rates and b in rates
        }
        rounded = {side: round(rate, 1) for side, rate in rates.items()}
        row = {"task": name, "default_is": chosen, "examples_per_second": rounded}
        print(json.dumps({**row, "ratios": ratios}), flush=True)


if __name__ == "__main__":
    main()
