"""What word vectors, translation models and memory networks show of themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.data.shards import open_shards
from bertwright.inference.attention.maps import AttentionMaps
from bertwright.inference.senses import WordUsage
from bertwright.inference.vectors.words import WordTable
from bertwright.recipes.examine import read_run_config, write_findings
from bertwright.recipes.learned import layers, translation, word_vectors
from bertwright.recipes.learned.run import FinishedRun, training_documents
from bertwright.recipes.learned.translation import ReferencePair, Translations
from bertwright.report.pages import run_page
from bertwright.report.read import read_run
from tests.contract.conftest import config_of
from tests.small_runs import WORDS, build_data, build_pairs, build_stories, records, train


def finished(folder: Path) -> FinishedRun:
    config = read_run_config(folder)
    return FinishedRun(folder, config, open_shards(config.data, False), records(folder))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A tiny run of word2vec."""
    pytest.importorskip("numba")
    data = build_data(tmp_path_factory.mktemp("data"))
    train(config_of("word2vec", data, data / "run"))
    return finished(data / "run")


def with_vectors(run: FinishedRun, vectors: Any) -> FinishedRun:
    other = FinishedRun(run.folder, run.config, run.shards, run.records)
    table = word_vectors.table_of(run)
    other.made[word_vectors.table_of] = WordTable(table.words, vectors)
    return other


def test_word_vectors_are_held_against_the_text(vectors: FinishedRun) -> None:
    words = list(word_vectors.table_of(vectors).words)
    # the text counts on from word to word, so words that stand together lie on a circle together
    angle = [2 * np.pi * WORDS.index(w) / len(WORDS) if w in WORDS else 0.0 for w in words]
    circle = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    known = with_vectors(vectors, circle)
    found = known.once(word_vectors.neighbouring_pairs)
    assert found.pairs > 100
    assert found.fraction > 0.8
    assert word_vectors.verdict(known).answer == "yes"
    noise = np.random.default_rng(2).standard_normal((len(words), 40)).astype(np.float32)
    random = with_vectors(vectors, noise)
    assert abs(random.once(word_vectors.neighbouring_pairs).fraction - 0.5) < 0.1
    assert word_vectors.verdict(random).answer != "yes"


def test_the_verdict_on_word_vectors_is_that_of_the_worst_test(vectors: FinishedRun) -> None:
    run = with_vectors(vectors, word_vectors.table_of(vectors).vectors)
    run.made[word_vectors.neighbouring_pairs] = word_vectors.Measured(0.9, 0.002, 20_000)
    assert word_vectors.verdict(run).answer == "yes"
    run.made[word_vectors.nearer_words] = word_vectors.Nearer(0.62, 120, 131)
    answer, sentence = word_vectors.verdict(run)
    assert answer == "perhaps"
    assert sentence.index("62.0% of 120 (95% interval 53.1 to 70.2") < sentence.index("90.0%")
    run.made[word_vectors.nearer_words] = word_vectors.Nearer(0.95, 120, 131)
    assert word_vectors.verdict(run).answer == "yes"


def test_word_vectors_read_all_documents(vectors: FinishedRun) -> None:
    _, documents, tokens, total = training_documents(vectors.shards, vectors.config, 10**9)
    assert len(documents) == vectors.shards.num_documents
    assert tokens == total == vectors.shards.num_tokens


def test_related_words_are_counted_with_their_coverage(vectors: FinishedRun) -> None:
    words = ["king", "queen", "bread", "sea", "ocean", "letter"]
    x = np.array([[1, 0], [1, 0.1], [0, 1], [1, 0], [0, 1], [1, 0]], np.float32)
    run = FinishedRun(vectors.folder, vectors.config, vectors.shards, vectors.records)
    run.made[word_vectors.table_of] = WordTable(words, x)
    found = word_vectors.nearer_words(run)
    assert (found.known, found.fraction) == (2, 0.5)
    assert found.total > 100


def test_own_sets_have_the_form_of_their_kind() -> None:
    lines = [line.split() for line in word_vectors._own_file("nearer.txt") if line[:1] != "#"]
    assert {len(line) for line in lines} == {3}
    assert all(len({*line}) == 3 for line in lines)


def test_the_page_of_word_vectors(vectors: FinishedRun) -> None:
    write_findings(vectors.folder)
    found = read_run(vectors.folder)
    titles = [section["title"] for section in found.examples["sections"]]
    assert titles[:2] == ["Tests", "Neighbours"]
    assert "most frequent words" in titles[2]
    page = run_page(found)
    assert "near each other in the text" in page
    assert WORDS[0] in page


@pytest.mark.parametrize(
    ("losses", "rises"), [([2.3, 2.2, 2.4], True), ([2.3, 2.2, 2.1], False), ([2.3], False)]
)
def test_a_rising_loss_is_explained(vectors: FinishedRun, losses: list[float], rises: bool) -> None:
    lines = [{"split": "train", "loss": loss, "learning_rate": 0.1} for loss in losses]
    run = FinishedRun(vectors.folder, vectors.config, vectors.shards, lines)
    why = word_vectors._rising(run)
    assert bool(why) == rises
    assert not rises or (f"{min(losses):.3f}" in why and f"{losses[-1]:.3f}" in why)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    data = build_pairs(tmp_path_factory.mktemp("pairs"))
    train(config_of("seq2seq", data, data / "run"))
    return finished(data / "run")


def test_the_page_of_a_translation_model(translator: FinishedRun) -> None:
    pytest.importorskip("sacrebleu")
    write_findings(translator.folder)
    found = read_run(translator.folder)
    scores, ten, alignment = found.examples["sections"]
    assert scores["title"] == "BLEU and chrF"
    assert [row[0] for row in scores["rows"]] == [
        translation.MODEL,
        translation.OTHERS,
        translation.COPIED,
    ]
    assert len(ten["rows"]) == 10
    quality = [float(row[3]) for row in ten["rows"]]
    assert quality == sorted(quality)
    assert alignment["title"] == "Alignment"
    sums = np.array(alignment["values"]).sum(1)
    assert np.allclose(sums, 1, atol=1e-3)
    assert "Alignment" in run_page(found)


@pytest.mark.parametrize(("own", "answer"), [(40.0, "yes"), (22.0, "perhaps")])
def test_a_verdict_needs_translations_that_depend_on_their_sources(
    translator: FinishedRun, own: float, answer: str
) -> None:
    last = [{"split": "dev", "translation.accuracy": 0.9}]
    run = FinishedRun(translator.folder, translator.config, translator.shards, last)
    scores = {translation.MODEL: own, translation.OTHERS: 20.0, translation.COPIED: 5.0}
    run.made[translation.evaluated] = {name: {"chrf": value} for name, value in scores.items()}
    found = translation.verdict(run)
    assert found.answer == answer
    assert f"{own:.1f}" in found.sentence


def test_dice_coefficients(translator: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    train_pairs = [
        ReferencePair([1, 2], [11]),
        ReferencePair([1], [11, 12]),
        ReferencePair([2], [12]),
    ]
    monkeypatch.setattr(translation, "pairs_of", lambda *_: train_pairs)
    (found,) = translation._dice(translator, [ReferencePair([1, 2], [11, 12])])
    # rows are target tokens: n(1) = n(2) = n(11) = n(12) = 2
    assert found.tolist() == [[1.0, 0.5], [0.5, 0.5]]


def test_the_head_that_aligns_best(
    translator: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two layers with two heads, one attends to what goes with each token."""
    (pair,) = translation.pairs_of(translator, "dev", 300)[:1]
    pair = next(p for p in translation.pairs_of(translator, "dev", 300) if len(p.source) == 5)
    rows, columns = len(pair.target) + 1, len(pair.source) + 2
    weights = np.full((2, 2, rows, columns), 1 / columns, np.float32)
    planted = np.zeros((rows, columns), np.float32)
    for n in range(len(pair.target)):
        planted[n, len(pair.source) - n] = 1  # the target is the source from its end
    planted[-1, 0] = 1
    weights[1, 0] = planted
    maps = AttentionMaps("encoder-decoder", ["x"] * rows, ["y"] * columns, weights)
    monkeypatch.setattr(translation, "attention_maps", lambda *_: [maps])
    done = Translations(["s"], ["r"], ["t"], [pair])
    found = translation._alignment(translator, done)
    assert found is not None
    assert "Layer 2, attention head 1" in found["note"]
    assert found["values"] == planted.tolist()


def test_ten_translations_are_one_of_each_tenth() -> None:
    texts = [" ".join(["x"] * n + ["y"] * (100 - n)) for n in range(100)]
    done = Translations(texts, ["x " * 99 + "x"] * 100, texts, [ReferencePair([1], [2])] * 100)
    rows = translation._ten(done, False)["rows"]
    places = [row[0].split().count("x") // 10 for row in rows]
    assert places == sorted(places)
    assert len({*places}) >= 9


def test_the_page_of_a_memory_network(tmp_path: Path) -> None:
    data = build_stories(tmp_path)
    train(config_of("memory-network", data, tmp_path / "run"))
    write_findings(tmp_path / "run")
    found = read_run(tmp_path / "run")
    hops, *stories = found.examples["sections"]
    figures = hops["charts"][0]["figures"]
    last = [name for name in figures if name.startswith("after hop")][-1]
    accuracy = finished(tmp_path / "run").last["answer.accuracy"]
    assert figures[last] == pytest.approx(accuracy, abs=1e-6)
    assert "the most frequent answer" in figures
    assert len(stories) == 3
    for story in stories:
        assert len(story["values"]) == len(story["rows"])
        assert np.allclose(np.array(story["values"]).sum(0), 1, atol=1e-3)
    assert "Accuracy by hops" in run_page(found)


def test_senses_by_layer(translator: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layer 1 tells two senses of six words apart, the embeddings do not."""
    usages = [
        WordUsage(f"w{word}", sense, "a sentence", 0)
        for word in range(6)
        for sense in ("one", "two")
        for _ in range(4)
    ]
    senses = np.array([usage.sense == "one" for usage in usages])
    same = np.ones((len(usages), 2), np.float32) / 2**0.5
    apart = np.stack([senses, ~senses], 1).astype(np.float32)
    monkeypatch.setattr(layers, "_known", lambda run: usages)
    monkeypatch.setattr(layers, "vectors_of_usages", lambda model, usages: [same, apart])
    found = layers.senses_by_layer(replace(translator, made={}))
    assert found is not None
    assert [row[1].split("%")[0] for row in found["rows"]] == ["50.0", "100.0"]
    assert "Layer 1 tells senses best" in found["note"]


def test_a_vocabulary_of_another_language_has_no_probe(translator: FinishedRun) -> None:
    assert layers.senses_by_layer(translator) is None
