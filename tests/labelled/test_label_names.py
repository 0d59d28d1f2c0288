"""Labels under other names than the model's, and one label under two names."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from tests.labelled.conftest import parse


def labels(read):
    return [each.label for each in read.examples]


def table(values):
    return "text\tlabel\n" + "".join(f"text {n}\t{each}\n" for n, each in enumerate(values))


@pytest.mark.parametrize(
    ("known", "written", "meant"),
    [
        (("NEGATIVE", "POSITIVE"), ["1", "0"], ["POSITIVE", "NEGATIVE"]),
        (("NEGATIVE", "POSITIVE"), ["LABEL_1", "LABEL_0"], ["POSITIVE", "NEGATIVE"]),
        (("NEGATIVE", "POSITIVE"), ["positive", "Negative"], ["POSITIVE", "NEGATIVE"]),
        (("LABEL_0", "LABEL_1"), ["1", "0"], ["LABEL_1", "LABEL_0"]),
        (("LABEL_1", "LABEL_0"), ["1", "0"], ["LABEL_1", "LABEL_0"]),  # by name before index
        (("0", "1"), ["1.0", "0.0"], ["1", "0"]),
        (("0", "1"), ["LABEL_1", "LABEL_0"], ["1", "0"]),
    ],
)
def test_a_label_is_read_as_the_class_that_it_means_and_that_is_said(write, known, written, meant):
    read = parse(write("a.tsv", table(written)), "classification", labels=known)
    assert labels(read) == meant
    assert sum(each.count for each in read.log.mended.values()) == 2
    lists = "".join(f'{{"text": "a", "labels": ["{each}"]}}\n' for each in written)
    read = parse(write("a.jsonl", lists), "classification", labels=known, multi_label=True)
    assert labels(read) == [(each,) for each in meant]


def test_numbers_that_are_no_index_are_an_error_that_is_never_skipped(write):
    path = write("a.tsv", table(["1", "2"]))  # they count from 1
    for bad_rows in ("refuse", "skip"):
        with pytest.raises(DataError, match=r"line 3: .*'2'.*--label-map"):
            parse(path, "classification", labels=("bad", "good"), bad_rows=bad_rows)
    names = {"1": "bad", "2": "good"}
    read = parse(path, "classification", labels=("bad", "good"), label_map=names)
    assert labels(read) == ["bad", "good"]
    assert read.warnings == []


def test_numbers_beside_numbers_are_no_index(write):
    with pytest.raises(DataError, match=r"unseen in training: '1'"):
        parse(write("a.tsv", table(["1"])), "classification", labels=("0", "5"))
    with pytest.raises(DataError, match=r"'neg'.*--label-map neg=LABEL_0"):
        parse(write("a.tsv", table(["neg"])), "classification", labels=("LABEL_0", "LABEL_1"))


@pytest.mark.parametrize(
    ("values", "pair"),
    [
        (["1", "1.0", "0"], "1.0=1"),
        (["Good", "good", "bad"], "good=Good"),
        (["very good", "Very  good", "bad"], "'very good'='Very  good'"),
    ],
)
def test_one_label_under_two_names_is_a_warning_with_the_option_that_joins_them(
    write, values, pair
):
    path = write("a.tsv", table(values * 4))
    (warning,) = parse(path, "classification").warnings
    assert f"--label-map {pair}" in warning
    name, _, meant = pair.replace("'", "").partition("=")
    read = parse(path, "classification", label_map={name: meant})
    assert len({*labels(read)}) == 2
    assert read.warnings == []


def test_tags_go_by_other_names_too(write):
    path = write("a.conll", "Rome B-LOCATION\n. O\n\nin O\nParis B-LOCATION\n")
    read = parse(path, "tagging", labels=("O", "B-LOC", "I-LOC"), label_map={"LOCATION": "LOC"})
    assert [each.tags for each in read.examples] == [("B-LOC", "O"), ("O", "B-LOC")]
    two = write("b.conll", "Rome B-Loc\n. O\n\nin O\nParis B-LOC\n")
    assert any("--label-map" in each for each in parse(two, "tagging").warnings)
