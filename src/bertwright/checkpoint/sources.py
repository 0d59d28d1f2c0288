"""Find the model that a path refers to, and read its configuration, maximum length and tokenizer.
`checkpoint/adapters.py` opens the files of each layout.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from bertwright.checkpoint.adapters import TENSORFLOW, adapter_of
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.load import system_of_config
from bertwright.storage.model_folder import CONFIG, VERSION_KEY, read_json
from bertwright.storage.tensor_bundle import find_prefix
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

_ROLES = ("pad", "bos", "eos")
"""The roles of special tokens whose ids `config.json` contains (`pad_token_id` and so on)."""


class OtherVocabulary(UserWarning):
    """Warns that a tokenizer seems to belong to another model than the one in its folder."""


def folder_of(source: Path) -> Path:
    """Return the folder of a source, which may be the name of a TensorFlow checkpoint."""
    return source if source.is_dir() else source.parent


def model_at(path: Path) -> Path | None:
    """Return the source at a path; None if the path is not a source itself (it may be a run).

    Raises:
        DataError: the folder has several TensorFlow checkpoints.
    """
    if path.is_dir():
        plain = (path / CONFIG).is_file() or sentence_transformers.is_one(path)
        return path if plain or TENSORFLOW.is_one(path) else None
    prefix = find_prefix(path)
    if prefix is None:
        return None
    alone = len(list(prefix.parent.glob("*.index"))) == 1
    return prefix.parent if alone and adapter_of(prefix.parent) is TENSORFLOW else prefix


def read_content(source: Path) -> dict[str, Any]:
    """Return the content of the configuration file of a source."""
    return read_json(adapter_of(source).config_file(source))


def read_config(source: Path) -> Any:
    """Return the configuration of a model, an instance of its system's configuration class.

    Raises:
        DataError: there is no configuration, or the model is of a kind that is not read.
    """
    return adapter_of(source).config(source)


def is_ours(source: Path) -> bool:
    """Return whether Bertwright trained a model, so that its training texts began and ended as they
    do here."""
    return VERSION_KEY in read_content(source)


def read_length(source: Path, positions: int | None) -> int | None:
    """Return the number of tokens that a model reads at once, given the number of its positions.

    For a model that Bertwright trained, it is the `model_max_length` of the tokenizer, because
    later positions were never trained; for other models, it is the number of positions. None means
    any number.
    """
    path = folder_of(source) / "tokenizer_config.json"
    if positions is None or not is_ours(source) or not path.is_file():
        return positions
    own = read_json(path).get("model_max_length")
    return min(own, positions) if type(own) is int and own > 0 else positions


def read_tokenizer(folder: Path, config: Any) -> Tokenizer:
    """Return the tokenizer in the folder of a model.

    An `OtherVocabulary` warning is given if the tokenizer seems to belong to another model.

    Args:
        folder: the folder of the model.
        config: the configuration of the model.

    Raises:
        DataError: there is no tokenizer.
        IntegrityError: the tokenizer has more tokens than the model has embeddings.
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
    return tokenizer


def other_vocabulary(folder: Path, tokenizer: Tokenizer) -> str | None:
    """Return why a tokenizer seems to belong to another model than the one in its folder, or None.

    A tokenizer may have fewer tokens than the model has embeddings, whose number is often rounded
    up. But if `config.json` contains the id of a special token, that of the tokenizer must be the
    same.
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


def check_links(folder: Path, parts: bool = True) -> None:
    """Raise IntegrityError if a link leads out of a folder, so that only files of the folder itself
    are read and copied.

    In a cache of the Hugging Face hub, `models--X/snapshots/R/FILE` is a link to
    `models--X/blobs`, which is allowed. With `parts`, the parts of a folder of
    sentence-transformers are checked, too; `modules.json` is read for that.

    Raises:
        DataError: a `modules.json` lists no parts.
        IntegrityError: a link leads out of the folder, and the message says where; or a link leads
            to itself.
    """
    folders = sentence_transformers.folders_of(folder) if parts else [folder]
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
