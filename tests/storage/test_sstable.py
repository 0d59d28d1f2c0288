"""Table files against bytes made by hand, and damage to every byte of one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.errors import IntegrityError
from bertwright.storage.crc32c import masked
from bertwright.storage.sstable import make_table, read_table, read_varint, varint
from tests.raising import raises


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


def table_of(*blocks: bytes, kind: bytes = b"\0") -> bytes:
    """A table of blocks whose CRCs are right, with an index over them."""
    data, index = b"", b""
    for n, block in enumerate(blocks):
        handle = varint(len(data)) + varint(len(block))
        index += bytes([0, 1, len(handle), ord("z") + n]) + handle
        data += with_trailer(block, kind)
    index += struct.pack("<II", 0, 1)
    footer = b"".join(map(varint, (0, 8, len(data), len(index)))).ljust(40, b"\0")
    return data + with_trailer(index) + footer + MAGIC


def test_tables_made_by_hand() -> None:
    content = {b"abc": b"1", b"abd": b"22"}
    assert read_table(TABLE, "x") == content
    second = bytes([0, 1, 1]) + b"b3" + struct.pack("<II", 0, 1)
    assert read_table(table_of(DATA, second), "x") == {**content, b"b": b"3"}
    raises(IntegrityError, "rising order", read_table, table_of(second, DATA), "x")


def test_what_is_written_stays_the_same() -> None:
    """A restart at each key, as LevelDB has them in its index."""
    block = bytes([0, 3, 1]) + b"abc1" + bytes([0, 3, 2]) + b"abd22" + struct.pack("<3I", 0, 7, 2)
    index = bytes([0, 3, 2]) + b"abd" + bytes([0, len(block)]) + struct.pack("<II", 0, 1)
    footer = bytes([len(block) + 5, 8, len(block) + 18, len(index)]).ljust(40, b"\0") + MAGIC
    expected = with_trailer(block) + with_trailer(META) + with_trailer(index) + footer
    assert make_table({b"abd": b"22", b"abc": b"1"}) == expected
    assert read_table(make_table({}), "x") == {}


@settings(max_examples=40)
@given(st.dictionaries(st.binary(max_size=12), st.binary(max_size=9), max_size=60))
def test_both_ways(content: dict[bytes, bytes]) -> None:
    assert read_table(make_table(content), "x") == content


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
    raises(IntegrityError, "x .*index", read_table, TABLE[:length], "x")


def test_compressed_blocks() -> None:
    with pytest.raises(IntegrityError, match=r"compressed blocks \(type 1\)"):
        read_table(table_of(DATA, kind=b"\1"), "x")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"\0\0", "no restarts"),
        (struct.pack("<I", 1 << 31), "no restarts"),
        (bytes([1, 1, 0]) + b"a" + struct.pack("<II", 0, 1), "after its block"),
        (bytes([0, 9, 9]) + b"a" + struct.pack("<II", 0, 1), "after its block"),
        (bytes([0, 1, 0, 98, 0, 1, 0, 97]) + struct.pack("<II", 0, 1), "rising order"),
        (bytes([0, 1, 0, 97, 0, 1, 0, 97]) + struct.pack("<II", 0, 1), "rising order"),
        (b"\xff" * 12 + struct.pack("<II", 0, 1), "number"),
    ],
)
def test_blocks_whose_crc_is_right(block: bytes, message: str) -> None:
    raises(IntegrityError, message, read_table, table_of(block), "x")


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
        (growing(9_000, 9_000), "x .*4097 bytes.*4096"),
        (growing(9_000, 4_000), "x .*16777216 bytes of names"),
    ],
)
def test_a_small_table_of_endless_names(block: bytes, message: str) -> None:
    raises(IntegrityError, message, read_table, table_of(block), "x")


@given(st.integers(0, 2**64 - 1))
def test_varints(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0, "x") == (value, len(data))


def test_varints_of_known_bytes() -> None:
    assert varint(300) == b"\xac\x02"
    raises(IntegrityError, "does not end", read_varint, b"\xff" * 9 + b"\x7f", 0, "x")
