"""Check the cost of an untrusted tokenizer when it is loaded.

A `tokenizer.json` is a program: its normalizers and decoders may replace a character by many, its
templates may repeat a text, its regular expressions may try every way to match, and its ids
determine the size of tables. `check_vocabulary`, `check_rules` and `check_decoder` bound what it
allocates before anything is allocated. `check_time` lets it tokenize and decode a text that is hard
for most bad expressions. `guarded` turns each failure on a text into an error.
"""

from __future__ import annotations

import base64
import functools
import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import tokenizers

from bertwright.errors import DataError

Function = TypeVar("Function", bound=Callable[..., Any])
MAX_HOLES = 1024
"""The most ids without a token, unless there are more tokens than this."""
MAX_GROWTH = 64
"""The most characters that rules may make of one character. SentencePiece's rules, which are those
of NFKC, make 18.
"""
MAX_ADDED = 16
"""The most special tokens that may be added to a text."""
MAX_CHARACTERS = 1024
"""The most characters of the unknown token, of a prefix, and of a word that is matched, which takes
cubic time.
"""
MAX_WRITTEN = 4096
"""The most characters that the decoder may write for a token."""
MAX_DECODERS = 64
"""The most rules of a decoder, because generation applies all of them to the whole text after each
token.
"""
PROBE = "".join(40 * character + "!\n" for character in string.ascii_letters + "0 .-_\u00e9\u4e2d")
SECONDS = 1.0
"""The time limit for the probe; BERT's own rules take a thousandth of it."""


def check_vocabulary(vocab: Mapping[str, int]) -> None:
    """Raise DataError if ids are far larger than the number of tokens, because tables have a row
    for every id.
    """
    size, count = max(vocab.values(), default=-1) + 1, len(vocab)
    if size > count + max(count, MAX_HOLES):
        raise DataError(
            f"the vocabulary of {count:,} tokens has an id of {size - 1:,}; expected ids from 0 "
            "to about the number of tokens: the file is damaged, or is not a vocabulary"
        )


def check_rules(description: Mapping[str, Any]) -> None:
    """Check how far the rules of a `tokenizer.json` may expand a text.

    Raises:
        DataError: the rules may make too many characters of one, repeat a text, or take too long
            for a word.
    """
    _check_templates(description["post_processor"])
    steps = [*_steps(description["normalizer"], "normalizers")]
    steps += _steps(description["pre_tokenizer"], "pretokenizers")
    grown = 1
    for step in steps:
        grown *= _growth(step)
    if grown > MAX_GROWTH:
        raise DataError(
            f"the rules of the tokenizer may make {grown:,} characters of one; at most "
            f"{MAX_GROWTH} are allowed: remove normalizers from tokenizer.json"
        )
    model = description["model"]
    names = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    sizes = {name: len(model.get(name) or "") for name in names}
    for name, size in [*sizes.items(), ("", model.get("max_input_chars_per_word") or 0)]:
        if size > MAX_CHARACTERS:
            raise DataError(
                f"{name or 'max_input_chars_per_word'} of the tokenizer has {size:,} characters; "
                f"at most {MAX_CHARACTERS:,} are allowed"
            )


def check_decoder(description: Mapping[str, Any], vocab: Iterable[str]) -> None:
    """Check how much text the decoder of a `tokenizer.json` writes for a token.

    Raises:
        DataError: it writes too much, or has too many rules.
    """
    steps = list(_steps(description["decoder"], "decoders"))
    if len(steps) > MAX_DECODERS:
        raise DataError(
            f"the decoder of the tokenizer has {len(steps):,} rules; at most {MAX_DECODERS} are "
            "allowed: remove some from tokenizer.json"
        )
    grown = 1
    for step in steps:
        grown *= most_written(step)
    if grown > MAX_GROWTH:
        raise DataError(
            f"the decoder of the tokenizer may write {grown:,} characters for one; at most "
            f"{MAX_GROWTH} are allowed: remove rules of the decoder from tokenizer.json"
        )
    longest = max(map(len, vocab), default=0)
    if longest * grown > MAX_WRITTEN:
        raise DataError(
            f"the tokenizer has a token of {longest:,} characters, for which its decoder may write "
            f"{longest * grown:,}; at most {MAX_WRITTEN:,} are allowed: remove the token"
        )


def _check_templates(rule: Any) -> None:
    """Raise DataError if a template contains a text more than once."""
    for step in _steps(rule, "processors"):
        for form in ("single", "pair") if step["type"] == "TemplateProcessing" else ():
            names = [part["Sequence"]["id"] for part in step[form] if "Sequence" in part]
            if len(names) > len(set(names)):
                raise DataError(
                    f"the post-processor of the tokenizer has a text {len(names):,} times in its "
                    f"template {form}; expected each text once: mend it in tokenizer.json"
                )


def most_written(step: dict[str, Any]) -> int:
    """Return the most characters that a rule of a decoder writes for one character.

    An expression may match before and after a character that is a token of its own; so may an empty
    string.
    """
    kind = step["type"]
    if kind == "Replace":
        size, string = len(step["content"]), step["pattern"].get("String")
        return -(-size // len(string)) or 1 if string else 1 + 2 * size
    if kind == "WordPiece":  # a blank before a word
        return 2
    if kind == "BPEDecoder":
        return 1 if step["suffix"] else 3
    if kind == "CTC":
        return 1 if step["word_delimiter_token"] else 3
    return 1


def _steps(rule: Any, parts: str) -> Iterator[dict[str, Any]]:
    """Yield the rules of a sequence, one after the other."""
    if rule is not None and rule["type"] == "Sequence":
        for each in rule[parts]:
            yield from _steps(each, parts)
    elif rule is not None:
        yield rule


def _growth(step: dict[str, Any]) -> int:
    """Return the most characters that a rule makes of one character."""
    kind = step["type"]
    if kind == "ByteLevel":
        return 4
    if kind == "Metaspace":  # adds a mark before each part, where the next rule may split
        return 2
    if kind == "Prepend":
        return 1 + len(step["prepend"])
    if kind == "Replace":
        size, pattern = len(step["content"]), step["pattern"]
        if "String" in pattern:
            return -(-size // len(pattern["String"])) or 1 if pattern["String"] else 1 + size
        return 1 + size  # an expression may match between any two characters
    if kind == "Precompiled":  # the size of a trie, the trie, then the replacements
        content = base64.b64decode(step["precompiled_charsmap"] or "")
        replacements = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
        return max(len(each.decode(errors="replace")) for each in replacements) or 1
    return 1


def check_decoding_time(description: Mapping[str, Any], backend: tokenizers.Tokenizer) -> None:
    """Decode the text of `check_time`, both as one token and with a token for each character.

    This is only done if the decoder has regular expressions, because its other rules take linear
    time.

    Raises:
        DataError: it fails, or takes more than `SECONDS`.
    """
    steps = _steps(description["decoder"], "decoders")
    if not any("Regex" in step.get("pattern", {}) for step in steps):
        return
    vocab = {token: index for index, token in enumerate(dict.fromkeys([PROBE, *PROBE]))}
    probe = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token=PROBE))
    probe.decoder = backend.decoder
    ids = [[0], [vocab[character] for character in PROBE]]
    # `decode_batch` lets other threads run, unlike `decode`
    check_time(lambda _: probe.decode_batch(ids), "decode")


def check_time(tokenize: Callable[[list[str]], object], verb: str = "tokenize") -> None:
    """Tokenize a text of runs of letters, each followed by something else.

    `tokenize` must let other threads run meanwhile; `verb` is what it does, for the message.

    Raises:
        DataError: it fails, or takes more than `SECONDS`.
    """
    failures = list[BaseException]()

    def probe() -> None:
        try:
            tokenize([PROBE])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if failures or thread.is_alive():
        what = "fails on" if failures else f"does not {verb} within {SECONDS:g} second"
        raise DataError(
            f"the tokenizer {what} a text of {len(PROBE)} ordinary characters: mend the regular "
            "expressions in tokenizer.json"
        )


def guarded(function: Function) -> Function:
    """Turn any failure of `tokenizers` into DataError; its panics are not an `Exception`.

    The message contains nothing of the failure, which may hold the text.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (DataError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise DataError(
                f"the tokenizer failed on a text ({type(error).__name__}); its tokenizer.json has "
                "a regular expression or a rule that does not work for every text: mend it"
            ) from error

    return call  # type: ignore[return-value]
