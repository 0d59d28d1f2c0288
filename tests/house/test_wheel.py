"""The wheel: it builds, holds all that the package reads, and its installed form trains a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("build", "hatchling"):  # of the extra dev
        pytest.importorskip(needed)
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=300, cwd=out)
    (found,) = out.glob("*.whl")
    return found


def test_it_holds_every_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("bertwright/")} == files
    assert {"py.typed", "page.css", "index.html"} < {Path(name).name for name in names}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_an_index_would_take_it(wheel: Path) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    subprocess.run(command, check=True, timeout=300)


QUICKSTART = """
import sys
from bertwright.cli.app import run
from bertwright.recipes.quickstart import corpus
find_modules = corpus.find_modules
corpus.find_modules = lambda search=None: find_modules(search)[::4]
sys.exit(run(["quickstart", "--minutes", "0.1", "--json"]))
"""
"""The command with a quarter of the modules, as a whole installation has many."""


def test_its_installed_form_runs_the_quickstart(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target"]
    subprocess.run([*install, str(site), str(wheel)], check=True, timeout=300)
    environment = os.environ | {"PYTHONPATH": str(site)}  # before an editable installation
    where = "import bertwright; print(bertwright.__file__)"
    command = [sys.executable, "-c", where]
    found = subprocess.check_output(command, env=environment, cwd=tmp_path, text=True)
    assert Path(found.strip()) == site / "bertwright" / "__init__.py"
    done = subprocess.run(
        [sys.executable, "-c", QUICKSTART],
        env=environment,
        cwd=tmp_path,
        check=True,
        timeout=1200,
        stdout=subprocess.PIPE,
    )
    assert json.loads(done.stdout)["comparison"]
    page = (tmp_path / "runs" / "quickstart" / "report.html").read_text(encoding="utf-8")
    assert "beside simple baselines" in page
