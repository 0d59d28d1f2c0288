"""Held-out documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bertwright.data.shards import Shards
from bertwright.data.split import GAP, described, rule_of_new_run, split_documents, split_text
from bertwright.errors import ConfigError, DataError
from tests.raising import assert_names

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
    with pytest.raises(ConfigError, match=r"validation_fraction is 1\.0"):
        split_documents(shards, "train", 1.0)


def test_held_out_documents_stay_held_out(make_shards: MakeShards) -> None:
    """In a corpus that grew, and for a later version: no run meets what it is judged on."""
    few, more = make_shards([[3]] * 60, "few"), make_shards([[3]] * 90, "more")
    held = [26, 39, 43, 51, 54, 59, 64, 75, 80, 81, 85]
    assert split_documents(more, "dev", 0.1).tolist() == held
    assert split_documents(few, "dev", 0.1).tolist() == held[:6]


def test_the_end_of_each_document_is_held_out_after_a_gap(make_shards: MakeShards) -> None:
    sizes = [60, 5, 300]
    shards = make_shards([[2] * size for size in sizes])
    splits = {name: split_text(shards, name, 0.05, "ends") for name in ("train", "dev")}  # type: ignore[arg-type]

    def sentences(name: str) -> list[list[int]]:
        found, documents, _ = splits[name]
        return [list(range(*found.document_sentences[number : number + 2])) for number in documents]

    firsts = np.cumsum([0, *sizes]).tolist()
    assert splits["train"].numbers.tolist() == [0, 1, 2]
    assert splits["dev"].numbers.tolist() == [0, 2]
    assert sentences("dev") == [list(range(57, 60)), list(range(350, 365))]
    trained = sentences("train")
    assert [each[0] for each in trained] == firsts[:3]
    assert [len(each) for each in trained] == [60 - 3 - GAP, 5, 300 - 15 - GAP]
    assert splits["dev"].shards.num_tokens == shards.num_tokens
    assert_names(described(shards, 0.05, "ends"), "2 of 3 documents", "18 of 365")


def test_which_rule_a_new_run_has(make_shards: MakeShards) -> None:
    """Two documents of 136 would say little; of 160 eight are held out at 5 %."""
    long, short = [[2] * 80] * 136, [[2] * 9] * 30
    assert rule_of_new_run(make_shards(long, "long"), 0.01) == "ends"
    assert rule_of_new_run(make_shards(long, "share"), 0.06) == "documents"
    assert rule_of_new_run(make_shards([[2] * 80] * 160, "more"), 0.05) == "documents"
    assert rule_of_new_run(make_shards([[2] * 80] * 159, "fewer"), 0.05) == "ends"
    assert rule_of_new_run(make_shards(long, "none-held"), 0.0) == "documents"
    assert rule_of_new_run(make_shards(short, "short"), 0.01) == "documents"
    assert rule_of_new_run(make_shards([[2] * 80], "one"), 0.01) == "ends"
    with pytest.raises(DataError, match=r"--validation\.hold-out documents"):
        split_text(make_shards(short, "none"), "dev", 0.01, "ends")


def test_runs_without_a_rule_hold_out_whole_documents(make_shards: MakeShards) -> None:
    shards = make_shards([[2] * 80] * 30)
    found, documents, numbers = split_text(shards, "dev", 0.1)
    assert found is shards
    assert documents.tolist() == numbers.tolist() == split_documents(shards, "dev", 0.1).tolist()
