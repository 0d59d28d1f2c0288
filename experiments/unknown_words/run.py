"""Tags of words that training never saw, by what stands in for them.

    python experiments/unknown_words/run.py TAGGING_FOLDER FASTTEXT_RUN [--column 1] [--out FILE]

A window tagger (two words to each side, one tanh layer) on the first sentences of `train.txt`,
evaluated on `test.txt`. The folder has CoNLL columns: the word, and its tag in `--column`.
Adds a JSON line for each vector of unknown words to FILE.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bertwright.inference.word_vectors.table import open_words

SUFFIXES = ("ing", "ed", "ly", "tion", "er", "est", "ous", "able", "al", "s")


def read(path: Path, column: int, most: int) -> list[list[tuple[str, str]]]:
    """Sentences of (word, tag)."""
    sentences: list[list[tuple[str, str]]] = [[]]
    for line in path.read_text("utf-8").split("\n"):
        fields = line.split()
        if fields and fields[0] != "-DOCSTART-":
            sentences[-1].append((fields[0], fields[column]))
        elif sentences[-1]:
            sentences.append([])
    return [each for each in sentences if each][:most]


def word_class(word: str) -> str:
    """A name for what the word looks like."""
    if any(character.isdigit() for character in word):
        return "<digit>"
    if word[:1].isupper():
        return "<capital>"
    return next((f"<{end}>" for end in SUFFIXES if word.lower().endswith(end)), "<other>")


def main() -> None:
    """Train and evaluate a tagger for each trick and seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("fasttext", type=Path)
    parser.add_argument("--column", type=int, default=1, help="-1: the last")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.jsonl"))
    options = parser.parse_args()
    train = read(options.folder / "train.txt", options.column, options.sentences)
    test = read(options.folder / "test.txt", options.column, 10**9)
    counts = Counter(word for sentence in train for word, _ in sentence)
    tags = {tag: n for n, tag in enumerate(sorted({t for s in train for _, t in s}))}
    table = open_words(options.fasttext)
    every = sorted({word for sentence in train + test for word, _ in sentence})
    width = table.vectors.shape[1]
    of_table = np.zeros((len(every) + 1, width), np.float32)
    of_ngrams = np.zeros((len(every) + 1, width), np.float32)
    for row, word in enumerate(every):
        found = table.vector(word)
        if found is not None:
            of_ngrams[row] = found
            of_table[row] = found if table.spelling(word) else 0

    def spell(trick: str, word: str) -> str:
        rare = counts[word] < 2
        if trick == "rare words to one [UNK]" and rare:
            return "[UNK]"
        if trick == "rare words to [UNK] by class" and rare:
            return word_class(word)
        return word if counts[word] or trick == "a random vector of its own" else "[UNK]"

    def evaluate(trick: str, fixed: np.ndarray | None, seed: int) -> tuple[float, float]:
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        names = {"[PAD]": 0, "[UNK]": 1}
        if fixed is None:
            for sentence in train + test:
                for word, _ in sentence:
                    names.setdefault(spell(trick, word), len(names))
            embedding = nn.Embedding(len(names), width)
            nn.init.normal_(embedding.weight, 0, 0.3)
        else:
            names = {word: row for row, word in enumerate(every)} | {"[PAD]": len(every)}
            embedding = nn.Embedding(*fixed.shape)
            embedding.weight.requires_grad_(False).copy_(torch.from_numpy(fixed) * 3)

        def windows(sentences: list[list[tuple[str, str]]]) -> tuple[torch.Tensor, torch.Tensor]:
            x, y = [], []
            for sentence in sentences:
                ids = [names[spell(trick, w) if fixed is None else w] for w, _ in sentence]
                pad = [names["[PAD]"]] * 2
                ids = [*pad, *ids, *pad]
                x += [ids[i : i + 5] for i in range(len(sentence))]
                y += [tags.get(tag, -1) for _, tag in sentence]
            return torch.tensor(x), torch.tensor(y)

        x, y = windows(train)
        net = nn.Sequential(
            embedding, nn.Flatten(), nn.Linear(5 * width, 100), nn.Tanh(), nn.Linear(100, len(tags))
        )
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(trained, 2e-3)
        for _ in range(options.epochs):
            order = torch.randperm(len(x), generator=generator)
            for rows in torch.split(order, 256):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
                torch.autograd.backward(loss)
                optimizer.step()
        x, y = windows(test)
        with torch.no_grad():
            right = net(x).argmax(1) == y
        unseen = torch.tensor([not counts[word] for sentence in test for word, _ in sentence])
        return float(right[unseen].float().mean()), float(right.float().mean())

    tricks: dict[str, np.ndarray | None] = {
        "an untrained [UNK]": None,
        "a random vector of its own": None,
        "rare words to one [UNK]": None,
        "rare words to [UNK] by class": None,
        "pre-trained vectors, none where there is none": of_table,
        "pre-trained vectors, by n-grams where there is none": of_ngrams,
    }
    words = [word for sentence in test for word, _ in sentence]
    unknown = [word for word in words if not counts[word]]
    facts = {
        "data": f"{options.folder.name}, column {options.column}",
        "sentences": len(train),
        "seeds": options.seeds,
        "words": len(words),
        "unknown_words": len(unknown),
        "without_vector": sum(table.spelling(word) is None for word in unknown),
    }
    for trick, fixed in tricks.items():
        found = np.array([evaluate(trick, fixed, seed) for seed in range(1, options.seeds + 1)])
        means, spread = found.mean(0), found.std(0, ddof=1)
        figures = {
            **facts,
            "vector": trick,
            "unknown_accuracy": round(float(means[0]), 4),
            "unknown_std": round(float(spread[0]), 4),
            "accuracy": round(float(means[1]), 4),
        }
        print(json.dumps(figures), flush=True)
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
