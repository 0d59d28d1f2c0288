"""Text to a vocabulary and shards, in a process of its own beside the first parts."""

from __future__ import annotations

import contextlib
import json
import random
import time
from importlib import import_module
from pathlib import Path
from typing import Any

DONE = "prepared.json"
"""Is written last, with what was made or why not."""
MADE_UP = 4000
"""Words of a rehearsal's text."""


def prepare(text: Path | None, work: Path, smoke: bool) -> None:
    """Make `work/tokenizer` and `work/shards` of a text; in a rehearsal of a made-up one."""
    from bertwright.config.corpus import CorpusConfig
    from bertwright.config.tokenizer import TokenizerConfig
    from bertwright.data.build import build_shards
    from bertwright.machine import usable_cores
    from bertwright.text.tokenizer.train import train_tokenizer

    for name in () if smoke else ("transformers", "sentence_transformers"):
        with contextlib.suppress(ImportError):  # their files are read once, before they are timed
            import_module(name)
    began, workers = time.time(), max(1, min(12, usable_cores() - 2))
    try:
        if text is None:
            text = work / "text.txt"
            text.write_text(made_up(), encoding="utf-8")
        size = 300 if smoke and text.parent == work else 16384
        config = TokenizerConfig(vocab_size=size, workers=workers)
        made, _ = train_tokenizer([str(text)], CorpusConfig(), config)
        made.save(work / "tokenizer")
        manifest = build_shards([str(text)], work / "shards", work / "tokenizer", workers=workers)
        found: dict[str, Any] = {
            "ok": True,
            "seconds": time.time() - began,
            "vocabulary": size,
            "tokens": manifest.get("tokens"),
            "documents": manifest.get("documents"),
        }
    except Exception as error:
        found = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    (work / DONE).write_text(json.dumps(found), encoding="utf-8")


def made_up() -> str:
    """Documents in which each sentence counts on from a word."""
    words = [a + b + c for a in "bdfgkl" for b in "aeiou" for c in "mnprst"]
    chance, lines = random.Random(0), []
    for number in range(MADE_UP // 8):
        first, length = chance.randrange(len(words)), chance.randint(5, 12)
        sentence = " ".join(words[(first + n) % len(words)] for n in range(length))
        lines.append(sentence.capitalize() + ".")
        if number % 8 == 7:
            lines.append("")
    return "\n".join(lines) + "\n"
