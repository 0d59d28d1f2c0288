"""Execute the notebooks of the course, and write what their cells print and draw into them.

    python examples/road/run.py             # all six, in about an hour on two cores
    python examples/road/run.py 3 6         # those with these numbers
    python examples/road/run.py --small     # all six in two minutes, to test them; writes nothing
    python examples/road/run.py --small --write

The code cells of a notebook are executed in one namespace of this process. So they need neither a
Jupyter server nor a kernel, and an error has the traceback of the cell.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MIMES = {
    "_repr_svg_": "image/svg+xml",
    "_repr_markdown_": "text/markdown",
    "_repr_html_": "text/html",
}
"""The methods by which an object is shown, and the types of what they return."""


def notebooks(numbers: list[str]) -> list[Path]:
    """Return the notebooks with these numbers; without numbers, all."""
    paths = sorted(HERE.glob("0*.ipynb"))
    return [path for path in paths if not numbers or path.name[:2].lstrip("0") in numbers]


def execute(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """Execute the code cells of a notebook, set their outputs, and return the namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for place, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        number += 1
        outputs = Outputs()
        names["display"] = outputs.display
        with contextlib.redirect_stdout(outputs):
            run_cell("".join(cell["source"]), f"{name}, cell {place}", names, outputs, number)
        cell["execution_count"], cell["outputs"] = number, outputs.taken
    return names


def run_cell(code: str, place: str, names: dict[str, Any], outputs: Outputs, number: int) -> None:
    """Execute a cell; the value of an expression that ends it is its result."""
    tree = ast.parse(code, place)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, place, "exec"), names)
        return
    tree.body.pop()
    exec(compile(tree, place, "exec"), names)
    value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    if value is not None:
        outputs.result(value, number)


class Outputs(io.TextIOBase):
    """The outputs of a cell in the form of a notebook: printed text, pictures, and its result."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    def write(self, text: str) -> int:
        """Append printed text."""
        if not self.taken or self.taken[-1]["output_type"] != "stream":
            self.taken.append({"output_type": "stream", "name": "stdout", "text": []})
        shown = "".join(self.taken[-1]["text"]) + text
        self.taken[-1]["text"] = shown.splitlines(keepends=True)
        return len(text)

    def display(self, *values: Any) -> None:
        """Append objects, as the function `display` of a notebook does."""
        for value in values:
            shown = {"data": dict(data_of(value)), "metadata": {}}
            self.taken.append({"output_type": "display_data", **shown})

    def result(self, value: Any, number: int) -> None:
        """Append the value of a cell."""
        shown = {"data": dict(data_of(value)), "execution_count": number, "metadata": {}}
        self.taken.append({"output_type": "execute_result", **shown})


def data_of(value: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield what an object shows itself as, by type."""
    for method, mime in MIMES.items():
        if hasattr(value, method):
            yield mime, getattr(value, method)().splitlines(keepends=True)
    yield "text/plain", repr(value).splitlines(keepends=True)


def read(path: Path) -> dict[str, Any]:
    """Return the content of a notebook."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook in the form of Jupyter."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Execute the notebooks that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="numbers of notebooks; none: all")
    parser.add_argument("--small", action="store_true", help="small sizes, for a test")
    parser.add_argument("--write", action="store_true", help="write the outputs of small sizes too")
    given = parser.parse_args()
    os.environ["BERTWRIGHT_COURSE"] = "small" if given.small else ""
    sys.path.insert(0, str(HERE))
    for path in notebooks(given.numbers):
        begin = time.monotonic()
        notebook = read(path)
        execute(notebook, path.name)
        if given.write or not given.small:
            write(path, notebook)
        print(f"{path.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
