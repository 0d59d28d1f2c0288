"""The blocks of code in a document."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)
