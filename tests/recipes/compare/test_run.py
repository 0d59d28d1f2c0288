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
from bertwright.recipes.compare import fit, train
from bertwright.recipes.compare import run as comparison
from bertwright.recipes.compare.folder import hold
from bertwright.recipes.compare.labelled import Task
from bertwright.recipes.finetune import run as finetuning
from bertwright.report.comparison.rows import WAYS, Results, Row
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.train.signals import Signals
from tests.recipes.compare.conftest import write_labels, write_text

LINES = CorpusConfig(sentences="line")
WAYS_OF_SYSTEMS = {way: name for way, name in WAYS.items() if way != "baseline"}


def config_of(out: Path, *systems: str, **over: Any) -> CompareConfig:
    settings = {"minutes": 0.01, "task_minutes": 0.01, "vocab_size": 200, "word_vocab_size": 200}
    return CompareConfig(out=str(out), systems=systems, device="cpu", **(settings | over))


def run(
    corpus: Path, config: CompareConfig, task: Task | None = None, overwrite: bool = False
) -> Any:
    said: list[str] = []
    steps: list[str] = []

    def on_step(name: str, *seconds: float) -> None:
        steps.append(name)

    request = comparison.Request([str(corpus)], config, task, LINES)
    with hold(Path(config.out), overwrite) as folder:
        results = comparison.compare(folder, request, say=said.append, on_step=on_step)
    return results, steps


def found(results: Any, **wanted: Any) -> list[Row]:
    return Results.of(results).find(**wanted)


def bits(results: Any, system: str) -> float:
    (row,) = found(results, system=system, metric="bits_per_character")
    assert row.value is not None
    return row.value


def steps_in(out: Path) -> dict[str, Any]:
    """The lines of the finished steps, by the names of the steps."""
    lines = map(json.loads, (out / "steps.jsonl").read_text("utf-8").splitlines())
    return {line["step"]: line for line in lines}


def task_of(folder: Path, train: int, dev: int) -> Task:
    """A task of so many texts to train on and to evaluate."""
    paths = [
        str(write_labels(folder / f"{name}.tsv", count))
        for name, count in (("train", train), ("dev", dev))
    ]
    return Task(
        "classification", TaskFilesConfig(train=paths[0], dev=paths[1]), ClassificationOptions()
    )


def test_language_models_alone(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "ladder"
    results, _ = run(corpus, config_of(out, "ngram"))
    assert [system["name"] for system in results["systems"]] == ["ngram"]
    assert 0 < bits(results, "ngram") < 8
    (spelling,) = found(results, metric="spelling_fraction")
    assert spelling.value == 0
    assert "n-gram" in results["conclusion"]
    assert json.loads((out / "results.json").read_text()) == results
    table = list(csv.DictReader((out / "results.csv").open()))
    (row,) = (row for row in table if row["metric"] == "bits_per_character")
    assert float(row["value"]) == pytest.approx(bits(results, "ngram"))
    page = (out / "report.html").read_text("utf-8")
    assert "n-gram" in page

    # the page shows what was learned, and links to the whole page of the system
    (system,) = results["systems"]
    examples, run_folder = system["examples"], out / system["run"]
    assert len(examples["continuations"]) == len(examples["prompts"])
    assert examples["surprisal"]["words"]
    assert examples["prompts"][0]["text"] in page
    assert f'href="{system["run"]}/report.html"' in page
    shown = json.loads((run_folder / "examples.json").read_text())["sections"]
    assert shown[0]["title"] in (run_folder / "report.html").read_text("utf-8")

    # the same command does nothing again
    written = (out / "steps.jsonl").stat().st_mtime_ns
    again, steps = run(corpus, config_of(out, "ngram"))
    assert steps == [""]
    assert (out / "steps.jsonl").stat().st_mtime_ns == written
    assert again == results

    # other settings are refused by their names, and so is another folder
    with pytest.raises(ConfigError, match=r"minutes.*0\.01.*0\.02"):
        run(corpus, config_of(out, "ngram", minutes=0.02))
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match="other"):
        run(corpus, config_of(other, "ngram"), overwrite=True)
    assert (other / "mine.txt").read_text() == "keep"


def test_a_system_that_fails_has_rows_with_the_reason(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train.pretraining.pretrain

    def fails_for_nnlm(config: Any, *args: Any, **how: Any) -> Any:
        if config.model == "nnlm-base":
            raise RuntimeError("no such kernel")
        return whole(config, *args, **how)

    monkeypatch.setattr(train.pretraining, "pretrain", fails_for_nnlm)
    results, _ = run(corpus, config_of(tmp_path / "out", "nnlm", "ngram"))
    failed = found(results, failed=True)
    assert {row.system for row in failed} == {"nnlm"}
    assert all("no such kernel" in row.reason for row in failed)
    assert bits(results, "ngram") > 0
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
    out, whole = tmp_path / "out", train.pretraining.pretrain

    def interrupt(*args: Any, **how: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(train.pretraining, "pretrain", interrupt)
    with pytest.raises(Interrupted, match="same command"):
        run(corpus, config_of(out, "ngram"))
    assert "vocabulary" in steps_in(out)
    monkeypatch.setattr(train.pretraining, "pretrain", whole)
    results, steps = run(corpus, config_of(out, "ngram"))
    assert not any("vocabular" in step for step in steps)
    assert bits(results, "ngram") > 0


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
    assert "ngram-1/pretrain" in steps_in(out)
    assert "ngram-1/text" not in steps_in(out)
    monkeypatch.setattr(train.pretraining, "pretrain", whole)
    assert bits(run(corpus, config_of(out, "ngram"))[0], "ngram") > 0


def test_all_seeds_and_fractions_are_evaluated_on_rows_that_none_trains_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a dev file and a test file."""
    labelled = write_labels(tmp_path / "labelled.tsv", 80)
    task = Task("classification", TaskFilesConfig(train=str(labelled)), ClassificationOptions())
    setups = []
    set_up = finetuning.set_up

    def record(*args: Any) -> Any:
        setups.append(set_up(*args))
        return setups[-1]

    monkeypatch.setattr(finetuning, "set_up", record)
    config = config_of(tmp_path / "out", "nnlm", seeds=2, fractions=(0.5, 1.0))
    results, _ = run(corpus, config, task)
    assert not found(results, failed=True)
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
    before = run(corpus, config)[0]
    write_table(tmp_path / "pairs.tsv", f"good\tbad\n{second}\t{first}\n")
    write_table(tmp_path / "words.txt", "ba be 3\nba bo 2\nbe bo 1\n")
    results, steps = run(corpus, config)
    assert steps == ["NNLM: minimal pairs", "NNLM: word tests", ""]
    for test, sign in (("pairs.tsv", lambda value: 1 - value), ("words.txt", lambda v: -v)):
        ((old,), (new,)) = (found(each, test=test) for each in (before, results))
        assert new.value == pytest.approx(sign(old.value))
    corpus.write_text(corpus.read_text("utf-8").replace("ba", "be"), "utf-8")
    with pytest.raises(ConfigError, match=r"corpus\.txt"):
        run(corpus, config)


def test_changed_files_of_a_comparison_are_noticed(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = config_of(out, "ngram")
    run(corpus, config)
    for name in ("text/held-out.txt", "vocabulary/words/vocab.txt", "steps.jsonl"):
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
    monkeypatch.setattr(comparison, "processor", lambda: "Babbage's Engine")
    with pytest.raises(ConfigError, match=r"device.*Babbage"):
        run(corpus, config)


def test_a_folder_in_use_is_left_as_it_is(corpus: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path / "out", "ngram")
    run(corpus, config)
    files = sorted(tmp_path.rglob("*"))
    with hold(tmp_path / "out"), pytest.raises(ConfigError, match="another process"):
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
def test_figures_of_dev_are_of_all_of_it(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of it selects the model."""
    monkeypatch.setattr(fit, "MOST_DEV", 10)
    task = task_of(tmp_path, train=20, dev=70)
    results, _ = run(corpus, config_of(tmp_path / "out", "nnlm"), task)
    for way in ("frozen", "tuned", "random"):
        (row,) = found(results, way=way)
        assert row.value is not None
        assert row.value * 70 == pytest.approx(round(row.value * 70))


@pytest.mark.slow
def test_a_system_that_is_named_gets_more_time(corpus: Path, tmp_path: Path) -> None:
    task, out = task_of(tmp_path, train=20, dev=20), tmp_path / "out"
    first, _ = run(corpus, config_of(out, "nnlm", "word2vec"), task)
    results, steps = run(corpus, config_of(out, "word2vec", task_minutes=0.02), task)
    assert steps == [f"word2vec: {name}" for name in WAYS_OF_SYSTEMS.values()] + [""]
    assert found(results, system="nnlm") == found(first, system="nnlm")
    assert {row.minutes for row in found(results, system="word2vec", measure="task")} == {0.02}
    page = (out / "report.html").read_text("utf-8")
    assert "0.02 min" in page
    # the first command, without its minutes, leaves both as they are
    assert run(corpus, config_of(out, "nnlm", "word2vec", task_minutes=None), task)[1] == [""]
    _, steps = run(corpus, config_of(out, "nnlm", "word2vec"), task)
    assert {step.partition(":")[0] for step in steps} == {"word2vec", ""}


@pytest.mark.slow
def test_seeds_of_the_task_alone(corpus: Path, tmp_path: Path) -> None:
    """They start from the same pre-training; seeds of pre-training later replace their fits."""
    task = task_of(tmp_path, train=20, dev=20)
    out = tmp_path / "out"
    run(corpus, config_of(out, "nnlm"), task)
    results, steps = run(corpus, config_of(out, "nnlm", task_seeds=2), task)
    assert not any("pre-training" in step for step in steps)
    seeds = {way: len(found(results, way=way)) for way in ("frozen", "tuned", "random")}
    assert seeds == {"frozen": 1, "tuned": 2, "random": 2}
    first, second = found(results, way="tuned")
    assert first.rate == second.rate
    assert run(corpus, config_of(out, "nnlm", task_seeds=2), task)[1] == [""]
    config = (out / "tasks/nnlm/seed-2/tuned-1/config.toml").read_text("utf-8")
    assert "runs/nnlm/seed-1" in config
    results, _ = run(corpus, config_of(out, "nnlm", seeds=2), task)
    assert len(found(results, way="frozen")) == 2
    config = (out / "tasks/nnlm/seed-2/tuned-1/config.toml").read_text("utf-8")
    assert "runs/nnlm/seed-2" in config


@pytest.mark.slow
def test_a_whole_comparison(tmp_path: Path) -> None:
    corpus = write_text(tmp_path / "corpus.txt", documents=120)
    train_file, dev, test = (
        write_labels(tmp_path / f"{name}.tsv", count)
        for name, count in (("train", 60), ("dev", 20), ("test", 30))
    )
    task = Task(
        "classification",
        TaskFilesConfig(train=str(train_file), dev=str(dev)),
        ClassificationOptions(),
        str(test),
    )
    out = tmp_path / "out"
    results, _ = run(corpus, config_of(out, "ngram", "word2vec", fractions=(0.5, 1.0)), task)
    assert not found(results, failed=True)
    assert results["task"]["evaluated_on"] == "test"
    for fraction, examples in ((0.5, 30), (1.0, 60)):
        for way in WAYS_OF_SYSTEMS:
            (row,) = found(results, system="word2vec", way=way, fraction=fraction)
            assert row.low <= row.value <= row.high
            assert row.of_examples == examples
            assert row.waited is None or 0 <= row.waited <= 1
    ((frozen,), (tfidf,)) = (
        found(results, system=system, way=way, fraction=1.0)
        for system, way in (("word2vec", "frozen"), ("tfidf", "baseline"))
    )
    assert frozen.value > 0.8
    assert tfidf.value > 0.8
    page = (out / "report.html").read_text("utf-8")
    for link in ("runs/word2vec/seed-1/report.html", "tasks/word2vec/seed-1/tuned-1/report.html"):
        assert f'href="{link}"' in page
        assert (out / link).is_file()

    # a system more, and nothing else again
    results, steps = run(corpus, config_of(out, "bert", fractions=(0.5, 1.0)), task)
    assert {name.partition(":")[0] for name in steps} == {"BERT", ""}
    assert [system["name"] for system in results["systems"]] == ["ngram", "word2vec", "bert"]

    # what was lost is done again, and no more
    shutil.rmtree(out / "tasks" / "bert")
    lines = (out / "steps.jsonl").read_text("utf-8").splitlines(keepends=True)
    rest = [line for line in lines if json.loads(line)["step"] != "bert-1/tuned-1"]
    (out / "steps.jsonl").write_text("".join(rest), "utf-8")
    _, steps = run(corpus, config_of(out, "bert", fractions=(0.5, 1.0)), task)
    assert steps == ["BERT: fine-tuned", ""]
