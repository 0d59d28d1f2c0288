"""Columns whose words are numbered: CoNLL-U and its like, comments, and tables of texts to tag."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from tests.labelled.conftest import parse, parse_stream

CONLLU = """\
# newdoc id = a
# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\tCase=Nom\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tsee\tsee\tVERB\tVB\t_\t_\t_\t3:conj\t_

# sent_id = 2
1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
2\t10 000\t10000\tNUM\tCD\t_\t1\tnummod\t_\t_

# newdoc id = b
# sent_id = 3
1\t_\t_\tPUNCT\tNFP\t_\t0\troot\t_\t_
"""
NUMBERED = "#\thttp://a.b [2009]\n1\tAnna\tB-PER\tO\n2\tlives\tO\tO\n\n#\tc\n1\tBob\tB-PER\tO\n"


def rows(examples):
    return [(each.words, each.tags) for each in examples]


@pytest.mark.parametrize("name", ["a.conllu", "a.txt", "a.tsv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_conllu_gives_syntactic_words_with_upos_and_documents(write, name, end):
    path = write(name, CONLLU.replace("\n", end))
    read = parse(path, "tagging")
    assert rows(read.examples) == [
        (("I", "do", "n't"), ("PRON", "AUX", "PART")),
        (("#", "10 000"), ("SYM", "NUM")),
        (("_",), ("PUNCT",)),
    ]
    assert [each.document for each in read.examples] == [0, 0, 1]
    assert [each.line for each in read.examples] == [4, 11, 16]
    assert read.scheme == "none"
    assert read.format.startswith("CoNLL-U, tags in column upos")
    unlabelled = list(parse_stream(path, "tagging").examples)
    assert [each.words for each in unlabelled] == [each.words for each in read.examples]


@pytest.mark.parametrize("column", ["xpos", "XPOS", "5"])
def test_another_column_of_conllu_is_asked_for_by_name_or_number(write, column):
    path = write("a.conllu", CONLLU)
    read = parse(path, "tagging", Columns(label=column))
    assert rows(read.examples)[0] == (("I", "do", "n't"), ("PRP", "VBP", "RB"))


def test_a_missing_value_of_conllu_is_no_tag_but_no_features_are(write):
    path = write("a.conllu", CONLLU.replace("VBP", "_"))
    read = parse(path, "tagging", Columns(label="xpos"), bad_rows="skip")
    assert len(read.examples) == 2
    read = parse(path, "tagging", Columns(label="feats"))
    assert rows(read.examples)[0][1] == ("Case=Nom", "_", "_")


@pytest.mark.parametrize(
    ("name", "content", "label", "message"),
    [
        *(("a.conllu", CONLLU, column, "column") for column in ("id", "form", "1", "2", "pos")),
        ("a.conllu", CONLLU.replace("VBP", "_"), "xpos", r"line 6: .*XPOS is _; expected --label"),
        (
            "a.conllu",
            CONLLU.replace("\n\n# sent_id = 2", "\n# sent_id = 2"),
            None,
            "line 10: .* wrong number of a word: '1'; expected 4",
        ),
        ("a.conllu", CONLLU.replace("\t", "  "), None, "1 columns; expected 10, separated by tabs"),
        ("a.conllu", "# newdoc\n\n", None, "no example"),
        ("a.conll", "-DOCSTART-\n", None, "no words"),
    ],
)
def test_what_is_refused(write, name, content, label, message):
    with pytest.raises(DataError, match=message):
        parse(write(name, content), "tagging", Columns(label=label))


def test_numbers_before_the_words_are_no_words(write):
    path = write("a.tsv", NUMBERED)
    read = parse(path, "tagging", Columns(label="3"))
    assert rows(read.examples) == [(("Anna", "lives"), ("B-PER", "O")), (("Bob",), ("B-PER",))]
    assert [each.words for each in parse_stream(path, "tagging").examples] == [
        ("Anna", "lives"),
        ("Bob",),
    ]
    from_zero = write("c.tsv", "0\tAnna\tB-PER\n1\tlives\tO\n\n0\tBob\tB-PER\n")
    assert rows(parse(from_zero, "tagging").examples) == rows(read.examples)
    headed = write("b.tsv", "id\ttoken\tner\n1\tAnna\tB-PER\n2\tlives\tO\n\n1\tBob\tB-PER\n")
    assert rows(parse(headed, "tagging").examples) == rows(read.examples)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,text\n1,"Anna, lives\nhere"\n2,Bob\n'),
        ("a.csv", 'text\n"Anna, lives\nhere"\nBob\n'),
        ("a.tsv", "id\ttext\n1\tAnna, lives here\n2\tBob\n"),
    ],
)
def test_a_table_of_texts_to_tag_is_read_by_its_column(write, name, content):
    found = parse_stream(write(name, content), "tagging", labels=["O", "B-PER"]).examples
    assert [each.words for each in found] == [("Anna", ",", "lives", "here"), ("Bob",)]


def test_columns_under_a_header_are_no_table_of_texts(write):
    path = write("a.tsv", "text\ttag\nAnna\tB-PER\nlives\tO\n\nBob\tB-PER\n")
    stream = parse_stream(path, "tagging", labels=["O", "B-PER"])
    assert [each.words for each in stream.examples] == [("Anna", "lives"), ("Bob",)]


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        "\ufeff\nword tag\nAnna B-PER\nlives O\n\nBob B-PER\n",
        "Anna B-PER\nlives O\n\n\ufeff\nBob B-PER\n",
        "Anna B-PER\nlives O\n\ufeff\n\ufeffBob B-PER\n",
    ],
)
def test_the_byte_order_marks_of_files_that_were_put_together_are_no_words(write, content, label):
    read = parse(write("a.conll", content), "tagging", require_labels=label)
    assert [each.words for each in read.examples] == [("Anna", "lives"), ("Bob",)]


def test_a_format_that_is_named_needs_no_sign(write):
    path = write("a.txt", "Anna\nlives\n\nBob\n")
    plain = parse_stream(path, "tagging")
    assert [each.words for each in plain.examples] == [("Anna",), ("lives",), ("Bob",)]
    words = parse_stream(path, "tagging", format="conll")
    assert [each.words for each in words.examples] == [("Anna", "lives"), ("Bob",)]
    lines = parse_stream(path, "classification", format="text")
    assert [each.text for each in lines.examples] == ["Anna", "lives", "Bob"]
