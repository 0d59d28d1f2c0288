"""An opened model: the files of its folder, each of which is read and hashed once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from bertwright.atomic import sha256_file
from bertwright.checkpoint.find import Place, find_place
from bertwright.checkpoint.formats.catalogue import folder_format
from bertwright.checkpoint.formats.format import AnyHeader, FolderFormat, Headers
from bertwright.checkpoint.sentence_transformers import cross_encoder
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.checkpoint.verify import verify_folder
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.load import system_of_config
from bertwright.models.system import System
from bertwright.nn.encoder import EncoderSpec
from bertwright.storage.model_folder import CONFIG, VERSION_KEY, read_json
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

_ROLES = ("pad", "bos", "eos")
"""The roles of special tokens whose ids `config.json` contains (`pad_token_id` and so on)."""


class OtherVocabulary(UserWarning):
    """Warns that a tokenizer seems to belong to another model than the one in its folder."""


def open_model(path: str | Path) -> Opened:
    """Return the model that a path refers to; see `find.look_up_place`. Nothing is read yet."""
    return Opened(find_place(path))


@dataclass(frozen=True, eq=False)
class Opened:
    """A model on disk. Each property reads its file at the first access and keeps the result."""

    place: Place
    """Where the weights are."""

    @property
    def source(self) -> Path:
        """The folder of the weights, or the name of a TensorFlow checkpoint without `.index`."""
        return self.place.source

    @cached_property
    def folder(self) -> Path:
        """The folder of the weights."""
        return self.place.folder

    @cached_property
    def verified(self) -> Mapping[str, str]:
        """The SHA-256 of each file that was compared with the folder's manifest, by its name;
        empty without a manifest. The first access compares the files (`verify.verify_folder`).
        """
        return verify_folder(self.folder, verified=self.place.verified)

    def sha256(self, path: Path) -> str:
        """Return the SHA-256 of a file of the model, which is computed only if it was not
        verified."""
        name = path.relative_to(self.folder).as_posix()
        return self.verified[name] if name in self.verified else sha256_file(path)

    @cached_property
    def format(self) -> FolderFormat:
        """The format of the folder."""
        return folder_format(self.source)

    @cached_property
    def config_file(self) -> Path:
        """The path of the configuration file, which may not exist."""
        return self.format.config_file(self.source)

    @cached_property
    def content(self) -> dict[str, Any]:
        """The content of the configuration file."""
        return read_json(self.config_file)

    @cached_property
    def config(self) -> Any:
        """The configuration of the model, an instance of its system's configuration class.

        Raises:
            DataError: there is no configuration, or the model is of a kind that is not read.
        """
        return self.format.config(self.config_file, self.content)

    @cached_property
    def system(self) -> System:
        """The system of the model, with the tensor names of the folder's format."""
        return self.format.system(self.source, self.config)

    @cached_property
    def spec(self) -> EncoderSpec:
        """The specification of the encoder."""
        return system_of_config(self.config).spec(self.config)

    @cached_property
    def trained_here(self) -> bool:
        """Whether Bertwright trained the model, so that its training texts began and ended as they
        do here."""
        return VERSION_KEY in self.content

    @cached_property
    def max_length(self) -> int | None:
        """The number of tokens that the model reads at once; None: any number.

        For a model that Bertwright trained, it is the `model_max_length` of the tokenizer, because
        later positions were never trained; for other models, it is the number of positions.
        """
        positions = self.spec.max_length
        path = self.folder / "tokenizer_config.json"
        if positions is None or not self.trained_here or not path.is_file():
            return positions
        trained = read_json(path).get("model_max_length")
        return min(trained, positions) if type(trained) is int and trained > 0 else positions

    @cached_property
    def _headers(self) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        return self.format.headers(self.source)

    @property
    def headers(self) -> Headers:
        """The position of each tensor of the weights by name, without the separate file of task
        heads.
        """
        return self._headers[0]

    @property
    def left(self) -> tuple[str, ...]:
        """Descriptions of the training state that is stored beside the tensors."""
        return self._headers[1]

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the tensors with these names, of the weights or of the file of task heads."""
        return self.format.read(headers, names)

    @cached_property
    def weight_files(self) -> list[Path]:
        """The files that hold the weights, without the separate file of task heads."""
        return self.format.weight_files(self.source)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the folder. An `OtherVocabulary` warning is given if it seems to belong
        to another model.
        """
        try:
            tokenizer = load_tokenizer(self.folder)
        except ConfigError as error:
            message = (
                f"{self.folder} is a model without a tokenizer: put its tokenizer.json or "
                "vocab.txt beside it"
            )
            for path in list(self.folder.glob("*.model"))[:1]:
                message += (
                    f". {path.name} alone, a SentencePiece model, is not read. Convert it with "
                    "transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
                )
            raise DataError(message) from error
        vocab_size = self.spec.vocab_size
        if tokenizer.vocab_size > vocab_size:
            raise IntegrityError(
                f"the tokenizer of {self.folder} has {tokenizer.vocab_size} tokens; its model has "
                f"{vocab_size}: they do not belong together"
            )
        if why := self.other_vocabulary(tokenizer):
            warnings.warn(OtherVocabulary(why), stacklevel=2)
        return tokenizer

    def other_vocabulary(self, tokenizer: Tokenizer) -> str | None:
        """Return why a tokenizer seems to belong to another model than this one, or None.

        A tokenizer may have fewer tokens than the model has embeddings, whose number is often
        rounded up. But if `config.json` contains the id of a special token, that of the tokenizer
        must be the same.
        """
        if self.config_file.name != CONFIG or not self.config_file.is_file():
            return None
        for role in _ROLES:
            stated, actual = self.content.get(f"{role}_token_id"), tokenizer.special.get(role)
            if type(stated) is int and actual not in (None, stated):
                return (
                    f"the tokenizer of {self.folder} has {tokenizer.tokens_of([actual])[0]} as "
                    f"{actual}, but '{role}_token_id' in {CONFIG} is {stated}: it seems to be of "
                    "another model"
                )
        return None

    @cached_property
    def embedding(self) -> EmbeddingDefaults | None:
        """How the vectors of a folder of sentence-transformers are computed; None for any other
        folder.
        """
        if not sentence_transformers.is_one(self.folder):
            return None
        return sentence_transformers.read_defaults(self.folder, self.content, self.spec.width)

    @cached_property
    def is_cross_encoder(self) -> bool:
        """Whether the folder is marked as a cross-encoder of sentence-transformers."""
        return cross_encoder.is_cross_encoder(self.folder, self.content)
