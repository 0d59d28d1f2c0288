"""The table: Bertwright's scores and the peer's, mean and sd over seeds, and a verdict.

    python experiments/finetuning/compare.py --out DIR [--peer DIR] [--precision bf16]
        [--attention-dropout 0]

Reads DIR/peer.jsonl and DIR/ours.jsonl, of one model; compares the seeds that both have. The sd of
the verdict is the root of the mean of both variances. *level*: the means are less than one sd
apart.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from lines import Lines, mean_and_sd, shown
from settings import SETTINGS

METRICS = {
    "SST-2": ["accuracy"],
    "MRPC": ["f1", "accuracy"],
    "CoLA": ["matthews"],
    "STS-B": ["pearson", "spearman"],
    "CoNLL-2003": ["f1"],
    "SQuAD-1.1": ["f1", "exact_match"],
}


def verdict(ours: list[float], peer: list[float]) -> str:
    """Where the means stand, in sds over seeds."""
    if len(ours) < 2 or len(peer) < 2:
        return "too few seeds"
    (mean, sd), (other, other_sd) = mean_and_sd(ours), mean_and_sd(peer)
    both = math.sqrt((sd * sd + other_sd * other_sd) / 2)
    if abs(mean - other) <= both:
        return "level"
    return "above" if mean > other else "below"


def row(name: str, metric: str, ours: list[dict[str, Any]], peer: list[dict[str, Any]]) -> str:
    """A line of the table."""
    scores = [[record["scores"][metric] for record in side] for side in (ours, peer)]
    cells = [name, metric, *map(shown, scores), verdict(*scores)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peer", type=Path, help="folder of peer.jsonl, if it is another")
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    given = parser.parse_args()
    peers = Lines((given.peer or given.out) / "peer.jsonl")
    all_ours = Lines(given.out / "ours.jsonl")
    for side in (peers, all_ours):
        if not side.records:
            parser.error(f"no results in {side.path}; peer.py and ours.py write them")
    print("| task | metric (x 100) | Bertwright | transformers | Bertwright is |")
    print("|---|---|---|---|---|")
    for name in SETTINGS:
        key = {"task": name, "precision": given.precision}
        peer = peers.select(**key)
        ours = all_ours.select(**key, attention_dropout=given.attention_dropout, random_start=False)
        both = {r["seed"] for r in peer} & {r["seed"] for r in ours}
        peer, ours = ([r for r in side if r["seed"] in both] for side in (peer, ours))
        for metric in METRICS[name]:
            print(row(name, metric, ours, peer))


if __name__ == "__main__":
    main()
