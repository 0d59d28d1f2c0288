"""A corpus as token ids in memory-mapped files, with the bounds of its sentences and documents.

A folder holds `MANIFEST.json` (counts, the tokenizer's fingerprint, the size and SHA-256 of every
file), `tokenizer/` (a copy) and, for each shard, four files of plain little-endian numbers:

| file | what |
|---|---|
| `shard-00000.tokens` | uint16 (uint32 for a vocabulary over 65,536): the ids, no special tokens |
| `shard-00000.words` | one bit per token, lowest bit first: whether the token starts a word |
| `shard-00000.sentences` | uint32: where each sentence ends, in tokens of the shard |
| `shard-00000.documents` | uint32: where each document ends, in sentences of the shard |

Every shard ends at the end of a document. Tokens and words stay on disk; the bounds (8 bytes per
sentence) are held in memory. Letters: D documents, S sentences, N tokens, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.atomic import (
    MANIFEST,
    read_manifest,
    sha256_file,
    sync_file,
    verify_files,
    write_manifest,
)
from bertwright.errors import DataError, IntegrityError
from bertwright.rows.open import nearest_name
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.version import __version__

FORMAT = "bertwright-shards-1"
SUFFIXES = ("tokens", "words", "sentences", "documents")


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the integer type that is large enough for every id of a vocabulary."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


@dataclass(frozen=True)
class Shards:
    """A built corpus, with all shards as one: positions are counted over all of them."""

    folder: Path
    manifest: dict[str, Any]
    document_sentences: Int64s
    """[D + 1]: the number of each document's first sentence, then the number of all sentences."""
    sentence_tokens: Int64s
    """[S + 1]: the position of each sentence's first token, then the number of all tokens."""
    first_tokens: Int64s = field(repr=False)
    """[shards + 1]: the position of each shard's first token, then the number of all tokens."""
    _tokens: tuple[npt.NDArray[Any], ...] = field(repr=False)
    _words: tuple[npt.NDArray[np.uint8], ...] = field(repr=False)

    @property
    def num_documents(self) -> int:
        """D, the number of documents."""
        return len(self.document_sentences) - 1

    @property
    def num_sentences(self) -> int:
        """S, the number of sentences in all documents."""
        return len(self.sentence_tokens) - 1

    @property
    def num_tokens(self) -> int:
        """N, the number of tokens in all sentences."""
        return int(self.sentence_tokens[-1])

    @property
    def tokenizer_folder(self) -> Path:
        """The folder that has a copy of the tokenizer that encoded the corpus."""
        return self.folder / "tokenizer"

    @property
    def tokenizer_fingerprint(self) -> str:
        """The fingerprint of the tokenizer, which identifies it; see `Tokenizer.fingerprint`."""
        return str(self.manifest["tokenizer"]["fingerprint"])

    @property
    def vocab_size(self) -> int:
        """V, the number of ids of the tokenizer's vocabulary."""
        return int(self.manifest["tokenizer"]["vocab_size"])

    @property
    def special(self) -> dict[str, int]:
        """The id of each special token by its role; see `Tokenizer.special`."""
        return dict(self.manifest["tokenizer"]["special"])

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens, including added ones without a role."""
        return frozenset(self.manifest["tokenizer"]["special_ids"])

    def special_id(self, role: str) -> int:
        """Return the id of the special token with a role."""
        if role not in self.special:
            who = "every model" if role == "unk" else "a masked LM"
            raise DataError(
                f"{who} needs [{role.upper()}]; the vocabulary of {self.folder} has none: train "
                "one of words (bertwright tokenizer train CORPUS --special-tokens bert --out DIR), "
                "and build the data again"
            )
        return self.special[role]

    def tokens(self, start: int, stop: int) -> Int64s:
        """Return the ids of the tokens at positions `start` to `stop` - 1."""
        return self.tokens_at(np.arange(start, stop))

    def word_starts(self, start: int, stop: int) -> Bools:
        """Return whether each token at positions `start` to `stop` - 1 starts a word."""
        return self.word_starts_at(np.arange(start, stop))

    def tokens_at(self, positions: Int64s) -> Int64s:
        """Return the ids at `positions`, which may be in any order and in any shard."""
        ids = np.empty(len(positions), np.int64)
        for shard, rows, local in self._by_shard(positions):
            ids[rows] = self._tokens[shard][local]
        if len(ids) and (highest := int(ids.max())) >= self.vocab_size:
            raise IntegrityError(
                f"{self.folder} holds the id {highest}; its tokenizer has {self.vocab_size}: the "
                "files were changed; run bertwright data check, then build the data again"
            )
        return ids

    def word_starts_at(self, positions: Int64s) -> Bools:
        """Return whether the token at each of `positions` starts a word."""
        starts = np.empty(len(positions), np.bool_)
        for shard, rows, local in self._by_shard(positions):
            bits = self._words[shard][local >> 3] >> (local & 7).astype(np.uint8)
            starts[rows] = (bits & 1).astype(np.bool_)
        return starts

    def _by_shard(self, positions: Int64s) -> list[tuple[int, Any, Int64s]]:
        """Split `positions` into (shard, rows of `positions`, positions within the shard)."""
        if len(positions) == 0:
            return []
        low, high = int(positions.min()), int(positions.max())
        if low < 0 or high >= self.num_tokens:
            raise IndexError(
                f"token {high if low >= 0 else low} of {self.num_tokens} does not exist"
            )
        first, last = np.searchsorted(self.first_tokens, [low, high], side="right") - 1
        if first == last:
            return [(int(first), slice(None), positions - self.first_tokens[first])]
        shard_of = np.searchsorted(self.first_tokens, positions, side="right") - 1
        parts = []
        for shard in np.unique(shard_of):
            rows = np.flatnonzero(shard_of == shard)
            parts.append((int(shard), rows, positions[rows] - self.first_tokens[shard]))
        return parts


def open_shards(folder: Path | str, verify: bool = True) -> Shards:
    """Open a folder that `bertwright data build` wrote.

    Args:
        verify: whether to compare every file with its SHA-256, at about 1 GB per second. If False,
            only sizes are compared.
    """
    folder = Path(folder)
    manifest = read_shards_manifest(folder)
    verify_files(folder, manifest["files"], deep=verify)
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

    `owner` names in the message what the tokenizer belongs to, such as "the checkpoint runs/x".
    """
    if shards.tokenizer_fingerprint != fingerprint:
        raise DataError(
            f"{shards.folder} was built with another tokenizer "
            f"({shards.tokenizer_fingerprint[:12]}) than that of {owner} ({fingerprint[:12]}): "
            "ids would mean other words; build the data again with that tokenizer"
        )


def read_shards_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a built corpus. Raises the errors of `open_shards`."""
    path = folder / MANIFEST
    if not path.is_file():
        command = "bertwright data build {} --tokenizer DIR --out {}"
        if folder.is_file():
            built = folder.with_name(f"{folder.name.partition('.')[0] or 'corpus'}-shards")
            out = quote(str(built))
            raise DataError(
                f"{folder} is a file; expected the folder of a built corpus. If it is the text to "
                f"train on, build it with: {command.format(quote(str(folder)), out)}, and give "
                f"--data {out}"
            )
        command = command.format("CORPUS", quote(str(folder)))
        if folder.exists():
            raise DataError(
                f"{folder} is no built corpus (it has no {path.name}); make one with: {command}"
            )
        raise DataError(f"no folder {folder}{nearest_name(folder)}; make it with: {command}")
    manifest = read_manifest(folder)
    if manifest.get("format") != FORMAT:
        raise DataError(
            f"{path} says format {manifest.get('format')!r}; expected {FORMAT!r}, a folder "
            "written by: bertwright data build"
        )
    if (
        not {"tokenizer", "shards", "counts"} <= manifest.keys()
        or "special" not in manifest["tokenizer"]
    ):
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
    """Raise IntegrityError unless the bounds of a shard ascend and end where its files end."""
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


@dataclass(frozen=True)
class EncodedBlock:
    """A block of documents as ids, which a worker returns."""

    tokens: npt.NDArray[Any]
    """[N]: the ids, of type `token_dtype`."""
    word_starts: Bools
    """[N]: whether each token starts a word."""
    sentence_lengths: Int64s
    """[S]: the number of tokens of each sentence, 1 or more."""
    document_lengths: Int64s
    """[D]: the number of sentences of each document, 1 or more."""
    counts: dict[str, int]
    report: CorpusReport = field(default_factory=CorpusReport)
    """The counts of splitting and cleaning the documents."""


def write_shards_manifest(
    folder: Path,
    tokenizer: Tokenizer,
    counts: Mapping[str, int],
    shards: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    without: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the manifest of finished shards and a tokenizer into their folder, and return it.

    The manifest contains no times. Files that are named in `without` are not listed.
    """
    return write_manifest(
        folder,
        {
            "format": FORMAT,
            "bertwright": __version__,
            **facts,
            "counts": counts,
            "tokenizer": tokenizer.described(),
            "shards": [
                {name: value for name, value in shard.items() if name != "files"}
                for shard in shards
            ],
        },
        without,
    )


class ShardWriter:
    """Writes one shard after the other into `folder`. Each block is in one shard only.

    A shard ends with the block that brings it to `shard_tokens` tokens, so the bytes depend on the
    blocks alone. `finished` is the list of descriptions of finished shards, and is extended in
    place.
    """

    def __init__(
        self, folder: Path, shard_tokens: int, finished: list[dict[str, Any]] | None = None
    ) -> None:
        self.folder = folder
        self.shard_tokens = shard_tokens
        self.finished = [] if finished is None else finished
        self._waiting: Bools = np.zeros(0, np.bool_)
        self._files: dict[str, BinaryIO] = {}
        """The files of the shard that is being written, by suffix; empty between shards."""

    def append(self, block: EncodedBlock) -> bool:
        """Write a block, and return whether it completed a shard."""
        if not len(block.tokens):
            return False
        if not self._files:
            self._begin()
        sentence_ends = self._counts["tokens"] + np.cumsum(block.sentence_lengths)
        document_ends = self._counts["sentences"] + np.cumsum(block.document_lengths)
        bits = np.concatenate([self._waiting, block.word_starts])
        whole = len(bits) // 8 * 8
        self._waiting = bits[whole:]
        self._files["tokens"].write(block.tokens.tobytes())
        self._files["words"].write(np.packbits(bits[:whole], bitorder="little").tobytes())
        self._files["sentences"].write(sentence_ends.astype("<u4").tobytes())
        self._files["documents"].write(document_ends.astype("<u4").tobytes())
        self._counts["documents"] += len(block.document_lengths)
        self._counts["sentences"] += len(block.sentence_lengths)
        self._counts["tokens"] += len(block.tokens)
        if self._counts["tokens"] < self.shard_tokens:
            return False
        self.end_shard()
        return True

    def _begin(self) -> None:
        self._name = f"shard-{len(self.finished):05d}"
        self._counts = {"documents": 0, "sentences": 0, "tokens": 0}
        self._waiting = np.zeros(0, np.bool_)
        for suffix in SUFFIXES:
            self._files[suffix] = (self.folder / f"{self._name}.{suffix}").open("wb")

    def end_shard(self) -> None:
        """Complete the shard that is being written, if there is one, and sync it to disk."""
        if not self._files:
            return
        self._files["words"].write(np.packbits(self._waiting, bitorder="little").tobytes())
        files = {}
        for suffix, file in self._files.items():
            file.close()
            path = self.folder / f"{self._name}.{suffix}"
            sync_file(path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        self.finished.append({"name": self._name, **self._counts, "files": files})
        self._files = {}

    def abandon(self) -> None:
        """Close and remove the files of the shard that is being written, if there is one."""
        for suffix, file in self._files.items():
            with contextlib.suppress(OSError):  # data that a full disk did not take is removed too
                file.close()
            (self.folder / f"{self._name}.{suffix}").unlink(missing_ok=True)
        self._files = {}
