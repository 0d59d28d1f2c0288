"""TagLM: what joins where, by hand; words by their spelling alone."""

from __future__ import annotations

import pytest
import torch

from bertwright.config.task import HeadConfig
from bertwright.errors import ConfigError
from bertwright.nn.layers.characters import character_ids
from bertwright.tasks.tagging.kind import TagLm
from bertwright.tasks.texts.options import ClassificationTask

WORDS = ("a", "bank", "a", "zürich", "bank")


def test_by_hand() -> None:
    torch.manual_seed(0)
    network = TagLm(word=3, features=4, size=5, dropout=0.0)
    layer_0, features = torch.randn(5, 3), torch.randn(5, 4)
    counts = (2, 3)
    cnn = network.characters
    vectors = []
    for word in WORDS:
        x = cnn.bytes(torch.tensor(character_ids(word, 50))[None]).transpose(1, 2)
        found = torch.relu(cnn.convolutions[0](x).amax(2))
        vectors.append(cnn.projection(found)[0])
    spelled = torch.stack(vectors)
    expected = []
    for own in (slice(0, 2), slice(2, 5)):
        first, _ = network.first.lstm(torch.cat([spelled[own], layer_0[own]], 1))
        second, _ = network.second.lstm(torch.cat([first, features[own]], 1))
        expected.append(second)
    found = network(WORDS, layer_0, features, counts)
    torch.testing.assert_close(found, torch.cat(expected))


def test_the_same_spelling_is_the_same_word_beyond_fifty_bytes() -> None:
    assert character_ids("x" * 60, 50) == character_ids("x" * 70, 50)
    network = TagLm(word=1, features=1, size=2, dropout=0.0)
    ones = torch.ones(1, 1)
    long = network(("x" * 60,), ones, ones, (1,))
    torch.testing.assert_close(long, network(("x" * 70,), ones, ones, (1,)))
    assert not torch.equal(long, network(("y" * 60,), ones, ones, (1,)))


def test_no_words() -> None:
    network = TagLm(word=3, features=4, size=5, dropout=0.0)
    assert network((), torch.zeros(0, 3), torch.zeros(0, 4), ()).shape == (0, 10)


def test_of_tags_alone() -> None:
    with pytest.raises(ConfigError, match=r"taglm.*bilstm.*classification"):
        ClassificationTask(labels=("a", "b"), head=HeadConfig(network="taglm"))
