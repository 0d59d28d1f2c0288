"""Files of vectors in parts: killed at any moment, resumed, damaged; and what is refused."""

from __future__ import annotations

import copy
import itertools
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
from bertwright.checkpoint.sentence_transformers.dense import Dense, DenseLayer
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.inference.backends.exported import ExportedBackend
from bertwright.inference.backends.plain import Backend, LayerBatch
from bertwright.inference.encode import Ids, Positions
from bertwright.inference.files.stored_vectors import decode, read_vectors, scales_path
from bertwright.inference.files.vector_parts import key_path, parts_path
from bertwright.inference.vectors.embed import Embedder
from bertwright.inference.vectors.whitening import Whitening
from tests.inference.files.conftest import TEXTS, Embed, Killed
from tests.raising import raises
from tests.small_bert import write_model


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
