"""A corpus as token ids in memory-mapped files, and what is needed to find anything in it.

A folder holds `MANIFEST.json` (counts, the tokenizer's fingerprint, the size and SHA-256 of every
file), `tokenizer/` (a copy) and, for each shard, four files of plain little-endian numbers:

| file | what |
|---|---|
| `shard-00000.tokens` | uint16 (uint32 for a vocabulary over 65,536): the ids, no special tokens |
| `shard-00000.words` | one bit a token, lowest bit first: does the token start a word |
| `shard-00000.sentences` | uint32: where each sentence ends, in tokens of the shard |
| `shard-00000.documents` | uint32: where each document ends, in sentences of the shard |

Shards end at document bounds. Tokens and words stay on the disk; the bounds (8 bytes a sentence)
are held in memory. Letters: D documents, S sentences, N tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.atomic import MANIFEST, read_manifest, verify_files, verify_once
from bertwright.errors import DataError, IntegrityError

FORMAT = "bertwright-shards-1"
SUFFIXES = ("tokens", "words", "sentences", "documents")


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The number type that holds every id of a vocabulary."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


@dataclass(frozen=True)
class Shards:
    """A built corpus, all shards as one; positions are counted over all of them."""

    folder: Path
    manifest: dict[str, Any]
    document_sentences: Int64s
    """[D + 1]: the first sentence of each document; last the number of sentences."""
    sentence_tokens: Int64s
    """[S + 1]: the first token of each sentence; last the number of tokens."""
    first_tokens: Int64s = field(repr=False)
    """[shards + 1]: the first token of each shard; last the number of tokens."""
    _tokens: tuple[npt.NDArray[Any], ...] = field(repr=False)
    _words: tuple[npt.NDArray[np.uint8], ...] = field(repr=False)

    @property
    def num_documents(self) -> int:
        """D."""
        return len(self.document_sentences) - 1

    @property
    def num_sentences(self) -> int:
        """S."""
        return len(self.sentence_tokens) - 1

    @property
    def num_tokens(self) -> int:
        """N."""
        return int(self.sentence_tokens[-1])

    @property
    def tokenizer_folder(self) -> Path:
        """The copy of the tokenizer that cut the corpus."""
        return self.folder / "tokenizer"

    @property
    def tokenizer_fingerprint(self) -> str:
        """What identifies that tokenizer."""
        return str(self.manifest["tokenizer"]["fingerprint"])

    @property
    def vocab_size(self) -> int:
        """Entries of its vocabulary."""
        return int(self.manifest["tokenizer"]["vocab_size"])

    def tokens(self, start: int, stop: int) -> Int64s:
        """The ids of tokens `start` to `stop` - 1."""
        return self.tokens_at(np.arange(start, stop))

    def word_starts(self, start: int, stop: int) -> Bools:
        """For tokens `start` to `stop` - 1: does it start a word."""
        return self.word_starts_at(np.arange(start, stop))

    def tokens_at(self, places: Int64s) -> Int64s:
        """The ids at `places` (any order, any shard), [len(places)].

        Raises:
            IntegrityError: an id is not of the vocabulary: the files were changed.
        """
        ids = np.empty(len(places), np.int64)
        for shard, rows, local in self._by_shard(places):
            ids[rows] = self._tokens[shard][local]
        if len(ids) and (highest := int(ids.max())) >= self.vocab_size:
            raise IntegrityError(
                f"{self.folder} holds the id {highest}; its tokenizer has {self.vocab_size}: the "
                "files were changed; run bertwright data check, then build the data again"
            )
        return ids

    def word_starts_at(self, places: Int64s) -> Bools:
        """For each of `places`: does the token start a word."""
        starts = np.empty(len(places), np.bool_)
        for shard, rows, local in self._by_shard(places):
            bits = self._words[shard][local >> 3] >> (local & 7).astype(np.uint8)
            starts[rows] = (bits & 1).astype(np.bool_)
        return starts

    def _by_shard(self, places: Int64s) -> list[tuple[int, Any, Int64s]]:
        """Cut `places` into (shard, rows of `places`, positions within the shard)."""
        if len(places) == 0:
            return []
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= self.num_tokens:
            raise IndexError(f"token {high if low >= 0 else low} of {self.num_tokens} asked for")
        first, last = np.searchsorted(self.first_tokens, [low, high], side="right") - 1
        if first == last:
            return [(int(first), slice(None), places - self.first_tokens[first])]
        shard_of = np.searchsorted(self.first_tokens, places, side="right") - 1
        cuts = []
        for shard in np.unique(shard_of):
            rows = np.flatnonzero(shard_of == shard)
            cuts.append((int(shard), rows, places[rows] - self.first_tokens[shard]))
        return cuts


def open_shards(folder: Path | str, verify: bool = True) -> Shards:
    """Open what `bertwright data build` wrote.

    Args:
        folder: the folder.
        verify: compare every file with its SHA-256: the tokenizer's always, those of the shards
            unless they were verified before and not touched since (`atomic.verify_once`). False
            compares sizes alone.

    Raises:
        DataError: the folder is no built corpus, holds no tokens, or cannot be read.
        IntegrityError: a file is missing, truncated, changed, or contradicts the others.
    """
    folder = Path(folder)
    manifest = read_shards_manifest(folder)
    files = manifest["files"]
    small = {name: files[name] for name in files if name.startswith("tokenizer/")}
    verify_files(folder, small, deep=verify)
    large = {name: files[name] for name in files if name not in small}
    if verify:
        verify_once(folder, large)
    else:
        verify_files(folder, large, deep=False)
    if not manifest["shards"]:
        raise DataError(f"{folder} holds no documents; build it again from a corpus with text")
    dtype = token_dtype(int(manifest["tokenizer"]["vocab_size"]))
    tokens: list[npt.NDArray[Any]] = []
    words: list[npt.NDArray[np.uint8]] = []
    sentences = [np.zeros(1, np.int64)]
    documents = [np.zeros(1, np.int64)]
    first_tokens, num_sentences = [0], 0
    for entry in manifest["shards"]:
        name = folder / str(entry["name"])
        try:
            tokens.append(np.memmap(f"{name}.tokens", dtype, mode="r"))
            words.append(np.memmap(f"{name}.words", np.uint8, mode="r"))
            ends = np.fromfile(f"{name}.sentences", "<u4").astype(np.int64)
            document_ends = np.fromfile(f"{name}.documents", "<u4").astype(np.int64)
        except OSError as error:
            raise DataError(
                f"{error.filename or name} cannot be read: {error.strerror}; make it readable"
            ) from error
        _verify_bounds(name, len(tokens[-1]), len(words[-1]), ends, document_ends)
        sentences.append(ends + first_tokens[-1])
        documents.append(document_ends + num_sentences)
        first_tokens.append(first_tokens[-1] + len(tokens[-1]))
        num_sentences += len(ends)
    return Shards(
        folder=folder,
        manifest=manifest,
        document_sentences=np.concatenate(documents),
        sentence_tokens=np.concatenate(sentences),
        first_tokens=np.asarray(first_tokens, np.int64),
        _tokens=tuple(tokens),
        _words=tuple(words),
    )


def require_tokenizer(shards: Shards, fingerprint: str, owner: str) -> None:
    """Raise `DataError` unless the shards were built with the tokenizer of this fingerprint.

    `owner` says in the message whose tokenizer that is, as "the checkpoint runs/x".
    """
    if shards.tokenizer_fingerprint != fingerprint:
        raise DataError(
            f"{shards.folder} was built with another tokenizer "
            f"({shards.tokenizer_fingerprint[:12]}) than that of {owner} ({fingerprint[:12]}): "
            "ids would mean other words; build the data again with that tokenizer"
        )


def read_shards_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a built corpus; see `open_shards` for the errors."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"{folder} is no built corpus (it has no {path.name}); make one with: "
            "bertwright data build CORPUS --tokenizer DIR --out DIR"
        )
    manifest = read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise DataError(
            f"{path} says format {manifest.get('format')!r}; expected {FORMAT!r}, a folder "
            "written by: bertwright data build"
        )
    if not {"tokenizer", "shards", "counts"} <= manifest.keys():
        raise IntegrityError(f"{path} lacks entries; build the data again")
    names = [entry.get("name") for entry in manifest["shards"]]
    if (
        not {f"{name}.{suffix}" for name in names for suffix in SUFFIXES}
        <= manifest["files"].keys()
    ):
        raise IntegrityError(f"{path} names shards whose files it does not list; build it again")
    return manifest


def _verify_bounds(
    name: Path, tokens: int, words: int, sentences: Int64s, documents: Int64s
) -> None:
    """The bounds of one shard must rise and end where the files end."""
    whole = (
        len(documents) > 0
        and len(sentences) > 0
        and sentences[-1] == tokens
        and documents[-1] == len(sentences)
        and words == (tokens + 7) // 8
        and sentences[0] > 0
        and documents[0] > 0
        and bool((np.diff(sentences) > 0).all())
        and bool((np.diff(documents) > 0).all())
    )
    if not whole:
        raise IntegrityError(
            f"the files of {name} contradict each other: they were changed after the build; "
            "run bertwright data check, then build the data again"
        )
