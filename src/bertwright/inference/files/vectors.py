"""Write the vectors of a file of texts to a file, for `bertwright embed`.

Texts are read in parts (`texts.bounded`), so that memory does not grow with the file or with
the length of its texts. The vectors of a part are written in the order of the file
(`vector_parts.py`), so that a killed run continues after them. On a cluster, the workers compute
the vectors of the parts, and this process writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bertwright.atomic import MANIFEST, disk_errors, sha256_file, sole_writer
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.config.values import differing_keys
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.backends.exported import ExportedBackend
from bertwright.inference.encode import Text
from bertwright.inference.files.stored_vectors import Coder, Stored, check_suffix, scales_path
from bertwright.inference.files.texts import AT_ONCE, CHARACTERS_AT_ONCE, Texts, bounded
from bertwright.inference.files.vector_parts import PartWriter, key_path
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.process_settings import keep_freed_memory
from bertwright.progress import OnProgress, silent
from bertwright.text.workers import map_in_order

TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE = 256, 1 << 17
"""The most texts, and characters of texts, of a part if a vector is written for every token."""
ON_CLUSTER = 512
"""The most texts that a worker of a cluster reads at once."""
_RESUME_HINT = "; with --resume it continues"
"""The end of the error message about a lost worker."""


@dataclass(frozen=True)
class Embedded:
    """The statistics of a file of vectors that was written."""

    rows: int
    """The number of rows, one for each text."""
    width: int
    """The width of a vector."""
    resumed: int
    """The number of rows that an earlier run had written."""
    truncated: int
    """The number of texts that were truncated."""
    tokens_truncated: int
    """The number of tokens that were left out of them."""
    words: int
    """The number of words that were read, if the model's tokens are words; otherwise 0."""
    unknown: int
    """The number of these words that the model does not know."""
    clipped: int
    """For int8, how many values were outside the range of the first texts and were clipped."""
    files: list[Path]
    """The file of vectors, its description, and for int8 the file of its scales."""
    complete: bool = False
    """Whether the file was already finished, so that there was nothing to do."""


def embed_file(
    embedder: Embedder,
    texts: Texts,
    out: Path,
    opened: Opened,
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
        opened: the model on disk; a resumed run must have the same weights.
        tokens: write a vector for every token, with its offsets; `.jsonl` or `.parquet`.
        resume: continue an interrupted run; a finished file is checked.
        at_once: the most texts in memory; None: a number that is fast.
        cluster: the address of a Dask scheduler, whose workers load the model from the same path
            and compute the vectors.
        settings: the arguments of `Model.embedder`, apart from the configuration, with which the
            workers create the same embedder.
        on_progress: called with the number of texts that this run has done, and the number that it
            has to do.
    """
    check_suffix(out, tokens)
    if tokens and dtype not in ("float32", "float16"):
        raise ConfigError(
            f"--dtype {dtype} is for vectors of texts; vectors of tokens (--pooling none) are "
            "stored as float32 or float16"
        )
    most, characters = AT_ONCE, CHARACTERS_AT_ONCE
    if tokens:
        most, characters = TOKENS_AT_ONCE, TOKENS_CHARACTERS_AT_ONCE
    coder, key = Coder(dtype), _key(embedder, opened, dtype, tokens)
    make_work: Callable[[], _Work] = partial(partial, _embed, embedder, tokens)
    if cluster is not None:
        most = min(most, ON_CLUSTER)
        path = str(opened.source.resolve())
        make_work = partial(_on_worker, path, embedder.config, settings or {}, key, dtype, tokens)
    counts = TextCounts(0, 0, 0, 0)
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        disk_errors(out),
        sole_writer(out),
        closing(PartWriter(out, key, coder, resume, overwrite)) as writer,
    ):
        complete, resumed = writer.finished is not None, writer.rows
        unread = (text for text, _ in texts.rows)
        for part in bounded(unread if complete else islice(unread, resumed)):
            writer.skip(part)
        writer.check_skipped()
        if not complete:
            parts = bounded(unread, at_once or most, characters)
            remaining = None if texts.total is None else texts.total - resumed
            work = map_in_order(make_work, parts, 1, _RESUME_HINT, cluster)
            with closing(work) as embedded:
                for part, vectors, counts_of_part in embedded:
                    writer.write(_columns(part, vectors, coder, tokens), part)
                    counts = TextCounts(*map(sum, zip(counts, counts_of_part, strict=True)))
                    on_progress(writer.rows - resumed, remaining)
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
        files=[out, key_path(out), *([scales_path(out)] if dtype == "int8" else [])],
        complete=complete,
    )


def _columns(part: list[Text], vectors: Any, coder: Coder, tokens: bool) -> dict[str, Any]:
    """Return the columns of the rows of a part; the last one holds the vectors."""
    if not tokens:
        return {"text": part, "vector": coder(vectors)}
    return {
        "text": part,
        "tokens": [text.tokens for text in vectors],
        "offsets": [text.offsets for text in vectors],
        "vectors": [coder(text.vectors) for text in vectors],
    }


class TextCounts(NamedTuple):
    """The counts of an `Embedder`, which has attributes of the same names."""

    truncated: int
    tokens_truncated: int
    words: int
    unknown: int


_Part = tuple[list[Text], Any, TextCounts]
"""The texts of a part, their vectors (or `TokenVectors`), and their counts."""
_Work = Callable[[list[Text]], _Part]


def _embed(embedder: Embedder, tokens: bool, part: list[Text]) -> _Part:
    """Return a part with its vectors and the embedder's counts for it."""
    before = _counts(embedder)
    vectors = embedder.embed_tokens(part) if tokens else embedder.embed(part)
    counted = (now - then for now, then in zip(_counts(embedder), before, strict=True))
    return part, vectors, TextCounts(*counted)


def _counts(embedder: Embedder) -> TextCounts:
    return TextCounts(*(getattr(embedder, name) for name in TextCounts._fields))


def _on_worker(
    model: str,
    config: VectorConfig,
    settings: Mapping[str, Any],
    key: dict[str, Any],
    dtype: str,
    tokens: bool,
) -> _Work:
    """Return the function that a cluster's worker applies to each part.

    It is an error if the worker's model is not the one that `key` describes.
    """
    keep_freed_memory()  # Dask's workers return freed memory at once, which takes 1.3 times as long
    opened = open_model(model)
    embedder = load(opened).embedder(config, **settings)
    if differing := differing_keys(_key(embedder, opened, dtype, tokens), key):
        raise ConfigError(
            f"the workers have another model at {model}: it differs in {', '.join(differing)}"
        )
    return partial(_embed, embedder, tokens)


def _key(embedder: Embedder, opened: Opened, dtype: str, tokens: bool) -> dict[str, Any]:
    """Return everything that a row depends on, apart from its text."""
    files = [opened.config_file, *opened.weight_files]
    white, backend = embedder.whitening, embedder.backend
    dense = [layer.dense.activation.encode() for layer in embedder.dense]
    dense += [x.numpy().tobytes() for layer in embedder.dense for x in layer.tensors.values()]
    export = isinstance(backend, ExportedBackend) and backend.exported.folder / MANIFEST
    return {
        "model": _digest([f"{path.name} {opened.sha256(path)}\n".encode() for path in files]),
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
