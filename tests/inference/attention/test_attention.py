"""Maps of attention, and measures of heads against the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import DataError
from bertwright.inference.attention import maps
from bertwright.inference.attention.measures import HeadMeasures, measure_heads
from bertwright.inference.model import Model, load
from bertwright.models.catalogue import make_run, trainable
from bertwright.text.tokenizer.train import train_tokenizer
from tests.contract.conftest import mapping
from tests.inference.sums import model_of
from tests.small_runs import build_pairs, train


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
    train(make_run(trainable()[system], values))
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
