"""Files of vectors: every form and dtype, tokens, tables, whitened."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from bertwright.checkpoint.opened import open_model
from bertwright.config.vectors import VectorConfig
from bertwright.errors import DataError
from bertwright.inference.files.fit_whitening import fit_whitening
from bertwright.inference.files.stored_vectors import Coder, decode, read_vectors, scales_path
from bertwright.inference.files.texts import open_texts
from bertwright.inference.files.vectors import embed_file
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from tests.inference.files.conftest import TEXTS, Embed


def test_npy_is_in_order_and_maps(embed: Embed, embedder: Embedder, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    report = embed(out, at_once=5)
    found = np.load(out, mmap_mode="r")
    assert (report.rows, report.width, found.dtype) == (23, 24, np.float32)
    np.testing.assert_allclose(found, embedder.embed(TEXTS), atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "v.npy", "v.npy.key.json"}


def test_a_parquet_has_a_row_group_for_each_part(embed: Embed, tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    embed(out, at_once=5)
    assert parquet.read_table(out).column("text").to_pylist() == TEXTS
    assert parquet.ParquetFile(out).num_row_groups == 5


def test_scales_are_of_their_file(embed: Embed, embedder: Embedder, tmp_path: Path) -> None:
    other = embedder.with_config(VectorConfig((0,)))
    for maker, name in ((embedder, "q.npy"), (other, "q.jsonl")):
        embed(tmp_path / name, maker, dtype="int8")
    found = decode(*read_vectors(tmp_path / "q.npy"))
    assert np.abs(found - embedder.embed(TEXTS)).max() < 0.02
    assert scales_path(tmp_path / "q.jsonl").is_file()


def test_dtypes(embed: Embed, embedder: Embedder, tmp_path: Path) -> None:
    right = embedder.embed(TEXTS)
    for dtype in ("float16", "int8"):
        out = tmp_path / f"{dtype}.npy"
        embed(out, dtype=dtype)
        stored = np.load(out)
        assert stored.dtype == np.dtype(dtype)
        scales = np.load(scales_path(out)) if dtype == "int8" else None
        bound = 2e-3 if scales is None else scales[1] / 2 + 1e-6  # half a step
        assert (np.abs(decode(stored, scales) - right) <= bound).all()
    out = tmp_path / "b.npy"
    embed(out, dtype="binary")
    assert np.load(out).shape == (23, 3)
    np.testing.assert_array_equal(decode(np.load(out)) > 0, right > 0)
    signs = decode(Coder("binary")(np.array([[0, 2, -3, 0, 0, 1, 0, -1]], np.float32)))
    assert signs.tolist() == [[-1, 1, -1, -1, -1, 1, -1, -1]]


def test_int8_tells_what_it_clips(embedder: Embedder, folder: str, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a\na b\n" + "\n".join(TEXTS), encoding="utf-8")
    out = tmp_path / "v.npy"
    report = embed_file(
        embedder, open_texts(str(path)), out, open_model(folder), dtype="int8", at_once=2
    )
    assert report.clipped > 0


def test_tables_and_pairs(embedder: Embedder, folder: str, tmp_path: Path) -> None:
    rows = [
        {"sentence": a, "other": b, "id": n} for n, (a, b) in enumerate([("a", "b"), ("c", "d")])
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "v.parquet"
    embed_file(embedder, open_texts(str(source)), out, open_model(folder))
    found = parquet.read_table(out).to_pydict()
    assert found["text"] == ["a", "c"]
    np.testing.assert_allclose(found["vector"], embedder.embed(["a", "c"]), atol=1e-6)
    out = tmp_path / "v.jsonl"
    embed_file(embedder, open_texts(str(source), "sentence", "other"), out, open_model(folder))
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["text"] for each in found] == [["a", "b"], ["c", "d"]]
    right = embedder.embed([("a", "b"), ("c", "d")])
    np.testing.assert_allclose([each["vector"] for each in found], right, atol=1e-6)


def test_bad_rows(embedder: Embedder, folder: str, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"text": null}\n{"text": "b"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2: no text"):
        embed_file(
            embedder,
            open_texts(str(source)),
            tmp_path / "v.npy",
            open_model(folder),
            overwrite=True,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    texts = open_texts(str(source), bad_rows="skip")
    embed_file(embedder, texts, tmp_path / "v.npy", open_model(folder), overwrite=True)
    assert len(np.load(tmp_path / "v.npy")) == 2
    assert "1 left out, no text (line 2)" in texts.log.summary()[0]
    source.write_text('{"text": "a", "other": []}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"\[\] in the column other"):
        list(open_texts(str(source), "text", "other").rows)


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_tokens(embed: Embed, embedder: Embedder, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    embed(out, tokens=True, at_once=4)
    if name.endswith("jsonl"):
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = parquet.read_table(out).to_pylist()
    assert [each["text"] for each in found] == TEXTS
    right = embedder.embed_tokens(TEXTS)[3]
    assert found[3]["tokens"] == right.tokens
    assert [tuple(place) for place in found[3]["offsets"]] == right.offsets
    np.testing.assert_allclose(found[3]["vectors"], right.vectors, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parquet_holds_tokens_in_their_dtype(embed: Embed, tmp_path: Path, dtype: str) -> None:
    out = tmp_path / "t.parquet"
    embed(out, tokens=True, dtype=dtype)
    numbers = parquet.read_schema(out).field("vectors").type.value_type.value_type
    assert numbers.to_pandas_dtype() == np.dtype(dtype)


@pytest.mark.parametrize("tokens", [False, True])
def test_long_texts_make_parts_smaller(
    embedder: Embedder,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tokens: bool,
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a b\n" * 4 + "a b c d e\n" + "a b\n" * 3, encoding="utf-8")
    for name in ("CHARACTERS_AT_ONCE", "TOKENS_CHARACTERS_AT_ONCE"):
        monkeypatch.setattr(f"bertwright.inference.files.vectors.{name}", 7)
    done: list[int] = []
    embed_file(
        embedder,
        open_texts(str(path)),
        tmp_path / "v.jsonl",
        open_model(folder),
        tokens=tokens,
        on_progress=lambda rows, total: done.append(rows),
    )
    assert done == [2, 4, 5, 7, 8]


def test_whitening(embedder: Embedder, folder: str, lines: str, tmp_path: Path) -> None:
    whitening, count = fit_whitening(embedder, open_texts(lines), 4)
    assert count == 23
    whitening.save(tmp_path / "w.npz")
    path = tmp_path / "w.npz"
    loaded = load(folder, device="cpu").embedder(VectorConfig((-1,)), whitening=path)
    found = loaded.embed(TEXTS)
    assert found.shape == (23, 4)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(4), atol=1e-2)
