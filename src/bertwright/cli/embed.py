"""`bertwright embed`: turn a file of texts into a file of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from bertwright.atomic import refuse_existing
from bertwright.cli.options import EVERY_KEY, Flag, Json, Overwrite
from bertwright.cli.output import counted, print_json
from bertwright.cli.vectors import (
    Dimensions,
    InputFile,
    ModelPath,
    Normalize,
    VectorOptions,
    WhiteningFile,
    make_embedder,
    say_of_texts,
    say_truncated,
)
from bertwright.console import bar, say
from bertwright.errors import ConfigError
from bertwright.text.tokenizer.file_words import coverage

if TYPE_CHECKING:
    from bertwright.inference.files.texts import Texts
    from bertwright.inference.files.vectors import Embedded
    from bertwright.inference.vectors.embed import Embedder


def embed(
    *,
    model: ModelPath,
    input: InputFile,
    out: Path,
    options: Annotated[VectorOptions | None, EVERY_KEY] = None,
    normalize: Normalize = None,
    dimensions: Dimensions = None,
    whitening: WhiteningFile = None,
    dtype: Literal["float32", "float16", "int8", "binary"] = "float32",
    cluster: str | None = None,
    resume: Flag = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn texts into vectors, one row per text, in order.

    Args:
        out: The .npy, .jsonl or .parquet file to write: one row per text.
        dtype: Type of the stored numbers. int8 writes the scales to a second file; binary keeps
            only the signs.
        cluster: Address of a Dask scheduler, as tcp://host:8786, whose workers compute the vectors;
            they load the model from the same path.
        resume: Continue an interrupted run. If the file is complete, only check it.
    """
    options = options or VectorOptions()
    options.check()
    tokens = options.pooling == "none"
    if tokens and dimensions is not None:
        raise ConfigError("--dimensions is for vectors of texts; leave it out with --pooling none")
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.inference.files.stored_vectors import check_suffix, scales_path

    refuse_missing_model(model)
    check_suffix(out, tokens)
    # --resume checks a finished file, and continues an unfinished one beside the file it replaces
    refuse_existing(out, overwrite or resume)
    if dtype == "int8":
        refuse_existing(scales_path(out), overwrite or resume)
    texts = options.open_texts(input)
    from bertwright.checkpoint.opened import open_model
    from bertwright.inference.files.vectors import embed_file

    opened = open_model(model)
    embedder, settings = make_embedder(
        opened, texts, options, normalize=normalize, dimensions=dimensions, whitening=whitening
    )
    with bar("Embedding", "texts") as on_progress:
        embedded = embed_file(
            embedder,
            texts,
            out,
            opened,
            dtype=dtype,
            tokens=tokens,
            resume=resume,
            overwrite=overwrite,
            cluster=cluster,
            settings=settings,
            on_progress=on_progress,
        )
    _say_of_vectors(embedded, embedder)
    say_of_texts(texts, embedder)
    if json:
        print_json({"out": out, "dtype": dtype, **_facts(embedded, embedder, texts)})
        return
    rows = counted(embedded.rows, "text" if tokens else "vector")
    line = f"{rows}{', a vector per token of' if tokens else ' of'} "
    line += counted(embedded.width, "number")
    if embedded.complete:
        line += "; it was complete already, and nothing was left to do"
    print(f"{out}: {line}")


def _say_of_vectors(embedded: Embedded, embedder: Embedder) -> None:
    """Say how many vectors were resumed, and what was truncated, unknown or clipped."""
    if embedded.resumed and not embedded.complete:
        say(f"{embedded.resumed:,} were there already")
    say_truncated(embedded.truncated, embedded.tokens_truncated, embedder)
    if embedder.counts_words and embedded.words:
        say(coverage(embedded.words, embedded.unknown))
    if embedded.clipped:
        say(
            f"{embedded.clipped:,} numbers lie beyond the range of the first texts and were clipped"
        )


def _facts(embedded: Embedded, embedder: Embedder, texts: Texts) -> dict[str, Any]:
    """Return the facts about the vectors and the texts that `--json` prints."""
    facts = {
        "shape": [embedded.rows, embedded.width],
        "files": embedded.files,
        "backend": embedder.backend.name,
        "layers": list(embedder.layers),
        "pooling": embedder.config.pooling,
        "prompt": embedder.config.prompt,
        "empty": texts.empty,
        "invalid_utf8": texts.counts.invalid_utf8,
        "skipped": sum(reason.count for reason in texts.log.skipped.values()),
        "resumed": embedded.resumed,
        "cut": embedded.truncated,
        "tokens_cut": embedded.tokens_truncated,
    }
    if embedder.counts_words and embedded.words:
        facts |= {"words": embedded.words, "unknown": embedded.unknown}
    return facts
