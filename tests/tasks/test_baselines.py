from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import (
    Example,
    TaggingExample,
    TextExample,
)
from bertwright.tasks.baselines import shape
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask

NOUNS = ("film", "book", "song", "play", "meal")
GOOD, BAD = ("fine", "lovely", "great"), ("awful", "dull", "poor")


def baseline_predictions(
    task: TaskConfig, train: list[Example], dev: list[Example], seed: int = 0
) -> Mapping[str, Sequence[Any]]:
    return kind_of(task.kind).baselines(task, train, dev, seed, False)


def judged(task: TaskConfig, train: list[Example], dev: list[Example]) -> dict[str, Evaluation]:
    found = baseline_predictions(task, train, dev)
    return {
        name: evaluate(task, dev, predictions, intervals=False)
        for name, predictions in found.items()
    }


def reviews(size: int, seed: int) -> list[Example]:
    draw = random.Random(seed)
    made: list[Example] = []
    for _ in range(size):
        label = draw.choice(("good", "good", "bad"))
        word = draw.choice(GOOD if label == "good" else BAD)
        made.append(TextExample(f"the {draw.choice(NOUNS)} was {word} !", None, label))
    return made


def test_classes() -> None:
    task = ClassificationTask(labels=("bad", "good", "never seen"))
    train, dev = reviews(60, 1), reviews(50, 2)
    found = judged(task, train, dev)
    assert set(found) == {"majority", "tfidf"}
    assert found["majority"].degenerate
    assert found["majority"].score == found["majority"].per_class[1]["support"] / 50 < 0.9
    assert found["tfidf"].score == 1
    predictions = baseline_predictions(task, train, dev, seed=5)
    assert predictions == baseline_predictions(task, train, dev, seed=5)
    for prediction in (*predictions["majority"], *predictions["tfidf"]):
        assert list(prediction.scores) == list(task.labels)
        assert sum(prediction.scores.values()) == pytest.approx(1)
        assert prediction.label == max(prediction.scores, key=prediction.scores.__getitem__)


def test_tfidf_reads_words_of_any_script() -> None:
    """Of these words only the vowel signs, or the characters, tell the classes apart."""
    for good, bad, other in (("में", "मैं", " घर"), ("好", "坏", "的房子"), ("ดี", "ดู", "บ้าน")):
        train: list[Example] = [
            TextExample(f"{other}{word} {other * (n % 3)}".strip(), None, label)
            for n in range(12)
            for word, label in ((" " + good, "good"), (" " + bad, "bad"))
        ]
        task = ClassificationTask(labels=("bad", "good"))
        assert judged(task, train, train)["tfidf"].score == 1


def test_tfidf_reads_characters_inside_words() -> None:
    """No word of dev is in train; their endings tell the classes apart."""
    stems = [a + b + c for a in "bdfgkl" for b in "aeiou" for c in "mnprst"]
    ends = {"does": "ing", "did": "ted"}
    every: list[list[Example]] = [
        [TextExample(f"{stem}{end}", None, label) for label, end in ends.items()] for stem in stems
    ]
    train = [example for pair in every[:150] for example in pair]
    dev = [example for pair in every[150:] for example in pair]
    task = ClassificationTask(labels=("did", "does"))
    assert judged(task, train, dev)["tfidf"].score == 1


WORDS = [f"{a}{b}" for a in "bcdfgh" for b in ("ol", "it", "am")]


def test_pairs_are_judged_by_what_they_share() -> None:
    def pairs(size: int, seed: int) -> list[Example]:
        draw, made = random.Random(seed), list[Example]()
        for _ in range(size):
            words = draw.sample(WORDS, 8)
            same = draw.random() < 0.5
            other = [*words[1:4], words[0]] if same else words[4:]
            made.append(TextExample(" ".join(words[:4]), " ".join(other), "01"[same]))
        return made

    task = ClassificationTask(labels=("0", "1"))
    found = judged(task, pairs(150, 1), pairs(60, 2))
    assert found["tfidf"].score > 0.95 > 0.7 > found["majority"].score


def test_chinese_goes_by_characters() -> None:
    """It has no white space: as words, hardly any text of dev was ever seen."""

    def made(seed: int) -> list[Example]:
        draw = random.Random(seed)
        return [
            TextExample(
                "".join([*draw.choices("的电影书店菜我们今天看吃", k=6), draw.choice(side)]),
                None,
                name,
            )
            for _ in range(60)
            for side, name in (("很好真棒不错", "1"), ("糟糕难看失望", "0"))
        ]

    task = ClassificationTask(labels=("0", "1"))
    assert judged(task, made(1), made(2))["tfidf"].score > 0.9


def test_label_sets() -> None:
    def made(seed: int) -> list[Example]:
        draw, found = random.Random(seed), list[Example]()
        for _ in range(80):
            held = tuple(name for name in ("red", "blue") if draw.random() < 0.6)
            words = [f"{name}dish" for name in held] + [draw.choice(NOUNS)]
            found.append(TextExample(" ".join(words), None, held))
        return found

    task = ClassificationTask(
        labels=("red", "blue", "green"), options=ClassificationOptions(multi_label=True)
    )
    found = judged(task, made(1), made(2))
    assert found["tfidf"].score == 1
    assert found["majority"].score < 0.9


def test_numbers() -> None:
    def made(size: int, seed: int) -> list[Example]:
        draw, found = random.Random(seed), list[Example]()
        for _ in range(size):
            words = draw.sample(WORDS, 10)
            shared = draw.randint(0, 5)
            other = words[:shared] + words[5 : 10 - shared]
            found.append(TextExample(" ".join(words[:5]), " ".join(other), float(shared)))
        return found

    train, dev = made(100, 1), made(40, 2)
    found = judged(RegressionTask(), train, dev)
    assert found["mean"].degenerate
    assert found["tfidf_ridge"].score > 0.9
    single: list[Example] = [TextExample(f"{n % 3} stars", None, n % 3) for n in range(30)]
    assert judged(RegressionTask(), single, single)["tfidf_ridge"].score > 0.9
    predictions = baseline_predictions(RegressionTask(), train, dev)["tfidf_ridge"]
    values = [p.value for p in predictions]
    assert 0 <= min(values) <= max(values) <= 5  # never beyond what was seen


def people(size: int, seed: int, names: tuple[str, ...]) -> list[Example]:
    draw, made = random.Random(seed), list[Example]()
    for _ in range(size):
        name = draw.choice(names)
        words = (draw.choice(("today", "now")), "Mr.", name, draw.choice(("sleeps", "ran", "ate")))
        made.append(TaggingExample(words, ("O", "O", "B-PER", "O")))
    return made


def test_words_and_their_shapes() -> None:
    task = TaggingTask(labels=("O", "B-PER"), scheme="iob2")
    train = people(80, 1, ("Smith", "Jones", "Brown", "Green"))
    found = judged(task, train, people(20, 2, ("Smith", "Jones")))
    assert found["majority"].score == found["word_shape"].score == 1
    unseen = judged(task, train, people(20, 2, ("White", "Taylor")))
    assert unseen["majority"].degenerate  # it knows no other name
    assert unseen["word_shape"].score > 0.9
    predictions = baseline_predictions(task, train, people(1, 2, ("Smith",)))["majority"]
    entity = predictions[0].as_dict()["entities"][0]
    assert (entity["label"], entity["start"], entity["text"]) == ("PER", 2, "Smith")


def test_parts_of_speech_have_no_o() -> None:
    task = TaggingTask(labels=("DET", "NOUN", "VERB"))
    train: list[Example] = [TaggingExample(("the", "dog", "cat"), ("DET", "NOUN", "NOUN"))] * 5
    dev: list[Example] = [TaggingExample(("the", "cow"), ("DET", "NOUN"))]
    assert judged(task, train, dev)["majority"].score == 1


@pytest.mark.parametrize(
    ("word", "expected"),
    [("Brussels", "Xx"), ("U.S.", "X.X."), ("3-year", "d-x"), ("1996-08-22", "d-d-d"), ("", "")],
)
def test_shape(word: str, expected: str) -> None:
    assert shape(word) == expected


@pytest.mark.parametrize("texts", [["", ""], ["x", ""], ["。", "。"]])
def test_texts_without_words_do_not_break_it(texts: list[str]) -> None:
    task = ClassificationTask(labels=("a", "b"))
    train = [TextExample(text, None, label) for text, label in zip(texts, "ab", strict=True)]
    assert len(baseline_predictions(task, train, train)["tfidf"]) == 2
    one_class = baseline_predictions(task, train[:1], train)
    assert [p.as_dict()["label"] for p in one_class["tfidf"]] == ["a", "a"]


def test_other_kinds_have_none() -> None:
    with_some = {name for name in KINDS if kind_of(name).has_baselines}
    assert with_some == {"classification", "regression", "tagging", "similarity"}
