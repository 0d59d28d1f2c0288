"""Files of the bAbI tasks as documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import DataError
from bertwright.text.corpus.read import CorpusReport, read_documents
from bertwright.text.corpus.stories import babi_documents, is_babi

LINES = CorpusConfig(sentences="line")
TASK = """\
1 Anna took the train to Oslo.
2 Where is Anna? \tOslo\t1
3 Ben stayed in Rome.
4 Anna went back to Rome.
5 Who is in Rome?\tAnna,Ben\t3 4
1 Eva has a dog.
2 What has Eva?\tdog\t1
"""
DOCUMENTS = [
    ["Anna took the train to Oslo.", "Where is Anna?", "Oslo"],
    [
        "Anna took the train to Oslo.",
        "Ben stayed in Rome.",
        "Anna went back to Rome.",
        "Who is in Rome?",
        "AnnaBen",
    ],
    ["Eva has a dog.", "What has Eva?", "dog"],
]


def read(path: Path, config: CorpusConfig = LINES) -> tuple[list[list[str]], CorpusReport]:
    report = CorpusReport()
    return list(read_documents([str(path)], config, report)), report


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_question_is_a_document_of_the_sentences_before_it(tmp_path: Path, end: str) -> None:
    path = tmp_path / "task.txt"
    path.write_bytes(TASK.replace("\n", end).encode())
    documents, report = read(path)
    assert documents == DOCUMENTS
    assert report.story_questions == 3
    assert any("bAbI" in line and "3" in line for line in report.remarks())


def test_a_compressed_file_without_an_end_of_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "task.txt.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + TASK.rstrip("\n").encode()))
    assert read(path)[0] == DOCUMENTS


@pytest.mark.parametrize(
    "text",
    [
        "1 Buy milk.\n2 Call Ben.\n3 Why not?\n",  # a list: no answer
        "1 hello there\thi, what can I do?\t\n2 a table\twhere?\n",  # a dialogue
        "1 Anna is in Oslo.\n7 Where is Anna?\tOslo\t1\n",  # numbers that do not count
        "Anna is in Oslo.\nWhere is Anna?\tOslo\t1\n",
        "1 Anna is in Oslo.\nWhere is Anna?\tOslo\t1\n1 x\n",
    ],
)
def test_other_numbered_lines_are_no_stories(tmp_path: Path, text: str) -> None:
    assert not is_babi(text)
    path = tmp_path / "list.txt"
    path.write_text(text)
    documents, report = read(path)
    assert len(documents) == 1
    assert report.story_questions == 0


def test_other_rules_of_documents_read_the_lines_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "task.txt"
    path.write_text(TASK)
    assert len(read(path, CorpusConfig(documents="line", sentences="line"))[0]) == 7


def test_a_large_file_is_known_by_its_head(tmp_path: Path) -> None:
    path = tmp_path / "task.txt"
    path.write_text(TASK * 3000)
    documents, report = read(path)
    assert len(documents) == report.story_questions == 9000


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("no number here", "line 8.*no number here"),
        ("2 Eva?\tdog\t1\tmore", "line 8"),
        ("1 Where is Eva?\tOslo\t1", "line 8.*no sentence"),
        ("3 Where is Eva?", "line 8.*answer"),
    ],
)
def test_a_bad_line_is_named(line: str, named: str) -> None:
    with pytest.raises(DataError, match=named):
        list(babi_documents((TASK + line).split("\n"), "task.txt", CorpusReport()))
