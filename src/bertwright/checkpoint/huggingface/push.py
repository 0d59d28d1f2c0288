"""Send a model's files to the Hugging Face hub: `hf:ORG/NAME`.

The files that match `hub.FILES` are sent: the configuration, weights, heads, tokenizer and card.
Training state is not sent. huggingface_hub sends the files, with the token and the endpoint of its
own settings (`hf auth login`, `HF_TOKEN`, `HF_ENDPOINT`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bertwright.checkpoint.huggingface.hub import FILES
from bertwright.checkpoint.opened import open_model
from bertwright.config.hub import PREFIX, id_of
from bertwright.errors import BertwrightError, ConfigError, MissingExtra

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Push:
    """The files of a model and the repository that they are sent to."""

    folder: str
    """The folder of the files."""
    repository: str
    """`ORG/NAME` on the hub."""
    files: dict[str, int]
    """The name of each file -> its size in bytes."""
    url: str | None
    """The URL of the commit; None: nothing was sent."""


def push(
    model: str | Path,
    to: str,
    *,
    send: bool = False,
    private: bool = False,
    message: str = "Upload a model of Bertwright",
) -> Push:
    """Send a model's folder to a repository of the hub, which is created if it does not exist.

    Args:
        model: a run, a checkpoint or a folder of a model.
        to: `hf:ORG/NAME`.
        send: whether to send the files; otherwise they are only listed, which needs no network.
        private: whether a repository that is created is private.
        message: the message of the commit.

    Raises:
        ConfigError: `to` is not `hf:ORG/NAME`.
        DataError, IntegrityError: there is no model, or its files do not match its manifest.
        MissingExtra: huggingface_hub is not installed.
        BertwrightError: the hub cannot be reached or does not accept the files.
    """
    name = id_of(to)
    if name is None or not _ID.fullmatch(name):
        raise ConfigError(f"the repository is {to!r}; expected {PREFIX}ORG/NAME")
    opened = open_model(model)
    folder = opened.folder
    _ = opened.verified, opened.config  # raises if Bertwright cannot read the model
    found = sorted({path for pattern in FILES for path in folder.glob(pattern) if path.is_file()})
    files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in found}
    if not send:
        return Push(str(folder), name, files, None)
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read at import
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        purpose = f"sending {name} to the Hugging Face hub"
        raise MissingExtra("hub", "huggingface_hub", purpose) from error
    api = HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name, folder_path=folder, allow_patterns=[*files], commit_message=message
        )
    except Exception as error:  # any error of the library, of HTTP or of the system
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise BertwrightError(
            f"{name} was not sent to the Hugging Face hub ({reason.rstrip('.')}); check the name, "
            "the network, and that `hf auth whoami` names an account that may write there"
        ) from error
    return Push(str(folder), name, files, str(commit.commit_url))
