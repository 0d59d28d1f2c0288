"""ULMFiT's parts on TREC-6, AG News and IMDb: from scratch, supervised only, with language-model
tuning, each trick removed, and by number of labelled examples.

    python experiments/road/ulmfit.py --lm runs/lm --data FOLDER --out runs/ulmfit [--minutes 5]

`FOLDER` has, of each task, `TASK-100.tsv`, `-300`, `-1000` (the first of the shuffled training
file), `TASK-test.tsv` and `TASK-shards` (its training texts without labels, built with the
tokenizer of `lm`). What is finished is not run again; `--minutes` ends after the run in which they
are over.
Writes `OUT/ulmfit.json`: accuracy on test by seed, of the last weights, chosen by nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from bertwright.cli.app import run

DEVICE = ["--device", "cpu", "--precision", "fp32"]
SLANTED = ["--schedule.curve", "slanted", "--schedule.warmup", "0.1"]
BY_DEPTH = ["--optimizer.layer-decay", "0.385"]
TUNING = ["--sequence-length", "64", "--batch.tokens", "1024", "--optimizer.learning-rate", "4e-3",
          "--architecture.dropout-scale", "0.3", "--validation.every-steps", "1000000"]  # fmt: skip
TUNED = {"tuned": [*SLANTED, *BY_DEPTH], "tuned-plainly": []}
EPOCHS_OF_TUNING = {"trec": "6", "ag": "3", "imdb": "1"}
HEAD = ["--pooling", "last+max+mean", "--hidden-size", "50"]
DROPOUT = ["--dropout", "0.3", "--dropout-scale", "0.3"]
GRADUAL = ["--transfer", "gradual", "--learning-rate", "1e-2"]
AT_ONCE = ["--transfer", "finetune", "--learning-rate", "5e-3"]
FULL = [*GRADUAL, *HEAD, *DROPOUT]
WAYS: dict[str, tuple[str, list[str]]] = {
    "from scratch": ("lm", [*AT_ONCE, *HEAD, *DROPOUT, "--random-start"]),
    "supervised only": ("lm", FULL),
    "ULMFiT": ("tuned", FULL),
}
WITHOUT: dict[str, tuple[str, list[str]]] = {
    "slanted and discriminative rates in tuning": ("tuned-plainly", FULL),
    "discriminative rates": ("tuned", [*FULL, "--layer-decay", "1"]),
    "gradual unfreezing and slanted rates": (
        "tuned",
        [*AT_ONCE, *HEAD, *DROPOUT, "--layer-decay", "0.385"],
    ),
    "all three": ("tuned-plainly", [*AT_ONCE, *HEAD, *DROPOUT]),
    "concat pooling (last)": ("tuned", [*GRADUAL, "--pooling", "last", *HEAD[2:], *DROPOUT]),
    "the hidden layer": ("tuned", [*GRADUAL, *HEAD[:2], *DROPOUT]),
    "dropout": ("tuned", [*GRADUAL, *HEAD, "--dropout", "0", "--dropout-scale", "0"]),
}


def plan() -> list[tuple[str, int, str, str, list[str]]]:
    """(task, examples, name, model, options), in order of importance."""
    found = [("trec", 1000, name, *way) for name, way in WAYS.items()]
    found += [("trec", n, name, *way) for n in (100, 300) for name, way in WAYS.items()]
    found += [("trec", 1000, f"without {name}", *way) for name, way in WITHOUT.items()]
    found += [("ag", n, name, *way) for n in (300, 1000) for name, way in WAYS.items()]
    found += [("imdb", 300, name, *way) for name, way in WAYS.items()]
    name = "discriminative rates"
    found.append(("imdb", 300, f"without {name}", *WITHOUT[name]))
    return found


def main() -> None:
    """Run what is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("lm", "data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seeds", default="2")
    arguments = parser.parse_args()
    out, data, began = arguments.out, arguments.data, time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    results = []
    for task, examples, name, model, options in plan():
        folder = out / f"{task}-{examples}-{name}".replace(" ", "-").replace("(", "").replace(
            ")", ""
        )
        if not (folder / "results.json").exists():
            if time.monotonic() - began > 60 * arguments.minutes:
                break
            start = arguments.lm
            if model != "lm":
                start = out / f"{task}-{model}"
                if not (start / "checkpoints" / "latest").exists():
                    words = ["pretrain", "--model", "awd-lstm-mini", "--init", arguments.lm,
                             "--data", data / f"{task}-shards", "--out", start, *DEVICE,
                             "--epochs", EPOCHS_OF_TUNING[task], *TUNED[model],
                             *TUNING]  # fmt: skip
                    assert run([str(word) for word in words]) == 0
            words = ["finetune", "classification", "--model", start,
                     "--train", data / f"{task}-{examples}.tsv", "--dev", data / f"{task}-test.tsv",
                     "--out", folder, "--epochs", "15" if examples < 1000 else "8",
                     "--batch-size", "16" if examples < 1000 else "32", "--keep", "last",
                     "--evaluations-per-epoch", "0.01", "--seeds", arguments.seeds,
                     *DEVICE, *options]  # fmt: skip
            assert run([str(word) for word in words]) == 0
        content = json.loads((folder / "results.json").read_text())
        accuracy = [seed["metrics"]["accuracy"] for seed in content["seeds"]]
        results.append({"task": task, "examples": examples, "way": name, "accuracy": accuracy})
        (out / "ulmfit.json").write_text(json.dumps(results, indent=1) + "\n")
        print(results[-1], flush=True)


if __name__ == "__main__":
    main()
