"""Hard negatives of pairs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import bertwright
from bertwright.cli.app import run
from bertwright.inference.files.mining import mine
from bertwright.labelled.examples import SimilarityExample


def test_hard_negatives_are_near_and_not_right(model_folder: Path) -> None:
    embedder = bertwright.load(model_folder).embedder()
    pairs = [SimilarityExample("a b", "a b"), SimilarityExample("a b", "a b c")]
    pairs += [SimilarityExample("d e", "d")]
    corpus = ["a b a", "j j j j", "d e"]
    first, second, third = mine(embedder, pairs, corpus, 2)
    assert len(first) == 2
    assert not {"a b", "a b c"} & {*first, *second}
    assert "d e" not in third
    vectors = embedder.embed(["a b", *first, "j j j j"])
    vectors /= (vectors**2).sum(1, keepdims=True) ** 0.5
    cosines = vectors[1:] @ vectors[0]
    assert cosines[0] >= cosines[1] >= cosines[2] - 1e-6


def test_a_negative_cosine_keeps_no_text_that_is_nearer_than_the_right_one() -> None:
    angles = {"q": 0, "right": 100, "nearer": 99, "level": 104, "farther": 120}

    class Plane:
        prompts: ClassVar[dict[str, str]] = {}
        config = SimpleNamespace(prompt="")

        def embed(self, texts: list[str], *_: object, prompt: str) -> Any:
            turned = np.deg2rad([angles[text] for text in texts])
            return np.stack([np.cos(turned), np.sin(turned)], 1).astype(np.float32)

    (found,) = mine(cast(Any, Plane()), [SimilarityExample("q", "right")], [*angles][2:], 3)
    assert found == ["level", "farther"]


def test_mined_pairs_are_trained_on(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "hard.jsonl"
    rows = [f"a {letter}\t{letter} b\n" for letter in "cdefgh"]
    pairs.write_text("anchor\tpositive\n" + "".join(rows))
    words = ["mine", "--model", str(model_folder), "--count", "2", "--pairs", str(pairs)]
    assert run([*words, "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["anchor"] for line in lines] == [f"a {letter}" for letter in "cdefgh"]
    assert all(line["positive"] not in line["negatives"] for line in lines)
    assert run([*words, "--out", str(out)]) == 2  # it is there
    assert run(words) == 2
    assert "--out" in capsys.readouterr().err


def test_a_search_without_hard_negatives_says_why(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "hard.jsonl"
    words = ["mine", "--model", str(model_folder), "--count", "2", "--pairs", str(pairs)]
    pairs.write_text("anchor\tpositive\na b\tc\n")
    assert run([*words, "--out", str(out)]) == 0
    assert "--corpus" in capsys.readouterr().err
    pairs = pairs.rename(tmp_path / "pairs.csv")
    pairs.write_text("one,two,three\na b,c,d\n")
    assert run([*words[:-1], str(pairs), "--out", str(out), "--overwrite"]) == 4
    shown = capsys.readouterr().err
    assert "anchor and positive" in shown
    assert "--text" not in shown
