"""Train, fine-tune and serve language models on your text, from n-grams to BERT.

`import bertwright` is quick: the names below are looked up when they are first used, so torch is
loaded only when a model is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bertwright.version import __version__

if TYPE_CHECKING:
    from bertwright.inference.model import load as load
    from bertwright.scripting import Ladder as Ladder
    from bertwright.scripting import Run as Run
    from bertwright.scripting import build_data as build_data
    from bertwright.scripting import compare as compare
    from bertwright.scripting import evaluate as evaluate
    from bertwright.scripting import finetune as finetune
    from bertwright.scripting import pretrain as pretrain
    from bertwright.text.tokenizer.tokenizer import load_tokenizer as load_tokenizer

_HOMES = {
    "Ladder": "bertwright.scripting",
    "Run": "bertwright.scripting",
    "build_data": "bertwright.scripting",
    "compare": "bertwright.scripting",
    "evaluate": "bertwright.scripting",
    "finetune": "bertwright.scripting",
    "load": "bertwright.inference.model",
    "load_tokenizer": "bertwright.text.tokenizer.tokenizer",
    "pretrain": "bertwright.scripting",
}

__all__ = [
    "Ladder",
    "Run",
    "__version__",
    "build_data",
    "compare",
    "evaluate",
    "finetune",
    "load",
    "load_tokenizer",
    "pretrain",
]


def __getattr__(name: str) -> Any:
    """Return the object of a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bertwright' has no attribute {name!r}; it has {__all__}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, including those that have not been looked up yet."""
    return sorted(__all__)
