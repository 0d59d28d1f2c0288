"""Measures of heads against the definition, and heads that find what they are made to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertwright.arrays import Float32s
from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.config.values import from_dict
from bertwright.errors import DataError
from bertwright.inference.attention import coreference, maps, syntax
from bertwright.inference.attention.coreference import pronoun_sentences, score_coreference
from bertwright.inference.attention.measures import HeadMeasures, measure_heads
from bertwright.inference.attention.syntax import chosen, score_syntax, word_maps
from bertwright.inference.encode import ModelRunner
from bertwright.inference.model import Model, load
from bertwright.models.catalogue import trainable
from bertwright.text.tokenizer.train import train_tokenizer
from bertwright.text.treebank.dependencies import DependencySentence
from tests.contract.conftest import mapping
from tests.inference.test_other_encoders import model_of
from tests.recipes.sample import build_pairs, train
from tests.small_bert import CONFIG, write_model


def test_maps_of_texts_and_pairs(model: Model) -> None:
    (alone,) = model.attention("a cat")
    assert alone.name == "encoder"
    assert alone.rows == alone.columns
    assert alone.weights.shape == (3, 4, len(alone.rows), len(alone.rows))
    np.testing.assert_allclose(alone.weights.sum(-1), 1, atol=1e-5)
    (pair,) = model.attention(("a", "b"))
    assert pair.rows == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    with pytest.raises(DataError, match="more tokens"):
        model.attention("a b c " * 9)


def test_tokens_of_bytes_are_readable(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Fünf Männer und fünf Männer\n" * 9, "utf-8")
    config = TokenizerConfig(algorithm="byte-bpe", vocab_size=280, lowercase=False)
    tokenizer, _ = train_tokenizer([str(tmp_path / "a.txt")], CorpusConfig(), config)
    ids = tokenizer.encode_bare_ids(["Fünf Männer"])[0]
    assert any("\u0120" in token for token in tokenizer.tokens_of(ids))
    assert "".join(maps.readable_tokens(tokenizer, ids)) == "FünfMänner"


def test_a_model_without_attention_says_so(model_folder: Path) -> None:
    other = model_of(model_folder, 1)
    with pytest.raises(DataError, match="no attention"):
        other.attention("a")
    with pytest.raises(DataError, match="no attention"):
        measure_heads(other.runner, ["a"])


@pytest.mark.parametrize("system", ["transformer", "bert2rnd", "seq2seq"])
def test_maps_of_a_translation(system: str, tmp_path: Path) -> None:
    folder = build_pairs(tmp_path)
    values = mapping(system, folder, tmp_path / "run", steps=2)
    train(from_dict(trainable()[system], values))
    model = load(tmp_path / "run", device="cpu")
    (source,), (target,) = (
        model.tokenizer.encode_bare_ids([text]) for text in ("ba be", "fu ga do")
    )
    found = {each.name: each for each in model.attention(("ba be", "fu ga do"))}
    own = {"encoder", "decoder"} if system != "seq2seq" else set()
    assert {*found} == {"encoder-decoder", *own}
    over = found["encoder-decoder"]
    assert (len(over.rows), len(over.columns)) == (len(target) + 1, len(source) + 2)
    for each in found.values():
        assert each.weights.shape[2:] == (len(each.rows), len(each.columns))
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
    translated = model.attention("ba be")[-1]
    assert translated.columns == over.columns
    assert translated.rows[-1] == over.rows[-1]
    written = model.tokenizer.tokens_of(target)
    assert len({*written}) == 3
    assert over.rows == [*written, "[SEP]"]
    if "decoder" in found:
        assert found["decoder"].rows == found["decoder"].columns == ["[CLS]", *written]


def test_measures_are_their_definition() -> None:
    generator = np.random.default_rng(0)
    found = HeadMeasures()
    sequences = [[2, 9, 8, 3, 7, 3], [2, 3], [2, 9, 3]]
    given = [generator.dirichlet(np.ones(len(s)), (2, 3, len(s))) for s in sequences]
    for ids, p in zip(sequences, given, strict=True):
        found.add(p.astype(np.float32), ids, {2: "[CLS]", 3: "[SEP]"})
    expected: dict[str, list[float]] = {}
    for ids, p in zip(sequences, given, strict=True):
        for i in range(len(ids)):
            row = p[1, 2, i]
            values = {
                "distance": sum(row[j] * abs(i - j) for j in range(len(ids))),
                "entropy": -sum(x * np.log(x) for x in row),
                "itself": row[i],
                "[CLS]": row[0],
                "[SEP]": sum(x for x, token in zip(row, ids, strict=True) if token == 3),
            }
            if i:
                values["previous"] = row[i - 1]
            if i + 1 < len(ids):
                values["next"] = row[i + 1]
            for name, x in values.items():
                expected.setdefault(name, []).append(float(x))
    means = found.means()
    assert found.tokens == 11
    assert means.keys() == expected.keys()
    for name, values_of in expected.items():
        assert means[name][1, 2] == pytest.approx(np.mean(values_of), abs=1e-6), name


def test_measures_of_a_model_agree_with_its_maps(model: Model) -> None:
    texts = ["a cat", "the dog runs"]
    found = measure_heads(model.runner, texts)
    by_hand = HeadMeasures()
    for text in texts:
        (each,) = model.attention(text)
        by_hand.add(each.weights, model.tokenizer.encode(text).ids, {2: "[CLS]", 3: "[SEP]"})
    assert found.texts == 2
    assert found.tokens == by_hand.tokens
    for name, mean in by_hand.means().items():
        np.testing.assert_allclose(found.means()[name], mean, atol=1e-6)
    with pytest.raises(DataError, match="no text"):
        measure_heads(model.runner, ["", ""])


def test_attention_between_words() -> None:
    p = np.arange(25, dtype=np.float32).reshape(5, 5)
    found = word_maps(p, [slice(1, 2), slice(2, 4)])  # of [CLS] a b ##b [SEP]
    assert found.tolist() == [[6, 7 + 8], [(11 + 16) / 2, (12 + 13 + 17 + 18) / 2]]


def test_what_is_chosen_on_one_half_is_evaluated_on_the_other() -> None:
    right = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
    # half 0 chooses candidate 0, never right in half 1; half 1 chooses 1, never right in half 0
    assert chosen(right, np.array([0, 0, 1, 1])) == (2, 0.0)


def planted(
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    target: Callable[[int, int], int | None],
) -> None:
    """Maps in which head 2 of layer 2 attends as `target(row, token)` says, all others evenly."""

    def fake(runner: ModelRunner, ids: list[list[int]]) -> Iterator[tuple[int, Float32s]]:
        for row, found in maps.maps_of_all(runner, ids):
            found[:] = 1 / found.shape[-1]
            for token in range(found.shape[-1]):
                if (to := target(row, token)) is not None:
                    found[1, 1, token] = 0
                    found[1, 1, token, to] = 1
            yield row, found

    monkeypatch.setattr(module, "maps_of_all", fake)


def test_the_head_that_attends_to_heads_is_found(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = (
        DependencySentence(["a", "b", "c", "d"], [2, 3, -1, 1], ["x", "y", "", "x"]),
        DependencySentence(["a", "b", "c"], [2, -1, 0], ["y", "", "x"]),
    )
    sentences = [each for each in two for _ in range(4)]
    planted(
        monkeypatch,
        syntax,
        lambda row, token: dict(enumerate(sentences[row].heads, 1)).get(token, -1) + 1 or None,
    )
    monkeypatch.setattr(syntax, "LEAST", 2)
    count, found = score_syntax(model.runner, sentences)
    assert count == 8
    assert list(found) == [syntax.ALL, "x", "y"]
    for best in found.values():
        assert (best.layer, best.head, best.direction) == (2, 2, "dependent to head")
        assert best.accuracy == 1
    assert found["x"].count == 12
    assert found[syntax.ALL].baseline_accuracy < 1


def test_the_pronouns_have_two_nouns_each() -> None:
    sentences = pronoun_sentences()
    assert len(sentences) == 40
    for first, second in zip(sentences[::2], sentences[1::2], strict=True):
        assert first.words[first.pronoun] == second.words[second.pronoun]
        assert first.words[first.pronoun] in ("it", "its")
        assert (first.words[first.right], first.words[first.wrong]) == (
            second.words[second.wrong],
            second.words[second.right],
        )
        assert first.words[-1] == second.words[-1] == "."


def test_the_head_that_links_pronouns_is_found(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = write_model(
        model_folder.parent / "wide", (), replace(CONFIG, max_position_embeddings=99)
    )
    runner = load(wide, device="cpu").runner
    sentences = pronoun_sentences()
    words = [syntax.split_words(runner, each.words) for each in sentences]

    def target(row: int, token: int) -> int | None:
        found = words[row]
        spans, each = found[1], sentences[row]
        return spans[each.right].start if token in range(*spans[each.pronoun].indices(99)) else None

    planted(monkeypatch, coreference, target)
    best = score_coreference(runner)
    assert (best.count, best.layer, best.head, best.accuracy) == (40, 2, 2, 1.0)
    assert best.baseline_accuracy == 0.5
