"""`bertwright evaluate`: the figures of a run again, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bertwright
from tests.cli.conftest import KINDS, Files, Finetuned, JsonOf, Ran
from tests.raising import assert_names


@pytest.mark.parametrize("kind", KINDS)
def test_dev_again_gives_the_figures_of_the_run(
    finetuned: Finetuned, files: Files, json_of: JsonOf, kind: str
) -> None:
    out, data = finetuned(kind), files[kind][1]
    found = json_of("evaluate", "--model", out, "--data", data, "--precision", "fp32")
    results = json.loads((out / "results.json").read_text())
    assert found["metrics"] == pytest.approx(results["seeds"][0]["metrics"], abs=1e-5)
    for name, ends in results["intervals"].items():
        assert found["intervals"][name] == pytest.approx(ends, abs=1e-4)
    assert found["per_class"] == results["per_class"]
    assert found["lengths"] == results["lengths"]["dev"]
    assert (found["kind"], found["task"], found["examples"]) == (kind, "task", 10)
    assert results["data"]["train"]["examples"] == 24


BASELINES = {
    "classification": {"majority", "tfidf"},
    "regression": {"mean", "tfidf_ridge"},
    "tagging": {"majority", "word_shape"},
    "span": set(),
}


@pytest.mark.parametrize("kind", BASELINES)
def test_baselines_and_rows_of_training(
    finetuned: Finetuned, files: Files, json_of: JsonOf, ran: Ran, kind: str
) -> None:
    out, (train, dev) = finetuned(kind), files[kind]
    words = ["evaluate", "--model", out, "--precision", "fp32", "--no-intervals"]
    found = json_of(*words, "--data", dev)
    results = json.loads((out / "results.json").read_text())
    of_run = {name: each for name, each in results["baselines"].items() if name != "untuned"}
    assert found["baselines"].keys() >= BASELINES[kind]
    assert found["baselines"] == {name: pytest.approx(each) for name, each in of_run.items()}
    shared = results["data"]["dev"]["in_train"]
    assert found["data"]["in_train"] == shared
    assert any("trained on" in each for each in found["warnings"]) == (shared > 0)
    found = json_of(*words, "--data", train)
    assert found["data"]["in_train"] == found["examples"]
    assert_names(found["warnings"][0], f"{found['examples']} of {found['examples']}", str(train))


def test_rows_of_training_in_another_file(
    finetuned: Finetuned, files: Files, tmp_path: Path, json_of: JsonOf, ran: Ran
) -> None:
    """Some rows of the training file, its copy, and rows in memory."""
    train, dev = files["classification"]
    out, mixed, copied = finetuned("classification"), tmp_path / "m.jsonl", tmp_path / "c.jsonl"
    of_train, of_dev = (each.read_text().splitlines() for each in (train, dev))
    seen = {json.loads(line)["text"] for line in of_train}
    new = [line for line in of_dev if json.loads(line)["text"] not in seen]
    mixed.write_text("\n".join([*of_train[:3], *new]) + "\n")
    copied.write_bytes(train.read_bytes())
    words = ["evaluate", "--model", out, "--no-intervals", "--data"]
    found = json_of(*words, mixed)
    assert found["data"]["in_train"] == 3
    assert_names(found["warnings"][0], f"3 of {3 + len(new)}")
    assert json_of(*words, copied)["data"]["in_train"] == 24
    shown = ran(*words, copied)
    assert_names(shown.err, "24 of 24", "c.jsonl")
    assert "TF-IDF" in shown.out
    rows = [json.loads(line) for line in of_train[:2]]
    scores = bertwright.evaluate(out, rows, intervals=False, progress=False)
    assert_names(scores.warnings[0], "2 of 2")
    assert "tfidf" in scores.results["baselines"]


def test_baselines_where_the_training_file_is_not_at_hand(
    tiny: Path, files: Files, tmp_path: Path, json_of: JsonOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is moved (and evaluated), then changed; the model is copied out of its run."""
    train, moved, out = tmp_path / "t.jsonl", tmp_path / "moved.jsonl", tmp_path / "run"
    train.write_bytes(files["classification"][0].read_bytes())
    monkeypatch.chdir(tmp_path)
    words = ["finetune", "classification", "--model", tiny, "--train", "t.jsonl", "--out", "run"]
    held_out = json_of(*words, "--epochs", "1", "--learning-rate", "0.01")["examples"]
    monkeypatch.chdir(out)
    words = ["evaluate", "--model", ".", "--no-intervals", "--data"]
    assert "tfidf" in json_of(*words, files["classification"][1])["baselines"]
    train.rename(moved)
    found = json_of(*words, moved)
    assert found["data"]["in_train"] >= 24 - held_out
    assert_names(found["warnings"][0], "of 24", str(moved))
    dev = files["classification"][1]
    train.write_text(dev.read_text())
    found = json_of(*words, dev)
    assert "in_train" not in found["data"]
    assert found["baselines"].keys() == {"majority_of_file"}
    assert found["baselines"]["majority_of_file"]["accuracy"] == 0.5
    shutil.copytree(out / "model", tmp_path / "copy")
    found = json_of("evaluate", "--model", tmp_path / "copy", "--data", moved)
    assert found["baselines"].keys() == {"majority_of_file"}
    assert not any("trained on" in each for each in found["warnings"])


def test_what_it_shows(
    finetuned: Finetuned, files: Files, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    data, path = files["classification"][1], tmp_path / "new" / "figures.json"
    words = ["evaluate", "--model", finetuned("classification"), "--data", data]
    shown = ran(*words, "--out", path).out
    for part in (
        "accuracy",
        "95 % interval",
        "precision",
        "without",
        f"10 examples of {data.name}",
    ):
        assert part in shown
    assert json.loads(path.read_text())["examples"] == 10
    assert [each.name for each in path.parent.iterdir()] == ["figures.json"]
    assert "exists already" in ran(*words, "--out", path, code=2).err
    found = json_of(*words, "--no-intervals", "--metric", "macro_f1")
    assert (found["main"], found["intervals"]) == ("macro_f1", {})
    assert "'bleu'" in ran(*words, "--metric", "bleu", code=2).err


GOOD_OR_BAD = [("good", "1"), ("bad", "0")] * 6
OWN_FILES = {
    "CoLA": ("a.tsv", [f"gj\t{y}\t{'' if y == '1' else '*'}\tit was {w}" for w, y in GOOD_OR_BAD]),
    "no header": ("a.tsv", [f"{y}\tit was {w} {n}" for n, (w, y) in enumerate(GOOD_OR_BAD)]),
    "three columns": ("a.tsv", [f"{w}\t{y}\tit was {w}" for w, y in GOOD_OR_BAD]),
    "names": ("a.csv", ["words,mood", *(f"it was {w},{y}" for w, y in GOOD_OR_BAD)]),
    "tags": ("a.conll", ["it PR O", "was VB O", "good JJ B-X", ""] * 6),
    "named tags": ("a.conll", ["word pos ner", *(["it PR O", "good JJ B-X", ""] * 6)]),
    "lists": (
        "a.jsonl",
        ['{"tokens": ["a", "b"], "ner_tags": ["O", "O"], "kind": ["N", "V"]}'] * 6,
    ),
}
OPTIONS = {
    "CoLA": ["--text", "4", "--label", "2"],
    "no header": ["--text", "2", "--label", "1"],
    "three columns": ["--text", "3", "--label", "2"],
    "names": ["--text", "words", "--label", "mood"],
    "tags": ["--label", "2"],
    "named tags": ["--label", "pos"],
    "lists": ["--label", "kind"],
}


@pytest.mark.parametrize("case", OWN_FILES)
def test_the_columns_of_training_are_known(
    tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf, case: str
) -> None:
    name, lines = OWN_FILES[case]
    data, out = tmp_path / name, str(tmp_path / "run")
    data.write_text("\n".join(lines) + "\n")
    kind = "tagging" if "tags" in case or case == "lists" else "classification"
    words = ["finetune", kind, "--model", tiny, "--out", out, *OPTIONS.get(case, [])]
    words += ["--train", data, "--dev", data, "--epochs", "1", "--precision", "fp32"]
    trained = json_of(*words)
    words = ["evaluate", "--model", out, "--data", data, "--precision", "fp32", "--json"]
    found = json.loads(ran(*words).out)
    assert found["metrics"] == pytest.approx(trained["metrics"])
    words = ["predict", "--model", out, "--input", data, "--out", "-", "--precision", "fp32"]
    predicted = [json.loads(line) for line in ran(*words).out.splitlines()]
    assert len(predicted) == found["examples"]
    if kind == "classification":  # the same texts, without what stands beside them
        pairs = zip(GOOD_OR_BAD, predicted, strict=True)
        right = sum(label == each["label"] for (_, label), each in pairs)
        assert right / len(predicted) == pytest.approx(found["metrics"]["accuracy"])


def test_other_columns_and_standard_input(finetuned: Finetuned, json_of: JsonOf) -> None:
    rows = b"words\tmood\nb a\twith\nb c\twithout\n"
    words = ["evaluate", "--model", finetuned("classification"), "--data", "-"]
    found = json_of(*words, "--text", "words", "--label", "mood", stdin=rows)
    assert found["examples"] == 2


def test_bad_data_and_bad_rows(finetuned: Finetuned, tmp_path: Path, ran: Ran) -> None:
    data, out = tmp_path / "bad.tsv", tmp_path / "figures.json"
    data.write_text("text\tlabel\nx\twith\ny\twit\nx\ty\tz\n")
    words = ["evaluate", "--model", finetuned("classification"), "--data", data]
    output = ran(*words, "--out", out, code=4)
    assert_names(output.err, "line 3", "'wit'")
    assert output.out == ""
    assert not out.exists()
    output = ran(*words, "--bad-rows", "skip", "--json")
    skipped = json.loads(output.out)["data"]["skipped"]
    assert skipped["wrong number of fields"] == {"count": 1, "lines": [4]}
    assert_names(output.err, "1 left out", "wrong number of fields", "line 4")


def test_no_task_head(tiny: Path, files: Files, ran: Ran) -> None:
    error = ran("evaluate", "--model", tiny, "--data", files["span"][1], code=4).err
    assert_names(error, "task head", "masked_lm", "bertwright finetune KIND")


def test_minus_one_may_be_renamed(finetuned: Finetuned, tmp_path: Path, ran: Ran) -> None:
    """A word that begins with a hyphen and a digit is a value."""
    words = ["evaluate", "--model", finetuned("classification"), "--data", tmp_path / "no.tsv"]
    assert "no.tsv" in ran(*words, "--label-map", "-1=good", "1=bad", code=4).err
    assert "-x" in ran(*words, "--label-map", "-x=good", code=2).err
