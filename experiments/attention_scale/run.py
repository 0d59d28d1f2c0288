"""Why attention divides by the square root of d_k (Vaswani et al. 2017, section 3.2.1, footnote 4).

    python experiments/attention_scale/run.py --out experiments/attention_scale/results.jsonl

Queries and keys with independent components of mean 0 and variance 1 have products of variance
d_k: the larger d_k, the nearer the softmax comes to one key alone, where its gradient vanishes.
For each d_k, with and without the scale: the standard deviation of the scores, the largest
weight, the entropy of the weights in bits, and the Frobenius norm of the softmax's Jacobian: the
root mean square norm of the gradient at the softmax's input if that at its output is N(0, 1).
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch

KEYS, QUERIES, SEED = 64, 4096, 1
SIZES = (4, 16, 64, 256, 1024)


def measure(d_k: int, scaled: bool, generator: torch.Generator) -> dict[str, float]:
    """Means over `QUERIES` random queries, each against `KEYS` random keys of its own."""
    scores = torch.empty(QUERIES, KEYS)
    for row in range(QUERIES):  # all keys of d_k 1,024 at once would take 1 GB
        query = torch.randn(d_k, generator=generator)
        scores[row] = torch.randn(KEYS, d_k, generator=generator) @ query
    if scaled:
        scores = scores / d_k**0.5
    weights = scores.double().softmax(-1)  # [QUERIES, KEYS]; the sum below cancels in float32
    squares = weights.square().sum(-1)
    # The Jacobian is diag(p) - p p^T; the squares of its entries add up to this.
    jacobian = (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()
    entropy = torch.special.entr(weights).sum(-1)
    return {
        "score_std": round(float(scores.std()), 3),
        "largest_weight": round(float(weights.amax(-1).mean()), 4),
        "entropy_bits": round(float(entropy.mean()) / math.log(2), 3),
        "jacobian_norm": round(float(jacobian.mean()), 5),
        "jacobian_median": round(float(jacobian.median()), 8),
    }


def main() -> None:
    """Measure each size both ways; print a line each, and write them to `--out`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    lines = []
    for d_k in SIZES:
        for scaled in (True, False):
            figures = measure(d_k, scaled, torch.Generator().manual_seed(SEED))
            lines.append(json.dumps({"d_k": d_k, "scaled": scaled, **figures}))
            print(lines[-1], flush=True)
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
