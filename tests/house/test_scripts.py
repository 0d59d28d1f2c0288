"""Benchmarks and experiments start, name things that are there, and take the options they show."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.house.source import ROOT, modules

SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "experiments").rglob("*.py")])
DOCUMENTS = [
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "experiments").rglob("README.md")),
]
PROGRAMS = [path for path in SCRIPTS if "__main__" in path.read_text(encoding="utf-8")]

START_ALL = """
import contextlib, io, json, runpy, sys, traceback
sys.dont_write_bytecode = True
found = {}
for path in sys.argv[1:]:
    sys.argv, sys.path[0] = [path, "--help"], path.rpartition("/")[0]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            out.write(f"exit {end.code}" if end.code else "")
        except Exception:
            traceback.print_exc(file=out)
    found[path] = out.getvalue()
print(json.dumps(found))
"""
"""All in one process: torch is imported once."""


@cache
def helps() -> dict[Path, str]:
    """What each program says to --help, or how it failed."""
    words = [sys.executable, "-c", START_ALL, *(path.as_posix() for path in PROGRAMS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {Path(path): said for path, said in json.loads(done.stdout).items()}


def place(path: Path) -> str:
    """The file as messages name it."""
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=place)
def test_every_option_shown_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    usage = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[1]
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", usage))
    assert path.name in usage, f"{place(path)}: its docstring shows how it is run"
    said = helps()[path]
    assert shown <= set(re.findall(r"--[a-z][a-z0-9-]*", said)), said


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=place)
def test_commands_of_documents_are_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    shown = re.findall(r"python ((?:benchmarks|experiments)/[\w/]+\.py)([^`\n]*)", text)
    in_tables = re.findall(r"^\|.*?\| `(\w+\.py)([^`\n]*)`", text, re.M)
    shown += [(f"benchmarks/{name}", words) for name, words in in_tables]
    assert shown or re.search("(?:^|`)bertwright ", text, re.M), f"{place(path)} shows nothing"
    for name, words in shown:
        assert ROOT / name in PROGRAMS, f"{place(path)}: no program {name}"
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words.partition("#")[0]))
        missing = options - set(re.findall(r"--[a-z][a-z0-9-]*", helps()[ROOT / name]))
        assert not missing, f"{place(path)}: {name} takes no {', '.join(sorted(missing))}"


def run_script(*words: object, without: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program as if the package `without` were not installed."""
    start = (
        "import runpy, sys; missing, path, *words = sys.argv[1:]; "
        "sys.modules.update({missing: None} if missing else {}); "
        "sys.argv, sys.path[0] = [path, *words], path.rpartition('/')[0]; "
        "runpy.run_path(path, run_name='__main__')"
    )
    command = [sys.executable, "-c", start, without, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@cache
def distributions() -> Mapping[str, list[str]]:
    """The distributions that each package is of; to find them takes half a second."""
    return packages_distributions()


def required() -> set[str]:
    """The distributions that `pip install -e ".[dev]"` names, in lower case with hyphens."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*content["dependencies"], *content["optional-dependencies"]["dev"]]
    return {re.split(r"[^\w.-]", each)[0].lower().replace("_", "-") for each in named}


@pytest.mark.parametrize("path", SCRIPTS, ids=place)
def test_what_it_needs_beyond_dev_is_said(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    asked = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "needs"
        and isinstance(node.args[0], ast.Constant)
    }
    own = {each.stem for each in SCRIPTS} | {each.parent.name for each in SCRIPTS}
    known = sys.stdlib_module_names | {"bertwright"} | own
    of_packages = distributions()
    for name in imported - known - asked:
        found = {each.lower().replace("_", "-") for each in of_packages.get(name, [name])}
        assert found & required(), f"{place(path)} imports {name} and does not call needs()"
    if asked:
        said = ast.get_docstring(tree) or ""
        assert "pip install" in said, f"{place(path)}: its docstring says what it needs"


def test_a_package_that_is_missing_ends_with_the_command(tmp_path: Path) -> None:
    out = run_script(ROOT / "benchmarks" / "finetuning.py", without="accelerate")
    assert out.returncode == 3
    assert out.stderr.splitlines()[-1].endswith("pip install accelerate")
    assert not out.stdout
    peer = ROOT / "experiments" / "finetuning" / "peer.py"
    out = run_script(peer, "--out", tmp_path, without="accelerate")
    assert out.returncode == 3
    assert "pip install accelerate" in out.stderr


def names_of(name: str) -> set[str]:
    """What a file of the package has at its top."""
    found: set[str] = set()
    for node in modules()[name].tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        else:
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=place)
def test_imports_are_there(path: Path) -> None:
    # those inside functions too, which --help does not reach
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bertwright"):
            for alias in node.names:
                is_file = f"{node.module}.{alias.name}" in modules()
                there = is_file or alias.name in names_of(str(node.module))
                assert there, f"{place(path)}:{node.lineno}: no {node.module}.{alias.name}"
