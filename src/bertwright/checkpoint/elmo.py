"""The published files of ELMo, `options.json` and one `.hdf5` of weights, read and written.

Source: allenai/bilm-tf (`bilm/model.py`, `bilm/training.py`). Matrices are `[in, out]` there, an
LSTM's `[in + state, 4 dim]` with gates in the order i, g, f, o (here i, f, g, o), and 1 is added to
f when it runs. The files have no vocabulary: a token is spelled by its bytes, so any tokenizer of
words will do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.errors import ConfigError, DataError, IntegrityError, MissingExtra
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.elmo.encoder import Elmo
from bertwright.nn.characters import CHARACTERS
from bertwright.nn.objective import Learner
from bertwright.storage.model_folder import read_json
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
_LSTM = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip")
_CHARACTERS = ("filters", "n_highway", "activation", "max_characters_per_token")
_DIFFERENT = f"which is not what {OPTIONS} says: they belong to different models; fetch both of one"


def is_published(folder: Path) -> bool:
    """Whether a folder holds files of this kind."""
    return (folder / OPTIONS).is_file() and any(folder.glob("*.hdf5"))


def read(folder: Path, tokenizer: Tokenizer) -> Elmo:
    """The encoder in a folder, its vocabulary that of a tokenizer.

    Raises:
        ConfigError: it does not fit the memory.
        DataError: options of another architecture, or not those of the weights; says which tensor.
        IntegrityError: the weights are truncated, or not what the folder's manifest says.
        MissingExtra: h5py is not installed.
    """
    config, weights = check(folder, tokenizer.vocab_size)
    state: dict[str, Tensor] = {}
    with _opened(weights) as file:
        for theirs, ours, split, _ in _mappings(config):
            arrays = split(np.asarray(file[theirs], np.float32))
            state |= zip(ours, (torch.from_numpy(np.array(x)) for x in arrays), strict=True)
    elmo = Elmo(config)
    elmo.load_state_dict(elmo.state_dict() | state)
    elmo.set_tokens(tokenizer.tokens_of(range(tokenizer.vocab_size)), ends_of(tokenizer.special))
    return elmo


def check(folder: Path, vocab_size: int) -> tuple[ElmoConfig, Path]:
    """The configuration of a folder, whose files are as they should be, and the file of its
    weights. Names and shapes are compared; no weights are read, and nothing is built.

    Raises:
        ConfigError, DataError, IntegrityError, MissingExtra: as `read`.
    """
    checkpoint.verify_folder(folder, (OPTIONS, *(path.name for path in folder.glob("*.hdf5"))))
    config = _config(read_json(folder / OPTIONS), folder / OPTIONS, vocab_size)
    files = sorted(folder.glob("*.hdf5"))
    if len(files) > 1:
        raise DataError(f"{folder} has {len(files)} .hdf5 files; expected one, its weights")
    with torch.device("meta"):
        empty = Elmo(config)
    checkpoint.require_memory(Learner(empty, {}), str(folder))
    shapes = {name: tuple(x.shape) for name, x in empty.state_dict().items()}
    with _opened(files[0]) as file:
        mappings = {theirs: ours for theirs, ours, *_ in _mappings(config)}
        if wrong := sorted(_tensors(file) ^ mappings.keys()):
            has = "has" if wrong[0] in file else "has no"
            raise DataError(f"{files[0]} {has} {wrong[0]}, {_DIFFERENT}")
        for theirs, ours in mappings.items():
            if tuple(file[theirs].shape) != _shape_there([shapes[name] for name in ours], theirs):
                shape = list(file[theirs].shape)
                raise DataError(f"{theirs} in {files[0]} is {shape}, {_DIFFERENT}")
    return config, files[0]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of weights; IntegrityError for one that is truncated."""
    h5py = _h5py()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:
        raise IntegrityError(f"{path} is no HDF5 file, or truncated: {error}") from error


def _shape_there(ours: list[tuple[int, ...]], name: str) -> tuple[int, ...]:
    """The shape of an array of theirs, whose parts here have these shapes."""
    first = ours[0]
    if name.endswith("LSTMCell/W_0"):  # the input and the state, one below the other
        return (sum(shape[1] for shape in ours), first[0])
    if name.startswith("CNN/W_cnn"):
        return (1, *reversed(first))
    transposed = "/W_" in name and not name.startswith("CNN/")
    return tuple(reversed(first)) if transposed else first


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
        for theirs, ours, _, join in _mappings(config):
            array = join(*(state[name].detach().cpu().numpy() for name in ours))
            file.create_dataset(theirs, data=array)
            shapes[theirs] = array.shape
    content: dict[str, dict[str, Any]] = {
        "lstm": {"use_skip_connections": config.use_skip_connections},
        "char_cnn": {"embedding": {"dim": config.character_size}, "n_characters": CHARACTERS + 1},
    }
    for part, names in (("lstm", _LSTM), ("char_cnn", _CHARACTERS)):
        content[part] |= {name: getattr(config, name) for name in names}
    (folder / OPTIONS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return shapes


def _config(content: Mapping[str, Any], path: Path, vocab_size: int) -> ElmoConfig:
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


def _tensors(file: Any) -> set[str]:
    """The names of all arrays in a file."""
    names: set[str] = set()
    file.visititems(lambda name, item: names.add(name) if hasattr(item, "shape") else None)
    return names


Split = Callable[[Any], list[Any]]
Join = Callable[..., Any]
Pair = tuple[Split, Join]


def _mappings(config: ElmoConfig) -> Iterator[tuple[str, list[str], Split, Join]]:
    """A name of theirs, those of ours, and what turns its array into ours and back."""
    same: Pair = (lambda x: [x]), (lambda x: x)
    turned: Pair = (lambda x: [x.T]), (lambda x: x.T)
    # [1, width, size, number] <-> [number, size, width]
    convolution: Pair = (lambda x: [x[0].T.copy()]), (lambda x: x.T[None])
    both: Pair = (  # of the input and of the state
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
    """Gates i, g, f, o <-> i, f, g, o along the first axis: the two in the middle change."""
    i, second, third, o = np.split(x, 4)
    return np.concatenate([i, third, second, o])


def _biases(x: Any) -> list[Any]:
    i, g, f, o = np.split(x, 4)
    return [np.concatenate([i, f + 1, g, o]), np.zeros_like(x)]


def _joined_biases(*ours: Any) -> Any:
    i, f, g, o = np.split(np.add(*ours), 4)
    return np.concatenate([i, g, f - 1, o])


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("elmo", "h5py", "reading and writing ELMo's .hdf5 files") from error
    return h5py
