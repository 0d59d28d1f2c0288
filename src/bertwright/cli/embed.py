"""`bertwright embed`: lines of text to vectors in a NumPy file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_json, say
from bertwright.errors import ConfigError, DataError


def embed(
    *,
    model: Annotated[str, Parameter(help="A run, a checkpoint or a Hugging Face BERT folder.")],
    input: Annotated[
        str,
        Parameter(
            help="A file with one text a line, or - for standard input.", allow_leading_hyphen=True
        ),
    ],
    out: Annotated[Path, Parameter(help="The .npy file to write: float32, one row a line.")],
    layers: Annotated[
        tuple[int, ...],
        Parameter(
            help="0 is the embeddings, 1 and up the layers, negative from the top; repeat to join.",
            allow_leading_hyphen=True,
        ),
    ] = (-2,),
    pooling: Annotated[
        Literal["mean", "max", "cls"], Parameter(help="How tokens become one vector.")
    ] = "mean",
    normalize: Annotated[bool, Parameter(help="Scale every vector to length 1.")] = False,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        Parameter(help="bfloat16 is faster where the processor has it, and keeps 2 to 3 digits."),
    ] = "float32",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn texts into vectors, one text a line."""
    from bertwright.atomic import disk_errors, refuse_existing

    if out.suffix != ".npy":
        raise ConfigError(f"--out is {out}; expected a name that ends in .npy")
    refuse_existing(out, overwrite)
    texts, repaired = _lines(input)

    import numpy as np

    from bertwright.inference.model import load

    loaded = load(model, precision=precision)
    with bar("Embedding", "tokens") as on_progress:
        vectors = loaded.embed(texts, layers, pooling, normalize, on_progress)
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.with_name(f".{out.name}.partial")
        try:
            with partial.open("wb") as file:
                np.save(file, vectors)
            partial.replace(out)
        finally:
            partial.unlink(missing_ok=True)
    empty = sum(not text.strip() for text in texts)
    if json:
        shape = list(vectors.shape)
        print_json({"out": out, "shape": shape, "empty": empty, "invalid_utf8": repaired})
        return
    if empty:
        say(f"{empty} lines are empty; their vectors are those of [CLS] [SEP]")
    if repaired:
        say(f"{repaired} lines were not valid UTF-8; their bad bytes became U+FFFD")
    print(f"{out}: {vectors.shape[0]:,} vectors of {vectors.shape[1]:,} numbers")


def _lines(source: str) -> tuple[list[str], int]:
    """The lines of a file, and how many were not valid UTF-8.

    Raises:
        DataError: no such file, or nothing in it.
    """
    from bertwright.text.files import open_bytes

    path = Path(source)
    if source != "-" and not path.is_file():
        raise DataError(f"no file {source}; --input takes a file with one text a line, or -")
    texts, repaired = [], 0
    with open_bytes(path) as file:
        for line in file:
            text = line.decode("utf-8", "replace")
            repaired += "\ufffd" in text and "\ufffd".encode() not in line
            texts.append(text.rstrip("\r\n"))
    if not texts:
        raise DataError(f"{source} is empty; expected one text a line")
    return texts, repaired
