"""What a run of a system is given, and how large its model is said to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.run import StepRun
from bertwright.models.catalogue import MODELS
from bertwright.models.load import load
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.recipes.compare import text, train
from bertwright.recipes.compare.systems import SYSTEMS
from bertwright.recipes.compare.train import numbers_of, run_of, write_page


def test_rows_of_character_ngrams_count() -> None:
    config = FastTextConfig(vocab_size=11, hidden_size=4, buckets=30)
    learner = load("fasttext").make_learner(config, [])
    assert numbers_of(learner) == 4 * 11 + 4 * (11 + 30)


def test_a_page_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(run: Path) -> None:
        raise TypeError("no such chart")

    said: list[str] = []
    assert not write_page(tmp_path, said.append)
    monkeypatch.setattr(train, "read_run", bug)
    assert not write_page(tmp_path, said.append)
    assert "no run" in said[0]
    assert "TypeError: no such chart" in said[1]


def test_a_run_has_the_sizes_of_its_preset_and_leaves_the_time_to_training(
    corpus: Path, tmp_path: Path
) -> None:
    config = CompareConfig(out=str(tmp_path / "out"), vocab_size=200, minutes=1.5)
    folders = text.TextFolders(tmp_path / "out")
    text.write_text([str(corpus)], CorpusConfig(sentences="line"), folders, 0.2)
    text.train_vocabularies(folders, config, lowercase=True)
    for entry in SYSTEMS.values():
        kind = MODELS[entry.system].run
        if entry.reads_pairs or kind is None or not issubclass(kind, StepRun):
            continue
        text.build(folders, entry.data, ())
        run = run_of(entry, config, folders.shards / entry.data, tmp_path / "run", 1, minutes=1.5)
        assert isinstance(run, StepRun)
        preset = vars(MODELS[entry.system].preset(entry.model)) | entry.settings.get(
            "architecture", {}
        )
        sizes = {"vocab_size", "output_size"}  # at most those of the text
        for key, value in preset.items():
            assert key in sizes or getattr(run.architecture, key) == value, (entry.name, key)
        # at four thousand tokens a second, of which a validation reads three times as many
        least = 3 * 4000 * 60 * run.validation.every_minutes
        assert run.validation.tokens < least / 20, entry.name
