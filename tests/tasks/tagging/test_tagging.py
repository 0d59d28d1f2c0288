"""Sentences as instances, tags and entities of scores, and their metrics."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.task import Scheme, TaskConfig
from bertwright.labelled.examples import TaggingExample
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.metrics import per_class, value
from bertwright.tasks.predictions import Entity, TaggingPrediction
from bertwright.tasks.tagging.kind import EntityCounts, TaggingKind, decode_tagging
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import most_context, split
from tests.tasks.mixed_scripts import TOKENIZERS, UNCASED, WORDS

LABELS = ("O", "B-PER", "I-PER")


def task(max_length: int = 128, stride: int = 4, document: bool = False) -> TaskConfig:
    """A tagging task."""
    return TaggingTask(
        labels=LABELS,
        max_length=max_length,
        stride=stride,
        options=TaggingOptions(context="document" if document else "sentence"),
    )


def first_pieces(tokenizer: Tokenizer, word: str) -> list[int]:
    """The ids of a word by itself, [UNK] for nothing."""
    return tokenizer.encode_sentence_ids([word])[0].tolist() or [tokenizer.unk_id]


def test_words_pieces_and_tags() -> None:
    words = ("The", "running", "\u200b", "[SEP]", "cat")
    tags = ("O", "B-PER", "I-PER", "O", "O")
    (instance,), lengths = TaggingKind().make(task(), UNCASED, [TaggingExample(words, tags)])
    assert UNCASED.tokens_of(instance.ids[0]) == (
        ["[CLS]", "the", "run", "##ning", "[UNK]", "[", "s", "##e", "##p", "]", "cat", "[SEP]"]
    )
    assert instance.words == (1, 2, 4, 5, 10)
    assert instance.label == [0, 1, 2, 0, 0]
    assert not any(instance.segments[0])
    assert len(instance.segments[0]) == 12
    assert (lengths.examples, lengths.windows, lengths.in_windows) == (1, 1, 0)
    assert lengths.tokens == [12]


def test_no_tags_and_no_words() -> None:
    examples = [TaggingExample(("cat",)), TaggingExample((), ())]
    (untagged, empty), _ = TaggingKind().make(task(), UNCASED, examples)
    assert untagged.label is None
    assert list(empty.ids[0]) == [UNCASED.special_id("cls"), UNCASED.special_id("sep")]
    assert (empty.words, empty.label) == ((), [])


def test_a_long_sentence_is_an_instance_a_window() -> None:
    words = tuple("abcdefghijklmnopqrst")
    tags = tuple(LABELS[n % 3] for n in range(20))
    examples = [TaggingExample(("a",)), TaggingExample(words, tags)]
    (_, *parts), lengths = TaggingKind().make(task(10, 4), UNCASED, examples)
    bounds = split(20, 8, 4)
    assert [UNCASED.tokens_of(part.ids[0])[1:-1] for part in parts] == [
        list(words[a:b]) for a, b in bounds
    ]
    windows = most_context(bounds, range(20)).tolist()
    assert [part.counts for part in parts] == [(windows.count(n),) for n in range(len(bounds))]
    assert [part.first_word for part in parts] == [windows.index(n) for n in range(len(bounds))]
    read = [UNCASED.tokens_of(part.ids[0])[at] for part in parts for at in part.words]
    assert read == [word for part in parts for word in part.texts] == list(words)
    assert [n for part in parts for n in part.label] == [n % 3 for n in range(20)]
    assert {part.example for part in parts} == {1}
    assert (lengths.windows, lengths.in_windows, lengths.cut) == (len(bounds) + 1, 1, 0)


def read(max_length: int, *documents: str) -> list[tuple[str, str]]:
    """What every window judges and holds; a word is a letter, a sentence what blanks part."""
    examples = [
        TaggingExample(tuple(sentence), None, number)
        for number, document in enumerate(documents)
        for sentence in document.split()
    ]
    instances, lengths = TaggingKind().make(task(max_length, document=True), UNCASED, examples)
    read = []
    for instance in instances:
        (ids,) = instance.ids
        window = "".join(UNCASED.tokens_of(ids)[1:-1])
        judged = iter(window[place - 1] for place in instance.words)
        read.append((" ".join("".join(islice(judged, n)) for n in instance.counts), window))
        assert read[-1][0].split()[0] == "".join(examples[instance.example].words)
    assert " ".join(judged for judged, _ in read) == " ".join(documents)
    assert (lengths.examples, lengths.windows) == (len(examples), len(instances))
    return read


def test_a_document_that_fits_is_one_window() -> None:
    assert read(9, "ab cd efg", "x y") == [("ab cd efg", "abcdefg"), ("x y", "xy")]


def test_the_document_fills_the_window_evenly() -> None:
    """Sentences share a window that leaves a quarter to each side."""
    windows = [("ab cde", "abcdefgh"), ("fgh i", "defghikl"), ("klmno", "ghiklmno")]
    assert read(10, "ab cde fgh i klmno") == windows
    assert read(9, "abcdefg hij klmnop")[1] == ("hij", "fghijkl")
    assert read(10, "abcdefg hij klmnop")[1] == ("hij", "fghijklm")


def test_a_sentence_longer_than_a_window_stands_alone() -> None:
    examples = [TaggingExample(tuple(words), None, 0) for words in ("ab", "cdefghijklmn", "op")]
    instances, lengths = TaggingKind().make(task(10, document=True), UNCASED, examples)
    assert [instance.counts for instance in instances] == [(2,), (6,), (6,), (2,)]
    assert (lengths.windows, lengths.in_windows) == (4, 1)


@given(
    st.lists(st.tuples(WORDS, st.integers(0, 1)), max_size=6),
    st.sampled_from(TOKENIZERS),
    st.integers(8, 40),
    st.booleans(),
    st.data(),
)
def test_every_word_has_one_place_and_its_first_piece_is_there(
    sentences: list[tuple[tuple[str, ...], int]],
    tokenizer: Tokenizer,
    max_length: int,
    document: bool,
    data: st.DataObject,
) -> None:
    stride = data.draw(st.integers(0, max_length // 2))
    examples = [
        TaggingExample(words, tuple(LABELS[len(word) % 3] for word in words), number)
        for words, number in sorted(sentences, key=lambda sentence: sentence[1])
    ]
    _, alone_lengths = TaggingKind().make(task(max_length, stride), tokenizer, examples)
    chosen = task(max_length, stride, document)
    instances, lengths = TaggingKind().make(chosen, tokenizer, examples)
    counts = [0] * len(examples)
    read: list[tuple[str, int]] = []
    for instance in instances:
        (ids,) = instance.ids
        assert len(ids) <= max_length
        assert instance.first_word == counts[instance.example]
        for number, count in enumerate(instance.counts, instance.example):
            counts[number] += count
        read += zip(instance.texts, instance.label, strict=True)
        for place, word in zip(instance.words, instance.texts, strict=True):
            pieces = first_pieces(tokenizer, word)
            here = list(ids)[place : place + len(pieces)]
            # All of the word, but for what is behind the window's edge.
            assert here[0] == pieces[0]
            assert here == pieces[: len(here)] or here[-1] == tokenizer.special_id("sep")
        own = [
            id_
            for e in examples[instance.example :][: len(instance.counts)]
            for word in e.words
            for id_ in first_pieces(tokenizer, word)
        ]
        if len(own) <= max_length - 2 and own:
            assert list(ids)[instance.words[0] :][: len(own)] == own
    assert counts == [len(example.words) for example in examples]
    assert read == [(word, len(word) % 3) for example in examples for word in example.words]
    assert lengths.tokens == alone_lengths.tokens


def entities(tags: list[str], scheme: Scheme) -> list[tuple[str, int, int]]:
    """Those of a sentence of which a model says these tags."""
    labels = tuple(dict.fromkeys([*tags, "O"]))
    numbers = np.array([labels.index(tag) for tag in tags], np.int64)
    task, example = TaggingTask(labels=labels, scheme=scheme), TaggingExample(("w",) * len(tags))
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


TASK = TaggingTask(labels=LABELS, scheme="iob2")
PROBABILITIES = np.array([[0.1, 0.8, 0.1], [0.3, 0.1, 0.6], [0.9, 0.05, 0.05]], np.float32)


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (TaggingExample(("New", "York", "!")), "New York !"),
        (TaggingExample(("兰", "州", "1", "月")), "兰州1月"),
        (TaggingExample(("中国", "人民")), "中国 人民"),
        (TaggingExample(("a", "b"), text="a-b", offsets=((0, 1), (2, 3))), "a-b"),
        (TaggingExample(()), ""),
    ],
)
def test_words_are_read_as_one_writes_them(example: TaggingExample, text: str) -> None:
    assert example.read() == text


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
    empty = decode_tagging(TASK, TaggingExample(()), np.zeros((0, 3)), np.zeros(0, np.int64))
    assert (empty.words, empty.tags, empty.scores, empty.entities) == ((), (), (), ())


def scores(gold: str, said: str) -> dict[str, float]:
    """Of sentences that are cut by "|"."""
    sides = [[sentence.split() for sentence in side.split("|")] for side in (gold, said)]
    return value(EntityCounts(*sides).statistic, len(sides[0]))


@pytest.mark.parametrize(
    ("gold", "said", "right", "predicted", "true"),
    [
        # IOB1's "I-" after "O" begins an entity, and so is the same as IOB2's "B-"
        ("O I-PER I-PER O", "O B-PER I-PER O", 1, 1, 1),
        # another type begins another entity, in the gold and in the prediction
        ("I-PER I-ORG", "B-PER B-ORG", 2, 2, 2),
        # IOB1's "B-" parts two of a type
        ("I-PER B-PER", "I-PER I-PER", 0, 1, 2),
        # first and last word must both be right
        ("B-LOC I-LOC O", "B-LOC O O", 0, 1, 1),
        ("B-LOC I-LOC O", "B-LOC I-LOC I-LOC", 0, 1, 1),
        # the type too
        ("B-LOC I-LOC", "B-ORG I-ORG", 0, 1, 1),
        # an entity does not go on into the next sentence
        ("B-LOC | I-LOC", "B-LOC | B-LOC", 2, 2, 2),
        # IOBES, and BMES by its other letters
        ("S-PER B-LOC E-LOC O", "S-PER B-LOC E-LOC S-ORG", 2, 3, 2),
        ("S-PER B-LOC M-LOC E-LOC", "S-PER B-LOC I-LOC E-LOC", 2, 2, 2),
        # "E" ends an entity whatever follows
        ("B-X E-X B-X E-X", "B-X I-X B-X I-X", 2, 2, 2),
        ("O O", "O O", 0, 0, 0),
    ],
)
def test_worked_examples(gold: str, said: str, right: int, predicted: int, true: int) -> None:
    found = scores(gold, said)
    assert found["precision"] == pytest.approx(right / predicted if predicted else 0)
    assert found["recall"] == pytest.approx(right / true if true else 0)
    assert found["f1"] == pytest.approx(2 * right / (predicted + true) if predicted + true else 0)


def test_by_type() -> None:
    gold = [["B-PER", "O", "B-LOC"], ["B-LOC", "I-LOC"]]
    said = [["B-PER", "B-PER", "B-LOC"], ["B-LOC", "O"]]
    counts = EntityCounts(gold, said)
    assert value(counts.statistic, 2)["accuracy"] == 3 / 5  # of tags as they are written
    rows = {row.pop("label"): row for row in per_class(counts.by_type, counts.types)}
    assert rows["LOC"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert rows["PER"] == pytest.approx({"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1})


@st.composite
def well_formed(draw: st.DrawFn, iobes: bool) -> list[str]:
    """Tags of one sentence in IOB2 or IOBES."""
    tags: list[str] = []
    for kind, size in draw(st.lists(st.tuples(st.sampled_from("XY"), st.integers(0, 3)))):
        marks = "O" if size == 0 else "B" + "I" * (size - 1)
        if iobes and size:
            marks = "S" if size == 1 else marks[:-1] + "E"
        tags += ["O" if mark == "O" else f"{mark}-{kind}" for mark in marks]
    return tags


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
@given(data=st.data())
def test_well_formed_tags_as_in_seqeval(scheme: str, data: st.DataObject) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval import scheme as schemes

    tags = well_formed(scheme == "IOBES")
    drawn = data.draw(st.lists(st.tuples(tags, tags), min_size=1, max_size=4))
    sizes = [max(len(a), len(b), 1) for a, b in drawn]
    gold, said = (
        [pair[side] + ["O"] * (n - len(pair[side])) for pair, n in zip(drawn, sizes, strict=True)]
        for side in (0, 1)
    )
    found = value(EntityCounts(gold, said).statistic, len(gold))
    strict = {"mode": "strict", "scheme": getattr(schemes, scheme), "zero_division": 0}
    if any(tag != "O" for side in (*gold, *said) for tag in side):
        assert found["precision"] == pytest.approx(seqeval.precision_score(gold, said, **strict))
        assert found["recall"] == pytest.approx(seqeval.recall_score(gold, said, **strict))
        assert found["f1"] == pytest.approx(seqeval.f1_score(gold, said, **strict))


@given(st.lists(st.lists(st.tuples(*[st.sampled_from("NVAX")] * 2)), min_size=1))
def test_parts_of_speech_as_in_scikit_learn(drawn: list[list[tuple[str, str]]]) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    gold, said = ([[pair[side] for pair in tags] for tags in drawn] for side in (0, 1))
    flat = [[tag for tags in side for tag in tags] for side in (gold, said)]
    if not flat[0]:
        return
    examples = [TaggingExample(("w",) * len(tags), tuple(tags)) for tags in gold]
    predictions = [
        TaggingPrediction(("w",) * len(tags), tuple(tags), (0.5,) * len(tags), ()) for tags in said
    ]
    found = evaluate(TaggingTask(labels=("N",)), examples, predictions, intervals=False)
    macro = f1_score(*flat, average="macro", zero_division=0)
    assert found.metrics == pytest.approx({"accuracy": accuracy_score(*flat), "macro_f1": macro})
    assert sum(row["support"] for row in found.per_class) == len(flat[0])
