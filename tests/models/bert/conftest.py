"""The built corpora of `tests/data`, of which BERT's instances are made."""

from tests.data.conftest import make_shards, shards, some_lengths

__all__ = ["make_shards", "shards", "some_lengths"]
