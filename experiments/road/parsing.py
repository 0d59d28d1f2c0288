"""A treebank learned as sequences in minutes: labelled F1 by the form of leaves and by beam.

    python experiments/road/parsing.py --train CRAFT/train --dev CRAFT/dev --work runs/parsing \\
        --minutes 9 --leaves numbers normalized --out parsing.json

What is finished in `--work` is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

from bertwright.cli.app import run

SIZES = ["--architecture.num-hidden-layers", "2", "--architecture.hidden-dropout-prob", "0.1"]
TRAINING = ["--optimizer.matrices", "muon", "--schedule.curve", "linear", "--schedule.warmup",
            "0.06", "--batch.tokens", "2048", "--sequence-length", "128", "--validation.share",
            "0.005", "--seed", "1"]  # fmt: skip


def printed(words: list[str]) -> dict[str, Any]:
    """The JSON that a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def main() -> None:
    """Train and evaluate what is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("train", "dev"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", default="9")
    parser.add_argument("--leaves", nargs="+", default=["numbers", "normalized"])
    parser.add_argument("--beams", nargs="+", default=["1", "4"])
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for leaves in given.leaves:
        shards, model = given.work / f"shards-{leaves}", given.work / leaves
        trees = ["data", "trees", given.train, "--vocab-size", "4000", "--leaves", leaves]
        if not shards.exists():
            assert run([*trees, "--out", str(shards)]) == 0
        training = ["pretrain", "--model", "transformer-small", *SIZES, *TRAINING]
        if not model.exists():
            words = [*training, "--data", str(shards), "--out", str(model)]
            assert run([*words, "--minutes", given.minutes]) == 0
        lines = (model / "metrics.jsonl").read_text().splitlines()
        last = [each for each in map(json.loads, lines) if "step" in each][-1]
        found[leaves] = {
            "commands": [" ".join(map(str, trees)), " ".join(training)],
            "steps": last["step"],
            **found.get(leaves, {}),
        }
        for beam in given.beams:
            if f"beam {beam}" in found[leaves]:
                continue
            began = time.monotonic()
            words = ["parse", "--model", str(model), "--reference", given.dev, "--beam", beam]
            figures = printed(words)
            seconds = time.monotonic() - began
            figures["sentences_a_second"] = round(figures["sentences"] / seconds, 1)
            found[leaves][f"beam {beam}"] = figures
            print(leaves, beam, figures, flush=True)
            given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
