"""Opening files; what is truncated or corrupt."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.errors import DataError, MissingExtra
from bertwright.rows.open import open_bytes, open_with_position
from tests.raising import raises

TEXT = b"A line of text, again and again.\n" * 20_000


def _zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    packed: bytes = zstandard.ZstdCompressor().compress(data)
    return packed


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": _zstd,
}


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](TEXT)
    path = tmp_path / ("a.txt" + suffix)
    path.write_bytes(packed)
    with open_bytes(path) as stream:
        assert stream.read() == TEXT
    # Two streams one after another are one text, as `cat a.gz b.gz` makes them.
    path.write_bytes(packed + PACK[suffix](b"end"))
    stream, position = open_with_position(path)
    with stream:
        assert stream.read() == TEXT + b"end"
        assert position() == path.stat().st_size


@pytest.mark.parametrize("suffix", PACK)
def test_truncated_and_corrupt_files(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](TEXT)
    middle = len(packed) // 2
    flipped = packed[:middle] + bytes(255 - byte for byte in packed[middle:])
    for data in [packed[:-5], packed[:middle], flipped]:
        path = tmp_path / ("a.txt" + suffix)
        path.write_bytes(data)
        with (
            open_bytes(path) as stream,
            pytest.raises(DataError, match=r"a\.txt.* [\d,]+ good bytes"),
        ):
            stream.read()


@pytest.mark.parametrize("suffix", PACK)
def test_a_damaged_second_stream_is_no_end(tmp_path: Path, suffix: str) -> None:
    packed = PACK[suffix](TEXT)
    path = tmp_path / ("a.txt" + suffix)
    for tail in [b"garbage", packed[:6] + bytes(255 - byte for byte in packed[6:])]:
        path.write_bytes(packed + tail)
        with open_bytes(path) as stream, pytest.raises(DataError, match="corrupt"):
            stream.read()


def test_frames_to_skip(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.zst"
    path.write_bytes(b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + _zstd(b"text"))
    with open_bytes(path) as stream:
        assert stream.read() == b"text"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BufferedReader(io.BytesIO(TEXT))  # type: ignore[type-var]

    monkeypatch.setattr(sys, "stdin", Input)
    assert open_bytes(Path("-")).read() == TEXT
    Input.buffer.close()
    raises(DataError, r"standard input.*one file", open_bytes, Path("-"))
    monkeypatch.setattr(sys, "stdin", None)
    raises(DataError, "standard input.*closed", open_bytes, Path("-"))


def test_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt.zst").write_bytes(_zstd(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    raises(MissingExtra, r'pip install "bertwright\[zst\]"', open_bytes, tmp_path / "a.txt.zst")
