"""The folder of tokenizer files that a path means: a tokenizer, a run, a checkpoint or a hub model.

Building shards needs a tokenizer and no torch, so a folder of tokenizer files is recognized without
importing what reads checkpoints.
"""

from __future__ import annotations

from pathlib import Path

from bertwright.config.hub import id_of


def find_tokenizer(path: Path) -> Path:
    """Return the folder of the tokenizer's files.

    Args:
        path: the folder itself; a run, of which the newest checkpoint is taken; a checkpoint; or
            `hf:ORG/NAME`, whose tokenizer files are fetched.

    Raises:
        ConfigError, DataError, IntegrityError, MissingExtra: as `checkpoint.find_checkpoint`.
    """
    if not path.exists() and id_of(path) is not None:
        from bertwright.checkpoint.huggingface import hub

        return hub.fetch(path, hub.TOKENIZER)
    is_run = path.name in ("checkpoints", "latest") or any(
        (folder / "checkpoints").is_dir() for folder in (path, path / "run")
    )
    if not is_run or (path / "tokenizer.json").is_file() or (path / "vocab.txt").is_file():
        return path
    from bertwright.checkpoint.checkpoint import find_checkpoint
    from bertwright.checkpoint.sources import folder_of

    return folder_of(find_checkpoint(path))
