"""Training as a whole: order of the vocabulary, alphabet, pruning, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.text.tokenizer.train import train_on_counts, train_tokenizer
from bertwright.text.tokenizer.word_counts import WordCounts, count_words
from bertwright.text.tokenizer.wordpiece import Pruner, choose_alphabet

TEXT = (
    "The winter was long. Winters are longer in the north, where the river freezes.\n"
    "Walking and talking, they walked, talked and walk still; the talker talks.\n\n"
) * 3


def counted(text: str = TEXT, lowercase: bool = True) -> WordCounts:
    """Word counts of a small text."""
    return count_words([[text]], BertRules(lowercase=lowercase), workers=1)


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "word", "character"])
def test_a_vocabulary_needs_unk_alone(algorithm: str, tmp_path: Path) -> None:
    config = TokenizerConfig(vocab_size=70, algorithm=algorithm, special_tokens="unknown")  # type: ignore[arg-type]
    trained, training = train_on_counts(counted(), config)
    trained.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.special == {"unk": 0}
    assert again.fingerprint == trained.fingerprint
    assert (again.vocab_size, again.special_ids) == (training["vocab_size"], {0})
    text = "The winter was long \N{SNOWMAN}. [MASK]"
    ids, _ = again.encode_sentence_ids([text])
    assert again.encode(text).ids == ids.tolist() == again.encode_bare_ids([text])[0]
    long = "the winter was long " * 20_000
    assert again.encode(long).ids == again.encode(long[: len(long) // 2]).ids * 2
    assert again.framing == Framing()
    with pytest.raises(DataError, match=r"\[CLS\].*tokenizer train"):
        again.special_id("cls")
    loaded = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert loaded(text)["input_ids"] == ids.tolist()


def test_characters_alone() -> None:
    config = TokenizerConfig(vocab_size=80, algorithm="character")
    tokenizer, training = train_on_counts(counted("abba ab\n" * 5), config)
    assert tokenizer.tokens_of(range(5, tokenizer.vocab_size)) == ["a", "b", "##a", "##b"]
    assert tokenizer.encode("abba").tokens[1:-1] == ["a", "##b", "##b", "##a"]
    assert training["pieces_per_word"] == 3


@pytest.mark.parametrize("algorithm", ["wordpiece", "bpe", "word"])
def test_special_tokens_come_first_and_the_size_is_kept(algorithm: str) -> None:
    size = 70 if algorithm != "word" else 20
    config = TokenizerConfig(vocab_size=size, algorithm=algorithm)  # type: ignore[arg-type]
    tokenizer, training = train_on_counts(counted(), config)
    assert tokenizer.tokens_of(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.vocab_size == training["vocab_size"] == size
    assert len(tokenizer.vocab) == size


def test_every_known_word_is_cut() -> None:
    tokenizer, training = train_on_counts(counted(), TokenizerConfig(vocab_size=60))
    ids, _ = tokenizer.encode_sentence_ids([TEXT, "gnihtyreve tnereffid"])
    assert tokenizer.unk_id not in ids
    assert training["unknown_share"] == 0
    assert training["pieces_per_word"] > 1


def test_a_small_corpus_gives_what_it_has() -> None:
    tokenizer, training = train_on_counts(counted("a b ab ab"), TokenizerConfig(vocab_size=100))
    assert training["vocab_size"] == tokenizer.vocab_size == 5 + 2 + 2 + 1


def test_whole_words_only() -> None:
    tokenizer, training = train_on_counts(
        counted(), TokenizerConfig(vocab_size=8, algorithm="word")
    )
    assert tokenizer.tokens_of(range(5, 8)) == ["the", ",", "."]
    assert 0 < training["unknown_share"] < 1
    assert tokenizer.encode("the winter").tokens == ["[CLS]", "the", "[UNK]", "[SEP]"]


def test_vocabulary_smaller_than_the_alphabet() -> None:
    with pytest.raises(ConfigError, match=r"vocab_size.*20.*alphabet.* \d+"):
        train_on_counts(counted(), TokenizerConfig(vocab_size=20))
    tokenizer, training = train_on_counts(
        counted(), TokenizerConfig(vocab_size=20, character_coverage=0.5)
    )
    assert training["alphabet"] == 6  # which make half of all characters
    assert tokenizer.vocab_size <= 20
    assert training["characters_dropped"] > 0
    assert training["unknown_share"] > 0


@pytest.mark.parametrize("text", ["\x00\x01\ufffd", "\ud800\udc00 \ud800", "x" * 500])
def test_text_without_words(text: str) -> None:
    with pytest.raises(DataError, match=r"no words.*1 documents") as caught:
        train_on_counts(counted(text), TokenizerConfig())
    assert ("--algorithm byte-bpe" in str(caught.value)) == text.startswith("x")


def test_training_from_files_for_any_number_of_workers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "b.txt").write_text("Caf\u00e9 au lait. " * 9, encoding="utf-8")
    prints = []
    for workers in (1, 2):
        config = TokenizerConfig(vocab_size=80, workers=workers)
        tokenizer, training = train_tokenizer([str(tmp_path)], CorpusConfig(), config)
        assert training["documents"] == 4
        prints.append(tokenizer.fingerprint)
    assert prints[0] == prints[1]


def test_alphabet_by_coverage_and_by_number() -> None:
    counts = {"aab": 100, "b": 10, ".": 50, "z": 1, "y": 1}
    alphabet = choose_alphabet(counts, coverage=0.99)
    assert alphabet.entries == [".", "a", "b", "##a", "##b"]
    assert alphabet.dropped == ["y", "z"]
    assert alphabet.covers("ba")
    assert not alphabet.covers("bay")
    assert choose_alphabet(counts, 1.0).dropped == []


def test_pruning_drops_what_the_cut_never_uses() -> None:
    alphabet = [mark + c for mark in ("", "##") for c in "abc"]
    pruner = Pruner(alphabet, ["##bc", "ab", "abc"], ["abc", "ab", "a"], [9, 4, 1])
    assert pruner.uses["abc"] == 9
    assert pruner.losses()["##bc"] == 0
    assert pruner.shrink(2) == ["ab", "abc"]
    assert pruner.shrink(1) == ["abc"]
    assert pruner.uses["##b"] == 4
