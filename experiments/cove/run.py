"""CoVe: word vectors alone against word vectors beside the states of a translation encoder.

    export BERTWRIGHT_SHARED=shared/data
    python experiments/cove/run.py train --corpus english.txt --out OUT
    python experiments/cove/run.py evaluate --out OUT

`train` makes a vocabulary of 25,000 words (of the corpus, and of Multi30k, its German four times so
that its words are frequent enough), skip-gram vectors of 100 numbers by one pass over the corpus,
and a translation model en-de whose source keeps them (H 200, 2 layers, 1,200 steps of 2,048
tokens); once more with one step alone, as the control: an LSTM that was not trained.

`evaluate` trains a linear layer on frozen features of TREC-6, SST-5, 10,000 rows of SST-2 and the
pairs of SICK (entailment), pooled over a text or pair, some seeds each, and writes the means of the
test accuracy to OUT/results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bertwright.inference.model import load
from bertwright.scripting import evaluate

FEATURES = {
    "word vectors": ("cove", "embeddings"),
    "word vectors + CoVe": ("cove", "embeddings+last"),
    "CoVe alone": ("cove", "last"),
    "word vectors + untrained LSTM": ("cove-untrained", "embeddings+last"),
}
"""Name -> the translation model, and its layers."""
TASKS = {
    "TREC-6": ("classification/TREC-6/train.tsv", "classification/TREC-6/test.tsv", ()),
    "SST-5": ("classification/SST-5/train.tsv", "classification/SST-5/test.tsv", ()),
    "SST-2-10k": ("glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", ()),
    "SICK": (
        "pairs/SICK/train.tsv",
        "pairs/SICK/test.tsv",
        ("--text", "sentence_A", "--text2", "sentence_B", "--label", "entailment_judgment"),
    ),
}
"""Name -> training file, test file, options of `bertwright finetune`."""
FINETUNE = "--transfer features --pooling last+max+mean --epochs 10 --learning-rate 1e-2"


def shared(name: str) -> Path:
    """A file of the shared data."""
    return Path(os.environ["BERTWRIGHT_SHARED"], name)


def bertwright(*words: object, given: bytes | None = None) -> None:
    """Run a command line."""
    subprocess.run([sys.executable, "-m", "bertwright", *map(str, words)], check=True, input=given)


def train(corpus: Path, out: Path) -> None:
    """The vocabulary, the word vectors, the translation model and its control."""
    pair = [shared(f"translation/multi30k/train.{name}") for name in ("en", "de")]
    english, german = (path.read_bytes() for path in pair)
    text = corpus.read_bytes() + english + 4 * german
    options = "--algorithm word --vocab-size 25000 --special-tokens bert --out"
    bertwright("tokenizer", "train", "-", *options.split(), out / "words", given=text)
    bertwright("data", "build", corpus, "--tokenizer", out / "words", "--out", out / "english")
    pairs = "--parallel", "--tokenizer", out / "words", "--out", out / "words-en-de"
    bertwright("data", "build", *pair, *pairs)
    options = "--epochs 1 --workers 1 --architecture.hidden-size 100 --model word2vec-skip-gram"
    bertwright("pretrain", "--data", out / "english", "--out", out / "w2v", *options.split())
    options = (
        "--model seq2seq-cove --architecture.embedding-size 100 --architecture.hidden-size 200 "
        "--optimizer.learning-rate 2e-3 --schedule.curve linear --batch.tokens 2048"
    )
    where = "--data", out / "words-en-de", "--word-vectors", out / "w2v"
    for name, steps in (("cove-untrained", 1), ("cove", 1200)):
        bertwright("pretrain", *where, *options.split(), "--steps", steps, "--out", out / name)


def rows_of(task: str, out: Path) -> Path:
    """The training file; of SST-2 every sixth row, 10,000 at most."""
    path = shared(TASKS[task][0])
    if task != "SST-2-10k":
        return path
    head, *lines = path.read_text("utf-8").splitlines()
    chosen = out / "sst2-10k.tsv"
    chosen.write_text("\n".join([head, *lines[::6][:10_000]]) + "\n", "utf-8")
    return chosen


def accuracy(task: str, model: Path, layers: str, seed: int, out: Path) -> float:
    """On the test set, of a head trained on features."""
    run = out / "features"
    words = ["--train", rows_of(task, out), *TASKS[task][2], "--layers", layers, "--seed", seed]
    options = [*FINETUNE.split(), "--out", run, "--overwrite"]
    bertwright("finetune", "classification", "--model", model, *words, *options)
    found = evaluate(load(run), shared(TASKS[task][1]), intervals=False, progress=False)
    return float(found.metrics["accuracy"])


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["train", "evaluate"])
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.part == "train":
        train(arguments.corpus, arguments.out)
        return
    for model in dict.fromkeys(model for model, _ in FEATURES.values()):
        if not (arguments.out / model / "model").exists():
            sys.exit(
                f"there is no run {arguments.out / model}: "
                f"experiments/cove/run.py train --corpus english.txt --out {arguments.out}"
            )
    out = arguments.out
    rows: list[dict[str, Any]] = []
    for task in arguments.tasks:
        for name, (model, layers) in FEATURES.items():
            seeds = range(1, arguments.seeds + 1)
            scores = [round(accuracy(task, out / model, layers, n, out), 4) for n in seeds]
            mean = round(sum(scores) / len(scores), 4)
            rows.append({"task": task, "features": name, "accuracy": scores, "mean": mean})
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (out / "results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
