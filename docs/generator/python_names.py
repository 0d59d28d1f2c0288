"""The page of Python: the public names, with their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sphinx.util.inspect import stringify_signature

SECTIONS = (
    (
        "Functions",
        "Each is a name of the package: `import bertwright`.",
        [
            f"bertwright.{name}"
            for name in ["build_data", "pretrain", "finetune", "compare", "evaluate"]
        ],
    ),
    (
        "Models",
        "`bertwright.load` returns a `Model`.",
        [
            "bertwright.load",
            "bertwright.load_tokenizer",
            "bertwright.inference.model.Model",
            "bertwright.inference.model.EncodedText",
        ],
    ),
    (
        "Results",
        "What the functions return.",
        ["bertwright.Run", "bertwright.scripting.Scores", "bertwright.Ladder"],
    ),
    (
        "Predictions",
        "`Model.predict` returns one of these for each input, by the kind of task.",
        [
            f"bertwright.tasks.predictions.{kind}Prediction"
            for kind in ["Text", "Number", "Tagging", "Span", "Choice", "Generation", "Similarity"]
        ],
    ),
    (
        "Vectors",
        "Functions of the verbs of the same names.",
        [
            "bertwright.inference.vectors.embed.Embedder",
            "bertwright.inference.files.similar.similar",
            "bertwright.inference.files.mining.mine",
            "bertwright.inference.files.pairs.evaluate_vectors",
            "bertwright.inference.files.retrieval.evaluate_search",
        ],
    ),
    (
        "Client of a server",
        'It needs httpx alone: `pip install "bertwright[client]"`.',
        ["bertwright.serve.client.Client", "bertwright.serve.client.AsyncClient"],
    ),
    (
        "Errors",
        "The command line prints their messages and ends with their exit codes.",
        [
            f"bertwright.errors.{name}"
            for name in [
                "BertwrightError",
                "ConfigError",
                "MissingExtra",
                "DataError",
                "IntegrityError",
                "Interrupted",
            ]
        ],
    ),
)
"""Title, introduction and names of each section of the page."""


def page() -> str:
    """Return the sections of the page of Python."""
    lines: list[str] = []
    for title, text, names in SECTIONS:
        lines += [f"## {title}", "", text, ""]
        for name in names:
            lines += [*describe(name), ""]
    return "\n".join(lines)


def describe(name: str) -> Iterator[str]:
    """Yield the lines of a function, or of a class with its attributes and methods."""
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module), last)
    yield f"```{{py:currentmodule}} {module}\n```"
    yield ""
    if not inspect.isclass(value):
        yield from _directive("function", last, value)
        return
    yield from _directive("class", last, value)
    for attribute, text in attributes(value):
        yield ""
        yield from _block("attribute", f"{last}.{attribute}", text)
    for member, found in _members(value):
        yield ""
        if isinstance(found, property) or hasattr(found, "func"):
            text = inspect.getdoc(getattr(found, "func", found)) or ""
            yield from _block("property", f"{last}.{member}", markdown(text))
        else:
            yield from _directive("method", f"{last}.{member}", found)


def _members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the public properties and methods of a class, and of those of ours that it is made of,
    in the order in which they are written.
    """
    seen = set()
    for of in (each for each in cls.__mro__ if each.__module__.startswith("bertwright.")):
        for name, value in vars(of).items():
            is_member = inspect.isfunction(value) or isinstance(value, property)
            is_member |= hasattr(value, "func") and hasattr(value, "attrname")  # cached_property
            if is_member and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def attributes(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the public attributes of a class with the text below each: fields of a dataclass, and
    what `__init__` assigns and describes.
    """
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    made = [each for each in tree.body if getattr(each, "name", "") == "__init__"]
    bodies = [tree.body, *(each.body for each in made if isinstance(each, ast.FunctionDef))]
    for body in bodies:
        for statement, after in zip(body, [*body[1:], None], strict=True):
            target = _target(statement)
            text = _text(after)
            is_field = isinstance(statement, ast.AnnAssign) and body is tree.body
            if target and not target.startswith("_") and (text or is_field):
                yield target, text


def _target(statement: ast.stmt) -> str:
    """Return the name that a statement assigns: of a field, or of `self`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = statement.target if isinstance(statement, ast.AnnAssign) else [*targets, None][0]
    if isinstance(target, ast.Name) and isinstance(statement, ast.AnnAssign):
        return target.id
    of_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
    return target.attr if isinstance(target, ast.Attribute) and of_self else ""


def _text(statement: ast.stmt | None) -> str:
    """Return the text of a statement that is a docstring, else an empty one."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return ""


def _directive(kind: str, name: str, value: Any) -> Iterator[str]:
    """Yield a function, method or class with its signature and its docstring."""
    signature = ""
    if kind != "class":
        found = inspect.signature(value)
        parameters = [_named(each) for each in found.parameters.values() if each.name != "self"]
        signature = stringify_signature(
            found.replace(parameters=parameters), unqualified_typehints=True
        )
    yield from _block(kind, f"{name}{signature}", markdown(inspect.getdoc(value) or ""))


def _named(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter whose default, if it is a function, is shown by its name."""
    if not inspect.isfunction(parameter.default):
        return parameter
    return parameter.replace(default=_Name(parameter.default.__name__))


class _Name(str):
    """A name that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _block(kind: str, heading: str, text: str) -> Iterator[str]:
    yield f"`````{{py:{kind}}} {heading}"
    yield text
    yield "`````"


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown: its `Args:` become a list of definitions."""
    before, *rest = re.split(r"^(Args|Returns|Yields|Raises):\n", docstring, flags=re.M)
    lines = [before.rstrip()]
    for title, text in zip(rest[::2], rest[1::2], strict=True):
        dedented = textwrap.dedent(text).strip()
        if title in ("Returns", "Yields"):
            lines += ["", f"**{title}** {dedented}"]
            continue
        lines += ["", f"**{'Arguments' if title == 'Args' else title}**", ""]
        for item in re.split(r"\n(?=\S)", dedented):
            name, _, meaning = re.sub(r"\s*\n\s*", " ", item).partition(": ")
            names = ", ".join(f"`{each}`" for each in name.split(", "))
            lines += [names, f": {meaning}", ""]
    return "\n".join(lines)
