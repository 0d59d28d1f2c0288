"""Figures of held-out text, on cases small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.config.run import ValidationConfig
from bertwright.data.shards import open_shards
from bertwright.data.split import split_documents
from bertwright.models.bert.config import BertRun
from bertwright.models.load import system_of
from bertwright.recipes.learned import bert as held_out
from bertwright.recipes.learned.bert import Sentence
from bertwright.recipes.learned.run import most_frequent_label, token_tables
from bertwright.report.verdict import pretraining_verdict
from tests.contract.conftest import config_of as contract_run
from tests.data.conftest import write_shards
from tests.small_runs import build_pairs, build_stories


def test_nearest_is_never_the_sentence_itself() -> None:
    similarity = np.array([[9, 1, 2], [3, 9, 0], [0, 0, 9]], np.float32)
    assert held_out._other(similarity).tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    ("cosines", "random", "right"),
    [
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 4),
        ([0.9, 0.1, 0.5, 0.3], [1, 1, 0, 0], 3),
        ([0.1, 0.2], [0, 0], 2),
        ([0.1, 0.2], [1, 1], 2),
    ],
)
def test_the_threshold_is_the_best(cosines: list[float], random: list[int], right: int) -> None:
    threshold = held_out._best_threshold(np.array(cosines), np.array(random))
    judged = (np.array(cosines) < threshold) == (np.array(random) == 1)
    assert judged.sum() == right


def test_cosines_of_equal_and_foreign_halves() -> None:
    one, two = "5 6 6", "7 8"
    _, found = held_out._cosines([(one, two), (two, one)], [(one, one), (one, two)])
    assert found.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_tables_are_of_the_training_documents(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "s", [[20], [30], [25, 5], [40]] * 5)
    config = BertRun(
        data="d", out="o", steps=1, validation=ValidationConfig(fraction=0.3, tokens=100)
    )
    documents = split_documents(shards, "train", 0.3)
    ids = np.concatenate(
        [
            shards.tokens(
                int(shards.sentence_tokens[shards.document_sentences[d]]),
                int(shards.sentence_tokens[shards.document_sentences[d + 1]]),
            )
            for d in documents
        ]
    )
    counts, behind = token_tables(shards, config)
    assert counts.tolist() == np.bincount(ids, minlength=97).tolist()
    # ids count up by one, so what is seen behind a token is the next, but at the ends of documents
    inner = ids[:-1][np.diff(ids) == 1]
    assert (behind[np.unique(inner)] == np.unique(inner) + 1).mean() > 0.9


class Words:
    """The part of a model that draws words: every id is a word."""

    class tokenizer:
        @staticmethod
        def tokens_of(ids: list[int]) -> list[str]:
            return ["," if index % 7 == 0 else f"w{'x' * index}" for index in ids]


def test_words_are_drawn_from_each_stratum_of_frequency(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "s", [[12] * 6] * 9)
    texts = ["a " * 12] * shards.num_sentences
    sentences = [Sentence(n, text, n // 6, "d", "d") for n, text in enumerate(texts)]
    counts = np.arange(97)[::-1].copy()
    drawn = held_out.drawn_words(Words(), shards, sentences, counts, 8)
    ids = [int(shards.tokens(12 * number + at, 12 * number + at + 1)[0]) for number, at, _ in drawn]
    assert len(drawn) == 8
    assert sorted(ids, reverse=True) == ids  # rare to frequent
    assert max(ids) - min(ids) > 60
    assert all(index % 7 for index in ids)
    assert held_out.drawn_words(Words(), shards, [], counts, 8) == []


def test_each_word_is_of_another_sentence_and_length_is_counted_in_any_script(
    tmp_path: Path,
) -> None:
    shards = write_shards(tmp_path / "s", [[12] * 6] * 9)
    texts = ["今天下雨并且刮风我们在家" * 2] * shards.num_sentences  # not a blank in it
    sentences = [Sentence(n, text, n // 6, "d", "d") for n, text in enumerate(texts)]
    drawn = held_out.drawn_words(Words(), shards, sentences[:9], np.arange(97), 8)
    assert len({number for number, _, _ in drawn}) == len(drawn) == 8


@pytest.mark.parametrize(
    ("system", "labels"), [("transformer", "labels"), ("memory-network", "answers")]
)
def test_what_is_right_without_a_model_of_other_systems(
    system: str, labels: str, tmp_path: Path
) -> None:
    data = (build_pairs if system == "transformer" else build_stories)(tmp_path)
    shards, config = open_shards(data), contract_run(system, data, tmp_path / "run")
    (head,) = system_of(config).heads(config)
    level = most_frequent_label(shards, config, labels)
    known = {f"{head}.accuracy": level}
    last = {"split": "dev", f"{head}.accuracy": level + 0.01}
    assert pretraining_verdict([last], known).answer == "no"
    assert pretraining_verdict([{**last, f"{head}.accuracy": level + 0.1}], known).answer == "yes"
    assert 0 < level < 1
