"""Files of word vectors: read and written as others do, and refused where they are damaged."""

from __future__ import annotations

import gzip
import json
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.word_vectors import fasttext_file, files
from bertwright.models.word_vectors.config import FastTextConfig, FastTextRun
from bertwright.models.word_vectors.files import (
    NamedVectors,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.text.tokenizer.tokenizer import load_tokenizer

pytest.importorskip("numba")
WORDS = ["the", "new york", "Zürich", "don't", "a.b"]
VECTORS = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
VECTORS[0] = [1e-30, -3.4e38, 0]


def same(found: NamedVectors, words: list[str] = WORDS, vectors: object = VECTORS) -> bool:
    return found.words == words and np.array_equal(found.vectors, vectors)


@pytest.mark.parametrize("suffix", [".txt", ".bin"])
def test_written_and_read_bit_for_bit(tmp_path: Path, suffix: str) -> None:
    path, words = tmp_path / f"v{suffix}", WORDS
    if suffix == ".bin":
        with pytest.raises(DataError, match="'new york' holds a space"):
            write_binary(path, NamedVectors(words, VECTORS))
        words = [word.replace(" ", "_") for word in WORDS]
    (write_binary if suffix == ".bin" else write_text)(path, NamedVectors(words, VECTORS))
    assert same(read_vectors(path), words)
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert same(read_vectors(packed), words)


@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_ours_and_we_read_its(tmp_path: Path, binary: bool) -> None:
    vectors = pytest.importorskip("gensim.models").KeyedVectors
    words = [word.replace(" ", "_") for word in WORDS]
    path = tmp_path / ("v.bin" if binary else "v.vec")
    (write_binary if binary else write_text)(path, NamedVectors(words, VECTORS))
    theirs = vectors.load_word2vec_format(str(path), binary=binary)
    assert same(NamedVectors(theirs.index_to_key, theirs.vectors), words)
    theirs.save_word2vec_format(str(path), binary=binary)
    assert read_vectors(path).words == words
    np.testing.assert_allclose(read_vectors(path).vectors, VECTORS, rtol=1e-6)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_numbers_are_read_as_python_reads_them(tmp_path_factory, numbers: list[float]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("n") / "v.txt"
    for form in ("{:.9g}", "{:.8e}", "{:+.9E}"):
        shown = [form.format(x) for x in numbers]
        path.write_text("w " + " ".join(shown))
        expected = np.array([float(x) for x in shown], np.float32)
        np.testing.assert_allclose(read_vectors(path).vectors[0], expected, rtol=1e-7, atol=2e-45)


def test_a_mark_of_utf_8_is_no_letter(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    for header in ("", "2 2\n"):
        path.write_text(f"{header}a 1 2\nb 3 4\n", encoding="utf-8-sig")
        assert same(read_vectors(path), ["a", "b"], [[1, 2], [3, 4]])


def test_the_file_of_glove_has_no_first_line(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2.5 -3e-2\n. . . 4 5 6 \r\nat a@b.c 7 8 9\n")
    found = read_vectors(path)
    assert found.words == ["the", ". . .", "at a@b.c"]
    np.testing.assert_allclose(found.vectors, [[1, 2.5, -0.03], [4, 5, 6], [7, 8, 9]], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no vectors"),
        (b"2 3\n", "holds no vectors"),
        (b"a 1 2 3\nb 1 2\n", "line 2 of .* is not a word and 3"),
        (b"a 1 2 3\nb 1 2 3 4\n", "line 2 of .* is not a word and 3"),
        (b"a 1 2 3\nb 1 x 3\n", "line 2 of .* is not a word and 3"),
        (b"a 1 2 3\nb 1 nan 3\n", "line 2 of .* finite numbers"),
        (b"a 1 2 3\nb 1 1e99 3\n", "vector of 'b' .* is not finite"),
        (b"3 3\na 1 2 3\nb 4 5 6\n", "says 3 words, but it has 2"),
        (b"2 2\na 1 2 3\nb 4 5 6\n", "line 2 of .* is not a word and 2"),
        (b"9999999999999 3\na 1 2 3\n", "first line of .* is '9999999999999 3'"),
        (b"1 99999999\na 1 2 3\n", "at most 1,048,576"),
        (b"a 1 2 3\n\xe9t\xe9 4 5 6\n", "word 2 of .* is not UTF-8"),
        ("a 1 2 3\nb 4 5 6\n".encode("utf-16"), "ragged or not UTF-8"),
        (b"words vectors\na 1 2 3\n", "line 1 of .* is not a word and 1 finite"),
    ],
)
def test_a_damaged_text_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(path)
    assert run_verb(["convert", str(path), str(tmp_path / "out")]) == 4
    assert not (tmp_path / "out").exists()


def test_a_damaged_binary_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    write_binary(path, NamedVectors([*"abcd", "the"], VECTORS))
    whole = path.read_bytes()
    for content, message in (
        (whole[:-5], "is truncated"),
        (whole + b"more", "goes on after its 5"),
        (whole.replace(b"5 3", b"9 3", 1), "is truncated"),
        (whole[4:], "does not begin with a line of two numbers"),
        (whole.replace(b"b " + VECTORS[1].tobytes(), b"b " + b"\xff" * 12), "'b' .* not finite"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_vectors(path)


def test_the_first_of_a_word_that_comes_twice(tmp_path: Path) -> None:
    rows = [("a", [1, 2]), ("b", [3, 4]), ("a", [5, 6]), ("b", [7, 8]), ("a", [9, 0])]
    text = "".join(f"{word} {x} {y}\n" for word, (x, y) in rows).encode()
    (tmp_path / "v.txt").write_bytes(text)
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(text))
    binary = b"5 2\n" + b"".join(
        word.encode() + b" " + np.array(row, "<f4").tobytes() + b"\n" for word, row in rows
    )
    (tmp_path / "v.bin").write_bytes(binary)
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(binary))
    for name in ("v.txt", "v.txt.gz", "v.bin", "v.bin.gz"):
        found = read_vectors(tmp_path / name)
        assert same(found, ["a", "b"], [[1, 2], [3, 4]])
        assert any(note.startswith("3 rows") for note in found.notes), found.notes


def test_a_word_that_is_truncated_within_a_character(tmp_path: Path) -> None:
    cut = "né".encode()[:-1]
    (tmp_path / "v.txt").write_bytes(b"a 1 2\n" + cut + b" 3 4\n")
    vectors = np.array([[1, 2], [3, 4]], "<f4")
    rows = zip((b"a", cut), vectors, strict=True)
    binary = b"2 2\n" + b"".join(word + b" " + row.tobytes() + b"\n" for word, row in rows)
    (tmp_path / "v.bin").write_bytes(binary)
    for name in ("v.txt", "v.bin"):
        found = read_vectors(tmp_path / name)
        assert same(found, ["a", "n\ufffd"], vectors)
        assert found.notes[0].startswith("1 words")


@pytest.mark.slow
def test_a_compressed_file_takes_the_memory_of_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_HEAD", 1 << 12)
    monkeypatch.setattr(files, "_TEXT_BLOCK", 1 << 14)
    monkeypatch.setattr(files, "_LONGEST_LINE", 1 << 20)
    path = tmp_path / "v.vec.gz"

    def most(rows: int) -> int:
        path.write_bytes(gzip.compress(b"a 1 2 3\n" * rows, 1))
        tracemalloc.start()
        assert read_vectors(path).words == ["a"]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(1)  # numba compiles
    assert most(1 << 18) < most(1 << 15) + (10 << 20)  # at once they take 60 MB
    path.write_bytes(gzip.compress(bytes(8 << 20), 1))
    with pytest.raises(DataError, match=r"line 1 .* more than 1 MB"):
        read_vectors(path)


@pytest.mark.parametrize("blocks", [1, 7, 1 << 24])
def test_a_compressed_text_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.setattr(files, "_TEXT_BLOCK", blocks)
    path = tmp_path / "v.vec.gz"
    for text in ("2 2\na 1 2\nb 3 4\n", "2 2\r\na 1 2\r\nb 3 4", "a 1 2\nb 3 4"):
        path.write_bytes(gzip.compress(text.encode()))
        assert same(read_vectors(path), ["a", "b"], [[1, 2], [3, 4]])
    for text, message in (("3 2\na 1 2\nb 3 4\n", "says 3 words"), ("a 1 2\nb 3\n", "line 2 of")):
        path.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(DataError, match=message):
            read_vectors(path)


def test_a_text_is_read_in_the_words_of_the_file(tmp_path: Path) -> None:
    source, folder = tmp_path / "v.txt", tmp_path / "model"
    words = ["中国", "U.S.", "n't", "well-known", "Paris", "bank", ",", "new"]
    rows = np.eye(len(words), dtype=np.float32)
    write_text(source, NamedVectors(words, rows))
    assert run_verb(["convert", str(source), str(folder)]) == 0
    model = bertwright.load(folder)

    def read(text: str) -> list[str]:
        encoding = model.tokenizer.encode(text)
        assert model.tokenizer.encode_bare_ids([text]) == [encoding.ids]
        return encoding.tokens

    assert read("中国") == ["中国"]
    assert read("U.S. n't well-known") == ["U.S.", "n't", "well-known"]
    assert read('"U.S.," (well-known) BANK paris') == ["U.S.", "well-known", "bank", "Paris"]
    assert read("中国bank中国人") == ["中国", "bank", "中国", "[UNK]"]
    assert read("new-bank , other") == ["new", "bank", ",", "[UNK]"]
    encoding = model.tokenizer.encode("a (U.S.), x")
    assert encoding.offsets == [(0, 1), (3, 7), (10, 11)]
    np.testing.assert_array_equal(model.embed(["U.S.", "bank"]), rows[[1, 5]])
    np.testing.assert_array_equal(load_tokenizer(folder).encode("U.S.").ids, [1])


@pytest.mark.parametrize("name", ["<unk>", "UNK", "[UNK]"])
def test_the_row_of_unknown_words_by_its_name(tmp_path: Path, name: str) -> None:
    source, folder, again = tmp_path / "v.txt", tmp_path / "model", tmp_path / "again.vec"
    source.write_text(f"the 1 2\ncat 3 4\n{name} 9 9\n")
    found = convert(source, folder)
    assert any(repr(name) in note for note in found.notes)
    assert bertwright.load(folder).embed(["dog", "cat"]).tolist() == [[9, 9], [3, 4]]
    convert(folder, again, "word2vec")
    assert same(read_vectors(again), ["the", "cat", name], [[1, 2], [3, 4], [9, 9]])


def write_fasttext(path: Path, rows: np.ndarray, least: int) -> None:
    """A file of `fasttext skipgram -maxn 0`, whose `-minn` stays as it was given."""
    config = FastTextConfig(3, 2, buckets=0, min_n=0, max_n=0)
    counts = np.array([5, 4, 3])
    content = fasttext_file.FastTextFile(config, ["</s>", "the", "cat"], counts, rows, rows)
    fasttext_file.write(path, content)
    settings = bytearray(path.read_bytes())
    settings[8 + 9 * 4 : 8 + 10 * 4] = struct.pack("<i", least)
    path.write_bytes(settings)


@pytest.mark.parametrize("least", [0, 3])
def test_a_fasttext_without_ngrams(tmp_path: Path, least: int) -> None:
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    write_fasttext(tmp_path / "v.bin", rows, least)
    assert open_words(tmp_path / "v.bin").words == ["</s>", "the", "cat"]
    found = convert(tmp_path / "v.bin", tmp_path / "model")
    assert not any("n-grams" in note for note in found.notes)
    model = bertwright.load(tmp_path / "model")
    assert model.embed(["the", "cat", "dog"]).tolist() == [[3, 4], [5, 6], [3, 4]]  # dog: the mean
    convert(tmp_path / "model", tmp_path / "again.bin", "fasttext")
    np.testing.assert_array_equal(fasttext_file.read(tmp_path / "again.bin").rows[:3], rows)
    with pytest.raises(ConfigError, match="max_n"):
        FastTextRun(data="x", out="y", architecture=FastTextConfig(buckets=0, min_n=0, max_n=0))


def test_an_exported_fasttext_counts_each_word_and_has_the_used_inner_nodes(
    tmp_path: Path,
) -> None:
    rows, nodes = np.eye(3, 2, dtype=np.float32), np.array([[1, 2], [3, 4]], np.float32)
    config = FastTextConfig(3, 2, loss="hierarchical-softmax", buckets=0, min_n=0, max_n=0)
    content = fasttext_file.FastTextFile(config, ["a", "b", "c"], np.array([5, 4, 0]), rows, nodes)
    fasttext_file.write(tmp_path / "v.bin", content)
    convert(tmp_path / "v.bin", tmp_path / "model")  # adds a row of unknown words
    convert(tmp_path / "model", tmp_path / "again.bin", "fasttext")
    again = fasttext_file.read(tmp_path / "again.bin")
    assert (again.words, again.counts.tolist()) == (["a", "b", "c"], [5, 4, 1])
    np.testing.assert_array_equal(again.output, nodes)


def test_embed_says_how_many_words_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, texts, out = tmp_path / "model", tmp_path / "t.txt", tmp_path / "v.npy"
    convert(_file(tmp_path, ["the", "cat"]), folder)
    texts.write_text("the cat dog\ncat.\n\n")
    command = ["embed", "--model", str(folder), "--input", str(texts), "--out", str(out), "--json"]
    assert run_verb(command) == 0
    printed = capsys.readouterr()
    shown = json.loads(printed.out)
    assert (shown["words"], shown["unknown"]) == (5, 2)  # the empty line is an unknown word
    assert "read as [UNK]" in printed.err


def _file(folder: Path, words: list[str]) -> Path:
    path = folder / "source.vec"
    write_text(path, NamedVectors(words, np.eye(len(words), dtype=np.float32)))
    return path


def test_a_file_becomes_a_model_and_a_file_again(tmp_path: Path) -> None:
    source, folder = tmp_path / "v.txt", tmp_path / "model"
    write_text(source, NamedVectors(WORDS[:1] + WORDS[2:], VECTORS[1:]))
    convert(source, folder)
    model = bertwright.load(folder)
    vectors = model.embed(["the Zürich", "unseen"])
    np.testing.assert_allclose(vectors[0], (VECTORS[1] + VECTORS[2]) / 2, rtol=1e-5)
    np.testing.assert_allclose(vectors[1], VECTORS[1:].mean(0), rtol=1e-5)
    table = open_words(folder)
    assert table.words == WORDS[:1] + WORDS[2:]
    assert isinstance(table.vectors, np.memmap)
    np.testing.assert_array_equal(table.vectors, VECTORS[1:])
    again = tmp_path / "again.bin"
    assert run_verb(["convert", str(folder), str(again), "--to", "word2vec"]) == 0
    assert same(read_vectors(again), WORDS[:1] + WORDS[2:], VECTORS[1:])
    with pytest.raises(ConfigError, match="again"):
        convert(folder, again, "word2vec")
    with pytest.raises(ConfigError, match=r"expected a file with one of \.vec"):
        convert(folder, tmp_path / "again", "word2vec")
