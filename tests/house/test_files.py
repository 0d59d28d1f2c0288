"""Every file: its name, its header, its docstrings, and what must not be in it."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import tomllib
from collections.abc import Callable, Iterator

import pytest

from bertwright.config import values
from tests.house.source import PACKAGE, ROOT, Module, modules

NAMELESS = {"utils", "util", "common", "helpers", "helper", "base", "types", "misc"}
READS_FOREIGN_PICKLES = "bertwright.storage.pickled"
"""May call `torch.load` once, with `weights_only=True`: it reads other programs' weights."""


def is_named(module: Module) -> Iterator[str]:
    if NAMELESS.intersection(module.name.split(".")):
        yield f"{module.place}: a thing without a home has no name yet"


ANNOTATED_BY_TYPES = {
    "bertwright.config.run",
    "bertwright.config.translation",
    "bertwright.models.bert.config",
    "bertwright.models.roberta.config",
}
"""Where annotations cannot be text: subclasses in other files have them read by cyclopts."""


def has_a_header(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.place} says nothing of itself"
    statements = [s for s in module.tree.body if not _is_docstring(s)]
    if module.path.name == "__init__.py" and module.name != "bertwright":
        if not all(_is_future(s) for s in statements):
            yield f"{module.place} holds a docstring only"
    elif statements and not _is_future(statements[0]) and module.name not in ANNOTATED_BY_TYPES:
        yield f"{module.place}: `annotations` first"


def says_what_is_public(module: Module) -> Iterator[str]:
    for node in _public(module.tree):
        is_overload = any("overload" in ast.unparse(each) for each in node.decorator_list)
        only_returns = len(node.body) == 1 and isinstance(node.body[0], ast.Return)
        if not is_overload and not only_returns and not ast.get_docstring(node):
            yield f"{module.place}:{node.lineno}: {node.name} says nothing"


def explains_every_key(module: Module) -> Iterator[str]:
    for node in _configurations(module):
        for here, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
            if isinstance(here, ast.AnnAssign) and not _is_docstring(after):
                yield f"{module.place}:{here.lineno}: {ast.unparse(here.target)} is unexplained"


def freezes_configurations(module: Module) -> Iterator[str]:
    for node in _configurations(module):
        if "frozen=True" not in " ".join(ast.unparse(d) for d in node.decorator_list):
            yield f"{module.place}:{node.lineno}: {node.name}"


def swallows_no_errors(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            where = f"{module.place}:{node.lineno}"
            if node.type is None:
                yield f"{where}: bare except"
            if all(isinstance(s, ast.Pass) for s in node.body):
                yield f"{where}: except: pass"


def leaves_nothing_for_later(module: Module) -> Iterator[str]:
    for number, line in enumerate(module.text.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            yield f"{module.place}:{number}: {line.strip()}"


def reads_no_pickles(module: Module) -> Iterator[str]:
    allowed = []
    if module.name == READS_FOREIGN_PICKLES:
        calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
        allowed = [
            call.func
            for call in calls
            if ast.unparse(call.func) == "torch.load"
            and any(ast.unparse(key) == "weights_only=True" for key in call.keywords)
        ][:1]
    for node in ast.walk(module.tree):
        where = f"{module.place}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            if names & {"pickle", "dill", "joblib", "cloudpickle"}:
                yield f"{where}: pickles"
        if isinstance(node, ast.Attribute) and node.attr in ("load", "save"):
            if node in allowed:
                continue
            called = ast.unparse(node)
            if called in ("torch.load", "torch.save"):
                yield f"{where}: {called} pickles"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            value = ast.unparse(node.value)
            if value != "False":
                yield f"{where}: allow_pickle={value}"


def prints_from_the_command_line_only(module: Module) -> Iterator[str]:
    if module.part in ("cli", "console", "__main__"):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            yield f"{module.place}:{node.lineno}: print; take on_progress or raise"


RULES = (
    is_named,
    has_a_header,
    says_what_is_public,
    explains_every_key,
    freezes_configurations,
    swallows_no_errors,
    leaves_nothing_for_later,
    reads_no_pickles,
    prints_from_the_command_line_only,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file(rule: Callable[[Module], Iterator[str]]) -> None:
    broken = [told for module in modules().values() for told in rule(module)]
    assert not broken, "\n".join(broken)


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


BESIDE_THE_PACKAGE = {
    *("benchmarks", "docs", "examples", "experiments"),
    *("contract", "formats", "gpu", "house", "parity"),
}
"""Folders of tests that are not of one folder of the package."""


def test_tests_lie_where_the_code_lies() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    mirrored = (each for each in folders if not BESIDE_THE_PACKAGE.intersection(each.parts[:1]))
    strays = [each for each in mirrored if not (PACKAGE / each / "__init__.py").is_file()]
    assert [str(each) for each in strays] == []


def _public(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and classes at the top of a file that others may call."""
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.name.startswith("_") or node.name in ("__getattr__", "__dir__"):
            yield node


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _configurations(module: Module) -> list[ast.ClassDef]:
    """The dataclasses of a file of configurations."""
    if not module.holds_configurations:
        return []
    classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef)]
    return [c for c in classes if any("dataclass" in ast.unparse(d) for d in c.decorator_list)]


def _config_classes() -> list[type]:
    found: list[type] = []
    for module in modules().values():
        if module.holds_configurations:
            values_of = vars(importlib.import_module(module.name)).values()
            own = (value for value in values_of if isinstance(value, type))
            found.extend(
                c for c in own if dataclasses.is_dataclass(c) and c.__module__ == module.name
            )
    return found


def test_defaults_survive_toml() -> None:
    tried = 0
    for cls in _config_classes():
        try:
            default = cls()
        except TypeError:  # it has keys without a default
            continue
        tried += 1
        assert values.from_dict(cls, tomllib.loads(values.to_toml(default))) == default, cls
    assert tried > 20
