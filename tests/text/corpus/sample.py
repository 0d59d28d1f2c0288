"""A corpus file as tests write it, and its documents."""

from __future__ import annotations

from pathlib import Path

from bertwright.config.corpus import CorpusConfig
from bertwright.text.corpus.read import CorpusReport, read_documents

DEFAULT = CorpusConfig()


def read(path: Path | str, config: CorpusConfig = DEFAULT) -> tuple[list[list[str]], CorpusReport]:
    report = CorpusReport()
    return list(read_documents([str(path)], config, report)), report


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path
