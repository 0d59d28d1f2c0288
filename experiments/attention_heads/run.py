"""What the heads of a BERT attend to: Clark et al. 2019 on a small model, beside its start.

    python experiments/attention_heads/run.py --model runs/mine --start runs/start \\
        --corpus texts.txt --treebank CRAFT/dev --limit 300 --out results.jsonl

Measures every head (means over `--limit` texts of `--corpus`), finds the best head of each relation
of as many sentences of `--treebank`, and the one that links pronouns to their nouns. `--start` is a
run of the same model of one step. A JSON line each, printed without `--out`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coreference import score_coreference
from syntax import score_syntax

from bertwright.inference.attention.measures import measure_heads
from bertwright.inference.files.texts import open_texts
from bertwright.inference.model import load
from bertwright.text.treebank.dependencies import dependencies_of
from bertwright.text.treebank.trees import read_trees


def measured(
    model: str, corpus: str | None, treebank: Path | None, limit: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each head, each relation and the pronouns of a model."""
    runner = load(model, "cpu").runner
    if corpus is not None:
        rows = (text for text, _ in open_texts(corpus, option="--corpus").rows)
        means = measure_heads(runner, rows, limit).means()
        layers, heads = next(iter(means.values())).shape
        for layer in range(layers):
            for head in range(heads):
                place = {"layer": layer + 1, "head": head + 1}
                yield {**place, **{name: float(x[layer, head]) for name, x in means.items()}}
    if treebank is not None:
        _, best = score_syntax(runner, map(dependencies_of, read_trees(treebank)), limit)
        for name, each in best.items():
            yield {"relation": name, **vars(each)}
    yield {"coreference": True, **vars(score_coreference(runner))}


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its numbers rounded to four places."""
    return {
        name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()
    }


def main() -> None:
    """Measure both models and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--start")
    parser.add_argument("--corpus")
    parser.add_argument("--treebank", type=Path)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    models = {"start": given.start, "trained": given.model}
    lines = [
        json.dumps(rounded({"when": when, **row}))
        for when, model in models.items()
        if model is not None
        for row in measured(model, given.corpus, given.treebank, given.limit)
    ]
    content = "\n".join(lines) + "\n"
    if given.out is None:
        sys.stdout.write(content)
    else:
        given.out.write_text(content, "utf-8")


if __name__ == "__main__":
    main()
