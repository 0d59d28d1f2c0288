"""Which model a path means, in any format that is read: its configuration, weights, tokenizer.

| layout | weights | configuration |
|---|---|---|
| `huggingface` | `model.safetensors`, or shards with an index | `config.json` |
| `tensorflow` | `NAME.index`, `NAME.data-*` | `bert_config.json` |

A source is a folder, or a TensorFlow checkpoint by its name without `.index`. What reads its
weights sees headers by the names of the model's format there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert import tensorflow as tensorflow
from bertwright.models.bert.huggingface import activation_of
from bertwright.models.catalogue import only_bert, system_of_config, system_of_folder
from bertwright.models.system import System
from bertwright.storage import model_folder
from bertwright.storage.model_folder import CONFIG, INDEX, VERSION_KEY, WEIGHTS, Header, read_json
from bertwright.storage.tensor_bundle import BundleEntry, read_tensor
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

_ROLES = ("pad", "bos", "eos")
"""Of special tokens whose ids `config.json` names, as `pad_token_id`."""
AnyHeader = Header | BundleEntry
Headers = Mapping[str, AnyHeader]
"""Name -> file, shape and type."""


class OlderReading(UserWarning):
    """A folder that an earlier version converted reads texts by other rules than one made today."""


class OtherVocabulary(UserWarning):
    """A tokenizer looks like that of another model than the one it lies beside."""


def folder_of(source: Path) -> Path:
    """The folder of a source."""
    return source if source.is_dir() else source.parent


def model_at(path: Path) -> Path | None:
    """The model that a path is by itself, not by way of a run; None if it is none.

    Raises:
        DataError: a folder of several checkpoints.
    """
    if path.is_dir():
        plain = (path / CONFIG).is_file() or sentence_transformers.is_one(path)
        return path if plain or tensorflow.find_prefix(path) is not None else None
    prefix = tensorflow.find_prefix(path)
    if prefix is None:
        return None
    alone = len(list(prefix.parent.glob("*.index"))) == 1
    return prefix.parent if alone and layout_of(prefix.parent) == "tensorflow" else prefix


def layout_of(source: Path) -> str:
    """Return the layout of a folder: `huggingface` or `tensorflow`."""
    if not source.is_dir():
        return "tensorflow"
    weights = (WEIGHTS, INDEX)
    if any((source / name).is_file() for name in weights):
        return "huggingface"
    return "tensorflow" if tensorflow.find_prefix(source) is not None else "huggingface"


def config_file(source: Path) -> Path:
    """The file of the configuration."""
    folder = folder_of(source)
    if layout_of(source) == "huggingface":
        return folder / CONFIG
    both = (folder / tensorflow.CONFIG, folder / CONFIG)
    return next((path for path in both if path.is_file()), both[0])


def weight_files(source: Path) -> list[Path]:
    """The files that the weights are read from, but for heads in a file of their own.

    Raises:
        DataError, IntegrityError: as `read_headers`.
    """
    if layout_of(source) == "huggingface":
        return sorted({header.file for header in model_folder.read_headers(source).values()})
    prefix = tensorflow.find_prefix(source)
    assert prefix is not None
    starts = (f"{prefix.name}.index", f"{prefix.name}.data-")
    return sorted(path for path in prefix.parent.iterdir() if path.name.startswith(starts))


def read_content(source: Path) -> dict[str, Any]:
    """What the file of the configuration says."""
    return read_json(config_file(source))


def read_config(source: Path) -> Any:
    """The configuration of a model, of the class that its format has.

    Raises:
        DataError: no configuration, or one of a model that is not read.
    """
    path = config_file(source)
    content = read_json(path)
    config = system_of_folder(content, path).names.read_config(content, path)
    if path.name == tensorflow.CONFIG and content.get(tensorflow.ACTIVATION) is not None:
        return replace(config, hidden_act=activation_of(content[tensorflow.ACTIVATION], path))
    return config


def is_ours(source: Path) -> bool:
    """Whether Bertwright trained a model, so that its texts began and ended as they do here."""
    return VERSION_KEY in read_content(source)


def read_length(source: Path, positions: int | None) -> int | None:
    """Tokens that a model of so many positions reads at once.

    Of one that Bertwright trained `model_max_length` of its tokenizer, as later positions were
    never trained; of others all, however they are used.
    """
    path = folder_of(source) / "tokenizer_config.json"
    if positions is None or not is_ours(source) or not path.is_file():
        return positions
    own = read_json(path).get("model_max_length")
    return min(own, positions) if type(own) is int and own > 0 else positions


def read_tokenizer(folder: Path, config: Any) -> Tokenizer:
    """The tokenizer of a folder, for the model that is in it.

    Args:
        folder: of the model.
        config: of the model.

    One that seems to be of another model is an `OtherVocabulary` warning.

    Raises:
        DataError: no tokenizer.
        IntegrityError: it has more tokens than the model has vectors.
    """
    try:
        tokenizer = load_tokenizer(folder)
    except ConfigError as error:
        other = [
            f"; {path.name} alone, of SentencePiece, is not read: make tokenizer.json of it with "
            "transformers (AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))"
            for path in folder.glob("*.model")
        ]
        raise DataError(
            f"{folder} is a model without a tokenizer: put its tokenizer.json or vocab.txt beside "
            f"it{''.join(other[:1])}"
        ) from error
    vocab_size = system_of_config(config).spec(config).vocab_size
    if tokenizer.vocab_size > vocab_size:
        raise IntegrityError(
            f"the tokenizer of {folder} has {tokenizer.vocab_size} tokens; its model has "
            f"{vocab_size}: they do not belong together"
        )
    if why := other_vocabulary(folder, tokenizer):
        warnings.warn(OtherVocabulary(why), stacklevel=2)
    if why := older_reading(folder, tokenizer):
        warnings.warn(OlderReading(why), stacklevel=2)
    return tokenizer


def older_reading(folder: Path, tokenizer: Tokenizer) -> str | None:
    """How a folder that was converted from a file of vectors or n-grams before reads texts; None
    of any other folder."""
    content = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    from_file = "pad" not in tokenizer.special and tokenizer.file_words is None
    if content.get("model_type") not in ("word-vectors", "fasttext", "ngram") or not from_file:
        return None
    return (
        f"{folder} was converted by an earlier version: it splits texts at punctuation and Chinese "
        "characters as BERT does, so that words like U.S. and n't are never found. Convert its "
        "file again to read texts in the words of the file: bertwright convert FILE DST"
    )


def other_vocabulary(folder: Path, tokenizer: Tokenizer) -> str | None:
    """Why a tokenizer seems to be of another model than the one in its folder; None if it does not.

    It may have fewer tokens than the model has vectors, whose rows are often rounded up. But where
    `config.json` names the id of a special token, the tokenizer has it there.
    """
    content = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    for role in _ROLES:
        stated, own = content.get(f"{role}_token_id"), tokenizer.special.get(role)
        if type(stated) is int and own not in (None, stated):
            return (
                f"the tokenizer of {folder} has {tokenizer.tokens_of([own])[0]} as {own}, but "
                f"'{role}_token_id' in {CONFIG} is {stated}: it seems to be of another model"
            )
    return None


def system_in(source: Path, config: Any) -> System:
    """Return the system of a folder's model, with the layout that the folder has.

    Raises:
        ConfigError: a checkpoint of TensorFlow that is no BERT.
    """
    if layout_of(source) == "tensorflow":
        only_bert(config, f"the checkpoint {source}")
        from bertwright.models.bert.system import TENSORFLOW

        return TENSORFLOW
    return system_of_config(config)


def read_headers(source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
    """Name -> where a tensor is; and what training left beside them, in words.

    Raises:
        DataError: no weights, a pickle, or a checkpoint of another model.
        IntegrityError: truncated, damaged, or not of this configuration.
    """
    if layout_of(source) == "tensorflow":
        prefix = tensorflow.find_prefix(source)
        assert prefix is not None
        found, left = tensorflow.read_variables(prefix)
        return dict(found), left
    return dict(model_folder.read_headers(source)), ()


def read_tensors(headers: Headers, wanted: Sequence[str]) -> dict[str, Tensor]:
    """Read tensors by name; errors are those of `model_folder`."""
    found: dict[str, Tensor] = {}
    plain: dict[str, Header] = {}
    for name in wanted:
        header = headers[name]
        if isinstance(header, Header):
            plain[name] = header
        else:
            found[name] = model_folder.finite(name, header.file, read_tensor(name, header))
    return found | model_folder.read_tensors(plain, list(plain))


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
            if not any(target.is_relative_to(each) for each in inside):
                raise IntegrityError(
                    f"{path} is a link out of its folder, to {target}; copy what it leads to "
                    "into the folder, if you trust it"
                )
