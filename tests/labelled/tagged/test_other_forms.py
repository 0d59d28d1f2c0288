"""Tagged files in forms that others publish: read, or an error whose command makes one that is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from bertwright.errors import DataError
from tests.labelled.conftest import parse, tagged


def run_advice(error, folder):
    """Run the command that ends the message of an error, in a folder."""
    (command,) = re.findall(r"(?:python -c|awk) .*", str(error.value))
    subprocess.run(command, shell=True, check=True, cwd=folder)


def test_spacys_pairs_of_text_and_entities(write):
    rows = [["Rita ran.", {"entities": [[0, 4, "PER"]]}], ["He ran.", {"entities": []}]]
    read = parse(write("a.json", rows), "tagging")
    assert tagged(read) == [("Rita ran .", "B-PER O O"), ("He ran .", "O O O")]
    assert (read.columns.text, read.columns.label) == ("text", "entities")


@pytest.mark.parametrize("words", ["['Rita', 'ran']", '["Rita", "ran"]', "['Rita' 'ran']"])
def test_lists_of_words_written_as_text(write, words):
    tags = words.replace("Rita", "B-PER").replace("ran", "O")
    quoted = ('"' + each.replace('"', '""') + '"' for each in (words, tags))
    path = write("a.csv", "tokens,ner_tags\n" + ",".join(quoted) + "\n")
    assert tagged(parse(path, "tagging")) == [("Rita ran", "B-PER O")]
    given = parse(path, "tagging", require_labels=False)
    assert [each.words for each in given.examples] == [("Rita", "ran")]


def test_words_in_rows_without_sentences(write, tmp_path):
    path = write("a.csv", 'Word,POS,Tag\nRita,N,B-PER\n",",X,O\nran,V,O\n.,X,O\nHe,N,O\n.,X,O\n')
    with pytest.raises(DataError, match="sentence_id") as error:
        parse(path, "tagging")
    run_advice(error, tmp_path)
    read = parse(tmp_path / "a.conll", "tagging")
    assert tagged(read) == [("Rita , ran .", "B-PER O O O"), ("He .", "O O")]


@pytest.mark.skipif(shutil.which("awk") is None, reason="needs awk")
def test_brackets_of_ontonotes(write, tmp_path):
    names = ["(PER)", "*", "(GPE*", "*)", "*"]
    lines = ["#begin document (x); part 000"]
    words = ["Rita", "saw", "New", "York", "."]
    for number, (word, name) in enumerate(zip(words, names, strict=True)):
        lines.append("\t".join(["x", "0", str(number), word, *"abcdef", name, "-"]))
    path = write("a b.conll", "\n".join([*lines, "", *lines[1:], "", "#end document", ""]))
    with pytest.raises(DataError, match="CoNLL-2012") as error:
        parse(path, "tagging")
    run_advice(error, tmp_path)
    read = parse(tmp_path / "a b-names.conll", "tagging")
    assert tagged(read) == [("Rita saw New York .", "B-PER O B-GPE I-GPE O")] * 2


@pytest.mark.parametrize("indent", [None, 1])
def test_one_json_of_several_data_sets(write, tmp_path, indent):
    rows = [{"text": "a b", "label": "x"}, {"text": "c", "label": "y"}]
    path = write("a.json", json.dumps({"train": rows, "test": rows[:1]}, indent=indent))
    with pytest.raises(DataError, match=r"--train train\.json --dev test\.json") as error:
        parse(path, "classification")
    run_advice(error, tmp_path)
    assert len(parse(tmp_path / "train.json", "classification").examples) == 2
    assert len(parse(tmp_path / "test.json", "classification").examples) == 1
