"""Pairs for sentence vectors, in the forms of published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import SimilarityExample
from bertwright.labelled.file import Read, ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.labelled.similarities import PAIRS
from bertwright.tasks.catalogue import kind_of


def read(folder: Path, text: str, columns: Columns = Columns(), **options: Any) -> Read:  # noqa: B008
    path = folder / ("file.jsonl" if text.startswith("{") else "file.tsv")
    path.write_text(text, encoding="utf-8")
    return read_examples(path, PAIRS, columns, ReadOptions(**options))


def values(found: Read) -> list[tuple[Any, ...]]:
    examples: Any = found.examples
    return [(e.text, e.text2, e.negatives, e.label) for e in examples]


def test_pairs_triplets_scores_and_labels(tmp_path: Path) -> None:
    pairs = read(tmp_path, "anchor\tpositive\na b\tc\n")
    assert values(pairs) == [("a b", "c", (), 1.0)]
    rows = [
        {"query": "q", "positive": "p", "negative_1": "n", "negative_2": ""},
        {"query": "q", "positive": "p", "negative_1": "n", "negative_2": "m"},
    ]
    triplets = read(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert values(triplets) == [("q", "p", ("n",), 1.0), ("q", "p", ("n", "m"), 1.0)]
    several = read(tmp_path, json.dumps({"anchor": "a", "positive": "p", "negatives": ["m", "n"]}))
    assert values(several) == [("a", "p", ("m", "n"), 1.0)]
    sts = read(tmp_path, "index\tsentence1\tsentence2\tscore\n7\ta\tb\t3.8\n")
    assert values(sts) == [("a", "b", (), 3.8)]
    assert [getattr(each, "is_score", None) for each in sts.examples] == [True]
    assert sts.examples[0].id == "7"
    sick = (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t4\tNO\n"
    )
    assert values(read(tmp_path, sick)) == [("a", "b", (), 4.0)]
    mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\ta\tb\n"
    assert values(read(tmp_path, mrpc)) == [("a", "b", (), 1.0)]
    snli = "gold_label\tsentence1\tsentence2\nneutral\ta\tb\n-\ta\tc\n"
    found = read(tmp_path, snli)
    assert values(found) == [("a", "b", (), "neutral")]
    assert sum(each.count for each in found.log.skipped.values()) == 1


TITLED = [{"docid": "7", "title": "t", "text": "p"}, {"title": "", "text": "o"}]
PUBLISHED = {
    "FlagEmbedding": {"query": "q", "pos": ["t p", "o"], "neg": ["n", "m"], "neg_scores": [1, 2]},
    "Tevatron": {
        "query_id": "1",
        "query": "q",
        "positive_passages": TITLED,
        "negative_passages": [{"docid": "9", "text": "n"}, {"text": "m", "title": None}],
    },
    "DPR": {
        "dataset": "nq",
        "question": "q",
        "answers": ["a"],
        "positive_ctxs": TITLED,
        "negative_ctxs": [{"title": "", "text": "far"}],
        "hard_negative_ctxs": [{"title": "", "text": "n"}, {"title": "", "text": "m"}],
    },
    "lists": {"anchor": "q", "positive": ["t p", "o"], "negative": ["n", "m"]},
}


@pytest.mark.parametrize("row", PUBLISHED.values(), ids=PUBLISHED)
def test_retrieval_data_as_published(tmp_path: Path, row: dict[str, Any]) -> None:
    """A list of positives is as many rows."""
    expected = [("q", text, ("n", "m"), 1.0) for text in ("t p", "o")]
    assert values(read(tmp_path, f"{json.dumps(row)}\n")) == expected


def test_a_third_text_is_a_hard_negative(tmp_path: Path) -> None:
    simcse = "sent0\tsent1\thard_neg\na b\tc\td\n"
    assert values(read(tmp_path, simcse)) == [("a b", "c", ("d",), 1.0)]
    triples = "a b\tc\td\na c\te\tf\n"
    expected = [("a b", "c", ("d",), 1.0), ("a c", "e", ("f",), 1.0)]
    assert values(read(tmp_path, triples)) == expected
    assert values(read(tmp_path, triples, Columns("1", "2"))) == expected
    others = [("c", "d", (), 1.0), ("e", "f", (), 1.0)]
    assert values(read(tmp_path, triples, Columns("2", "3"))) == others


@pytest.mark.parametrize("third", [["0.5", "1"], ["yes", "yes"]])
def test_a_third_column_of_labels_is_none(tmp_path: Path, third: list[str]) -> None:
    text = f"a b\tc\t{third[0]}\na c\te\t{third[1]}\n"
    with pytest.raises(DataError, match="--text"):
        read(tmp_path, text)
    assert values(read(tmp_path, text, Columns("1", "2")))[0] == ("a b", "c", (), 1.0)


@pytest.mark.parametrize("name", ["file.jsonl", "file.json"])
def test_arrays_and_sets(tmp_path: Path, name: str) -> None:
    def parse(rows: list[Any]) -> list[tuple[Any, ...]]:
        text = json.dumps(rows) if name == "file.json" else "\n".join(map(json.dumps, rows))
        (tmp_path / name).write_text(text)
        return values(read_examples(tmp_path / name, PAIRS))

    assert parse([["a", "b"], ["c", "d"]]) == [("a", "b", (), 1.0), ("c", "d", (), 1.0)]
    assert parse([["a", "b", "n"], ["c", "d", "m"]])[1] == ("c", "d", ("m",), 1.0)
    sets = [{"set": ["a", "b", "c"]}, {"set": ["d", "e"]}]
    pairs = [("a", "b", (), 1.0), ("a", "c", (), 1.0), ("d", "e", (), 1.0)]
    assert parse(sets) == pairs
    with pytest.raises(DataError, match=" 2: empty text"):
        parse([{"set": ["a", "b"]}, {"set": ["a"]}])


def test_pairs_without_a_header_are_said(tmp_path: Path) -> None:
    found = read(tmp_path, "a b\tc\nd\te f\n")
    assert values(found) == [("a b", "c", (), 1.0), ("d", "e f", (), 1.0)]
    assert any("columns 1 and 2" in each for each in found.warnings)
    with pytest.raises(DataError) as caught:  # a header of unknown names
        read(tmp_path, "one\ttwo\na b\tc d\n")
    assert caught.value.options == ("--text", "one", "--text2", "two")
    assert values(read(tmp_path, "one\ttwo\na b\tc d\n", Columns("one", "two")))[0][0] == "a b"


def test_chosen_columns_and_renamed_labels(tmp_path: Path) -> None:
    columns = Columns("2", "1", "3", (), ("4",))
    found = read(tmp_path, "x\ty\tsame\tz\n", columns, label_map={"same": "1"})
    assert values(found) == [("y", "x", ("z",), 1.0)]


def test_without_labels_nothing_is_known(tmp_path: Path) -> None:
    text = "sentence1\tsentence2\tscore\na\tb\t?\n"
    assert values(read(tmp_path, text, require_labels=False)) == [("a", "b", (), None)]


def test_a_label_is_no_header(tmp_path: Path) -> None:
    """`positive` and `negative` are names of columns, and more often labels."""
    found = read(tmp_path, "a\tb\tpositive\nc\td\tnegative\n", Columns("1", "2", "3"))
    assert [label for *_, label in values(found)] == ["positive", "negative"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("anchor\tpositive\na\t\n", "line 2.*positive"),
        ("sentence1\tsentence2\tscore\na\tb\t\n", "line 2.*no label"),
        ("sentence1\tsentence2\tscore\na\tb\tnan\n", "line 2.*'nan'"),
        ("text\tnumber\na\tb\n", "--text"),
    ],
)
def test_bad_rows_name_their_line(tmp_path: Path, text: str, shown: str) -> None:
    with pytest.raises(DataError, match=shown):
        read(tmp_path, text)


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, "anchor\tpositive\na\t\nb\tc\n", bad_rows="skip")
    assert found.examples == [SimilarityExample("b", "c", label=1.0, line=3)]
    assert any("line 2" in line for line in found.log.summary())


def test_names_of_pairs_leave_other_headers_known(tmp_path: Path) -> None:
    """`pos` is FlagEmbedding's column of positives, and a column of parts of speech."""
    path = tmp_path / "file.tsv"
    path.write_text("token\tpos\na\tX\n")
    found = read_examples(path, kind_of("classification").reader, Columns("1", None, "2"))
    assert len(found.examples) == 1
