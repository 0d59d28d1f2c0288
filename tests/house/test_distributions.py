"""The commands of RELEASING.md run, and make a wheel and a source distribution that are whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import bertwright
from tests.house.source import PACKAGE, ROOT

pytestmark = pytest.mark.slow

INSTEAD = {
    "pyproject.toml CITATION.cff": "pyproject.toml CITATION.cff || true",
    ".ci/run python3.11": "bash -n .ci/run",
    "-m gpu -n 0 tests/gpu": "-m gpu -n 0 tests/gpu --collect-only",
    "inventory.py --out tests/inventory.txt": "inventory.py --help",
    "python -m build": "python -m build --no-isolation",
    "pip install dist/*.whl": "pip install --no-index --no-deps dist/*.whl",
    "trial/bin/bertwright quickstart --out trial/quickstart --open": "TRIAL/bertwright --version",
    "trial/bin/python": "TRIAL/python",
    "TRIAL": "PYTHONPATH=$DEPENDENCIES trial/bin",
    "docker compose": ": docker compose",
    "twine upload": "twine upload --help",
}
"""What is run in place of commands that need a network, Docker, a GPU or minutes."""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files in which the commands of RELEASING.md were run."""
    for needed in ("build", "hatchling", "twine"):  # of the extra dev
        pytest.importorskip(needed)
    copy = tmp_path_factory.mktemp("release") / "bertwright"
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    checklist = (ROOT / "RELEASING.md").read_text("utf-8")
    script = "".join(re.findall(r"^```bash\n(.*?)^```", checklist, re.M | re.S))
    for old, new in INSTEAD.items():
        assert old in script, f"RELEASING.md has changed; change INSTEAD too: {old}"
        script = script.replace(old, new)
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(copy / "src"),
        "DEPENDENCIES": str(Path(pytest.__file__).parents[1]),
        **{f"GIT_{role}_NAME": "A" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "a@example.com" for role in ("AUTHOR", "COMMITTER")},
    }
    repository = "git init -q --bare ../origin.git && git init -q . && git add -A\n"
    repository += "git commit -q -m all && git remote add origin ../origin.git\n"
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", repository + script],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return copy


def tracked() -> set[str]:
    """The files of the repository; without git, the test is skipped."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no clone of the repository")
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def built(released: Path, pattern: str) -> Path:
    (found,) = (released / "dist").glob(pattern)
    return found


def test_the_release_is_tagged(released: Path) -> None:
    command = ["git", "--git-dir", str(released.parent / "origin.git"), "tag"]
    tags = subprocess.check_output(command, text=True).split()
    assert tags == [f"v{bertwright.__version__}"]


def test_the_source_distribution_is_the_repository(released: Path) -> None:
    with tarfile.open(built(released, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == tracked() | {"PKG-INFO"}


def test_the_wheel_is_the_package(released: Path) -> None:
    wheel = zipfile.ZipFile(built(released, "*.whl"))
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    of_package = {name for name in wheel.namelist() if name.startswith("bertwright/")}
    assert of_package == files
    named = {Path(name).name for name in of_package}
    assert {"py.typed", "page.css", "index.html", "half-hour.toml", "card.md.j2"} <= named
    others = {name.partition("/")[2] for name in set(wheel.namelist()) - of_package}
    assert others == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_description_has_no_relative_links(released: Path) -> None:
    wheel = zipfile.ZipFile(built(released, "*.whl"))
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    described = Parser().parsestr(wheel.read(name).decode())
    links = re.findall(r"\]\(([^)\s]+)\)", str(described.get_payload()))
    assert len(links) > 5
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert described["Description-Content-Type"] == "text/markdown"
