"""A comparison to the end on a text of two thousand words; each of its parts is done once."""

from __future__ import annotations

import csv
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from bertwright.config.compare import CompareConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError, Interrupted
from bertwright.recipes.compare import ladder, train, use
from bertwright.recipes.finetune import run as finetuning
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.train.signals import Signals
from tests.recipes.compare.conftest import write_labels, write_text

LINES = CorpusConfig(sentences="line")


def config_of(out: Path, *systems: str, **over: Any) -> CompareConfig:
    settings = {"minutes": 0.01, "task_minutes": 0.01, "vocab_size": 200, "word_vocab_size": 200}
    return CompareConfig(out=str(out), systems=systems, device="cpu", **(settings | over))


def run(corpus: Path, config: CompareConfig, task: use.Task | None = None, **how: Any) -> Any:
    said: list[str] = []
    steps: list[str] = []

    def on_step(name: str, *seconds: float) -> None:
        steps.append(name)

    how = {"reading": LINES, "say": said.append, "on_step": on_step} | how
    with ladder.hold(Path(config.out), how.pop("overwrite", False)) as folder:
        return ladder.compare(folder, [str(corpus)], config, task=task, **how), steps


def task_of(folder: Path, train: int, dev: int) -> use.Task:
    """A task of so many texts to train on and to evaluate."""
    paths = [
        str(write_labels(folder / f"{name}.tsv", count))
        for name, count in (("train", train), ("dev", dev))
    ]
    return use.Task(
        "classification", TaskFilesConfig(train=paths[0], dev=paths[1]), ClassificationOptions()
    )


def test_language_models_alone(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "ladder"
    results, _ = run(corpus, config_of(out, "ngram"))
    (rung,) = results["rungs"]
    assert 0 < rung["bits_per_character"] < 8
    assert rung["spelling_fraction"] == 0
    assert "n-gram" in results["conclusion"]
    assert json.loads((out / "results.json").read_text())["rungs"][0]["name"] == "ngram"
    (row,) = csv.DictReader((out / "results.csv").open())
    assert float(row["bits_per_character"]) == pytest.approx(rung["bits_per_character"])
    assert "n-gram" in (out / "report.html").read_text("utf-8")

    # the same command does nothing again
    stages = {path: path.stat().st_mtime_ns for path in (out / "stages").rglob("*.json")}
    again, steps = run(corpus, config_of(out, "ngram"))
    assert steps == [""]
    assert {path: path.stat().st_mtime_ns for path in (out / "stages").rglob("*.json")} == stages
    assert again["rungs"] == results["rungs"]

    # other settings are refused by their names, and so is another folder
    with pytest.raises(ConfigError, match=r"minutes.*0\.01.*0\.02"):
        run(corpus, config_of(out, "ngram", minutes=0.02))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match="other"):
        run(corpus, config_of(other, "ngram"), overwrite=True)
    assert (other / "mine.txt").read_text() == "keep"


def test_a_rung_that_fails_is_a_row(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train.pretraining.pretrain

    def fails_for_nnlm(config: Any, *args: Any, **how: Any) -> Any:
        if config.model == "nnlm-base":
            raise RuntimeError("no such kernel")
        return whole(config, *args, **how)

    monkeypatch.setattr(train.pretraining, "pretrain", fails_for_nnlm)
    results, _ = run(corpus, config_of(tmp_path / "out", "nnlm", "ngram"))
    rungs = {rung["name"]: rung for rung in results["rungs"]}
    assert rungs["nnlm"]["failed"]
    assert "no such kernel" in rungs["nnlm"]["reasons"][0]
    assert rungs["ngram"]["bits_per_character"] > 0
    assert not rungs["ngram"]["failed"]
    assert "no such kernel" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "fails_for_nnlm" in (tmp_path / "out" / "log.txt").read_text("utf-8")  # the traceback


def test_a_full_disk_ends_all(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **how: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(train.pretraining, "pretrain", full)
    with pytest.raises(BertwrightError, match="full"):
        run(corpus, config_of(tmp_path / "out", "nnlm", "ngram"))


def test_an_interruption_keeps_what_is_finished(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", train.train

    def interrupt(rung: Any, *args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ladder, "train", interrupt)
    with pytest.raises(Interrupted, match="same command"):
        run(corpus, config_of(out, "ngram"))
    assert (out / "stages" / "vocabulary.json").is_file()
    monkeypatch.setattr(ladder, "train", whole)
    results, steps = run(corpus, config_of(out, "ngram"))
    assert not any("vocabular" in step for step in steps)
    assert results["rungs"][0]["bits_per_character"] > 0


def test_a_signal_in_the_last_pass_of_a_run_ends_the_comparison(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train.pretraining.pretrain

    def stopped(config: Any, *args: Any, **how: Any) -> Any:
        with Signals():
            signal.raise_signal(signal.SIGINT)
        return whole(config, *args, **how)

    monkeypatch.setattr(train.pretraining, "pretrain", stopped)
    out = tmp_path / "out"
    with pytest.raises(Interrupted, match="same command"):
        run(corpus, config_of(out, "ngram"))
    assert (out / "stages" / "ngram-1" / "pretrain.json").is_file()
    assert not (out / "stages" / "ngram-1" / "text.json").is_file()
    monkeypatch.setattr(train.pretraining, "pretrain", whole)
    assert run(corpus, config_of(out, "ngram"))[0]["rungs"][0]["bits_per_character"] > 0


def test_all_seeds_and_fractions_are_evaluated_on_rows_that_none_trains_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a dev file and a test file."""
    labelled = write_labels(tmp_path / "labelled.tsv", 80)
    task = use.Task("classification", TaskFilesConfig(train=str(labelled)), ClassificationOptions())
    setups = []
    set_up = finetuning.set_up

    def record(*args: Any) -> Any:
        setups.append(set_up(*args))
        return setups[-1]

    monkeypatch.setattr(finetuning, "set_up", record)
    config = config_of(tmp_path / "out", "nnlm", seeds=2, fractions=(0.5, 1.0))
    results, _ = run(corpus, config, task)
    assert not results["failed"]
    (evaluated,) = {tuple(e.text for e in each.dev.examples) for each in setups}
    assert len(evaluated) == results["task"]["examples"]["dev"]
    for each in setups:
        assert not {e.text for e in each.train.examples} & {*evaluated}


def write_table(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_contents_decide_not_sizes(corpus: Path, tmp_path: Path) -> None:
    """Of minimal pairs, word tests and the corpus."""
    out = tmp_path / "out"
    pairs, words = (str(tmp_path / name) for name in ("pairs.tsv", "words.txt"))
    first, second = "ba be bi .", "bi be ba ."
    write_table(tmp_path / "pairs.tsv", f"good\tbad\n{first}\t{second}\n")
    write_table(tmp_path / "words.txt", "ba be 1\nba bo 2\nbe bo 3\n")
    config = config_of(out, "nnlm", pairs=(pairs,), word_tests=(words,))
    before = run(corpus, config)[0]["rungs"][0]
    write_table(tmp_path / "pairs.tsv", f"good\tbad\n{second}\t{first}\n")
    write_table(tmp_path / "words.txt", "ba be 3\nba bo 2\nbe bo 1\n")
    results, steps = run(corpus, config)
    assert steps == ["NNLM: minimal pairs", "NNLM: word tests", ""]
    after = results["rungs"][0]
    assert after["minimal_pairs"]["pairs.tsv"] == 1 - before["minimal_pairs"]["pairs.tsv"]
    rank = [each["words"]["words.txt"]["score"] for each in (before, after)]
    assert rank[0] == pytest.approx(-rank[1])
    corpus.write_text(corpus.read_text("utf-8").replace("ba", "be"), "utf-8")
    with pytest.raises(ConfigError, match=r"corpus\.txt"):
        run(corpus, config)


def test_changed_files_of_a_comparison_are_noticed(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = config_of(out, "ngram")
    run(corpus, config)
    for name in ("text/held-out.txt", "vocabulary/words/vocab.txt", "stages/ngram-1/text.json"):
        path = out / name
        text = path.read_text("utf-8")
        path.write_text(text.replace("1", "2").replace("ba", "be"), "utf-8")
        with pytest.raises(IntegrityError, match=path.name):
            run(corpus, config)
        path.write_text(text, "utf-8")
    assert run(corpus, config)[1] == [""]


def test_another_device_is_another_comparison(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path / "out", "ngram")
    run(corpus, config)
    monkeypatch.setattr(ladder, "processor", lambda: "Babbage's Engine")
    with pytest.raises(ConfigError, match=r"device.*Babbage"):
        run(corpus, config)


def test_a_folder_in_use_is_left_as_it_is(corpus: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path / "out", "ngram")
    run(corpus, config)
    files = sorted(tmp_path.rglob("*"))
    with ladder.hold(tmp_path / "out"), pytest.raises(ConfigError, match="another process"):
        run(corpus, config, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == files


def test_what_failed_before_it_began_changes_nothing(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    few = tmp_path / "few.txt"
    few.write_text("a short text .\n\nanother one .\n", "utf-8")
    wrong = [
        (corpus, config_of(out, "brt"), ConfigError, "brt"),
        (corpus, config_of(out, "ngram", pairs=("nowhere.tsv",)), DataError, "nowhere"),
        (few, config_of(out, "ngram"), DataError, "words"),
    ]
    for text, config, error, match in wrong:
        with pytest.raises(error, match=match):
            run(text, config)
        assert not out.parent.exists()
    run(corpus, config_of(out, "ngram"))
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="brt"):
            run(corpus, config_of(out, "brt"), overwrite=overwrite)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == files
    assert run(corpus, config_of(out, "ngram"))[1] == [""]


@pytest.mark.slow
def test_figures_of_dev_are_of_all_of_it(corpus: Path, tmp_path: Path) -> None:
    """Also where time suffices for a part of it while a model is fitted."""
    task = task_of(tmp_path, train=20, dev=70)
    run(corpus, config_of(tmp_path / "out", "nnlm"), task)
    for way in ("frozen", "tuned", "random"):
        stage = json.loads((tmp_path / "out" / "stages" / "nnlm-1" / f"{way}-1.json").read_text())
        assert stage["found"]["evaluated"] == 70


@pytest.mark.slow
def test_seeds_of_the_task_alone(corpus: Path, tmp_path: Path) -> None:
    """They start from the same pre-training; seeds of pre-training later replace their fits."""
    task = task_of(tmp_path, train=20, dev=20)
    out = tmp_path / "out"
    run(corpus, config_of(out, "nnlm"), task)
    results, steps = run(corpus, config_of(out, "nnlm", task_seeds=2), task)
    assert not any("pre-training" in step for step in steps)
    ways = results["rungs"][0]["task"]["1"]
    assert {way: ways[way]["seeds"] for way in ways} == {"frozen": 1, "tuned": 2, "random": 2}
    assert ways["tuned"]["sd"] is not None
    assert run(corpus, config_of(out, "nnlm", task_seeds=2), task)[1] == [""]
    config = (out / "tasks/nnlm/seed-2/tuned-1/config.toml").read_text("utf-8")
    assert "runs/nnlm/seed-1" in config
    results, _ = run(corpus, config_of(out, "nnlm", seeds=2), task)
    assert results["rungs"][0]["task"]["1"]["frozen"]["seeds"] == 2
    config = (out / "tasks/nnlm/seed-2/tuned-1/config.toml").read_text("utf-8")
    assert "runs/nnlm/seed-2" in config


@pytest.mark.slow
def test_a_whole_ladder(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=120)
    train_file, dev, test = (
        write_labels(tmp_path / f"{name}.tsv", count)
        for name, count in (("train", 60), ("dev", 20), ("test", 30))
    )
    task = use.Task(
        "classification",
        TaskFilesConfig(train=str(train_file), dev=str(dev)),
        ClassificationOptions(),
        str(test),
    )
    out = tmp_path / "out"
    results, _ = run(corpus, config_of(out, "ngram", "word2vec", fractions=(0.5, 1.0)), task)
    assert not results["failed"]
    assert results["task"]["evaluated_on"] == "test"
    for rung in results["rungs"][1:]:
        for fraction, examples in (("0.5", 30), ("1", 60)):
            for way in ("frozen", "tuned", "random"):
                own = rung["task"][fraction][way]
                assert own["low"] <= own["value"] <= own["high"]
                assert own["of_examples"] == examples
    by_name = {rung["name"]: rung for rung in results["rungs"]}
    assert by_name["word2vec"]["task"]["1"]["frozen"]["value"] > 0.8
    assert results["task"]["baselines"]["1"]["tfidf"]["value"] > 0.8
    page = (out / "report.html").read_text("utf-8")
    for link in ("runs/word2vec/seed-1/report.html", "tasks/word2vec/seed-1/tuned-1/report.html"):
        assert f'href="{link}"' in page
        assert (out / link).is_file()

    # a system more, and nothing else again
    results, steps = run(corpus, config_of(out, "bert", fractions=(0.5, 1.0)), task)
    assert {name.partition(":")[0] for name in steps} == {"BERT", ""}
    assert [rung["name"] for rung in results["rungs"]] == ["ngram", "word2vec", "bert"]

    # what was lost is done again, and no more
    shutil.rmtree(out / "tasks" / "bert")
    (out / "stages" / "bert-1" / "tuned-1.json").unlink()
    _, steps = run(corpus, config_of(out, "bert", fractions=(0.5, 1.0)), task)
    assert steps == ["BERT: fine-tuned", ""]
