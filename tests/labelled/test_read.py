"""Texts, pairs and numbers from TSV, CSV, JSON, Parquet and plain lines."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TextExample, labels_of
from tests.labelled.conftest import parse, parse_stream

PAIRS = [("a cat", "an animal", "yes"), ("a dog", "a fish", "no"), ("rain", "water", "yes")]


def rows(read):
    return [(each.text, each.text2, each.label) for each in read.examples]


def table(header, lines, mark="\t"):
    return "\n".join(mark.join(row) for row in [header, *lines]) + "\n"


def test_tsv_has_no_quoting_and_keeps_every_character(write):
    text = 'she said "no\u2028way" , \x85 really '
    path = write("a.tsv", f'\ufefftext\tlabel\r\n{text}\tx\r\n"open\ty\r\n')
    read = parse(path, "classification")
    assert rows(read) == [(text, None, "x"), ('"open', None, "y")]
    assert [each.line for each in read.examples] == [2, 3]
    assert read.format == "TSV with the columns text, label"
    assert read.columns == Columns("text", None, "label")


def test_csv_quotes_and_counts_the_lines_within_quotes(write):
    path = write("a.csv", 'label,Review\nx,"one, ""two""\nthree"\ny,four\n')
    read = parse(path, "classification")
    assert rows(read) == [('one, "two"\nthree', None, "x"), ("four", None, "y")]
    assert [each.line for each in read.examples] == [2, 4]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_csv_may_be_separated_otherwise(write, mark):
    read = parse(write("a.csv", table(("text", "label"), [("a,b", "x")], mark)), "classification")
    assert rows(read) == [("a,b", None, "x")]


@pytest.mark.parametrize("mark", [",", ";"])
def test_csv_without_its_name_is_told_by_its_header(write, mark):
    path = write(
        "a.txt", table(("id", "text", "label"), [("1", 'a"b', "x"), ("2", "c", "y")], mark)
    )
    found = [('a"b', "x"), ("c", "y")]
    read = parse(path, "classification")
    assert [(each.text, each.label) for each in read.examples] == found
    hint = Columns(text="text", label="label")
    stream = parse_stream(path, "classification", hint=hint)
    assert [each.text for each in stream.examples] == ['a"b', "c"]


@pytest.mark.parametrize("first", ["Well, text is text", "text, label or both of them", "a,text"])
def test_plain_text_with_commas_is_no_csv(write, first):
    hint = Columns(text="text", label="label")
    path = write("a.txt", f"{first}\nno, it is not\n")
    stream = parse_stream(path, "classification", hint=hint)
    assert [each.text for each in stream.examples] == [first, "no, it is not"]


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        ("sentence1", "sentence2", "label"),
        ("Premise", "Hypothesis", "Label"),
        ("question1", "question2", "is_duplicate"),
        ("question", "sentence", "label"),
        ("text1", "text2", "target"),
        ("sentence_A", "sentence_B", "entailment_judgment"),
        ("#1 String", "#2 String", "Quality"),
        ("text_a", "text_b", "gold_label"),
    ],
)
def test_pairs_are_known_by_their_names(write, first, second, label):
    lines = [(c, "7", a, b) for a, b, c in PAIRS]
    path = write("a.tsv", table((label, "other", first, second), lines))
    read = parse(path, "classification")
    assert rows(read) == PAIRS
    assert read.columns == Columns(first, second, label)


def test_a_file_is_told_by_content_where_its_name_says_nothing(write):
    expected = [("a", None, "x"), ("b", None, "y")]
    tsv = "text\tlabel\na\tx\nb\ty\n"
    lines = '{"text": "a", "label": "x"}\n\n{"text": "b", "label": "y"}\n'
    array = json.dumps([{"text": a, "label": b} for a, _, b in expected], indent=1)
    nested = json.dumps({"version": 1, "data": json.loads(array)})
    for name, content in {
        "a.txt": tsv,
        "b": lines,
        "c.json": lines,
        "d.json": array,
        "e.json": nested,
        "f": array,
        "g.json": lines.replace('"text"', '"data": 1, "text"'),
    }.items():
        assert rows(parse(write(name, content), "classification")) == expected, name


def test_parquet_gives_the_names_of_classes(write):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    features = {
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
        "text": {"dtype": "string"},
    }
    there = pyarrow.table({"text": ["a", "b"], "label": [1, 0]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    stream = io.BytesIO()
    parquet.write_table(there, stream)
    for name, content in (
        ("a.parquet", stream.getvalue()),
        ("b.parquet.gz", gzip.compress(stream.getvalue())),
    ):
        read = parse(write(name, content), "classification")
        assert rows(read) == [("a", None, "pos"), ("b", None, "neg")]
        assert read.format == "Parquet with the columns text, label"
    with pytest.raises(DataError, match="Parquet"):
        parse(write("c.parquet", stream.getvalue()[:-9]), "classification")


def test_cola_and_other_files_without_header(write):
    cola = "gj04\t1\t\tHe ran.\ngj04\t0\t*\tHe ran him.\n"
    read = parse(write("a.tsv", cola), "classification", Columns("4", None, "2"))
    assert rows(read) == [("He ran.", None, "1"), ("He ran him.", None, "0")]
    plain = "question\twhy ?\nanswer\tso .\nquestion\twho ?\nanswer\tme .\n"
    read = parse(write("b.tsv", plain), "classification", Columns("2", None, "1"))
    assert rows(read)[0] == ("why ?", None, "question")
    assert len(read.examples) == 4
    pairs = write("c.tsv", "a\tb\t0.5\nc\td\t1\n")
    assert rows(parse(pairs, "regression", Columns("1", "2", "3"))) == [
        ("a", "b", 0.5),
        ("c", "d", 1.0),
    ]
    numbered = parse(write("d.tsv", "x\ta b\ny\tc d\n"), "classification", Columns("2", None, "1"))
    assert rows(numbered) == [("a b", None, "x"), ("c d", None, "y")]


def test_glue_layouts_of_many_columns(write):
    header = (
        "index\tpromptID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label"
    )
    lines = [
        "7\t1\tx\t(A)\ta\tb\tneutral\tneutral\tneutral",
        "8\t1\tx\t(A)\tc\td\tneutral\tentailment\t-",
    ]
    read = parse(write("mnli.tsv", "\n".join([header, *lines])), "classification")
    assert read.examples == [TextExample("a", "b", "neutral", "7", 2)]
    (reason,) = read.log.skipped
    assert "did not agree" in reason
    assert read.log.skipped[reason].lines == [3]
    assert read.warnings == [f"{read_name(read)}: 1 left out, {reason} (line 3)"]
    sick = (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "4\ta\tb\t3.6\tNEUTRAL\n"
    )
    path = write("sick.tsv", sick)
    assert rows(parse(path, "classification")) == [("a", "b", "NEUTRAL")]
    assert rows(parse(path, "regression")) == [("a", "b", 3.6)]
    assert parse(path, "regression").examples[0].id == "4"


def read_name(read):
    return read.warnings[0].partition(":")[0]


def test_asked_columns_win_and_may_differ_in_case(write):
    path = write("a.tsv", "sentence1\tsentence2\tTitle\tlabel\tkind\na\tb\tc\tx\ty\n")
    asked = Columns("title", None, "kind")
    assert rows(parse(path, "classification", asked)) == [("c", None, "y")]
    assert rows(parse(path, "classification", Columns("sentence1"))) == [("a", None, "x")]
    assert rows(parse(path, "classification", Columns("title", "sentence1"))) == [("c", "a", "x")]
    hint = Columns("sentence2", None, "kind")
    assert rows(parse(path, "classification", hint=hint)) == [("b", None, "y")]
    away = Columns("body", None, "sort")
    assert rows(parse(path, "classification", hint=away)) == [("c", None, "x")]


@pytest.mark.parametrize(
    ("content", "asked", "message"),
    [
        ("text\tkind\na\tx\n", Columns(), r"no column of labels.*it has 'text', 'kind'.*--label"),
        ("body_\tlabel\na\tx\n", Columns(), r"no column of texts.*it has 'body_', 'label'.*--text"),
        ("text\tlabel\na\tx\n", Columns("txet"), r"no column 'txet'; it has 'text'.*--text COLUMN"),
        ("text\tlabel\na\tx\n", Columns(None, None, "lab"), r"no column 'lab'.*--label COLUMN"),
        ("text\tlabel\na\tx\n", Columns(None, "other"), r"no column 'other'.*--text2 COLUMN"),
        ("text\ttext\tlabel\na\tb\tx\n", Columns(), r"header names 'text' twice"),
        ("review\tcontent\tlabel\na\tb\tx\n", Columns(), r"several .*'review', 'content'.*--text"),
        ("text\tquality\ttarget\na\tb\tx\n", Columns(), r"several .*'quality', 'target'"),
        (
            "premise\thypothesis\tquestion1\tquestion2\tlabel\na\tb\tc\td\tx\n",
            Columns(),
            r"several pairs of texts.*--text2",
        ),
        ("text\tlabel\na\tx\nb\tx\ty\n", Columns(), r"line 3: wrong number of fields: 3; .* 2 as"),
        ("text\tlabel\na\tx\n \tx\n", Columns(), r"line 3: empty text: column 'text'"),
        ("text\tlabel\na\t\n", Columns(), r"line 2: no label; expected a class"),
        ("text\tlabel\n", Columns(), r"has no example"),
        ("x\ta b\ny\tc d\n", Columns(), r"no column of labels.*'1', '2' by.*first.*'x', 'a b',"),
        ("x\ta b\ny\tc d\n", Columns("body"), r"no column of labels.*it has '1', '2'"),
        ("text\tlabel\na\tx\n", Columns("3"), r"no column '3'; it has 'text', 'label'"),
        ("\n\n", Columns(), r"is empty"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_with_what_to_do(write, content, asked, message):
    with pytest.raises(DataError, match=message) as error:
        parse(write("bad.tsv", content), "classification", asked)
    assert "bad.tsv" in str(error.value)
    assert error.value.exit_code == 4


def test_bad_rows_are_left_out_by_option(write):
    content = "text\tlabel\na\tx\nb\n\t\n" + "c\ty\td\n" * 6 + "e\ty\n"
    read = parse(write("a.tsv", content), "classification", bad_rows="skip")
    assert rows(read) == [("a", None, "x"), ("e", None, "y")]
    assert read.log.skipped["wrong number of fields"].count == 7
    assert read.log.skipped["wrong number of fields"].lines == [3, 5, 6, 7, 8]
    assert read.log.skipped["empty text"].lines == [4]
    assert any(
        "7 left out, wrong number of fields (line 3, 5, 6, 7, 8, ...)" in w for w in read.warnings
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a", "label"', r"line 2: not a JSON object"),
        ('{"text": NaN, "label": "x"}', r"line 2: empty text: column 'text'"),
        ('{"text": true, "label": "x"}', r"a bool in the column 'text'"),
        ('["a"]', r"line 2: not a JSON object: a list"),
        ('{"text": "a", "text": "b", "label": "x"}', r"the key 'text' comes twice"),
        ('{"label": "x"}', r"empty text: column 'text'"),
        ('{"text": ["a"], "label": "x"}', r"a list in the column 'text'; expected a string"),
        ('{"text": "a", "label": ["x", "y"]}', r"expected one class; for several: --multi-label"),
        ('{"text": "a"}', r"no label"),
    ],
)
def test_bad_json_lines_are_refused_with_their_line(write, line, message):
    content = '{"text": "good", "label": "x"}\n' + line + "\n"
    with pytest.raises(DataError, match=message):
        parse(write("a.jsonl", content), "classification")
    read = parse(write("a.jsonl", content), "classification", bad_rows="skip")
    assert rows(read) == [("good", None, "x")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "text\tlabel\n".encode("utf-16"), "UTF-16"),
        ("a.csv", 'text,label\n"open,x\nb,y\n', r"line 2:.*closed quotes"),
        ("a.json", '[{"text": "a"},\n{"text": "b"}\n', "cannot be read as JSON.*line 2 column 14"),
        ("a.json", "[]\n", r"a\.json has no JSON object; expected \{\"text\""),
        ("a.jsonl", "null\n", "has no JSON object"),
        ("a.jsonl", "[" * 100_000, "cannot be read as JSON"),
        ("a.jsonl", "{'text': 'a'}\n", "has no JSON object"),
        (
            "a.txt",
            "just words\n",
            r"has no column of labels.*it has '1'.*first line, 'just words'",
        ),
        ("none.tsv", None, "cannot be read"),
        (".", None, "is a folder; expected a file"),
    ],
)
def test_bad_files_are_refused(write, tmp_path, name, content, message):
    path = tmp_path / name if content is None else write(name, content)
    with pytest.raises(DataError, match=message):
        parse(path, "classification")


def test_what_no_file_can_have(write):
    with pytest.raises(DataError, match=r"named twice: 'a', 'a'.*--text2"):
        Columns("a", "a")
    with pytest.raises(ConfigError, match="kind is 'sorting'"):
        parse(write("a.txt", "just words\n"), "sorting")


def test_malformed_and_zero_bytes_are_told(write):
    read = parse(write("a.tsv", b"text\tlabel\na\xff\tx\nb\0c\ty\n"), "classification")
    assert [each.text for each in read.examples] == ["a\ufffd", "bc"]
    assert any("1 malformed UTF-8" in warning for warning in read.warnings)
    assert any("1 zero byte dropped" in warning for warning in read.warnings)
    content = '{"text": "a\\ud800b", "label": "x"}\n{"text": "\\ud83d\\ude00", "label": "\\udc00"}'
    read = parse(write("a.jsonl", content), "classification")
    assert rows(read) == [("a\ufffdb", None, "x"), ("\U0001f600", None, "\ufffd")]
    assert [warning for warning in read.warnings if "lone surrogate" in warning]


@pytest.mark.parametrize(
    ("written", "known"),
    [("postive", "positive"), ("-0", "0")],
)
@pytest.mark.parametrize("several", [False, True])
def test_an_unknown_label_names_line_and_nearest_or_is_left_out(write, written, known, several):
    path = write("a.csv", f"text,label\na,{known}\nb,{written}\n")
    options = {"labels": ["no", known], "multi_label": several}
    with pytest.raises(DataError, match=f"line 3: .*'{written}'.*'{known}'"):
        parse(path, "classification", **options)
    read = parse(path, "classification", **options, bad_rows="skip")
    assert [each.text for each in read.examples] == ["a"]
    assert read.log.skipped["label unseen in training"].lines == [3]
    options["labels"] = [written, known]
    assert parse(path, "classification", **options).warnings == []


def test_messages_show_no_more_than_sixty_characters(write):
    secret = "secret " * 100
    with pytest.raises(DataError) as error:
        parse(write("a.tsv", f"text\tlabel\na\t{secret}\n"), "classification", labels=["x"])
    assert str(error.value).count("secret") < 9


def test_labels_of_many_kinds(write):
    content = "\n".join(
        json.dumps({"text": "a", "label": label}) for label in [10, 2, 2.0, True, " x ", "-3"]
    )
    read = parse(write("a.jsonl", content), "classification")
    assert [each.label for each in read.examples] == ["10", "2", "2", "true", "x", "-3"]
    assert labels_of(read.examples) == ("-3", "10", "2", "true", "x")
    assert labels_of([TextExample("", label="10"), TextExample("", label="9")]) == ("9", "10")


def test_several_labels_at_once(write):
    content = '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n'
    read = parse(write("a.jsonl", content), "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("x", "y"), ()]
    path = write("a.tsv", "text\tlabels\na\tx , y\nb\t\nc\ty\n")
    read = parse(path, "classification", multi_label=True)
    assert [each.label for each in read.examples] == [("x", "y"), (), ("y",)]
    assert labels_of(read.examples) == ("x", "y")


@pytest.mark.parametrize("value", ["high", "nan", "inf", "1,5"])
def test_a_number_must_be_one(write, value):
    advice = ".*with a point" if "," in value else ""
    with pytest.raises(DataError, match=rf"line 2: .*'{value}'{advice}"):
        parse(write("a.tsv", f"text\tscore\na\t{value}\n"), "regression")


def test_plain_lines_and_pairs_to_predict(write):
    path = write("a.txt", "one\n\ntwo\twords\n")
    read = parse(path, "classification", require_labels=False)
    assert read.examples == [TextExample("one", line=1), TextExample("two\twords", line=3)]
    with pytest.raises(DataError, match=r"line 1: .*two texts"):
        parse(path, "classification", require_labels=False, hint=Columns("a", "b"))
    read = parse(path, "regression", require_labels=False, hint=Columns("x", "y"), bad_rows="skip")
    assert read.examples == [TextExample("two", "words", line=3)]
    assert read.log.skipped["no pair of texts"].lines == [1]


def test_columns_of_the_training_file_are_found_again(write):
    path = write("a.tsv", "good\t1\nbad\t0\n")
    for columns, hint in ((Columns(), Columns("1")), (Columns("1"), Columns())):
        read = parse(path, "classification", columns, hint=hint, require_labels=False)
        assert rows(read) == [("good", None, None), ("bad", None, None)]
    path = write("b.tsv", "txt\tkind\ngood\t1\nbad\t0\n")
    for label in (False, True):
        read = parse(
            path, "classification", hint=Columns("txt", None, "kind"), require_labels=label
        )
        assert [each.text for each in read.examples] == ["good", "bad"]
        assert read.columns == Columns("txt", None, "kind" if label else None)


def test_labels_are_not_read_where_none_is_needed(write):
    path = write("a.tsv", "id\tsentence1\tsentence2\tlabel\n9\ta\tb\tanything\n")
    read = parse(path, "classification", require_labels=False, labels=["x"])
    assert read.examples == [TextExample("a", "b", None, "9", 2)]
    with pytest.raises(DataError, match="second text"):
        parse(
            write("b.tsv", "text\na\n"),
            "classification",
            require_labels=False,
            hint=Columns("a", "b"),
        )


@pytest.mark.parametrize("name", ["b.tsv", "b.txt"])
def test_a_file_to_predict_without_a_header_is_read_as_training_read_it(write, name):
    train = parse(write("a.tsv", "x\tgood\ny\tbad\n"), "classification", Columns("2", None, "1"))
    options = {"hint": train.columns}
    for content in (
        "x\tfine\ny\tpoor\n",  # training's columns
        "id\ttext\n1\tfine\n2\tpoor\n",  # a header
    ):
        stream = parse_stream(write(name, content), "classification", **options)
        assert [each.text for each in stream.examples] == ["fine", "poor"], content
    alone = write(name, "fine\npoor\n")
    columns = Columns("1") if name == "b.tsv" else Columns()
    stream = parse_stream(alone, "classification", columns, **options)
    assert [each.text for each in stream.examples] == ["fine", "poor"]
    other = {"hint": Columns("text", None, "label")}
    message = {"b.tsv": "no column of texts", "b.txt": r"a tab in its .*--text 1.*--format text"}
    with pytest.raises(DataError, match=message[name]):
        parse_stream(write(name, "x\tfine\n"), "classification", **other)
    for form in ("text", "tsv"):
        with pytest.raises(DataError, match="no column"):
            parse(write(name, "x\ty\n"), "classification", format=form)
    with pytest.raises(DataError, match=r"has no column '7'; it has '1', '2'"):
        parse_stream(write(name, "x\tfine\n"), "classification", Columns("1", "7"), **options)


@pytest.mark.parametrize(
    ("name", "content", "kind", "asked"),
    [
        ("a.conll", "a O\nb B-X\n", "tagging", Columns(None, "1")),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}', "tagging", Columns(None, "tokens")),
        ("a.json", '{"data": [{"paragraphs": []}]}', "span", Columns(label="answers")),
    ],
)
def test_an_option_that_is_not_used_is_an_error(write, name, content, kind, asked):
    with pytest.raises(DataError, match=r"--\w+ \w+ names a column, but .*leave the option out"):
        parse(write(name, content), kind, asked)
    with pytest.raises(DataError, match=r"--text nope|no column 'nope'"):
        parse_stream(write("b.txt", "a b\nc d\n"), kind, Columns("nope"))


def test_columns_of_a_header_go_by_number_too(write):
    """So that one pair of options reads a training file without a header and a dev file with."""
    numbers = Columns("1", None, "2")
    for content in ("fine\tx\n", "body\tlabel\nfine\tx\n", "text\tclass\nfine\tx\n"):
        assert rows(parse(write("a.tsv", content), "classification", numbers)) == [
            ("fine", None, "x")
        ]
    row = '{"2": "b", "1": "a", "label": "x"}\n'
    named = parse(write("a.jsonl", row), "classification", Columns("1"))
    assert rows(named) == [("a", None, "x")]  # a name is a name


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ("aaaa", "all have the label 'a'; there is nothing to tell apart"),
        ("aabc", "3 classes in 4 examples; is --label the right column?"),
        ("aabb", ""),
    ],
)
def test_labels_that_teach_little(write, labels, told):
    rows = "".join(f"text {n}\t{label}\n" for n, label in enumerate(labels))
    warnings = parse(write("a.tsv", f"text\tlabel\n{rows}"), "classification").warnings
    assert [told in each for each in warnings] == ([True] if told else [])
