"""What is a recipe of pre-training worth after half an hour? A race on an ordinary computer.

    python experiments/speedrun/run.py RECIPE [--minutes 30] [--seeds 1] [--proxy] [--probe]
        [--all-labels TASK ...] [--tasks TASK ...] [--labels 1000] [--pairs FILE]
        [--pairs-limit N] [--corpus FILE] [--data DIR] [--work runs/speedrun]

RECIPE is a TOML file of keys of `bertwright pretrain`, or a name. It is pre-trained on the corpus
for the minutes, fine-tuned to each task by the defaults, and compared with random weights. Each
figure is a line of WORK/results.jsonl; what is there is not done again. See README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from bertwright.machine import core_times, processor, usable_cores, waited_since

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "finetuning"))
from lines import Lines
from speedrun.probe import probe
from speedrun.recipe import (
    Recipe,
    configuration,
    digest,
    initialization_seconds,
    prepare,
    read_recipe,
    train,
)
from speedrun.tasks import PROXY, TASKS, architecture, fit, score_pairs
from speedrun.worth import table


class Race:
    """The rows of the race, and what a row is made of."""

    def __init__(self, recipe: Recipe, given: argparse.Namespace) -> None:
        self.recipe, self.given = recipe, given
        self.work: Path = given.work
        self.lines = Lines(self.work / "results.jsonl")
        self.shards = prepare(recipe, given.corpus, given.work)
        self.id = digest([recipe.sha256, self.shards.parent.name])[:12]

    def done(self, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the row with this key, which is measured if it is not there."""
        if found := self.lines.select(**key):
            return found[0]
        before = core_times()
        figures = measure()
        waited = waited_since(before)
        self.lines.add(
            {
                **key,
                **figures,
                "waited": None if waited is None else round(waited, 3),
                "processor": processor(),
                "cores": usable_cores(),
                "threads": torch.get_num_threads(),
                "date": datetime.now(UTC).date().isoformat(),
            }
        )
        return self.lines.records[-1]

    def key(self, what: str, seed: int) -> dict[str, Any]:
        """Return the part of a key that names the pre-training run."""
        recipe = {"recipe": self.recipe.name, "id": self.id}
        return {"what": what, **recipe, "minutes": self.given.minutes, "seed": seed}

    def run_folder(self, seed: int) -> Path:
        """Return the folder of a pre-training run."""
        name = f"{self.recipe.name}-{self.id}"
        return self.work / "runs" / name / f"{self.given.minutes:g}-minutes" / f"seed-{seed}"

    def pretrained(self, seed: int) -> dict[str, Any]:
        """Return the row of a pre-training run."""
        minutes, out = self.given.minutes, self.run_folder(seed)
        config = configuration(self.recipe, self.shards, out, minutes, seed)
        before = self.done(
            self.key("initialization", seed), lambda: {"seconds": initialization_seconds(config)}
        )
        left = round(minutes - before["seconds"] / 60, 3)
        shorter = configuration(self.recipe, self.shards, out, left, seed)
        return self.done(self.key("pretraining", seed), lambda: train(shorter))

    def task(self, name: str, labels: int | None, seed: int) -> dict[str, Any]:
        """Return the row of a fit, after that of random weights."""
        model, out, data = self.run_folder(seed), self.work / "fit", self.given.data
        part = {"task": name, "labels": labels or "all"}
        start = self.done(
            {"what": "random start", "architecture": architecture(model), "seed": seed, **part},
            lambda: fit(name, data, model, out, seed, labels, random_start=True),
        )
        beside = {"random_start": start["score"], "tfidf": start["tfidf"]}
        return self.done(
            {**self.key("task", seed), **part},
            lambda: fit(name, data, model, out, seed, labels) | beside,
        )

    def probe(self, seed: int) -> dict[str, Any]:
        """Return the row of the linear probes."""
        model, labels = self.run_folder(seed), self.given.labels
        return self.done(
            {**self.key("probe", seed), "labels": labels},
            lambda: {"scores": probe(model, self.given.data, self.given.tasks, labels, seed)},
        )

    def pairs(self, seed: int) -> dict[str, Any]:
        """Return the row of the minimal pairs."""
        model, limit = self.run_folder(seed), self.given.pairs_limit
        return self.done(
            {**self.key("pairs", seed), "limit": limit or "all"},
            lambda: score_pairs(model, self.given.pairs, limit, self.work),
        )


def arguments() -> argparse.Namespace:
    """Return the arguments, with those of a proxy where none are given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", metavar="RECIPE")
    parser.add_argument("--minutes", type=float, help="of pre-training; 30, for a proxy 6")
    parser.add_argument("--seeds", type=int, default=1, help="of pre-training and fine-tuning")
    parser.add_argument("--proxy", action="store_true", help=f"6 minutes, {', '.join(PROXY)}")
    parser.add_argument("--probe", action="store_true", help="6 minutes, linear probes alone")
    parser.add_argument("--tasks", nargs="+", choices=TASKS)
    parser.add_argument("--labels", type=int, default=1000, help="the maximum of a task")
    parser.add_argument(
        "--all-labels", nargs="*", choices=TASKS, help="tasks to fit with all labels too; SST-2"
    )
    parser.add_argument("--pairs", type=Path, help="minimal pairs; those of BLiMP in --data")
    parser.add_argument("--pairs-limit", type=int, help="of a paradigm; all, for a proxy 50")
    parser.add_argument("--corpus", type=Path, help="text; english-1 in --data")
    shared = Path(os.environ.get("BERTWRIGHT_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--work", type=Path, default=Path("runs/speedrun"))
    given = parser.parse_args()
    given.minutes = given.minutes or (6.0 if given.proxy or given.probe else 30.0)
    given.tasks = given.tasks or (PROXY if given.proxy or given.probe else tuple(TASKS))
    given.pairs_limit = given.pairs_limit or (50 if given.proxy else None)
    given.pairs = given.pairs or given.data / "language_modelling/blimp/pairs.jsonl.xz"
    given.corpus = given.corpus or given.data / "corpora/english-1.txt.xz"
    if given.all_labels is not None:
        given.all_labels = given.all_labels or ["SST-2"]
    for path in (given.pairs, given.corpus):
        if not path.is_file():
            parser.error(f"no file {path}; name it, or pass --data")
    return given


def main() -> None:
    """Measure what is missing, and print the table."""
    given = arguments()
    race = Race(read_recipe(given.recipe), given)
    seeds = range(1, given.seeds + 1)
    runs = [race.pretrained(seed) for seed in seeds]
    if given.probe:
        for seed in seeds:
            print(race.probe(seed)["scores"])
        return
    tasks = [race.task(name, given.labels, seed) for seed in seeds for name in given.tasks]
    every = [race.task(name, None, seed) for seed in seeds for name in given.all_labels or ()]
    pairs = [race.pairs(seed) for seed in seeds]
    print(table(tasks, every, runs, pairs))


if __name__ == "__main__":
    main()
