"""Fine-tunes by Bertwright with the settings of the peer.

    python experiments/finetuning/ours.py --out DIR [--tasks SST-2 ...] [--seeds 1 2 3]
        [--precision auto] [--attention-dropout 0] [--model FOLDER] [--data FOLDER]
        [--random-start] [--baselines]

The same files, epochs, batch size, learning rate, warm-up, decay and clipping as `peer.py`, and the
last weights as there. It differs where Bertwright's defaults do: attention probabilities are not
dropped (`--attention-dropout 0.1` drops them as published), and a text longer than a window is read
in several. Adds one JSON line a (task, seed, model, precision, dropout, start) to DIR/ours.jsonl
and leaves out what is there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from learn import learn
from lines import Lines
from settings import (
    GRADIENT_NORM,
    SEEDS,
    SETTINGS,
    WARMUP,
    WEIGHT_DECAY,
    data_folder,
    files,
    model_folder,
)

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig


def run(name: str, seed: int, given: argparse.Namespace, train: Path, dev: Path) -> dict[str, Any]:
    """Train with the shared settings, said in Bertwright's words.

    Args:
        name: of the task.
        seed: of the run.
        given: `model`, `out`, `precision`, `attention_dropout`, `random_start`, `baselines`.
        train: the training file.
        dev: the held-out file.

    Returns:
        The record of `learn`.
    """
    setting = SETTINGS[name]
    task_files = TaskFilesConfig(
        str(train),
        str(dev),
        text=setting.columns[0],
        label=setting.columns[1],
        metric=setting.main,
        max_length=setting.max_length,
        stride=setting.stride,
    )
    config = FinetuneConfig(
        given.model,
        str(given.out / "runs" / name),
        epochs=setting.epochs,
        learning_rate=setting.learning_rate,
        batch_size=setting.batch_size,
        warmup=WARMUP,
        weight_decay=WEIGHT_DECAY,
        clip_norm=GRADIENT_NORM,
        attention_dropout=given.attention_dropout,
        random_start=given.random_start,
        baselines=given.baselines,
        seed=seed,
        keep="last",
        precision=given.precision,
    )
    return learn(name, setting.kind, task_files, config)


def main() -> None:
    """Every task with the first seed, then with the next."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--precision", choices=["auto", "bf16", "fp32"], default="bf16")
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--random-start", action="store_true", help="what is pre-training worth?")
    parser.add_argument("--baselines", action="store_true", help="TF-IDF and the like beside it")
    given = parser.parse_args()
    given.model = given.model or model_folder()
    lines = Lines(given.out / "ours.jsonl")
    for seed in given.seeds:
        for name in given.tasks:
            key = {
                "task": name,
                "seed": seed,
                "model": given.model,
                "attention_dropout": given.attention_dropout,
                "random_start": given.random_start,
            }
            if given.precision != "auto":
                key["precision"] = given.precision
            if not lines.has(**key):
                parts = files(name, given.data, given.out)
                lines.add(run(name, seed, given, *parts) | key)


if __name__ == "__main__":
    main()
