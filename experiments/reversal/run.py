"""What attention is for: sequences turned round, by sequence to sequence with and without it.

    python experiments/reversal/run.py --out OUT

6,000 made-up pairs of 2 to 9 words out of 80: the target is the source from its end, each word the
next one of the list. E 48, H 96, one layer, 150 steps of 1,024 tokens, seed 1. Of 400 other
sources, how many are translated without a mistake, by their length; written to `OUT/results.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from bertwright.inference.model import load

WORDS = [a + b for a in "bdfgklmnprstvwyz" for b in "aeiou"]
OPTIONS = (
    "--model seq2seq-small --architecture.embedding-size 48 --architecture.hidden-size 96 "
    "--architecture.dropout 0 --steps 150 --batch.tokens 1024 --precision fp32 "
    "--optimizer.learning-rate 1e-2 --schedule.curve linear"
)


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Sources and targets."""
    chance = Random(seed)
    rows = [[chance.randrange(80) for _ in range(chance.randint(2, 9))] for _ in range(count)]
    return [
        (" ".join(WORDS[n] for n in row), " ".join(WORDS[(n + 1) % 80] for n in row[::-1]))
        for row in rows
    ]


def bertwright(*words: object) -> None:
    """Run a command line."""
    subprocess.run([sys.executable, "-m", "bertwright", *map(str, words)], check=True)


def main() -> None:
    """Train and evaluate all kinds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    files = out / "source.txt", out / "target.txt"
    for path, lines in zip(files, zip(*pairs(6000, 1), strict=True), strict=True):
        path.write_text("\n".join(lines) + "\n")
    words = "--algorithm", "word", "--vocab-size", 90, "--special-tokens", "bert"
    bertwright("tokenizer", "train", *files, *words, "--out", out / "words")
    shards = out / "shards"
    bertwright("data", "build", *files, "--parallel", "--tokenizer", out / "words", "--out", shards)
    rows: list[dict[str, Any]] = []
    test = pairs(400, 2)
    for kind in ("multiplicative", "additive", "none"):
        where = "--data", shards, "--out", out / kind, "--architecture.attention", kind
        bertwright("pretrain", *where, *OPTIONS.split())
        model = load(out / kind)
        right: dict[int, list[bool]] = {}
        for (_, target), each in zip(test, model.translate([a for a, _ in test]), strict=True):
            right.setdefault(len(target.split()), []).append(each.text == target)
        by = {length: round(sum(r) / len(r), 3) for length, r in sorted(right.items())}
        mean = sum(map(sum, right.values())) / len(test)
        rows.append({"attention": kind, "right": round(mean, 3), "by_words": by})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (out / "results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
