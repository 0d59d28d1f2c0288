"""Labels that say that an example has none: -1 of Hugging Face's data sets, `-` of SNLI."""

from __future__ import annotations

import json

import pytest

from bertwright.errors import DataError
from tests.labelled.conftest import parse


def pairs(labels):
    rows = [{"premise": f"a {n}", "hypothesis": f"b {n}", "label": x} for n, x in enumerate(labels)]
    return "\n".join(map(json.dumps, rows))


def labels_of(read):
    return [each.label for each in read.examples]


@pytest.mark.parametrize("kind", ["classification", "similarity"])
def test_minus_one_is_left_out_and_counted(write, kind):
    path = write("a.jsonl", pairs([-1, 0, 1, 2, 0, -1, 2]))
    read = parse(path, kind)
    assert [*map(float, labels_of(read))] == [0, 1, 2, 0, 2]
    assert [(each.count, each.lines) for each in read.log.skipped.values()] == [(2, [1, 6])]
    names = {"0": "entailment", "1": "neutral", "2": "contradiction"}
    read = parse(path, kind, label_map=names)
    assert labels_of(read)[:3] == [*names.values()]
    assert len(read.examples) == 5
    # named, it is a class as any other
    assert len(parse(path, kind, label_map=names | {"-1": "no_match"}).examples) == 7


@pytest.mark.parametrize("kind", ["classification", "similarity"])
@pytest.mark.parametrize("labels", [[-1, 0, 1], [1, -1, 1]])
def test_minus_one_beside_0_and_1_may_be_a_class(write, kind, labels):
    path = write("a.jsonl", pairs(labels))
    with pytest.raises(DataError, match=r"line .*--label-map -1=.*--bad-rows skip"):
        parse(path, kind)
    assert len(parse(path, kind, bad_rows="skip").examples) == len(labels) - 1
    # renamed, a 0.0 of a table is the label 0 too
    if kind == "similarity":
        scored = parse(path, kind, label_map={"-1": "0", "0": "0.5"})
        assert {*labels_of(scored)} <= {0.0, 0.5, 1.0}


def test_minus_one_stays_where_it_is_a_value(write):
    assert labels_of(parse(write("a.jsonl", pairs([-1, -0.5, 1])), "similarity")) == [-1, -0.5, 1]
    assert labels_of(parse(write("b.jsonl", pairs([-2, -1, 0])), "classification")) == [
        "-2",
        "-1",
        "0",
    ]
    assert labels_of(parse(write("c.jsonl", pairs([-1, 0, 1])), "regression")) == [-1, 0, 1]


def test_minus_one_for_a_model_with_classes(write):
    path = write("a.jsonl", pairs([-1, 0, 1]))
    assert labels_of(parse(path, "classification", labels=("0", "1"))) == ["0", "1"]
    assert len(parse(path, "classification", labels=("-1", "0", "1")).examples) == 3
    assert labels_of(parse(path, "classification", labels=("bad", "good"))) == ["bad", "good"]
    with pytest.raises(DataError, match="-1=NAME"):  # 0 and 1 would be bad and neutral
        parse(path, "classification", labels=("bad", "neutral", "good"))
    with pytest.raises(DataError, match="'-2'"):
        parse(write("b.jsonl", pairs([-2, -1])), "classification", labels=("0", "1"))
    with pytest.raises(DataError, match=r"no example.*3"):
        parse(write("c.jsonl", pairs([-1, -1, -1])), "classification", labels=("0", "1"))


@pytest.mark.parametrize("kind", ["classification", "similarity"])
def test_a_dash_among_classes_of_inference_is_left_out(write, kind):
    path = write("a.jsonl", pairs(["-", "entailment", "neutral", "contradiction"]))
    read = parse(path, kind)
    assert labels_of(read) == ["entailment", "neutral", "contradiction"]
    assert [each.count for each in read.log.skipped.values()] == [1]
    path = write("a.jsonl", pairs(["-", "+", "+"]))
    assert labels_of(parse(path, "classification")) == ["-", "+", "+"]


def test_minus_one_of_a_parquet_column_with_class_names(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    feature = {"names": ["entailment", "neutral", "contradiction"], "_type": "ClassLabel"}
    meta = {"info": {"features": {"label": feature}}}
    columns = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [-1, 0, 2]}
    table = pyarrow.table(columns).replace_schema_metadata({"huggingface": json.dumps(meta)})
    parquet.write_table(table, tmp_path / "a.parquet")
    read = parse(tmp_path / "a.parquet", "classification")
    assert labels_of(read) == ["entailment", "contradiction"]
    assert [each.count for each in read.log.skipped.values()] == [1]
