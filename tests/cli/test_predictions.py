"""`bertwright evaluate --predictions`: files of predictions that were made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import KINDS, Files, Finetuned, JsonOf, Ran
from tests.raising import assert_names


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tagging"])
def test_what_predict_writes_gives_the_figures_of_the_model(
    finetuned: Finetuned, files: Files, tmp_path: Path, ran: Ran, json_of: JsonOf, kind: str
) -> None:
    model, data = finetuned(kind), files[kind][1]
    written = tmp_path / "predictions.jsonl"
    words = ["--model", model, "--precision", "fp32"]
    ran("predict", *words, "--input", data, "--out", written)
    wanted = json_of("evaluate", *words, "--data", data)
    found = json_of("evaluate", "--predictions", written, "--kind", kind, "--data", data)
    assert found["metrics"] == pytest.approx(wanted["metrics"])
    assert found["intervals"] == wanted["intervals"]
    assert (found["kind"], found["task"], found["model"]) == (kind, kind, written.name)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


SENTENCES = "Ann B-PER\nsaw O\nNew B-LOC\nYork I-LOC\n\nit O\nrains O\n"
GUESSED = "Ann B-PER\nsaw O\nNew B-LOC\nYork O\n\nit I-LOC\nrains O\n"


def test_conll_columns(tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    data = write(tmp_path, "dev.conll", SENTENCES)
    guessed = write(tmp_path, "guessed.conll", GUESSED)
    words = ["--kind", "tagging", "--data", data, "--predictions"]
    metrics = json_of("evaluate", *words, guessed)["metrics"]
    assert metrics == pytest.approx(
        {"f1": 0.4, "precision": 1 / 3, "recall": 0.5, "accuracy": 4 / 6}
    )
    both = [f"{a} {b.split()[1]}" if a else "" for a, b in zip(
        SENTENCES.splitlines(), [g or " " for g in GUESSED.splitlines()], strict=True
    )]  # fmt: skip
    path = write(tmp_path, "conlleval.txt", "\n".join(both) + "\n")
    words = ["--kind", "tagging", "--data", path, "--label", "2", "--predictions", path]
    assert json_of("evaluate", *words)["metrics"] == metrics
    other = write(tmp_path, "other.conll", GUESSED.replace("Ann", "Bob"))
    words = ["evaluate", "--kind", "tagging", "--data", data, "--predictions", other]
    assert_names(ran(*words, code=4).err, "other.conll", "same sentences")


def test_answers_by_id(tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    there = {"id": "a", "question": "who ?", "answers": [{"text": "the cat", "answer_start": 0}]}
    none = {"id": "b", "question": "why ?", "answers": [], "is_impossible": True}
    data = [{"title": "t", "paragraphs": [{"context": "the cat sat", "qas": [there, none]}]}]
    squad = write(tmp_path, "dev.json", json.dumps({"version": "v2.0", "data": data}))
    words = ["--kind", "span", "--data", squad, "--predictions"]
    answers = write(tmp_path, "answers.json", json.dumps({"b": "", "a": "cat"}, indent=1))
    metrics = json_of("evaluate", *words, answers)["metrics"]
    assert (metrics["exact_match"], metrics["no_answer_exact_match"]) == (1.0, 1.0)
    lines = write(tmp_path, "lines.jsonl", '{"answer": "cat"}\n{"answer": ""}\n')
    assert json_of("evaluate", *words, lines)["metrics"] == metrics
    rows = '{"line": 1, "answer": "cat"}\n'
    printed = ran("evaluate", *words, write(tmp_path, "x.jsonl", rows), code=4)
    assert_names(printed.err, "1 predictions", "2 examples")
    swapped = '{"id": "b", "answer": ""}\n{"id": "a", "answer": "cat"}\n'
    printed = ran("evaluate", *words, write(tmp_path, "x.jsonl", swapped), code=4)
    assert "order" in printed.err
    # SQuAD's script counts an answer that is missing as wrong, also where "" were right
    for given, exact in ({"a": "cat"}, 0.5), ({"b": ""}, 0.5):
        found = json_of("evaluate", *words, write(tmp_path, "x.json", json.dumps(given)))
        assert found["metrics"]["exact_match"] == exact
        assert any("1 of 2 questions" in each for each in found["warnings"])
    printed = ran("evaluate", *words, write(tmp_path, "x.json", '{"c": "cat"}'), code=4)
    assert "2 of 2 questions" in printed.err


def test_glue_and_tables(tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    data = write(tmp_path, "dev.tsv", "sentence\tlabel\n" + "a b\t1\nc d\t0\ne f\t1\n")
    for name, text in {
        "CoLA.tsv": "index\tprediction\n0\t1\n1\t1\n2\t1\n",
        "lines.csv": "id,pred\nx,1\ny,1\nz,1\n",
    }.items():
        path = write(tmp_path, name, text)
        found = json_of(
            "evaluate", "--kind", "classification", "--data", data, "--predictions", path
        )
        assert found["metrics"]["accuracy"] == pytest.approx(2 / 3)
    numbers = write(tmp_path, "sts.csv", "sentence1,sentence2,score\na,b,1\nc,d,2.5\ne,f,4\n")
    path = write(tmp_path, "STS-B.tsv", "index\tprediction\n0\t2\n1\t5\n2\t8\n")
    found = json_of("evaluate", "--kind", "regression", "--data", numbers, "--predictions", path)
    assert found["metrics"]["pearson"] == pytest.approx(1.0)
    for text, message in (
        ("index\tprediction\n0\t2\n1\t5\n", "2 predictions"),
        ("index\tprediction\n0\t2\n1\t5\n2\tx\n", "expected a number"),
    ):
        words = ["--predictions", write(tmp_path, "bad.tsv", text), "--data", numbers]
        assert message in ran("evaluate", "--kind", "regression", *words, code=4).err


@pytest.mark.parametrize(
    ("option", "value"), [("--precision", "fp32"), ("--task", "other"), ("--beam", "2")]
)
def test_options_that_are_not_read(option: str, value: str, ran: Ran, tmp_path: Path) -> None:
    data = write(tmp_path, "data.tsv", "text\tlabel\na\tx\n")
    words = ("evaluate", "--predictions", data, "--kind", "classification", "--data", data)
    printed = ran(*words, option, value, code=2)
    assert ("generation" if option == "--beam" else option) in printed.err


def test_a_model_or_predictions(ran: Ran) -> None:
    for words in ([], ["--model", "m", "--predictions", "p"], ["--predictions", "p"]):
        printed = ran("evaluate", "--data", "x", *words, code=2)
        assert_names(printed.err, "--predictions FILE", "--kind KIND")
