"""Changes to an architecture: those of its configuration's fields that a run may set."""

from __future__ import annotations

import ast
import inspect
import sys
from contextlib import suppress
from dataclasses import field, fields, make_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, get_type_hints


def changes_to(of: type[Any], fixed: str = "", **defaults: Any) -> type[Any]:
    """A frozen dataclass of changes to `of`, an architecture; None: as the model has it.

    Its fields are those of `of`, with their types and their texts for `--help`, but without
    `vocab_size` and those in `fixed`; they are None unless `defaults` has another value.
    """
    types, texts = get_type_hints(of), _texts_of(of)
    names = [f.name for f in fields(of) if f.name not in ("vocab_size", *fixed.split())]
    made = []
    for name in names:
        metadata = {"help": texts.get(name, "")}
        own = field(default=defaults.get(name), metadata=metadata)
        made.append((name, types[name] | None, own))
    return make_dataclass("Architecture", made, frozen=True, namespace={"__module__": __name__})


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
