"""Decompress .gz, .xz, .bz2 and .zst in bounded memory.

Truncated or corrupt streams raise `DataError`, even where the library would end silently: the
readers of the standard library treat a damaged frame after the first as the end of the file, and
zstandard's reader treats a missing end as one.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Protocol

from bertwright.errors import DataError, MissingExtra

COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
BLOCK_BYTES = 1 << 20


class _CompressedFrame(Protocol):
    """A compressed frame, which is decompressed in parts of a bounded size."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        ...

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Decompress some bytes of the file; return plain bytes, and the part of `data` to feed
        next.

        The plain bytes are empty if the frame needs more data.
        """
        ...


class _ZlibFrame:
    """A member of a .gz file."""

    def __init__(self) -> None:
        self._frame = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._frame.eof

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._frame.decompress(data, BLOCK_BYTES)
        return plain, self._frame.unused_data if self.eof else self._frame.unconsumed_tail


class _BufferingFrame:
    """A stream of an .xz or .bz2 file, whose decompressor keeps the data that it has not used
    yet.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._frame = make()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        rest = b""
        if data and not self._frame.needs_input:
            data, rest = b"", data
        plain = self._frame.decompress(data, BLOCK_BYTES)
        return plain, self._frame.unused_data + rest if self.eof else rest


class _ZstdFrame:
    """A frame of a .zst file. Its decompressor has no output limit, so it is fed little at a time:
    a block of four bytes can hold 128 KiB.
    """

    AT_ONCE = 1 << 10

    def __init__(self, decompressor: Any) -> None:
        self._frame = decompressor.decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._frame.decompress(data[: self.AT_ONCE])
        rest = data[self.AT_ONCE :]
        return plain, self._frame.unused_data + rest if self.eof else rest


class Decompressed(io.RawIOBase):
    """The decompressed bytes of consecutive frames, in bounded memory; damage is a `DataError`."""

    def __init__(self, file: BinaryIO, kind: str, name: str) -> None:
        super().__init__()
        self._file, self._name = file, name
        self._new, self._error = _decompressor(kind)
        self._frame: _CompressedFrame | None = None
        self._rest = b""
        """Bytes of the file that no frame has consumed yet."""
        self._ready = memoryview(b"")
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            self._ready = self._ready or self._decompress()
        except (EOFError, OSError, self._error) as error:
            raise DataError(
                f"{self._name}: the compressed data are truncated or corrupt after "
                f"{self._bytes:,} good bytes ({error}); get the file again"
            ) from error
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        self._bytes += size
        return size

    def _decompress(self) -> memoryview:
        """Return the next bytes; empty at the end."""
        while True:
            self._rest = self._rest or self._file.read(1 << 14)
            at_end = not self._rest
            if self._frame is None or self._frame.eof:
                if at_end:
                    return memoryview(b"")
                self._frame = self._new()
            # at the end of the file a frame may still hold bytes that it has not returned
            plain, self._rest = self._frame.feed(self._rest)
            if plain:
                return memoryview(plain)
            if at_end and not self._frame.eof:
                raise EOFError("the last frame has no end")

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _decompressor(kind: str) -> tuple[Callable[[], _CompressedFrame], type[Exception]]:
    """Return a function that makes a decompressor of one frame, and the error that it raises."""
    if kind == ".gz":
        return _ZlibFrame, zlib.error
    if kind == ".xz":
        new = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
        return partial(_BufferingFrame, new), lzma.LZMAError
    if kind == ".bz2":
        return partial(_BufferingFrame, bz2.BZ2Decompressor), OSError
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtra("zst", "zstandard", "reading .zst files") from error
    # 2**31 is the window of `zstd --long=31`, the largest possible one.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return partial(_ZstdFrame, decompressor), zstandard.ZstdError
