"""Labelled files of every kind, a few lines each, of our own making."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

GOOD, BAD = ("good", "fine", "great"), ("bad", "poor", "awful")
THINGS = ("film", "plot", "cast", "music")
NAMES = ("ann", "bob", "eve")
WORDS = (*GOOD, *BAD, *THINGS, *NAMES, "the", "a", "was", "saw", "who", "what", "and")


def classes(chance: Random, count: int) -> str:
    """TSV of texts that are good or bad."""
    rows = ["text\tlabel"]
    for number in range(count):
        word = chance.choice((BAD, GOOD)[number % 2])
        rows.append(f"the {chance.choice(THINGS)} was {word}\t{('bad', 'good')[number % 2]}")
    return "\n".join(rows) + "\n"


def numbers(chance: Random, count: int) -> str:
    """CSV of pairs with a number."""
    rows = ["sentence1,sentence2,score"]
    for _ in range(count):
        one, other = chance.choice(THINGS), chance.choice(THINGS)
        rows.append(f"the {one},a {other},{5.0 if one == other else chance.random():.2f}")
    return "\n".join(rows) + "\n"


def tags(chance: Random, count: int) -> str:
    """CoNLL columns with names of people."""
    sentences = []
    for _ in range(count):
        name = chance.choice(NAMES)
        sentences.append(f"the O\n{name} B-PER\nsaw O\na O\n{chance.choice(THINGS)} O\n")
    return "\n".join(sentences)


def spans(chance: Random, count: int) -> str:
    """SQuAD JSON; the answer is a name."""
    paragraphs = []
    for number in range(count):
        name = chance.choice(NAMES)
        context = f"the {chance.choice(THINGS)} was {chance.choice(GOOD)} and {name} saw a film"
        answer = {"text": name, "answer_start": context.index(name)}
        question = {"id": f"q{number}", "question": "who saw a film ?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})


def choices(chance: Random, count: int) -> str:
    """JSON lines of a text with two ways to go on."""
    rows = []
    for number in range(count):
        both = [f"was {chance.choice(GOOD)}", f"was {chance.choice(BAD)}"]
        both = both if number % 2 else both[::-1]
        thing = chance.choice(THINGS)
        rows.append(json.dumps({"text": f"the {thing}", "choices": both, "label": 1 - number % 2}))
    return "\n".join(rows) + "\n"


def targets(chance: Random, count: int) -> str:
    """TSV of words and a sentence of them."""
    rows = ["source\ttarget"]
    for number in range(count):
        thing, word = chance.choice(THINGS), chance.choice((BAD, GOOD)[number % 2])
        rows.append(f"{thing} {word}\tthe {thing} was {word}")
    return "\n".join(rows) + "\n"


FILES: dict[str, tuple[str, Callable[[Random, int], str]]] = {
    "classification": (".tsv", classes),
    "regression": (".csv", numbers),
    "tagging": (".conll", tags),
    "span": (".json", spans),
    "multiple-choice": (".jsonl", choices),
    "generation": (".tsv", targets),
}
"""By kind: the suffix, and what writes so many examples."""
