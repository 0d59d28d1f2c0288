"""Folders of ELMo's published files, opened and written; their names and layout are in
`models/elmo/published.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.errors import DataError
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.elmo.encoder import Elmo
from bertwright.models.elmo.published import (
    OPTIONS,
    WEIGHTS,
    check_arrays,
    make_arrays,
    make_options,
    parse_arrays,
    parse_options,
)
from bertwright.nn.objective import Learner
from bertwright.storage import hdf5
from bertwright.storage.model_folder import read_json
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer


def is_published(folder: Path) -> bool:
    """Return whether a folder holds ELMo's published files."""
    return (folder / OPTIONS).is_file() and any(folder.glob("*.hdf5"))


def read(folder: Path, tokenizer: Tokenizer) -> Elmo:
    """Return the encoder in a folder, with the vocabulary of a tokenizer.

    Raises:
        ConfigError: it does not fit the memory.
        DataError: options of another architecture, or not those of the weights; says which array.
        IntegrityError: the weights are truncated, or not what the folder's manifest says.
        MissingExtra: h5py is not installed.
    """
    config, weights = check(folder, tokenizer.vocab_size)
    with hdf5.opened(weights) as file:
        state = parse_arrays(file, config)
    elmo = Elmo(config)
    elmo.load_state_dict(elmo.state_dict() | state)
    elmo.set_tokens(tokenizer.tokens_of(range(tokenizer.vocab_size)), ends_of(tokenizer.special))
    return elmo


def check(folder: Path, vocab_size: int) -> tuple[ElmoConfig, Path]:
    """Return the configuration of a folder and the path of its weights, after checking them. Names
    and shapes are compared; no weights are read.

    Raises:
        ConfigError, DataError, IntegrityError, MissingExtra: as `read`.
    """
    checkpoint.verify_folder(folder, (OPTIONS, *(path.name for path in folder.glob("*.hdf5"))))
    config = parse_options(read_json(folder / OPTIONS), folder / OPTIONS, vocab_size)
    files = sorted(folder.glob("*.hdf5"))
    if len(files) > 1:
        raise DataError(f"{folder} has {len(files)} .hdf5 files; expected one, its weights")
    with torch.device("meta"):
        checkpoint.require_memory(Learner(Elmo(config), {}), str(folder))
    with hdf5.opened(files[0]) as file:
        check_arrays(file, files[0], config)
    return config, files[0]


def write(folder: Path, config: ElmoConfig, state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write the parameters of an encoder, by our names, as `options.json` and `weights.hdf5`, and
    return the shape of each array by its name there.

    Raises:
        ConfigError: a model of one direction, which has no such files.
    """
    options = make_options(config)
    shapes = hdf5.write_arrays(folder / WEIGHTS, make_arrays(config, state))
    (folder / OPTIONS).write_text(json.dumps(options, indent=1) + "\n", encoding="utf-8")
    return shapes
