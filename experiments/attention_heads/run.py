"""What the heads of a BERT attend to: Clark et al. 2019 on a small model, beside its start.

    python experiments/attention_heads/run.py --model runs/mine --start runs/start \\
        --corpus texts.txt --treebank CRAFT/dev --limit 300 --out results.json

Measures every head (means over `--limit` texts of `--corpus`), finds the best head of each relation
of as many sentences of `--treebank`, and the one that links pronouns to their nouns. `--start` is a
run of the same model of one step. Without `--out`, the results are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from coreference import score_coreference
from syntax import score_syntax

from bertwright.inference.attention.measures import measure_heads
from bertwright.inference.files.texts import open_texts
from bertwright.inference.model import load
from bertwright.text.treebank.dependencies import dependencies_of
from bertwright.text.treebank.trees import read_trees


def measured(model: str, corpus: str | None, treebank: Path | None, limit: int) -> dict[str, Any]:
    """Return the measures of a model, numbers rounded."""
    runner = load(model, "cpu").runner
    found: dict[str, Any] = {"model": runner.name}
    if corpus is not None:
        rows = (text for text, _ in open_texts(corpus, option="--corpus").rows)
        heads = measure_heads(runner, rows, limit)
        means = {name: x.tolist() for name, x in heads.means().items()}
        found["heads"] = {"texts": heads.texts, "tokens": heads.tokens, **means}
    if treebank is not None:
        sentences, best = score_syntax(runner, map(dependencies_of, read_trees(treebank)), limit)
        relations = {name: vars(each) for name, each in best.items()}
        found["syntax"] = {"sentences": sentences, "relations": relations}
    found["coreference"] = vars(score_coreference(runner))
    rounded: dict[str, Any] = json.loads(
        json.dumps(found), parse_float=lambda x: round(float(x), 4)
    )
    return rounded


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
    found = {"trained": measured(given.model, given.corpus, given.treebank, given.limit)}
    if given.start is not None:
        found["start"] = measured(given.start, given.corpus, given.treebank, given.limit)
    content = json.dumps(found, indent=1) + "\n"
    if given.out is None:
        sys.stdout.write(content)
    else:
        given.out.write_text(content, "utf-8")


if __name__ == "__main__":
    main()
