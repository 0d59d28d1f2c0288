"""New entries for a vocabulary: which, and that nothing old is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.errors import DataError
from bertwright.text.tokenizer.extension import choose_additions
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer, make_tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefgh"
CLOSED = [*SPECIALS, *LETTERS, *(f"##{c}" for c in LETTERS), ".", "ab", "##cd", "abc"]


def tokenizer(vocab: list[str] = CLOSED) -> Tokenizer:
    return make_tokenizer(vocab)


def test_gain_is_what_an_entry_saves() -> None:
    counts = {"abcd": 10, "hgf": 9, "ab": 90, "fedcba": 4, "gh": 18, "rare": 1}
    found = choose_additions(counts, tokenizer(), 10, min_count=2)
    # hgf: 2 x 9 and gh: 1 x 18 tie, by spelling; abcd is abc + ##d: 10; fedcba: 5 x 4
    assert [(a.token, a.gain) for a in found] == [
        ("fedcba", 20), ("gh", 18), ("hgf", 18), ("abcd", 10)
    ]  # fmt: skip
    assert tokenizer().tokens_of(found[-1].replaces) == ["abc", "##d"]
    assert [a.token for a in choose_additions(counts, tokenizer(), 2, 2)] == ["fedcba", "gh"]


def test_characters_come_first_and_numbers_not_at_all() -> None:
    counts = {"xab": 7, "abx": 5, "zy": 3, "x": 2, "gh": 50, "11": 40}
    vocab = [*CLOSED, "1", "##1"]
    found = choose_additions(counts, tokenizer(vocab), 16, min_count=5)
    assert [(a.token, a.replaces, a.count) for a in found][:2] == [("x", (), 7), ("##x", (), 5)]
    assert [a.token for a in found][2:] == ["gh"]
    larger = tokenizer(vocab).extended([a.token for a in found])
    for word in ("xab", "abx", "x"):
        assert larger.unk_id not in larger.encode_sentence_ids([word])[0]
    # at most a quarter are characters
    assert [a.token for a in choose_additions(counts, tokenizer(vocab), 4, 5)] == ["x", "gh"]


def test_an_entry_through_which_a_word_is_lost_is_left_out() -> None:
    # no "##h": "abch" can be cut as ab + ##ch, but not as abc + ...
    vocab = [*SPECIALS, *LETTERS, "##b", "##c", "ab", "##ch"]
    counts = {"abc": 100, "abch": 20, "bc": 60}
    before = tokenizer(vocab).encode_sentence_ids(["abch"])[0].tolist()
    found = choose_additions(counts, tokenizer(vocab), 1, min_count=2)
    assert [a.token for a in found] == ["bc"]
    both = choose_additions(counts, tokenizer(vocab), 5, min_count=2)
    larger = tokenizer(vocab).extended([a.token for a in both])
    assert larger.unk_id not in before
    assert larger.unk_id not in larger.encode_sentence_ids(["abch"])[0]


def test_extended_keeps_ids_and_rules() -> None:
    old = tokenizer()
    new = old.extended(["fedcba", "gh"])
    assert new.vocab_size == old.vocab_size + 2
    assert {t: i for t, i in new.vocab.items() if i < old.vocab_size} == old.vocab
    assert new.rules == old.rules
    assert new.encode("gh fedcba").tokens == ["[CLS]", "gh", "fedcba", "[SEP]"]
    assert old.encode("gh").tokens == ["[CLS]", "g", "##h", "[SEP]"]
    assert new.fingerprint != old.fingerprint
    with pytest.raises(DataError, match=r"'gh'.*twice"):
        new.extended(["gh"])
    with pytest.raises(DataError, match="twice"):
        old.extended(["hg", "hg"])


def test_special_tokens_behind_the_vocabulary_keep_their_ids(tmp_path: Path) -> None:
    tokenizer().save(tmp_path)
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.add_special_tokens(["[E1]", "[/E1]"])
    backend.save(str(tmp_path / "tokenizer.json"))
    old = load_tokenizer(tmp_path)
    new = old.extended(["gh", "hg"])
    assert new.vocab == {**old.vocab, "gh": old.vocab_size, "hg": old.vocab_size + 1}
    text = "[E1] gh ab [/E1]"
    assert new.encode(text).tokens == ["[CLS]", "[E1]", "gh", "ab", "[/E1]", "[SEP]"]
    assert new.encode(text).ids[1] == old.encode(text).ids[1] == len(CLOSED)
    new.save(tmp_path / "new")
    assert load_tokenizer(tmp_path / "new").vocab == new.vocab


@settings(max_examples=60)
@given(
    st.dictionaries(st.text("abcdefgh", min_size=1, max_size=8), st.integers(1, 50), max_size=30),
    st.integers(1, 12),
)
def test_never_longer_in_sum_and_never_unknown(counts: dict[str, int], add: int) -> None:
    old = tokenizer()
    found = choose_additions(counts, old, add, min_count=2)
    assert len(found) <= add
    assert all(a.token in counts and counts[a.token] == a.count for a in found)
    new = old.extended([a.token for a in found])
    for addition in found:
        assert new.encode_sentence_ids([addition.token])[0].tolist() == [new.vocab[addition.token]]
    flat, _ = new.encode_sentence_ids(sorted(counts))
    assert new.unk_id not in flat
