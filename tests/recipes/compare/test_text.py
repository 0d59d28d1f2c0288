"""The text of a comparison: nothing is in both parts, and vocabularies know the training text."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.data.shards import open_shards
from bertwright.errors import ConfigError, DataError
from bertwright.recipes.compare import text
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from tests.recipes.compare.conftest import write_text

LINES = CorpusConfig(sentences="line")


def parts(folders: text.TextFolders) -> tuple[list[str], list[str]]:
    """The lines of the training text and of the held-out text."""
    train, held_out = (
        [line for line in path.read_text("utf-8").splitlines() if line]
        for path in (folders.train, folders.held_out)
    )
    return train, held_out


def test_whole_documents_are_held_out(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=200, sentences=3)
    folders = text.TextFolders(tmp_path / "out")
    found = text.write_text([str(corpus)], LINES, folders, 0.1)
    train, held_out = parts(folders)
    assert len(train) + len(held_out) == 600
    assert found["train"]["documents"] + found["held_out"]["documents"] == 200
    assert 10 <= found["held_out"]["documents"] <= 30
    whole = corpus.read_text("utf-8").split("\n\n")
    assert set(folders.held_out.read_text("utf-8").split("\n\n")) <= {*whole, ""}


def test_of_few_documents_the_ends_are_held_out_after_a_gap(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=3, sentences=100)
    folders = text.TextFolders(tmp_path / "out")
    text.write_text([str(corpus)], LINES, folders, 0.05)
    train, held_out = parts(folders)
    assert (len(train), len(held_out)) == (3 * 85, 3 * 5)


def test_whole_documents_are_held_out_where_few_are_long_enough_for_their_ends(
    tmp_path: Path,
) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=40, sentences=20)
    corpus.write_text("\n".join(["a long document"] * 50) + "\n\n" + corpus.read_text("utf-8"))
    folders = text.TextFolders(tmp_path / "out")
    found = text.write_text([str(corpus)], LINES, folders, 0.1)
    whole = found["train"]["characters"] + found["held_out"]["characters"]
    assert found["held_out"]["characters"] > whole / 20


def test_no_more_characters_are_held_out_than_asked(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=400, sentences=3)
    folders = text.TextFolders(tmp_path / "out")
    found = text.write_text([str(corpus)], LINES, folders, 0.5, most=3000)
    assert 0 < found["held_out"]["characters"] <= 3000


def test_one_short_document_is_refused(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "one.txt", documents=1, sentences=20)
    with pytest.raises(DataError, match=r"one\.txt.*20 sentences"):
        text.write_text([str(corpus)], LINES, text.TextFolders(tmp_path / "out"), 0.05)


def test_vocabularies_and_shards_hold_the_training_text(corpus: Path, tmp_path: Path) -> None:
    config = CompareConfig(out=str(tmp_path / "out"), vocab_size=200, word_vocab_size=500)
    folders = text.TextFolders(tmp_path / "out")
    text.write_text([str(corpus)], LINES, folders, 0.2)
    found = text.train_vocabularies(folders, config, lowercase=True)
    words = load_tokenizer(folders.vocabulary / "words")
    known = {word for line in parts(folders)[0] for word in line.split()}
    assert known <= words.vocab.keys()
    assert found["words"]["size"] == len(known) + 5
    assert known == set(folders.words.read_text("utf-8").split("\n"))
    for data in ("words", "wordpieces"):
        counts = text.build(folders, data, ())
        assert counts["documents"] == open_shards(folders.shards / data).num_documents
    assert text.build(folders, "words", ())["unknown_tokens"] == 0


def test_too_little_text_and_too_small_a_vocabulary(tmp_path: Path, corpus: Path) -> None:
    small = text.TextFolders(tmp_path / "small")
    few = write_text(tmp_path / "few.txt", documents=10, sentences=4)
    text.write_text([str(few)], LINES, small, 0.2)
    config = CompareConfig(out=str(tmp_path / "small"))
    with pytest.raises(DataError, match="words"):
        text.train_vocabularies(small, config, lowercase=True)
    folders = text.TextFolders(tmp_path / "out")
    text.write_text([str(corpus)], LINES, folders, 0.2)
    with pytest.raises(ConfigError, match="--vocab-size"):
        text.train_vocabularies(folders, CompareConfig(out="", vocab_size=10), lowercase=True)


def test_translations_share_the_vocabularies(corpus: Path, tmp_path: Path) -> None:
    pair = tmp_path / "a.en", tmp_path / "a.de"
    pair[0].write_text("one house\n" * 5, "utf-8")
    pair[1].write_text("ein Haus\n" * 5, "utf-8")
    names = tuple(map(str, pair))
    config = CompareConfig(out=str(tmp_path / "out"), parallel=names)
    folders = text.TextFolders(tmp_path / "out")
    text.write_text([str(corpus)], LINES, folders, 0.2)
    text.train_vocabularies(folders, config, lowercase=False)
    assert {"house", "Haus"} <= load_tokenizer(folders.vocabulary / "words").vocab.keys()
    assert text.build(folders, "word-pairs", names)["documents"] == 5
    assert text.build(folders, "wordpiece-pairs", names)["documents"] == 5
