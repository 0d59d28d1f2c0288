"""Files of a cgroup or of /proc, as a test wants them."""

from __future__ import annotations

from pathlib import Path


def system(root: Path, files: dict[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
