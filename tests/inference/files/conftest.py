"""A model, lines of text, and the file of their vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.checkpoint.opened import open_model
from bertwright.config.vectors import VectorConfig
from bertwright.inference.files.texts import open_texts
from bertwright.inference.files.vectors import Embedded, embed_file
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from tests.small_bert import write_model

TEXTS = [f"{'abcdefghij'[n % 10]} {'klmnop'[n % 6]}{' the' * (n % 4)}" for n in range(23)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model(tmp_path_factory.mktemp("vectors") / "model", ()))


@pytest.fixture(scope="module")
def embedder(folder: str) -> Embedder:
    return load(folder, device="cpu").embedder(VectorConfig((-1,)))


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return str(path)


class Embed:
    """`embed_file` of the lines, by the model, with what a test changes."""

    def __init__(self, embedder: Embedder, folder: str, lines: str) -> None:
        self.embedder, self.folder, self.lines = embedder, folder, lines

    def __call__(self, out: Path, embedder: Embedder | None = None, **options: Any) -> Embedded:
        folder = options.pop("model", self.folder)
        return embed_file(
            embedder or self.embedder, open_texts(self.lines), out, open_model(folder), **options
        )

    def until_killed(self, out: Path, embedder: Embedder | None = None, **options: Any) -> None:
        """The process ends after 10 rows of 23."""

        def on_progress(done: int, total: int | None) -> None:
            if done >= 10:
                raise Killed

        with pytest.raises(Killed):
            self(out, embedder, at_once=5, on_progress=on_progress, **options)


@pytest.fixture
def embed(embedder: Embedder, folder: str, lines: str) -> Embed:
    return Embed(embedder, folder, lines)


class Killed(Exception):
    """The end of a process, for a test."""


def write_search(folder: Path, qrels: str = "q1\td1\t1\nq1\td3\t2\nq2\td2\t1\n") -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [("d1", "a", "b c"), ("d2", "", "d e f"), ("d3", "g", "h"), ("q2", "", "d e")]
    lines = [{"_id": name, "title": title, "text": text} for name, title, text in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    asked = {"q1": "a b", "q2": "d e", "q3": "j"}
    queries = [{"_id": name, "text": text} for name, text in asked.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}")
    return folder
