"""The notebooks of the course run at their small size, in one folder, without a kernel."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source import ROOT

COURSE = ROOT / "examples" / "road"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
OPENING, END = "*From n-grams to BERT in an afternoon, part {} of 6.*", "## Exercises"


def load_runner() -> Any:
    spec = importlib.util.spec_from_file_location("course_run", COURSE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = load_runner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the first notebook prepares what all of them read."""
    where = tmp_path_factory.mktemp("course")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTWRIGHT_COURSE", "small")
        patch.syspath_prepend(str(COURSE))
        patch.chdir(where)
        yield where
        for name in ("course", "draw"):
            sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_small(path: Path, folder: Path) -> None:
    notebook = RUNNER.read(path)
    names = RUNNER.execute(notebook, path.name)
    assert names["course"].small
    shown = [
        output["data"].keys()
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert any("image/svg+xml" in types for types in shown), "it draws a picture"
    assert any("text/markdown" in types for types in shown), "it shows source code"


def test_there_are_six() -> None:
    assert [path.name[:3] for path in NOTEBOOKS] == [f"0{n}_" for n in range(1, 7)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_has_the_form_of_a_part(path: Path) -> None:
    notebook = RUNNER.read(path)
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    assert OPENING.format(int(path.name[:2])) in cells[0]
    last = next(cell for cell in reversed(cells) if END in cell)
    assert len(re.findall(r"^\d\. ", last.partition(END)[2], re.M)) == 3
    assert len({cell["id"] for cell in notebook["cells"]}) == len(cells)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] == n for n, cell in enumerate(code, 1)), "outputs are kept"
    assert path.name in (COURSE / "README.md").read_text(encoding="utf-8")
