"""A masked language model is measured on the held-out sentences that it reads whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.errors import DataError
from bertwright.inference.model import load
from bertwright.recipes.compare.measure import measure_text
from bertwright.recipes.compare.systems import SYSTEMS
from bertwright.recipes.compare.text import TextFolders
from tests.small_bert import CONFIG, write_model


def test_sentences_too_long_for_a_masked_model_are_left_out(tmp_path: Path) -> None:
    model = load(write_model(tmp_path / "model", ["masked_lm"]), "cpu")
    folders = TextFolders(tmp_path / "out")
    folders.text.mkdir(parents=True)
    folders.words.write_text("a\nb")
    long = "a b " * CONFIG.max_position_embeddings
    folders.sentences.write_text(f"a b c\n{long}\n")
    found = measure_text(SYSTEMS["bert"], model, folders)
    assert found["characters"] == len("a b c")
    folders.sentences.write_text(f"{long}\n")
    with pytest.raises(DataError, match="sentence"):
        measure_text(SYSTEMS["bert"], model, folders)
