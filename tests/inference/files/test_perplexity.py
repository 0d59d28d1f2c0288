"""`bertwright perplexity`: texts, mixtures and minimal pairs on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run
from tests.inference.conftest import TEXT, language_model
from tests.small_runs import WORDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("perplexity")
    for seed in (1, 2):
        language_model(made / str(seed), seed)
    (made / "text.txt").write_text(f"{TEXT}\n{WORDS[3]} missing\n\n{WORDS[5]}\n", encoding="utf-8")
    (made / "other.txt").write_text(f"{WORDS[9]} {WORDS[2]}\n", encoding="utf-8")
    return made


def verb(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert run(["perplexity", *map(str, words), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_model(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "scores.jsonl"
    found = verb(capsys, folder / "text.txt", "--model", folder / "1", "--out", out)
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["text"] for line in lines] == [0, 1]
    assert (found["texts"], found["tokens"], found["unknown"]) == (2, 75, 1)
    assert lines[1]["tokens"] == [WORDS[5], "[SEP]"]
    total = sum(sum(line["log_probabilities"]) for line in lines)
    assert found["perplexity"] == pytest.approx(math.exp(-total / 75))
    characters = len(f"{TEXT}\n{WORDS[3]} missing{WORDS[5]}")
    assert found["bits_per_character"] == pytest.approx(-total / math.log(2) / characters)
    by_line = verb(capsys, folder / "text.txt", "--model", folder / "1", "--documents", "line")
    assert (by_line["texts"], by_line["tokens"]) == (3, 76)


def test_a_vocabulary_that_has_no_word_of_a_text(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("quite missing\n\naltogether\n", encoding="utf-8")
    assert run(["perplexity", str(text), "--model", str(folder / "1")]) == 4
    assert "none of the 3 words is in the vocabulary" in " ".join(capsys.readouterr().err.split())


def test_mixtures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [folder / "text.txt", "--model", folder / "1", "--model", folder / "2"]
    alone = [verb(capsys, folder / "text.txt", "--model", folder / n)["loss"] for n in ("1", "2")]
    equal = verb(capsys, *words)
    assert [each["weight"] for each in equal["models"]] == [0.5, 0.5]
    assert [each["loss"] for each in equal["models"]] == pytest.approx(alone)
    tuned = verb(capsys, *words, "--tune", folder / "text.txt")
    assert tuned["loss"] <= min(*alone, equal["loss"]) + 1e-9
    weights = [str(each["weight"]) for each in tuned["models"]]
    again = verb(capsys, *words, "--weights", *weights)
    assert again["loss"] == pytest.approx(tuned["loss"])
    assert run(["perplexity", *map(str, words), "--weights", "0.5", "0.7"]) == 2
    assert "sum to 1" in capsys.readouterr().err


def test_minimal_pairs(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    sentences = [" ".join(WORDS[n : n + 3]) for n in range(12)]
    rows = [
        {"good": good, "bad": bad, "kind": "ab"[number % 2]}
        for number, (good, bad) in enumerate(zip(sentences[::2], sentences[1::2], strict=True))
    ]
    pairs.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    found = verb(capsys, "--pairs", pairs, "--by", "kind", "--model", folder / "1")
    swapped = tmp_path / "swapped.jsonl"
    swapped.write_text(
        pairs.read_text("utf-8")
        .replace('"good"', '"x"')
        .replace('"bad"', '"good"')
        .replace('"x"', '"bad"'),
        encoding="utf-8",
    )
    other = verb(capsys, "--pairs", swapped, "--model", folder / "1")
    assert found["pairs"] == 6
    assert found["accuracy"] + other["accuracy"] == pytest.approx(1)
    assert {name: each["pairs"] for name, each in found["by"].items()} == {"a": 3, "b": 3}
    assert run(["perplexity", "--model", str(folder / "1")]) == 2
    words = ["perplexity", "--model", str(folder / "1"), "--pairs", str(pairs)]
    assert run([*words, "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "--out is for files of text" in capsys.readouterr().err


def test_models_of_different_vocabularies_are_compared(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    language_model(tmp_path / "few", words=WORDS[:4])
    models = ["--model", folder / "1", "--model", tmp_path / "few"]
    text = folder / "text.txt"
    found = verb(capsys, text, *models)
    first, few = found["models"]
    alone = [verb(capsys, text, *models[n : n + 2]) for n in (0, 2)]
    for each, own in zip(found["models"], alone, strict=True):
        assert each["unknown"] == own["unknown"]
        assert each["tokens"] == own["tokens"]
        bare = each["bits_per_character_of_tokens"]
        assert bare == pytest.approx(own["bits_per_character"], rel=1e-5)
        spelled = each["bits_per_character"] - bare
        assert spelled == pytest.approx(each["spelling_fraction"] * each["bits_per_character"])
    assert first["unknown"] == 1
    assert few["unknown"] > 50
    assert few["spelling_fraction"] > first["spelling_fraction"] > 0

    # a character model that knows the word spells it in fewer bits
    other = tmp_path / "other.txt"
    other.write_text("missing missed misses\n", encoding="utf-8")
    again = verb(capsys, text, *models, "--spelling", other)["models"][0]
    assert again["bits_per_character"] < first["bits_per_character"]

    # what is of a mixture is refused by its name
    for words in (["--weights", "0.5", "0.5"], ["--tune", text], ["--out", tmp_path / "x"]):
        assert run(["perplexity", str(text), *map(str, [*models, *words])]) == 2
        assert words[0] in capsys.readouterr().err
    one = ["perplexity", str(text), "--model", str(folder / "1")]
    assert run([*one, "--spelling", str(other)]) == 2
    assert "--spelling" in capsys.readouterr().err
    assert run(["perplexity", str(text), *map(str, models)]) == 0
    assert "spelling" in capsys.readouterr().out
