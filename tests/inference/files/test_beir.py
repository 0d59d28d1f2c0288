"""Data sets of retrieval in BEIR's three files."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from bertwright.errors import DataError
from bertwright.inference.files.beir import find_judgements, is_search, read_search
from bertwright.inference.files.retrieval import figures_of_queries
from tests.inference.files.conftest import write_search


def test_the_files_of_beir(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "data", "q1\td1\t1\nq1\td3\t2\nq2\td2\t1\nq3\td1\t0\n")
    judgements = find_judgements(folder)
    search = read_search(judgements)
    assert search.query_ids == ["q1", "q2"]  # nothing is relevant to q3
    assert search.documents[:2] == ["a b c", "d e f"]
    assert search.relevant == [{0: 1.0, 2: 2.0}, {1: 1.0}]
    assert find_judgements(judgements) == judgements
    assert not is_search(tmp_path)
    with pytest.raises(DataError, match=r"corpus\.jsonl"):
        find_judgements(tmp_path)


def test_each_file_may_be_compressed(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "data")
    plain = find_judgements(folder)
    assert plain is not None
    expected = read_search(plain)
    for path in (plain, folder / "corpus.jsonl", folder / "queries.jsonl"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    judgements = find_judgements(folder)
    assert judgements == folder / "qrels" / "test.tsv.gz"
    assert find_judgements(judgements) == judgements
    search = read_search(judgements)
    assert search.relevant == expected.relevant
    assert search.documents == expected.documents


@pytest.mark.parametrize(
    ("qrels", "shown"),
    [
        ("q1\td9\t1\n", "line 2.*'d9'.*corpus.jsonl"),
        ("q9\td1\t1\n", "line 2.*'q9'.*queries.jsonl"),
        ("q1\td1\t0\n", "no relevant document"),
        ("q1\td1\n", "line 2.*: 2; expected 3"),
    ],
)
def test_bad_judgements_name_their_line(tmp_path: Path, qrels: str, shown: str) -> None:
    judgements = find_judgements(write_search(tmp_path / "data", qrels))
    assert judgements is not None
    with pytest.raises(DataError, match=shown):
        read_search(judgements)


def test_bad_lines_of_a_corpus(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "data")
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"id": 3}\n')
    with pytest.raises(DataError, match=r"corpus.jsonl, line 2.*_id"):
        read_search(folder / "qrels" / "test.tsv")
    (folder / "corpus.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(DataError, match=r"corpus.jsonl"):
        read_search(folder / "qrels" / "test.tsv")


def test_judged_ids_that_are_missing_are_counted(tmp_path: Path) -> None:
    qrels = "q1\td1\t1\nq1\td9\t2\nq2\td8\t1\nq7\td2\t1\nq8\td2\t1\n"
    judgements = find_judgements(write_search(tmp_path / "data", qrels))
    assert judgements is not None
    search = read_search(judgements)
    assert search.query_ids == ["q1", "q2"]
    assert [sorted(each.values()) for each in search.relevant] == [[1.0, 2.0], [1.0]]
    documents, queries = search.warnings
    assert documents.startswith("2 ")
    assert "corpus.jsonl" in documents
    assert "'d9'" in documents
    assert queries.startswith("2 ")
    assert "queries.jsonl" in queries
    assert "'q7'" in queries
    ranked = np.array([[1, 0, 2, 3], [0, 1, 2, 3]])
    best = 2 + 1 / math.log2(3)  # what is missing counts as not found
    expected = [[1 / math.log2(3) / best, 1 / 2, 0, 1 / 2, 1 / 2, 1], [0, 0, 0, 0, 0, 1]]
    assert figures_of_queries(search, ranked) == pytest.approx(np.array(expected))


def test_only_a_document_that_is_its_query_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    texts = {"corpus.jsonl": ["b c", "d  e", "f"], "queries.jsonl": ["a", "d e", "g"]}
    for file, each in texts.items():  # both count their texts from 0
        rows = [{"_id": at, "text": text} for at, text in enumerate(each)]
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels" / "test.tsv").write_text("0\t0\t1\n1\t0\t1\n2\t2\t1\n")
    search = read_search(folder / "qrels" / "test.tsv")
    assert search.own == [-1, 1, -1]
    assert len(search.warnings) == 1
    assert search.warnings[0].startswith("2 queries")
    ranked = np.array([[0, 1, 2], [1, 0, 2], [2, 0, 1]])
    assert figures_of_queries(search, ranked)[:, 1].tolist() == [1, 1, 1]
