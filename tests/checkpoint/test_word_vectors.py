"""Files of word vectors: read and written as others do, and refused where they are damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bertwright
from bertwright.checkpoint.word_vectors.convert import export_vectors, import_vectors
from bertwright.checkpoint.word_vectors.files import (
    NamedVectors,
    read_vectors,
    write_binary,
    write_text,
)
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import open_words

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
        (b"a 1 2 3\na 4 5 6\n", "the word 'a' twice"),
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
        (whole.replace(b"the ", b"\xfft\xff "), "not UTF-8"),
        (whole.replace(b"b " + VECTORS[1].tobytes(), b"b " + b"\xff" * 12), "'b' .* not finite"),
        (whole.replace(b"b ", b"a "), "the word 'a' twice"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_vectors(path)


def test_a_file_becomes_a_model_and_a_file_again(tmp_path: Path) -> None:
    source, folder = tmp_path / "v.txt", tmp_path / "model"
    write_text(source, NamedVectors(WORDS[:1] + WORDS[2:], VECTORS[1:]))
    import_vectors(source, folder)
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
        export_vectors(folder, again)
    with pytest.raises(ConfigError, match=r"expected a file with one of \.vec"):
        export_vectors(folder, tmp_path / "again")
