"""Word vectors of ours beside gensim's, at equal settings on the same text: quality and speed.

    python experiments/word2vec/run.py --data SHARDS --tests FOLDER --runs FOLDER \\
        --systems cbow --seeds 1,2

Each system is trained by both, one after the other, and evaluated by the same code on the files of
FOLDER; a JSON line each is added to `results.jsonl` in the folder of runs. Seconds are of training
alone; processor seconds are of all threads, so that other work on the computer disturbs them
little. gensim has no GloVe; it is run alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.data.shards import Shards, open_shards
from bertwright.inference.vectors.words import WordTable
from bertwright.inference.word_vectors.evaluate import evaluate_words
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.catalogue import MODELS, make_run, system_of_model, trainable
from bertwright.models.word_vectors.corpus import chunks, count_words
from bertwright.recipes.pretrain import pretrain
from bertwright.text.tokenizer.tokenizer import load_tokenizer

FILES = ("EN-WS-353-ALL", "EN-SIMLEX-999", "EN-MEN-TR-3k", "EN-RG-65", "questions-words")
SIZES: dict[str, Any] = {"width": 100, "window": 5, "negative": 5, "epochs": 3, "workers": 2}
RATES = {"skip-gram": 0.025, "cbow": 0.05, "fasttext": 0.05}
SUBSAMPLE = 1e-3


def sentences_of(shards: Shards) -> list[list[str]]:
    """The words of every chunk's documents, without those that are not trained."""
    words = np.array(load_tokenizer(shards.tokenizer_folder).tokens_of(range(shards.vocab_size)))
    trained = count_words(shards) > 0
    found: list[list[str]] = []
    for tokens, ends in chunks(shards):
        for part in np.split(tokens, ends[:-1]):
            kept = words[part[trained[part]]].tolist()
            found += [kept[start : start + 10_000] for start in range(0, len(kept), 10_000)]
    return found


def ours(system: str, seed: int, data: str, out: Path) -> tuple[WordTable, dict[str, float]]:
    """Train by Bertwright."""
    model = system if system in ("glove", "fasttext") else f"word2vec-{system}"
    model = next(m for row in MODELS.values() for m in row.presets if m.startswith(model))
    keys: dict[str, Any] = {
        "data": data,
        "out": str(out),
        "model": model,
        "seed": seed,
        "device": "cpu",
        "precision": "fp32",
        "workers": SIZES["workers"],
        "epochs": SIZES["epochs"],
        "architecture": {"hidden_size": SIZES["width"]},
        "window": SIZES["window"],
    }
    if system == "glove":
        keys |= {"epochs": 15, "window": 10}
    else:
        more = {"negative": SIZES["negative"], "learning_rate": RATES[system]}
        keys |= {**more, "subsample": SUBSAMPLE}
    config = make_run(trainable()[system_of_model(model)], keys)
    cpu = time.process_time()
    run = pretrain(config, print, overwrite=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    spent = {"seconds": records[-1]["seconds"], "processor": time.process_time() - cpu}
    return open_words(run), spent


def gensims(system: str, seed: int, text: list[list[str]]) -> tuple[WordTable, dict[str, float]]:
    """Train by gensim."""
    from gensim.models import FastText, Word2Vec

    keys = {
        "vector_size": SIZES["width"],
        "window": SIZES["window"],
        "seed": seed,
        "negative": SIZES["negative"],
        "workers": SIZES["workers"],
        "sample": SUBSAMPLE,
        "alpha": RATES[system],
        "sg": int(system != "cbow"),
        "min_count": 1,
    }
    more = {"min_n": 3, "max_n": 6, "bucket": 2_000_000} if system == "fasttext" else {}
    model = (FastText if system == "fasttext" else Word2Vec)(**keys, **more)
    model.build_vocab(text)
    began, cpu = time.monotonic(), time.process_time()
    model.train(text, total_examples=len(text), epochs=SIZES["epochs"])
    spent = {"seconds": time.monotonic() - began, "processor": time.process_time() - cpu}
    return WordTable(model.wv.index_to_key, model.wv.vectors.astype(np.float32)), spent


def main() -> None:
    """Run what is named, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "tests", "runs"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--systems", default="skip-gram,cbow")
    parser.add_argument("--seeds", default="1")
    given = parser.parse_args()
    shards = open_shards(given.data)
    trained = int(count_words(shards).sum())
    text = sentences_of(shards)
    for system in given.systems.split(","):
        for seed in map(int, given.seeds.split(",")):
            out = Path(given.runs) / f"{system}-{seed}"
            sides: dict[str, Callable[[], Any]] = {
                "bertwright": lambda s=system, n=seed, o=out: ours(s, n, given.data, o),  # type: ignore[misc]
                "gensim": lambda s=system, n=seed: gensims(s, n, text),  # type: ignore[misc]
            }
            for by, train in sides.items():
                if system == "glove" and by == "gensim":
                    continue
                table, spent = train()
                found = {f: evaluate_words(table, Path(given.tests) / f"{f}.txt") for f in FILES}
                sizes = SIZES | ({"epochs": 15, "window": 10} if system == "glove" else {})
                words = trained * sizes["epochs"]
                row = {
                    "system": system,
                    "by": by,
                    "seed": seed,
                    **sizes,
                    **{f"{k}_s": round(v, 1) for k, v in spent.items()},
                    "words_per_second": round(words / spent["seconds"]),
                    "words_per_processor_second": round(words / spent["processor"]),
                    **{f: round(r.score, 4) for f, r in found.items()},
                    "intervals": {f: [round(x, 3) for x in r.interval] for f, r in found.items()},
                    "covered": {f: r.covered for f, r in found.items()},
                }
                print(json.dumps(row), flush=True)
                results = Path(given.runs) / "results.jsonl"
                results.parent.mkdir(parents=True, exist_ok=True)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
