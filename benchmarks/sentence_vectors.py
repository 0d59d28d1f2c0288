"""Fine-tuning of sentence vectors: quality and examples a second, beside sentence-transformers.

    python benchmarks/sentence_vectors.py --model FOLDER --train sts-train.tsv --dev sts-dev.tsv

Both train the same encoder on the same scored pairs by CoSENT: equal batch size, epochs, learning
rate, warm-up, temperature, mean pooling and length, in float32; ours also by defaults of precision.
Scores are Spearman's correlation on dev after training.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RATE, WARMUP, LENGTH = 2e-5, 0.1, 128


def read(path: str, most: int | None) -> list[tuple[str, str, float]]:
    """Return the scored pairs of STS-B's file, with scores from 0 to 1."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    pairs = [(row["sentence1"], row["sentence2"], float(row["score"]) / 5) for row in rows]
    return pairs[:most]


def theirs(
    model: str, train: Any, dev: Any, epochs: float, batch: int, seed: int = 1
) -> tuple[float, float]:
    """Train a model of sentence-transformers by its loss in the loop of its trainer (AdamW, linear
    warm-up and decay, clipping at 1); return examples a second and the score."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.losses import CoSENTLoss

    torch.manual_seed(seed)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    encoder = SentenceTransformer(model, device="cpu")
    encoder.max_seq_length = LENGTH
    loss_of = CoSENTLoss(encoder)
    encoder.train()
    steps = max(1, round(epochs * len(train) / batch))
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=RATE, weight_decay=0.0)
    warm = max(1, round(WARMUP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    seen, began = 0, time.monotonic()
    while seen < steps:
        for rows in torch.split(torch.randperm(len(train)), batch):
            first, second, scores = zip(*(train[row] for row in rows.tolist()), strict=True)
            features = [encoder.tokenize(list(side)) for side in (first, second)]
            loss = loss_of(features, torch.tensor(scores))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            seen += 1
            if seen == steps:
                break
    seconds = time.monotonic() - began
    encoder.eval()
    return steps * batch / seconds, spearman(encoder.encode, dev)


def ours(
    model: str, train: Any, dev: Any, epochs: float, batch: int, precision: str
) -> tuple[float, float]:
    """Train by Bertwright; return examples a second and the score."""
    import bertwright

    with tempfile.TemporaryDirectory() as folder:
        run = bertwright.finetune(
            "similarity",
            model=model,
            train=train,
            dev=dev,
            out=Path(folder) / "run",
            epochs=epochs,
            batch_size=batch,
            learning_rate=RATE,
            warmup=WARMUP,
            max_length=LENGTH,
            pooling="mean",
            keep="last",
            evaluations_per_epoch=1e-9,
            baselines=False,
            precision=precision,
            progress=False,
        )
        speed = run.results["seeds"][0]["examples_per_second"]
        return float(speed), spearman(run.model.embed, dev)


def spearman(embed: Any, pairs: Any) -> float:
    """Return the correlation of cosines and scores."""
    import numpy as np
    from scipy.stats import spearmanr

    sides = [np.asarray(embed([row[n] for row in pairs])) for n in (0, 1)]
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    return float(spearmanr((u * v).sum(1), [row[2] for row in pairs]).statistic)


def main() -> None:
    """Print a line for each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--most", type=int, default=None)
    given = parser.parse_args()
    train, dev = read(given.train, given.most), read(given.dev, None)
    print(f"{len(train):,} pairs, {given.epochs:g} epochs, {os.cpu_count()} cores", flush=True)
    common = given.model, train, dev, given.epochs, given.batch
    figures: dict[str, Callable[[], tuple[float, float]]] = {
        "ours fp32": lambda: ours(*common, "fp32"),
        "sentence-transformers fp32": lambda: theirs(*common),
        "ours by defaults": lambda: ours(*common, "auto"),
    }
    for name, measure in figures.items():
        speed, score = measure()
        print(f"{name}: {speed:.1f} examples/s, Spearman {100 * score:.2f}", flush=True)


if __name__ == "__main__":
    main()
