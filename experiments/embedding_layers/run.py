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

import numpy as np
from scipy.stats import spearmanr

from bertwright.config.vectors import Pooling, VectorConfig
from bertwright.inference.embedder import Embedder
from bertwright.inference.vector_maker import normalized
from bertwright.inference.whitening import Moments

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


def correlations(
    embedder: Embedder, pairs: list[tuple[str, str, float]], others: list[str] | None
) -> tuple[float, float]:
    """Spearman times 100, plain and whitened."""
    texts = [text for a, b, _ in pairs for text in (a, b)]
    gold = [score for _, _, score in pairs]
    vectors = embedder.embed(texts)
    moments = Moments(vectors.shape[1])
    moments.add(vectors if others is None else embedder.embed(others))
    found = []
    for each in (vectors, moments.fit()(vectors)):
        unit = normalized(each)
        found.append(100 * float(spearmanr((unit[::2] * unit[1::2]).sum(1), gold).statistic))
    return found[0], found[1]


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
    others = args.whiten_on.read_text(encoding="utf-8").splitlines() if args.whiten_on else None
    results = []
    for model in args.model:
        base = Embedder.load(model, VectorConfig((-1,)))
        count = base.model.num_hidden_layers
        ways = [
            (str(layer), VectorConfig((layer,), pooling=pooling))
            for pooling in POOLINGS
            for layer in range(count + 1)
        ]
        ways.append(("1 and last", VectorConfig(pooling="first-last")))
        for name, pairs in sets.items():
            print(f"\n{Path(model).name}, {name}, {len(pairs):,} pairs")
            print("| pooling | layer | Spearman x 100 | whitened |\n|---|---|---|---|")
            for layer, config in ways:
                plain, white = correlations(base.with_config(config), pairs, others)
                print(f"| {config.pooling} | {layer} | {plain:.1f} | {white:.1f} |", flush=True)
                results.append(
                    {"model": Path(model).name, "set": name, "pooling": config.pooling}
                    | {"layer": layer, "spearman": plain, "whitened": white}
                )
    best = max(results, key=lambda row: np.nan_to_num(row["spearman"]))
    print("\nbest:", json.dumps(best))
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
