"""What a stored format of models is.

A `FolderFormat` is loaded as it is: its headers are checked against the configuration before any
tensor is read. A source of it is a folder, or the name of a TensorFlow checkpoint without `.index`.
A `FileFormat` belongs to another program; `bertwright convert` turns it into a folder, and back.
The `Layout` of a model (`models/layout.py`) defines the names of its tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from bertwright.models.load import system_of_config, system_of_folder
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder
from bertwright.storage.model_folder import Header
from bertwright.storage.tensor_bundle import BundleEntry
from bertwright.text.tokenizer.tokenizer import Tokenizer

AnyHeader = Header | BundleEntry
Headers = Mapping[str, AnyHeader]
"""The name of each tensor -> its file, shape and type."""


class FolderFormat(ABC):
    """A format of folders that are loaded as they are, tensor by tensor."""

    name: str
    """The name of the format."""

    @abstractmethod
    def recognize(self, source: Path) -> bool:
        """Return whether the weights of a source have this format."""

    @abstractmethod
    def config_file(self, source: Path) -> Path:
        """Return the path of the configuration file, which may not exist."""

    def config(self, path: Path, content: Mapping[str, Any]) -> Any:
        """Return the configuration of a model, an instance of its system's configuration class,
        from the path and the content of its configuration file.

        Raises:
            DataError: the model is of a kind that is not read.
        """
        return system_of_folder(content, path).names.read_config(content, path)

    def system(self, source: Path, config: Any) -> System:
        """Return the system of a model, with the tensor names of this format.

        Raises:
            ConfigError: the format cannot hold models of this configuration.
        """
        return system_of_config(config)

    @abstractmethod
    def weight_files(self, source: Path) -> list[Path]:
        """Return the files that hold the weights, without the separate file of task heads.

        Raises:
            DataError, IntegrityError: as for `headers`.
        """

    @abstractmethod
    def headers(self, source: Path) -> tuple[dict[str, AnyHeader], tuple[str, ...]]:
        """Return the position of each tensor by name, and descriptions of the training state that
        is stored beside the tensors.

        Raises:
            DataError: there are no weights, they are a pickle, or the checkpoint is of another
                kind of model.
            IntegrityError: the files are truncated or damaged, or do not fit the configuration.
        """

    def read(self, headers: Headers, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the tensors with these names.

        Raises:
            DataError, IntegrityError: as for `model_folder.read_tensors`.
        """
        plain = {name: header for name, header in headers.items() if isinstance(header, Header)}
        return model_folder.read_tensors(plain, list(names))


@dataclass(frozen=True)
class Contents:
    """The contents of files of another program."""

    sizes: dict[str, Any]
    """The name of each size -> its value."""
    parameters: int = 0
    notes: tuple[str, ...] = ()
    """Notes that a user may want to read before using the files."""


class Imported(NamedTuple):
    """A model that was read from files of another program."""

    learner: Learner
    tokenizer: Tokenizer
    sizes: dict[str, Any]
    """What the files hold, by name: words and width, or numbers of n-grams."""
    notes: tuple[str, ...] = ()
    """Notes for the user about what was left out, replaced or assumed."""


class FileFormat(ABC):
    """A format of files of another program."""

    name: ClassVar[str]
    """The name of the format, as `convert --to` takes it."""
    described_as: ClassVar[str]
    """The name of the format in the output of `bertwright inspect`."""
    architecture: ClassVar[str | None] = None
    """The name of the model, if all files of this format hold the same model."""
    used_as_is: ClassVar[bool] = False
    """Whether a command (`bertwright words`) reads the files without a conversion."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """The suffixes of a file to write; empty: a folder is written."""

    @abstractmethod
    def recognize(self, path: Path) -> bool:
        """Return whether a path is of this format."""

    @abstractmethod
    def describe(self, path: Path) -> Contents:
        """Return the contents of the files, after reading them completely.

        Raises:
            DataError, IntegrityError, MissingExtra: as `read`.
        """

    @abstractmethod
    def read(self, path: Path) -> Imported:
        """Return the model in the files.

        Raises:
            DataError: the files hold another kind of model, or do not fit each other.
            IntegrityError: the files are truncated or damaged.
            MissingExtra: a package that reads the files is not installed.
        """

    @abstractmethod
    def check(self, config: Any, source: Path) -> None:
        """Raise ConfigError unless the format can hold models of this configuration."""

    @abstractmethod
    def write(
        self, learner: Learner, tokenizer: Tokenizer, out: Path, suffix: str = ""
    ) -> dict[str, Any]:
        """Write a model, and return what was written: `Imported.sizes`, or the shape of each array
        by its name. `out` becomes a file with the suffix, or is an existing folder."""
