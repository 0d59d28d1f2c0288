"""MRPC over many seeds: what bias correction and warm-up are worth where data is small.

    python experiments/finetuning/mrpc_seeds.py --out DIR [--seeds 20] [--epochs 3]
        [--learning-rate 1e-4] [--examples N] [--rows both ...] [--model FOLDER] [--data FOLDER]

Mosbach et al. (2021) and Zhang et al. (2021) trace runs that fail to the missing bias correction of
BERT's first optimizer. Four rows: with both, without one, without either. A run is degenerate that
gives every pair the same answer. Adds a JSON line a run to DIR/mrpc_seeds.jsonl, leaves out what is
there, and prints the table at the end (`--rows` with nothing after it: only the table).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from learn import learn
from lines import Lines, mean_and_sd
from settings import SETTINGS, WARMUP, data_folder, files, model_folder

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig

ROWS = {
    "both": (True, WARMUP),
    "no-warmup": (True, 0.0),
    "no-bias-correction": (False, WARMUP),
    "neither": (False, 0.0),
}
"""Bias correction, and the part of the steps in which the rate rises."""


def print_table(lines: Lines, asked: int | None) -> None:
    """F1 and accuracy of every row over its seeds."""
    print("| row | seeds | F1 | sd | lowest | accuracy | sd | degenerate |")
    print("|---|---|---|---|---|---|---|---|")
    for row in ROWS:
        records = lines.select(row=row, asked=asked)
        if not records:
            continue
        f1 = [100 * record["scores"]["f1"] for record in records]
        (mean, sd) = mean_and_sd(f1)
        accuracy, accuracy_sd = mean_and_sd([100 * r["scores"]["accuracy"] for r in records])
        figures = f"{mean:.1f} | {sd:.1f} | {min(f1):.1f} | {accuracy:.1f} | {accuracy_sd:.1f}"
        failed = sum(record["degenerate"] for record in records)
        print(f"| {row} | {len(records)} | {figures} | {failed} |")


def main() -> None:
    """Every row with the first seed, then with the next; then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--examples", type=int, help="pairs; by default the whole file")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--data", type=Path, default=data_folder())
    given = parser.parse_args()
    setting = SETTINGS["MRPC"]
    lines = Lines(given.out / "mrpc_seeds.jsonl")
    train, held_out = files("MRPC", given.data, given.out, given.examples)
    task_files = TaskFilesConfig(
        str(train),
        str(held_out),
        metric=setting.main,
        max_length=setting.max_length,
        stride=setting.stride,
    )
    for seed in range(1, given.seeds + 1):
        for row in given.rows:
            if lines.has(row=row, seed=seed, asked=given.examples):
                continue
            bias_correction, warmup = ROWS[row]
            config = FinetuneConfig(
                given.model or model_folder(),
                str(given.out / "runs" / "mrpc-seeds"),
                epochs=given.epochs,
                learning_rate=given.learning_rate,
                batch_size=setting.batch_size,
                bias_correction=bias_correction,
                warmup=warmup,
                seed=seed,
                keep="last",
                evaluations_per_epoch=1e-9,  # at the end alone
            )
            record = learn("MRPC", "classification", task_files, config)
            lines.add({"row": row, "asked": given.examples, **record})
    print_table(lines, given.examples)


if __name__ == "__main__":
    main()
