"""Columns that are not read are named, and a column of train, dev and test is obeyed."""

from __future__ import annotations

import pytest

from bertwright.config.finetune import TaskFilesConfig
from bertwright.errors import DataError
from bertwright.inference.files.texts import open_texts
from bertwright.recipes.finetune.setup import read_split
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.texts.options import ClassificationOptions
from tests.labelled.conftest import parse, parse_stream

ROWS = [(n, f"the book {n}", "good" if n % 2 else "bad") for n in range(24)]


def table(column, value_of):
    lines = [f"text,label,{column},year"]
    lines += [f"{text},{label},{value_of(n)},1990" for n, text, label in ROWS]
    return "\n".join(lines) + "\n"


def by_turns(*names):
    return lambda n: names[n // 2 % len(names)]


def split(path, dev=None):
    said = []
    files = TaskFilesConfig(train=str(path), dev=None if dev is None else str(dev))
    found = read_split(kind_of("classification"), files, ClassificationOptions(), 1, said.append)
    return found, said


def numbers(examples):
    return [int(each.text.split()[-1]) for each in examples]


def test_columns_that_are_not_read_are_named(write, tmp_path):
    read = parse(write("a.csv", table("author", by_turns("x", "y"))), "classification")
    assert "not read: author, year" in read.format
    assert (
        "not read" not in parse(write("b.csv", "id,text,label\n7,a b,x\n"), "classification").format
    )
    found, said = split(tmp_path / "a.csv")
    assert any("not read: author, year" in line for line in said)
    assert len(found.train) + len(found.dev) == 24
    words = "sentence_id,word,tag,lemma\n1,He,O,he\n1,ran,B-X,run\n"
    assert "not read: lemma" in parse(write("w.csv", words), "tagging").format
    stream = parse_stream(tmp_path / "a.csv", "classification")
    assert "not read: label, author, year" in stream.format
    assert open_texts(str(tmp_path / "a.csv"), "text").log.warnings == [
        f"{tmp_path / 'a.csv'}: not read: label, author, year"
    ]


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("split", ("train", "dev", "test")),
        ("SemEval_set", ("TRAIN", "TRIAL", "TEST")),
        ("Set", ("training", "validation", "testing")),
    ],
)
def test_rows_of_dev_and_test_are_not_trained_on(write, column, names):
    path = write("a.csv", table(column, by_turns(*names)))
    found, _ = split(path)
    assert numbers(found.train) == [n for n in range(24) if n // 2 % 3 == 0]
    assert numbers(found.dev) == [n for n in range(24) if n // 2 % 3 == 1]
    for part in ("8 for train", "8 for dev", "8 for test", column):
        assert any(part in warning for warning in found.read.warnings)
    # with a dev file, its rows evaluate; that of the same file are those for dev
    other, _ = split(path, write("dev.csv", "text,label\nthe book 90,good\nthe book 91,bad\n"))
    assert (numbers(other.train), numbers(other.dev)) == (numbers(found.train), [90, 91])
    same, _ = split(path, path)
    assert numbers(same.dev) == numbers(found.dev)
    read = parse(path, "classification")
    assert numbers(read.of_part("test", "dev")) == [n for n in range(24) if n // 2 % 3 == 2]


def test_a_file_of_train_and_test_holds_out_rows_of_train(write):
    found, _ = split(write("a.csv", table("split", by_turns("train", "test"))))
    assert {n // 2 % 2 for n in numbers(found.train) + numbers(found.dev)} == {0}
    assert found.dev


def test_other_values_are_no_parts(write):
    for name, value_of in (("split", by_turns("train")), ("set", by_turns("a", "b"))):
        path = write("a.csv", table(name, value_of))
        found, _ = split(path)
        assert len(found.train) + len(found.dev) == 24
    found, _ = split(write("a.csv", table("fold", by_turns("0", "1", "2"))))
    assert len(found.train) + len(found.dev) == 24
    assert any("'fold'" in warning and "--dev" in warning for warning in found.read.warnings)
    late = "text,label,split\n" + "a b,x,train\n" * 300 + "c,y,holdout\n"
    with pytest.raises(DataError, match=r"line 302.*split"):
        parse(write("b.csv", late), "classification")


def test_parts_of_words_in_rows(write):
    rows = [f"{n},{w},O,{('train', 'test')[n % 2]}" for n in range(4) for w in ("a", f"b{n}")]
    path = write("a.csv", "\n".join(["sentence_id,word,tag,split", *rows]) + "\n")
    read = parse(path, "tagging")
    assert [each.words[1] for each in read.of_part("train")] == ["b0", "b2"]
    assert [each.words[1] for each in read.of_part("test")] == ["b1", "b3"]
    assert "not read" not in read.format
