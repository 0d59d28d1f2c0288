"""Read and write folders of ELMo's published files; `models/elmo/published.py` defines their names
and layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.verify import verify_folder
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
        ConfigError: the encoder does not fit in memory.
        DataError: the options are of another architecture, or do not fit the weights; the message
            names the array.
        IntegrityError: the weights are truncated, or do not match the folder's manifest.
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
    """Return the configuration of a folder and the path of its weights, after comparing the names
    and shapes of the arrays with the configuration. No weights are read.

    Raises:
        ConfigError, DataError, IntegrityError, MissingExtra: as for `read`.
    """
    verify_folder(folder, (OPTIONS, *(path.name for path in folder.glob("*.hdf5"))))
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
    """Write the parameters of an encoder as `options.json` and `weights.hdf5`.

    Args:
        folder: the folder to write to.
        config: the configuration of the encoder.
        state: the parameters, by our names.

    Returns:
        The shape of each array, by its name in the file.

    Raises:
        ConfigError: the model reads in one direction only, for which the format has no files.
    """
    options = make_options(config)
    shapes = hdf5.write_arrays(folder / WEIGHTS, make_arrays(config, state))
    (folder / OPTIONS).write_text(json.dumps(options, indent=1) + "\n", encoding="utf-8")
    return shapes
