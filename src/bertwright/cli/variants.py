"""Verbs whose options depend on the words of the command line: `pretrain`, `finetune`, `compare`.

Such a verb is the function that `verb_for(words)` of its file returns. cyclopts makes options of
the annotations of a function, so `vary` gives the function those of its variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """What the words of a command line decide about a verb."""

    types: Mapping[str, Any] = field(default_factory=dict)
    """The type of each argument of the function whose options depend on the words."""
    has_option: Callable[[str], bool] = lambda key: True
    """Returns whether a key is an option."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The help of keys, where it is not the docstring of the key."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of keys, where they are not those of the classes of sections."""
    section: tuple[str, list[str]] | None = None
    """The title of a section of the help that is always shown, and its keys."""
    build: Callable[[dict[str, Any]], Any] | None = None
    """Returns a configuration from the keys given; None: `values.from_dict` does."""
    words: tuple[str, ...] = ()
    """The words after the verb with which --help-all shows the options."""
    epilogue: str = ""
    """A text after the options."""


def vary(verb: Callable[..., None], variant: Variant) -> Callable[..., None]:
    """Make a function that nothing else uses the verb of a variant, and return it."""
    verb.__annotations__.update(variant.types)
    verb.variant = variant  # type: ignore[attr-defined]
    return verb


def variant_of(verb: object) -> Variant:
    """Return the variant of a verb; of one that has none, the empty one."""
    found: Variant = getattr(verb, "variant", Variant())
    return found
