"""A search evaluated on BEIR's three files, and hard negatives."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from scipy.stats import spearmanr

import bertwright
from bertwright.cli.app import run
from bertwright.errors import DataError
from bertwright.inference.files.beir import find_judgements, is_search, read_search
from bertwright.inference.files.mining import mine
from bertwright.inference.files.retrieval import figures_of_queries, figures_of_query
from bertwright.labelled.examples import SimilarityExample
from tests.task_files import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "bert")


def write_search(folder: Path, qrels: str = "q1\td1\t1\nq1\td3\t2\nq2\td2\t1\n") -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [("d1", "a", "b c"), ("d2", "", "d e f"), ("d3", "g", "h"), ("q2", "", "d e")]
    lines = [{"_id": name, "title": title, "text": text} for name, title, text in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    asked = {"q1": "a b", "q2": "d e", "q3": "j"}
    queries = [{"_id": name, "text": text} for name, text in asked.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}")
    return folder


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


def test_figures_of_a_query() -> None:
    gains = np.array([0.0, 2.0, 0.0, 1.0])
    ndcg, reciprocal, at_1, at_10, at_100 = figures_of_query(gains, [3.0, 2.0, 1.0])
    best = 3 + 2 / math.log2(3) + 1 / 2
    assert ndcg == pytest.approx((2 / math.log2(3) + 1 / math.log2(5)) / best)
    assert (reciprocal, at_1) == (0.5, 0.0)
    assert at_10 == at_100 == pytest.approx(2 / 3)


def test_evaluate_shows_it_beside_shared_words(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_search(tmp_path / "data")
    words = ["evaluate-search", "--model", str(model), "--data", str(data)]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 2
    # the document that is the query itself is left out
    assert found["baselines"]["bm25"]["recall_at_1"] == pytest.approx((0.5 + 1) / 2)
    low, high = found["intervals"]["ndcg_at_10"]
    assert low <= found["metrics"]["ndcg_at_10"] <= high
    assert run(words) == 0
    assert "BM25" in capsys.readouterr().out
    assert run(["evaluate", *words[1:]]) == 2
    assert " ".join(words) in capsys.readouterr().err


def test_hard_negatives_are_near_and_not_right(model: Path) -> None:
    embedder = bertwright.load(model).embedder()
    pairs = [SimilarityExample("a b", "a b"), SimilarityExample("a b", "a b c")]
    pairs += [SimilarityExample("d e", "d")]
    corpus = ["a b a", "j j j j", "d e"]
    first, second, third = mine(embedder, pairs, corpus, 2)
    assert len(first) == 2
    assert not {"a b", "a b c"} & {*first, *second}
    assert "d e" not in third
    vectors = embedder.embed(["a b", *first, "j j j j"])
    vectors /= (vectors**2).sum(1, keepdims=True) ** 0.5
    cosines = vectors[1:] @ vectors[0]
    assert cosines[0] >= cosines[1] >= cosines[2] - 1e-6


def test_a_negative_cosine_keeps_no_text_that_is_nearer_than_the_right_one() -> None:
    angles = {"q": 0, "right": 100, "nearer": 99, "level": 104, "farther": 120}

    class Plane:
        prompts: ClassVar[dict[str, str]] = {}
        config = SimpleNamespace(prompt="")

        def embed(self, texts: list[str], *_: object, prompt: str) -> Any:
            turned = np.deg2rad([angles[text] for text in texts])
            return np.stack([np.cos(turned), np.sin(turned)], 1).astype(np.float32)

    (found,) = mine(cast(Any, Plane()), [SimilarityExample("q", "right")], [*angles][2:], 3)
    assert found == ["level", "farther"]


def test_mined_pairs_are_trained_on(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "hard.jsonl"
    rows = [f"a {letter}\t{letter} b\n" for letter in "cdefgh"]
    pairs.write_text("anchor\tpositive\n" + "".join(rows))
    words = ["mine", "--model", str(model), "--count", "2", "--pairs", str(pairs)]
    assert run([*words, "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["anchor"] for line in lines] == [f"a {letter}" for letter in "cdefgh"]
    assert all(line["positive"] not in line["negatives"] for line in lines)
    assert run([*words, "--out", str(out)]) == 2  # it is there
    assert run(words) == 2
    assert "--out" in capsys.readouterr().err


def test_a_search_without_hard_negatives_says_why(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "hard.jsonl"
    words = ["mine", "--model", str(model), "--count", "2", "--pairs", str(pairs)]
    pairs.write_text("anchor\tpositive\na b\tc\n")
    assert run([*words, "--out", str(out)]) == 0
    assert "--corpus" in capsys.readouterr().err
    pairs = pairs.rename(tmp_path / "pairs.csv")
    pairs.write_text("one,two,three\na b,c,d\n")
    assert run([*words[:-1], str(pairs), "--out", str(out), "--overwrite"]) == 4
    shown = capsys.readouterr().err
    assert "anchor and positive" in shown
    assert "--text" not in shown


def test_the_vectors_of_any_model_on_pairs(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("sentence1\tsentence2\tscore\na b\tb a\t5\na b\tj\t0\nc d\tc e\t3\n")
    words = ["--model", str(model), "--data", str(file)]
    assert run(["evaluate-vectors", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    embedded = bertwright.load(model).embed(["a b", "b a", "j", "c d", "c e"], normalize=True)
    cosines = [float(embedded[a] @ embedded[b]) for a, b in ((0, 1), (0, 2), (3, 4))]
    expected = spearmanr(cosines, [5, 0, 3]).statistic
    assert found["metrics"]["spearman"] == pytest.approx(expected)
    assert run(["evaluate", *words, "--kind", "similarity"]) == 2
    assert " ".join(["evaluate-vectors", *words]) in capsys.readouterr().err
    assert run(["evaluate", *words]) != 0  # it has no task
