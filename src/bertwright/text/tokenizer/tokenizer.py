"""Text -> ids and back: WordPiece as BERT runs it, over the `tokenizers` library.

Source: google-research/bert `tokenization.py`. A text is cleaned, split into words, and each word
into wordpieces: always the longest entry of the vocabulary that starts the rest of the word, those
after the first marked with "##"; a word that cannot be split so, or is too long, is one [UNK].

Two ways lead in. `encode` is for texts that a model reads: [CLS] and [SEP] are added, offsets are
kept, and special tokens written in the text ("[MASK]") are what they say. `encode_sentence_ids` is
for corpora: bare ids, and "[MASK]" in a text is five ordinary characters and their brackets, so no
corpus can forge a special token. It remembers the ids of every blank-separated chunk, because
BERT's rules never look across a blank; most of a corpus is then one dictionary look-up a chunk.

The tokenizer of a converted file of word vectors or n-grams reads texts in the words of that file
instead (`file_words.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from bertwright.arrays import Bools, Int64s
from bertwright.errors import DataError
from bertwright.text.framing import Framing, ends_of
from bertwright.text.tokenizer.file_words import (
    FILE_KINDS,
    FILE_WORDS,
    UNKNOWN_ROW,
    FileKind,
    FileWords,
    between_blanks,
)
from bertwright.text.tokenizer.files import (
    SPECIAL_TOKENS,
    BertRules,
    huggingface_config,
    make_backend,
    make_file_words,
    read_folder,
    write_folder,
)
from bertwright.text.tokenizer.normalize import (
    drop_surrogates,
    is_plain,
    longest_match,
    split_parts,
)
from bertwright.text.tokenizer.safety import (
    MAX_ADDED,
    check_decoder,
    check_decoding_time,
    check_rules,
    check_time,
    check_vocabulary,
    guarded,
)

ROLES = ("pad", "unk", "cls", "sep", "mask")
"""Of special tokens, in the order of their ids in every vocabulary trained here."""
ENDS = ("bos", "eos")
"""Begin and end of a text, for language models; only where `tokenizer_config.json` names them."""

_REMEMBERED = 1 << 18  # chunks; about 60 MB
_LONGEST_REMEMBERED = 64  # characters
_LONG = 1 << 16  # characters
_Bare = tuple[list[int], list[tuple[int, int]], list[int | None]]
"""Ids, offsets and words of a text, without special tokens."""
_BESIDE_CJK = re.compile(" (?=[\u3001-\u9fff\uff01-\uff60])|(?<=[\u3001-\u9fff\uff01-\uff60]) ")


@dataclass(frozen=True)
class Encoding:
    """A text, or a pair, ready for a model: five lists of one length."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """Start and stop in characters of the text the token is from; (0, 0) for added tokens."""
    type_ids: list[int]
    """0 in the first text, 1 in the second."""
    word_ids: list[int | None]
    """The number of the word in its text; None for added tokens."""


class Tokenizer:
    """A vocabulary with its rules; immutable but for what it remembers."""

    def __init__(self, backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
        """Wrap a `tokenizers` tokenizer; `config` is its `tokenizer_config.json`.

        Raises:
            DataError: there is no token for unknown words, or the rules are not safe to run.
        """
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._config = dict(config)
        self.vocab: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        check_vocabulary(self.vocab)
        self._token_of = {index: token for token, index in self.vocab.items()}
        self.vocab_size = max(self.vocab.values()) + 1
        self.special: dict[str, int] = dict(self._find_special())
        """The id of each role that a special token has here: `unk` always; `pad`, `cls`, `sep`,
        `mask` in BERT's vocabularies; `bos`, `eos` in those of language models."""
        self.unk_id = self.special_id("unk")
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(
            {*self.special.values(), *(index for index, token in added.items() if token.special)}
        )
        self._description = json.loads(backend.to_str())
        check_rules(self._description)
        check_decoder(self._description, self.vocab)
        for is_pair, of in ((False, "text"), (True, "pair of texts")):
            if (added_tokens := backend.num_special_tokens_to_add(is_pair)) > MAX_ADDED:
                raise DataError(
                    f"the tokenizer adds {added_tokens:,} special tokens to each {of}; at most "
                    f"{MAX_ADDED} are allowed: mend the post-processor in tokenizer.json"
                )
        self._rules = self._find_rules()
        self.file_words = self._find_file_words()
        """What reads texts in the words of a file; None: the rules of `tokenizer.json` do."""
        self._memo: dict[str, bytes] | None = None
        if self.file_words is not None:
            self._memo = _FileWordMemo(self.file_words)
        elif self._rules is not None:
            self._memo = _Memo(self)
        self._corpus_backend: tokenizers.Tokenizer | None = None

    def special_id(self, role: str) -> int:
        """The id of a special token: `pad`, `unk`, `cls`, `sep` or `mask`.

        Raises:
            DataError: this vocabulary has none for the role.
        """
        if role not in self.special:
            raise DataError(
                f"the vocabulary of {len(self.vocab)} tokens has no "
                f"{SPECIAL_TOKENS[f'{role}_token']}; every vocabulary needs [UNK], BERT [PAD], "
                "[CLS], [SEP] and [MASK] too: use the tokenizer that the model was trained with, "
                "or train one: bertwright tokenizer train"
            )
        return self.special[role]

    @property
    def mask_id(self) -> int:
        """The id of [MASK]."""
        return self.special_id("mask")

    @cached_property
    def framing(self) -> Framing:
        """How the ids of a text become a sequence: with [CLS] and [SEP] where there are such."""
        ends = ends_of(self.special)
        if ends is None and self.file_words is not None and "bos" in self.special:
            return Framing((self.special["bos"],))  # an n-gram file without `</s>`
        return Framing() if ends is None else Framing(ends[:1], ends[1:])

    @cached_property
    def stated_begin(self) -> tuple[int, ...]:
        """The ids that transformers puts before a text: those of the post-processor."""
        found = self._backend.encode("a")
        marked = zip(found.ids, found.sequence_ids, strict=True)
        return tuple(id for id, text in takewhile(lambda each: each[1] is None, marked))

    @property
    def rules(self) -> BertRules:
        """How words are made and split. Raises DataError for a tokenizer that is not BERT's."""
        if self._rules is None:
            raise DataError(
                "this tokenizer is not a BERT WordPiece, or has added words: BERT's rules alone do "
                "not say how it splits"
            )
        return self._rules

    @property
    def strips_accents(self) -> bool:
        """Whether text loses accents and other marks, by BERT's rules."""
        return self._rules is not None and self._rules.strips

    @cached_property
    def ids_without_token(self) -> list[int]:
        """Ids below V that stand for nothing, as of a line that `vocab.txt` has twice: the last
        one counts."""
        return sorted(set(range(self.vocab_size)).difference(self._token_of))

    @property
    def is_continuation(self) -> Bools:
        """[V] Whether a token goes on with the word before it ("##ing")."""
        model = self._description["model"]
        marks = np.zeros(self.vocab_size, dtype=np.bool_)
        prefix = model.get("continuing_subword_prefix") or ""
        starts = ("\u0120", "\u2581")  # the word-begin marks of byte-level BPE and SentencePiece
        for token, index in self.vocab.items():
            if index in self.special_ids:
                continue
            if prefix:
                marks[index] = token.startswith(prefix) and len(token) > len(prefix)
            elif model["type"] in ("BPE", "Unigram"):
                marks[index] = not token.startswith(starts)
        return marks

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the vocabulary and all that decides how text is tokenized."""
        described: dict[str, Any] = {
            "vocab": sorted(self.vocab.items(), key=lambda item: item[1]),
            "specials": [self.special.get(role) for role in ROLES],
        }
        if ends := [self.special[role] for role in ENDS if role in self.special]:
            described["ends"] = ends
        if self.file_words is not None:
            described[FILE_WORDS] = self.file_words.kind
        elif self._rules is not None:
            described["rules"] = list(vars(self.rules).values())
        else:
            kept = ("normalizer", "pre_tokenizer", "model", "added_tokens")
            described["backend"] = {name: self._description[name] for name in kept}
        text = json.dumps(described, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def described(self) -> dict[str, Any]:
        """What the manifest of built data says of it."""
        return {
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "special": self.special,
            "special_ids": sorted(self.special_ids),
        }

    @guarded
    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Encode a text, or two, with the added tokens of the model."""
        texts = [drop_surrogates(part) for part in (text, pair) if part is not None]
        if self.file_words is not None:
            return self._framed([self._bare_file_words(text) for text in texts])
        if self._memo is not None and max(map(len, texts)) > _LONG:
            return self._framed([self._in_parts(text) for text in texts])
        if self._backend.num_special_tokens_to_add(False) != self.framing.special_tokens():
            # as for GPT-2, whose folder adds no token to a text, or the first alone
            bare = self._backend.encode_batch(texts, add_special_tokens=False)
            return self._framed([(each.ids, each.offsets, each.word_ids) for each in bare])
        if self._memo is None:  # rules of any cost: `encode` would let no other thread run
            (found,) = self._backend.encode_batch([texts[0] if pair is None else tuple(texts)])
        else:
            found = self._backend.encode(texts[0], None if pair is None else texts[1])
        return Encoding(found.ids, found.tokens, found.offsets, found.type_ids, found.word_ids)

    def _framed(self, bare: Sequence[_Bare]) -> Encoding:
        """Texts with the special tokens that `framing` adds."""
        lengths = [len(ids) for ids, _, _ in bare]
        framed = self.framing.one if len(bare) == 1 else self.framing.two
        ids = framed(*(ids for ids, _, _ in bare))
        offsets: list[tuple[int, int]] = [(0, 0)] * len(ids)
        words: list[int | None] = [None] * len(ids)
        for own, (_, spans, numbers) in zip(self.framing.inside(*lengths), bare, strict=True):
            offsets[own], words[own] = spans, numbers
        types = list(self.framing.segments(*lengths))
        return Encoding(ids, self.tokens_of(ids), offsets, types, words)

    def _bare_file_words(self, text: str) -> _Bare:
        """A text in the words of a file, each a token."""
        assert self.file_words is not None
        words = self.file_words.read(text)
        return [w.id for w in words], [(w.start, w.stop) for w in words], [*range(len(words))]

    def _in_parts(self, text: str) -> _Bare:
        """A huge text, split at blanks: `tokenizers` alone takes 200 bytes a byte."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        words: list[int | None] = []
        start = count = 0
        while start < len(text):
            stop = text.find(" ", start + _LONG // 4)
            stop = stop if stop >= 0 else len(text)
            found = self._backend.encode(text[start:stop], add_special_tokens=False)
            ids += found.ids
            offsets += [(a + start, b + start) for a, b in found.offsets]
            numbers = [None if word is None else word + count for word in found.word_ids]
            words += numbers
            count = max((n + 1 for n in numbers if n is not None), default=count)
            start = stop
        return ids, offsets, words

    @guarded
    def encode_sentence_ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], Int64s]:
        """Ids of many texts end to end, without added tokens, and the number of each text's ids.

        Special tokens written in a text are tokenized like other text.
        """
        lengths = np.empty(len(texts), dtype=np.int64)
        if self._memo is None:
            encodings = self._raw().encode_batch_fast(
                [drop_surrogates(text) for text in texts], add_special_tokens=False
            )
            ids = [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]
            lengths[:] = [len(part) for part in ids]
            return np.concatenate([*ids, np.empty(0, dtype=np.uint32)]), lengths
        look_up = self._memo.__getitem__
        joined = [b"".join(map(look_up, text.split(" "))) for text in texts]
        lengths[:] = [len(part) >> 2 for part in joined]
        return np.frombuffer(b"".join(joined), dtype=np.uint32), lengths

    def encode_bare_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids that `encode` gives each text, without added tokens: many texts, quickly."""
        flat, lengths = self.encode_sentence_ids(texts)
        ids, ends = flat.tolist(), np.cumsum(lengths).tolist()
        found = [ids[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]
        if self.file_words is not None:
            return found
        specials = self.tokens_of(sorted(self.special_ids))
        for number, text in enumerate(texts):
            if any(special in text for special in specials):
                found[number] = self._bare_ids(drop_surrogates(text))
        return found

    @guarded
    def _bare_ids(self, text: str) -> list[int]:
        """The ids of a text in which special tokens are what they say, without added tokens."""
        if self._memo is not None and len(text) > _LONG:
            return self._in_parts(text)[0]
        # `encode` would let no other thread run
        (found,) = self._backend.encode_batch([text], add_special_tokens=False)
        return list(found.ids)

    @guarded
    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text that `ids` stand for, as near as the vocabulary keeps it."""
        return str(self._backend.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def readable(self, ids: Iterable[int]) -> str:
        """`decode` with special tokens, and without spaces between Chinese characters."""
        return _BESIDE_CJK.sub("", self.decode(ids, skip_special_tokens=False))

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """The token of every id; [UNK] of one that has none."""
        unknown = self._token_of[self.unk_id]
        return [self._token_of.get(int(index), unknown) for index in ids]

    @guarded
    def normalized(self, text: str) -> str:
        """What the rules make of `text` before it is split into words."""
        normalizer = self._backend.normalizer
        text = drop_surrogates(text)
        return text if normalizer is None else str(normalizer.normalize_str(text)).strip()

    def save(self, folder: str | Path) -> None:
        """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json` into `folder`."""
        write_folder(Path(folder), self._backend, self._config)

    def extended(self, tokens: Sequence[str]) -> Tokenizer:
        """The same with more entries at the end: no id and no rule of ours changes.

        Raises:
            DataError: a token is there already, or this is no WordPiece.
        """
        if self._description["model"]["type"] != "WordPiece":
            kind = self._description["model"]["type"]
            raise DataError(f"this tokenizer is a {kind}; only a WordPiece can be extended")
        double = [token for token in tokens if token in self.vocab]
        if double or len(set(tokens)) < len(tokens):
            raise DataError(f"{double[:1] or 'a token'} would be in the vocabulary twice")
        description = json.loads(self._backend.to_str())
        # also what was added after it (special tokens): else `tokenizers` renumbers them
        description["model"]["vocab"] = dict(self.vocab)
        for index, token in enumerate(tokens, self.vocab_size):
            description["model"]["vocab"][token] = index
        return _from_text(json.dumps(description, ensure_ascii=False), self._config)

    def __reduce__(self) -> tuple[Any, ...]:
        """Worker processes get the rules, not what was remembered."""
        return _from_text, (self._backend.to_str(), self._config)

    def _find_special(self) -> Iterator[tuple[str, int]]:
        """Roles and ids, by the names that the configuration gives, or else BERT's."""
        for role in (*ROLES, *ENDS):
            named = self._config.get(f"{role}_token") or SPECIAL_TOKENS.get(f"{role}_token")
            token = named["content"] if isinstance(named, dict) else named
            if token in self.vocab:
                yield role, self.vocab[token]

    def _find_rules(self) -> BertRules | None:
        """None unless every rule is BERT's own, so that parts of a text may be tokenized alone."""
        normalizer, model = self._description["normalizer"] or {}, self._description["model"]
        if (
            normalizer.get("type") != "BertNormalizer"
            or not normalizer["clean_text"]
            or (self._description["pre_tokenizer"] or {}).get("type") != "BertPreTokenizer"
            or model["type"] != "WordPiece"
            or model["continuing_subword_prefix"] != "##"
            or not all(token["special"] for token in self._description["added_tokens"])
        ):
            return None
        return BertRules(
            lowercase=normalizer["lowercase"],
            strip_accents=normalizer["strip_accents"],
            chinese_characters=normalizer["handle_chinese_chars"],
            max_word_characters=model["max_input_chars_per_word"],
        )

    def _find_file_words(self) -> FileWords | None:
        """What the configuration says of the words of a file."""
        kind = self._config.get(FILE_WORDS)
        if kind is None:
            return None
        if kind not in FILE_KINDS:
            raise DataError(f"{FILE_WORDS!r} is {kind!r}; expected one of {', '.join(FILE_KINDS)}")
        return FileWords(self.vocab, self.unk_id, kind)

    @property
    def words_of_file(self) -> frozenset[int]:
        """Ids of special tokens that are words of the file itself: its row of unknown words."""
        own = self.file_words is not None and self._config.get(UNKNOWN_ROW) != "mean"
        return frozenset({self.unk_id} if own else ())

    def _raw(self) -> tokenizers.Tokenizer:
        """A copy of the backend that tokenizes special tokens in a text like other text."""
        if self._corpus_backend is None:
            self._corpus_backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
            self._corpus_backend.encode_special_tokens = True
        return self._corpus_backend


class _Memo(dict[str, bytes]):
    """Chunk -> its ids, as the bytes of uint32; made when first looked up, forgotten when full."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._raw = tokenizer._raw
        self._vocab = tokenizer.vocab
        self._unknown = [tokenizer.vocab[tokenizer._description["model"]["unk_token"]]]
        self._rules = tokenizer.rules

    def __missing__(self, chunk: str) -> bytes:
        parts = split_parts(chunk, self._rules.chinese_characters)
        if parts == [chunk]:
            found = np.array(self._ids_of(chunk), dtype=np.uint32).tobytes()
        else:
            found = b"".join([self[part] for part in parts])
        if len(chunk) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[chunk] = found
        return found

    def _ids_of(self, part: str) -> list[int]:
        """Longest match first over ASCII letters and digits; anything else by the library."""
        if not is_plain(part):
            return list(self._raw().encode(drop_surrogates(part), add_special_tokens=False).ids)
        if len(part) > self._rules.max_word_characters:
            return self._unknown
        word = part.lower() if self._rules.lowercase else part
        return longest_match(word, self._vocab) or self._unknown


class _FileWordMemo(dict[str, bytes]):
    """The same of a text in the words of a file."""

    def __init__(self, words: FileWords) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, chunk: str) -> bytes:
        parts = [part[0] for part in between_blanks(drop_surrogates(chunk))]
        ids = [word.id for part in parts for word in self._words.of_part(part)]
        found = np.array(ids, dtype=np.uint32).tobytes()
        if len(chunk) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[chunk] = found
        return found


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load our own folder or any BERT folder of Hugging Face or google-research.

    Raises:
        ConfigError: no such folder, or no tokenizer in it.
        DataError: a damaged file, a special token that is missing, or rules that are not safe to
            run (`safety.py`).
    """
    read = read_folder(Path(folder))
    try:
        tokenizer = Tokenizer(*read)
        if tokenizer._rules is None:  # else the rules are BERT's own
            check_time(tokenizer._raw().encode_batch_fast)
        check_decoding_time(tokenizer._description, tokenizer._backend)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    return tokenizer


def make_tokenizer(vocab: Sequence[str], rules: BertRules | None = None) -> Tokenizer:
    """A WordPiece tokenizer over `vocab`, tokens in the order of their ids."""
    rules = rules or BertRules()
    return Tokenizer(make_backend(vocab, rules), huggingface_config(rules, vocab))


def make_file_tokenizer(
    words: Sequence[str],
    kind: FileKind,
    special: Mapping[str, str],
    unknown_row: str | None = None,
) -> Tokenizer:
    """A tokenizer that reads texts in the words of a file, in the order of their ids; see
    `make_file_words`."""
    return Tokenizer(*make_file_words(words, kind, special, unknown_row))


def _from_text(backend: str, config: dict[str, Any]) -> Tokenizer:
    """The inverse of `Tokenizer.__reduce__`."""
    return Tokenizer(tokenizers.Tokenizer.from_str(backend), config)
