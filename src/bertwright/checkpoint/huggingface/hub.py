"""Fetch models of the Hugging Face hub by their ids: `hf:ORG/NAME[@REVISION]`.

huggingface_hub fetches the files into its cache, where it finds them without a network later. Its
environment variables apply: `HF_HOME`, `HF_HUB_OFFLINE`, `HF_ENDPOINT` and `HF_TOKEN`. Only files
that Bertwright reads are fetched: the configuration, the tokenizer and safetensors, never a pickle.
"""

from __future__ import annotations

import os
from pathlib import Path

from bertwright.atomic import MANIFEST
from bertwright.checkpoint.sentence_transformers.folder import MODULES
from bertwright.checkpoint.task_heads import HEADS, TASKS
from bertwright.config.hub import id_of
from bertwright.errors import DataError, MissingExtra
from bertwright.storage.model_folder import CONFIG, INDEX, TOKENIZER_FILES, WEIGHTS

_IN_PART = (CONFIG, WEIGHTS, *TOKENIZER_FILES)
TOKENIZER = (CONFIG, *TOKENIZER_FILES)
FILES = (
    *(CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", *TOKENIZER_FILES),
    *(HEADS, TASKS, MANIFEST, "README.md"),
    *(MODULES, "sentence_bert_config.json", "config_sentence_transformers.json"),
    *(f"[0-9]_*/{name}" for name in _IN_PART),  # the parts of a sentence-transformers folder
)
"""Patterns of the files of a model that are fetched."""


def fetch(path: str | Path, files: tuple[str, ...] = FILES) -> Path:
    """Return the folder of a hub model in the cache, after fetching the files that are not there.

    Args:
        path: `hf:ORG/NAME[@REVISION]`.
        files: patterns of the files that are needed.
    """
    found = id_of(path)
    assert found is not None
    name, _, revision = found.partition("@")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read at import
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        purpose = f"fetching {name} from the Hugging Face hub"
        raise MissingExtra("hub", "huggingface_hub", purpose) from error
    command = (
        f'hf download {name} --include "*.json" "*.txt" "*.safetensors" '
        f"--local-dir {name.rpartition('/')[2]}"
    )
    try:
        folder = Path(snapshot_download(name, revision=revision or None, allow_patterns=[*files]))
    except Exception as error:  # any error of the library, of HTTP or of the system
        cause = error.__cause__ or error
        reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
        raise DataError(
            f"{name} cannot be fetched from the Hugging Face hub ({reason.rstrip('.')}); "
            f"check the name, or run where there is a network: {command}, and give that folder"
        ) from error
    weights = [*folder.glob("*.safetensors"), *folder.glob("[0-9]_*/*.safetensors")]
    if WEIGHTS in files and not weights:
        raise DataError(
            f"{name} has no weights in safetensors on the Hugging Face hub, or they are not in the "
            f"cache; a pickle is never fetched. Run: hf download {name} --local-dir FOLDER, then: "
            "bertwright convert FOLDER OUT"
        )
    return folder
