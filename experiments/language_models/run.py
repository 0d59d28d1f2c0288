"""Bits per character of the road's language models, trained on the same text with one vocabulary.

    python experiments/language_models/run.py --data SHARDS --runs FOLDER --texts TEXT...

The neural models read 2 M tokens each, an epoch's first part; the n-gram model counts the whole
text, and once more only documents of some 2 M tokens, if `--few SHARDS` has them. A run that is
there is not made again. Evaluated on TEXTs and mixed in equal parts with the n-gram model; results
go to `RUNS/results.jsonl`, a line a model and text.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

from bertwright.cli.app import run

STEPS = 500
NEURAL = (
    f"--steps {STEPS} --batch.tokens 4096 --sequence-length 128 --validation.every-steps 100000 "
    "--device cpu --precision fp32 --seed 1 --optimizer.learning-rate"
).split()
COUNTED = ["--architecture.order", "5", "--prune", "0", "0", "1"]
MODELS = {
    "n-gram, few": ("ngram", COUNTED),
    "n-gram": ("ngram", COUNTED),
    "nnlm-base": ("nnlm-base", [*NEURAL, "4e-2"]),
    "awd-lstm-small": ("awd-lstm-small", [*NEURAL, "1e-2"]),
    "gpt2-mini": ("gpt2-mini", [*NEURAL, "5e-3"]),
}
"""Name -> model, options of `bertwright pretrain`; of a few rates the best after 120 steps."""
FIGURES = "bits_per_character", "perplexity", "tokens", "characters"
COUNTS = "n-gram", "n-gram, few"


def said(*words: object) -> Any:
    """Figures of what a command prints as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run([str(word) for word in words])
    assert status == 0, words
    found = json.loads(out.getvalue())
    return {name: round(found[name], 4) for name in FIGURES}


def main() -> None:
    """Train what is not there, and evaluate everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--few")
    parser.add_argument("--runs", required=True, type=Path)
    parser.add_argument("--texts", required=True, nargs="+", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    counted = given.runs / "n-gram"
    for name, (model, options) in MODELS.items():
        folder = given.runs / name.replace(", ", "-")
        data = given.few if name == "n-gram, few" else given.data
        if data is None:
            continue
        if not (folder / "checkpoints" / "latest").exists():
            words = ["pretrain", "--model", model, "--data", data, "--out", folder, *options]
            assert run([str(word) for word in words]) == 0
        lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
        for text in given.texts:
            facts = {"model": name, "seconds": lines[-1].get("seconds"), "text": text.name}
            alone = said("perplexity", text, "--model", folder, "--json")
            rows.append({**facts, "mixed": False, **alone})
            if name not in COUNTS:
                both = ["--model", folder, "--model", counted]
                mixed = said("perplexity", text, *both, "--json")
                rows.append({**facts, "mixed": True, **mixed})
        content = "".join(json.dumps(row) + "\n" for row in rows)
        (given.runs / "results.jsonl").write_text(content, encoding="utf-8")
    print(content, end="")


if __name__ == "__main__":
    main()
