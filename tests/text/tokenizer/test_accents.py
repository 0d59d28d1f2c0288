"""Accents: when `--strip-accents auto` keeps them, and that transformers reads the rule."""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import BertTokenizer

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.config.values import from_dict
from bertwright.text.tokenizer.accents import loses_marks, script_of_marks, stays_decomposed
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.text.tokenizer.train import Figures, train_tokenizer
from bertwright.text.tokenizer.word_counts import count_words

ENGLISH = "the old mill stands by the river and the miller walks to the town every day\n" * 30
HINDI = "मैं घर में हूँ और वह घर में है।\n" * 5
JAPANESE = "これはほんです。ガムがあります。\n" * 5
RUSSIAN = "мой брат ещё спит, а твой уже встал\n" * 5
THAI = "ที่ นี่ มี น้ำ ดี\n" * 5
VIETNAMESE = "mả má ma của được\n" * 5
GERMAN = "das ist schon schön, und wir hören die Töne der Glocken von fern\n" * 5
GERMAN_APART = "wir hören die Töne der Glocken\n" * 5
KOREAN = "나는 집에 갑니다 그리고 책을 읽어요\n" * 5
TAMIL = "போ வா தொடு\n" * 5
RARE_KOREAN = ENGLISH + "집 책\n"
RARE = ENGLISH + "a naïve café\n"


def trained(tmp_path: Path, text: str, **keys: object) -> tuple[Tokenizer, Figures]:
    path = tmp_path / "corpus.txt"
    path.write_text(text, encoding="utf-8")
    config = from_dict(TokenizerConfig, {"vocab_size": 300, "workers": 1, **keys})
    return train_tokenizer([str(path)], CorpusConfig(), config)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (HINDI, True),
        (JAPANESE, True),
        (RUSSIAN, True),
        (THAI, True),
        (VIETNAMESE, True),
        (GERMAN, True),  # schon and schön
        (GERMAN_APART, False),  # nothing becomes one
        (RARE, False),  # under 1 % of the words
        (ENGLISH, False),
        (KOREAN, True),  # loses nothing, but is taken apart
        (TAMIL, True),
        (RARE_KOREAN, False),
    ],
)
def test_auto_keeps_accents_where_words_would_be_lost(
    tmp_path: Path, text: str, kept: bool
) -> None:
    tokenizer, training = trained(tmp_path, text)
    assert training["accents"] == ("kept" if kept else "stripped")
    assert tokenizer.strips_accents is not kept
    named, _ = trained(tmp_path, text, strip_accents=not kept)
    assert named.vocab == tokenizer.vocab
    other, figures = trained(tmp_path, text, strip_accents=kept)
    assert (other.vocab == tokenizer.vocab) is (text == ENGLISH)
    assert figures["accents"] == ("stripped" if kept else "kept")


def test_counts_with_accents_are_those_of_text_counted_so() -> None:
    text = HINDI + JAPANESE + RUSSIAN + VIETNAMESE + KOREAN + RARE + "a ≠ b, " + "é" * 101 + " ok"
    rules = BertRules()
    stripped = count_words([[text]], rules, workers=1)
    kept = count_words([[text]], replace(rules, strip_accents=False), workers=1)
    assert stripped.counts != kept.counts
    assert stripped.with_accents(rules) == kept


def test_what_is_found(tmp_path: Path) -> None:
    _, training = trained(tmp_path, "schon schön schon Töne und noch vier\n")
    assert training["accented_words_share"] == round(2 / 7, 6)
    assert training["accented_words"] == ["schön -> schon", "töne -> tone"]
    assert training["merged_words"] == ["schon schön"]
    _, cased = trained(tmp_path, GERMAN, lowercase=False)
    assert (cased["accents"], "merged_words" in cased) == ("kept", False)


def test_marks_of_a_word() -> None:
    assert [loses_marks(word) for word in ("और", "मैं", "집", "naïve", "plain")] == [
        False,
        True,
        False,
        True,
        False,
    ]
    for word, script in (("й", "Cyrillic"), ("が", "kana"), ("mả", "Vietnamese"), ("é", None)):
        assert script_of_marks(word) == script


def test_characters_that_stay_decomposed() -> None:
    words = ("집", "போ", "가é", "がй", "naïve", "가", "plain")
    expected = [True, True, True, False, False, True, False]
    assert [stays_decomposed(word) for word in words] == expected
    # every character that NFD takes apart, that loses no mark, and that NFC composes again
    for character in map(chr, range(0x80, sys.maxunicode + 1)):
        parts = unicodedata.normalize("NFD", character)
        if len(parts) > 1 and not loses_marks(character):
            composed = unicodedata.normalize("NFC", parts) == character
            assert stays_decomposed(character) is composed


def test_korean_is_decoded_as_it_was_written(tmp_path: Path) -> None:
    tokenizer, training = trained(tmp_path, KOREAN)
    text = KOREAN.splitlines()[0]
    for ids in (tokenizer.encode(text).ids, tokenizer.encode_bare_ids([text])[0]):
        assert tokenizer.decode(ids) == text
    assert training["accented_words_share"] == 1.0
    word, parts = training["accented_words"][0].split(" -> ")
    assert parts.split() == list(unicodedata.normalize("NFD", word))


@pytest.mark.parametrize("strip", [None, False, True])
@pytest.mark.parametrize("text", [HINDI, JAPANESE, RUSSIAN, THAI, VIETNAMESE, GERMAN, KOREAN])
def test_transformers_reads_the_rule(tmp_path: Path, text: str, strip: bool | None) -> None:
    keys = {} if strip is None else {"strip_accents": strip}
    tokenizer, _ = trained(tmp_path, text, **keys)
    folder = tmp_path / "tokenizer"
    tokenizer.save(folder)
    theirs = BertTokenizer.from_pretrained(folder)
    for line in (*text.splitlines()[:1], "Café é", "मैं MÁ Й が"):
        assert theirs(line)["input_ids"] == load_tokenizer(folder).encode(line).ids
    (folder / "tokenizer.json").unlink()  # by vocab.txt and tokenizer_config.json alone
    again = load_tokenizer(folder)
    assert again.fingerprint == tokenizer.fingerprint
    if strip is None:
        assert again.rules.strip_accents == tokenizer.rules.strip_accents
