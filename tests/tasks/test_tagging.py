"""Words as pieces in windows, with the document around them; and plain text as words."""

from __future__ import annotations

from itertools import accumulate, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import TaggingExample
from bertwright.tasks.tagging import (
    make_tagging_instances,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import most_context, split
from tests.tasks.mixed_scripts import TOKENIZERS, UNCASED, WORDS

LABELS = ("O", "B-PER", "I-PER")


def task(max_length: int = 128, stride: int = 4, document: bool = False) -> TaskConfig:
    """A tagging task."""
    return TaskConfig(
        "tagging",
        LABELS,
        max_length=max_length,
        stride=stride,
        context="document" if document else "sentence",
    )


def first_pieces(tokenizer: Tokenizer, word: str) -> list[int]:
    """The ids of a word by itself, [UNK] for nothing."""
    return tokenizer.encode_sentence_ids([word])[0].tolist() or [tokenizer.unk_id]


def test_words_pieces_and_tags() -> None:
    words = ("The", "running", "\u200b", "[SEP]", "cat")
    tags = ("O", "B-PER", "I-PER", "O", "O")
    (instance,), lengths = make_tagging_instances(task(), UNCASED, [TaggingExample(words, tags)])
    assert UNCASED.tokens_of(instance.ids[0]) == (
        ["[CLS]", "the", "run", "##ning", "[UNK]", "[", "s", "##e", "##p", "]", "cat", "[SEP]"]
    )
    assert instance.words == ((0, 1), (0, 2), (0, 4), (0, 5), (0, 10))
    assert instance.label == [0, 1, 2, 0, 0]
    assert not any(instance.segments[0])
    assert len(instance.segments[0]) == 12
    assert (lengths.examples, lengths.windows, lengths.in_windows, lengths.tokens) == (
        1,
        1,
        0,
        [12],
    )


def test_no_tags_and_no_words() -> None:
    examples = [TaggingExample(("cat",)), TaggingExample((), ())]
    (untagged, empty), _ = make_tagging_instances(task(), UNCASED, examples)
    assert untagged.label is None
    assert list(empty.ids[0]) == [UNCASED.cls_id, UNCASED.sep_id]
    assert (empty.words, empty.label) == ((), [])


def test_bad_tags_are_named() -> None:
    bad = TaggingExample(("the", "cat"), ("O", "B-PRE"), line=12)
    with pytest.raises(DataError, match=r"line 12, word 2 \('cat'\).*'B-PRE'.*'B-PER'"):
        make_tagging_instances(task(), UNCASED, [bad])
    short = TaggingExample(("the", "cat"), ("O",))
    for examples, number in (([short], 0), ([TaggingExample(("the",), ("O",)), short], 1)):
        with pytest.raises(DataError, match=f"example {number}: 2 words with 1 tags"):
            make_tagging_instances(task(), UNCASED, examples)


def test_a_long_sentence_is_read_in_windows() -> None:
    words = tuple("abcdefghijklmnopqrst")
    (instance,), lengths = make_tagging_instances(task(10, 4), UNCASED, [TaggingExample(words)])
    bounds = split(20, 8, 4)
    assert [UNCASED.tokens_of(ids)[1:-1] for ids in instance.ids] == [
        list(words[a:b]) for a, b in bounds
    ]
    assert [window for window, _ in instance.words] == [most_context(bounds, n) for n in range(20)]
    assert (lengths.windows, lengths.in_windows, lengths.cut) == (len(bounds), 1, 0)


def read(max_length: int, *documents: str) -> list[tuple[str, str]]:
    """What every window judges and holds; a word is a letter, a sentence what blanks part."""
    examples = [
        TaggingExample(tuple(sentence), None, number)
        for number, document in enumerate(documents)
        for sentence in document.split()
    ]
    instances, lengths = make_tagging_instances(task(max_length, document=True), UNCASED, examples)
    read = []
    for instance in instances:
        (ids,) = instance.ids
        window = "".join(UNCASED.tokens_of(ids)[1:-1])
        judged = iter(window[place - 1] for _, place in instance.words)
        read.append((" ".join("".join(islice(judged, n)) for n in instance.counts), window))
        assert read[-1][0].split()[0] == "".join(examples[instance.example].words)
    assert " ".join(judged for judged, _ in read) == " ".join(documents)
    assert (lengths.examples, lengths.windows) == (len(examples), len(instances))
    return read


def test_a_document_that_fits_is_one_window() -> None:
    assert read(9, "ab cd efg", "x y") == [("ab cd efg", "abcdefg"), ("x y", "xy")]


def test_sentences_share_a_window_that_leaves_a_quarter_to_each_side() -> None:
    assert read(10, "ab cde fgh i klmno") == [
        ("ab cde", "abcdefgh"),
        ("fgh i", "defghikl"),
        ("klmno", "ghiklmno"),
    ]


def test_the_document_fills_the_window_evenly() -> None:
    assert read(9, "abcdefg hij klmnop")[1] == ("hij", "fghijkl")
    assert read(10, "abcdefg hij klmnop")[1] == ("hij", "fghijklm")


def test_a_sentence_longer_than_a_window_stands_alone() -> None:
    examples = [TaggingExample(tuple(words), None, 0) for words in ("ab", "cdefghijklmn", "op")]
    instances, lengths = make_tagging_instances(task(10, document=True), UNCASED, examples)
    assert [(len(instance.ids), instance.counts) for instance in instances] == (
        [(1, (2,)), (2, (12,)), (1, (2,))]
    )
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
    alone, alone_lengths = make_tagging_instances(task(max_length, stride), tokenizer, examples)
    chosen = task(max_length, stride, document)
    instances, lengths = make_tagging_instances(chosen, tokenizer, examples)
    counts = [count for instance in instances for count in instance.counts]
    assert counts == [len(example.words) for example in examples]
    firsts = [0, *accumulate(len(instance.counts) for instance in instances)]
    assert [instance.example for instance in instances] == firsts[:-1]
    for instance, first, stop in zip(instances, firsts, firsts[1:], strict=False):
        assert all(len(ids) <= max_length for ids in instance.ids)
        assert instance.label == [len(w) % 3 for e in examples[first:stop] for w in e.words]
        words = iter(instance.words)
        for example, single in zip(examples[first:stop], alone[first:stop], strict=True):
            places = list(islice(words, len(example.words)))
            for (window, place), (own_window, own_place), word in zip(
                places, single.words, example.words, strict=True
            ):
                pieces = first_pieces(tokenizer, word)
                here = list(instance.ids[window])[place : place + len(pieces)]
                # All of the word, but for what is behind the window's edge.
                assert here[0] == pieces[0]
                assert here == pieces[: len(here)] or here[-1] == tokenizer.sep_id
                assert single.ids[own_window][own_place] == pieces[0]
            if len(single.ids) == 1:
                own = list(single.ids[0])[1:-1]
                window, start = places[0] if own else (0, 1)
                assert list(instance.ids[window])[start : start + len(own)] == own
        assert next(words, None) is None
    assert lengths.tokens == alone_lengths.tokens
