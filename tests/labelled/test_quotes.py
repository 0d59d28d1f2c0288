"""Quoted fields in TSV, as pandas and Excel write them, and quotes that are text."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.tables import split_tsv
from tests.labelled.conftest import parse


def split(text, **options):
    log = BadRowLog("a.tsv")
    rows = [row for _, row in split_tsv(enumerate(text.split("\n"), 1), log, **options)]
    return rows, [*log.mended]


def test_fields_that_pandas_quoted_are_read_without_quotes_and_counted(write):
    content = 'text\tlabel\n"He said ""fine"""\tx\nplain\ty\n"two\nlines"\tx\n"a\ttab"\ty\n'
    read = parse(write("a.tsv", content), "classification")
    texts = ['He said "fine"', "plain", "two\nlines", "a\ttab"]
    assert [each.text for each in read.examples] == texts
    assert [each.line for each in read.examples] == [2, 3, 4, 6]
    assert any("--format tsv" in each for each in read.warnings)
    read = parse(
        write("a.tsv", content.replace("\nlines", "")),
        "classification",
        bad_rows="skip",
        format="tsv",
    )
    assert read.examples[0].text == '"He said ""fine"""'


@pytest.mark.parametrize(
    "content",
    [
        'a\t"whole" and more\tx\n"""b"""\ty\tz\n',  # a quote that begins no quoted field
        'a "quoted" word\tx\n"b ""c"""\ty\n',  # pandas would have quoted the first text
        '"open\tx\n"b ""c"""\ty\n',
    ],
)
def test_quotes_that_are_text_stay_and_what_looks_quoted_is_counted(content):
    rows, warnings = split(content)
    assert rows == [line.split("\t") for line in content.split("\n") if line]
    assert len(warnings) == 1
    assert "--format csv" in warnings[0]


def test_a_text_in_quotes_alone_shows_nothing():
    assert split('"Yes."\tx\nNo.\ty\n') == ([['"Yes."', "x"], ["No.", "y"]], [])
    # but where every text of the file is quoted, the program did it
    assert split('"text"\t"n"\n"Yes."\t1\n"No."\t2\n')[0] == [
        ["text", "n"],
        ["Yes.", "1"],
        ["No.", "2"],
    ]


def test_a_quote_that_is_not_closed_after_well_quoted_fields_is_an_error():
    good = '"a ""b"""\tx\n' * 3000
    with pytest.raises(DataError, match=r"line 3,001.*--format tsv"):
        split(good + '"open\tx\n' * 3)


@given(
    st.lists(
        st.tuples(st.text('ab" \t\n', min_size=1), st.text('xy"', min_size=1)),
        min_size=1,
        max_size=9,
    )
)
def test_what_the_csv_module_writes_comes_back_where_quotes_show_it(rows):
    out = io.StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerows(rows)
    text = out.getvalue()
    quoted = any(mark in cell for row in rows for cell in row for mark in '"\t\n')
    if quoted:
        assert split(text)[0] == [[*row] for row in rows]


STS = ["a\t1\tit was\ta dog", 'f\t6\t"it was\ta bee', 'g\t7\tit had wings"\tand six legs']
STS += ["e\t5\tit was\ta pig", "h\t0.5\tit is\ta cow", "i\t3\tit is\ta hen"]


@pytest.mark.parametrize(("name", "separator"), [("a.csv", "\t"), ("a.tsv", "\t"), ("a.csv", ",")])
def test_a_quote_in_one_row_and_one_in_a_later_row_join_no_rows(write, name, separator):
    path = write(name, "\n".join(row.replace("\t", separator) for row in STS) + "\n")
    read = parse(path, "similarity", Columns("3", "4", "2"))
    assert [(each.label, each.line) for each in read.examples] == [
        (1, 1),
        (6, 2),
        (7, 3),
        (5, 4),
        (0.5, 5),
        (3, 6),
    ]
    assert read.examples[1].text == '"it was'
    if name == "a.csv":
        assert any("--format tsv" in each for each in read.warnings)


def test_line_ends_in_quoted_fields_are_kept(write):
    for name, separator in (("a.csv", ","), ("a.csv", "\t"), ("a.tsv", "\t")):
        content = 'text,label\n"a,\n""b""",x\nd,y\ne,x\nf,y\ng,x\n'.replace(",", separator)
        read = parse(write(name, content), "classification")
        assert [each.text for each in read.examples] == [f'a{separator}\n"b"', *"defg"]
