"""A file of texts to a file of vectors, in constant memory: what `bertwright embed` runs.

Texts are read in parts of at most `AT_ONCE`, sorted by length among themselves, and written in the
file's order; after each part a journal notes it, so that a killed run continues there. Long texts
make a part smaller, so that memory does not grow with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Float32s
from bertwright.atomic import MANIFEST, disk_errors, sha256_file
from bertwright.checkpoint.checkpoint import find_checkpoint
from bertwright.checkpoint.sources import config_file, weight_files
from bertwright.config.values import differing_keys
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.backends.plain import ExportedBackend
from bertwright.inference.embed import Embedder
from bertwright.inference.encode import Text
from bertwright.inference.model import load
from bertwright.inference.text_files import Texts
from bertwright.inference.vector_files import (
    SUFFIXES,
    Coder,
    FinishedFile,
    ResumableWriter,
    Stored,
    decode,
    journal_path,
    scales_path,
)
from bertwright.inference.whitening import Moments, Whitening
from bertwright.machine import keep_freed_memory
from bertwright.progress import OnProgress, silent
from bertwright.text.workers import map_in_order

AT_ONCE, CHARACTERS_AT_ONCE = 8192, 1 << 23
TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE = 256, 1 << 17
"""The same when every token keeps its vector."""
ON_CLUSTER = 512
"""Texts that a worker of a cluster reads at once."""
_GOES_ON = "; with --resume it continues"


@dataclass(frozen=True)
class Embedded:
    """What was written."""

    rows: int
    width: int
    resumed: int
    """Rows that an earlier run had made."""
    truncated: int
    tokens_truncated: int
    words: int
    """Words that were read, of a model whose tokens are words; 0 of any other."""
    unknown: int
    """Those of them that the model does not have."""
    clipped: int
    """Numbers of int8 beyond the range of the first texts."""
    files: list[Path]
    complete: bool = False
    """Whether the file was there to its end, so that nothing was left to do."""


def embed_file(
    embedder: Embedder,
    texts: Texts,
    out: Path,
    model: str,
    *,
    dtype: Stored = "float32",
    tokens: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    at_once: int | None = None,
    cluster: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on_progress: OnProgress = silent,
) -> Embedded:
    """Write a vector for every text, in order.

    Args:
        model: the path it was loaded from; a resumed run must have the same weights.
        dtype: of the stored numbers; int8 has its scales in a file beside, `scales_path(out)`.
        tokens: a vector a token, with offsets; `.jsonl` or `.parquet`.
        resume: continue what a killed run left; a file that is finished is checked
            (`check_finished`).
        at_once: texts in memory.
        cluster: address of a Dask scheduler, whose workers load the model from the same path and
            make the vectors.
        settings: how they get such an embedder of it: what `Model.embedder` takes beside the
            configuration.
        on_progress: called with the texts done by this run, and how many it has to do.

    Raises:
        ConfigError: another suffix; an unfinished file, or one of other settings or weights; a
            cluster that is not there, or has other weights (`text/cluster.py`).
        DataError: a text that cannot be read, no text, or other texts than before; another
            process is writing the file.
        IntegrityError: what a killed run left is damaged.
    """
    check_suffix(out, tokens)
    if tokens and dtype not in ("float32", "float16"):
        raise ConfigError(f"--dtype {dtype} is for vectors of texts; tokens take float32, float16")
    if resume and not overwrite and out.is_file() and not journal_path(out).is_file():
        return check_finished(embedder, texts, out, dtype=dtype, tokens=tokens)
    most, characters = AT_ONCE, CHARACTERS_AT_ONCE
    if tokens:
        most, characters = TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE
    coder, key = Coder(dtype), _key(embedder, model, dtype, tokens)
    make_work: Callable[[], _Work] = partial(partial, _embed, embedder, tokens)
    if cluster is not None:
        most = min(most, ON_CLUSTER)
        path = str(Path(find_checkpoint(model)).resolve())
        make_work = partial(_on_worker, path, embedder.config, settings or {}, key, dtype, tokens)
    counts = Counts(0, 0, 0, 0)
    with disk_errors(out), closing(ResumableWriter(out, key, coder, resume, overwrite)) as writer:
        rows, resumed = (text for text, _ in texts.rows), writer.rows
        for part in _parts(islice(rows, resumed), AT_ONCE, CHARACTERS_AT_ONCE):
            writer.skip(part)
        writer.check_skipped()
        left = None if texts.total is None else texts.total - resumed
        parts = _parts(rows, at_once or most, characters)
        with closing(map_in_order(make_work, parts, 1, _GOES_ON, cluster)) as done:
            for part, found, own in done:
                columns: dict[str, Any] = {"text": part}
                if tokens:
                    columns["tokens"] = [each.tokens for each in found]
                    columns["offsets"] = [each.offsets for each in found]
                    columns["vectors"] = [coder(each.vectors) for each in found]
                else:
                    columns["vector"] = coder(found)
                writer.write(columns, part)
                counts = Counts(*map(sum, zip(counts, own, strict=True)))
                on_progress(writer.rows - resumed, left)
        if not writer.rows:
            why = " ".join(texts.log.summary())
            raise DataError(f"{texts.name} has no text to embed. {why}".strip())
        writer.finish()
    return Embedded(
        rows=writer.rows,
        width=embedder.width,
        resumed=resumed,
        **counts._asdict(),
        clipped=coder.clipped,
        files=[out, *([scales_path(out)] if dtype == "int8" else [])],
    )


CHECKED = 32
"""Texts whose vectors are made again to check a finished file."""


def check_finished(
    embedder: Embedder, texts: Texts, out: Path, *, dtype: Stored = "float32", tokens: bool = False
) -> Embedded:
    """What a file holds that was written to its end, checked against the texts and the embedder.

    The number of rows, their texts where the file has them, and the vectors of `CHECKED` texts
    spread over it are compared.

    Raises:
        ConfigError: it is not what `embed_file` would write.
    """
    finished = FinishedFile(out)
    positions = {finished.rows * n // CHECKED for n in range(CHECKED)}
    sample: list[Text] = []
    stored: list[Any] = []
    count, wrong = 0, ""
    for text, row in zip_longest((text for text, _ in texts.rows), finished):
        if text is None or row is None:
            more = "more" if row is None else "fewer"
            wrong = f"it has {finished.rows:,} rows, and the input {more} texts"
            break
        if row[0] is not None and row[0] != (text if isinstance(text, str) else list(text)):
            wrong = f"row {count + 1:,} is of another text"
            break
        if count in positions:
            sample.append(text)
            stored.append(row[1])
        count += 1
    if not wrong and count:
        rows = _rows(embedder, sample, tokens)
        wrong = _differing(rows, stored, Coder(dtype), finished.scales, out.suffix == ".npy")
    if wrong or not count:
        raise ConfigError(
            f"{out} exists already and is not what this command writes ({wrong or 'it is empty'}): "
            "choose another --out, or pass --overwrite"
        )
    files = [out, *([scales_path(out)] if dtype == "int8" else [])]
    return Embedded(count, embedder.width, count, 0, 0, 0, 0, 0, files, complete=True)


def _rows(embedder: Embedder, texts: list[Text], tokens: bool) -> list[Float32s]:
    """The vectors of each text, `[T, W]`; without `tokens` T is 1."""
    if tokens:
        return [each.vectors for each in embedder.embed_tokens(texts)]
    return list(embedder.embed(texts)[:, None])


def _differing(
    rows: list[Float32s], stored: list[Any], coder: Coder, scales: Float32s | None, npy: bool
) -> str:
    """How stored vectors differ from those made again; empty where they do not."""
    coder.scales = scales
    different = 0
    for vectors, there in zip(rows, stored, strict=True):
        own = coder(vectors)
        there = np.asarray(there).reshape(-1, np.shape(there)[-1])
        if npy:
            same_type = there.dtype == own.dtype
        else:  # lists of Python's numbers
            same_type = (there.dtype.kind == "f") == (own.dtype.kind == "f")
        if own.shape != there.shape or not same_type:
            return f"it holds {there.shape[-1]:,} numbers of type {there.dtype} a vector"
        old, new = (decode(each.astype(own.dtype), scales) for each in (there, own))
        # The same text in another batch is rounded otherwise, most in bf16 and int8.
        different += bool(np.linalg.norm(old - new) > 0.05 * np.linalg.norm(new) + 1e-6)
    if different:
        return f"of {len(rows):,} texts whose vectors were made again, {different:,} have others"
    return ""


class Counts(NamedTuple):
    """What an `Embedder` counts of texts."""

    truncated: int
    tokens_truncated: int
    words: int
    unknown: int


_Part = tuple[list[Text], Any, Counts]
"""Texts, their vectors or their tokens', and what was counted."""
_Work = Callable[[list[Text]], _Part]


def _embed(embedder: Embedder, tokens: bool, part: list[Text]) -> _Part:
    before = _counts(embedder)
    found = embedder.embed_tokens(part) if tokens else embedder.embed(part)
    counted = (now - then for now, then in zip(_counts(embedder), before, strict=True))
    return part, found, Counts(*counted)


def _counts(embedder: Embedder) -> Counts:
    return Counts(*(getattr(embedder, name) for name in Counts._fields))


def _on_worker(
    model: str,
    config: VectorConfig,
    settings: Mapping[str, Any],
    key: dict[str, Any],
    dtype: str,
    tokens: bool,
) -> _Work:
    """What a worker of a cluster does; ConfigError if its model is not the one of `key`."""
    keep_freed_memory()  # Dask has its workers return it at once: 1.3 times the time
    embedder = load(model).embedder(config, **settings)
    if differing := differing_keys(_key(embedder, model, dtype, tokens), key):
        raise ConfigError(f"{model} is another there: it differs in {', '.join(differing)}")
    return partial(_embed, embedder, tokens)


def fit_whitening(
    embedder: Embedder,
    texts: Texts,
    dimensions: int | None = None,
    on_progress: OnProgress = silent,
) -> tuple[Whitening, int]:
    """The whitening of a file's vectors, and of how many texts it is.

    Raises:
        ConfigError: more dimensions than a vector has numbers, or none.
        DataError: too few texts for so many dimensions, or texts that do not differ.
    """
    raw = embedder.raw()
    moments = Moments(raw.width)
    moments.check(dimensions)
    for part in _parts((text for text, _ in texts.rows), AT_ONCE, CHARACTERS_AT_ONCE):
        moments.add(raw.embed(part))
        on_progress(moments.count, texts.total)
    return moments.fit(dimensions), moments.count


def check_suffix(out: Path, tokens: bool) -> None:
    """Raise ConfigError unless vectors can be written so."""
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"--out is {out}; expected a name that ends in .npy, .jsonl or .parquet")
    if tokens and out.suffix == ".npy":
        raise ConfigError(
            f"--out is {out}; texts have tokens in different numbers: write .jsonl or .parquet"
        )


def _parts(texts: Iterator[Text], most: int, characters: int) -> Iterator[list[Text]]:
    """Lists of at most so many texts and characters; a text that has more is alone."""
    part: list[Text] = []
    size = 0
    for text in texts:
        length = len(text) if isinstance(text, str) else sum(map(len, text))
        if part and (len(part) == most or size + length > characters):
            yield part
            part, size = [], 0
        part.append(text)
        size += length
    if part:
        yield part


def _key(embedder: Embedder, model: str, dtype: str, tokens: bool) -> dict[str, Any]:
    """All that a row depends on, apart from its text."""
    checkpoint = find_checkpoint(model)
    files = [config_file(checkpoint), *weight_files(checkpoint)]
    white, backend = embedder.whitening, embedder.backend
    dense = [layer.dense.activation.encode() for layer in embedder.dense]
    dense += [x.numpy().tobytes() for layer in embedder.dense for x in layer.tensors.values()]
    export = isinstance(backend, ExportedBackend) and backend.exported.folder / MANIFEST
    return {
        "model": _digest([f"{path.name} {sha256_file(path)}\n".encode() for path in files]),
        "tokenizer": embedder.tokenizer.fingerprint,
        **asdict(embedder.config),
        "layers": list(embedder.layers),
        "backend": backend.name,
        "export": sha256_file(export) if export else None,
        "whitening": white and _digest([white.mean.tobytes(), white.kernel.tobytes()]),
        "dense_weights": _digest(dense),
        "dtype": dtype,
        "tokens": tokens,
    }


def _digest(parts: list[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()
