"""What ELMo's layers are for: each layer alone, and the weights that a task learns for them.

    python experiments/road/elmo_layers.py --model RUN --tagging FOLDER --glue FOLDER --runs FOLDER

RUN is an ELMo of two layers. Frozen, it is read by a linear layer for parts of speech (UD-EWT),
named entities (CoNLL-2003) and sentiment (SST-2, mean of the tokens): layer by layer, and by the
mix of Peters et al. 2018, equation 1. The first `--examples` of each training file, the dev file,
`--seeds` seeds. Writes `elmo_layers.json`. A run that is there is not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from bertwright.cli.app import run

RESULTS = Path(__file__).with_suffix(".json")
LAYERS = {"embeddings": "embeddings", "second-to-last": "LSTM 1", "last": "LSTM 2", "mix": "mix"}
TASKS = {
    "parts of speech": ("tagging", "UD-EWT", "dev.txt", ["--label", "2"], "accuracy"),
    "named entities": ("tagging", "CoNLL-2003", "dev.txt", ["--label", "4"], "f1"),
    "sentiment": ("classification", "SST-2", "dev.tsv", ["--pooling", "mean"], "accuracy"),
}
"""Name -> verb of `finetune`, folder, file to evaluate on, options, metric."""
OPTIONS = [
    *["--transfer", "features", "--epochs", "10", "--learning-rate", "1e-2", "--keep", "last"],
    *["--evaluations-per-epoch", "0.1", "--device", "cpu", "--precision", "fp32", "--overwrite"],
]


def first(path: Path, count: int, out: Path) -> Path:
    """The first examples of a file: lines of a table behind its header, or sentences."""
    between = "\n" if path.suffix == ".tsv" else "\n\n"
    parts = path.read_text("utf-8").split(between)[: count + 1]
    out.write_text(between.join(parts) + "\n", encoding="utf-8")
    return out


def weights(folder: Path) -> list[float]:
    """What a run's mix learned: softmax(w), without gamma."""
    file = folder / "model" / "heads.safetensors"
    (learned,) = [x for name, x in load_file(file).items() if name.endswith("mix.weights")]
    found: list[float] = learned.softmax(0).tolist()
    return found


def main() -> None:
    """Train what is not there, and collect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "tagging", "glue", "runs"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    runs: Path = given.runs
    runs.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"examples": given.examples, "options": " ".join(OPTIONS), "tasks": {}}
    for task, (verb, data, dev, more, metric) in TASKS.items():
        source = given.glue if verb == "classification" else given.tagging
        ending = Path(dev).suffix
        train = first(source / data / f"train{ending}", given.examples, runs / f"{data}{ending}")
        own = found["tasks"].setdefault(task, {"metric": metric, "alone": {}, "weights": []})
        for layers, name in LAYERS.items():
            for seed in range(1, given.seeds + 1):
                folder = runs / f"{data}-{layers}-{seed}"
                if not (folder / "results.json").exists():
                    words = ["finetune", verb, "--model", given.model, "--train", train]
                    words += ["--dev", source / data / dev, "--out", folder, "--layers", layers]
                    words += ["--seed", seed, *more, *OPTIONS]
                    assert run([str(word) for word in words]) == 0
                metrics = json.loads((folder / "results.json").read_text())["metrics"]
                own["alone"].setdefault(name, []).append(round(metrics[metric], 4))
                if layers == "mix":
                    own["weights"].append([round(weight, 3) for weight in weights(folder)])
        print(task, json.dumps(own), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
