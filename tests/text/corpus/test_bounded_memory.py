"""Corpora whose files are small and whose text is not: memory does not grow with what they hold."""

from __future__ import annotations

import bz2
import lzma
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from bertwright.config.corpus import CorpusConfig
from bertwright.rows.open import open_bytes
from bertwright.text.corpus.read import CorpusReport, read_blocks
from bertwright.text.tokenizer import train
from bertwright.text.tokenizer.files import split_by_bytes

MEGABYTE = 1 << 20


def zstd() -> Any:
    return pytest.importorskip("zstandard").ZstdCompressor(level=19).compressobj()


COMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(6, zlib.DEFLATED, 31),
    ".bz2": bz2.BZ2Compressor,
    ".xz": lambda: lzma.LZMACompressor(preset=1),
    ".zst": zstd,
}


def peak_of(work: Callable[[], int]) -> tuple[int, float]:
    """Return what work returns, and the most memory of Python's that it held, in megabytes."""
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_compressed_file_is_decompressed_in_small_parts(tmp_path: Path, suffix: str) -> None:
    compressor, count = COMPRESSORS[suffix](), 120
    path = tmp_path / f"zeros.txt{suffix}"
    with path.open("wb") as file:
        for _ in range(count):
            file.write(compressor.compress(b"a" * MEGABYTE))
        file.write(compressor.flush())
    assert path.stat().st_size < MEGABYTE

    def read() -> int:
        with open_bytes(path) as stream:
            return sum(map(len, iter(lambda: stream.read(MEGABYTE), b"")))

    size, peak = peak_of(read)
    assert size == count * MEGABYTE
    assert peak < 2 * count / 3


def characters(path: Path) -> int:
    blocks = read_blocks([str(path)], CorpusConfig(), CorpusReport())
    return sum(len(text) for block in blocks for text in block)


def test_parquet_of_long_rows_is_read_few_rows_at_a_time(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    text, rows, path = "word " * (MEGABYTE // 10), 200, tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": [text] * rows}), path, compression="zstd")
    size, peak = peak_of(lambda: characters(path))
    assert size == rows * len(text.strip())
    assert peak < rows / 4


def test_rows_of_different_lengths_come_whole_and_in_order(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [f"{n} " + "x" * (3 * MEGABYTE if n % 211 == 100 else 5) for n in range(1500)]
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=700)
    blocks = read_blocks([str(path)], CorpusConfig(), CorpusReport())
    assert [text for block in blocks for text in block] == texts


@pytest.mark.parametrize(
    "text",
    ["It's a word,  or 12 words.\n\nNext \t line ends. " * 40, "solid" * 300, "a" + " " * 900],
)
def test_byte_bpe_is_trained_on_the_words_of_the_whole_document(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "PART_CHARACTERS", 64)
    backend = Tokenizer(models.BPE())
    split_by_bytes(backend)

    def words(text: str) -> list[str]:
        assert backend.pre_tokenizer is not None
        return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]

    parts: Iterator[str] = train.parts_of(text)
    found = list(parts)
    assert "".join(found) == text
    assert max(map(len, found)) <= 64
    if "word" in text:
        assert [word for part in found for word in words(part)] == words(text)
