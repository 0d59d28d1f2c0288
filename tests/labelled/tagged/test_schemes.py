"""Schemes are told apart, read as conlleval reads them and mended to the same entities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.labelled.tagged.schemes import (
    chunks,
    detect_scheme,
    letters_of,
    mend,
    scheme_title,
    split_tag,
)

ENTITIES = st.lists(st.sampled_from(["O", "PER", "LOC", "PER+", "LOC+"]), min_size=1, max_size=9)
"""A word each: outside, begins an entity, goes on with the one before if it is of this type."""


def spans(words: list[str]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for place, word in enumerate(words):
        kind = word.rstrip("+")
        if word == "O":
            continue
        if word.endswith("+") and found and found[-1][1:] == (place, kind):
            found[-1] = (found[-1][0], place + 1, kind)
        else:
            found.append((place, place + 1, kind))
    return found


def tagged(words: list[str], scheme: str) -> list[str]:
    """The definition of each scheme, a word at a time."""
    tags = ["O"] * len(words)
    there = spans(words)
    for start, end, kind in there:
        touches = any(stop == start and other == kind for _, stop, other in there)
        for place in range(start, end):
            first, last = place == start, place == end - 1
            if scheme == "iobes":
                letter = "S" if first and last else "B" if first else "E" if last else "I"
            elif scheme == "iob2":
                letter = "B" if first else "I"
            else:
                letter = "B" if first and touches else "I"
            tags[place] = f"{letter}-{kind}"
    return tags


@given(ENTITIES, st.sampled_from(["iob1", "iob2", "iobes"]))
def test_every_scheme_is_read_and_legal_tags_stay(words, scheme):
    tags = tagged(words, scheme)
    assert chunks(tags) == spans(words)
    assert mend(tags, scheme) == tuple(tags)
    assert mend(tags, "iob2") == tuple(tagged(words, "iob2"))


@given(
    st.lists(st.sampled_from(["O", *(f"{a}-{b}" for a in "BIES" for b in ("X", "Y"))]), max_size=8),
    st.sampled_from(["iob1", "iob2", "iobes"]),
)
def test_mended_tags_mark_the_same_entities(tags, scheme):
    mended = mend(tags, scheme)
    assert chunks(mended) == chunks(tags)
    assert mend(mended, scheme) == mended


@given(ENTITIES)
def test_entities_are_those_of_seqeval(words):
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    tags = tagged(words, "iob2")
    entities = [(start, end - 1, kind) for start, end, kind in chunks(tags)]
    assert entities == [(start, end, kind) for kind, start, end in seqeval.get_entities(tags)]


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["I-PER", "I-PER", "O", "I-LOC"], ["I-LOC", "B-LOC"]], "iob1"),
        ([["B-PER", "I-PER", "O", "B-LOC"]], "iob2"),
        ([["B-PER", "I-PER"], ["B-LOC", "O", "I-LOC"], ["B-PER"]], "iob2"),
        ([["B-PER", "I-PER"], ["I-LOC"]], "iob2"),  # as many begin with B as with I
        ([["B-PER", "E-PER", "O", "S-LOC"]], "iobes"),
        ([["B-NAME", "M-NAME", "E-NAME"]], "iobes"),
        ([["B-PER", "L-PER", "U-LOC"]], "iobes"),
        ([["B", "I", "O"]], "iob2"),
        ([["B", "M", "E", "S"]], "iobes"),
        ([["NN", "VB", "-LRB-", "O"]], "none"),
        ([["B-X", "I-X", *"OOOOOOOOO", "0"]], "iob2"),  # a slip
        ([["B-X", "0", "0"]], "none"),
        ([["E-X", *"OOOOOOOOO", "NN"]], "none"),
        ([["S", "I"]], "none"),  # particles and such, no scheme without a B
        ([["O", "O"]], "none"),
        ([], "none"),
    ],
)
def test_schemes_are_told_by_their_tags(sentences, scheme):
    assert detect_scheme(sentences) == scheme


def test_a_scheme_goes_by_its_letters():
    assert scheme_title("iobes", ["B-X", "M-X", "E-X", "S-X"]) == "BMES"
    assert scheme_title("iobes", ["B-X", "L-X", "U-X"]) == "BILOU"
    assert scheme_title("iobes", ["B-X", "I-X", "E-X"]) == "IOBES"
    assert scheme_title("iob2", ["B-M", "I-M"]) == "IOB2"
    assert scheme_title("none", ["NOUN"]) == "a label a word"


def test_other_letters_are_read_as_those_of_iobes_and_kept_when_mended():
    assert split_tag("M-NAME") == ("I", "NAME")
    assert split_tag("L-A-B") == ("E", "A-B")
    assert split_tag("U-X") == ("S", "X")
    assert split_tag("-LRB-") == ("O", "")
    tags = ["B-X", "M-X", "M-X", "O", "B-X"]
    assert letters_of([*tags, "E-X"]) == "MES"
    assert mend(tags, "iobes", "MES") == ("B-X", "M-X", "E-X", "O", "S-X")
    assert letters_of(["B-X", "I-X", "L-X", "U-X"]) == "ILU"
    assert mend(["I-X", "I-X", "O", "B-X"], "iobes", "ILU") == ("B-X", "L-X", "O", "U-X")


def test_tags_without_scheme_stay():
    assert mend(["NN", "I-X"], "none") == ("NN", "I-X")
