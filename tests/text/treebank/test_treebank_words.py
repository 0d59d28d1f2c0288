"""Sentences as the words of a treebank, beside nltk's."""

from __future__ import annotations

import pytest

from bertwright.text.treebank.words import split_sentence

SENTENCES = [
    "Mr. Vinken is chairman of Elsevier N.V., the Dutch group.",
    '"Don\'t you see?" he asked -- it cost $3.50, or 3/4 of 1,000 U.S. dollars.',
    "The dogs' owner can't, won't and shouldn't've come; I'm gonna go: we'll see...",
    'He said, "It\'s 10:30."',
    "(A) [b] {c} cannot gimme, wanna come",
    "'Tis the season & 50% off! @home #1",
    'the so-called "junk" bonds',
    "",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_words_are_those_of_nltk(text: str) -> None:
    treebank = pytest.importorskip("nltk.tokenize.treebank")
    assert split_sentence(text) == treebank.TreebankWordTokenizer().tokenize(text)


def test_words() -> None:
    words = "He did n't see Mr. Lee -- `` the U.S. '' , 3/4 of $ 1,000 ."
    assert split_sentence("He didn\u2019t see Mr. Lee -- \u201cthe U.S.\u201d, 3/4 of $1,000.") == (
        words.split()
    )
