"""A folder of a BERT in any format that is read: which one it is, its configuration, its weights.

| format | weights | configuration |
|---|---|---|
| `huggingface` | `model.safetensors`, or shards with an index | `config.json` |
| `tensorflow` | `NAME.index`, `NAME.data-*` | `bert_config.json` |

Whoever loads sees Hugging Face's names only (`names.py`). A place is a folder, or a TensorFlow
checkpoint by its name without `.index`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.checkpoint.huggingface import model as huggingface
from bertwright.checkpoint.huggingface import names
from bertwright.checkpoint.huggingface.model import Header
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.tensorflow import model as tensorflow
from bertwright.config.bert import BertConfig
from bertwright.errors import IntegrityError
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

AnyHeader = Header | tensorflow.Place
Headers = Mapping[str, AnyHeader]
"""Hugging Face's name -> file and shape."""


def home(place: Path) -> Path:
    """The folder of a place."""
    return place if place.is_dir() else place.parent


def place_of(path: Path) -> Path | None:
    """The model that a path is by itself, not by way of a run; None if it is none.

    Raises:
        DataError: a folder of several checkpoints, and nothing tells which is meant.
    """
    if path.is_dir():
        path = sentence_transformers.model_folder(path)
        plain = (path / huggingface.CONFIG).is_file()
        return path if plain or tensorflow.find_prefix(path) is not None else None
    prefix = tensorflow.find_prefix(path)
    if prefix is None:
        return None
    alone = len(list(prefix.parent.glob("*.index"))) == 1
    return prefix.parent if alone and format_of(prefix.parent) == "tensorflow" else prefix


def format_of(place: Path) -> str:
    """`huggingface` or `tensorflow`."""
    if not place.is_dir():
        return "tensorflow"
    weights = (huggingface.WEIGHTS, huggingface.INDEX)
    if any((place / name).is_file() for name in weights):
        return "huggingface"
    return "tensorflow" if tensorflow.find_prefix(place) is not None else "huggingface"


def config_file(place: Path) -> Path:
    """The file of the configuration."""
    folder = home(place)
    if format_of(place) == "huggingface":
        return folder / huggingface.CONFIG
    both = (folder / tensorflow.CONFIG, folder / huggingface.CONFIG)
    return next((path for path in both if path.is_file()), both[0])


def weight_files(place: Path) -> list[Path]:
    """The files that the weights are read from, but for heads in a file of their own.

    Raises:
        DataError, IntegrityError: as `read_headers`.
    """
    if format_of(place) == "huggingface":
        return sorted({header.file for header in huggingface.read_headers(place).values()})
    prefix = tensorflow.find_prefix(place)
    assert prefix is not None
    starts = (f"{prefix.name}.index", f"{prefix.name}.data-")
    return sorted(path for path in prefix.parent.iterdir() if path.name.startswith(starts))


def read_content(place: Path) -> dict[str, Any]:
    """What the file of the configuration says."""
    return huggingface.read_json(config_file(place))


def read_config(place: Path) -> BertConfig:
    """The shape of a BERT.

    Raises:
        DataError: no configuration, or one of no BERT of ours.
    """
    path = config_file(place)
    content = huggingface.read_json(path)
    config = huggingface.config_of(content, path)
    if path.name == tensorflow.CONFIG and content.get(tensorflow.ACTIVATION) is not None:
        activation = huggingface.activation_of(content[tensorflow.ACTIVATION], path)
        return replace(config, hidden_act=activation)
    return config


def read_tokenizer(folder: Path, config: BertConfig) -> Tokenizer:
    """The tokenizer of a folder, for the model of this shape that is in it.

    Raises:
        ConfigError: no tokenizer.
        IntegrityError: it has more tokens than the model has vectors.
    """
    tokenizer = load_tokenizer(folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise IntegrityError(
            f"the tokenizer of {folder} has {tokenizer.vocab_size} tokens; its model has "
            f"{config.vocab_size}: they do not belong together"
        )
    return tokenizer


def is_gelu_unclear(place: Path) -> bool:
    """Whether the configuration does not tell which of two GELUs it means (`tensorflow.py`)."""
    path = config_file(place)
    if path.name != tensorflow.CONFIG:
        return False
    content = huggingface.read_json(path)
    return tensorflow.ACTIVATION not in content and content.get("hidden_act", "gelu") == "gelu"


def read_headers(place: Path, layers: int) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
    """Hugging Face's name -> where a tensor is; and what training left beside them, in words.

    Args:
        place: of a model.
        layers: that its configuration tells of.

    Raises:
        DataError: no weights, a pickle, or a checkpoint of another model.
        IntegrityError: cut, damaged, or not of this configuration.
    """
    if format_of(place) == "tensorflow":
        prefix = tensorflow.find_prefix(place)
        assert prefix is not None
        found, left = tensorflow.read_places(prefix, layers)
        return dict(found), left
    return dict(huggingface.read_headers(place)), ()


def read_tensors(headers: Headers, wanted: Sequence[str]) -> dict[str, Tensor]:
    """Read tensors by Hugging Face's names; errors are those of `huggingface.read_tensors`."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Header] = {}
    for name in wanted:
        header = headers[name]
        if isinstance(header, Header):
            plain[name] = header
        else:
            tensors[name] = tensorflow.read(header)
    return tensors | huggingface.read_tensors(plain, list(plain))


def in_its_own_words(report: names.Report, headers: Headers, left: tuple[str, ...]) -> names.Report:
    """A report by the names that stand in the file, with what training left."""

    def own(listed: Sequence[str]) -> tuple[str, ...]:
        return tuple(_own_name(name, headers) for name in listed)

    tensorflows = any(isinstance(header, tensorflow.Place) for header in headers.values())
    missing = report.missing
    if tensorflows:
        missing = tuple(tensorflow.foreign_name(name)[0] for name in missing)
    return replace(
        report, matched=own(report.matched), unused=own(report.unused), missing=missing, left=left
    )


def check_links(folder: Path) -> None:
    """Refuse a folder with links that lead out of it: what is read and copied is the folder's own.

    A cache of the Hugging Face hub keeps `models--X/snapshots/R/FILE` as links to
    `models--X/blobs`; those are its own.

    Parts of a folder of sentence-transformers are its own, too.

    Raises:
        DataError: a `modules.json` that lists no parts.
        IntegrityError: such a link, with where it leads, or one that leads to itself.
    """
    folders = sentence_transformers.folders_of(folder)
    real = folders[0].resolve()
    inside = [real]
    if real.parent.name == "snapshots":
        inside.append(real.parent.parent / "blobs")
    for path in (path for each in folders for path in each.iterdir()):
        if path.is_symlink():
            target = Path(os.path.realpath(path))
            if target.is_symlink():
                raise IntegrityError(f"{path} is a link to itself; remove it")
            if not any(target.is_relative_to(place) for place in inside):
                raise IntegrityError(
                    f"{path} is a link out of its folder, to {target}; copy what it leads to "
                    "into the folder, if you trust it"
                )


def _own_name(name: str, headers: Headers) -> str:
    header = headers.get(name)
    return header.name if isinstance(header, tensorflow.Place) else name
