"""What each part of the recipe `small-budget` of the race contributes.

    python experiments/small_budget/run.py SHARDS --out DIR [--steps 600] [--only NAME ...]

Each row of the table changes one thing of the row above it: from BERT as published, with AdamW, to
the recipe. All rows see the same tokens in the same order; held-out masked-token loss and accuracy
are those of 15 % masks in sequences of the recipe's first length. Prints one JSON line a row.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from bertwright.config import values
from bertwright.config.run import LogConfig, ValidationConfig
from bertwright.models.bert.config import BertRun, InitializationConfig, LongPhaseConfig
from bertwright.models.catalogue import make_run
from bertwright.recipes.pretrain import pretrain
from bertwright.train.log import read_records

RECIPE = Path(__file__).parents[1] / "speedrun/recipes/small-budget.toml"

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


def main() -> None:
    """Train every row and print what it reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--only", nargs="+")
    arguments = parser.parse_args()
    mapping = {k: v for k, v in values.read_toml(RECIPE).items() if k != "minutes"}
    given = {"data": arguments.shards, "out": "", "steps": arguments.steps}
    recipe = replace(
        make_run(BertRun, values.merge(mapping, given)),
        long_phase=LongPhaseConfig(),
        validation=ValidationConfig(every_steps=max(1, arguments.steps // 6)),
        log=LogConfig(every_seconds=30.0),
    )
    for number, (name, config) in enumerate(rows(recipe).items()):
        if arguments.only and name not in arguments.only:
            continue
        begin = time.monotonic()
        out = arguments.out / f"row-{number}"
        pretrain(replace(config, out=str(out)), lambda line: None, overwrite=True)
        last = [r for r in read_records(out / "metrics.jsonl") if r["split"] == "dev"][-1]
        result = {key: last[key] for key in ("step", "tokens", "masked_lm.loss")}
        result |= {"masked_lm.accuracy": last["masked_lm.accuracy"]}
        print(json.dumps({"row": name, **result, "seconds": round(time.monotonic() - begin)}))


if __name__ == "__main__":
    main()
