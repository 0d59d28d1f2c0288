"""A file of texts to a file of vectors, in constant memory: what `bertwright embed` runs.

Texts are read in parts of at most `AT_ONCE`, sorted by length among themselves, and written in the
file's order; after each part a journal notes it, so that a killed run continues there. Long texts
make a part smaller, so that memory does not grow with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bertwright.atomic import MANIFEST, disk_errors, sha256_file
from bertwright.checkpoint.checkpoint import find_checkpoint
from bertwright.checkpoint.sources import config_file, weight_files
from bertwright.errors import ConfigError, DataError
from bertwright.inference.backends.plain import ExportedBackend
from bertwright.inference.embed import Embedder
from bertwright.inference.encode import Text
from bertwright.inference.text_files import Texts
from bertwright.inference.vector_files import SUFFIXES, Coder, ResumableWriter, Stored, scales_path
from bertwright.inference.whitening import Moments, Whitening
from bertwright.progress import OnProgress, silent

AT_ONCE, CHARACTERS_AT_ONCE = 8192, 1 << 23
TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE = 256, 1 << 17
"""The same when every token keeps its vector."""


@dataclass(frozen=True)
class Embedded:
    """What was written."""

    rows: int
    width: int
    resumed: int
    """Rows that an earlier run had made."""
    truncated: int
    tokens_truncated: int
    clipped: int
    """Numbers of int8 beyond the range of the first texts."""
    files: list[Path]


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
    on_progress: OnProgress = silent,
) -> Embedded:
    """Write a vector for every text, in order.

    Args:
        model: the path it was loaded from; a resumed run must have the same weights.
        dtype: of the stored numbers; int8 has its scales in a file beside, `scales_path(out)`.
        tokens: a vector a token, with offsets; `.jsonl` or `.parquet`.
        resume: continue what a killed run left.
        at_once: texts in memory.
        on_progress: called with the texts done by this run, and how many it has to do.

    Raises:
        ConfigError: another suffix; an unfinished file, or one of other settings or weights.
        DataError: a text that cannot be read, no text, or other texts than before.
    """
    check_suffix(out, tokens)
    if tokens and dtype not in ("float32", "float16"):
        raise ConfigError(f"--dtype {dtype} is for vectors of texts; tokens take float32, float16")
    most, characters = AT_ONCE, CHARACTERS_AT_ONCE
    if tokens:
        most, characters = TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE
    coder, key = Coder(dtype), _key(embedder, model, dtype, tokens)
    with disk_errors(out), closing(ResumableWriter(out, key, coder, resume, overwrite)) as writer:
        rows, resumed = (text for text, _ in texts.rows), writer.rows
        for part in _parts(islice(rows, resumed), AT_ONCE, CHARACTERS_AT_ONCE):
            writer.skip(part)
        writer.check_skipped()
        left = None if texts.total is None else texts.total - resumed
        for part in _parts(rows, at_once or most, characters):
            columns: dict[str, Any] = {"text": part}
            if tokens:
                found = embedder.embed_tokens(part)
                columns["tokens"] = [each.tokens for each in found]
                columns["offsets"] = [each.offsets for each in found]
                columns["vectors"] = [coder(each.vectors) for each in found]
            else:
                columns["vector"] = coder(embedder.embed(part))
            writer.write(columns, part)
            on_progress(writer.rows - resumed, left)
        if not writer.rows:
            why = " ".join(texts.log.summary())
            raise DataError(f"{texts.name} has no text to embed. {why}".strip())
        writer.finish()
    return Embedded(
        rows=writer.rows,
        width=embedder.width,
        resumed=resumed,
        truncated=embedder.truncated,
        tokens_truncated=embedder.tokens_truncated,
        clipped=coder.clipped,
        files=[out, *([scales_path(out)] if dtype == "int8" else [])],
    )


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
