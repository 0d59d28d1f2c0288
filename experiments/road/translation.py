"""Translation of Multi30k: the Transformer en-de; de-en it, with and without label smoothing,
beside sequence to sequence of as many parameters; and that with and without attention. BLEU on test
2016, by settings of the search and by length of the source.

    BERTWRIGHT_SHARED=shared/data python experiments/road/translation.py data --out OUT
    ... translation.py train NAME --out OUT            for each of RUNS, in their order
    ... translation.py evaluate [NAME] --out OUT       writes OUT/translation.json

One vocabulary (byte-level BPE, 8,000, cased) for both languages; 29,000 pairs, of which a hundredth
is held out; seed 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.config.generation import TranslationConfig
from bertwright.inference.model import Model, load
from bertwright.inference.translation.translate import evaluate_translations

FOUND = Path(__file__).with_suffix(".json").name
"""The file of the figures in OUT; the one beside this file has those of the documentation."""
COMMON = "--schedule.curve linear --log.every-seconds 20 --validation.tokens 8192"
SEQ2SEQ = f"--model seq2seq-small --batch.tokens 4096 --optimizer.learning-rate 5e-3 {COMMON}"
TRANSFORMER = (
    f"--model transformer-small --batch.tokens 4096 --optimizer.matrices muon {COMMON} "
    "--precision bf16"
)
EVERY = "--checkpoint.every-steps 60 --checkpoint.keep 8"
RUNS = {
    "transformer": ("en-de", f"{TRANSFORMER} --steps 3000 {EVERY}"),
    "transformer-de-en": ("de-en", f"{TRANSFORMER} --steps 1500"),
    "without-smoothing": (
        "de-en",
        f"{TRANSFORMER} --steps 1500 --architecture.label-smoothing 0",
    ),
    "seq2seq-of-its-size": (
        "de-en",
        f"{SEQ2SEQ} --steps 600 --architecture.hidden-size 608",
    ),
    "multiplicative": ("de-en", f"{SEQ2SEQ} --steps 1500 --architecture.attention multiplicative"),
    "additive": ("de-en", f"{SEQ2SEQ} --steps 1500 --architecture.attention additive"),
    "none": ("de-en", f"{SEQ2SEQ} --steps 1500 --architecture.attention none"),
}
"""Name -> source and target, options of `bertwright pretrain`."""
BINS = ((1, 8), (9, 11), (12, 14), (15, 19), (20, 99))
"""Words of a source."""


def multi30k(name: str) -> Path:
    """A file of the shared data."""
    return Path(os.environ["BERTWRIGHT_SHARED"], "translation", "multi30k", name)


def bertwright(*words: object, given: bytes | None = None) -> None:
    """Run a command line."""
    command = [sys.executable, "-m", "bertwright", *map(str, words)]
    subprocess.run(command, check=True, input=given)


def build(out: Path) -> None:
    """The vocabulary, and shards of both directions."""
    files = {name: multi30k(f"train.{name}") for name in ("de", "en")}
    text = b"".join(path.read_bytes() for path in files.values())
    options = ["--algorithm", "byte-bpe", "--no-lowercase", "--vocab-size", 8000]
    bertwright("tokenizer", "train", "-", *options, "--out", out / "bpe", given=text)
    for source, target in (("en", "de"), ("de", "en")):
        pair = files[source], files[target], "--parallel", "--tokenizer", out / "bpe"
        bertwright("data", "build", *pair, "--out", out / f"{source}-{target}")


def train(name: str, out: Path) -> None:
    """One of `RUNS`."""
    pair, options = RUNS[name]
    where = "--data", out / pair, "--out", out / name
    bertwright("pretrain", *where, *options.split())


def bleu(model: Model, pair: str, **settings: Any) -> tuple[dict[str, Any], list[str]]:
    """Figures on test 2016, and the translations."""
    source, target = (
        multi30k(f"test2016.{name}").read_text("utf-8").splitlines() for name in pair.split("-")
    )
    texts = [each.text for each in model.translate(source, TranslationConfig(**settings))]
    return evaluate_translations(texts, target), texts


def of_transformer(out: Path) -> dict[str, Any]:
    """What averaging, the beam, the length penalty and bf16 give."""
    found: dict[str, Any] = {}
    default = TranslationConfig()
    for count in (1, 3, 5):
        folder = out / f"transformer-mean-{count}"
        if not folder.exists():
            bertwright("convert", out / "transformer", folder, "--average", count)
        found[f"average {count}"] = bleu(load(folder), "en-de")[0]["bleu"]
    model = load(out / "transformer-mean-3")
    found["figures"], texts = bleu(model, "en-de")
    found["examples"] = texts[:3]
    for beam in (1, 8):
        found[f"beam {beam}"] = bleu(model, "en-de", beam=beam)[0]["bleu"]
    for penalty in (0.0, 1.0):
        config = replace(default, length_penalty=penalty)
        found[f"length penalty {penalty}"] = bleu(model, "en-de", **vars(config))[0]["bleu"]
    found["bf16"] = bleu(load(out / "transformer-mean-3", precision="bf16"), "en-de")[0]["bleu"]
    return found


def of_length(out: Path, name: str) -> dict[str, Any]:
    """BLEU of all, and by words of the source."""
    source, target = (
        multi30k(f"test2016.{name}").read_text("utf-8").splitlines() for name in ("de", "en")
    )
    figures, texts = bleu(load(out / name), "de-en")
    words = np.array([len(line.split()) for line in source])
    by: dict[str, Any] = {}
    for low, high in BINS:
        rows = np.flatnonzero((words >= low) & (words <= high)).tolist()
        own = evaluate_translations([texts[n] for n in rows], [target[n] for n in rows])
        by[f"{low}-{high}"] = {"sentences": len(rows), "bleu": own["bleu"]}
    return {"figures": figures, "by_words": by, "examples": texts[:3]}


def training(run: Path) -> dict[str, Any]:
    """How long a run was."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    dev = [line for line in lines if line["split"] == "dev"][-1]
    names = ("step", "tokens", "seconds", "translation.loss", "translation.accuracy")
    steps = [line for line in lines if line["split"] == "train" and "cores" in line]
    began = [0.0, *(line["seconds"] for line in steps)]
    used = sum(line["cores"] * (line["seconds"] - t) for line, t in zip(steps, began, strict=False))
    found = {name: dev[name] for name in names}
    return found | ({"processor_seconds": round(used)} if used else {})


def evaluate(out: Path, only: str | None) -> None:
    """One run, or all that are there; what others gave is kept."""
    wanted = [name for name in RUNS if only in (name, None) and (out / name / "model").exists()]
    if not wanted:
        train_it = f"translation.py train {only or next(iter(RUNS))} --out {out}"
        sys.exit(f"there is no run {out / (only or 'NAME')}: {train_it}")
    results = out / FOUND
    found: dict[str, Any] = json.loads(results.read_text("utf-8")) if results.exists() else {}
    found |= {"torch": torch.__version__, "processor": platform.processor()}
    for name, (pair, options) in RUNS.items():
        if name in wanted:
            made = of_transformer(out) if name == "transformer" else of_length(out, name)
            settings = {"pair": pair, "options": options}
            found[name] = {**settings, "training": training(out / name), **made}
            print(name, json.dumps(found[name], ensure_ascii=False), flush=True)
    results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["data", "train", "evaluate"])
    parser.add_argument("name", nargs="?", choices=list(RUNS))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.part == "data":
        build(arguments.out)
    elif arguments.part == "train":
        train(arguments.name, arguments.out)
    else:
        evaluate(arguments.out, arguments.name)


if __name__ == "__main__":
    main()
