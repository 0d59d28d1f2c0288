"""Does fine-tuning ever lose to the model's own frozen features?

    python experiments/finetuning/start.py --models bert=runs/half-hour minilm=FOLDER --data DIR
        [--labels 96 1000] [--tasks TREC-6 ...] [--seeds 1 2] [--ways now before frozen last]

Each model learns each task from a few labels by the defaults (`now`), by those of before (`before`:
a random head over what the encoder was published with, a tenth of the labels held out) and as
frozen features (`frozen`; `last`: of the last layer in place of the default one). The choice among
epochs is made on the labels given; scores are of at most 2,000 examples of the given dev or test
file. Each score is a line of a file; what is there is not done again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.config.finetune import FinetuneConfig
from bertwright.inference.model import load
from bertwright.machine import processor
from bertwright.progress import silent
from bertwright.recipes.finetune.defaults import epochs_of, fixed_rate
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import draw, hold_out, read_split
from bertwright.tasks.catalogue import kind_of

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
from lines import Lines, mean_and_sd, shown
from speedrun.tasks import TASKS, read_held_out, score, task_spec

WAYS = ("now", "before", "frozen")
SETTINGS: dict[str, dict[str, Any]] = {
    "now": {},
    "before": {"head_start": "random"},
    "frozen": {"transfer": "features"},
    "last": {"transfer": "features", "layers": "last"},
}
RULE = {"rate/3": (1 / 3, 1.0), "rate*3": (3.0, 1.0), "epochs/2": (1.0, 0.5)}
"""Other ways that change the rule of the defaults: the factors of the learning rate and of the
number of epochs."""


def fit(
    name: str, labels: int | None, model: Path, data: Path, way: str, seed: int, out: Path
) -> dict[str, Any]:
    """Fine-tune a model on a task, and return its score in percent."""
    task, began = TASKS[name], time.monotonic()
    kind, spec = kind_of(task.kind), task_spec(name, data, labels)
    if way == "before":
        split = read_split(kind, spec.files, spec.options, seed, silent)
        drawn = draw([*split.train, *split.dev], labels, seed)
        train, dev = hold_out(drawn, kind, seed)
        spec = replace(spec, split=replace(split, train=train, dev=dev))
    settings = SETTINGS.get(way, {})
    config = FinetuneConfig(str(model), str(out), seed=seed, baselines=False, **settings)
    if way in RULE:
        rate, epochs = RULE[way]
        encoder, usual = load(model).runner.encoder, epochs_of(config, labels or 20_000)
        size = sum(each.numel() for each in encoder.parameters())
        steps = usual * (labels or 20_000) / config.batch_size
        config = replace(
            config,
            learning_rate=rate * fixed_rate(config, encoder.spec, size, steps),
            epochs=epochs * usual,
        )
    found = finetune([spec], config, silent, overwrite=True)
    seconds, tuned = time.monotonic() - began, load(out)
    scored = score(tuned, read_held_out(name, data, tuned, seed), task.metric)
    shutil.rmtree(out)
    (of_seed,) = found["seeds"]
    return {
        "score": round(100 * scored.metrics[task.metric], 2),
        "chosen_by": found["metrics"][task.metric],
        "best_epoch": of_seed["best_epoch"],
        "epochs": of_seed["epochs"],
        "compares": found["task"]["head"]["compares"],
        "seconds": round(seconds, 1),
    }


def table(lines: Lines) -> str:
    """Return the scores of all cells, with the means over the cells that have all `WAYS`."""
    ways = [way for way in (*SETTINGS, *RULE) if lines.has(way=way)]
    cells = dict.fromkeys((r["model"], r["task"], r["labels"]) for r in lines.records)
    rows = [f"| model | task | labels | {' | '.join(ways)} |", "|---" * (3 + len(ways)) + "|"]
    means: list[list[float]] = []
    for model, task, labels in cells:
        of_cell = lines.select(model=model, task=task, labels=labels)
        found = [[r["score"] for r in of_cell if r["way"] == way] for way in ways]
        cell = " | ".join(shown(scores, 1) for scores in found)
        rows.append(f"| {model} | {task} | {labels} | {cell} |")
        if all(found[: len(WAYS)]):
            means.append([mean_and_sd(scores)[0] for scores in found[: len(WAYS)]])
    of_ways = [mean_and_sd(scores)[0] for scores in zip(*means, strict=True)]
    rows.append(f"| mean of {len(means)} cells | | | {' | '.join(f'{m:.1f}' for m in of_ways)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", metavar="NAME=FOLDER", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--labels", nargs="+", type=int, default=[96, 1000], help="0: all")
    parser.add_argument(
        "--tasks", nargs="+", default=["TREC-6", "STS-B", "CoNLL-2003", "AG-News", "MRPC"]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--ways", nargs="+", choices=[*SETTINGS, *RULE], default=WAYS)
    parser.add_argument("--out", type=Path, default=Path("start.jsonl"))
    given = parser.parse_args()
    lines = Lines(given.out)
    models = dict(each.split("=", 1) for each in given.models)
    for seed in given.seeds:
        for labels in given.labels:
            for task in given.tasks:
                for name, folder in models.items():
                    for way in given.ways:
                        key = {"model": name, "task": task, "labels": labels or "all"}
                        key |= {"seed": seed, "way": way}
                        if lines.select(**key):
                            continue
                        work = given.out.parent / f".{given.out.stem}-{name}"
                        most = labels or None
                        found = fit(task, most, Path(folder), given.data, way, seed, work)
                        lines.add({**key, **found, "processor": processor()})
    print(table(lines))


if __name__ == "__main__":
    main()
