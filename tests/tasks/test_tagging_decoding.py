"""From tags to entities, in words and in characters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.task import Scheme, TaskConfig
from bertwright.labelled.examples import TaggingExample
from bertwright.tasks.predictions import Entity
from bertwright.tasks.tagging import EntityCounts, decode_tagging


def entities(tags: list[str], scheme: Scheme) -> list[tuple[str, int, int]]:
    """Those of a sentence of which a model says these tags."""
    labels = tuple(dict.fromkeys([*tags, "O"]))
    numbers = np.array([labels.index(tag) for tag in tags], np.int64)
    task, example = TaskConfig("tagging", labels, scheme=scheme), TaggingExample(("w",) * len(tags))
    found = decode_tagging(task, example, np.eye(len(labels))[numbers], numbers).entities
    return [(entity.label, entity.start, entity.end) for entity in found]


@pytest.mark.parametrize(
    ("scheme", "tags", "expected"),
    [
        ("iob1", "I-A I-A B-A O I-B", [("A", 0, 2), ("A", 2, 3), ("B", 4, 5)]),
        ("iob2", "B-A I-A B-A O B-B I-B", [("A", 0, 2), ("A", 2, 3), ("B", 4, 6)]),
        ("iob2", "O I-A I-B I-B", [("A", 1, 2), ("B", 2, 4)]),  # broken, as conlleval reads it
        ("iobes", "S-A B-A I-A E-A O S-B", [("A", 0, 1), ("A", 1, 4), ("B", 5, 6)]),
        ("iobes", "B-A M-A E-A S-A", [("A", 0, 3), ("A", 3, 4)]),  # BMES
        ("iobes", "U-A B-A I-A L-A", [("A", 0, 1), ("A", 1, 4)]),  # BILOU
        ("iobes", "E-A E-A I-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3)]),  # broken
        ("iob2", "B-A-B I-A-B", [("A-B", 0, 2)]),
        ("iob2", "O O", []),
        ("none", "NOUN B-A", []),
    ],
)
def test_entities(scheme: Scheme, tags: str, expected: list[tuple[str, int, int]]) -> None:
    assert entities(tags.split(), scheme) == expected


TAGS = st.sampled_from(["O", *(f"{letter}-{kind}" for letter in "BIESMLU" for kind in "AB")])


@given(st.lists(TAGS, max_size=12))
def test_entities_are_those_that_the_metric_counts(tags: list[str]) -> None:
    found = entities(tags, "iobes")
    _, chosen, true, *_ = EntityCounts([tags], [tags]).parts[0]
    assert chosen == true == len(found)
    inside = {word for _, start, stop in found for word in range(start, stop)}
    assert inside == {word for word, tag in enumerate(tags) if tag != "O"}


LABELS = ("O", "B-PER", "I-PER")
TASK = TaskConfig("tagging", LABELS, scheme="iob2")
PROBABILITIES = np.array([[0.1, 0.8, 0.1], [0.3, 0.1, 0.6], [0.9, 0.05, 0.05]], np.float32)


def test_words_are_read_as_one_writes_them() -> None:
    assert TaggingExample(("New", "York", "!")).read(0, 2) == "New York"
    assert TaggingExample(("兰", "州", "1", "月")).read(0, 2) == "兰州"
    assert TaggingExample(("中国", "人民")).read() == "中国 人民"
    assert TaggingExample(("a", "b")).read() == "a b"
    assert TaggingExample(("a", "b"), text="a-b", offsets=((0, 1), (2, 3))).read() == "a-b"
    assert TaggingExample(()).read() == ""
    (entity,) = decode_tagging(
        TASK, TaggingExample(tuple("兰州x")), PROBABILITIES, np.array([1, 2, 0])
    ).entities
    assert (entity.start, entity.end, entity.text) == (0, 2, "兰州")


def test_entities_of_a_text_are_exact_slices() -> None:
    text = "José-\u3000x"
    example = TaggingExample(("José", "-", "x"), text=text, offsets=((0, 4), (4, 5), (6, 7)))
    prediction = decode_tagging(TASK, example, PROBABILITIES, np.array([1, 2, 0]))
    assert prediction.tags == ("B-PER", "I-PER", "O")
    assert prediction.scores == pytest.approx((0.8, 0.6, 0.9))
    (entity,) = prediction.entities
    assert (entity.label, entity.start, entity.end, entity.text) == ("PER", 0, 5, text[:5])
    assert entity.score == pytest.approx(0.7)
    assert prediction.offsets == ((0, 4), (4, 5), (6, 7))


def test_entities_of_words_are_in_words() -> None:
    example = TaggingExample(("Ann", "Lee", "ran"))
    # With a CRF the chosen tag need not be the likeliest.
    prediction = decode_tagging(TASK, example, PROBABILITIES, np.array([1, 0, 1]))
    assert prediction.entities == (
        Entity("PER", 0, 1, "Ann", pytest.approx(0.8)),
        Entity("PER", 2, 3, "ran", pytest.approx(0.05)),
    )
    assert prediction.offsets is None
    joined = decode_tagging(TASK, example, PROBABILITIES, np.array([1, 2, 2]))
    assert [(e.start, e.end, e.text) for e in joined.entities] == [(0, 3, "Ann Lee ran")]


def test_no_words() -> None:
    empty = decode_tagging(TASK, TaggingExample(()), np.zeros((0, 3)), np.zeros(0, np.int64))
    assert (empty.words, empty.tags, empty.scores, empty.entities) == ((), (), (), ())


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"probabilities \[3, 3\].*expected \[2, 3\]"):
        decode_tagging(TASK, TaggingExample(("a", "b")), PROBABILITIES, np.zeros(3, np.int64))
