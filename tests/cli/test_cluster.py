"""`--cluster`: the same vocabulary, shards and vectors as here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import JsonOf, Ran
from tests.text.cluster import start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a scheduler with two workers."""
    with start(2) as started:
        yield started.scheduler_address


def test_a_vocabulary_shards_and_vectors_are_those_made_here(
    address: str, tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a bad cab . a bee fed a deaf cad .\n\nda fee, a bed ?\n\n" * 40, "utf-8")
    made = {}
    for name, more in {"here": [], "there": ["--cluster", address]}.items():
        out = tmp_path / name
        sizes = ["--vocab-size", 30, "--out", out / "words"]
        ran("tokenizer", "train", corpus, *sizes, *more)
        ran("data", "build", corpus, "--tokenizer", tiny, "--out", out / "shards", *more)
        words = ["embed", "--model", tiny, "--input", corpus, "--max-length", 12, "--truncate"]
        found = json_of(*words, "--out", out / "v.npy", "--normalize", *more)
        assert (found["cut"], found["tokens_cut"]) == (80, 600)
        ran(*words, "--out", out / "t.jsonl", "--pooling", "none", *more)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        made[name] = {path.relative_to(out): path.read_bytes() for path in files}
    assert len(made["here"]) > 10
    for path, found in made["here"].items():
        assert made["there"][path] == found or path.name == "environment.json", path
    other = tmp_path / "other"
    error = ran(*words, "--out", other / "v.npy", "--cluster", "tcp://127.0.0.1:9", code=2).err
    assert "tcp://127.0.0.1:9" in error
