"""Tagged words in the rows of CSV and TSV."""

from __future__ import annotations

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from tests.labelled.conftest import parse, parse_stream, tagged

KAGGLE = (
    "Sentence #,Word,POS,Tag\nSentence: 1,Ann,NNP,B-per\n,lives,VBZ,O\n,here,RB,O\n"
    'Sentence: 2,"1,000",CD,O\n,Romans,NNPS,B-gpe\nSentence: 3,No,UH,O\n'
)


def test_csv_of_a_word_a_row(write):
    path = write("ner.csv", KAGGLE)
    read = parse(path, "tagging")
    expected = [("Ann lives here", "B-per O O"), ("1,000 Romans", "O B-gpe"), ("No", "O")]
    assert tagged(read) == expected
    assert [each.line for each in read.examples] == [2, 5, 7]
    assert (read.columns, read.scheme) == (Columns("Word", None, "Tag"), "iob2")
    assert tagged(parse(path, "tagging", hint=read.columns)) == expected
    assert tagged(parse(path, "tagging", Columns(label="POS")))[2] == (
        "No",
        "UH",
    )
    every = "sentence_id;token;ner_tags\n7;Ann;B-per\n7;runs;O\n8;No;O\n"
    assert tagged(parse(write("b.csv", every), "tagging")) == [
        ("Ann runs", "B-per O"),
        ("No", "O"),
    ]
    unlabelled = parse_stream(path, "tagging", hint=read.columns)
    assert tagged(unlabelled) == [(words, "") for words, _ in expected]
    texts = write("texts.csv", "sentence,note\nAnn runs,a\n")
    assert tagged(parse_stream(texts, "tagging", hint=read.columns)) == [("Ann runs", "")]
    unnamed = write("d.csv", KAGGLE.replace("Sentence: 1,", ","))  # the first sentence
    assert [each.line for each in parse(unnamed, "tagging").examples] == [2, 5, 7]
    columns = write("c.conll", "Ann B-per\nruns O\n")
    assert tagged(parse(columns, "tagging", hint=read.columns)) == [("Ann runs", "B-per O")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (KAGGLE.replace("No,", ","), "line 7: .*empty word or tag"),
        (KAGGLE.replace("CD,O", "CD,"), "line 5: .*empty word or tag"),
        (KAGGLE.replace(",B-gpe", ",B_gpe"), "line 5: .*B_gpe"),
        ("Word,Tag\na,O\n", r"sentence_id.*it has 'Word', 'Tag'"),
        ("word,sentence_id\na,1\n", r"no column of tags"),
    ],
)
def test_csv_of_words_that_cannot_be_read(write, content, message):
    with pytest.raises(DataError, match=message):
        parse(write("ner.csv", content), "tagging", labels=["O", "B-per", "B-gpe"])


def test_a_sentence_with_an_empty_word_is_left_out(write):
    path = write("ner.csv", KAGGLE.replace(",lives,", ",,"))
    read = parse(path, "tagging", bad_rows="skip")
    assert [words for words, _ in tagged(read)] == ["1,000 Romans", "No"]
    assert read.log.skipped["sentence with an empty word or tag"].lines == [3]


@pytest.mark.parametrize("bad", ["Sentence: 2,a,b,CD,O", 'Sentence: 2,"1,000"'])
def test_a_row_of_another_width_is_never_left_out(write, bad):
    """It may have begun a sentence, whose other words are not to join the one before."""
    path = write("ner.csv", KAGGLE.replace('Sentence: 2,"1,000",CD,O', bad))
    with pytest.raises(DataError, match=r"line 5: .*expected 4"):
        parse(path, "tagging", bad_rows="skip")
    last = write("a.csv", "sentence_id,word\n1,a\n2\n")
    with pytest.raises(DataError, match=r"line 3: .*fields"):
        parse(last, "tagging", require_labels=False, bad_rows="skip")


def test_the_header_again_is_no_sentence(write):
    path = write("a.csv", "sentence_id,word,tag\n1,a,O\nsentence_id,word,tag\n2,b,O\n")
    assert tagged(parse(path, "tagging", bad_rows="skip")) == [("a", "O"), ("b", "O")]


def test_quotes_that_swallow_rows_are_found(write):
    """A quote as a word, not doubled: CSV reads up to the next as one word."""
    path = write("a.csv", 'sentence_id,word,tag\n1,a,O\n1,",O\n2,b,O\n3,",O\n3,c,O\n4,d,O\n')
    read = parse(path, "tagging")
    assert tagged(read) == [('a "', "O O"), ("b", "O"), ('" c', "O O"), ("d", "O")]
    assert any("(line 3, 4, 5)" in each for each in read.warnings)
    path = write("b.csv", 'sentence_id,word,tag\n1,a,O\n1,"a\nb",O\n2,b,O\n')
    for bad_rows in ("skip", "refuse"):
        with pytest.raises(DataError, match=r"line 3: .*quote"):
            parse(path, "tagging", bad_rows=bad_rows)


def test_documents(write):
    """Each may count its sentences anew."""
    table = "doc_id,sentence_id,word,tag\nx,1,a,B-X\n,,b,O\nx,2,c,O\ny,2,d,O\ny,1,e,O\n"
    read = parse(write("a.csv", table), "tagging")
    assert tagged(read) == [("a b", "B-X O"), ("c", "O"), ("d", "O"), ("e", "O")]
    assert [each.document for each in read.examples] == [0, 0, 1, 1]


def test_a_text_beside_the_number_of_its_sentence(write):
    path = write("a.csv", "sentence_id,sentence,word,tag\n1,a b,a,B-X\n1,a b,b,O\n")
    assert tagged(parse(path, "tagging")) == [("a b", "B-X O")]


@pytest.mark.parametrize(
    ("name", "mark"), [("a.tsv", "\t"), ("a.txt", "\t"), ("a", "\t"), ("a.txt", ","), ("a", ",")]
)
def test_the_header_alone_tells_words_in_rows(write, name, mark):
    path = write(name, KAGGLE.replace('"1,000"', "1000").replace(",", mark))
    expected = [("Ann lives here", "B-per O O"), ("1000 Romans", "O B-gpe"), ("No", "O")]
    assert tagged(parse(path, "tagging")) == expected
    assert tagged(parse_stream(path, "tagging")) == [(words, "") for words, _ in expected]


def test_the_tags_by_number(write):
    found = parse(write("a.csv", KAGGLE), "tagging", Columns(label="3"))
    assert tagged(found)[0][1] == "NNP VBZ RB"


@pytest.mark.parametrize(
    ("column", "message"),
    [("1", "no column of sentences"), ("2", "named twice"), ("5", "no column '5'")],
)
def test_numbers_of_other_columns_are_refused(write, column, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.csv", KAGGLE), "tagging", Columns(label=column))
