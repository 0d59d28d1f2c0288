"""Which layer and pooling tell similar sentences: Spearman's correlation on STS-B and SICK.

    python experiments/embedding_layers/run.py --model DIR [--model DIR ...] \
        --stsb dev.tsv --sick SICK_test.tsv [--whiten-on FILE] [--out table.json]

Every layer, every pooling, plain and whitened; the correlation of cosines with what people said,
times 100 (Reimers and Gurevych 2019, section 4.1). Whitening (Su et al. 2021) is fitted on the
sentences of the same set, without labels, as in their table 1, or on the lines of another file.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from bertwright.config.vectors import Pooling, VectorConfig
from bertwright.inference.files.fit_whitening import Moments
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import normalized

Floats = npt.NDArray[np.float32]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "max", "weighted")


def read_stsb(path: Path) -> list[tuple[str, str, float]]:
    """Pairs and scores of GLUE's file, with a header."""
    rows = csv.reader(path.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE)
    header = next(rows)
    places = [header.index(name) for name in ("sentence1", "sentence2", "score")]
    found = [[row[p] for p in places] for row in rows if len(row) == len(header)]
    return [(a, b, float(score)) for a, b, score in found]


def read_sick(path: Path) -> list[tuple[str, str, float]]:
    """Pairs and relatedness of SICK's file."""
    rows = csv.DictReader(path.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [(row["sentence_A"], row["sentence_B"], float(row["relatedness_score"])) for row in rows]


def correlation(vectors: Floats, gold: list[float]) -> float:
    """Spearman times 100 of the cosines of rows 0 and 1, 2 and 3, ... with the scores."""
    unit = normalized(vectors)
    return 100 * float(spearmanr((unit[::2] * unit[1::2]).sum(1), gold).statistic)


def whitened(vectors: Floats, others: Floats) -> Floats:
    """Whitened as the others would be."""
    moments = Moments(others.shape[1])
    moments.add(others)
    return moments.fit()(vectors)


def main() -> None:
    """Print a table a model and set, and write all numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--stsb", type=Path)
    parser.add_argument("--sick", type=Path)
    parser.add_argument("--whiten-on", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sets = {}
    if args.stsb:
        sets["STS-B"] = read_stsb(args.stsb)
    if args.sick:
        sets["SICK"] = read_sick(args.sick)
    if not sets:
        parser.error("give --stsb FILE, --sick FILE or both")
    others = args.whiten_on.read_text(encoding="utf-8").splitlines() if args.whiten_on else None
    results: list[dict[str, Any]] = []
    for model in args.model:
        base = load(model).embedder(VectorConfig((-1,)))
        every = tuple(range(base.spec.depth + 1))
        ways: list[tuple[VectorConfig, tuple[int | str, ...]]] = [
            (VectorConfig(every, pooling), every) for pooling in POOLINGS
        ]
        ways.append((VectorConfig((1, -1), pooling="first-last"), ("1 and last",)))
        for name, pairs in sets.items():
            print(f"\n{Path(model).name}, {name}, {len(pairs):,} pairs")
            print("| pooling | layer | Spearman x 100 | whitened |\n|---|---|---|---|")
            texts = [text for a, b, _ in pairs for text in (a, b)]
            gold = [score for _, _, score in pairs]
            for config, layers in ways:
                maker = base.with_config(config)
                found = np.split(maker.embed(texts), len(layers), axis=1)
                fitted = np.split(maker.embed(others), len(layers), axis=1) if others else found
                for layer, vectors, fitting in zip(layers, found, fitted, strict=True):
                    if config.pooling == "cls" and layer == 0:
                        continue  # the same for every text
                    plain = correlation(vectors, gold)
                    white = correlation(whitened(vectors, fitting), gold)
                    print(f"| {config.pooling} | {layer} | {plain:.1f} | {white:.1f} |", flush=True)
                    results.append(
                        {"model": Path(model).name, "set": name, "pooling": config.pooling}
                        | {"layer": layer, "spearman": plain, "whitened": white}
                    )
    best = max(results, key=lambda row: float(row["spearman"]))
    print("\nbest:", json.dumps(best))
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
