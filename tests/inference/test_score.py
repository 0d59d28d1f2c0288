"""Scores of texts are those of the training loss, token by token, in any windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import Model
from bertwright.inference.score import TextScore, best_weights, mix, score, score_ids, windows_of
from tests.inference.conftest import TEXT, language_model
from tests.small_runs import WORDS


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return language_model(tmp_path_factory.mktemp("models") / "one")


def test_each_token_by_those_before_it(causal: Model) -> None:
    (found,) = causal.score([TEXT])
    framing, tokenizer = causal.tokenizer.framing, causal.tokenizer
    ids = framing.one(tokenizer.encode_bare_ids([TEXT])[0])
    assert found.tokens == ids[1:]
    for number in (0, 5, 70):
        (part,) = score_ids(causal.runner, [ids[: number + 2]])
        assert found.log_probabilities[number] == pytest.approx(
            part.log_probabilities[-1], abs=1e-5
        )
    everything = torch.arange(tokenizer.vocab_size).tolist()
    each = score_ids(causal.runner, [[*ids[:9], token] for token in everything])
    assert sum(np.exp(score.log_probabilities[-1]) for score in each) == pytest.approx(1, abs=1e-5)
    assert found.perplexity == pytest.approx(np.exp(-found.log_probability / 71))


def test_windows_change_nothing_where_the_context_is_enough(causal: Model) -> None:
    texts = [TEXT, WORDS[0], TEXT[:90], ""]
    whole = causal.score(texts)
    for length, stride in ((20, 10), (9, 6), (71, 1)):
        for one, other in zip(whole, causal.score(texts, length, stride), strict=True):
            assert one.tokens == other.tokens
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-5)
    with pytest.raises(ConfigError, match="stride 8"):
        causal.score(texts, 8, 8)
    with pytest.raises(DataError, match="pair"):
        causal.score([("a", "b")])


def test_every_token_is_scored_once_with_enough_before_it() -> None:
    for total in range(40):
        for length, stride in ((7, 3), (8, 7), (40, 20)):
            scored = []
            for first, stop, start in windows_of(total, length, stride):
                assert stop - first <= length
                assert start == 0 or start - first >= length - 1 - stride
                scored += range(start + 1, stop)
            assert scored == list(range(1, total))


def test_a_masked_model_by_one_mask_at_a_time(model: Model) -> None:
    text = "a b c"
    (found,) = model.score([text])
    tokens = text.split()
    for number, token in enumerate(tokens):
        blank = " ".join([*tokens[:number], "[MASK]", *tokens[number + 1 :]])
        probability = dict(model.fill(blank, top=model.tokenizer.vocab_size)[0])[token]
        assert np.exp(found.log_probabilities[number]) == pytest.approx(probability, rel=1e-4)
    with pytest.raises(DataError, match="--documents line"):
        model.score(["a " * 100])


def test_masked_texts_in_one_batch_score_as_each_alone(model: Model) -> None:
    texts = ["a b c", "", "c", "b a", "a b c a b c a"]
    alone = [model.score([text])[0] for text in texts]
    small = replace(model.runner, batch_tokens=3)  # groups end within the texts
    for together in (model.score(texts), score(small, texts)):
        for one, other in zip(alone, together, strict=True):
            assert one.tokens == other.tokens
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-5)
    assert model.score([]) == []


def test_mixtures_and_the_best_of_them() -> None:
    rows = np.log(np.random.default_rng(1).dirichlet([0.3] * 5, (2, 400))[..., 0])
    weights = best_weights(rows)
    scores = [TextScore([0] * 400, row) for row in rows]
    best = mix(scores, weights).log_probability
    assert sum(weights) == pytest.approx(1)
    by_hand = np.exp(rows[0]) * 0.25 + np.exp(rows[1]) * 0.75
    np.testing.assert_allclose(np.exp(mix(scores, [0.25, 0.75]).log_probabilities), by_hand)
    for weight in np.linspace(0, 1, 101):
        assert mix(scores, [weight, 1 - weight]).log_probability <= best + 1e-3
