"""Files to read, written for one test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TaggingExample
from bertwright.labelled.file import Read, ReadOptions, Stream
from bertwright.labelled.read import read_examples, stream_examples
from bertwright.tasks.catalogue import kind_of


def parse(path: Path, kind: str, columns: Columns = Columns(), **options: Any) -> Read:  # noqa: B008
    """`read_examples` with these `ReadOptions`."""
    return read_examples(path, kind_of(kind).reader, columns, ReadOptions(**options))


def parse_stream(path: Path, kind: str, columns: Columns = Columns(), **options: Any) -> Stream:  # noqa: B008
    """`stream_examples` without labels, with these `ReadOptions`."""
    return stream_examples(
        path, kind_of(kind).reader, columns, ReadOptions(require_labels=False, **options)
    )


def tagged(read: Stream) -> list[tuple[str, str]]:
    """The words and the tags of each sentence."""
    examples = [each for each in read.examples if isinstance(each, TaggingExample)]
    return [(" ".join(each.words), " ".join(each.tags or ())) for each in examples]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a file of this name: bytes, text with its own line ends, or else JSON."""

    def write(name: str, content: Any) -> Path:
        if not isinstance(content, bytes | str):
            content = json.dumps(content, ensure_ascii=False)
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
