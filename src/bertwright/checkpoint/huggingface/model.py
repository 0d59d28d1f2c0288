"""Hugging Face BERT folders: `config.json` and `model.safetensors`, written and read.

What is read may come from anywhere. `config.json` goes through a closed schema: sizes within
limits, and every key that would change the computation held to the one value our BERT has. Names
and shapes are compared with the header of the weights before memory is taken for any of them.
Pickles (`pytorch_model.bin`) are never opened but by `bertwright convert` (`pickled.py`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertwright.checkpoint.huggingface.names import is_buffer
from bertwright.checkpoint.huggingface.pickled import is_pickle
from bertwright.config.bert import BertConfig
from bertwright.config.values import to_dict
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.text.tokenizer.files import (
    SPECIAL_TOKENS,
    huggingface_config,
    read_folder,
    write_folder,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.version import __version__

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
EXPORT = "export.json"
"""Stands in a folder of `bertwright export`, whose weights are in a graph."""
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)

_LARGEST_JSON = 16 << 20
_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh"]] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
_WRITTEN_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
}
_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
_REALS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
)
# Keys that change what a BERT computes, and the values under which it is ours.
_HELD: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
_ARCHITECTURES = {
    frozenset({"masked_lm", "next_sentence"}): "BertForPreTraining",
    frozenset({"masked_lm"}): "BertForMaskedLM",
    frozenset({"next_sentence"}): "BertForNextSentencePrediction",
    frozenset(): "BertModel",
}
_DTYPES = {"F32", "F16", "BF16", "F64"}


class Header(NamedTuple):
    """What the header of a weights file says of one tensor."""

    file: Path
    shape: tuple[int, ...]


def write_config(
    folder: Path,
    config: BertConfig,
    objectives: frozenset[str],
    pad_id: int = 0,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write `config.json` as transformers reads it; `more` has the keys of a task head."""
    content = {
        "architectures": [_ARCHITECTURES[objectives]],
        "model_type": "bert",
        **to_dict(config),
        "hidden_act": _WRITTEN_ACTIVATIONS[config.hidden_act],
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "pad_token_id": pad_id,
        "bertwright_version": __version__,
        **(more or {}),
    }
    (folder / CONFIG).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def config_of(content: Mapping[str, Any], path: Path) -> BertConfig:
    """The BERT that a `config.json` tells of, or a file of another name in its terms.

    Args:
        content: of the file.
        path: names the file in messages.

    Raises:
        DataError: not a BERT as ours, or a size out of bounds.
    """
    for key, allowed in _HELD.items():
        value = content.get(key, allowed[0])
        if not any(value == a and type(value) is type(a) for a in allowed):
            what, instead = "another kind of BERT", ""
            if key == "model_type":
                what = "another model than BERT"
                instead = (
                    ": take a model of that type (most of BGE, E5 in English, GTE and MiniLM are), "
                    "or run this one with transformers"
                )
            raise DataError(
                f"'{key}' in {path} is {short(value)}, {what}; only {allowed[0]!r} is read here"
                f"{instead}"
            )
    missing = [key for key in _REQUIRED if key not in content]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}: it is no configuration of a BERT")
    given = {key: content[key] for key in to_dict(BertConfig()) if key in content}
    for key in _REALS:
        value = given.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise DataError(f"'{key}' in {path} is {short(value)}; expected a number")
    given["hidden_act"] = activation_of(given.get("hidden_act", "gelu"), path)
    for key, value in given.items():
        if short(value) != repr(value):
            raise DataError(f"'{key}' in {path} is {short(value)}; no BERT has that")
    try:
        given |= {key: float(given[key]) for key in _REALS if key in given}
        return BertConfig(**given)
    except (ConfigError, OverflowError) as error:
        raise DataError(f"{path}: {error}") from error


def activation_of(name: Any, path: Path) -> Literal["gelu", "gelu_tanh"]:
    """Our name of an activation of a configuration.

    Raises:
        DataError: none that our BERT has.
    """
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise DataError(
            f"'hidden_act' in {path} is {short(name)}; expected one of {', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[name]


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy a tokenizer's files, and write what they leave open.

    transformers takes lower case where `tokenizer_config.json` is silent, whatever else tells.

    Raises:
        DataError: no tokenizer, or none of a BERT.
    """
    present = [name for name in TOKENIZER_FILES if (source / name).is_file()]
    if not {"tokenizer.json", "vocab.txt"} & set(present):
        raise DataError(f"{source} has neither tokenizer.json nor vocab.txt")
    for name in present:
        shutil.copyfile(source / name, folder / name)
    path = folder / "tokenizer_config.json"
    told = read_json(path) if path.is_file() else {}
    if "tokenizer.json" in present and "do_lower_case" in told:
        return
    backend, config = read_folder(folder)
    try:
        tokenizer = Tokenizer(backend, config)
        told = huggingface_config(tokenizer.rules, tokenizer.vocab)
    except DataError:  # not BERT's: the plain class takes tokenizer.json as it is
        told = {**SPECIAL_TOKENS, "tokenizer_class": "PreTrainedTokenizerFast"}
    told.pop("model_max_length", None)
    write_folder(folder, backend, told | config)


def pad_id(folder: Path) -> int:
    """Where [PAD] stands in the vocabulary of a folder; 0 if it has none, as in the published."""
    if (folder / "vocab.txt").is_file():
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        return lines.index("[PAD]") if "[PAD]" in lines else 0
    return 0


def write_weights(folder: Path, tensors: Mapping[str, Tensor], name: str = WEIGHTS) -> None:
    """Write `model.safetensors`, or another file of tensors.

    Raises:
        OSError: the disk is full, or refuses in another way.
    """
    try:
        save_file(dict(tensors), folder / name, metadata={"format": "pt"})
    except SafetensorError as error:
        number = re.search(r"(?:os error|code:) (\d+)\b", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(folder / name)) from error


def read_headers(folder: Path) -> dict[str, Header]:
    """Name -> where it is and its shape, of one file or of shards with an index.

    Raises:
        DataError: no weights, only a pickle, or an export.
        IntegrityError: a file is cut or damaged, or the index does not fit the shards.
    """
    if (folder / WEIGHTS).is_file():
        return headers_of(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _headers_of_shards(folder)
    if list(folder.glob("pytorch_model*.bin")):
        raise DataError(
            f"{folder} has its weights as a pickle (pytorch_model.bin), which may run code when "
            f"opened; convert it once: bertwright convert {folder} DST writes {WEIGHTS}"
        )
    for path in sorted(folder.iterdir()):
        if path.is_file() and is_pickle(path):
            raise DataError(
                f"{folder} has no {WEIGHTS}, and {path.name} is a pickle, which may run code when "
                f"opened; only one named pytorch_model.bin is converted"
            )
    if (folder / EXPORT).is_file():
        raise DataError(
            f"{folder} is an exported model, for the runtime it was written for: give the "
            "checkpoint it was made of as --model (embed takes the export beside it, as --exported)"
        )
    raise DataError(f"{folder} has no {WEIGHTS}: it is no folder of a model")


def read_tensors(headers: Mapping[str, Header], names: list[str]) -> dict[str, Tensor]:
    """Read tensors by name.

    Raises:
        IntegrityError: a file is cut or damaged.
        DataError: a tensor holds numbers that are not finite.
    """
    tensors = {}
    with ExitStack() as stack:
        open_files: dict[Path, Any] = {}
        for name in names:
            path = headers[name].file
            if path not in open_files:
                open_files[path] = stack.enter_context(_open(path))
            tensor = open_files[path].get_tensor(name)
            if not torch.isfinite(tensor.float()).all():  # F64 holds numbers that float32 does not
                raise DataError(f"'{name}' in {path} holds numbers that are not finite in float32")
            tensors[name] = tensor
    return tensors


def headers_of(path: Path) -> dict[str, Header]:
    """Name -> where it is and its shape, of one file; buffers that nothing needs are left out.

    Raises:
        IntegrityError: it is cut or damaged.
        DataError: quantized weights.
    """
    headers = {}
    with _open(path) as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            part = file.get_slice(name)
            if is_buffer(name):  # whole numbers
                continue
            if part.get_dtype() not in _DTYPES:
                raise DataError(
                    f"'{name}' in {path} is of type {part.get_dtype()}; expected one of "
                    f"{', '.join(sorted(_DTYPES))}: quantized weights are not read"
                )
            headers[name] = Header(path, tuple(part.get_shape()))
    return headers


def _headers_of_shards(folder: Path) -> dict[str, Header]:
    index = folder / INDEX
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise IntegrityError(f"{index} has no 'weight_map': it is damaged")
    places = {name: place for name, place in places.items() if not is_buffer(name)}
    headers: dict[str, Header] = {}
    for name in sorted({short(value, str) for value in places.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise IntegrityError(f"{index} names {name!r}; a shard is a file beside it")
        if not (folder / name).is_file():
            raise IntegrityError(f"{folder / name} is missing; {INDEX} lists it")
        headers |= headers_of(folder / name)
    wrong = [n for n, place in places.items() if n not in headers or headers[n].file.name != place]
    if wrong or len(places) != len(headers):
        raise IntegrityError(
            f"{index} and its shards tell of different tensors"
            + (f", '{wrong[0]}' for one" if wrong else "")
        )
    return headers


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        if path.is_file() and is_pickle(path):
            raise DataError(f"{path} is a pickle under another name; it is not opened") from error
        raise IntegrityError(f"{path} is cut or damaged ({error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """An object with keys, of a file from anywhere.

    Raises:
        DataError: no such file, too large, not JSON, or no object.
    """
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} holds {type(content).__name__}; expected an object with keys")
    return content


def read_any_json(path: Path) -> Any:
    """What stands in a file from anywhere. The errors are those of `read_json`."""
    if not path.is_file():
        raise DataError(f"{path.parent} has no {path.name}: it is no folder of a model")
    if path.stat().st_size > _LARGEST_JSON:
        raise DataError(f"{path} has {path.stat().st_size} bytes; it cannot be a {path.name}")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error})") from error


def short(value: Any, kind: type = object) -> str:
    """A value of unknown origin, short enough for a message; text as it is where asked for."""
    if kind is str and isinstance(value, str):
        return value
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
