"""The text, labelled files, tokenizers and shards that the tiny runs are made of."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.formats.observe import verb

ANIMALS = ["cat", "dog", "horse", "goat", "hen", "fox", "owl"]
PEOPLE = ["baker", "farmer", "sailor", "teacher", "doctor", "painter"]
FOOD = ["apple", "bread", "cheese", "soup"]
THINGS = ["lamp", "book", "boat", "coat", "song", "letter"]
PLACES = ["old mill", "north hill", "river bank", "green field", "stone bridge"]
ADJECTIVES = ["red", "small", "kind", "quick", "quiet", "bright"]
VERBS = ["sees", "finds", "likes", "carries", "hides", "paints", "sells"]
ADVERBS = ["quickly", "quietly", "kindly", "brightly"]
TEXTS = [
    "the quick fox finds the red lamp near the old mill .",
    "a kind baker sells the bread .",
    "the owl sleeps quietly in the green field .",
    "it sees the boat",
    "the sailor carries the small letter near the river bank . it sleeps in the stone bridge .",
    "Horse",
]
PAIR = ("the goat likes the soup .", "it sleeps quietly .")
TREEBANK = [
    ("(S (NP (DT the) (NN {a})) (VP (VBZ {v}) (NP (DT the) (NN {t}))) (. .))"),
    ("(S (NP (DT a) (JJ {j}) (NN {a})) (VP (VBZ sleeps) (ADVP (RB {r}))) (. .))"),
    ("(S (NP (NP (DT the) (NN {a})) (PP (IN near) (NP (DT the) (NN {t})))) (VP (VBZ sleeps)))"),
]


def sentence(draw: random.Random, subject: str, place: str) -> str:
    """One sentence about a subject."""
    adjective = draw.choice([*ADJECTIVES, "", ""])
    thing = draw.choice(FOOD + THINGS)
    return draw.choice(
        (
            f"the {adjective} {subject} {draw.choice(VERBS)} the {thing} .",
            f"a {subject} {draw.choice(VERBS)} the {adjective} {thing} near the {place} .",
            f"it sleeps {draw.choice(ADVERBS)} in the {place} .",
            f"the {subject} {draw.choice(ADVERBS)} {draw.choice(VERBS)} the {thing} .",
        )
    ).replace("  ", " ")


def documents(seed: int, count: int) -> list[list[str]]:
    """Documents of 4 to 7 sentences."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        subject, place = draw.choice(ANIMALS + PEOPLE), draw.choice(PLACES)
        found.append([sentence(draw, subject, place) for _ in range(draw.randint(4, 7))])
    return found


def rows_of(kind: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Labelled examples of a kind of task; a column a key."""
    draw = random.Random(f"{kind} {seed}")
    for number in range(count):
        subject, place = draw.choice(ANIMALS + PEOPLE), draw.choice(PLACES)
        while (text := sentence(draw, subject, place)).startswith("it"):
            pass
        words = text.split()
        other = draw.choice([w for w in ANIMALS + PEOPLE if w != subject])
        if kind == "classification":
            yield {"text": text, "label": "animal" if subject in ANIMALS else "person"}
        elif kind == "pair":
            same = number % 2 == 0
            second = sentence(draw, subject if same else other, place)
            yield {"sentence1": text, "sentence2": second, "label": ("other", "same")[same]}
        elif kind == "multi-label":
            names = {"animal": ANIMALS, "person": PEOPLE, "food": FOOD}
            yield {"text": text, "label": [k for k, of in names.items() if {*of} & {*words}]}
        elif kind == "regression":
            yield {"text": text, "score": len(words) / 2 + ("near" in words)}
        elif kind == "tagging":
            yield {"words": words, "tags": tags_of(words)}
        elif kind == "span":
            asked = number % 4 != 3
            question = f"who is in the text ? {subject if asked else other}"
            start = text.index(subject)
            answers = {"text": [subject], "answer_start": [start]}
            none: dict[str, Any] = {"text": [], "answer_start": []}
            yield {
                "id": f"q{seed}-{number}",
                "question": question,
                "context": text,
                "answers": answers if asked else none,
            }
        elif kind == "multiple-choice":
            choices = [sentence(draw, each, place) for each in (other, other)]
            right = draw.randrange(3)
            choices.insert(right, f"the {subject} sleeps .")
            yield {"text": text, "question": "who sleeps ?", "choices": choices, "label": right}
        elif kind == "generation":
            yield {"source": " ".join(words[:4]), "target": " ".join(words[:4][::-1])}
        else:
            raise ValueError(kind)


def tags_of(words: list[str]) -> list[str]:
    """Animals, people and places, in the scheme IOB2."""
    starts = {**dict.fromkeys(ANIMALS, "B-ANIMAL"), **dict.fromkeys(PEOPLE, "B-PERSON")}
    tags = [starts.get(word, "O") for word in words]
    for at in range(len(words) - 1):
        if " ".join(words[at : at + 2]) in PLACES:
            tags[at : at + 2] = ["B-PLACE", "I-PLACE"]
    return tags


KINDS = (
    "classification",
    "pair",
    "multi-label",
    "regression",
    "tagging",
    "span",
    "multiple-choice",
    "generation",
)

# Tokenizers and shards.


def files(kind: str) -> dict[str, str]:
    """The labelled files of a kind."""
    suffix = {"tagging": "conll", "classification": "tsv", "pair": "tsv"}.get(kind, "jsonl")
    return {"train": f"data/{kind}-train.{suffix}", "dev": f"data/{kind}-dev.{suffix}"}


def write_data() -> None:
    """Write the text, pairs, stories, trees and labelled files into `data`."""
    data = Path("data")
    data.mkdir()

    def write(name: str, lines: Iterable[str]) -> None:
        (data / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    text = documents(1, 56)
    write("text.txt", ("\n".join(each) + "\n" for each in text))
    write("dev.txt", ("\n".join(each) + "\n" for each in documents(2, 5)))
    sentences = list(dict.fromkeys(each for document in text for each in document))[:160]
    write("source.txt", sentences)
    write("target.txt", (" ".join(each.split()[::-1]) for each in sentences))
    draw = random.Random(3)
    trees = []
    for number in range(90):
        words = {"a": ANIMALS, "v": VERBS, "t": THINGS, "j": ADJECTIVES, "r": ADVERBS}
        chosen = {key: draw.choice(of) for key, of in words.items()}
        trees.append(TREEBANK[number % 3].format(**chosen))
    write("trees.mrg", trees)
    verb("data", "stories", "--out", data / "stories.txt", "--count", 90, "--seed", 1)
    verb("data", "stories", "--out", data / "questions.txt", "--count", 5, "--seed", 2)
    for kind in KINDS:
        for name, seed, count in (("train", 1, 24), ("dev", 2, 10)):
            rows = list(rows_of(kind, seed, count))
            if kind == "tagging":
                lines = []
                for row in rows:
                    pairs = zip(row["words"], row["tags"], strict=True)
                    lines.append("\n".join(f"{w} {t}" for w, t in pairs) + "\n")
                write(f"{kind}-{name}.conll", lines)
            elif kind in ("classification", "pair"):
                lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
                write(f"{kind}-{name}.tsv", lines)
            else:
                write(f"{kind}-{name}.jsonl", map(json.dumps, rows))


TOKENIZERS: dict[str, tuple[str, ...]] = {
    "wordpiece": ("data/text.txt", "--vocab-size", "120"),
    "word": ("data/text.txt", "--algorithm", "word", "--vocab-size", "120"),
    "unknown": (
        "data/text.txt", "--algorithm", "word", "--vocab-size", "120",
        "--special-tokens", "unknown",
    ),
    "bpe": ("data/text.txt", "--algorithm", "bpe", "--vocab-size", "110"),
    "byte-bpe": ("data/text.txt", "--algorithm", "byte-bpe", "--vocab-size", "300"),
    "character": ("data/text.txt", "--algorithm", "character", "--no-lowercase"),
    "stories": ("data/stories.txt", "--algorithm", "word", "--sentences", "line"),
}  # fmt: skip
"""Name -> what `tokenizer train` is given."""
SHARDS: dict[str, tuple[str, ...]] = {
    **{each: ("data/text.txt", "--tokenizer", each) for each in TOKENIZERS if each != "stories"},
    "pairs": ("data/source.txt", "data/target.txt", "--parallel", "--tokenizer", "wordpiece"),
    "word-pairs": ("data/source.txt", "data/target.txt", "--parallel", "--tokenizer", "word"),
    "stories": ("data/stories.txt", "--sentences", "line", "--tokenizer", "stories"),
}
"""Name -> what `data build` is given."""


def build_shards(out: Path, tokenizers: Path) -> None:
    """Train every tokenizer and build every folder of shards."""
    for name, words in TOKENIZERS.items():
        verb("tokenizer", "train", *words, "--workers", 1, "--out", tokenizers / name)
    for name, words in SHARDS.items():
        *given, tokenizer = words
        found = ["--tokenizer", tokenizers / tokenizer] if given.pop() else []
        verb("data", "build", *given, *found, "--workers", 1, "--out", out / name)
    verb("data", "trees", "data/trees.mrg", "--vocab-size", 90, "--out", out / "trees")


# Pre-training.
