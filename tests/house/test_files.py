"""Every file: its length, its name, its header, its docstrings, and what must not be in it."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import tomllib
from collections.abc import Iterator

import pytest

import bertwright
from bertwright.config import values
from tests.house.source import PACKAGE, ROOT, Module, modules

LONGEST = 400
NAMELESS = {"utils", "util", "common", "helpers", "helper", "base", "types", "misc"}
READS_FOREIGN_PICKLES = {"bertwright.checkpoint.unpickling"}
"""The one place, a process of its own, that may read other programs' pickled weights."""

ALL = sorted(modules())


@pytest.fixture(params=ALL)
def module(request: pytest.FixtureRequest) -> Module:
    """Each module of the package in turn."""
    return modules()[request.param]


def test_length(module: Module) -> None:
    lines = module.text.count("\n")
    assert lines <= LONGEST, f"{module.place} has {lines} lines; cut it where its story ends"


def test_name(module: Module) -> None:
    for part in module.name.split("."):
        assert part not in NAMELESS, f"{module.place}: a thing without a home has no name yet"


def test_header(module: Module) -> None:
    assert ast.get_docstring(module.tree), f"{module.place} says nothing of itself"
    statements = [s for s in module.tree.body if not _is_docstring(s)]
    if module.path.name == "__init__.py" and module.name != "bertwright":
        assert all(_is_future(s) for s in statements), f"{module.place} holds a docstring only"
    elif statements:
        assert _is_future(statements[0]), f"{module.place}: `annotations` first"


def test_docstrings(module: Module) -> None:
    for node in _public(module.tree):
        assert ast.get_docstring(node), f"{module.place}:{node.lineno}: {node.name} says nothing"


def test_every_key_is_explained(module: Module) -> None:
    if module.part != "config":
        return
    for node in module.tree.body:
        if not isinstance(node, ast.ClassDef) or not _is_dataclass(node):
            continue
        for here, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
            if isinstance(here, ast.AnnAssign):
                key = ast.unparse(here.target)
                assert _is_docstring(after), f"{module.place}:{here.lineno}: {key} is unexplained"


def test_configurations_are_frozen(module: Module) -> None:
    if module.part != "config":
        return
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and _is_dataclass(node):
            decorators = " ".join(ast.unparse(d) for d in node.decorator_list)
            assert "frozen=True" in decorators, f"{module.place}:{node.lineno}: {node.name}"


def test_errors_are_not_swallowed(module: Module) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            where = f"{module.place}:{node.lineno}"
            assert node.type is not None, f"{where}: bare except"
            assert not all(isinstance(s, ast.Pass) for s in node.body), f"{where}: except: pass"


def test_nothing_is_left_for_later(module: Module) -> None:
    for number, line in enumerate(module.text.splitlines(), 1):
        assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line), f"{module.place}:{number}"


def test_no_pickles(module: Module) -> None:
    if module.name in READS_FOREIGN_PICKLES:
        return
    for node in ast.walk(module.tree):
        where = f"{module.place}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            assert not names & {"pickle", "dill", "joblib", "cloudpickle"}, f"{where}: pickles"
        if isinstance(node, ast.Attribute):
            called = ast.unparse(node)
            assert called not in ("torch.load", "torch.save"), f"{where}: {called} pickles"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False", f"{where}: allow_pickle"


def test_nothing_is_printed_below_the_command_line(module: Module) -> None:
    if module.part in ("cli", "__main__"):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            pytest.fail(f"{module.place}:{node.lineno}: print; take on_progress or raise")


def test_the_package_is_typed_and_its_version_has_a_story() -> None:
    assert (PACKAGE / "py.typed").exists()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {bertwright.__version__}" in changelog
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {bertwright.__version__}" in citation


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


def _public(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and classes that others may call, and the methods of such classes."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name.startswith("_") and node.name not in ("__getattr__", "__dir__"):
                continue
            yield node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield inner


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(d) for d in node.decorator_list)


def _config_classes() -> list[type]:
    found: list[type] = []
    for name in ALL:
        if modules()[name].part == "config":
            module = importlib.import_module(name)
            found.extend(
                value
                for value in vars(module).values()
                if isinstance(value, type)
                and dataclasses.is_dataclass(value)
                and value.__module__ == name
            )
    return found


@pytest.mark.parametrize("cls", _config_classes())
def test_sections_start_from_their_own_defaults(cls: type) -> None:
    # one key of a section given on the command line makes the section anew, from its class
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
            if dataclasses.is_dataclass(default):
                assert default == type(default)(), f"{cls.__name__}.{field.name}"


@pytest.mark.parametrize("cls", _config_classes())
def test_defaults_survive_toml(cls: type) -> None:
    try:
        default = cls()
    except TypeError:
        pytest.skip(f"{cls.__name__} has keys without a default")
    assert values.from_dict(cls, tomllib.loads(values.to_toml(default))) == default
