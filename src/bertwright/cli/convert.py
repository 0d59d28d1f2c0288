"""`bertwright convert`: a model's folder in another format, with a report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_fields, print_json, print_table, say
from bertwright.errors import ConfigError


def convert(
    source: Annotated[Path, Parameter(name="SRC")],
    out: Annotated[Path, Parameter(name="DST")],
    *,
    to: Literal[
        "huggingface", "tensorflow", "sentence-transformers", "elmo", "word2vec", "fasttext", "arpa"
    ] = "huggingface",
    activation: Literal["gelu", "gelu_tanh"] | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    average: int | None = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Convert a model to another format.

    What was written is read back and compared before the folder gets its name.

    Args:
        source: A run, a checkpoint, a Hugging Face or sentence-transformers folder, a folder with
            pytorch_model.bin, a TensorFlow 1 checkpoint (its folder, or its name without .index),
            ELMo's options.json and .hdf5 beside a tokenizer, or a file of word vectors (.vec, .txt,
            .bin), or an n-gram model (.arpa).
        out: Folder to write; of word vectors and ARPA, a file.
        to: Format to write.
        activation: GELU that the source was trained with; unset: as its folder says.
        pooling: sentence-transformers: how tokens become one vector: mean, cls, max, mean-sqrt,
            weighted or last; several with +.
        normalize: sentence-transformers: scale every vector to length 1.
        max_length: sentence-transformers: maximum tokens of a text.
        average: Write the mean of the newest so many checkpoints of a run.
    """
    given = {"pooling": pooling, "normalize": normalize, "max_length": max_length}
    given = {name: value for name, value in given.items() if value is not None}
    if given and to != "sentence-transformers":
        option = next(iter(given)).replace("_", "-")
        raise ConfigError(f"--{option} is for --to sentence-transformers; this is --to {to}")

    from bertwright.checkpoint.word_vectors.files import is_vector_file

    if to == "word2vec" or to == "fasttext" or is_vector_file(source):
        _convert_words(source, out, to, overwrite, json)
        return
    from bertwright.checkpoint.arpa import is_arpa

    if to == "arpa" or is_arpa(source):
        _convert_ngrams(source, out, to, overwrite, json)
        return
    from bertwright.checkpoint.convert import convert as work

    done = work(source, out, to, overwrite, activation, given or None, average)
    if json:
        print_json(done.as_dict())
        return
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
    for note in done.notes:
        say(note)


def _convert_words(source: Path, out: Path, to: str, overwrite: bool, json: bool) -> None:
    from bertwright.checkpoint.word_vectors.convert import (
        export_fasttext,
        export_vectors,
        import_vectors,
    )

    if to not in ("huggingface", "word2vec", "fasttext"):
        raise ConfigError(
            f"--to is {to}; word vectors become a folder (huggingface), word2vec or fasttext"
        )
    writers = {"word2vec": export_vectors, "fasttext": export_fasttext}
    work = writers.get(to, import_vectors)
    found = work(source, out, overwrite)
    words, width = found.vectors.shape
    if json:
        print_json({"out": str(out), "to": to, "words": words, "width": width})
        return
    print_fields({"written": str(out), "words": f"{words:,}", "width": width})


def _convert_ngrams(source: Path, out: Path, to: str, overwrite: bool, json: bool) -> None:
    from bertwright.checkpoint.arpa import export_arpa, import_arpa

    if to not in ("huggingface", "arpa"):
        raise ConfigError(f"--to is {to}; an ARPA file becomes a folder (huggingface)")
    found = (export_arpa if to == "arpa" else import_arpa)(source, out, overwrite)
    if json:
        print_json({"out": str(out), "to": to, "ngrams": found.ngrams})
        return
    counts = {f"{k}-grams": f"{count:,}" for k, count in enumerate(found.ngrams, 1)}
    print_fields({"written": str(out), **counts})


def _in_short(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, str, str]]:
    """Tensors of all layers in one line."""
    groups: dict[tuple[str, str], int] = {}
    for name, shape in shapes.items():
        general = re.sub(r"(layers?[._])\d+", r"\1*", name)
        key = (general, " x ".join(map(str, shape)))
        groups[key] = groups.get(key, 0) + 1
    return [(name, f"{count}", shape) for (name, shape), count in groups.items()]
