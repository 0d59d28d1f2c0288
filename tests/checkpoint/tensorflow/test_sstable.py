"""Table files against bytes made by hand, and damage to every byte of one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.checkpoint.tensorflow.crc32c import masked
from bertwright.checkpoint.tensorflow.sstable import make_table, read_table, read_varint, varint
from bertwright.errors import IntegrityError


def with_trailer(block: bytes, kind: bytes = b"\0") -> bytes:
    return block + kind + struct.pack("<I", masked(block + kind))


# Two entries, the second of which shares "ab" with the first; one restart, at 0.
DATA = bytes([0, 3, 1]) + b"abc" + b"1" + bytes([2, 1, 2]) + b"d" + b"22" + struct.pack("<II", 0, 1)
INDEX_AT = len(DATA) + 5 + 8 + 5
INDEX = bytes([0, 3, 2]) + b"abd" + bytes([0, len(DATA)]) + struct.pack("<II", 0, 1)
META = struct.pack("<II", 0, 1)
FOOTER = bytes([len(DATA) + 5, 8, INDEX_AT, len(INDEX)]).ljust(40, b"\0")
MAGIC = bytes.fromhex("57fb808b247547db")
TABLE = with_trailer(DATA) + with_trailer(META) + with_trailer(INDEX) + FOOTER + MAGIC


def test_a_table_made_by_hand() -> None:
    assert read_table(TABLE, "x") == {b"abc": b"1", b"abd": b"22"}
    assert make_table({b"abd": b"22", b"abc": b"1"}) == TABLE


def test_what_leveldb_writes_for_an_empty_table() -> None:
    """Blocks of one restart, as its own writer makes them, and its footer."""
    assert make_table({})[:9] == bytes([0, 0, 0, 0, 1, 0, 0, 0, 0])
    assert make_table({})[-8:] == MAGIC
    assert read_table(make_table({}), "x") == {}


@settings(max_examples=40)
@given(st.dictionaries(st.binary(max_size=12), st.binary(max_size=9), max_size=60))
def test_both_ways(content: dict[bytes, bytes]) -> None:
    assert read_table(make_table(content), "x") == content


def test_many_blocks_and_long_prefixes() -> None:
    content = {f"bert/encoder/layer_{n}/kernel".encode(): bytes(300) for n in range(1000)}
    table = make_table(content)
    assert read_table(table, "x") == content
    assert len(table) < sum(map(len, content)) + 300 * 1000  # prefixes are shared


def test_every_damaged_byte_is_found() -> None:
    """But in the unused part of the footer and the handle of the empty block."""
    spared = set(range(len(TABLE) - 44, len(TABLE) - 8))
    spared |= {len(TABLE) - 48, len(TABLE) - 47} | set(range(len(DATA) + 5, len(DATA) + 18))
    for place in set(range(len(TABLE))) - spared:
        damaged = bytearray(TABLE)
        damaged[place] ^= 0x41
        with pytest.raises(IntegrityError):
            read_table(bytes(damaged), "x")


@pytest.mark.parametrize("length", range(len(TABLE)))
def test_every_cut_is_found(length: int) -> None:
    with pytest.raises(IntegrityError, match="x does not end as an index"):
        read_table(TABLE[:length], "x")


def test_compressed_blocks() -> None:
    damaged = with_trailer(DATA, b"\1") + TABLE[len(DATA) + 5 :]
    with pytest.raises(IntegrityError, match=r"compressed blocks \(type 1\)"):
        read_table(damaged, "x")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"\0\0", "no restarts"),
        (struct.pack("<I", 1 << 31), "no restarts"),
        (bytes([1, 1, 0]) + b"a" + struct.pack("<II", 0, 1), "over its block"),
        (bytes([0, 9, 9]) + b"a" + struct.pack("<II", 0, 1), "over its block"),
        (bytes([0, 1, 0, 98, 0, 1, 0, 97]) + struct.pack("<II", 0, 1), "do not rise"),
        (bytes([0, 1, 0, 97, 0, 1, 0, 97]) + struct.pack("<II", 0, 1), "do not rise"),
        (b"\xff" * 12 + struct.pack("<II", 0, 1), "a number in it does not end"),
    ],
)
def test_blocks_whose_crc_is_right(block: bytes, message: str) -> None:
    index = bytes([0, 1, 2]) + b"z" + bytes([0, len(block)]) + struct.pack("<II", 0, 1)
    table = with_trailer(block) + with_trailer(index)
    footer = bytes([0, 8, len(block) + 5, len(index)]).ljust(40, b"\0") + MAGIC
    with pytest.raises(IntegrityError, match=message):
        read_table(table + footer, "x")


def growing(count: int, most: int) -> bytes:
    """A block whose keys have a byte more each, of which that byte alone is written."""
    place, data = 0, bytearray()
    for n in range(count):
        shared = min(n, most)
        fresh = struct.pack(">I", n) if shared == most else b"a"
        data += varint(shared) + varint(len(fresh)) + b"\0" + fresh
    return bytes(data) + struct.pack("<II", place, 1)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (growing(9_000, 9_000), "x has a name of 4097 bytes; expected 4096 at most"),
        (growing(9_000, 4_000), "x has names of over 16777216 bytes"),
    ],
)
def test_a_small_table_of_endless_names(block: bytes, message: str) -> None:
    index = bytes([0, 1]) + varint(1 + len(varint(len(block)))) + b"z\0" + varint(len(block))
    index += struct.pack("<II", 0, 1)
    footer = b"".join(map(varint, (0, 8, len(block) + 5, len(index)))).ljust(40, b"\0") + MAGIC
    with pytest.raises(IntegrityError, match=message):
        read_table(with_trailer(block) + with_trailer(index) + footer, "x")


@given(st.integers(0, 2**64 - 1))
def test_varints(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0, "x") == (value, len(data))


def test_varints_of_known_bytes() -> None:
    assert varint(300) == b"\xac\x02"
    with pytest.raises(IntegrityError, match="does not end"):
        read_varint(b"\xff" * 9 + b"\x7f", 0, "x")
