"""Changes to an architecture: those of its configuration's fields that a run may set."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import Any, get_type_hints


def changes_to(of: type[Any], fixed: str = "", **defaults: Any) -> type[Any]:
    """A frozen dataclass of changes to `of`, an architecture; None: as the model has it.

    Its fields are those of `of`, with their types, but without `vocab_size` and those in `fixed`;
    they are None unless `defaults` has another value.
    """
    types = get_type_hints(of)
    names = [f.name for f in fields(of) if f.name not in ("vocab_size", *fixed.split())]
    made = [(name, types[name] | None, field(default=defaults.get(name))) for name in names]
    return make_dataclass("Architecture", made, frozen=True, namespace={"__module__": __name__})
