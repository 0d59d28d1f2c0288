"""What is looked at before torch is imported, and files that are for another kind of task."""

from __future__ import annotations

import pytest

from bertwright.config.finetune import TaskFilesConfig
from bertwright.errors import DataError
from bertwright.labelled.look import READERS, look_at
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.tasks.texts.options import ClassificationOptions
from tests.labelled.conftest import parse

TEXTS = [("the film was fine", "good"), ("a dull book", "bad"), ("it rained", "bad")] * 4


def table(separator, header=True):
    rows = [("text", "label")] * header + TEXTS
    return "".join(separator.join(row) + "\n" for row in rows)


def test_the_readers_are_those_of_the_kinds():
    assert {*READERS} <= {*KINDS}
    for name, reader in READERS.items():
        assert kind_of(name).reader is reader


def test_files_and_columns_are_looked_for(write):
    path = str(write("a.csv", table(",")))
    look_at("classification", TaskFilesConfig(train=path), ClassificationOptions())
    look_at("classification", TaskFilesConfig(train="-"), ClassificationOptions())
    with pytest.raises(DataError, match="'colour'"):
        look_at(
            "classification", TaskFilesConfig(train=path, label="colour"), ClassificationOptions()
        )
    with pytest.raises(DataError, match=r"no\.csv"):
        look_at(
            "classification", TaskFilesConfig(train=path, dev="no.csv"), ClassificationOptions()
        )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", table("\t")),
        ("a.txt", table("\t")),
        ("a.csv", table(",")),
        ("a.txt", table("\t", header=False)),
    ],
)
def test_texts_with_labels_are_no_tagged_words(write, name, content):
    with pytest.raises(DataError, match="classification") as error:
        parse(write(name, content), "tagging")
    assert error.value.retry == ("tagging", "classification")


def test_words_with_blanks_are_still_words(write):
    content = "New York\tB-LOC\nis\tO\n\nLos Angeles\tB-LOC\n"
    assert len(parse(write("a.txt", content), "tagging").examples) == 2
    one = "New York\tB-LOC\nis\tO\nbig\tO\n"
    assert len(parse(write("a.txt", one), "tagging").examples) == 1


def test_names_as_numbers_are_classification(write):
    with pytest.raises(DataError, match=r"'good', 'bad'.*classification") as error:
        parse(write("a.csv", table(",")), "regression")
    assert error.value.retry == ("regression", "classification")
    commas = write("b.tsv", "text\tlabel\na b\t1,5\nc d\t2,5\n")
    with pytest.raises(DataError, match=r"line 2.*with a point"):
        parse(commas, "regression")
    mixed = write("c.csv", "text,label\na b,1.5\nc d,none\n")
    with pytest.raises(DataError, match="line 3"):
        parse(mixed, "regression")
