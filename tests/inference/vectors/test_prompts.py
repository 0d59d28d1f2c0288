"""Prompts before texts, and the first numbers of vectors: by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.vectors.embed import Embedder

TEXTS = ["a b", "the quick.", "c d e f g h", ""]
LONG = "a b c d e f g h i j k l m n o p q"  # 17 tokens in windows of 10: 8 and 9
CONFIG = VectorConfig((-1,))


def test_prompts(embedder: Embedder) -> None:
    asked = embedder.with_config(replace(CONFIG, prompt="the "))
    asked.prompts = {"query": "j! ", "none": ""}
    texts = ["a b", ("c", "d"), ""]
    right = {
        text: embedder.embed([f"{text}a b", (f"{text}c", "d"), text])
        for text in ("the ", "j! ", "x: ", "")
    }
    for given, prompt in (
        ({}, "the "),
        ({"prompt_name": "query"}, "j! "),
        ({"prompt_name": "none"}, ""),
        ({"prompt": "x: "}, "x: "),
        ({"prompt": ""}, ""),
        ({}, "the "),
    ):
        np.testing.assert_array_equal(asked.embed(texts, **given), right[prompt])
    with pytest.raises(ConfigError, match=r"'passage'.*'query'"):
        asked.embed(texts, prompt_name="passage")
    with pytest.raises(ConfigError, match="'passage'"):
        embedder.embed(texts, prompt_name="passage")
    with pytest.raises(ConfigError, match=r"prompt_name|prompt-name"):
        asked.embed(texts, prompt="x", prompt_name="query")
    with pytest.raises(DataError, match=r"text 1 .*int"):
        asked.embed(["a", 3])


def test_what_a_prompt_cuts_is_counted(embedder: Embedder) -> None:
    maker = embedder.with_config(replace(CONFIG, truncate=True))
    maker.embed([LONG, "a"], prompt="a b ")
    assert (maker.truncated, maker.tokens_truncated) == (1, 9)
    maker.embed([LONG])
    assert (maker.truncated, maker.tokens_truncated) == (2, 16)


@pytest.mark.parametrize("text", ["a fishing.", ("a fishing.", "b the"), LONG])
def test_tokens_of_a_prompt_are_left_out(embedder: Embedder, text: str | tuple[str, str]) -> None:
    config = replace(CONFIG, pooling="none", prompt="the j ")
    (found,) = embedder.with_config(config).embed_tokens([text])
    first, *second = [text] if isinstance(text, str) else text
    prompted = f"the j {first}"
    plain = embedder.with_config(replace(CONFIG, pooling="none"))
    (whole,) = plain.embed_tokens([(prompted, second[0]) if second else prompted])
    assert found.tokens == [whole.tokens[0], *whole.tokens[3:]]
    np.testing.assert_array_equal(found.vectors, np.delete(whole.vectors, [1, 2], 0))
    (alone,) = plain.embed_tokens([text])
    assert (found.tokens, found.offsets) == (alone.tokens, alone.offsets)
    joined = embedder.with_config(replace(config, prompt="the j"))  # no blank: "jfishing" is a word
    (found,) = joined.embed_tokens(["ing."])
    assert found.tokens[1:-1] == ["##ing", "."]
    assert found.offsets[1:-1] == [(0, 3), (3, 4)]


def test_dimensions(embedder: Embedder) -> None:
    whole = embedder.embed(TEXTS)
    for normalize in (False, True):
        maker = embedder.with_config(replace(CONFIG, dimensions=5, normalize=normalize))
        assert maker.width == 5
        lengths = np.linalg.norm(whole[:, :5], axis=1, keepdims=True) if normalize else 1
        np.testing.assert_allclose(maker.embed(TEXTS), whole[:, :5] / lengths, atol=1e-6)
    with pytest.raises(ConfigError, match=r"dimensions.*25.*24"):
        embedder.with_config(replace(CONFIG, dimensions=25))
