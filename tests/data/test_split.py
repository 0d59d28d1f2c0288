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


def test_no_share_no_held_out_documents(make_shards: MakeShards) -> None:
    shards = make_shards([[3], [4]])
    assert split_documents(shards, "train", 0.0).tolist() == [0, 1]
    with pytest.raises(DataError, match="no held-out documents"):
        split_documents(shards, "dev", 0.0)


def test_one_document_cannot_be_split(make_shards: MakeShards) -> None:
    shards = make_shards([[3, 4, 5]])
    with pytest.raises(DataError, match=r"one document.*blank line.*--validation.share 0"):
        split_documents(shards, "train", 0.1)


def test_the_share_is_checked(make_shards: MakeShards) -> None:
    with pytest.raises(ConfigError, match=r"validation_share is 1\.0"):
        split_documents(make_shards([[3]]), "train", 1.0)
