"""Find the tokenizer files that a path refers to: a tokenizer, a run, a checkpoint or a hub model.

Building shards needs a tokenizer but not torch, so a folder of tokenizer files is recognized
without importing the modules that read checkpoints.
"""

from __future__ import annotations

from pathlib import Path

from bertwright.config.hub import id_of


def find_tokenizer(path: Path) -> Path:
    """Return the folder of the tokenizer files that a path refers to.

    Args:
        path: the folder itself; a run, whose newest checkpoint is used; a checkpoint; or
            `hf:ORG/NAME`, whose tokenizer files are fetched.
    """
    if not path.exists() and id_of(path) is not None:
        from bertwright.checkpoint.huggingface import hub

        return hub.fetch(path, hub.TOKENIZER)
    is_run = path.name in ("checkpoints", "latest") or any(
        (folder / "checkpoints").is_dir() for folder in (path, path / "run")
    )
    if not is_run or (path / "tokenizer.json").is_file() or (path / "vocab.txt").is_file():
        return path
    from bertwright.checkpoint.find import find_place

    return find_place(path).folder
