"""Translations: search over a decoder equals search by whole forwards; texts keep their order."""

from __future__ import annotations

import math

import pytest
import torch

from bertwright.config.generation import TranslationConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import Model, load
from bertwright.inference.translation import translate as module
from bertwright.nn.sequences import Inputs, Sequences
from tests.inference.translation.sample import BEGIN, END, TEXTS, make


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(make(tmp_path_factory.mktemp("translation")))


def log_probabilities(model: Model, source: list[int], target: list[int]) -> torch.Tensor:
    """Of the token after `target`, by one forward pass over both."""
    learner, head = model.runner.learner, model.runner.learner.objectives["translation"]
    read = [BEGIN, *target]
    inputs = [Inputs(torch.tensor(ids), Sequences([len(ids)])) for ids in (source, read)]
    x = head.decoder(learner.encoder(inputs[0]), inputs[1])[-1:]
    found = head.logits(x)[0].log_softmax(0)
    found[[0, 1, 2, 4]] = -math.inf  # no text has a special token
    return found


def greedy(model: Model, text: str) -> tuple[list[int], float]:
    """By a whole forward a token."""
    source = model.tokenizer.framing.one(model.tokenizer.encode_bare_ids([text])[0])
    found: list[int] = []
    total = 0.0
    limit = min(len(source) - 2 + 50, 12)
    while True:
        p = log_probabilities(model, source, found)
        token = int(p.argmax())
        total += float(p[token])
        length = len(found) + 1
        if token == END or length == limit:
            ids = found if token == END else [*found, token]
            return ids, total / ((5 + length) / 6) ** 0.6
        found.append(token)


def test_greedy_is_that_of_whole_forwards_in_order(model: Model) -> None:
    found = model.translate(TEXTS, beam=1)
    assert [each.source for each in found] == TEXTS
    assert (found[1].text, found[1].reason) == ("", "stop")
    assert found[0] == found[4]
    for text, each in zip(TEXTS, found, strict=True):
        if text:
            ids, score = greedy(model, text)
            assert each.text == model.tokenizer.decode(ids)
            assert each.score == pytest.approx(score, abs=1e-4)
    assert len({each.text for each in found}) > 2


def test_a_translation_does_not_depend_on_its_batch(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = model.translate(TEXTS, beam=3)
    monkeypatch.setattr("bertwright.inference.model.TEXTS", 3)
    small = load(model.runner.name, batch_tokens=9)
    for one, other in zip(together, small.translate(iter(TEXTS), beam=3), strict=True):
        assert (one.source, one.text, one.reason) == (other.source, other.text, other.reason)
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_wider_beam_finds_no_worse_text(model: Model) -> None:
    wide, narrow = (model.translate(TEXTS, beam=beam, length_penalty=0.0) for beam in (64, 1))
    assert all(a.score >= b.score - 1e-5 for a, b in zip(wide, narrow, strict=True))
    assert any(a.score > b.score + 1e-3 for a, b in zip(wide, narrow, strict=True))


def test_the_maximum_length(model: Model) -> None:
    found = model.translate(TEXTS, max_length=1)
    assert all(len(each.text.split()) <= 1 for each in found)
    assert "length" in {each.reason for each in found}


def test_a_text_too_long_is_named_after_what_came_before(model: Model) -> None:
    groups = [["ba", "be"], ["ba " * 11]]
    stream = module.translate(model.runner, groups, TranslationConfig())
    assert [next(stream).source, next(stream).source] == ["ba", "be"]
    with pytest.raises(DataError, match=r"text 3 .*13 tokens.*12"):
        next(stream)


def test_settings() -> None:
    with pytest.raises(ConfigError, match="beam is 0"):
        TranslationConfig(beam=0)


def test_blank_texts_stay_as_they_are(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a tokenizer for which blanks are tokens."""
    encode = model.tokenizer.encode_bare_ids
    monkeypatch.setattr(
        type(model.tokenizer),
        "encode_bare_ids",
        lambda self, texts: encode([text.replace(" ", " ba ") for text in texts]),
    )
    found = model.translate(["do ga", "   ", "", "\t"])
    assert [each.text for each in found[1:]] == ["   ", "", "\t"]
    assert found[0].text.strip()
