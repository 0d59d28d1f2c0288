"""Which model a path means, and what else its folder says: its configuration, how much it reads,
its tokenizer. `checkpoint/adapters.py` opens the files of each layout.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from bertwright.checkpoint.adapters import TENSORFLOW, adapter_of
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert import tensorflow
from bertwright.models.catalogue import system_of_config
from bertwright.storage.model_folder import CONFIG, VERSION_KEY, read_json
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

_ROLES = ("pad", "bos", "eos")
"""Of special tokens whose ids `config.json` names, as `pad_token_id`."""


class OlderReading(UserWarning):
    """A folder that an earlier version converted reads texts by other rules than one made today."""


class OtherVocabulary(UserWarning):
    """A tokenizer looks like that of another model than the one it lies beside."""


def folder_of(source: Path) -> Path:
    """Return the folder of a source."""
    return source if source.is_dir() else source.parent


def model_at(path: Path) -> Path | None:
    """Return the source that a path is by itself, not by way of a run; None if it is none.

    Raises:
        DataError: a folder of several checkpoints.
    """
    if path.is_dir():
        plain = (path / CONFIG).is_file() or sentence_transformers.is_one(path)
        return path if plain or TENSORFLOW.is_one(path) else None
    prefix = tensorflow.find_prefix(path)
    if prefix is None:
        return None
    alone = len(list(prefix.parent.glob("*.index"))) == 1
    return prefix.parent if alone and adapter_of(prefix.parent) is TENSORFLOW else prefix


def read_content(source: Path) -> dict[str, Any]:
    """Return the content of a source's configuration file."""
    return read_json(adapter_of(source).config_file(source))


def read_config(source: Path) -> Any:
    """Return the configuration of a model, of the class that its system has.

    Raises:
        DataError: no configuration, or one of a model that is not read.
    """
    return adapter_of(source).config(source)


def is_ours(source: Path) -> bool:
    """Return whether Bertwright trained a model: its texts began and ended as they do here."""
    return VERSION_KEY in read_content(source)


def read_length(source: Path, positions: int | None) -> int | None:
    """Return the number of tokens that a model of so many positions reads at once.

    For a model that Bertwright trained it is `model_max_length` of its tokenizer, because later
    positions were never trained; for others all positions.
    """
    path = folder_of(source) / "tokenizer_config.json"
    if positions is None or not is_ours(source) or not path.is_file():
        return positions
    own = read_json(path).get("model_max_length")
    return min(own, positions) if type(own) is int and own > 0 else positions


def read_tokenizer(folder: Path, config: Any) -> Tokenizer:
    """Return the tokenizer of a folder, for the model that is in it.

    A tokenizer that seems to belong to another model gives an `OtherVocabulary` warning.

    Args:
        folder: of the model.
        config: of the model.

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
    """Return how a folder that an earlier version converted from a file of vectors or n-grams reads
    texts; None for any other folder."""
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
    """Return why a tokenizer seems to belong to another model than the one in its folder, or None.

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
