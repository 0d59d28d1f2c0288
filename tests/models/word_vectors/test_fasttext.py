"""fastText: n-grams as published, vectors of unseen words, and its files both ways with gensim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.catalogue import make_run
from bertwright.models.word_vectors.config import FastTextRun
from bertwright.models.word_vectors.subwords import buckets_of, word_units
from bertwright.recipes.pretrain import pretrain
from tests.small_runs import build_data

pytest.importorskip("numba")
BUCKETS = 300


def run_of(data: Path, out: Path, **over: Any) -> FastTextRun:
    given = {"data": str(data), "out": str(out), "device": "cpu", "precision": "fp32"}
    sizes = {"hidden_size": 8, "buckets": BUCKETS}
    return make_run(
        FastTextRun, {**given, "architecture": sizes, "workers": 1, "epochs": 2, **over}
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fasttext")
    pretrain(run_of(build_data(folder), folder / "run", subsample=0.0), lambda _: None)
    return folder / "run"


def test_n_grams_of_a_word() -> None:
    def number(text: str) -> int:  # FNV-1a of ASCII
        found = 2166136261
        for byte in text.encode():
            found = ((found ^ byte) * 16777619) % (1 << 32)
        return found % 1000

    grams = ["<wh", "whe", "her", "ere", "re>", "<whe", "wher", "here", "ere>"]
    assert sorted(buckets_of("where", 1000, 3, 4)) == sorted(map(number, grams))
    assert buckets_of("", 1000, 3, 6) == []


@pytest.mark.parametrize("word", ["where", "Zürich", "日本語", "a", "naïve😀"])
def test_n_grams_are_those_of_gensim(word: str) -> None:
    gensim = pytest.importorskip("gensim.models.fasttext")
    for least, most in ((3, 6), (2, 4)):
        theirs = gensim.ft_ngram_hashes(word, least, most, 2000)
        assert sorted(buckets_of(word, 2000, least, most)) == sorted(theirs)


def test_a_word_is_the_mean_of_its_rows(trained: Path) -> None:
    encoder: Any = checkpoint.load(trained).learner.encoder
    table = open_words(trained)
    word = table.words[3]
    row = encoder.config.vocab_size - len(table.words) + 3
    own = [row, *(encoder.config.vocab_size + each for each in buckets_of(word, BUCKETS, 3, 6))]
    torch.testing.assert_close(encoder.table.weight[row], encoder.rows[own].mean(0))
    starts, units = word_units(["ab", "c"], {1}, BUCKETS, 3, 6)
    assert starts.tolist() == [0, len(units) - 1, len(units)]
    encoder.set_table(starts, units)
    found = encoder.table.weight
    torch.testing.assert_close(found[0], encoder.rows[units[:-1]].mean(0))


def test_words_that_are_not_in_the_vocabulary(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(["words", "nearest", "--model", str(trained), "bakilo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["nearest"]["bakilo"]
    assert len(found) == 10
    table = open_words(trained)
    encoder: Any = checkpoint.load(trained).learner.encoder
    rows = encoder.config.vocab_size + np.array(buckets_of("bakilo", BUCKETS, 3, 6))
    expected = encoder.rows.numpy()[rows].mean(0)
    np.testing.assert_allclose(
        table.vector("Bakilo"), expected / np.linalg.norm(expected), rtol=1e-5
    )


def test_the_file_is_read_as_it_was_written(trained: Path, tmp_path: Path) -> None:
    path, again = tmp_path / "m.bin", tmp_path / "again"
    assert run_verb(["convert", str(trained), str(path), "--to", "fasttext"]) == 0
    assert run_verb(["convert", str(path), str(again)]) == 0
    one, other = open_words(trained), open_words(again)
    assert set(one.words) == set(other.words)
    for word in (*one.words, "bakilo"):
        np.testing.assert_allclose(other.vector(word), one.vector(word), rtol=1e-5, atol=1e-6)
    data = path.read_bytes()
    for cut in (30, 200, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert run_verb(["convert", str(path), str(tmp_path / "cut")]) == 4


def test_gensim_reads_ours_and_we_read_its(trained: Path, tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models.fasttext")
    path = tmp_path / "m.bin"
    assert run_verb(["convert", str(trained), str(path), "--to", "fasttext"]) == 0
    theirs = gensim.load_facebook_model(str(path))
    table = open_words(trained)
    for word in (*table.words, "bakilo", "zürich"):
        vector = theirs.wv[word]
        np.testing.assert_allclose(
            table.vector(word), vector / np.linalg.norm(vector), rtol=1e-4, atol=1e-5
        )
    other = tmp_path / "theirs.bin"
    gensim.save_facebook_model(theirs, str(other))
    assert run_verb(["convert", str(other), str(tmp_path / "read")]) == 0
    again = open_words(tmp_path / "read")
    for word in (table.words[0], "bakilo"):
        np.testing.assert_allclose(again.vector(word), table.vector(word), rtol=1e-4, atol=1e-5)


def test_what_no_model_can_have(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_n"):
        run_of(trained, tmp_path, architecture={"max_n": 2}).model_config(9)
    assert run_verb(["convert", str(trained), str(tmp_path / "v.vec"), "--to", "fasttext"]) == 2
    (tmp_path / "v.vec").write_text("2 2\na 1 2\nb 2 1\n")
    with pytest.raises(DataError, match="none of the"):
        open_words(tmp_path / "v.vec").require("bakilo")
