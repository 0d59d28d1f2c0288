"""A treebank learned as sequences in minutes: labelled F1 by beam, or of an encoder that starts as
a pre-trained BERT beside one of random weights.

    python experiments/parsing/run.py --train CRAFT/train --dev CRAFT/dev --work runs/parsing \\
        --minutes 30 --out results.jsonl
    python experiments/parsing/run.py --train CRAFT/train --dev CRAFT/dev --work runs/parsing \\
        --encoder runs/bert --steps 4761 --out results.jsonl

With an encoder, evaluated on the sentences of at most as many tokens a side as those trained on: a
BERT of random weights reads no more.

What is finished in `--work` is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertwright.checkpoint.opened import open_model
from bertwright.cli.app import run
from bertwright.data.parallel.build import source_ids
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.text.treebank.trees import MOST_WORDS, linearize, read_trees

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
LENGTH = 128
SCORES = "f1", "precision", "recall", "exact", "well_formed"
TRANSFORMER = ["--model", "transformer-small", "--architecture.num-hidden-layers", "2",
               "--architecture.hidden-dropout-prob", "0.1"]  # fmt: skip
BERT2RND = ["--model", "bert2rnd", "--architecture.num-decoder-layers", "2"]
TRAINING = ["--optimizer.matrices", "muon", "--schedule.curve", "linear", "--schedule.warmup",
            "0.06", "--batch.tokens", "2048", "--sequence-length", str(LENGTH),
            "--validation.fraction", "0.005", "--seed", "1"]  # fmt: skip


def printed(words: list[str]) -> dict[str, Any]:
    """The JSON that a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def as_short(dev: str, shards: Path) -> str:
    """A file of the trees of `dev` whose sides have at most LENGTH tokens of a vocabulary."""
    file, tokenizer = shards.with_name("dev.mrg"), load_tokenizer(shards / "tokenizer")
    short = []
    for tree in read_trees(dev):
        if len(tree.leaves()) <= MOST_WORDS:
            (source,) = source_ids(tokenizer, [tree.words()])
            if max(len(source), len(linearize(tree))) + 2 <= LENGTH:
                short.append(f"{tree}\n")
    file.write_text("".join(short), "utf-8")
    return str(file)


def parsers(given: argparse.Namespace) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Of each model its name, that of its shards, and the options of these and of its training."""
    if given.encoder is None:
        yield "numbers", "numbers", ["--vocab-size", "4000"], TRANSFORMER
        return
    trees = ["--tokenizer", given.encoder]
    config = open_model(given.encoder).config
    sizes = [f"--architecture.{n.replace('_', '-')}={getattr(config, n)}" for n in SIZES]
    yield "pre-trained", "bert", trees, [*BERT2RND, "--encoder", given.encoder]
    yield "random", "bert", trees, [*BERT2RND, *sizes]


def main() -> None:
    """Train and evaluate what is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("train", "dev"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", default="9")
    parser.add_argument("--steps")
    parser.add_argument("--encoder")
    parser.add_argument("--beams", nargs="+", default=["1", "4"])
    given = parser.parse_args()
    length = ["--steps", given.steps] if given.steps else ["--minutes", given.minutes]
    given.work.mkdir(parents=True, exist_ok=True)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    evaluated = f"at most {LENGTH} tokens" if given.encoder else "all"
    for name, data, options, model_options in parsers(given):
        shards, model = given.work / f"shards-{data}", given.work / name
        trees = ["data", "trees", given.train, *options]
        if not shards.exists():
            assert run([*trees, "--out", str(shards)]) == 0
        training = ["pretrain", *model_options, *TRAINING, *length]
        if not model.exists():
            assert run([*training, "--data", str(shards), "--out", str(model)]) == 0
        log = (model / "metrics.jsonl").read_text().splitlines()
        last = [each for each in map(json.loads, log) if "step" in each][-1]
        trained = {
            "steps": last["step"],
            "held_out_loss": round(last["loss"], 3),
            "held_out_accuracy": round(last["translation.accuracy"], 3),
        }
        for beam in map(int, given.beams):
            facts = {"model": name, "evaluated": evaluated, "beam": beam}
            if any(facts.items() <= row.items() for row in rows):
                continue
            dev = as_short(given.dev, shards) if given.encoder else given.dev
            words = ["parse", "--model", str(model), "--reference", dev, "--beam", str(beam)]
            figures = printed(words)
            scores = {name: round(figures[name], 4) for name in SCORES}
            rows.append({**facts, **trained, "sentences": figures["sentences"], **scores})
            print(json.dumps(rows[-1]), flush=True)
            given.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
