"""Senses told apart: by hand, of ours, of a static model, of a contextual one; bad files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertwright.cli.app import run
from bertwright.errors import ConfigError, DataError
from bertwright.inference.senses import cluster, read_usages, rows_of_words, score_senses

SENSES = ["money"] * 3 + ["river"] * 3
FILE = "word\tsense\tsentence\n" + "".join(
    f"{word}\t{sense}\t{text} {word} {text}.\n"
    for word in ("old", "house")
    for sense in ("one", "two")
    for text in (f"the {sense}", f"near {sense}")
)


def test_ours() -> None:
    usages = read_usages()
    counts = Counter((usage.word, usage.sense) for usage in usages)
    assert len(rows_of_words(usages)) >= 20
    assert set(counts.values()) == {10}
    assert len({usage.sentence for usage in usages}) == len(usages)
    for usage in usages:
        at = usage.sentence[usage.start : usage.start + len(usage.word)]
        assert at.lower() == usage.word
        assert usage.sentence.lower().split().count(usage.word) <= 1


def test_by_hand() -> None:
    apart = np.array([[1, 0.1 * n] for n in range(3)] + [[0.1 * n, 1] for n in range(3)])
    assert score_senses(apart.astype(np.float32), SENSES) == (1.0, 1.0)
    swapped = apart.astype(np.float32)[[3, 1, 2, 0, 4, 5]]
    assert score_senses(swapped, SENSES)[0] == pytest.approx(4 / 6)
    assert cluster(swapped, 2) == [0, 1, 1, 1, 0, 0]


def test_one_point_is_chance() -> None:
    assert score_senses(np.ones((6, 4), np.float32), SENSES) == (0.5, 0.0)
    assert cluster(np.ones((6, 4), np.float32), 2) == [0] * 6


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (FILE + "old\tone\tno such word\n", (), "line 10.*'old'"),
        (FILE + "old\tone\n", (), "line 10: .*: 2; expected 3"),
        (FILE + "bank\tone\tbank\n", (), "two senses"),
        (FILE, ("tree",), "tree"),
        (FILE, ("old", "tree"), "tree"),
        ("", ("old",), "old"),
        ("The old house.\nA tree.\n", ("old",), "line 2"),
    ],
    ids=str,
)
def test_bad_files(tmp_path: Path, content: str, words: tuple[str, ...], message: str) -> None:
    path = tmp_path / "senses.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_usages(path, words)


def test_plain_sentences_need_their_word(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("The old house.\nOld age.\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="by --word"):
        read_usages(path)
    assert [usage.start for usage in read_usages(path, ["old"])] == [4, 0]
    with pytest.raises(DataError, match="cannot be read"):
        read_usages(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match="3 clusters of 2 sentences"):
        cluster(np.eye(2, dtype=np.float32), 3)


@pytest.mark.slow
def test_the_verb(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "senses.tsv", tmp_path / "page.html"
    path.write_text(FILE, encoding="utf-8")
    given = ["senses", str(path), "--model", str(model_folder), "--model", str(model_folder)]
    assert run([*given, "--json", "--out", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["sentences"]) == 8
    for row in found["models"]:
        assert set(row["words"]) == {"old", "house"}
        right = [each * 8 for each in row["accuracy"]]  # of eight sentences
        assert right == pytest.approx([round(each) for each in right])
        assert row["accuracy"][row["layer"]] == max(row["accuracy"])
    assert page.read_text("utf-8").count('<svg class="dots"') == 4
    assert run([*given, "--word", "old"]) == 0
    assert "near one old near" in " ".join(capsys.readouterr().out.split())
    assert run([*given, "--layer", "99"]) == 2
    assert run([*given, "--out", str(page)]) != 0
