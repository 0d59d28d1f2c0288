"""Tokenizers of strangers: what would take all memory or all time is refused when it is loaded."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from bertwright.errors import DataError
from bertwright.text.tokenizer import safety
from bertwright.text.tokenizer.files import SPECIAL_TOKENS
from bertwright.text.tokenizer.safety import check_rules, check_time, most_written
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer, make_tokenizer
from tests.raising import raises
from tests.text.tokenizer.saved import saved_backend

VOCAB = [*SPECIAL_TOKENS.values(), *"abcde", "##a"]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
MARKS = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}
Load = Callable[..., Tokenizer]


def split(expression: str) -> dict[str, Any]:
    """A rule that splits at a regular expression."""
    pattern = {"Regex": expression}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    """A rule that replaces."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def times(number: int, rule: dict[str, Any], name: str = "normalizers") -> dict[str, Any]:
    """A rule that runs so often."""
    return {"type": "Sequence", name: [rule] * number}


@pytest.fixture
def load_with(tmp_path: Path) -> Load:
    """A tokenizer whose `tokenizer.json` was changed."""
    make_tokenizer(VOCAB).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = json.loads(path.read_text("utf-8"))

    def load(**changes: Any) -> Tokenizer:
        path.write_text(json.dumps({**whole, **changes}), "utf-8")
        return load_tokenizer(tmp_path)

    load.model = whole["model"]  # type: ignore[attr-defined]
    load.added = whole["post_processor"]  # type: ignore[attr-defined]
    return load


def test_an_id_of_four_billion(load_with: Load) -> None:
    model = load_with.model  # type: ignore[attr-defined]
    vocab = {**model["vocab"], "x": 4_000_000_000}
    with pytest.raises(DataError, match=r"12 tokens.*4,000,000,000"):
        load_with(model={**model, "vocab": vocab})
    assert load_with(model={**model, "vocab": {**vocab, "x": 500}}).vocab_size == 501


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": times(9, replace({"String": "a"}, "aaaa"))},
        {"normalizer": times(9, replace({"Regex": "(?=a)"}, "b"))},
        {"normalizer": times(9, {"type": "Prepend", "prepend": "aa"})},
        {"normalizer": times(2, times(3, replace({"String": "ab"}, "abababab")))},
        {"pre_tokenizer": times(9, BYTES, "pretokenizers")},
        {"pre_tokenizer": times(9, MARKS, "pretokenizers")},
    ],
    ids=["strings", "expressions", "prefixes", "nested", "bytes", "marks"],
)
def test_rules_that_make_much_of_a_character(load_with: Load, changes: dict[str, Any]) -> None:
    raises(DataError, r"[\d,]+ characters of one", load_with, **changes)


def test_a_map_of_sentencepiece_with_a_long_entry() -> None:
    model = {"type": "Unigram"}
    for longest, is_bad in ((18, False), (4000, True)):
        content = (8).to_bytes(4, "little") + bytes(8) + b"x\0" + b"y" * longest + b"\0"
        rule = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}
        rules = {"normalizer": rule, "pre_tokenizer": None, "post_processor": None, "model": model}
        if is_bad:
            raises(DataError, "4,000 characters of one", check_rules, rules)
        else:
            check_rules(rules)


def test_parts_that_are_too_long(load_with: Load) -> None:
    model, added = load_with.model, load_with.added  # type: ignore[attr-defined]
    for key, value in (
        ("max_input_chars_per_word", 10**9),
        ("continuing_subword_prefix", "#" * 10**5),
    ):
        raises(DataError, key, load_with, model={**model, key: value})
    with pytest.raises(DataError, match="2,000 special tokens"):
        load_with(post_processor={**added, "single": added["single"][:1] * 1998 + added["single"]})


DECODERS: dict[str, dict[str, Any]] = {
    "strings": times(9, replace({"String": "e"}, "eeeee"), "decoders"),
    "one": replace({"String": "e"}, "e" * 65),
    "expressions": times(9, replace({"Regex": "e"}, "ee"), "decoders"),
    "empty": times(4, replace({"String": ""}, "b"), "decoders"),
    "nested": times(3, times(2, replace({"String": "ab"}, "abababab"), "decoders"), "decoders"),
    "words": times(9, {"type": "WordPiece", "prefix": "##", "cleanup": False}, "decoders"),
    "suffixes": times(9, {"type": "BPEDecoder", "suffix": ""}, "decoders"),
    "delimiters": times(
        9,
        {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True},
        "decoders",
    ),
}


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=list(DECODERS))
def test_decoders_that_write_much_for_a_character(load_with: Load, decoder: dict[str, Any]) -> None:
    raises(DataError, r"decoder .*[\d,]+ characters for one", load_with, decoder=decoder)


@pytest.mark.parametrize(
    "decoder",
    [
        BYTES,
        replace({"String": "e"}, "e" * 7),
        replace({"Regex": "e"}, "ee"),
        replace({"String": ""}, "b"),
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "BPEDecoder", "suffix": ""},
        {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True},
        {"type": "Metaspace", "replacement": "e", "prepend_scheme": "always", "split": True},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": "e", "start": 1, "stop": 0},
    ],
    ids=lambda rule: str(rule["type"]),
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_decoder_writes_more_than_is_counted(decoder: dict[str, Any], number: int) -> None:
    backend = saved_backend(make_tokenizer(VOCAB))
    whole = json.loads(backend.to_str())
    whole["decoder"] = times(number, decoder, "decoders")
    made = tokenizers.Tokenizer.from_str(json.dumps(whole))
    most = most_written(decoder) ** number
    for tokens in (["e"], ["a", "e", "e"], ["eee", "##e"], ["<0x61>", "e"]):
        assert len(made.decoder.decode(tokens)) <= most * len("".join(tokens))


def test_a_decoder_of_many_rules(load_with: Load) -> None:
    raises(DataError, "1,000 rules", load_with, decoder=times(1000, {"type": "Fuse"}, "decoders"))


def test_a_token_for_which_much_is_written(load_with: Load) -> None:
    model = load_with.model  # type: ignore[attr-defined]
    for size in (4000, 5000):
        vocab = {**model["vocab"], "x" * size: 11}
        given = {"model": {**model, "vocab": vocab}, "decoder": {"type": "Fuse"}}
        if size > 4096:
            raises(DataError, "5,000 characters", load_with, **given)
        else:
            assert load_with(**given).vocab_size == 12


@pytest.mark.parametrize("expression", ["(a+)+$", r"([a-z]+\s?)+$"])
def test_expressions_of_a_decoder_that_try_every_way(load_with: Load, expression: str) -> None:
    with pytest.raises(DataError, match=r"regular expressions.*tokenizer\.json"):
        load_with(decoder=replace({"Regex": expression}, "b"))


def test_a_decoder_that_fails_on_a_text(load_with: Load) -> None:
    strip = {"type": "Strip", "content": "a", "start": 0, "stop": 5}
    tokenizer = load_with(decoder=strip)
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        tokenizer.decode([tokenizer.vocab["a"]])


def test_templates_that_repeat_a_text(load_with: Load) -> None:
    added = load_with.added  # type: ignore[attr-defined]
    text, pair = added["single"], added["pair"]
    for template in ({"single": text * 2}, {"pair": pair + [text[1]] * 3}):
        twice = {**added, **template}
        for rule in (twice, {"type": "Sequence", "processors": [twice]}):
            raises(DataError, "each text once", load_with, post_processor=rule)
    many = {**added, "pair": pair + [pair[0]] * 20}
    raises(DataError, "23 special tokens", load_with, post_processor=many)


def test_decoders_of_published_models_are_read(load_with: Load) -> None:
    sentencepiece = [
        replace({"String": "\u2581"}, " "),
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    for decoder in ({"type": "Sequence", "decoders": sentencepiece}, BYTES, None):
        assert "a" in load_with(decoder=decoder).decode([5, 6])


def test_rules_of_published_models_are_read(load_with: Load) -> None:
    blanks = [{"type": "NFKC"}, replace({"Regex": " {2,}"}, " "), replace({"String": "``"}, '"')]
    assert load_with(normalizer={"type": "Sequence", "normalizers": blanks}).encode("a  b").tokens
    assert load_with(pre_tokenizer=split(r"\w+|[^\w\s]+")).encode("a b").tokens


@pytest.mark.parametrize("expression", ["(a+)+$", r"([a-z]+\s?)+$", r"(\w+)*[0-9]$"])
def test_expressions_that_try_every_way(load_with: Load, expression: str) -> None:
    # it gives up or runs out of time, whichever comes first on this processor
    with pytest.raises(DataError, match=r"regular expressions.*tokenizer\.json"):
        load_with(pre_tokenizer=split(expression))


def test_a_tokenizer_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(safety, "SECONDS", 0.01)
    raises(DataError, "within", check_time, lambda texts: end.wait(60))
    end.set()


def test_a_panic_is_an_error_without_the_text(load_with: Load) -> None:
    tokenizer = load_with(pre_tokenizer=split("(ж+)+$"))
    text = "ж" * 40 + "a"
    for run in (
        lambda: tokenizer.encode(text),
        lambda: tokenizer.encode_sentence_ids([text]),
        lambda: tokenizer.encode_bare_ids(["a", text]),
    ):
        with pytest.raises(DataError) as caught:
            run()
        assert "ж" not in str(caught.value)
    assert tokenizer.encode("ж a").tokens
