"""Imports go down only, siblings do not know each other, and text and data run without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bertwright.cli.app import VERBS
from tests.house.source import imports, modules

FLOORS = {
    "arrays": 1,
    "errors": 1,
    "version": 1,
    "progress": 1,
    "atomic": 1,
    "cores": 1,
    "config": 1,
    "nn": 2,
    "text": 2,
    "models": 3,
    "data": 3,
    "objectives": 4,
    "checkpoint": 4,
    "train": 5,
    "transfer": 5,
    "tasks": 6,
    "serve": 6,
    "inference": 6,
    "recipes": 7,
    "report": 7,
    "cli": 8,
    "__main__": 9,
}
"""docs/architecture.md, "Floors"."""

BESIDE = {
    ("config", "errors"),
    ("atomic", "errors"),
    ("checkpoint", "objectives"),
    ("serve", "inference"),
    ("serve", "tasks"),
    ("inference", "tasks"),
    ("transfer", "train"),
}
"""(from, to) on one floor: configurations and folders raise errors, a checkpoint holds objectives
beside their encoder, a server serves what inference does, a loaded model predicts as its task
says, and what learns and how fast is an optimizer of the loop."""

STANDARD_ONLY = {"errors", "version", "progress", "atomic", "cores", "config"}
"""What a wrong key must not wait for."""

KNOWN_BY_SIBLINGS = {
    "models": {"encoder"},  # the interface
    "objectives": {"objective", "labelled"},  # the interfaces
    "cli": {"app", "bars", "options", "output", "reading"},  # what every verb needs
    "checkpoint": None,  # formats build on one another
}

ALL = sorted(modules())


@pytest.mark.parametrize("name", ALL)
def test_imports_go_down(name: str) -> None:
    module = modules()[name]
    for found in imports(name):
        if not found.module.startswith("bertwright"):
            continue
        where = f"{module.place}:{found.line}"
        target = modules().get(found.module)
        assert target is not None, f"{where} imports {found.module}, which is no file"
        assert target.name != "bertwright", f"{where}: import from the file that has the name"
        if name == "bertwright":
            quick = found.typing_only or found.module == "bertwright.version"
            assert quick, f"{where}: `import bertwright` must stay quick"
            continue
        for part in (module.part, target.part):
            assert part in FLOORS, f"{where}: {part} has no floor; give it one here and in the docs"
        below = FLOORS[target.part] < FLOORS[module.part]
        beside = module.part == target.part or (module.part, target.part) in BESIDE
        assert below or beside, f"{where}: {module.part} must not import {target.part}"


@pytest.mark.parametrize("name", ALL)
def test_imports_come_from_the_file(name: str) -> None:
    for found in imports(name):
        target = modules().get(found.module)
        if (
            target is not None
            and target.path.name == "__init__.py"
            and found.module != "bertwright"
        ):
            pytest.fail(f"{modules()[name].place}:{found.line} imports through {found.module}")


def test_there_is_no_circle() -> None:
    done: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"circle: {' -> '.join(path[path.index(name) :])} -> {name}"
        if name in done or name == "bertwright":
            return
        for found in imports(name):
            if found.module in modules() and not found.typing_only:
                follow(found.module, (*path, name))
        done.add(name)

    for name in ALL:
        follow(name, ())


@pytest.mark.parametrize("name", ALL)
def test_siblings_do_not_know_each_other(name: str) -> None:
    module = modules()[name]
    if module.part == "cli":
        verbs = {target.partition(":")[0] for target, _ in VERBS.values()}
        for found in imports(name):
            assert found.module not in verbs, f"{module.place}:{found.line}: a verb knows a verb"
    if module.part not in ("models", "objectives") or name.endswith(".catalog"):
        return
    known = KNOWN_BY_SIBLINGS[module.part] or set()
    for found in imports(name):
        target = modules().get(found.module)
        if target is not None and target.part == module.part:
            file = target.name.rpartition(".")[2]
            assert file in known, f"{module.place}:{found.line} imports its sibling {file}"


@pytest.mark.parametrize("name", [n for n in ALL if modules()[n].part in STANDARD_ONLY])
def test_the_lowest_floor_needs_the_standard_library_only(name: str) -> None:
    for found in imports(name):
        top = found.module.partition(".")[0]
        assert top == "bertwright" or top in sys.stdlib_module_names, f"{name} imports {top}"


WITHOUT_TORCH = [
    name
    for name in ALL
    # the loader hands batches to a device
    if modules()[name].part in ("text", "data") and name != "bertwright.data.loader"
]


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_text_and_data_do_not_import_torch(name: str) -> None:
    for found in imports(name):
        top = found.module.partition(".")[0]
        assert top != "torch", f"{modules()[name].place}:{found.line} imports torch"


def test_text_and_data_run_without_torch() -> None:
    program = "import importlib, sys\n"
    program += f"for name in {WITHOUT_TORCH!r}: importlib.import_module(name)\n"
    program += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
