"""CRC-32C against known vectors and its definition."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.storage import crc32c as file
from bertwright.storage.crc32c import crc32c, masked


def by_definition(data: bytes) -> int:
    """RFC 3720, one bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_vectors(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


def test_masked_as_leveldb_masks() -> None:
    crc = crc32c(b"foo")
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    assert masked(b"foo") == (rotated + 0xA282EAD8) & 0xFFFFFFFF
    assert masked(b"foo") != crc


@pytest.mark.parametrize(
    "size", [5684, 5685, 5686, 5687, 5693, 45_479, 45_480, 45_481, 45_488, 80_003]
)
def test_long_data(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert crc32c(data) == by_definition(data.tobytes())


def test_data_of_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "CHUNK", 1000)
    for size in (24_001, 24_000, 90_006):
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        assert crc32c(data) == by_definition(data.tobytes())


def test_one_bit_changes_it() -> None:
    data = bytearray(100_000)
    before = crc32c(data)
    for place in (0, 3, 4, 50_000, 99_999):
        data[place] ^= 16
        assert crc32c(data) != before
        data[place] ^= 16
