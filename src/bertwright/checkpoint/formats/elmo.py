"""Folders of ELMo's published files; `models/elmo/published.py` defines their names and layout.

The files have no vocabulary. The tokenizer of a text of the user's stands beside them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bertwright.checkpoint.formats.format import Contents, FileFormat, Imported
from bertwright.checkpoint.memory import require_memory
from bertwright.checkpoint.verify import verify_folder
from bertwright.errors import BertwrightError, ConfigError, DataError
from bertwright.models.elmo import encoder as elmo
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.elmo.published import (
    OPTIONS,
    WEIGHTS,
    check_arrays,
    make_arrays,
    make_options,
    parse_arrays,
    parse_options,
)
from bertwright.models.load import system_of_config
from bertwright.nn.objective import Learner
from bertwright.storage import hdf5
from bertwright.storage.model_folder import CONFIG, read_json
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.files import holds_tokenizer
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer


class Elmo(FileFormat):
    """Folders of ELMo's published files."""

    name = described_as = "elmo"
    architecture = "Elmo"

    def recognize(self, path: Path) -> bool:
        """Return whether a folder holds the files, and no `config.json` of a converted model."""
        return path.is_dir() and is_published(path) and not (path / CONFIG).is_file()

    def describe(self, path: Path) -> Contents:
        notes: tuple[str, ...] = ()
        tokens = 1
        if holds_tokenizer(path):
            try:
                tokens = load_tokenizer(path).vocab_size
            except BertwrightError:  # `inspect` reports why the tokenizer cannot be used
                tokens = 1
        else:
            notes = ("no tokenizer: copy one of words into the folder before it is converted",)
        config, _ = _check(path, tokens)
        with torch.device("meta"):
            encoder = elmo.Elmo(config)
        parameters = sum(parameter.numel() for parameter in encoder.parameters())
        return Contents(asdict(config), parameters, notes)

    def read(self, path: Path) -> Imported:
        """Return the encoder in a folder, with the vocabulary of the tokenizer beside it."""
        if not holds_tokenizer(path):
            raise DataError(
                f"{path} has no tokenizer.json: ELMo's files have no vocabulary; copy into it the "
                "tokenizer of your text (bertwright tokenizer train --algorithm word)"
            )
        verify_folder(path)
        tokenizer = load_tokenizer(path)
        config, weights = _check(path, tokenizer.vocab_size)
        with hdf5.opened(weights) as file:
            state = parse_arrays(file, config)
        encoder = elmo.Elmo(config)
        encoder.load_state_dict(encoder.state_dict() | state)
        tokens = tokenizer.tokens_of(range(tokenizer.vocab_size))
        encoder.set_tokens(tokens, ends_of(tokenizer.special))
        return Imported(Learner(encoder, {}), tokenizer, {"tokens": tokenizer.vocab_size})

    def check(self, config: Any, source: Path) -> None:
        if not isinstance(config, ElmoConfig):
            kind = system_of_config(config).row.name
            raise ConfigError(f"a folder of elmo is for ELMo only; this model is a {kind}")

    def write(
        self, learner: Learner, tokenizer: Tokenizer, out: Path, suffix: str = ""
    ) -> dict[str, Any]:
        """Write an encoder as `options.json` and `weights.hdf5`.

        Returns:
            The shape of each array, by its name in the file.
        """
        encoder: Any = learner.encoder
        options = make_options(encoder.config)
        arrays = make_arrays(encoder.config, encoder.state_dict())
        shapes = hdf5.write_arrays(out / WEIGHTS, arrays)
        (out / OPTIONS).write_text(json.dumps(options, indent=1) + "\n", encoding="utf-8")
        return shapes


def is_published(folder: Path) -> bool:
    """Return whether a folder holds ELMo's published files."""
    return (folder / OPTIONS).is_file() and any(folder.glob("*.hdf5"))


def _check(folder: Path, vocab_size: int) -> tuple[ElmoConfig, Path]:
    """Return the configuration of a folder and the path of its weights, after comparing the names
    and shapes of the arrays with the configuration. No weights are read."""
    verify_folder(folder, (OPTIONS, *(path.name for path in folder.glob("*.hdf5"))))
    config = parse_options(read_json(folder / OPTIONS), folder / OPTIONS, vocab_size)
    files = sorted(folder.glob("*.hdf5"))
    if len(files) > 1:
        raise DataError(f"{folder} has {len(files)} .hdf5 files; expected one, its weights")
    with torch.device("meta"):
        require_memory(Learner(elmo.Elmo(config), {}), str(folder))
    with hdf5.opened(files[0]) as file:
        check_arrays(file, files[0], config)
    return config, files[0]
