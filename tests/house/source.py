"""The source tree as the house tests see it: modules, their syntax trees, what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bertwright"


@dataclass(frozen=True)
class Import:
    """One import of something of ours, or of another top-level package."""

    module: str
    """The module's full name: `bertwright.text.tokenizer.tokenizer`, `torch.nn`."""
    line: int
    at_top: bool
    """Whether it runs when the file is imported."""
    typing_only: bool
    """Whether it stands under `if TYPE_CHECKING:`."""


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The file as the messages of these tests name it."""
        return str(self.path.relative_to(ROOT))

    @property
    def part(self) -> str:
        """The folder, or the file right under the package: `text`, `errors`."""
        return (self.name.split(".") + [""])[1]

    @property
    def holds_configurations(self) -> bool:
        """Whether it is a file of `config/`, or the configuration of a model."""
        return self.part == "config" or (
            self.name.startswith("bertwright.models.") and (self.name.endswith(".config"))
        )


@cache
def modules() -> dict[str, Module]:
    """Every module of the package by its full name."""
    found: dict[str, Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["bertwright", *path.relative_to(PACKAGE).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts)
        found[name] = Module(name, path, text, ast.parse(text, str(path)))
    return found


@cache
def imports(name: str) -> tuple[Import, ...]:
    """What a module imports; `from package import file` counts as the file."""
    return tuple(_walk(modules()[name].tree, at_top=True, typing_only=False))


def _walk(node: ast.AST, at_top: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_top, typing_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: relative import"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                target = inner if inner in modules() else str(child.module)
                yield Import(target, child.lineno, at_top, typing_only)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(child, at_top, typing_only=True)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _walk(child, at_top and not inside, typing_only)
