"""Regular expressions of a tokenizer.json in a process of their own, with a deadline."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.text.tokenizer import apart
from bertwright.text.tokenizer.apart import TooSlow, brings_expressions
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer, make_tokenizer

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "-"]
SLOW = "(?:(?:a+)+)+b"
"""Takes no time on the texts that are tried at loading, and days on a million times "a"."""


def with_expression(folder: Path, expression: str) -> Path:
    """A folder whose tokenizer.json splits by an expression."""
    make_tokenizer(VOCAB).save(folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated"}
    content["pre_tokenizer"] = {**split, "invert": False}
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Tokenizer]:
    tokenizer = load_tokenizer(with_expression(tmp_path, SLOW))
    tokenizer.limit_time()
    yield tokenizer
    tokenizer.interrupt(for_good=True)


def test_texts_are_read_as_without_a_limit(limited: Tokenizer, tmp_path: Path) -> None:
    plain = load_tokenizer(tmp_path)
    texts = ["aab-", "b [MASK] a", "", "é\ud800"]
    assert limited.is_apart
    assert not plain.is_apart
    assert limited.encode_bare_ids(texts) == plain.encode_bare_ids(texts)
    for text in texts:
        assert limited.encode(text, "b") == plain.encode(text, "b")
    ids = plain.encode(texts[0]).ids
    assert limited.decode(ids) == plain.decode(ids)
    assert limited.shown(ids) == plain.shown(ids)


def test_a_slow_text_is_an_error_and_the_next_is_read(
    limited: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited.encode("a")  # the process has started
    monkeypatch.setattr(apart, "SECONDS", 0.2)
    for tokenize in (limited.encode, lambda text: limited.encode_bare_ids([text])):
        with pytest.raises(TooSlow, match=r"tokenizer\.json") as error:
            tokenize("a" * 20_000 + " b")
        assert "aa" not in str(error.value)
    monkeypatch.setattr(apart, "SECONDS", 60)
    assert limited.encode_bare_ids(["ab"]) == [[5, 8]]


def test_a_call_is_interrupted(limited: Tokenizer) -> None:
    limited.encode("a")
    errors = list[DataError]()

    def encode() -> None:
        try:
            limited.encode("a" * 100_000_000 + " b")  # may take 500 seconds
        except DataError as error:
            errors.append(error)

    thread = threading.Thread(target=encode)
    thread.start()
    while not errors:
        time.sleep(0.05)
        limited.interrupt()
    thread.join()
    assert limited.encode_bare_ids(["ab"]) == [[5, 8]]
    limited.interrupt(for_good=True)
    with pytest.raises(TooSlow):
        limited.encode("a")


def test_own_expressions_alone_run_apart(tmp_path: Path) -> None:
    bert = make_tokenizer(VOCAB)
    bert.limit_time()
    assert not bert.is_apart
    bert.save(tmp_path)
    description = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    for folder, expected in (("normalizer", True), ("decoder", True), ("nothing", False)):
        rule = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}
        steps = {"type": "Sequence", "normalizers": [rule], "decoders": [rule]}
        found = description | {folder: steps}
        assert brings_expressions(found) == expected
