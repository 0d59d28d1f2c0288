"""The tokenizer: text to ids and back, by BERT's WordPiece, with the `tokenizers` library.

Source: google-research/bert `tokenization.py`. A text is cleaned and split into words, and each
word into wordpieces: always the longest entry of the vocabulary that starts the rest of the word.
Wordpieces after the first begin with "##". A word that cannot be split, or is too long, is [UNK].

There are two ways to tokenize. `encode` is for texts that a model reads: it adds [CLS] and [SEP],
returns offsets, and recognizes special tokens written in the text ("[MASK]"). `encode_sentence_ids`
is for corpora: it returns ids without special tokens, and reads "[MASK]" in a text as ordinary
characters, so that no corpus can forge a special token. It caches the ids of every chunk between
blanks, because BERT's rules never look across a blank; most of a corpus then takes one dictionary
look-up a chunk.

The tokenizer of a converted file of word vectors or n-grams reads texts in the words of that file
instead (`file_words.py`). For an encoder that computes the vector of any word from its spelling,
words outside the vocabulary have ids beyond it instead of [UNK] (`further_words.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from bertwright.arrays import Bools, Int64s
from bertwright.errors import DataError
from bertwright.text.framing import Framing, framing_of
from bertwright.text.tokenizer.apart import Encoded, TokenizerProcess, brings_expressions
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
from bertwright.text.tokenizer.further_words import FurtherWords
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
"""The roles of special tokens, in the order of their ids in vocabularies that are trained here."""
ENDS = ("bos", "eos")
"""The begin and end of a text for language models; only if `tokenizer_config.json` names them."""

_REMEMBERED = 1 << 18  # chunks; about 60 MB
_LONGEST_REMEMBERED = 64  # characters
_LONG = 1 << 16  # characters
_Bare = tuple[list[int], list[tuple[int, int]], list[int | None]]
"""The ids, offsets and words of a text, without special tokens."""
_BESIDE_CJK = re.compile(" (?=[\u3001-\u9fff\uff01-\uff60])|(?<=[\u3001-\u9fff\uff01-\uff60]) ")


@dataclass(frozen=True)
class Encoding:
    """A tokenized text, or pair, ready for a model: five lists of equal length."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """The start and end of each token in its text, in characters; (0, 0) for added tokens."""
    type_ids: list[int]
    """The segment of each token: 0 in the first text, 1 in the second."""
    word_ids: list[int | None]
    """The index of each token's word in its text; None for added tokens."""


class Tokenizer:
    """A vocabulary with its rules; immutable except for its cache and its time limit."""

    def __init__(self, backend: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
        """Wrap a tokenizer of the `tokenizers` library; `config` is its `tokenizer_config.json`.

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
        """The id of each special token by its role: `unk` always; `pad`, `cls`, `sep`, `mask` in
        BERT's vocabularies; `bos`, `eos` in those of language models."""
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
        """Reads texts in the words of a file; None: the rules of `tokenizer.json` apply."""
        self._memo: _Memo | None = None
        if (words := self.file_words) is not None:
            self._memo = _Memo(
                lambda chunk: [part[0] for part in between_blanks(drop_surrogates(chunk))],
                lambda part: [word.id for word in words.of_part(part)],
            )
        elif (rules := self._rules) is not None:
            self._memo = _Memo(
                lambda chunk: split_parts(chunk, rules.chinese_characters), self._ids_of_part
            )
        self._corpus_backend: tokenizers.Tokenizer | None = None
        self._apart: TokenizerProcess | None = None
        self.further_words: FurtherWords | None = None
        """The words outside the vocabulary, which have ids of their own; None: each is [UNK]."""

    def spelling(self, first: int, can_spell: Callable[[str], bool]) -> Tokenizer:
        """Return the same tokenizer with ids for words outside the vocabulary, from `first` on.

        Texts that it reads have such ids; corpora (`encode_sentence_ids`) have [UNK].

        Args:
            first: the first id, the number of ids that the encoder has vectors for.
            can_spell: returns whether the encoder computes a vector for a word.
        """
        tokenizer = object.__new__(Tokenizer)
        vars(tokenizer).update(vars(self))  # the same vocabulary and cache
        tokenizer.further_words = FurtherWords(first, can_spell)
        return tokenizer

    def limit_time(self) -> None:
        """Give texts a time limit from now on, if the rules bring regular expressions, which then
        run in a process of their own (`apart.py`).

        A text that takes too long raises `TooSlow`.
        """
        if self._apart is None and brings_expressions(self._description):
            self._apart = TokenizerProcess(self._backend.to_str())

    def interrupt(self, for_good: bool = False) -> None:
        """End a text that is tokenized under a time limit, as if the limit were reached; with
        `for_good` those that wait too."""
        if self._apart is not None:
            self._apart.interrupt(for_good)

    @property
    def is_apart(self) -> bool:
        """Whether texts have a time limit, so that each call may take that long."""
        return self._apart is not None

    def special_id(self, role: str) -> int:
        """Return the id of a special token: `pad`, `unk`, `cls`, `sep` or `mask`.

        Raises:
            DataError: the vocabulary has no such token.
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
        """How the ids of a text become a sequence: with [CLS] and [SEP] if the vocabulary has
        them.
        """
        framing = framing_of(self.special)
        if not framing.begin and self.file_words is not None and "bos" in self.special:
            return Framing((self.special["bos"],))  # an n-gram file without `</s>`
        return replace(framing, between=self._stated_between(framing))

    def _stated_between(self, framing: Framing) -> tuple[int, ...]:
        """Return the ids that the post-processor puts between the first END of a pair and its
        second text.

        There are none unless the post-processor begins a text as `framing` does; GPT's does not,
        because it adds no tokens.
        """
        if not framing.begin or self.stated_begin != framing.begin:
            return ()
        encoding = self._backend.encode("a", "a")
        texts = encoding.sequence_ids
        if 1 not in texts:
            return ()
        second = texts.index(1)
        first = second - texts[:second][::-1].index(0)
        added = tuple(encoding.ids[first:second])
        ends = len(framing.end)
        return added[ends:] if added[:ends] == framing.end else ()

    @cached_property
    def stated_begin(self) -> tuple[int, ...]:
        """The ids that transformers adds before a text, according to the post-processor."""
        encoding = self._backend.encode("a")
        marked = zip(encoding.ids, encoding.sequence_ids, strict=True)
        return tuple(id for id, text in takewhile(lambda each: each[1] is None, marked))

    @property
    def rules(self) -> BertRules:
        """BERT's rules for splitting words.

        Raises:
            DataError: the tokenizer is not BERT's.
        """
        if self._rules is None:
            raise DataError(
                "this tokenizer is not a BERT WordPiece, or has added words: BERT's rules alone do "
                "not say how it splits"
            )
        return self._rules

    @property
    def strips_accents(self) -> bool:
        """Whether BERT's rules remove accents and other marks from text."""
        return self._rules is not None and self._rules.strips

    @cached_property
    def ids_without_token(self) -> list[int]:
        """The ids below V without a token, such as that of a duplicate line in `vocab.txt`, whose
        last occurrence counts.
        """
        return sorted(set(range(self.vocab_size)).difference(self._token_of))

    @cached_property
    def is_continuation(self) -> Bools:
        """[V] Whether each token continues the word before it ("##ing")."""
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
        """The SHA-256 of the vocabulary and of everything that determines how text is tokenized."""
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
            names = ("normalizer", "pre_tokenizer", "model", "added_tokens")
            described["backend"] = {name: self._description[name] for name in names}
        text = json.dumps(described, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def described(self) -> dict[str, Any]:
        """Return the description of the tokenizer for the manifest of built data."""
        return {
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "special": self.special,
            "special_ids": sorted(self.special_ids),
        }

    @guarded
    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Tokenize a text, or a pair, with the special tokens that `framing` adds."""
        texts = [drop_surrogates(part) for part in (text, pair) if part is not None]
        bare = [self._bare(part) for part in texts]
        lengths = [len(ids) for ids, _, _ in bare]
        framed = self.framing.one if len(bare) == 1 else self.framing.two
        ids = framed(*(ids for ids, _, _ in bare))
        offsets: list[tuple[int, int]] = [(0, 0)] * len(ids)
        words: list[int | None] = [None] * len(ids)
        for inside, (_, spans, numbers) in zip(self.framing.inside(*lengths), bare, strict=True):
            offsets[inside], words[inside] = spans, numbers
        types = list(self.framing.segments(*lengths))
        return Encoding(ids, self.tokens_of(ids), offsets, types, words)

    def _bare(self, text: str, recognize: bool = True) -> _Bare:
        """Tokenize a text without adding tokens.

        Args:
            text: the text.
            recognize: whether special tokens written in the text are recognized.
        """
        if self.file_words is not None:
            words = self.file_words.read(text)
            spans = [(word.start, word.stop) for word in words]
            ids = self._with_further_words(text, [word.id for word in words], spans)
            return ids, spans, [*range(len(words))]
        if self._memo is not None and len(text) > _LONG and recognize:
            ids, offsets, numbers = self._in_parts(text)
            return self._with_further_words(text, ids, offsets), offsets, numbers
        (encoding,) = self._encode_batch([text], recognize)
        ids = self._with_further_words(text, encoding.ids, encoding.offsets)
        return ids, encoding.offsets, encoding.word_ids

    def _encode_batch(
        self, texts: Sequence[str], recognize: bool
    ) -> Sequence[Encoded | tokenizers.Encoding]:
        """Return the encodings of texts without added tokens.

        The rules may be slow, and `encode` of the library would block other threads.
        """
        if self._apart is not None:
            return self._apart.encode_batch(texts, recognize)
        backend = self._backend if recognize else self._raw()
        found: list[tokenizers.Encoding] = backend.encode_batch(texts, add_special_tokens=False)
        return found

    def _with_further_words(
        self, text: str, ids: list[int], offsets: Sequence[tuple[int, int]]
    ) -> list[int]:
        """Return the ids of a text, with those of further words in place of [UNK].

        A word is spelled as the rules normalize it. An [UNK] that is written in the text stays.
        """
        further = self.further_words
        if further is None or self.unk_id not in ids:
            return ids
        found = list(ids)
        for place, (start, stop) in enumerate(offsets):
            word = text[start:stop]
            if ids[place] != self.unk_id or self.vocab.get(word) == self.unk_id:
                continue
            if self.file_words is None:
                word = self.normalized(word)
            elif self._file_is_uncased:
                word = word.lower()
            id_ = further.id_of(word) if word else None
            found[place] = self.unk_id if id_ is None else id_
        return found

    @cached_property
    def _file_is_uncased(self) -> bool:
        """Whether no word of a file has a capital."""
        return all(word == word.lower() for word in self.vocab if self.vocab[word] != self.unk_id)

    def _in_parts(self, text: str) -> _Bare:
        """Tokenize a huge text in parts, split at blanks, because `tokenizers` takes 200 bytes of
        memory for each byte.
        """
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        words: list[int | None] = []
        start = count = 0
        while start < len(text):
            stop = text.find(" ", start + _LONG // 4)
            stop = stop if stop >= 0 else len(text)
            encoding = self._backend.encode(text[start:stop], add_special_tokens=False)
            ids += encoding.ids
            offsets += [(a + start, b + start) for a, b in encoding.offsets]
            numbers = [None if word is None else word + count for word in encoding.word_ids]
            words += numbers
            count = max((n + 1 for n in numbers if n is not None), default=count)
            start = stop
        return ids, offsets, words

    @guarded
    def encode_sentence_ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], Int64s]:
        """Return the ids of many texts end to end, without special tokens, and the number of each
        text's ids.

        Special tokens written in a text are tokenized like other text.
        """
        lengths = np.empty(len(texts), dtype=np.int64)
        if self._memo is None:
            whole = [drop_surrogates(text) for text in texts]
            found: Sequence[Encoded | tokenizers.Encoding]
            if self._apart is None:  # without offsets
                found = self._raw().encode_batch_fast(whole, add_special_tokens=False)
            else:
                found = self._apart.encode_batch(whole, recognize=False)
            ids = [np.array(encoding.ids, dtype=np.uint32) for encoding in found]
            lengths[:] = [len(part) for part in ids]
            return np.concatenate([*ids, np.empty(0, dtype=np.uint32)]), lengths
        look_up = self._memo.__getitem__
        joined = [b"".join(map(look_up, text.split(" "))) for text in texts]
        lengths[:] = [len(part) >> 2 for part in joined]
        return np.frombuffer(b"".join(joined), dtype=np.uint32), lengths

    @guarded
    def encode_bare_ids(self, texts: Sequence[str], recognize: bool = True) -> list[list[int]]:
        """Return the ids that `encode` gives each text, without the added tokens; fast for many
        texts.

        Without `recognize`, special tokens written in a text are tokenized like other text.
        """
        flat, lengths = self.encode_sentence_ids(texts)
        ids, ends = flat.tolist(), np.cumsum(lengths).tolist()
        ids_of = [ids[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]
        specials: list[str] = []
        if recognize and self.file_words is None:
            specials = self.tokens_of(sorted(self.special_ids))
        for number, text in enumerate(texts):
            spells = self.further_words is not None and self.unk_id in ids_of[number]
            if spells or any(special in text for special in specials):
                ids_of[number] = self._bare(drop_surrogates(text), recognize)[0]
        return ids_of

    @guarded
    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Return the text of `ids`, as exactly as the vocabulary preserves it."""
        ids = list(ids)
        if self._apart is not None:
            return self._apart.decode(ids, skip_special_tokens)
        return str(self._backend.decode(ids, skip_special_tokens=skip_special_tokens))

    def readable(self, ids: Iterable[int]) -> str:
        """Return the text of `ids` with special tokens, and without spaces between Chinese
        characters.
        """
        return _BESIDE_CJK.sub("", self.decode(ids, skip_special_tokens=False))

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """Return the token of every id, the word itself for a further word; [UNK] for an id without
        one.
        """
        unknown, further = self._token_of[self.unk_id], self.further_words
        if further is None:
            return [self._token_of.get(int(index), unknown) for index in ids]
        return [
            further.word_of(index) if index >= further.first else self._token_of.get(index, unknown)
            for index in map(int, ids)
        ]

    def shown(self, ids: Iterable[int]) -> list[str]:
        """Return every id as a person reads it: a token of WordPiece as it is ("##ing"), one of a
        byte-level BPE or of SentencePiece as the text that it stands for (" Paris").
        """
        ids = list(ids)
        if self._description["model"]["type"] == "WordPiece":
            return self.tokens_of(ids)
        return [self.decode([index], skip_special_tokens=False) for index in ids]

    @guarded
    def normalized(self, text: str) -> str:
        """Return `text` as the rules normalize it before it is split into words."""
        normalizer = self._backend.normalizer
        text = drop_surrogates(text)
        return text if normalizer is None else str(normalizer.normalize_str(text)).strip()

    def save(self, folder: str | Path) -> None:
        """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json` into `folder`."""
        write_folder(Path(folder), self._backend, self._config)

    def extended(self, tokens: Sequence[str]) -> Tokenizer:
        """Return the same tokenizer with more entries at the end; existing ids and rules stay the
        same.

        Raises:
            DataError: a token exists already, or this is not a WordPiece.
        """
        if self._description["model"]["type"] != "WordPiece":
            kind = self._description["model"]["type"]
            raise DataError(f"this tokenizer is a {kind}; only a WordPiece can be extended")
        double = [token for token in tokens if token in self.vocab]
        if double or len(set(tokens)) < len(tokens):
            raise DataError(f"{double[:1] or 'a token'} would be in the vocabulary twice")
        description = json.loads(self._backend.to_str())
        # includes the special tokens added after it, which `tokenizers` would otherwise renumber
        description["model"]["vocab"] = dict(self.vocab)
        for index, token in enumerate(tokens, self.vocab_size):
            description["model"]["vocab"][token] = index
        return _from_text(json.dumps(description, ensure_ascii=False), self._config)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rules, but not the cache, for worker processes."""
        return _from_text, (self._backend.to_str(), self._config)

    def _find_special(self) -> Iterator[tuple[str, int]]:
        """Yield roles and ids, by the names that the configuration gives, or else BERT's."""
        for role in (*ROLES, *ENDS):
            named = self._config.get(f"{role}_token") or SPECIAL_TOKENS.get(f"{role}_token")
            token = named["content"] if isinstance(named, dict) else named
            if token in self.vocab:
                yield role, self.vocab[token]

    def _find_rules(self) -> BertRules | None:
        """Return BERT's rules if every rule of the tokenizer is BERT's, else None.

        Under BERT's rules, parts of a text may be tokenized separately.
        """
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
        """Return the reader of a file's words if the configuration names a kind of file, else
        None.
        """
        kind = self._config.get(FILE_WORDS)
        if kind is None:
            return None
        if kind not in FILE_KINDS:
            raise DataError(f"{FILE_WORDS!r} is {kind!r}; expected one of {', '.join(FILE_KINDS)}")
        return FileWords(self.vocab, self.unk_id, kind)

    @property
    def words_of_file(self) -> frozenset[int]:
        """The ids of special tokens that are rows of the file itself: its row of unknown words."""
        has_unknown_row = self.file_words is not None and self._config.get(UNKNOWN_ROW) != "mean"
        return frozenset({self.unk_id} if has_unknown_row else ())

    def _ids_of_part(self, part: str) -> list[int]:
        """Return the ids of a part of a text without blanks, under BERT's rules.

        A part of ASCII letters and digits is split by longest match, any other by the library.
        """
        if not is_plain(part):
            return list(self._raw().encode(drop_surrogates(part), add_special_tokens=False).ids)
        word = part.lower() if self.rules.lowercase else part
        short = len(part) <= self.rules.max_word_characters
        return (longest_match(word, self.vocab) if short else None) or [self._unknown_id]

    @cached_property
    def _unknown_id(self) -> int:
        return self.vocab[self._description["model"]["unk_token"]]

    def _raw(self) -> tokenizers.Tokenizer:
        """Return a copy of the backend that tokenizes special tokens in a text like other text."""
        if self._corpus_backend is None:
            self._corpus_backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
            self._corpus_backend.encode_special_tokens = True
        return self._corpus_backend


class _Memo(dict[str, bytes]):
    """A cache from chunk to its ids, as the bytes of uint32; it is cleared when it is full."""

    def __init__(
        self, split: Callable[[str], list[str]], ids_of: Callable[[str], Sequence[int]]
    ) -> None:
        """Take the function that splits a chunk, and the one that returns the ids of a part."""
        super().__init__()
        self._split, self._ids_of = split, ids_of

    def __missing__(self, chunk: str) -> bytes:
        parts = self._split(chunk)
        if parts == [chunk]:
            encoded = np.array(self._ids_of(chunk), dtype=np.uint32).tobytes()
        else:
            encoded = b"".join([self[part] for part in parts])
        if len(chunk) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[chunk] = encoded
        return encoded


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Load the tokenizer of a Bertwright folder, or of any BERT folder of Hugging Face or
    google-research.

    Raises:
        ConfigError: there is no such folder, or no tokenizer in it.
        DataError: a file is damaged, a special token is missing, or the rules are not safe to run
            (`safety.py`).
    """
    read = read_folder(Path(folder))
    try:
        tokenizer = Tokenizer(*read)
        if tokenizer._rules is None:  # otherwise the rules are BERT's own, which are fast
            check_time(tokenizer._raw().encode_batch_fast)
        check_decoding_time(tokenizer._description, tokenizer._backend)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    return tokenizer


def make_tokenizer(vocab: Sequence[str], rules: BertRules | None = None) -> Tokenizer:
    """Return a WordPiece tokenizer over `vocab`, tokens in the order of their ids."""
    rules = rules or BertRules()
    return Tokenizer(make_backend(vocab, rules), huggingface_config(rules, vocab))


def make_file_tokenizer(
    words: Sequence[str],
    kind: FileKind,
    special: Mapping[str, str],
    unknown_row: str | None = None,
) -> Tokenizer:
    """Return a tokenizer that reads texts in the words of a file; see `make_file_words`."""
    return Tokenizer(*make_file_words(words, kind, special, unknown_row))


def _from_text(backend: str, config: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer that `Tokenizer.__reduce__` pickled."""
    return Tokenizer(tokenizers.Tokenizer.from_str(backend), config)
