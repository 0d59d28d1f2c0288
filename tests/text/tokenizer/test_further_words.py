"""Ids of words outside the vocabulary, for models that read their spelling."""

from __future__ import annotations

import pytest

from bertwright.text.tokenizer.further_words import FurtherWords
from bertwright.text.tokenizer.tokenizer import make_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat"]


def test_the_ids_of_further_words() -> None:
    shared = make_tokenizer([*SPECIAL, *WORDS])
    tokenizer = shared.spelling(20, lambda word: word != "qux")
    other = shared.spelling(20, lambda word: True)
    assert other.encode_bare_ids(["qux cat"]) == [[20, 6]]
    plain = shared.encode_bare_ids(["the zorbled cat"])
    assert plain == [[5, tokenizer.unk_id, 6]]
    found = tokenizer.encode_bare_ids(["the Zorbled cat", "[UNK] frob zorbled", "qux [MASK]"])
    assert found == [[5, 20, 6], [1, 21, 20], [1, 4]]
    assert tokenizer.encode("frob the").ids == [2, 21, 5, 3]
    assert tokenizer.tokens_of([5, 20, 21, 12]) == ["the", "zorbled", "frob", "[UNK]"]
    flat, _ = tokenizer.encode_sentence_ids(["the zorbled cat"])
    assert flat.tolist() == plain[0]  # a corpus has [UNK]
    assert shared.encode_bare_ids(["the zorbled cat"]) == plain
    assert other.tokens_of([20]) == ["qux"]


def test_words_are_forgotten_only_after_as_many_others() -> None:
    words = FurtherWords(10, lambda word: True)
    words.most = 8
    for number in range(40):
        words.id_of(f"w{number}")
        assert words.word_of(words.id_of(f"w{max(0, number - 3)}")) == f"w{max(0, number - 3)}"  # type: ignore[arg-type]
        assert len(words) <= 8
    with pytest.raises(KeyError):
        words.word_of(10)
