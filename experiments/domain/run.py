"""A general BERT for a domain: with its own vocabulary, and with the domain's words added.

    python experiments/domain/run.py --model CKPT --out DIR [--steps 300 | --minutes 10]

The domain is the documentation inside this Python (`recipes/quickstart/corpus.py`), or
`--corpus FILE`: text with a blank line between documents, or `.jsonl` (`.jsonl.xz`) with keys
`text` and, for the last question below, `label`. One document in ten is held out. The model goes on
with masked LM for the same budget with the old vocabulary and with the extended one; measured are,
on held-out documents:

- nats per character of masked words: the same 15 % of words are masked whole for every vocabulary,
  all pieces of a word together, and the loss of all pieces is divided by the characters;
- the share of masked words of which every piece is right;
- tokens a word;
- the share of documents whose label (of Python's documentation the package) a logistic regression
  tells from the mean vector (second-to-last layer) of their first sentences: 5 folds of all.

Prints one JSON line a row, and the settings first.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import lzma
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.cli.app import run as command
from bertwright.config import values
from bertwright.config.run import LogConfig, ValidationConfig
from bertwright.inference.model import Model, load
from bertwright.models.bert.config import BertRun, LongPhaseConfig
from bertwright.recipes.configure import configure
from bertwright.recipes.extend import extend
from bertwright.recipes.pretrain import pretrain
from bertwright.recipes.quickstart.corpus import corpus_files, read_index, write_python_docs
from bertwright.text.sentences import split_sentences
from bertwright.text.tokenizer.word_counts import count_block

RECIPE = Path(__file__).parents[1] / "speedrun/recipes/small-budget.toml"
HELD_OUT_EVERY, MASKED_SHARE, WINDOW, LABELS = 10, 0.15, 60, 12


def read_corpus(folder: Path, corpus: Path | None, most: int) -> tuple[list[str], list[str]]:
    """Documents, a sentence a line, and the label of each if they have any."""
    if corpus is not None and ".jsonl" in corpus.suffixes:
        return read_rows(corpus, most)
    if corpus is not None:
        documents = [d for d in corpus.read_text(encoding="utf-8").split("\n\n") if d.strip()]
        return documents, []
    write_python_docs(folder, most_characters=most)
    with gzip.open(corpus_files(folder)[0], "rt", encoding="utf-8") as file:
        documents = file.read().removesuffix("\n\n").split("\n\n")
    index = read_index(folder)
    names = ["" if e["source"] == "topics" else e["package"] for e in index]
    return documents, names


def read_rows(corpus: Path, most: int) -> tuple[list[str], list[str]]:
    """Texts and labels of JSON lines, until there are so many characters."""
    documents, labels, size = [], [], 0
    with lzma.open(corpus, "rt") if corpus.suffix == ".xz" else corpus.open() as file:
        for row in map(json.loads, file):
            sentences = split_sentences(row["text"].replace("<br />", "\n"))
            documents.append("\n".join(sentences))
            labels.append(str(row.get("label", "")))
            size += len(documents[-1])
            if size > most:
                break
    return documents, labels if any(labels) else []


def tokens_per_word(documents: list[str], model: Model) -> float:
    sentences = [text for document in documents for text in split_sentences(document)]
    ids, _ = model.tokenizer.encode_sentence_ids(sentences)
    return round(len(ids) / count_block(documents, model.tokenizer.rules).words, 4)


def masked_words(model: Model, documents: list[str], most: int) -> dict[str, float]:
    """Loss and accuracy over masked words, the same words for every vocabulary."""
    tokenizer, chance = model.tokenizer, np.random.default_rng(0)
    head: Any = model.runner.learner.objectives["masked_lm"]
    ids: list[list[int]] = []
    asked: list[list[list[int]]] = []  # of each window, of each masked word, its places
    labels: list[list[list[int]]] = []
    characters = count = 0
    for sentence in (line for document in documents for line in document.split("\n")):
        words = sentence.split()[:WINDOW]
        masked = chance.random(len(words)) < MASKED_SHARE  # drawn for every vocabulary alike
        if not masked.any() or count >= most:
            continue
        row, places, gold = [tokenizer.special_id("cls")], [], []
        for word, pieces, hide in zip(words, tokenizer.encode_bare_ids(words), masked, strict=True):
            if hide and pieces:
                places.append(list(range(len(row), len(row) + len(pieces))))
                gold.append(pieces)
                characters += len(word)
                count += 1
            row.extend([tokenizer.mask_id] * len(pieces) if hide else pieces)
        if places and len(row) < model.config.max_position_embeddings:
            ids.append([*row, tokenizer.special_id("sep")])
            asked.append(places)
            labels.append(gold)
        else:
            characters -= sum(len(w) for w, hide in zip(words, masked, strict=True) if hide)
            count -= len(places)
    total, right = 0.0, 0
    for rows, encoded in model.runner.run(ids):
        offsets = encoded.sequences.offsets
        for place, number in enumerate(rows):
            start = offsets[place]
            flat = [start + p for word in asked[number] for p in word]
            gold_flat = torch.tensor([g for word in labels[number] for g in word])
            with torch.inference_mode():
                logs = head.logits(encoded.last[flat]).float().log_softmax(1)
            total -= float(logs.gather(1, gold_flat[:, None]).sum())
            same = (logs.argmax(1) == gold_flat).tolist()
            for pieces in labels[number]:
                right += all(same[: len(pieces)])
                same = same[len(pieces) :]
    return {
        "nats_per_character": round(total / characters, 4),
        "words_right": round(right / count, 4),
        "masked_words": count,
    }


def label_score(model: Model, documents: list[str], labels: list[str]) -> dict[str, float]:
    """How well a document's label is told from its vector."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    sizes = Counter(name for name in labels if name).most_common(LABELS)
    common = [name for name, size in sizes if size >= 10]
    if len(common) < 2:
        return {}
    chosen = [n for n, name in enumerate(labels) if name in common]
    texts = [" ".join(documents[n].split("\n")[:3])[:400] for n in chosen]
    vectors = model.embed(texts, (-2,), "mean")
    gold = [labels[n] for n in chosen]
    judge = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_score(judge, vectors, gold, cv=folds)
    most = max(Counter(gold).values()) / len(gold)
    return {
        "label_accuracy": round(float(scores.mean()), 4),
        "label_sd_of_folds": round(float(scores.std()), 4),
        "label_majority": round(most, 4),
        "labelled": len(gold),
    }


def go_on(model: Path | str, train: Path, out: Path, arguments: argparse.Namespace) -> Path:
    """Continued pre-training for the budget."""
    shards = out.with_name(f"{out.name}-shards")
    tokenizer = load(model).runner.name
    words = ["data", "build", str(train), "--tokenizer", tokenizer, "--out", str(shards)]
    with contextlib.redirect_stdout(sys.stderr):
        assert command([*words, "--sentences", "line", "--workers", "1", "--overwrite"]) == 0
    mapping = {k: v for k, v in values.read_toml(RECIPE).items() if k not in ("minutes", "model")}
    budget: dict[str, Any] = {"steps": arguments.steps}
    if arguments.minutes is not None:
        budget = {"minutes": arguments.minutes}
    given = {"data": str(shards), "out": str(out), "init": str(model), "seed": arguments.seed}
    config = configure(BertRun, values.merge(mapping, {**given, **budget}))
    rates = replace(config.optimizer, learning_rate=5e-4, matrix_learning_rate=1e-3)
    config = replace(
        config,
        optimizer=rates,
        long_phase=LongPhaseConfig(),
        validation=ValidationConfig(every_steps=10**6, tokens=8192),
        log=LogConfig(every_seconds=60.0),
    )
    pretrain(config, lambda line: None, overwrite=True)
    return out


def main() -> None:
    """Prepare, train twice, judge five models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a run or a folder with its masked LM")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, help="text of another domain")
    parser.add_argument("--add", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--minutes", type=float, help="in place of --steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--characters", type=int, default=40_000_000, help="of text, at most")
    parser.add_argument("--asked", type=int, default=20_000, help="masked words, at most")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    documents, labels = read_corpus(out / "corpus", arguments.corpus, arguments.characters)
    held_out = documents[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    train = out / "train.txt"
    learned = [d for n, d in enumerate(documents) if (n + 1) % HELD_OUT_EVERY]
    train.write_text("\n\n".join(learned) + "\n", encoding="utf-8")
    settings = {k: str(v) for k, v in vars(arguments).items() if v is not None}
    size = {"documents": len(documents), "characters": sum(map(len, documents))}
    threads = torch.get_num_threads()
    print(json.dumps({"settings": settings, **size, "threads": threads}), flush=True)

    def judge(row: str, model: Path | str, begin: float) -> None:
        loaded = load(model, device="cpu")
        figures: dict[str, Any] = masked_words(loaded, held_out, arguments.asked)
        figures["tokens_per_word"] = tokens_per_word(held_out, loaded)
        if labels:
            figures |= label_score(loaded, documents, labels)
        figures["seconds"] = round(time.monotonic() - begin)
        print(json.dumps({"row": row, **figures}), flush=True)

    judge("before", arguments.model, time.monotonic())
    extended = out / "extended"
    begin = time.monotonic()
    extend(arguments.model, [str(train)], extended, add=arguments.add, workers=1, overwrite=True)
    judge("extended, not trained", extended, begin)
    for row, model in (("old vocabulary", arguments.model), ("extended vocabulary", extended)):
        begin = time.monotonic()
        folder = go_on(model, train, out / f"run-{row.split()[0]}", arguments)
        judge(f"continued, {row}", folder, begin)


if __name__ == "__main__":
    main()
