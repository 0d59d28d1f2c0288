"""The figures of a quickstart, on cases small enough to be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bertwright.config.bert_run import BertRun
from bertwright.config.run import ValidationConfig
from bertwright.data.split import split_documents
from bertwright.recipes.quickstart import evaluation
from bertwright.recipes.quickstart.evaluation import (
    Nearest,
    Sentence,
    blanks,
    comparison,
    neighbours,
)
from tests.data.conftest import write_shards

MODULES = ["a.x", "a.x", "a.y", "b.z"]


def some_sentences() -> list[Sentence]:
    return [Sentence(f"text {i}", m, m[0], i) for i, m in enumerate(MODULES)]


def test_same_module_and_chance() -> None:
    near = Nearest(some_sentences(), bert=np.array([1, 0, 0, 2]), tfidf=np.array([3, 2, 3, 0]))
    by_module = evaluation._same(near, lambda s: s.module)
    assert by_module == {"bert": 0.5, "tfidf": 0.0, "chance": pytest.approx(2 / 4 / 3)}
    by_package = evaluation._same(near, lambda s: s.package)
    assert by_package == {"bert": 0.75, "tfidf": 0.25, "chance": pytest.approx(6 / 4 / 3)}


def test_nearest_is_never_the_sentence_itself() -> None:
    similarity = np.array([[9, 1, 2], [3, 9, 0], [0, 0, 9]], np.float32)
    assert evaluation._other(similarity).tolist() == [2, 0, 0]


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
    threshold = evaluation._best_threshold(np.array(cosines), np.array(random))
    judged = (np.array(cosines) < threshold) == (np.array(random) == 1)
    assert judged.sum() == right


def test_cosines_of_equal_and_foreign_halves() -> None:
    one, two = "5 6 6", "7 8"
    _, found = evaluation._cosines([(one, two), (two, one)], [(one, one), (one, two)])
    assert found.tolist() == pytest.approx([1.0, 0.0], abs=1e-6)


def test_tables_are_of_the_training_documents(tmp_path: object) -> None:
    shards = write_shards(tmp_path / "s", [[20], [30], [25, 5], [40]] * 5)  # type: ignore[operator]
    config = BertRun(data="d", out="o", steps=1, validation=ValidationConfig(share=0.3, tokens=100))
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
    most_frequent, behind = evaluation._tables(shards, config)
    counts = np.bincount(ids, minlength=97)
    assert counts[most_frequent] == counts.max()
    # ids count up by one, so what is seen behind a token is the next, but at the ends of documents
    inner = ids[:-1][np.diff(ids) == 1]
    assert (behind[np.unique(inner)] == np.unique(inner) + 1).mean() > 0.9


def test_rows_of_the_page_name_every_baseline() -> None:
    near = {"bert": 0.1, "tfidf": 0.2, "chance": 0.01}
    rows = comparison(
        {
            "bert": 0.3,
            "bigram_table": 0.2,
            "most_frequent_token": 0.05,
            "token": "the",
            "predictions": 9,
        },
        {"bert": 0.8, "tfidf": 0.9, "more_frequent_answer": 0.5, "pairs": 7},
        {"same_module": near, "same_package": near, "sentences": 5},
        0.02,
    )
    assert [row["count"] for row in rows] == [9, 7, 5]
    assert [len(row["figures"]) for row in rows] == [3, 3, 3]
    assert "the most frequent token ('the')" in rows[0]["figures"]


def test_neighbours_and_no_sentences() -> None:
    near = Nearest(some_sentences(), bert=np.array([1, 0, 0, 2]), tfidf=np.array([3, 2, 3, 0]))
    shown = neighbours(near, count=4)
    assert {each["query"] for each in shown} == {"text 0", "text 1", "text 2", "text 3"}
    first = next(each for each in shown if each["query"] == "text 0")
    assert first["bert"] == {"text": "text 1", "module": "a.x"}
    assert first["tfidf"] == {"text": "text 3", "module": "b.z"}
    assert blanks(_Never(), []) == []  # type: ignore[arg-type]


class _Never:
    """A model that is not asked."""

    tokenizer = None
