"""Read and write the published files of ELMo: `options.json` and one `.hdf5` of weights.

Source: allenai/bilm-tf (`bilm/model.py`, `bilm/training.py`), whose files AllenNLP reads too. Its
matrices are `[in, out]`. Those of an LSTM are `[in + state, 4 dim]`, with gates in the order i, g,
f, o (here i, f, g, o), and it adds 1 to f when it runs. The files have no vocabulary: a token is
spelled by its bytes, so any tokenizer of words can be used.

This file holds the names and the parsing; `checkpoint/formats/elmo.py` opens and writes folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.errors import ConfigError, DataError
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.elmo.encoder import Elmo
from bertwright.nn.layers.characters import CHARACTERS
from bertwright.storage.hdf5 import array_names

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
_LSTM = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip")
_CHARACTERS = ("filters", "n_highway", "activation", "max_characters_per_token")
_DIFFERENT = f"which is not what {OPTIONS} says: they belong to different models; fetch both of one"


def parse_options(content: Mapping[str, Any], path: Path, vocab_size: int) -> ElmoConfig:
    """Return the configuration that the content of `options.json` describes."""
    try:
        lstm, characters = content["lstm"], {"n_highway": 0, **content["char_cnn"]}
        if characters["activation"] != "relu":
            raise ValueError("expected relu, as the published have it")
        skips = lstm["use_skip_connections"]
        if type(skips) is not bool:
            raise ValueError(f"use_skip_connections is {skips!r}; expected true or false")
        given = {"cell_clip": 0, "proj_clip": 0, **lstm, **characters}
        given["filters"] = tuple((width, number) for width, number in given["filters"])
        size = characters["embedding"]["dim"]
        known = {name: given[name] for name in (*_LSTM, *_CHARACTERS)}
        return ElmoConfig(
            vocab_size=vocab_size, character_size=size, use_skip_connections=skips, **known
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise DataError(
            f"{path} is not that of an ELMo: a value is missing, or of the wrong kind or size "
            f"({error})"
        ) from error


def make_options(config: ElmoConfig) -> dict[str, Any]:
    """Return the content of `options.json` for a model."""
    if config.direction != "both":
        raise ConfigError("ELMo's files are of both directions; this model reads forward alone")
    content: dict[str, dict[str, Any]] = {
        "lstm": {"use_skip_connections": config.use_skip_connections},
        "char_cnn": {"embedding": {"dim": config.character_size}, "n_characters": CHARACTERS + 1},
    }
    for part, names in (("lstm", _LSTM), ("char_cnn", _CHARACTERS)):
        content[part] |= {name: getattr(config, name) for name in names}
    return content


def check_arrays(file: Any, path: Path, config: ElmoConfig) -> None:
    """Compare the names and shapes of the arrays of an open file with a configuration. No weights
    are read, and nothing is built.
    """
    with torch.device("meta"):
        empty = Elmo(config)
    shapes = {name: tuple(x.shape) for name, x in empty.state_dict().items()}
    mappings = {theirs: ours for theirs, ours, *_ in _mappings(config)}
    if wrong := sorted(array_names(file) ^ mappings.keys()):
        has = "has" if wrong[0] in file else "has no"
        raise DataError(f"{path} {has} {wrong[0]}, {_DIFFERENT}")
    for theirs, ours in mappings.items():
        if tuple(file[theirs].shape) != _shape_there([shapes[name] for name in ours], theirs):
            shape = list(file[theirs].shape)
            raise DataError(f"{theirs} in {path} is {shape}, {_DIFFERENT}")


def parse_arrays(file: Any, config: ElmoConfig) -> dict[str, Tensor]:
    """Return the parameters of the encoder in an open file, by our names."""
    state: dict[str, Tensor] = {}
    for theirs, ours, split, _ in _mappings(config):
        arrays = split(np.asarray(file[theirs], np.float32))
        state |= zip(ours, (torch.from_numpy(np.array(x)) for x in arrays), strict=True)
    return state


def make_arrays(config: ElmoConfig, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a file of weights, from an encoder's parameters by our names."""
    for theirs, ours, _, join in _mappings(config):
        yield theirs, join(*(state[name].detach().cpu().numpy() for name in ours))


def _shape_there(ours: list[tuple[int, ...]], name: str) -> tuple[int, ...]:
    """Return the shape of an array in the file, given the shapes of the parameters that it
    holds.
    """
    first = ours[0]
    if name.endswith("LSTMCell/W_0"):  # the input and the state, one below the other
        return (sum(shape[1] for shape in ours), first[0])
    if name.startswith("CNN/W_cnn"):
        return (1, *reversed(first))
    transposed = "/W_" in name and not name.startswith("CNN/")
    return tuple(reversed(first)) if transposed else first


Split = Callable[[Any], list[Any]]
Join = Callable[..., Any]
Pair = tuple[Split, Join]


def _mappings(config: ElmoConfig) -> Iterator[tuple[str, list[str], Split, Join]]:
    """Yield the name of each array in the file, our names of the parameters that it holds, and
    functions that split the array into them and join them back.
    """
    same: Pair = (lambda x: [x]), (lambda x: x)
    turned: Pair = (lambda x: [x.T]), (lambda x: x.T)
    # [1, width, size, number] <-> [number, size, width]
    convolution: Pair = (lambda x: [x[0].T.copy()]), (lambda x: x.T[None])
    both: Pair = (  # the matrices of the input and of the state
        (lambda x: np.split(_gates(x.T), [config.projection_dim], 1)),
        (lambda a, b: _gates(np.concatenate([a, b], 1)).T),
    )
    yield "char_embed", ["token.bytes.weight"], *same
    for number in range(len(config.filters)):
        ours = f"token.convolutions.{number}"
        yield f"CNN/W_cnn_{number}", [f"{ours}.weight"], *convolution
        yield f"CNN/b_cnn_{number}", [f"{ours}.bias"], *same
    for number in range(config.n_highway):
        for part in ("carry", "transform"):
            ours, theirs = f"token.highways.{number}.{part}", f"CNN_high_{number}"
            yield f"{theirs}/W_{part}", [f"{ours}.weight"], *turned
            yield f"{theirs}/b_{part}", [f"{ours}.bias"], *same
    yield "CNN_proj/W_proj", ["token.projection.weight"], *turned
    yield "CNN_proj/b_proj", ["token.projection.bias"], *same
    for layer in range(config.n_layers):
        for direction in (0, 1):
            ours = f"layers.{layer}.{direction}.inner.lstm"
            theirs = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield f"{theirs}/W_0", [f"{ours}.weight_{x}h_l0" for x in "ih"], *both
            yield f"{theirs}/B", [f"{ours}.bias_{x}h_l0" for x in "ih"], _biases, _joined_biases
            yield f"{theirs}/W_P_0", [f"{ours}.weight_hr_l0"], *turned


def _gates(x: Any) -> Any:
    """Swap the order of gates i, g, f, o and i, f, g, o along the first axis."""
    i, second, third, o = np.split(x, 4)
    return np.concatenate([i, third, second, o])


def _biases(x: Any) -> list[Any]:
    i, g, f, o = np.split(x, 4)
    return [np.concatenate([i, f + 1, g, o]), np.zeros_like(x)]


def _joined_biases(*ours: Any) -> Any:
    i, f, g, o = np.split(np.add(*ours), 4)
    return np.concatenate([i, g, f - 1, o])
