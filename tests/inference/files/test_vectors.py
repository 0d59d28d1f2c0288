"""Files of vectors: every form, killed and resumed, whitened; and what is refused."""

from __future__ import annotations

import copy
import gzip
import io
import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from bertwright.atomic import sha256_file, write_manifest
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.export.exported import Exported
from bertwright.checkpoint.opened import open_model
from bertwright.checkpoint.sentence_transformers.dense import Dense, DenseLayer
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.inference.backends.exported import ExportedBackend
from bertwright.inference.backends.plain import Backend, LayerBatch
from bertwright.inference.encode import Ids, Positions
from bertwright.inference.files.fit_whitening import fit_whitening
from bertwright.inference.files.similar import nearest
from bertwright.inference.files.stored_vectors import Coder, decode, read_vectors, scales_path
from bertwright.inference.files.texts import open_texts
from bertwright.inference.files.vector_parts import key_path, parts_path
from bertwright.inference.files.vectors import Embedded, embed_file
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.inference.vectors.whitening import Whitening
from tests.raising import raises
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


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffHello\n\ufeffb\n".encode())
    assert [text for text, _ in open_texts(str(path)).rows] == ["Hello", "b"]


@pytest.mark.parametrize(
    ("sent", "column", "expected"),
    [
        ('{"text": "one"}\n{"text": "two"}\n', None, ["one", "two"]),
        ('\ufeff{"id": 1, "sentence": "one"}\n', None, ["one"]),
        ('{"text": "one"}', None, ["one"]),
        ('{"a": "one"}\n', "a", ["one"]),
        ('{"a": "one"}\n', None, []),
        ('a,b\none,two\n"1, 2",three\n', "b", ["two", "three"]),
        ("a;b\n1,5;two\n", "b", ["two"]),
        ("a\tb\n1,5\ttwo\n", "b", ["two"]),
        ("{not an object}\n\n[1]\n", None, ["{not an object}", "", "[1]"]),
        ("one\n{}\n", None, ["one", "{}"]),
    ],
)
def test_standard_input_is_lines_or_a_table(
    sent: str, column: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(sent.encode())))
    monkeypatch.setattr(sys, "stdin", stream)
    if not expected:
        raises(DataError, r"it has 'a'\. Name one: --text COLUMN", open_texts, "-", column)
        return
    assert [text for text, _ in open_texts("-", column).rows] == expected


def test_npy_is_in_order_and_maps(embed: Embed, embedder: Embedder, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    report = embed(out, at_once=5)
    found = np.load(out, mmap_mode="r")
    assert (report.rows, report.width, found.dtype) == (23, 24, np.float32)
    np.testing.assert_allclose(found, embedder.embed(TEXTS), atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "v.npy", "v.npy.key.json"}


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.parquet"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_killed_run_goes_on(embed: Embed, tmp_path: Path, name: str, dtype: str) -> None:
    whole, out = tmp_path / "whole" / name, tmp_path / name
    embed(whole, dtype=dtype, at_once=5)
    embed.until_killed(out, dtype=dtype)
    assert not out.exists()
    (tmp_path / f"{name}.parts" / "00002").write_bytes(b"half a row, and no 00002.json")
    raises(ConfigError, "pass --resume to continue", embed, out, dtype=dtype)
    told: list[tuple[int, int | None]] = []
    report = embed(
        out,
        dtype=dtype,
        resume=True,
        at_once=5,
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert (report.resumed, report.rows) == (10, 23)
    assert told == [(5, 13), (10, 13), (13, 13)]
    assert out.read_bytes() == whole.read_bytes()
    assert not parts_path(out).exists()


CHANGES = ("open", "replace", "unlink", "rmdir")


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.parquet"])
def test_a_run_killed_at_any_change_of_the_disk_goes_on(
    embed: Embed, embedder: Embedder, tmp_path: Path, name: str
) -> None:
    """It replaces a file of other vectors, beside whose scales the new ones may never lie."""
    whole, out = tmp_path / "whole" / name, tmp_path / name
    options: dict[str, Any] = {"dtype": "int8", "at_once": 9}
    embed(whole, **options)
    new = whole.read_bytes(), scales_path(whole).read_bytes()
    other = embedder.with_config(VectorConfig((0,)))
    kills = 0
    for changes in itertools.count():
        embed(out, other, overwrite=True, **options)
        old = out.read_bytes(), scales_path(out).read_bytes()
        try:
            _until_killed(changes, lambda: embed(out, overwrite=True, **options))
        except Killed:
            kills += 1
        else:
            break
        if out.exists():
            assert (out.read_bytes(), scales_path(out).read_bytes()) in (old, new)
        try:
            embed(out, resume=True, **options)
        except ConfigError:  # killed before the first part: the old file is still complete
            assert embed(out, other, resume=True, **options).complete
        else:
            assert (out.read_bytes(), scales_path(out).read_bytes()) == new
            names = {name, f"{name}.key.json", f"{name}.scales.npy"}
            assert {path.name for path in tmp_path.glob(f"*{name}*")} == names
    assert kills > 30


def _until_killed(changes: int, run: Callable[[], Any], names: Sequence[str] = CHANGES) -> None:
    """Run something in a process that ends before it changes the disk once more."""
    left = [changes]

    def until_killed(change: Any) -> Any:
        def changed(path: Path, *values: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return change(path, *values, **options)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(Path, name, until_killed(getattr(Path, name)))
        run()


KILLED = """
import os, signal, sys
from pathlib import Path
from bertwright.config.vectors import VectorConfig
from bertwright.inference.model import load
from bertwright.inference.files.texts import open_texts
from bertwright.checkpoint.opened import open_model
from bertwright.inference.files.vectors import embed_file

def on_progress(done, total):
    if done >= 12:
        os.kill(os.getpid(), signal.SIGKILL)

folder, lines, out = sys.argv[1:]
embedder = load(folder, device="cpu").embedder(VectorConfig((-1,)))
embed_file(
    embedder,
    open_texts(lines),
    Path(out),
    open_model(folder),
    tokens=True,
    at_once=4,
    on_progress=on_progress,
)
"""


@pytest.mark.slow
def test_a_process_killed_at_its_tokens_goes_on(
    embed: Embed, embedder: Embedder, folder: str, lines: str, tmp_path: Path
) -> None:
    out = tmp_path / "t.parquet"
    done = subprocess.run([sys.executable, "-c", KILLED, folder, lines, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not out.exists()
    report = embed(out, tokens=True, resume=True, at_once=4)
    assert (report.resumed, report.rows) == (12, 23)
    found = parquet.read_table(out).to_pylist()
    assert [each["text"] for each in found] == TEXTS
    for each, right in zip(found, embedder.embed_tokens(TEXTS), strict=True):
        np.testing.assert_allclose(each["vectors"], right.vectors, atol=1e-5)
    assert not parts_path(out).exists()


def test_files_of_others_in_the_folder_of_parts_stay(embed: Embed, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    parts_path(out).mkdir()
    (parts_path(out) / "notes.txt").write_text("of a user")
    embed(out)
    assert [path.name for path in parts_path(out).iterdir()] == ["notes.txt"]
    assert embed(out, resume=True).complete


@pytest.mark.parametrize(("name", "twice"), [("v.npy", 0), ("v.jsonl", 0), ("v.parquet", 5)])
def test_rows_need_their_space_once(
    embed: Embed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, twice: int
) -> None:
    """A part is removed when it is in the whole file; Parquet's are read only with its end."""
    out = tmp_path / name
    left: list[int] = []
    real = sha256_file

    def of_whole(path: Path) -> str:
        if path.name == "whole":
            left.append(len(list(path.parent.glob("0000?"))))
        return real(path)

    monkeypatch.setattr("bertwright.inference.files.vector_parts.sha256_file", of_whole)
    embed(out, at_once=5)
    assert left == [twice]


def test_a_parquet_has_a_row_group_for_each_part(embed: Embed, tmp_path: Path) -> None:
    out = tmp_path / "v.parquet"
    embed(out, at_once=5)
    assert parquet.read_table(out).column("text").to_pylist() == TEXTS
    assert parquet.ParquetFile(out).num_row_groups == 5


def test_going_on_with_another_input_is_refused(embed: Embed, lines: str, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    embed.until_killed(out)
    Path(lines).write_text("z\n" + "\n".join(TEXTS[1:]) + "\n", encoding="utf-8")
    raises(DataError, "the input was changed", embed, out, resume=True)
    embed(out, overwrite=True)
    assert len(np.load(out)) == 23


@pytest.mark.parametrize(
    "changed", ["dtype", "tokens", "tokenizer", "whitening", "dense_weights", "prompt", "layers"]
)
def test_rows_of_two_kinds_are_never_in_one_file(
    embed: Embed, embedder: Embedder, tmp_path: Path, changed: str
) -> None:
    out = tmp_path / "v.jsonl"
    embed.until_killed(out)
    other = copy.copy(embedder)
    if changed == "tokenizer":
        other.tokenizer = SimpleNamespace(fingerprint="0" * 64)
    elif changed == "whitening":
        other.whitening = Whitening(np.zeros(24, np.float32), np.eye(24, dtype=np.float32))
    elif changed == "dense_weights":
        other.dense = (DenseLayer(Dense(24, 24, bias=False), torch.eye(24), None),)
    elif changed == "prompt":
        other = embedder.with_config(VectorConfig((-1,), prompt="the "))
    elif changed == "layers":
        other = embedder.with_config(VectorConfig((1,)))
    dtype = "float16" if changed == "dtype" else "float32"
    with pytest.raises(ConfigError, match=f"made with another {changed}[;.]"):
        embed(out, other, dtype=dtype, tokens=changed == "tokens", resume=True)


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.parquet"])
@pytest.mark.parametrize("damage", ["truncated", "zeros", "no rows", "no key", "half a record"])
def test_a_damaged_part_is_noticed(embed: Embed, tmp_path: Path, name: str, damage: str) -> None:
    out, parts = tmp_path / name, tmp_path / f"{name}.parts"
    embed.until_killed(out)
    rows, record = parts / "00001", parts / "00000.json"
    content = rows.read_bytes(), record.read_bytes()
    if damage == "truncated":
        rows.write_bytes(content[0][:-1])
    elif damage == "zeros":
        rows.write_bytes(content[0][:-40] + bytes(32) + content[0][-8:])
    elif damage == "no rows":
        rows.unlink()
    elif damage == "no key":
        (parts / "key.json").unlink()
    else:
        record.write_bytes(content[1][:-9])
    raises(IntegrityError, "damaged.*--overwrite", embed, out, resume=True)
    embed(out, resume=True, overwrite=True)
    assert embed(out, resume=True).rows == 23


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl"])
def test_a_damaged_beginning_of_the_whole_file_is_noticed(
    embed: Embed, tmp_path: Path, name: str
) -> None:
    out, whole = tmp_path / name, tmp_path / f"{name}.parts" / "whole"
    with pytest.raises(Killed):
        _until_killed(8, lambda: embed(out, at_once=5), ["unlink"])  # six are of records
    assert not (whole.parent / "00000").exists()
    content = whole.read_bytes()
    whole.write_bytes(content[:200] + bytes(8) + content[208:])
    raises(IntegrityError, "damaged.*--overwrite", embed, out, resume=True)
    whole.write_bytes(content)
    assert embed(out, resume=True).resumed == 23


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.parquet"])
def test_a_damaged_finished_file_is_noticed(embed: Embed, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    embed(out, dtype="int8")
    for path in (out, scales_path(out)):
        content = path.read_bytes()
        path.write_bytes(content[:-40] + bytes(32) + content[-8:])
        raises(IntegrityError, f"{path.name} was changed", embed, out, dtype="int8", resume=True)
        path.write_bytes(content)
    assert embed(out, dtype="int8", resume=True).complete
    key_path(out).unlink()
    raises(ConfigError, f"{name}.key.json.*--overwrite", embed, out, dtype="int8", resume=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
@pytest.mark.parametrize("name", ["v.npy", "v.jsonl", "v.parquet"])
def test_resuming_a_finished_file_checks_it(
    embed: Embed, embedder: Embedder, lines: str, tmp_path: Path, name: str, dtype: str
) -> None:
    out = tmp_path / name
    embed(out, dtype=dtype)
    content = out.read_bytes()
    report = embed(out, dtype=dtype, resume=True)
    assert (report.complete, report.rows, report.resumed) == (True, 23, 23)
    other = embedder.with_config(VectorConfig((0,)))
    raises(ConfigError, "another layers.*--overwrite", embed, out, other, dtype=dtype, resume=True)
    wrong = "float32" if dtype == "binary" else "binary"
    raises(ConfigError, "another dtype", embed, out, dtype=wrong, resume=True)
    for texts in (TEXTS[:-1], [*TEXTS, "a"], ["z", *TEXTS[1:]]):
        Path(lines).write_text("\n".join(texts) + "\n", encoding="utf-8")
        raises(DataError, "the input was changed", embed, out, dtype=dtype, resume=True)
    assert out.read_bytes() == content


def test_a_finished_parquet_without_pyarrow(
    embed: Embed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "v.parquet"
    embed(out)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert embed(out, resume=True).complete
    raises(MissingExtra, "pyarrow", embed, out, overwrite=True)


def test_a_finished_file_of_tokens_is_checked(embed: Embed, tmp_path: Path) -> None:
    out = tmp_path / "t.jsonl"
    embed(out, tokens=True)
    assert embed(out, tokens=True, resume=True).complete
    raises(ConfigError, "--overwrite", embed, out, resume=True)


def test_two_processes_never_write_one_file(
    embed: Embed, folder: str, lines: str, tmp_path: Path
) -> None:
    out = tmp_path / "v.npy"

    def on_progress(done: int, total: int | None) -> None:
        raises(DataError, f"another process is writing {out}", embed, out, overwrite=True)
        raises(DataError, f"another process is writing {out}", embed, out, resume=True)

    embed(out, at_once=12, on_progress=on_progress)
    assert len(np.load(out)) == 23
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("changed", ["weights", "config"])
@pytest.mark.parametrize("to", ["huggingface", "tensorflow"])
def test_going_on_with_another_model_is_refused(
    embed: Embed, folder: str, tmp_path: Path, to: str, changed: str
) -> None:
    """Its files decide, in any format, whatever their names."""
    one, other = tmp_path / "one", tmp_path / "other"
    convert(folder, one, to)
    if changed == "weights":
        convert(write_model(tmp_path / "model", ("masked_lm",)), other, to)
    else:
        shutil.copytree(one, other)
        path = other / ("config.json" if to == "huggingface" else "bert_config.json")
        path.write_text(path.read_text().replace('"gelu"', '"relu"'), encoding="utf-8")
        (other / "MANIFEST.json").unlink()
    out = tmp_path / "v.npy"
    embed.until_killed(out, model=str(one))
    raises(ConfigError, "made with another model", embed, out, model=str(other), resume=True)
    embed(out, model=str(one), resume=True)


def test_what_is_not_read_is_no_other_model(embed: Embed, folder: str, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "v.npy"
    shutil.copytree(folder, model)
    embed.until_killed(out, model=str(model))
    for name in ("training_args.bin", "trainer.safetensors"):
        (model / name).write_bytes(b"of a trainer")
    report = embed(out, model=str(model), resume=True)
    assert report.resumed == 10


class Export(ExportedBackend):
    """Computes as another backend does, in the name of an exported folder."""

    def __init__(self, inner: Backend, folder: Path) -> None:
        self.inner, self.name = inner, "onnx int8"
        self.exported = cast(Exported, SimpleNamespace(folder=folder))

    def run(
        self,
        ids: Ids,
        segments: Ids | None,
        layers: tuple[int, ...],
        positions: Positions | None = None,
    ) -> Iterator[LayerBatch]:
        return self.inner.run(ids, segments, layers, positions)


def test_going_on_with_another_export_is_refused(
    embed: Embed, embedder: Embedder, tmp_path: Path
) -> None:
    makers = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_text(name)
        write_manifest(tmp_path / name)
        maker = copy.copy(embedder)
        maker.backend = Export(embedder.backend, tmp_path / name)
        makers.append(maker)
    out = tmp_path / "v.npy"
    embed.until_killed(out, makers[0])
    raises(ConfigError, "made with another export", embed, out, makers[1], resume=True)
    raises(ConfigError, "made with another backend", embed, out, resume=True)
    assert embed(out, makers[0], resume=True).resumed == 10


def test_scales_are_of_their_file(embed: Embed, embedder: Embedder, tmp_path: Path) -> None:
    other = embedder.with_config(VectorConfig((0,)))
    for maker, name in ((embedder, "q.npy"), (other, "q.jsonl")):
        embed(tmp_path / name, maker, dtype="int8")
    found = decode(*read_vectors(tmp_path / "q.npy"))
    assert np.abs(found - embedder.embed(TEXTS)).max() < 0.02
    assert scales_path(tmp_path / "q.jsonl").is_file()


def test_old_vectors_never_lie_beside_new_scales(
    embed: Embed, embedder: Embedder, tmp_path: Path
) -> None:
    out = tmp_path / "q.npy"
    embed(out, dtype="int8")
    before = out.read_bytes(), scales_path(out).read_bytes()
    other = embedder.with_config(VectorConfig((0,)))
    embed.until_killed(out, other, overwrite=True, dtype="int8")
    assert (out.read_bytes(), scales_path(out).read_bytes()) == before
    embed(out, other, resume=True, dtype="int8", at_once=5)
    found = decode(*read_vectors(out))[:5]  # what the ranges are of
    assert np.abs(found - other.embed(TEXTS[:5])).max() < 0.02
    embed(out, other, overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "q.npy", "q.npy.key.json"}


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


def test_nearest_is_exact() -> None:
    chance = np.random.default_rng(0)
    corpus = chance.standard_normal((50, 8)).astype(np.float32)
    queries = chance.standard_normal((3, 8)).astype(np.float32)
    cosines = (queries @ corpus.T) / np.linalg.norm(corpus, axis=1)
    cosines /= np.linalg.norm(queries, axis=1, keepdims=True)
    rows, found = nearest(corpus, queries, 5)
    np.testing.assert_array_equal(rows, np.argsort(-cosines, axis=1)[:, :5])
    np.testing.assert_allclose(found, -np.sort(-cosines, axis=1)[:, :5], atol=1e-6)
    assert nearest(corpus[:2], queries, 5)[0].shape == (3, 2)
    assert nearest(np.tile(corpus[:1], (20, 1)), queries, 9)[0].tolist() == [[*range(9)]] * 3
    with pytest.raises(DataError, match=r"8 numbers.*5"):
        nearest(corpus, queries[:, :5], 5)
    raises(ConfigError, "top is 0", nearest, corpus, queries, 0)


@pytest.mark.parametrize(
    ("name", "content", "total"),
    [("a.txt", b"x\ny\n", 2), ("a.jsonl", b'{"text": "x"}\n', 1), ("a.csv", b"text\nx\n", None)],
)
def test_how_many_texts_are_to_come(
    tmp_path: Path, name: str, content: bytes, total: int | None
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    assert open_texts(str(tmp_path / name)).total == total
    assert open_texts(str(tmp_path / "b.txt.gz")).total is None
