"""What a small budget buys, and what each part of the recipe is worth.

    python experiments/small_budget/run.py SHARDS --out DIR [--steps 600] [--only NAME ...]

Each row of the table changes one thing of the row above it: from BERT as published, with AdamW, to
the recipe `small-budget`; `--variants` are single changes around it. All rows see the same tokens
in the same order; held-out masked-token loss and accuracy are those of 15 % masks in sequences of
the recipe's first length. Prints one JSON line a row.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.config import values
from bertwright.config.run import LogConfig, ValidationConfig
from bertwright.models.bert.config import BertRun, InitializationConfig, LongPhaseConfig
from bertwright.recipes.pretrain import pretrain
from bertwright.train.log import read_records

RECIPE = Path(__file__).parents[2] / "src/bertwright/recipes/small-budget.toml"

PUBLISHED = InitializationConfig(
    aimed_heads=False, counted_vectors=False, frequency_bias=False, embedding_std=0.02
)


def rows(recipe: BertRun) -> dict[str, BertRun]:
    """The configurations, by what is new in each."""
    adamw = replace(recipe.optimizer, matrices="adamw")
    plain = replace(recipe, start=PUBLISHED, optimizer=adamw)
    bias = replace(plain, start=replace(PUBLISHED, frequency_bias=True))
    heads = replace(bias, start=replace(bias.start, aimed_heads=True))
    larger = replace(heads, start=replace(heads.start, embedding_std=0.05))
    vectors = replace(larger, start=replace(larger.start, counted_vectors=True))
    muon = replace(vectors, optimizer=recipe.optimizer)
    return {
        "as published": plain,
        "+ frequency bias": bias,
        "+ aimed heads": heads,
        "+ embeddings of 0.05": larger,
        "+ counted vectors": vectors,
        "+ Muon (the recipe)": muon,
    }


def variants(recipe: BertRun) -> dict[str, BertRun]:
    """What was tried around the recipe, one change each."""

    def optimizer(**changes: Any) -> BertRun:
        return replace(recipe, optimizer=replace(recipe.optimizer, **changes))

    return {
        "rate of embeddings doubled": optimizer(learning_rate=2e-3),
        "rate of matrices doubled": optimizer(matrix_learning_rate=4e-3),
        "30 % masked": replace(recipe, masking=replace(recipe.masking, probability=0.3)),
        "embeddings of 0.1": replace(recipe, start=replace(recipe.start, embedding_std=0.1)),
    }


def main() -> None:
    """Train every row and print what it reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--variants", action="store_true", help="what was tried around the recipe")
    arguments = parser.parse_args()
    mapping = {k: v for k, v in values.read_toml(RECIPE).items() if k != "minutes"}
    given = {"data": arguments.shards, "out": "", "steps": arguments.steps}
    recipe = replace(
        values.from_dict(BertRun, values.merge(mapping, given)),
        long_phase=LongPhaseConfig(),
        validation=ValidationConfig(every_steps=max(1, arguments.steps // 6)),
        log=LogConfig(every_seconds=30.0),
    )
    made = variants(recipe) if arguments.variants else rows(recipe)
    for number, (name, config) in enumerate(made.items()):
        if arguments.only and name not in arguments.only:
            continue
        begin = time.monotonic()
        out = arguments.out / f"{'variant' if arguments.variants else 'row'}-{number}"
        pretrain(replace(config, out=str(out)), lambda line: None, overwrite=True)
        last = [r for r in read_records(out / "metrics.jsonl") if r["split"] == "dev"][-1]
        result = {key: last[key] for key in ("step", "tokens", "masked_lm.loss")}
        result |= {"masked_lm.accuracy": last["masked_lm.accuracy"]}
        print(json.dumps({"row": name, **result, "seconds": round(time.monotonic() - begin)}))


if __name__ == "__main__":
    main()
