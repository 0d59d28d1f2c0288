"""Read and write a model's folder: `config.json`, `model.safetensors` and tokenizer files.

A folder may come from an untrusted source. The size of JSON files is limited, and the names, shapes
and types in the header of the weights are checked before memory is allocated for any tensor. Only
`bertwright convert` opens pickles (`pytorch_model.bin`; `storage/pickled.py`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertwright.errors import BertwrightError, DataError, IntegrityError
from bertwright.storage.pickled import is_pickle
from bertwright.text.tokenizer.files import (
    SPECIAL_TOKENS,
    holds_tokenizer,
    huggingface_config,
    place_of_tokenizer,
    read_folder,
    write_folder,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer

CONFIG = "config.json"
BERT_CONFIG = "bert_config.json"  # of google-research/bert
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
VERSION_KEY = "bertwright_version"
"""The key of `config.json` that holds the version of Bertwright that trained the model."""
EXPORT = "export.json"
"""The description in each folder that `bertwright export` wrote. The weights of such a folder are
in a graph."""
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)

_LARGEST_JSON = 16 << 20
FLOATS = {"F32", "F16", "BF16", "F64"}
"""The types of weights that are read, by their names in safetensors."""


class Header(NamedTuple):
    """One tensor in the header of a weights file."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    """Its type by the name in safetensors."""
    stored: str
    """Its name in the file."""


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, formatted as transformers formats it."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def copy_tokenizer(
    source: Path, folder: Path, max_length: int | None = None, trained: int | None = None
) -> None:
    """Copy a tokenizer's files, and complete `tokenizer_config.json`.

    The key `do_lower_case` is always written, because transformers lower-cases without it.

    Args:
        source: a folder with `tokenizer.json` or `vocab.txt`.
        folder: the folder to write to.
        max_length: the model's maximum length in tokens, an upper bound of `model_max_length`.
        trained: the longest sequence of its training, the new `model_max_length`; None: the key
            stays as it is.
    """
    source = place_of_tokenizer(source)
    present = [name for name in TOKENIZER_FILES if (source / name).is_file()]
    if not {"tokenizer.json", "vocab.txt", "vocab.json"} & set(present):
        raise DataError(f"{source} has neither tokenizer.json nor vocab.txt")
    for name in present:
        shutil.copyfile(source / name, folder / name)
    path = folder / "tokenizer_config.json"
    content = read_json(path) if path.is_file() else {}
    if "tokenizer.json" not in present or "do_lower_case" not in content:
        backend, config = read_folder(folder)
        try:
            tokenizer = Tokenizer(backend, config)
            content = huggingface_config(tokenizer.rules, tokenizer.vocab)
        except DataError:  # not BERT's rules; the generic class reads tokenizer.json as it is
            vocab = backend.get_vocab()
            content = {role: token for role, token in SPECIAL_TOKENS.items() if token in vocab}
            content["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_folder(folder, backend, content | config)
        content = read_json(path)
    length = content.get("model_max_length") if trained is None else trained
    if max_length is not None:
        length = min(length, max_length) if type(length) is int else max_length
        write_json(path, {**content, "model_max_length": length})


def special_ids(folder: Path) -> dict[str, int]:
    """Return the ids of a folder's special tokens, by their keys in `config.json`.

    `pad_token_id` is 0 without a padding token, as in the published configurations; `bos_token_id`
    and `eos_token_id` are left out where the tokenizer has no such token.
    """
    if not holds_tokenizer(folder):
        return {"pad_token_id": 0}
    special = Tokenizer(*read_folder(folder)).special
    roles = (("bos_token_id", "cls", "bos"), ("eos_token_id", "sep", "eos"))
    ends = {key: special[role] for key, *names in roles for role in names if role in special}
    return {"pad_token_id": special.get("pad", 0), **ends}


def write_weights(folder: Path, tensors: Mapping[str, Tensor], name: str = WEIGHTS) -> None:
    """Write a file of tensors with the user's default permissions."""
    for each, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise BertwrightError(  # not an IntegrityError: no file is damaged
                f"'{each}' holds numbers that are not finite (NaN or infinity), so {name} was not "
                "written: go back to an earlier checkpoint with a lower learning rate"
            )
    path = folder / name
    path.touch()
    mode = path.stat().st_mode  # safetensors makes files that only their owner can read
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
        path.chmod(mode)
    except SafetensorError as error:
        number = re.search(r"(?:os error|code:) (\d+)\b", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from error


def read_headers(folder: Path) -> dict[str, Header]:
    """Return the headers of all tensors by name, from one file or from shards with an index."""
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
            f"{folder} is an exported model, which only its runtime reads: give the checkpoint "
            "that it was made from as --model (embed takes the export as --exported as well)"
        )
    raise DataError(f"{folder} has no {WEIGHTS}: it is not the folder of a model")


def read_tensors(headers: Mapping[str, Header], names: list[str]) -> dict[str, Tensor]:
    """Read tensors by name."""
    tensors = {}
    with ExitStack() as stack:
        open_files: dict[Path, Any] = {}
        for name in names:
            path = headers[name].file
            if path not in open_files:
                open_files[path] = stack.enter_context(_open(path))
            tensors[name] = finite(name, path, open_files[path].get_tensor(headers[name].stored))
    return tensors


def finite(name: str, path: Path, tensor: Tensor) -> Tensor:
    """Return a tensor unchanged if all its numbers are finite in float32."""
    if not torch.isfinite(tensor.float()).all():  # float64 may exceed the range of float32
        raise DataError(f"'{name}' in {path} holds numbers that are not finite in float32")
    return tensor


def headers_of(path: Path) -> dict[str, Header]:
    """Return the headers of all tensors of one file, by their names after `unwrapped`."""
    headers = {}
    with _open(path) as file:
        for stored, name in unwrapped(file.keys()).items():
            if name in headers:
                raise IntegrityError(f"{path} has one tensor twice, as '{stored}' and '{name}'")
            part = file.get_slice(stored)
            headers[name] = Header(path, tuple(part.get_shape()), part.get_dtype(), stored)
    return headers


def unwrapped(names: Collection[str]) -> dict[str, str]:
    """Return the names of tensors without the additions of PyTorch's wrappers, by stored name.

    `torch.compile` adds `_orig_mod.` anywhere; data parallelism adds `module.` before every name.
    """
    plain = {name: name.replace("_orig_mod.", "") for name in names}
    while plain and all(name.startswith("module.") for name in plain.values()):
        plain = {stored: name.removeprefix("module.") for stored, name in plain.items()}
    return plain


def _headers_of_shards(folder: Path) -> dict[str, Header]:
    index = folder / INDEX
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise IntegrityError(f"{index} has no 'weight_map': it is damaged")
    headers: dict[str, Header] = {}
    for name in sorted({short(value, str) for value in shards.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise IntegrityError(f"{index} names {name!r}; a shard is a file beside it")
        if not (folder / name).is_file():
            raise IntegrityError(f"{folder / name} is missing; {INDEX} lists it")
        headers |= headers_of(folder / name)
    listed = {name: shards[stored] for stored, name in unwrapped(shards).items()}
    wrong = [n for n, shard in listed.items() if n not in headers or headers[n].file.name != shard]
    if wrong or len(shards) != len(headers):
        raise IntegrityError(
            f"{index} and its shards list different tensors"
            + (f", for example '{wrong[0]}'" if wrong else "")
        )
    return headers


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        if path.is_file() and is_pickle(path):
            raise DataError(f"{path} is a pickle under another name; it is not opened") from error
        raise IntegrityError(f"{path} is truncated or damaged ({error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of any origin."""
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} holds {type(content).__name__}; expected an object with keys")
    return content


def read_any_json(path: Path) -> Any:
    """Return the JSON value in a file of any origin."""
    if not path.is_file():
        raise DataError(f"{path.parent} has no {path.name}: it is not the folder of a model")
    if path.stat().st_size > _LARGEST_JSON:
        raise DataError(f"{path} has {path.stat().st_size} bytes; expected at most {_LARGEST_JSON}")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error})") from error


def wrong(key: str, path: Path, value: Any, expected: str) -> DataError:
    """Return the error of a key with an invalid value."""
    return DataError(f"'{key}' in {path} is {short(value)}; expected {expected}")


def check_settings(
    content: Mapping[str, Any],
    path: Path,
    what: str,
    held: Mapping[str, tuple[Any, ...]],
    required: Collection[str] = (),
) -> None:
    """Raise DataError unless a file configures a model, or a part of one, that is computed as here.

    Args:
        content: the file's keys.
        path: names the file in messages.
        what: names the kind of model in messages.
        held: keys that change the computation, each with the values with which it is the same as
            ours; the first is the default of a missing key.
        required: keys that must be present.
    """
    for key, allowed in held.items():
        value = content.get(key, allowed[0])
        if not any(value == each and type(value) is type(each) for each in allowed):
            raise DataError(
                f"'{key}' in {path} is {short(value)}; only {allowed[0]!r} is read: this is "
                f"another kind of {what}"
            )
    if missing := [key for key in required if key not in content]:
        raise DataError(f"{path} lacks {', '.join(missing)}: it does not configure a {what}")


def short(value: Any, kind: type = object) -> str:
    """Return a value of unknown origin as text short enough for a message; with kind `str`, a
    string is returned as it is."""
    if kind is str and isinstance(value, str):
        return value
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
