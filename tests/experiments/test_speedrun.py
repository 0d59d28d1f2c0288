"""The race of recipes: what worth is, and a tiny race that is run twice."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from bertwright.errors import ConfigError
from tests.house.source import ROOT
from tests.small_bert import write_model
from tests.small_runs import WORDS

sys.path.append(str(ROOT / "experiments"))

from speedrun import run
from speedrun.recipe import read_recipe
from speedrun.tasks import first_pairs, score_pairs
from speedrun.worth import mean_worth, worth

RECIPE = """
model = "bert-tiny"
minutes = 30.0

[architecture]
hidden_size = 16
intermediate_size = 16
num_hidden_layers = 1
num_attention_heads = 1

[instances]
objectives = "mlm"
sequence_length = 32

[batch]
tokens = 256

[tokenizer]
vocab_size = 120
"""


def test_worth_is_what_pretraining_mends() -> None:
    assert worth(90, 80) == 50
    assert worth(70, 80) == -50
    scores = {1: (90.0, 60.0), 2: (85.0, 50.0)}
    rows = [
        {"seed": seed, "score": score, "random_start": start}
        for seed, found in scores.items()
        for score, start in zip(found, (80.0, 50.0), strict=True)
    ]
    assert mean_worth(rows) == [35, 12.5]


def test_a_recipe_is_a_name_or_a_file(tmp_path: Path) -> None:
    shipped = read_recipe("half-hour")
    assert "minutes" not in shipped.keys
    assert shipped.tokenizer.vocab_size == 16384
    path = tmp_path / "own.toml"
    path.write_text(RECIPE)
    own = read_recipe(str(path))
    assert (own.name, own.tokenizer.vocab_size) == ("own", 120)
    path.write_text(RECIPE.replace("256", "512"))
    assert read_recipe(str(path)).sha256 != own.sha256
    with pytest.raises(ConfigError, match="none-such"):
        read_recipe("none-such")


def test_the_first_pairs_of_each_paradigm(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(f'{{"paradigm": "{name}"}}\n' for name in "aababb"))
    taken = first_pairs(path, 2, tmp_path / "few.jsonl").read_text().splitlines()
    assert [json.loads(line)["paradigm"] for line in taken] == ["a", "a", "b", "b"]


def test_a_model_without_probabilities_has_no_score_of_pairs(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", ())
    found = score_pairs(model, tmp_path / "pairs.jsonl", None, tmp_path)
    assert found == {"score": None, "pairs": 0}


@pytest.mark.slow
def test_a_race_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(1)

    def sentence() -> str:
        return " ".join(chance.choices(WORDS, k=8)) + " ."

    documents = ["\n".join(sentence() for _ in range(8)) for _ in range(40)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents))
    (tmp_path / "own.toml").write_text(RECIPE)
    pair = {"paradigm": "order", "good": sentence(), "bad": sentence()}
    (tmp_path / "pairs.jsonl").write_text(2 * (json.dumps(pair) + "\n"))
    glue = tmp_path / "data/glue"
    for name, header in (("SST-2", "sentence\tlabel"), ("STS-B", "sentence1\tsentence2\tscore")):
        (glue / name).mkdir(parents=True)
        for part in ("train", "dev"):
            texts = ["\t".join(sentence() for _ in range(header.count("\t"))) for _ in range(12)]
            rows = [f"{text}\t{number % 2}" for number, text in enumerate(texts)]
            (glue / name / f"{part}.tsv").write_text("\n".join([header, *rows]) + "\n")
    words = [tmp_path / "own.toml", "--minutes", 0.05, "--tasks", "SST-2", "STS-B"]
    words += ["--labels", 8, "--all-labels", "--pairs", tmp_path / "pairs.jsonl"]
    words += ["--corpus", tmp_path / "corpus.txt", "--data", tmp_path / "data"]
    words += ["--work", tmp_path / "work"]
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, words)])
    run.main()
    table = capsys.readouterr().out
    for shown in ("| SST-2 | 8 |", "| STS-B | 8 |", "| SST-2 | all |", "worth", "BLiMP"):
        assert shown in table
    results = tmp_path / "work/results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    kinds = [row["what"] for row in rows]
    assert kinds == ["initialization", "pretraining", *3 * ["random start", "task"], "pairs"]
    of_task = rows[3]
    assert of_task["random_start"] == rows[2]["score"]
    assert of_task["examples"] == 8
    assert rows[-1]["pairs"] == 2
    (config,) = (tmp_path / "work/runs").glob("own-*/0.05-minutes/seed-1/config.toml")
    assert config.is_file()
    run.main()
    assert len(results.read_text().splitlines()) == len(rows)
    assert "worth" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, words), "--probe"])
    run.main()
    scores = json.loads(results.read_text().splitlines()[-1])["scores"]
    assert scores.keys() == {
        f"{t}, {at}" for t in ("SST-2", "STS-B") for at in ("embeddings", "last")
    }
