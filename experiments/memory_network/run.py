"""Memory networks on made-up stories: held-out accuracy by hops, with and without a linear start.

    python experiments/memory_network/run.py --runs FOLDER [--tasks one-fact ...]

10,000 stories a task, of which a tenth is held out; 15 epochs, or 5 without a softmax and then 10
with one; seed 1. A run that is there is not made again. Writes `RUNS/results.jsonl`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bertwright.cli.app import run
from bertwright.models.memory_network.generate import TASKS

OPTIONS = (
    "--batch.tokens 2048 --optimizer.learning-rate 5e-3 --validation.fraction 0.1 "
    "--validation.every-steps 1000000 --precision fp32 --device cpu"
)


def bertwright(*words: object) -> None:
    """Run a command line."""
    assert run([str(word) for word in words]) == 0


def stories(task: str, folder: Path) -> Path:
    """Shards of a task's stories."""
    text, words, shards = (folder / f"{task}{end}" for end in (".txt", "-words", "-shards"))
    if not shards.exists():
        bertwright("data", "stories", "--out", text, "--task", task, "--overwrite")
        size = "--algorithm", "word", "--vocab-size", 100, "--overwrite"
        bertwright("tokenizer", "train", text, *size, "--out", words)
        bertwright(
            "data", "build", text, "--sentences", "line", "--tokenizer", words, "--out", shards
        )
    return shards


def train(out: Path, shards: Path, *more: object) -> None:
    """A run, unless it is there."""
    if not (out / "model").exists():
        words = ["pretrain", "--data", shards, "--out", out, *OPTIONS.split(), *more]
        bertwright(*words, "--overwrite")


def accuracy(out: Path) -> float:
    """The last held-out accuracy of a run, in percent."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["split"] == "dev"][-1]
    return round(100 * float(last["answer.accuracy"]), 1)


def main() -> None:
    """Train what is not there, and collect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", required=True, type=Path)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for task in given.tasks:
        shards = stories(task, given.runs)
        for hops in (1, 2, 3):
            plain, linear, begun = (
                given.runs / f"{task}-{hops}-{way}" for way in ("softmax", "linear", "begun")
            )
            new = "--model", "memory-network", "--architecture.hops", hops
            train(plain, shards, *new, "--epochs", 15)
            train(linear, shards, *new, "--epochs", 5, "--architecture.no-softmax")
            more = "--epochs", 10, "--architecture.softmax"
            train(begun, shards, "--init", linear, *more)
            both = {"softmax": accuracy(plain), "linear_start": accuracy(begun)}
            rows.append({"task": task, "hops": hops, **both})
            print(json.dumps(rows[-1]), flush=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (given.runs / "results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
