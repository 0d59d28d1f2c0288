"""A model's folder: `config.json`, `model.safetensors` and tokenizer files, written and read.

What is read may come from anywhere: JSON has a limit of size, and the names, shapes and types in
the header of the weights are known before memory is taken for any tensor. Pickles
(`pytorch_model.bin`) are never opened but by `bertwright convert` (`huggingface/pickled.py`).
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
    huggingface_config,
    read_folder,
    write_folder,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
VERSION_KEY = "bertwright_version"
"""In `config.json` of a model that was trained here: by which version."""
EXPORT = "export.json"
"""Stands in a folder of `bertwright export`, whose weights are in a graph."""
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
"""Types of weights that are read, by safetensors' names."""


class Header(NamedTuple):
    """What the header of a weights file says of one tensor."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    """As safetensors calls it."""
    stored: str
    """The tensor's name in the file."""


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file as transformers does."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def copy_tokenizer(
    source: Path, folder: Path, max_length: int | None = None, trained: int | None = None
) -> None:
    """Copy a tokenizer's files, and write what they leave open.

    transformers lower-cases where `tokenizer_config.json` does not say `do_lower_case`.

    Args:
        source: holds `tokenizer.json` or `vocab.txt`.
        folder: where the files are written.
        max_length: tokens of the model's longest sequence, at most `model_max_length`.
        trained: those of its training, which become `model_max_length`; None: it stays.

    Raises:
        DataError: no tokenizer, or none that is read here.
    """
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
        except DataError:  # not BERT's: the plain class takes tokenizer.json as it is
            vocab = backend.get_vocab()
            content = {role: token for role, token in SPECIAL_TOKENS.items() if token in vocab}
            content["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_folder(folder, backend, content | config)
        content = read_json(path)
    own = content.get("model_max_length") if trained is None else trained
    if max_length is not None:
        most = min(own, max_length) if type(own) is int else max_length
        write_json(path, {**content, "model_max_length": most})


def special_ids(folder: Path) -> dict[str, int]:
    """`pad_token_id`, 0 if there is none, as in the published, and `bos_token_id` and
    `eos_token_id` of the tokenizer of a folder, if it has such."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        return {"pad_token_id": 0}
    special = Tokenizer(*read_folder(folder)).special
    roles = (("bos_token_id", "cls", "bos"), ("eos_token_id", "sep", "eos"))
    ends = {key: special[role] for key, *names in roles for role in names if role in special}
    return {"pad_token_id": special.get("pad", 0), **ends}


def write_weights(folder: Path, tensors: Mapping[str, Tensor], name: str = WEIGHTS) -> None:
    """Write `model.safetensors`, or another file of tensors, with the mode of other files.

    Raises:
        BertwrightError: a tensor holds numbers that are not finite.
        OSError: the disk is full, or it cannot be written to.
    """
    for each, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise BertwrightError(  # a run that failed; no file is damaged
                f"'{each}' holds numbers that are not finite (NaN or infinity), so {name} was not "
                "written: go back to an earlier checkpoint with a lower learning rate"
            )
    path = folder / name
    path.touch()
    mode = path.stat().st_mode  # safetensors would make it readable by its owner alone
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
    """Name -> where it is and its shape, of one file or of shards with an index.

    Raises:
        DataError: no weights, only a pickle, or an export.
        IntegrityError: a file is truncated or damaged, or the index does not fit the shards.
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
        IntegrityError: a file is truncated or damaged.
        DataError: a tensor holds numbers that are not finite.
    """
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
    """The same tensor; DataError if it holds numbers that are not finite."""
    if not torch.isfinite(tensor.float()).all():  # F64 holds numbers that float32 does not
        raise DataError(f"'{name}' in {path} holds numbers that are not finite in float32")
    return tensor


def headers_of(path: Path) -> dict[str, Header]:
    """Name -> where it is, its shape and type, of one file; names as `unwrapped` gives them.

    Raises:
        IntegrityError: it is truncated or damaged, or two names are one so.
        DataError: it is a pickle.
    """
    headers = {}
    with _open(path) as file:
        for stored, name in unwrapped(file.keys()).items():
            if name in headers:
                raise IntegrityError(f"{path} has '{stored}' and '{name}': one tensor twice")
            part = file.get_slice(stored)
            headers[name] = Header(path, tuple(part.get_shape()), part.get_dtype(), stored)
    return headers


def unwrapped(names: Collection[str]) -> dict[str, str]:
    """Each name of a file's tensors -> the same without what PyTorch's wrappers put into it.

    `torch.compile` adds `_orig_mod.`, anywhere; data parallelism `module.`, in front of all.
    """
    found = {name: name.replace("_orig_mod.", "") for name in names}
    while found and all(name.startswith("module.") for name in found.values()):
        found = {stored: name.removeprefix("module.") for stored, name in found.items()}
    return found


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
            + (f", '{wrong[0]}' for one" if wrong else "")
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


def wrong(key: str, path: Path, value: Any, expected: str) -> DataError:
    """The error of a key of a file whose value is none that it can have."""
    return DataError(f"'{key}' in {path} is {short(value)}; expected {expected}")


def check_settings(
    content: Mapping[str, Any],
    path: Path,
    what: str,
    held: Mapping[str, tuple[Any, ...]],
    required: Collection[str] = (),
) -> None:
    """Raise DataError unless a file configures a `what` as ours: no `required` key is missing, and
    keys that change what is computed have one of the values `held`, by default the first."""
    for key, allowed in held.items():
        value = content.get(key, allowed[0])
        if not any(value == each and type(value) is type(each) for each in allowed):
            raise DataError(
                f"'{key}' in {path} is {short(value)}; only {allowed[0]!r} is read: that is "
                f"another kind of {what}"
            )
    if missing := [key for key in required if key not in content]:
        raise DataError(f"{path} lacks {', '.join(missing)}: it is no configuration of a {what}")


def short(value: Any, kind: type = object) -> str:
    """A value of unknown origin, short enough for a message; text of kind `str` as it is."""
    if kind is str and isinstance(value, str):
        return value
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
