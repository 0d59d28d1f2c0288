"""A notebook as a page: its text, its code, and the outputs that it is kept with."""

from __future__ import annotations

import json
import re
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
    """Yield an output: Markdown or a picture, or else text."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "text/markdown" in data:
        yield data["text/markdown"]
    elif "image/svg+xml" in data:
        # an empty line would end the HTML
        yield re.sub(r"\n\s*\n", "\n", f"<div>\n{data['image/svg+xml'].strip()}\n</div>")
    elif "image/png" in data:
        yield f"![output](data:image/png;base64,{''.join(data['image/png'].split())})"
    else:
        text = output.get("text") or data.get("text/plain") or output.get("traceback") or ""
        yield from _fence("text", "".join(text).rstrip("\n"))


def _fence(language: str, text: str) -> Iterator[str]:
    yield f"`````{language}"
    yield text
    yield "`````"
