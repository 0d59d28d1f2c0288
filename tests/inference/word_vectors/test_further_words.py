"""Words outside the vocabulary, invented here: ELMo spells them, fastText has their n-grams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError
from bertwright.inference.senses import WordUsage, vectors_of_usages
from bertwright.inference.word_vectors.table import open_words
from tests.inference.word_vectors.sample import INVENTED, TEXTS, WORDS, elmo, fasttext


def test_elmo_spells_a_word_as_if_it_were_in_the_vocabulary(tmp_path: Path) -> None:
    small = bertwright.load(elmo(tmp_path / "small", WORDS))
    large = bertwright.load(elmo(tmp_path / "large", [*WORDS, *INVENTED, ","]))
    np.testing.assert_allclose(small.embed(TEXTS), large.embed(TEXTS), rtol=1e-5, atol=1e-6)
    own, others = (model.encode(TEXTS) for model in (small, large))
    for one, other in zip(own, others, strict=True):
        np.testing.assert_allclose(one.layers, other.layers, rtol=1e-5, atol=1e-6)
        assert one.tokens == other.tokens
    usages = [WordUsage("frobish", "", "the frobish cat", 4), WordUsage("cat", "", "the cat", 4)]
    for one, other in zip(*(vectors_of_usages(m, usages) for m in (small, large)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    written = small.embed(["[UNK]", "zorbled", "frobish"])
    assert len(np.unique(written.round(5), axis=0)) == 3


def test_fasttext_has_the_n_grams_of_a_word_in_every_verb(tmp_path: Path) -> None:
    folder = fasttext(tmp_path / "fasttext")
    table, model = open_words(folder), bertwright.load(folder)
    direct = open_words(folder.with_suffix(".bin"))
    for word in INVENTED:
        vector = model.embed([f'"{word},'])[0]
        for expected in (table.unseen(word), direct.unseen(word)):
            assert expected is not None
            np.testing.assert_allclose(vector, expected, rtol=1e-5)
    unseen = table.unseen("zorbled")
    assert unseen is not None
    expected = (table.vectors[table.row["cat"]] + unseen) / 2
    np.testing.assert_allclose(model.embed(["cat zorbled"])[0], expected, rtol=1e-5)


@pytest.mark.parametrize("transfer", ["features", "finetune"])
@pytest.mark.parametrize("make", [lambda f: elmo(f, WORDS), fasttext])
def test_a_tagger_reads_the_spelling_of_unknown_words(
    tmp_path: Path, make: Callable[[Path], Path], transfer: str
) -> None:
    model = make(tmp_path / "model")
    train = tmp_path / "train.conll"
    rows = [f"the O\n{stem}{'ish' if n % 2 else 'ed'} {'A' if n % 2 else 'V'}\n\n"
            for n, stem in enumerate(["bl", "kr", "sn", "tr", "gl", "pf"] * 2)]  # fmt: skip
    train.write_text("".join(rows))
    run = tmp_path / "run"
    command = ["finetune", "tagging", "--model", model, "--train", train, "--dev", train]
    command += ["--transfer", transfer, "--epochs", "1", "--seeds", "1", "--out", run]
    assert run_verb([*map(str, command), "--learning-rate", "1e-3"]) == 0
    trained = bertwright.load(run)
    data = trained.runner.tokenizer
    assert data.further_words is not None
    found = trained.predict([["the", "frobish"], ["the", "zorbled"]])
    assert len(found) == 2
    ids = data.encode_bare_ids(["frobish", "zorbled", "cat", "[MASK]"], recognize=False)
    assert ids[0] != ids[1]
    assert max(ids[2]) < data.further_words.first
    assert data.vocab.get("[MASK]") not in ids[3]


def test_the_words_nearest_to_one(tmp_path: Path) -> None:
    model = bertwright.load(fasttext(tmp_path / "fasttext"))
    table = open_words(tmp_path / "fasttext")
    for word in ("cat", "zorbled"):
        expected = table.nearest(table.require(word), 2, [word])
        found = model.most_similar(word, 2)
        assert [each for each, _ in found] == [each for each, _ in expected]
        np.testing.assert_allclose([c for _, c in found], [c for _, c in expected], rtol=1e-5)
    with pytest.raises(ConfigError, match="top is 0"):
        model.most_similar("cat", 0)
    (tmp_path / "v.vec").write_text("cat 1 0\nsat 0 1\n")
    convert(tmp_path / "v.vec", tmp_path / "vectors")
    with pytest.raises(DataError, match="'zorbled'"):
        bertwright.load(tmp_path / "vectors").most_similar("zorbled")
    with pytest.raises(ConfigError, match="words nearest"):
        bertwright.load(elmo(tmp_path / "elmo", WORDS)).most_similar("cat")
