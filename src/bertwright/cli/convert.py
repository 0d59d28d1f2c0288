"""`bertwright convert`: a model's folder in another format, with a report."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_fields, print_json, print_table
from bertwright.console import bar, say
from bertwright.errors import ConfigError


def convert(
    source: Annotated[Path, Parameter(name="SRC")],
    out: Annotated[Path, Parameter(name="DST")],
    *,
    to: Literal[
        "huggingface",
        "tensorflow",
        "sentence-transformers",
        "static",
        "elmo",
        "word2vec",
        "fasttext",
        "arpa",
    ] = "huggingface",
    dimensions: int | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    average: int | None = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Convert a model to another format.

    The written folder is read back and compared with the source before it gets its name. Files of
    ELMo, word vectors and n-gram models, and static tables, are not compared.

    Args:
        source: A run, a checkpoint, a Hugging Face or sentence-transformers folder, a folder with
            pytorch_model.bin, a TensorFlow 1 checkpoint (its folder, or its name without .index),
            a folder with ELMo's options.json and .hdf5 and a tokenizer, a file of word vectors
            (.vec, .txt, .bin), or an n-gram model (.arpa).
        out: Folder to write; for --to word2vec, fasttext and arpa, a file.
        to: Format to write. static distils the model to a table of token vectors (a model2vec
            folder), which gives vectors of texts without computing layers.
        dimensions: static: the number of dimensions of a vector; unset: 256, or fewer if the model
            has fewer.
        pooling: sentence-transformers: how tokens become one vector: mean, cls, max, mean-sqrt,
            weighted or last; several are joined by +.
        normalize: sentence-transformers: scale every vector to length 1.
        max_length: sentence-transformers: maximum tokens of a text.
        average: Write the mean of this many of the newest checkpoints of a run.
    """
    given = {"pooling": pooling, "normalize": normalize, "max_length": max_length}
    given = {name: value for name, value in given.items() if value is not None}
    if given and to != "sentence-transformers":
        option = next(iter(given)).replace("_", "-")
        raise ConfigError(f"--{option} is for --to sentence-transformers; this is --to {to}")

    if to == "static":
        _distill(source, out, dimensions, average, overwrite, json)
        return
    if dimensions is not None:
        raise ConfigError(f"--dimensions is for --to static; this is --to {to}")

    from bertwright.checkpoint.convert import convert as write

    done = write(source, out, to, overwrite, given or None, average)
    for note in done.notes:
        say(note)
    if json:
        facts = vars(done) | done.sizes
        del facts["sizes"]
        print_json(facts)
    elif done.sizes:
        print_fields({"written": out, **_shown(done.sizes)})
    else:
        print_table(("tensors", "", "shape"), _in_short(done.shapes))
        print_fields(
            {
                "written": f"{done.out} ({done.to}, from {done.source_format})",
                "parts": ", ".join(done.parts),
                "parameters": done.parameters,
                "read": f"{len(done.matched)} tensors",
                "not in the source": ", ".join(done.missing) or "nothing",
                "unused": ", ".join(done.unused) or "nothing",
                **({"left by training": ", ".join(done.left)} if done.left else {}),
            }
        )


def _shown(sizes: dict[str, Any]) -> dict[str, Any]:
    """Return what a file of another program holds, with a number for each order of n-grams."""
    if "ngrams" not in sizes:
        return sizes
    return {f"{k}-grams": count for k, count in enumerate(sizes["ngrams"], 1)}


def _distill(
    source: Path,
    out: Path,
    dimensions: int | None,
    average: int | None,
    overwrite: bool,
    json: bool,
) -> None:
    """Distil a model into a table of token vectors, and print their number and width."""
    if average is not None:
        raise ConfigError("--average writes a checkpoint with layers: convert that to static then")
    from bertwright.inference.distill import distill

    with bar("Encoding the vocabulary", "tokens") as on_progress:
        table = distill(source, out, dimensions, overwrite, on_progress)
    facts: dict[str, Any] = {"tokens": table.shape[0], "width": table.shape[1]}
    if json:
        print_json({"out": out, "to": "static", **facts})
    else:
        print_fields({"written": out, **facts})


def _in_short(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, str, str]]:
    """Return rows of a name, a count and a shape, with one row for the same tensor of all layers.

    In such a name, `*` stands for the number of the layer.
    """
    groups = Counter(
        (re.sub(r"(layers?[._])\d+", r"\1*", name), " x ".join(map(str, shape)))
        for name, shape in shapes.items()
    )
    return [(name, f"{count}", shape) for (name, shape), count in groups.items()]
