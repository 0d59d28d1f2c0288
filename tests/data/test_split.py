"""Held-out documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bertwright.data.shards import Shards
from bertwright.data.split import split_documents
from bertwright.errors import ConfigError, DataError

MakeShards = Callable[..., Shards]


def test_a_small_corpus_holds_out_one_document(make_shards: MakeShards) -> None:
    shards = make_shards([[3], [4]])
    for share in (0.001, 0.999):
        assert len(split_documents(shards, "dev", share)) == 1
        assert len(split_documents(shards, "train", share)) == 1


def test_of_twenty_documents_two_are_held_out(make_shards: MakeShards) -> None:
    """The random next sentence of a pair is of another document, which there has to be."""
    few, more = make_shards([[3]] * 19, "few"), make_shards([[3]] * 20, "more")
    assert len(split_documents(few, "dev", 0.001)) == 1
    held = split_documents(more, "dev", 0.001).tolist()
    assert len(held) == 2
    assert set(held).isdisjoint(split_documents(more, "train", 0.001).tolist())


def test_no_share_no_held_out_documents(make_shards: MakeShards) -> None:
    shards = make_shards([[3], [4]])
    assert split_documents(shards, "train", 0.0).tolist() == [0, 1]
    with pytest.raises(DataError, match="no held-out documents"):
        split_documents(shards, "dev", 0.0)


def test_one_document_cannot_be_split(make_shards: MakeShards) -> None:
    shards = make_shards([[3, 4, 5]])
    with pytest.raises(DataError, match=r"one document.*blank line"):
        split_documents(shards, "train", 0.1)
    with pytest.raises(ConfigError, match=r"validation_share is 1\.0"):
        split_documents(shards, "train", 1.0)


def test_held_out_documents_stay_held_out(make_shards: MakeShards) -> None:
    """In a corpus that grew, and for a later version: no run meets what it is judged on."""
    few, more = make_shards([[3]] * 60, "few"), make_shards([[3]] * 90, "more")
    held = [26, 39, 43, 51, 54, 59, 64, 75, 80, 81, 85]
    assert split_documents(more, "dev", 0.1).tolist() == held
    assert split_documents(few, "dev", 0.1).tolist() == held[:6]
