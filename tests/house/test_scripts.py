"""Benchmarks and experiments start, name things that are there, and take the options they show."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.house.source import ROOT, modules

SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "experiments").glob("*/*.py")])
DOCUMENTS = [ROOT / "benchmarks" / "README.md", *sorted((ROOT / "experiments").glob("*/README.md"))]
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


@pytest.mark.parametrize("path", PROGRAMS, ids=place)
def test_every_option_shown_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    usage = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[1]
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", usage))
    assert path.name in usage, f"{place(path)}: its docstring shows how it is run"
    said = helps()[path]
    assert shown <= set(re.findall(r"--[a-z][a-z0-9-]*", said)), said


@pytest.mark.parametrize("path", DOCUMENTS, ids=place)
def test_commands_of_documents_are_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    shown = re.findall(r"python ((?:benchmarks|experiments)/[\w/]+\.py)([^`\n]*)", text)
    assert shown, f"{place(path)} shows no command"
    for name, words in shown:
        assert ROOT / name in PROGRAMS, f"{place(path)}: no program {name}"
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words.partition("#")[0]))
        missing = options - set(re.findall(r"--[a-z][a-z0-9-]*", helps()[ROOT / name]))
        assert not missing, f"{place(path)}: {name} takes no {', '.join(sorted(missing))}"


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
