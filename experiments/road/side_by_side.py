"""Every system of the road on the same text, then on the same tasks: one table.

    python side_by_side.py pretrain --text TRAIN.txt --shared FOLDER --out OUT [--minutes 15]
    python side_by_side.py evaluate --held-out TEXT.txt --shared FOLDER --out OUT [--seeds 1]
    python side_by_side.py table [--out OUT]

`--text` is cased text, a blank line between documents; `--shared` has `translation/multi30k`,
`classification/TREC-6`, `pairs/SICK`, `tagging/CoNLL-2003`, `language_modelling/blimp` and
`word_vectors`. Every neural system has the same minutes on one thread; counted ones and word
vectors read the whole text, some passes. Each is used in two ways: its features, frozen, under a
linear layer, and fine-tuned whole. `evaluate` writes `OUT/side_by_side.json`; runs and figures that
are in OUT are not made again. `table` prints the figures of OUT, or without `--out` those of
docs/road.md, which are in `side_by_side.json` beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import lzma
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertwright.cli.app import run

PUBLISHED = Path(__file__).with_suffix(".json")
"""The figures of docs/road.md."""
RESULTS = PUBLISHED.name
"""The file of the figures in the folder of `--out`."""
CPU = ["--device", "cpu", "--seed", "1"]
LANGUAGE_MODEL = "--sequence-length 128 --validation.tokens 65536"
TRAINED_POSITIONS = f"{LANGUAGE_MODEL} --architecture.max-position-embeddings 128"
WIDTH = "--architecture.hidden-size 128 --workers 1"


@dataclass(frozen=True)
class Entry:
    """A system: how it is trained and read."""

    model: str
    data: str
    options: str = ""
    timed: bool = True
    layers: str = "mix"
    scores: bool = False
    """Whether it gives text a probability."""


SYSTEMS = {
    "n-gram": Entry("ngram", "pieces-shards", "--architecture.order 5", False, "", True),
    "NNLM": Entry(
        "nnlm-base",
        "pieces-shards",
        f"{LANGUAGE_MODEL} --optimizer.learning-rate 4e-2",
        layers="last",
        scores=True,
    ),
    "word2vec": Entry("word2vec-skip-gram", "words-shards", f"{WIDTH} --epochs 5", False, "last"),
    "GloVe": Entry("glove", "words-shards", f"{WIDTH} --epochs 15 --window 10", False, "last"),
    "fastText": Entry(
        "fasttext-skip-gram",
        "words-shards",
        f"{WIDTH} --epochs 3 --architecture.buckets 200000",
        False,
        "last",
    ),
    "CoVe": Entry(
        "seq2seq-cove",
        "pairs",
        "--word-vectors {out}/word2vec --architecture.embedding-size 128 "
        "--architecture.hidden-size 200 --optimizer.learning-rate 2e-3 --schedule.curve linear "
        "--batch.tokens 2048",
        layers="embeddings+last",
    ),
    "ELMo": Entry(
        "elmo-mini",
        "words-shards",
        "--sequence-length 64 --validation.tokens 65536 --architecture.output-size 8192",
    ),
    "AWD-LSTM": Entry(
        "awd-lstm-small",
        "pieces-shards",
        f"{LANGUAGE_MODEL} --optimizer.learning-rate 1e-2",
        layers="last",
        scores=True,
    ),
    "GPT-2": Entry(
        "gpt2-mini",
        "pieces-shards",
        f"{TRAINED_POSITIONS} --optimizer.learning-rate 5e-3",
        scores=True,
    ),
    "left-to-right BERT": Entry("bert-mini-ltr", "pieces-shards", TRAINED_POSITIONS, scores=True),
    "BERT": Entry("bert-mini", "pieces-shards", "--config small-budget", scores=True),
}
"""In the order of their papers. Rates are those of their pages; BERT has its recipe."""

TASKS = {
    "TREC-6": ("classification", "classification/TREC-6", "tsv", []),
    "SICK": (
        "classification",
        "pairs/SICK",
        "tsv",
        ["--text", "sentence_A", "--text2", "sentence_B", "--label", "entailment_judgment"],
    ),
    "CoNLL-2003": ("tagging", "tagging/CoNLL-2003", "txt", []),
}
FROZEN = {
    "classification": ["--pooling", "last+max+mean", "--epochs", "10", "--learning-rate", "1e-2"],
    "tagging": ["--epochs", "10", "--learning-rate", "1e-2"],
}
"""Of a linear layer on frozen features; fine-tuning goes by its defaults."""
METRIC = {"classification": "accuracy", "tagging": "f1"}
SENTENCES = 3000
"""Of CoNLL-2003, the first."""
PAIRS = 40
"""Of each of the 67 paradigms of BLiMP, the first."""


def said(*words: object) -> Any:
    """What a command prints as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run([*map(str, words), "--json"])
    assert status == 0, words
    return json.loads(out.getvalue())


def do(*words: object) -> None:
    """Run a command that must succeed."""
    assert run([str(word) for word in words]) == 0, words


def pretrain(given: argparse.Namespace) -> None:
    """Vocabularies, data, and every system that is not there."""
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    pair = [given.shared / f"translation/multi30k/train.{name}" for name in ("en", "de")]
    cased = "--no-lowercase", "--out"
    if not (out / "pairs").exists():
        mixed = out / "words.txt"
        parts = [given.text.read_text("utf-8"), pair[0].read_text("utf-8")]
        mixed.write_text("\n".join([*parts, 4 * pair[1].read_text("utf-8")]), "utf-8")
        do("tokenizer", "train", given.text, "--vocab-size", 8192, *cased, out / "pieces")
        words = "--algorithm", "word", "--special-tokens", "bert", "--vocab-size", 32000
        do("tokenizer", "train", mixed, *words, *cased, out / "words")
        for name in ("pieces", "words"):
            folder = out / f"{name}-shards"
            do("data", "build", given.text, "--tokenizer", out / name, "--out", folder)
        folder = out / "pairs"
        do("data", "build", *pair, "--parallel", "--tokenizer", out / "words", "--out", folder)
    for name, entry in SYSTEMS.items():
        if name not in (given.only or SYSTEMS) or (out / name / "model").exists():
            continue
        options = entry.options.format(out=out).split() + CPU
        options += ["--minutes", str(given.minutes)] if entry.timed else []
        where = "--data", out / entry.data, "--out", out / name
        do("pretrain", "--model", entry.model, *where, *options, "--overwrite")


def scores(run_folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Bits a character, and minimal pairs."""
    pairs = given.out / "blimp.jsonl"
    if not pairs.exists():
        seen: dict[str, int] = {}
        with lzma.open(given.shared / "language_modelling/blimp/pairs.jsonl.xz", "rt") as file:
            for line in file:
                paradigm = json.loads(line)["paradigm"]
                seen[paradigm] = seen.get(paradigm, 0) + 1
                if seen[paradigm] <= PAIRS:
                    with pairs.open("a", encoding="utf-8") as chosen:
                        chosen.write(line)
    found: dict[str, Any] = {
        "minimal_pairs": said("perplexity", "--model", run_folder, "--pairs", pairs)
    }
    if run_folder.name != "BERT":
        figures = said("perplexity", given.held_out, "--model", run_folder)
        found["bits_per_character"] = figures["bits_per_character"]
    return found


def train_file(task: str, given: argparse.Namespace) -> Path:
    """The labelled file; of CoNLL-2003 its first sentences."""
    _, folder, suffix, _ = TASKS[task]
    path: Path = given.shared / folder / f"train.{suffix}"
    if task != "CoNLL-2003":
        return path
    chosen: Path = given.out / "conll.txt"
    sentences = path.read_text("utf-8").split("\n\n")[:SENTENCES]
    chosen.write_text("\n\n".join(sentences) + "\n", "utf-8")
    return chosen


def transfer(
    name: str, task: str, way: str, seed: int, given: argparse.Namespace
) -> dict[str, float]:
    """The test figure of a task, and the seconds of its training."""
    kind, folder, suffix, options = TASKS[task]
    base, way_of = ("BERT", "finetune") if name == "random weights" else (name, way)
    words = ["--transfer", way_of, *options, "--seed", str(seed), "--device", "cpu"]
    if name == "random weights":
        words += ["--random-start"]
    elif way == "features":
        words += ["--layers", SYSTEMS[name].layers, *FROZEN[kind]]
    out = given.out / "tasks" / f"{name}-{task}-{way}-{seed}"
    if not (out / "results.json").exists():
        began = time.monotonic()
        where = "--train", train_file(task, given), "--out", out, "--overwrite"
        do("finetune", kind, "--model", given.out / base, *where, *words)
        (out / "seconds").write_text(f"{time.monotonic() - began:.0f}")
    test = given.shared / folder / f"test.{suffix}"
    metrics = said("evaluate", "--model", out, "--data", test, "--device", "cpu")["metrics"]
    return {"score": metrics[METRIC[kind]], "seconds": float((out / "seconds").read_text())}


def evaluate(given: argparse.Namespace) -> None:
    """Every figure of the runs in OUT that is not there.

    Raises:
        SystemExit: a run that is to be evaluated is not in OUT.
    """
    for name in SYSTEMS:
        if name in (given.only or SYSTEMS) and not (given.out / name / "model").exists():
            sys.exit(
                f"there is no run {given.out / name}: pre-train it first, or name the runs that "
                f"are there with --only. side_by_side.py pretrain --only {name!r} --text TRAIN.txt "
                f"--shared FOLDER --out {given.out}"
            )
    results = given.out / RESULTS
    found: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}

    def keep(row: dict[str, Any], key: str, make: Any) -> None:
        if key not in row:
            row[key] = make()
            results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(json.dumps({key: row[key]}), flush=True)

    words = [given.shared / f"word_vectors/{n}.txt" for n in ("EN-WS-353-ALL", "EN-MEN-TR-3k")]
    for name in [*SYSTEMS, "random weights"]:
        if name not in (given.only or [*SYSTEMS, "random weights"]):
            continue
        row, folder = found.setdefault(name, {}), given.out / name
        print(name, flush=True)
        if name in SYSTEMS:
            entry = SYSTEMS[name]
            lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
            keep(row, "pre-training", lambda at=lines: json.loads(at[-1]))
            if entry.scores:
                keep(row, "scores", lambda at=folder: scores(at, given))
            if not entry.layers:
                continue
            keep(row, "words", lambda at=folder: said("words", "evaluate", "--model", at, *words))
            keep(row, "senses", lambda at=folder: said("senses", "--model", at, "--device", "cpu"))
        for task in TASKS:
            for way in ("features", "finetune") if name in SYSTEMS else ("finetune",):
                for seed in range(1, given.seeds + 1):
                    key = f"{task}, {way}, {seed}"
                    about = name, task, way, seed, given
                    keep(row, key, lambda about=about: transfer(*about))


def table(results: Path) -> None:
    """Print the results as the rows of a table, in percent but for bits."""
    if not results.is_file():
        sys.exit(f"there is no file {results}: side_by_side.py evaluate --out OUT writes it")

    def percent(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    def mean(row: dict[str, Any], start: str) -> str:
        values = [value["score"] for key, value in row.items() if key.startswith(start)]
        return percent(sum(values) / len(values) if values else None)

    for name, row in json.loads(results.read_text()).items():
        scores = row.get("scores", {})
        bits = scores.get("bits_per_character")
        words = [percent(found["score"]) for found in row.get("words", {}).get("results", [])]
        senses = row.get("senses", {}).get("models", [{"accuracy": [None]}])[0]["accuracy"]
        cells = [
            "" if bits is None else f"{bits:.2f}",
            percent(scores.get("minimal_pairs", {}).get("accuracy")),
            *(words or ["", ""]),
            percent(max(senses, key=lambda value: value or 0)),
        ]
        cells += [mean(row, f"{task}, {way}") for task in TASKS for way in ("features", "finetune")]
        print("|", " | ".join([name, *cells]), "|")


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["pretrain", "evaluate", "table"])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+")
    given = parser.parse_args()
    if given.part == "table":
        table(PUBLISHED if given.out is None else given.out / RESULTS)
        return
    required = {"pretrain": ("text", "shared", "out"), "evaluate": ("held_out", "shared", "out")}
    for name in required[given.part]:
        if getattr(given, name) is None:
            parser.error(f"{given.part} needs --{name.replace('_', '-')}")
    {"pretrain": pretrain, "evaluate": evaluate}[given.part](given)


if __name__ == "__main__":
    main()
