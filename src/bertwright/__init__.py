"""Bertwright: pre-train, fine-tune, evaluate and serve BERT from your own text.

`import bertwright` is quick: the names below are looked up when first used, so torch is loaded only
when a model is.
"""

from __future__ import annotations

__version__ = "0.1.0"
