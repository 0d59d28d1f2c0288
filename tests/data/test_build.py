"""Text to shards: what comes out, the same for any workers, after a kill, on a full disk."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.data import build as build_file
from bertwright.data.build import build_shards
from bertwright.data.encode import BlockEncoder
from bertwright.data.shards import ShardWriter, open_shards
from bertwright.errors import BertwrightError, ConfigError, DataError
from bertwright.text.tokenizer.tokenizer import load_tokenizer, make_tokenizer
from bertwright.text.workers import map_in_order
from tests.raising import raises

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrst"
VOCABULARY = [*SPECIAL, *LETTERS, ".", ",", *(f"##{letter}" for letter in LETTERS)]
CHINESE = list("我们喜欢北京很大他说好。")


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer([*VOCABULARY, *CHINESE]).save(folder)
    return folder


def write_corpus(place: Path, documents: int = 40) -> Path:
    chance = np.random.default_rng(0)
    letters = np.array(list(LETTERS))
    words = ["".join(chance.choice(letters, chance.integers(1, 6))) for _ in range(300)]
    lines: list[str] = []
    for _ in range(documents):
        for _ in range(chance.integers(1, 9)):
            lines.append(" ".join(chance.choice(words, chance.integers(2, 12))) + " .")
        lines.append("")
    place.write_text("\n".join(lines), encoding="utf-8")
    return place


Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, tokenizer_folder: Path) -> Build:
    def build(name: str = "out", **options: Any) -> Path:
        corpus = tmp_path / "corpus.txt"
        if not corpus.exists():
            write_corpus(corpus)
        options = {"workers": 1, "block_characters": 500, "shard_tokens": 1500, **options}
        build_shards([str(corpus)], tmp_path / name, tokenizer_folder, **options)
        return tmp_path / name

    return build


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(place.relative_to(folder)): hashlib.sha256(place.read_bytes()).hexdigest()
        for place in sorted(folder.rglob("*"))
        if place.is_file()
    }


def test_shards_hold_the_ids_of_every_sentence(
    tmp_path: Path, tokenizer_folder: Path, build: Build
) -> None:
    folder = build(corpus=CorpusConfig(sentences="line"))
    shards = open_shards(folder)
    tokenizer = load_tokenizer(tokenizer_folder)
    text = (tmp_path / "corpus.txt").read_text(encoding="utf-8")
    documents = [part.strip().split("\n") for part in text.split("\n\n") if part.strip()]
    assert shards.num_documents == len(documents) == 40
    assert len(shards.manifest["shards"]) > 2
    sentence = 0
    for number, document in enumerate(documents):
        assert shards.document_sentences[number] == sentence
        for line in document:
            start, stop = (int(n) for n in shards.sentence_tokens[sentence : sentence + 2])
            ids = tokenizer.encode(line).ids[1:-1]
            assert shards.tokens(start, stop).tolist() == ids
            starts = [not token.startswith("##") for token in tokenizer.tokens_of(ids)]
            assert shards.word_starts(start, stop).tolist() == starts
            sentence += 1
    assert shards.manifest["counts"]["tokens"] == shards.num_tokens
    assert shards.manifest["counts"]["documents_lost"] == 0
    assert load_tokenizer(shards.tokenizer_folder).fingerprint == shards.tokenizer_fingerprint
    assert sorted(place.name for place in tmp_path.iterdir()) == ["corpus.txt", "out"]


def test_the_bytes_do_not_depend_on_the_workers(build: Build) -> None:
    one = build("one", workers=1)
    two = build("two", workers=2)
    assert hashes(one) == hashes(two)


def test_few_blocks_are_under_way(tokenizer_folder: Path) -> None:
    make = partial(BlockEncoder, load_tokenizer(tokenizer_folder), CorpusConfig())
    asked = 0

    def blocks() -> Any:
        nonlocal asked
        for _ in range(30):
            asked += 1
            yield ["a b c.\n"]

    with closing(map_in_order(make, blocks(), 2)) as encoded:
        done = 0
        for block in encoded:
            done += 1
            assert asked - done <= 5
            assert len(block.tokens) == 4
    assert done == 30


def break_off(build: Build, blocks: int, error: BaseException, **options: Any) -> None:
    """A build whose writer fails after some blocks."""
    append = ShardWriter.append
    left = blocks

    def failing(self: ShardWriter, block: Any) -> bool:
        nonlocal left
        if left == 0:
            raise error
        left -= 1
        return append(self, block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardWriter, "append", failing)
        build(**options)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"corpus": CorpusConfig(min_characters=1)}, r"differs in corpus\.min_characters"),
        ({"shard_tokens": 1600}, "differs in shard_tokens"),
        ("damage", r"unfinished build is damaged \(.*shard-00000\.tokens has 1 bytes"),
        ("journal", "unfinished build is damaged"),
        ("corpus", "differs in inputs"),
    ],
)
def test_says_why_it_starts_anew(
    tmp_path: Path, change: dict[str, Any] | str, note: str, build: Build
) -> None:
    with pytest.raises(KeyboardInterrupt):
        break_off(build, 8, KeyboardInterrupt())
    partial = tmp_path / ".out.building"
    if change == "damage":
        (partial / "shard-00000.tokens").write_bytes(b"x")
    elif change == "journal":
        (partial / "journal.json").write_text("{")
    elif change == "corpus":
        write_corpus(tmp_path / "corpus.txt", 41)
    notes: list[str] = []
    options = change if isinstance(change, dict) else {}
    out = build(on_note=notes.append, **options)
    assert len(notes) == 1
    assert re.search(f"^starting from scratch: .*{note}", notes[0])
    assert hashes(out) == hashes(build("fresh", **options))


def test_a_full_disk_loses_nothing(tmp_path: Path, build: Build) -> None:
    raises(BertwrightError, "is full", break_off, build, 8, FULL)
    partial = tmp_path / ".out.building"
    journal = json.loads((partial / "journal.json").read_text())
    left = sorted(place.name for place in partial.iterdir())
    assert left == sorted(["journal.json", *(n for s in journal["shards"] for n in s["files"])])
    notes: list[str] = []
    build(on_note=notes.append)
    assert notes[0].startswith("continuing after")


def test_a_full_disk_before_the_first_shard_leaves_nothing(tmp_path: Path, build: Build) -> None:
    raises(BertwrightError, "is full", break_off, build, 0, FULL)
    assert [place.name for place in tmp_path.iterdir()] == ["corpus.txt"]


@pytest.mark.parametrize("step", ["write_shards_manifest", "replace_folder"])
def test_what_stops_a_build_when_all_is_written_loses_nothing(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(build_file, step, failing)
        raises(BertwrightError, "is full", build)
    notes: list[str] = []
    out = build(on_note=notes.append)
    finished = len(open_shards(out).manifest["shards"])
    assert f"{finished} finished shards" in notes[0]
    assert hashes(out) == hashes(build("fresh"))


def test_an_existing_folder_is_kept_or_replaced_whole(tmp_path: Path, build: Build) -> None:
    out = build()
    before = hashes(out)
    raises(ConfigError, r"out .*--overwrite", build)
    with pytest.raises(KeyboardInterrupt):
        break_off(build, 3, KeyboardInterrupt(), overwrite=True)
    assert hashes(out) == before
    write_corpus(tmp_path / "corpus.txt", 5)
    build(overwrite=True)
    assert open_shards(out).num_documents == 5


def test_an_empty_corpus_is_an_error_and_leaves_nothing(tmp_path: Path, build: Build) -> None:
    (tmp_path / "corpus.txt").write_text(" \n\n \n")
    with pytest.raises(DataError):
        build()
    (tmp_path / "corpus.txt").write_text("\u200e\u200e\n\n\u200e\n")
    raises(DataError, r"no documents.*2 documents", build)
    assert [place.name for place in tmp_path.iterdir()] == ["corpus.txt"]


def test_lost_documents_and_unknown_words_are_counted(tmp_path: Path, build: Build) -> None:
    (tmp_path / "corpus.txt").write_text("a b.\n\n\u200e\n\nc Ω Ω\nd e\n", encoding="utf-8")
    counts = open_shards(build()).manifest["counts"]
    assert counts["documents_read"] == 3
    assert counts["documents"] == 2
    assert counts["documents_lost"] == 1
    assert counts["unknown_tokens"] == 2


def word_lengths(folder: Path) -> list[int]:
    shards = open_shards(folder)
    starts = np.flatnonzero(shards.word_starts(0, shards.num_tokens))
    return np.diff(starts, append=shards.num_tokens).tolist()


def test_chinese_words_come_from_a_segmented_corpus(tmp_path: Path, build: Build) -> None:
    (tmp_path / "corpus.txt").write_text("我们 喜欢 北京 。\n他 说 很好 。\n", encoding="utf-8")
    line = CorpusConfig(sentences="line")
    segmented = build("segmented", corpus=line, segmented=True)
    assert word_lengths(segmented) == [2, 2, 2, 1, 1, 1, 2, 1]
    (tmp_path / "corpus.txt").write_text("我们喜欢北京。\n他说很好。\n", encoding="utf-8")
    plain = build("plain", corpus=line)
    assert word_lengths(plain) == [1] * 12
    assert (plain / "shard-00000.tokens").read_bytes() == (
        segmented / "shard-00000.tokens"
    ).read_bytes()


def test_workers_below_zero(build: Build) -> None:
    raises(ConfigError, "workers is -1", build, workers=-1)
