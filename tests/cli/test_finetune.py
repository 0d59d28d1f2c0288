"""`bertwright finetune` as a user meets it: every kind, the run's folder, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bertwright.config import values
from bertwright.inference.model import load
from bertwright.recipes.finetune import run as finetuning
from bertwright.report import verdict
from tests.cli.conftest import Files, Finetuned, JsonOf, Ran
from tests.raising import assert_names
from tests.report.finetuned_runs import classification, span

QUICK = ["--epochs", "1", "--device", "cpu", "--precision", "fp32"]


def paths(files: Files, kind: str) -> list[str]:
    return ["--train", str(files[kind][0]), "--dev", str(files[kind][1])]


@pytest.mark.slow
def test_what_it_says(tiny: Path, files: Files, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    out = tmp_path / "my run"
    words = ["finetune", "classification", "--model", tiny, "--out", out, *QUICK]
    words += [*paths(files, "classification"), "--seeds", "2", "--baselines", "--name", "mood"]
    output = ran(*words)
    for part in (
        "mood: 10 examples",
        "classification-dev.jsonl",
        "2 seeds",
        "accuracy",
        "majority",
        "tfidf",
    ):
        assert part in output.out
    assert "JSON lines" in output.err
    assert f"bertwright predict --model '{out}'" in output.err
    warnings = [line for line in output.err.splitlines() if line.startswith("warning")]
    assert len(warnings) == len(set(warnings))
    assert "exists already" in ran(*words, code=2).err
    results = json_of(*words, "--overwrite")
    assert results == json.loads((out / "results.json").read_text())
    assert verdict.verdict(results).sentence in output.err
    assert [seed["seed"] for seed in results["seeds"]] == [1, 2]
    assert list(load(out).tasks) == ["mood"]


def test_a_run_that_was_still_learning_prints_the_command_that_goes_on(
    tiny: Path, files: Files, tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "needs_epochs", lambda *given: "The loss was still falling")
    monkeypatch.setattr(verdict, "failed", lambda results: False)
    out = tmp_path / "run"
    words = ["finetune", "classification", "--model", tiny, "--out", out, *QUICK]
    said = ran(*words, *paths(files, "classification"), "--learning-rate", "1e-4,1e-3").err
    (command,) = [line for line in said.splitlines() if line.startswith("  bertwright finetune")]
    longer = shlex.split(command)
    rate = longer[longer.index("--learning-rate") + 1]  # the chosen one, and twice the epochs
    results = json.loads((out / "results.json").read_text())
    assert float(rate) == results["settings"]["learning_rate"]
    ran(*longer[1:])
    settings = values.read_toml(tmp_path / "run-longer" / "config.toml")
    assert settings["epochs"] == 2
    assert settings["learning_rate"] == float(rate)


def test_what_was_tuned_on_dev_is_told(
    tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    for results, is_tuned in ((span(), True), (classification(), False)):
        monkeypatch.setattr(finetuning, "finetune", lambda *given, found=results: found)
        words = [results["task"]["kind"], "--model", model, "--train", "-", "--out", tmp_path]
        assert ("null threshold" in ran("finetune", *words).err) == is_tuned


def test_a_saved_configuration_runs_again(
    finetuned: Finetuned, tmp_path: Path, json_of: JsonOf
) -> None:
    before = finetuned("classification")
    words = ["finetune", "classification", "--config", before / "config.toml"]
    again = json_of(*words, "--out", tmp_path / "again")
    results = json.loads((before / "results.json").read_text())
    assert again["seeds"][0]["metrics"] == results["seeds"][0]["metrics"]
    saved = [values.read_toml(folder / "config.toml") for folder in (before, tmp_path / "again")]
    assert values.differing_keys(*saved) == ["out"]


@pytest.mark.slow
def test_several_tasks(tiny: Path, files: Files, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    sections: dict[str, Any] = {}
    for name, kind in (("mood", "classification"), ("people", "tagging")):
        train, dev = map(str, files[kind])
        sections[name] = {"kind": kind, "train": train, "dev": dev}
    sections["people"]["weight"] = 0.5
    (tmp_path / "tasks.toml").write_text(values.to_toml(sections))
    out = tmp_path / "run"
    words = ["finetune", "multitask", "--tasks", tmp_path / "tasks.toml", *QUICK]
    output = ran(*words, "--model", tiny, "--out", out)
    assert "mood: 10 examples" in output.out
    assert "people: 10 examples" in output.out
    assert "--task NAME" in output.err
    model = load(out)
    assert {name: task.kind for name, task in model.tasks.items()} == {
        "mood": "classification",
        "people": "tagging",
    }
    data = files["tagging"][1]
    printed = ran("evaluate", "--model", out, "--data", data, code=2)
    assert_names(printed.err, "--task", "mood, people")
    found = json_of("evaluate", "--model", out, "--data", data, "--task", "people")
    assert found["kind"] == "tagging"
    printed = ran("evaluate", "--model", out, "--data", data, "--task", "poeple", code=2)
    assert "'poeple'" in printed.err
    again = ["finetune", "multitask", "--config", out / "config.toml"]
    ran(*again, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "tasks.toml").read_text() == (out / "tasks.toml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no section"),
        ("epochs = 3\n", "'epochs'"),
        ('[a]\nkind = "tagging"\ntrian = "x"\n', "'train'"),
        ('[a]\ntrain = "x"\n', "'kind'"),
        ('[a]\nkind = "tagging"\ntrain = "x"\nweight = 0.0\n', "weight is 0.0"),
    ],
)
def test_a_wrong_file_of_tasks(
    tiny: Path, tmp_path: Path, ran: Ran, text: str, message: str
) -> None:
    (tmp_path / "tasks.toml").write_text(text)
    words = ["finetune", "multitask", "--tasks", tmp_path / "tasks.toml"]
    assert message in ran(*words, "--model", tiny, "--out", tmp_path / "run", code=2).err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "KIND"),
        (["classification"], "--train"),
        (["multitask"], "--tasks FILE.toml"),
        (["multitask", "--train", "x", "--tasks", "y"], "--tasks FILE.toml"),
        (["tagging", "--train", "x", "--tasks", "y"], "--tasks"),
        (["span", "--train", "x", "--transfer", "top-0"], "'top-0'"),
    ],
)
def test_wrong_words(tmp_path: Path, ran: Ran, words: list[str], message: str) -> None:
    out = tmp_path / "run"
    assert message in ran("finetune", *words, "--model", "m", "--out", out, code=2).err
    assert not out.exists()


def test_bad_files_and_bad_rows(tiny: Path, tmp_path: Path, ran: Ran) -> None:
    train, dev, out = tmp_path / "train.tsv", tmp_path / "dev.tsv", tmp_path / "run"
    rows = ["text\tlabel", *["a b\tgood", "c d\tbad"] * 6, "three\tfields\there"]
    train.write_text("\n".join(rows) + "\n")
    dev.write_text("text\tlabel\nx\tgood\ny\tgod\n")
    words = ["finetune", "classification", "--train", train, *QUICK, "--model", tiny, "--out", out]
    assert "train.tsv, line 14" in ran(*words, code=4).err
    words += ["--bad-rows", "skip"]
    dev.write_text("text\tlabel\nx\ty\n")
    assert "no example" in ran(*words, "--dev", dev, code=4).err
    assert not out.exists()
    output = ran(*words, "--json", "--dev", train)
    assert re.search(f"12 inputs of {re.escape(str(train))}", output.err)
    skipped = json.loads(output.out)["data"]["train"]["skipped"]
    assert skipped == {"wrong number of fields": {"count": 1, "lines": [14]}}


def test_tags_that_break_their_scheme_are_mended_and_told(
    tiny: Path, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    right = "the O\nann B-PER\nbob I-PER\nsaw O\n\n" * 8
    (tmp_path / "train.conll").write_text(f"{right}eve O\nbob I-PER\n\n")
    words = ["finetune", "tagging", "--train", tmp_path / "train.conll", *QUICK]
    words += ["--dev", tmp_path / "train.conll", "--model", tiny]
    warnings = json_of(*words, "--out", tmp_path / "run")["warnings"]
    assert any("iob2" in each for each in warnings), warnings
    ran("evaluate", "--model", tmp_path / "run", "--data", tmp_path / "train.conll")


@pytest.mark.parametrize("where", ["train", "dev", "model"])
def test_what_is_not_there(tiny: Path, files: Files, tmp_path: Path, ran: Ran, where: str) -> None:
    train, dev = files["classification"]
    given = {"train": train, "dev": dev, "model": tiny, "out": tmp_path / "run"}
    given[where] = tmp_path / "none.tsv"
    words = [word for key, value in given.items() for word in (f"--{key}", value)]
    assert "none.tsv" in ran("finetune", "classification", *words, *QUICK, code=4).err
    assert not (tmp_path / "run").exists()


def test_a_model_that_learned_nothing_is_not_called_ready(
    tiny: Path, tmp_path: Path, ran: Ran
) -> None:
    rows = [f"a film\t{n % 9 == 0}" for n in range(45)]
    (tmp_path / "rare.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    data, out = str(tmp_path / "rare.tsv"), str(tmp_path / "run")
    words = ["finetune", "classification", "--model", tiny, "--out", out, *QUICK]
    words += ["--train", data, "--dev", data, "--learning-rate", "1e-9"]
    error = ran(*words).err
    assert_names(error, f"WARNING: {out} ", "learned nothing", "--learning-rate")
    assert "is ready" not in error


def test_the_error_of_a_column_has_the_whole_command(ran, tiny, tmp_path):
    path = tmp_path / "toxic.csv"
    rows = [f"a text of words {n},{n % 2},{n % 3 == 0:d}" for n in range(8)]
    path.write_text("\n".join(["comment_text,insult,mild", *rows]) + "\n")
    words = ["finetune", "classification", "--model", tiny, f"--train={path}", "--out", "o"]
    shown = f"bertwright finetune classification --model {tiny} --train {path} --out o"
    error = ran(*words, code=4).err.replace("\n", " ")
    assert f"{shown} --multi-label --label insult mild" in error


def test_the_error_of_unknown_names_has_the_columns_and_the_options(ran, tiny, tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("phrase,polarity\n" + "a text of words,good\n" * 8)
    words = ["finetune", "classification", "--model", tiny, "--train", path, "--out", "o"]
    error = ran(*words, code=4).err
    for part in ("'phrase', 'polarity'", "--text COLUMN --label COLUMN"):
        assert part in error
    assert "'nope'" in ran(*words, "--label", "nope", "--text", "phrase", code=4).err


@pytest.mark.slow
def test_several_label_columns_from_the_command_line(ran, json_of, tiny, tmp_path):
    path, out = tmp_path / "toxic.csv", tmp_path / "run"
    rows = [f"some text {n},{n % 2},{n % 3 == 0:d}" for n in range(12)]
    path.write_text("\n".join(["comment_text,toxic,mild", *rows]) + "\n")
    words = ["--train", path, "--dev", path, "--label", "toxic", "mild", "--multi-label"]
    ran("finetune", "classification", "--model", tiny, *words, "--out", out, "--epochs", "1")
    found = json_of("evaluate", "--model", out, "--data", path)
    assert [each["label"] for each in found["per_class"]] == ["toxic", "mild"]
    again = ["finetune", "classification", "--config", out / "config.toml"]
    ran(*again, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "results.json").exists()
    error = ran("finetune", "classification", *words[:-1], "--model", tiny, "--out", "o", code=2)
    assert "multi" in error.err
