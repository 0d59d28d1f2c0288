"""The published files of ELMo, `options.json` and one `.hdf5` of weights, read and written.

Source: allenai/bilm-tf (`bilm/model.py`, `bilm/training.py`). TensorFlow's names and layouts:

| theirs | ours |
|---|---|
| `char_embed` `[261, size]` | `token.bytes` |
| `CNN/W_cnn_I` `[1, width, size, number]`, `b_cnn_I` | `token.convolutions.I` |
| `CNN_high_K/W_carry`, `W_transform` `[in, out]`, `b_*` | `token.highways.K` |
| `CNN_proj/W_proj` `[in, out]`, `b_proj` | `token.projection` |
| `RNN_D/RNN/MultiRNNCell/CellL/LSTMCell/W_0` `[in + state, 4 dim]`, `B`, `W_P_0` | `layers.L.D` |

Gates are in the order i, g, f, o there and i, f, g, o here, and 1 is added to f when it runs there.
The files have no vocabulary: a token is spelled by its bytes, so any tokenizer of words will do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint.model_folder import read_json
from bertwright.config.runs.language_models import ElmoConfig
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.models.elmo import Elmo
from bertwright.nn.characters import CHARACTERS
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
_DIRECTIONS = ("RNN_0", "RNN_1")
_DIFFERENT = f"which is not what {OPTIONS} says: they belong to different models; fetch both of one"


def is_published(folder: Path) -> bool:
    """Whether a folder holds files of this kind."""
    return (folder / OPTIONS).is_file() and any(folder.glob("*.hdf5"))


def read(folder: Path, tokenizer: Tokenizer) -> Elmo:
    """The encoder in a folder, its vocabulary that of a tokenizer.

    Raises:
        DataError: options of another architecture, or not those of the weights; says which tensor.
        IntegrityError: the weights are truncated.
        MissingExtra: h5py is not installed.
    """
    config = _config(read_json(folder / OPTIONS), folder / OPTIONS, tokenizer.vocab_size)
    files = sorted(folder.glob("*.hdf5"))
    if len(files) > 1:
        raise DataError(f"{folder} has {len(files)} .hdf5 files; expected one, its weights")
    elmo = Elmo(config)
    state = elmo.state_dict()
    h5py = _h5py()
    try:
        with h5py.File(files[0], "r") as file:
            for ours, theirs, convert in _mappings(config):
                if theirs not in file:
                    raise DataError(f"{files[0]} has no {theirs}, {_DIFFERENT}")
                array = torch.from_numpy(convert(np.asarray(file[theirs], np.float32), True))
                if array.shape != state[ours].shape:
                    raise DataError(
                        f"{theirs} in {files[0]} is {list(file[theirs].shape)}, {_DIFFERENT}"
                    )
                state[ours] = array
            if extra := sorted(_tensors(file) - {theirs for _, theirs, _ in _mappings(config)}):
                raise DataError(f"{files[0]} has {extra[0]}, {_DIFFERENT}")
    except OSError as error:
        raise IntegrityError(f"{files[0]} is no HDF5 file, or truncated: {error}") from error
    for name, value in state.items():
        if name.endswith("bias_hh_l0"):
            value.zero_()
    elmo.load_state_dict(state)
    elmo.set_tokens(tokenizer.tokens_of(range(tokenizer.vocab_size)), ends_of(tokenizer.special))
    return elmo


def write(folder: Path, config: ElmoConfig, state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write the parameters of an encoder, by our names, as `options.json` and `weights.hdf5`; the
    shape of each tensor by its name there.

    Raises:
        ConfigError: a model of one direction, which has no such files.
    """
    if config.direction != "both":
        raise ConfigError("ELMo's files are of both directions; this model reads forward alone")
    shapes: dict[str, Any] = {}
    with _h5py().File(folder / WEIGHTS, "w") as file:
        for ours, theirs, convert in _mappings(config):
            if ours.endswith("weight_hh_l0"):
                continue  # written with the input's
            value = state[ours]
            if ours.endswith("bias_ih_l0"):
                value = value + state[ours.replace("_ih_", "_hh_")]
            if ours.endswith("weight_ih_l0"):
                value = torch.cat([value, state[ours.replace("_ih_", "_hh_")]], 1)
            array = convert(value.detach().cpu().numpy(), False)
            file.create_dataset(theirs, data=array)
            shapes[theirs] = array.shape
    content = {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": config.projection_dim,
            "cell_clip": config.cell_clip,
            "proj_clip": config.proj_clip,
            "dim": config.dim,
            "n_layers": config.n_layers,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [list(each) for each in config.filters],
            "n_highway": config.n_highway,
            "embedding": {"dim": config.character_size},
            "n_characters": CHARACTERS + 1,
            "max_characters_per_token": config.max_characters_per_token,
        },
    }
    (folder / OPTIONS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return shapes


def _config(content: Mapping[str, Any], path: Path, vocab_size: int) -> ElmoConfig:
    try:
        lstm, characters = content["lstm"], content["char_cnn"]
        if characters["activation"] != "relu" or not lstm["use_skip_connections"]:
            raise ValueError("expected relu and skip connections, as the published have them")
        return ElmoConfig(
            vocab_size=vocab_size,
            max_characters_per_token=characters["max_characters_per_token"],
            character_size=characters["embedding"]["dim"],
            filters=tuple((width, number) for width, number in characters["filters"]),
            n_highway=characters.get("n_highway", 0),
            dim=lstm["dim"],
            projection_dim=lstm["projection_dim"],
            n_layers=lstm["n_layers"],
            cell_clip=lstm.get("cell_clip", 0),
            proj_clip=lstm.get("proj_clip", 0),
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise DataError(
            f"{path} is not that of an ELMo: a value is missing, or of the wrong kind or size "
            f"({error})"
        ) from error


def _tensors(file: Any) -> set[str]:
    """The names of all arrays in a file."""
    names: set[str] = set()
    file.visititems(lambda name, item: names.add(name) if hasattr(item, "shape") else None)
    return names


def _mappings(config: ElmoConfig) -> Iterator[tuple[str, str, Any]]:
    """Our name, theirs, and what turns an array of theirs into ours (True) or back (False)."""
    yield "token.bytes.weight", "char_embed", lambda x, _: x
    for number in range(len(config.filters)):
        ours = f"token.convolutions.{number}"
        yield f"{ours}.weight", f"CNN/W_cnn_{number}", _convolution
        yield f"{ours}.bias", f"CNN/b_cnn_{number}", lambda x, _: x
    for number in range(config.n_highway):
        for part in ("carry", "transform"):
            ours, theirs = f"token.highways.{number}.{part}", f"CNN_high_{number}"
            yield f"{ours}.weight", f"{theirs}/W_{part}", lambda x, _: x.T
            yield f"{ours}.bias", f"{theirs}/b_{part}", lambda x, _: x
    yield "token.projection.weight", "CNN_proj/W_proj", lambda x, _: x.T
    yield "token.projection.bias", "CNN_proj/b_proj", lambda x, _: x
    width = config.projection_dim

    def matrix(columns: slice) -> Any:
        def convert(x: Any, reading: bool) -> Any:
            return _gates(x.T)[:, columns] if reading else _gates(x).T

        return convert

    for layer in range(config.n_layers):
        for number, direction in enumerate(_DIRECTIONS):
            ours = f"layers.{layer}.{number}.inner.lstm"
            theirs = f"{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield f"{ours}.weight_ih_l0", f"{theirs}/W_0", matrix(slice(0, width))
            yield f"{ours}.weight_hh_l0", f"{theirs}/W_0", matrix(slice(width, None))
            yield f"{ours}.bias_ih_l0", f"{theirs}/B", _bias
            yield f"{ours}.weight_hr_l0", f"{theirs}/W_P_0", lambda x, _: x.T


def _convolution(x: Any, reading: bool) -> Any:
    """`[1, width, size, number]` <-> `[number, size, width]`"""
    return x[0].transpose(2, 1, 0).copy() if reading else x.transpose(2, 1, 0)[None]


def _gates(x: Any) -> Any:
    """Gates i, g, f, o <-> i, f, g, o along the first axis: the two in the middle change."""
    i, second, third, o = np.split(x, 4)
    return np.concatenate([i, third, second, o])


def _bias(x: Any, reading: bool) -> Any:
    dim = len(x) // 4
    x = _gates(x) if reading else x.copy()
    x[dim : 2 * dim] += 1 if reading else -1
    return x if reading else _gates(x)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("elmo", "h5py", "reading and writing ELMo's .hdf5 files") from error
    return h5py
