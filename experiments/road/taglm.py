"""TagLM's orderings on named entities: no language model, forward, both directions, a smaller
one, alone.

    python experiments/road/taglm.py --data SHARDS --train FILE --dev FILE --test FILE --runs FOLDER

SHARDS have a tokenizer of cased words. Each language model reads `--steps` of 4,096 tokens; each
tagger is trained on the first `--sentences` of FILE, by `--seeds` seeds, the better of two
evaluations on dev kept. A run that is there is not made again. Writes `taglm.json`: F1 on dev of
every seed, and of the best one on test.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
from pathlib import Path
from typing import Any

import torch

from bertwright.cli.app import run

RESULTS = Path(__file__).with_suffix(".json")
CPU = ["--device", "cpu"]
DEVICE = [*CPU, "--precision", "fp32"]
WAYS = {
    "no language model": ("both", ["--layers", "embeddings", "--network", "taglm", "--crf"]),
    "both directions": ("both", ["--layers", "last", "--network", "taglm", "--crf"]),
    "all layers, ELMo's mix": ("both", ["--layers", "mix", "--network", "taglm", "--crf"]),
    "its vectors alone": ("both", ["--layers", "last", "--crf"]),
    "forward": ("forward", ["--layers", "last", "--network", "taglm", "--crf"]),
    "no language model, smaller": (
        "smaller",
        ["--layers", "embeddings", "--network", "taglm", "--crf"],
    ),
    "both directions, smaller": ("smaller", ["--layers", "last", "--network", "taglm", "--crf"]),
}
"""Name -> language model, options of `bertwright finetune tagging`."""
MODELS = {
    "both": [],
    "forward": ["--architecture.direction", "forward"],
    "smaller": ["--architecture.dim", "64", "--architecture.projection-dim", "32"],
}
"""Language model -> options of `bertwright pretrain`; elmo-mini has 256 and 128."""


def first(path: Path, sentences: int, out: Path) -> Path:
    """The first sentences of a file of columns, in a file of their own."""
    parts = path.read_text("utf-8").split("\n\n")
    out.write_text("\n\n".join(parts[:sentences]) + "\n", encoding="utf-8")
    return out


def language_model(name: str, data: Path, runs: Path, steps: str) -> dict[str, Any]:
    """Train one, if it is not there; its last record."""
    folder = runs / name
    if not (folder / "checkpoints" / "latest").exists():
        words = ["pretrain", "--model", "elmo-mini", "--data", data, "--out", folder]
        words += [*MODELS[name], "--architecture.output-size", 8000]
        words += ["--sequence-length", 64, "--batch.tokens", 4096, "--steps", steps]
        words += ["--optimizer.learning-rate", "5e-3", "--validation.every-steps", 100000]
        assert run([str(word) for word in [*words, *CPU]]) == 0
    record: dict[str, Any] = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    return record


def main() -> None:
    """Train what is not there, and evaluate everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "train", "dev", "test", "runs"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--steps", default="250")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--seeds", default="2")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        **{name: vars(given)[name] for name in ("steps", "sentences", "seeds")},
        "ways": {},
    }
    train = first(given.train, given.sentences, given.runs / "train.txt")
    for name, (model, options) in WAYS.items():
        found[f"language model, {model}"] = language_model(
            model, given.data, given.runs, given.steps
        )
        folder = given.runs / f"tagger-{name.replace(' ', '-').replace(',', '')}"
        if not (folder / "results.json").exists():
            words = ["finetune", "tagging", "--model", given.runs / model, "--train", train]
            words += ["--dev", given.dev, "--out", folder, "--transfer", "features"]
            words += [
                "--epochs",
                10,
                "--evaluations-per-epoch",
                0.2,
                "--seeds",
                given.seeds,
                "--overwrite",
                *DEVICE,
                *options,
            ]
            assert run([str(word) for word in words]) == 0
        results = json.loads((folder / "results.json").read_text())
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            words = ["evaluate", "--model", folder, "--data", given.test, "--json"]
            assert run([str(word) for word in words]) == 0
        row = {
            "options": " ".join(options),
            "dev_f1": [seed["metrics"]["f1"] for seed in results["seeds"]],
            "test_f1": json.loads(out.getvalue())["metrics"]["f1"],
        }
        found["ways"][name] = row
        print(name, json.dumps(row), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
