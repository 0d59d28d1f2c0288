"""Writing shards: append blocks of encoded documents, close a shard, carry on where one ended."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.atomic import sync_file
from bertwright.data.shards import SUFFIXES
from bertwright.errors import DataError
from bertwright.text.corpus.report import CorpusReport


@dataclass(frozen=True)
class EncodedBlock:
    """Documents as ids: what a worker hands back."""

    tokens: npt.NDArray[Any]
    """[N] of `token_dtype`."""
    word_starts: Bools
    """[N]"""
    sentence_lengths: Int64s
    """[S], each 1 or more."""
    document_lengths: Int64s
    """[D] in sentences, each 1 or more."""
    counts: dict[str, int]
    report: CorpusReport = field(default_factory=CorpusReport)
    """What splitting and cleaning met."""


class ShardWriter:
    """Writes one shard after the other in `folder`; a block never spans two.

    A shard is cut behind the block that reaches `shard_tokens`, so the bytes depend on the blocks
    alone. `finished` describes the shards written to the end.
    """

    def __init__(
        self, folder: Path, shard_tokens: int, finished: list[dict[str, Any]] | None = None
    ) -> None:
        self.folder = folder
        self.shard_tokens = shard_tokens
        self.finished = list(finished or [])
        self._open: _OpenShard | None = None

    def append(self, block: EncodedBlock) -> bool:
        """Write a block; True if that ended a shard. Raises OSError as files do."""
        if len(block.tokens):
            if self._open is None:
                self._open = _OpenShard(self.folder, f"shard-{len(self.finished):05d}")
            self._open.append(block)
            if self._open.tokens >= self.shard_tokens:
                self.end_shard()
                return True
        return False

    def end_shard(self) -> None:
        """Put what was appended on the disk as a finished shard."""
        if self._open is not None:
            self.finished.append(self._open.close())
            self._open = None

    def abandon(self) -> None:
        """Close and remove the shard that is not finished."""
        if self._open is not None:
            self._open.remove()
            self._open = None


class _OpenShard:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.tokens = self.sentences = self.documents = 0
        self._files = {suffix: (folder / f"{name}.{suffix}").open("wb") for suffix in SUFFIXES}
        self._hashes = {suffix: hashlib.sha256() for suffix in SUFFIXES}
        self._waiting = np.zeros(0, np.bool_)

    def append(self, block: EncodedBlock) -> None:
        if self.tokens + len(block.tokens) >= 1 << 32:
            raise DataError(
                "a document of over 4 billion tokens; is the blank line between documents missing? "
                "Try --documents line|file"
            )
        sentence_ends = self.tokens + np.cumsum(block.sentence_lengths)
        document_ends = self.sentences + np.cumsum(block.document_lengths)
        bits = np.concatenate([self._waiting, block.word_starts])
        whole = len(bits) // 8 * 8
        self._waiting = bits[whole:]
        self._write("tokens", block.tokens.tobytes())
        self._write("words", np.packbits(bits[:whole], bitorder="little").tobytes())
        self._write("sentences", sentence_ends.astype("<u4").tobytes())
        self._write("documents", document_ends.astype("<u4").tobytes())
        self.tokens += len(block.tokens)
        self.sentences += len(block.sentence_lengths)
        self.documents += len(block.document_lengths)

    def close(self) -> dict[str, Any]:
        self._write("words", np.packbits(self._waiting, bitorder="little").tobytes())
        files = {}
        for suffix, file in self._files.items():
            file.close()
            place = self.folder / f"{self.name}.{suffix}"
            sync_file(place)
            digest = self._hashes[suffix].hexdigest()
            files[place.name] = {"bytes": place.stat().st_size, "sha256": digest}
        return {
            "name": self.name,
            "documents": self.documents,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "files": files,
        }

    def remove(self) -> None:
        for suffix, file in self._files.items():
            with contextlib.suppress(OSError):  # what a full disk did not take goes away anyway
                file.close()
            (self.folder / f"{self.name}.{suffix}").unlink(missing_ok=True)

    def _write(self, suffix: str, data: bytes) -> None:
        self._files[suffix].write(data)
        self._hashes[suffix].update(data)
