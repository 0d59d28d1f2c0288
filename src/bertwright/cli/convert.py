"""`bertwright convert`: a model's folder in another format, with a report."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_fields, print_json, print_table
from bertwright.console import bar, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.checkpoint.convert import Conversion


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
    vectors = {"pooling": pooling, "normalize": normalize, "max_length": max_length}
    vectors = {name: value for name, value in vectors.items() if value is not None}
    of_target = {
        "sentence-transformers": list(vectors),
        "static": ["dimensions"] if dimensions is not None else [],
    }
    for target, names in of_target.items():
        if names and to != target:
            option = names[0].replace("_", "-")
            raise ConfigError(f"--{option} is for --to {target}; this is --to {to}")
    if to == "static":
        if average is not None:
            raise ConfigError(
                "--average writes a checkpoint with layers: convert that to static then"
            )
        from bertwright.inference.distill import distill

        with bar("Encoding the vocabulary", "tokens") as on_progress:
            table = distill(source, out, dimensions, overwrite, on_progress)
        _print_table_of_tokens(out, table.shape, json)
    else:
        from bertwright.checkpoint.convert import convert as write

        _print_conversion(write(source, out, to, overwrite, vectors or None, average), json)


def _print_table_of_tokens(out: Path, shape: tuple[int, ...], json: bool) -> None:
    """Print the number and the width of token vectors that were written."""
    facts: dict[str, Any] = {"tokens": shape[0], "width": shape[1]}
    if json:
        print_json({"out": out, "to": "static", **facts})
    else:
        print_fields({"written": out, **facts})


def _print_conversion(done: Conversion, json: bool) -> None:
    """Print what was written, and what of the source was read, is missing or was left out."""
    for note in done.notes:
        say(note)
    if json:
        facts = vars(done) | done.sizes
        del facts["sizes"]
        print_json(facts)
    elif done.sizes:
        print_fields({"written": done.out, **_shown(done.sizes)})
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


def _in_short(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, str, str]]:
    """Return rows of a name, a count and a shape, with one row for the same tensor of all layers.

    In such a name, `*` stands for the number of the layer.
    """
    groups = Counter(
        (re.sub(r"(layers?[._])\d+", r"\1*", name), " x ".join(map(str, shape)))
        for name, shape in shapes.items()
    )
    return [(name, f"{count}", shape) for (name, shape), count in groups.items()]
