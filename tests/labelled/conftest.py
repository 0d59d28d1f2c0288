"""Files to read, written for one test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a file of this name: bytes, text with its own line ends, or else JSON."""

    def write(name: str, content: Any) -> Path:
        if not isinstance(content, bytes | str):
            content = json.dumps(content, ensure_ascii=False)
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
