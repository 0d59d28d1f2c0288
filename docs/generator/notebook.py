"""A notebook as a page: its text, its code, and the outputs that it is kept with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def markdown(path: Path) -> str:
    """Return a notebook as Markdown."""
    lines: list[str] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
        elif cell["cell_type"] == "code":
            lines += [*_fence("python", source), ""]
            for output in cell["outputs"]:
                lines += [*_output(output), ""]
    return "\n".join(lines)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    """Yield an output: a picture, or else text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join("".join(data["image/png"]).split())
        yield f"![output](data:image/png;base64,{picture})"
        return
    text = output.get("text") or data.get("text/plain") or output.get("traceback") or ""
    yield from _fence("text", "".join(text).rstrip("\n"))


def _fence(language: str, text: str) -> Iterator[str]:
    yield f"`````{language}"
    yield text
    yield "`````"
