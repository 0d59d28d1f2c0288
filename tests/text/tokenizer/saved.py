"""What a tokenizer saves, as the library `tokenizers` alone reads it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import tokenizers

from bertwright.text.tokenizer.tokenizer import Tokenizer


def saved_backend(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Save a tokenizer and read its tokenizer.json."""
    with TemporaryDirectory() as folder:
        tokenizer.save(folder)
        return tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
