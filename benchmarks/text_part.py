"""The first megabytes of a corpus, in a file; without torch, as memory is measured."""

from __future__ import annotations

from pathlib import Path

from bertwright.rows.open import open_bytes
from bertwright.text.corpus.find import find_files


def write_text(inputs: list[str], place: Path, megabytes: float) -> float:
    """Write the first `megabytes` of the inputs, cut at a line; return the MB written."""
    left = int(megabytes * 1e6)
    with place.open("wb") as out:
        for path in find_files(inputs):
            with open_bytes(path) as stream:
                while left > 0 and (data := stream.read(min(left, 1 << 20))):
                    left -= out.write(data)
    data = place.read_bytes()
    place.write_bytes(data[: data.rfind(b"\n") + 1])
    return place.stat().st_size / 1e6
