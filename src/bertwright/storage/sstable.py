"""Read and write table files of LevelDB, the format of the `.index` of a TensorFlow checkpoint.

    table  := block... index-block footer
    block  := entry... restart-offset (uint32)... their number (uint32)
    entry  := shared unshared length (varints) key-end value
    after each block: its type (one byte, 0 plain, 1 snappy) and the masked CRC-32C of both
    footer := metaindex-handle index-handle padding to 40 bytes, magic (uint64)
    handle := offset size (varints)

A key shares its first `shared` bytes with the key before it; at a restart it shares none. Keys are
in rising order.
Source: LevelDB, doc/table_format.md; TensorFlow, core/lib/io/table_builder.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from bertwright.errors import IntegrityError
from bertwright.storage.crc32c import masked

MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_LONGEST_KEY = 4 << 10
_MOST_KEYS = 16 << 20
"""The maximum number of bytes of all keys. Common prefixes are stored once, so a small file could
list keys of almost any total size."""


class Handle(NamedTuple):
    """The position of a block, without its trailer of five bytes."""

    offset: int
    size: int


def read_table(data: bytes, where: str) -> dict[bytes, bytes]:
    """Return all keys of a table with their values; the CRC of every block is verified.

    Args:
        data: the bytes of the file.
        where: names the file in messages.
    """
    if len(data) < _FOOTER or data[-8:] != struct.pack("<Q", MAGIC):
        raise IntegrityError(
            f"{where} does not end like an index of TensorFlow: it is truncated or another file"
        )
    footer = data[-_FOOTER:-8]
    _, position = _handle(footer, 0, where)
    index, _ = _handle(footer, position, where)
    table: dict[bytes, bytes] = {}
    last = None
    end = total = 0
    for _, value in _entries(_block(data, index, where), where):
        handle, _ = _handle(value, 0, where)
        if handle.offset < end:
            raise IntegrityError(f"{where} is damaged: its blocks overlap")
        end = handle.offset + handle.size
        for key, content in _entries(_block(data, handle, where), where):
            if last is not None and key <= last:
                raise IntegrityError(f"{where} is damaged: its keys are not in rising order")
            total += len(key)
            if total > _MOST_KEYS:
                raise IntegrityError(
                    f"{where} has more than {_MOST_KEYS} bytes of names; no checkpoint has so many"
                )
            table[key] = content
            last = key
    return table


def make_table(content: dict[bytes, bytes]) -> bytes:
    """Return the bytes of a table of one block, in which every key is stored whole."""
    last = max(content, default=b"")
    data, meta = _make_block(content), _make_block({})
    first = Handle(0, len(data))
    second = Handle(len(data) + 5, len(meta))
    index = _make_block({last: _packed(first)} if content else {})
    third = Handle(second.offset + len(meta) + 5, len(index))
    blocks = b"".join(block + _trailer(block) for block in (data, meta, index))
    footer = (_packed(second) + _packed(third)).ljust(_FOOTER - 8, b"\0")
    return blocks + footer + struct.pack("<Q", MAGIC)


def varint(value: int) -> bytes:
    """Return a number, 0 or more, as a varint: seven bits per byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def read_varint(data: bytes, position: int, where: str) -> tuple[int, int]:
    """Return the varint at a position, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                break
            return value, position
    raise IntegrityError(f"{where} is damaged: a number in it does not end")


def _handle(data: bytes, position: int, where: str) -> tuple[Handle, int]:
    offset, position = read_varint(data, position, where)
    size, position = read_varint(data, position, where)
    return Handle(offset, size), position


def _block(data: bytes, handle: Handle, where: str) -> bytes:
    """Return a block without its trailer, after verifying its CRC."""
    end = handle.offset + handle.size
    if end + 5 > len(data) - _FOOTER:
        raise IntegrityError(f"{where} is truncated or damaged: a block ends at byte {end}")
    kind = data[end]
    stored = struct.unpack_from("<I", data, end + 1)[0]
    if masked(data[handle.offset : end + 1]) != stored:
        raise IntegrityError(f"{where} is damaged: the CRC of the block at {handle.offset} differs")
    if kind != 0:
        raise IntegrityError(
            f"{where} has compressed blocks (type {kind}), which are not supported; TensorFlow's "
            "own savers do not compress"
        )
    return data[handle.offset : end]


def _entries(block: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block."""
    restarts = struct.unpack_from("<I", block, len(block) - 4)[0] if len(block) >= 4 else -1
    end = len(block) - 4 * (restarts + 1)
    if restarts < 0 or end < 0:
        raise IntegrityError(f"{where} is damaged: a block has no restarts")
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position, where)
        unshared, position = read_varint(block, position, where)
        length, position = read_varint(block, position, where)
        if shared > len(key) or position + unshared + length > end:
            raise IntegrityError(f"{where} is damaged: an entry ends after its block")
        if shared + unshared > _LONGEST_KEY:
            raise IntegrityError(
                f"{where} has a name of {shared + unshared} bytes; expected {_LONGEST_KEY} at most"
            )
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + length]
        position += length


def _packed(handle: Handle) -> bytes:
    return varint(handle.offset) + varint(handle.size)


def _make_block(entries: dict[bytes, bytes]) -> bytes:
    data, restarts = bytearray(), []
    for key in sorted(entries):
        restarts.append(len(data))
        data += varint(0) + varint(len(key)) + varint(len(entries[key])) + key + entries[key]
    restarts = restarts or [0]
    return bytes(data) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _trailer(block: bytes) -> bytes:
    return b"\0" + struct.pack("<I", masked(block + b"\0"))
