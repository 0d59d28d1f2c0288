"""Changes to an architecture: those of its configuration's fields that a run may set."""

from __future__ import annotations

import ast
import inspect
import sys
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints


class Changes:
    """Changes to the architecture that `model` names, a frozen dataclass; None: as that has it.

    Its fields are those of `of`, with their types and their texts for `--help`, but without
    `vocab_size` and those in `fixed`; they are None unless `defaults` has another value.
    """

    def __init_subclass__(cls, of: type[Any], fixed: str = "", **defaults: Any) -> None:
        types, texts = get_type_hints(of), _texts_of(of)
        names = [f.name for f in fields(of) if f.name not in ("vocab_size", *fixed.split())]
        cls.__annotations__ = {name: types[name] | None for name in names}
        for name in names:
            metadata = {"help": texts.get(name, "")}
            setattr(cls, name, field(default=defaults.get(name), metadata=metadata))
        dataclass(frozen=True)(cls)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A field."""


def _texts_of(of: type[Any]) -> dict[str, str]:
    """The docstrings under the fields of a class, by field."""
    texts: dict[str, str] = {}
    for base in reversed(of.__mro__[:-1]):
        texts |= _texts_in(base.__module__).get(base.__name__, {})
    return texts


@cache
def _texts_in(module: str) -> dict[str, dict[str, str]]:
    """The docstrings under fields, by class and field; none where there is no source."""
    classes: list[ast.stmt] = []
    with suppress(OSError):
        classes = ast.parse(inspect.getsource(sys.modules[module])).body
    return {
        each.name: {
            ast.unparse(before.target): inspect.cleandoc(ast.literal_eval(text.value))
            for before, text in pairwise(each.body)
            if isinstance(before, ast.AnnAssign) and isinstance(text, ast.Expr)
        }
        for each in classes
        if isinstance(each, ast.ClassDef)
    }
