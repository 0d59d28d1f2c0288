"""Which systems are compared, which steps they have, and what is done once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertwright.config.compare import CompareConfig
from bertwright.config.finetune import TaskFilesConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.catalogue import MODELS
from bertwright.recipes.compare import run as comparison
from bertwright.recipes.compare.labelled import Task
from bertwright.recipes.compare.plan import Plan, choose
from bertwright.recipes.compare.steps import Done, Finished
from bertwright.recipes.compare.systems import NOT_COMPARED, SYSTEMS
from bertwright.report.comparison.rows import Row
from bertwright.tasks.texts.options import ClassificationOptions
from tests.house.source import ROOT
from tests.recipes.compare.conftest import write_labels, write_text


def names(config: CompareConfig, kind: str | None) -> set[str]:
    return {entry.name for entry in choose(config, kind)[0]}


def test_every_system_is_compared_or_has_a_reason() -> None:
    systems = {entry.system for entry in SYSTEMS.values()}
    ours = {name for name, row in MODELS.items() if row.config.__module__.startswith("bertwright.")}
    assert systems | NOT_COMPARED.keys() == ours  # without toys of other tests
    assert not systems & NOT_COMPARED.keys()
    for entry in SYSTEMS.values():
        assert entry.model in MODELS[entry.system].presets
        assert (ROOT / "docs" / "systems" / entry.page).is_file()


def test_the_task_and_the_files_decide() -> None:
    config = CompareConfig(out="x")
    of_texts, of_words = names(config, "classification"), names(config, "tagging")
    assert of_words - of_texts == {"taglm"}
    assert not of_texts & {"seq2seq", "cove", "transformer"}
    with_pairs = CompareConfig(out="x", parallel=("a", "b"))
    assert names(with_pairs, "classification") - of_texts == {"seq2seq", "cove", "transformer"}
    assert names(config, "generation") == {"ngram", "gpt", "gpt2", "bert-ltr", "bert"}
    reasons = choose(config, "classification")[1]
    assert "--parallel" in reasons["transformer"]
    assert reasons.keys() & NOT_COMPARED.keys() == NOT_COMPARED.keys()


@pytest.mark.parametrize(
    ("systems", "said"),
    [
        (("brt",), "'brt'.*did you mean bert"),
        (("memory-network",), "memory-network.*stories"),
        (("taglm", "elmo"), "taglm.*tagging"),
        (("cove", "bert"), "cove.*--parallel"),
    ],
)
def test_what_is_named_must_be_possible(systems: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        choose(CompareConfig(out="x", systems=systems), "classification")


def test_a_system_that_reads_another_run_needs_it() -> None:
    config = CompareConfig(out="x", systems=("taglm",))
    with pytest.raises(ConfigError, match=r"taglm.*elmo"):
        choose(config, "tagging")


def plan_of(folder: Path, *systems: str, task: bool = True, **over: Any) -> Plan:
    """A plan for a text of a few words."""
    corpus = folder / "corpus.txt"
    if not corpus.is_file():
        write_text(corpus)
    labels = write_labels(folder / "labels.tsv", 40)
    of_labels = Task(
        "classification", TaskFilesConfig(train=str(labels)), ClassificationOptions(), None
    )
    config = CompareConfig(out=str(folder / "out"), systems=systems, **over)
    return comparison.plan_of(
        comparison.Request([str(corpus)], config, of_labels if task else None)
    )


def names_of(plan: Plan) -> set[str]:
    return {step.name for step, _ in plan.todo}


def test_seeds_add_steps(tmp_path: Path) -> None:
    one, two = (plan_of(tmp_path, "bert", seeds=seeds) for seeds in (1, 2))
    assert {"bert-1/pretrain", "bert-1/tuned-1"} <= names_of(one)
    assert {"bert-2/pretrain", "bert-2/tuned-1"} <= names_of(two) - names_of(one)
    assert one.seconds < two.seconds
    assert one.bytes_needed < two.bytes_needed


def test_seeds_of_the_task_alone_add_fits_of_the_same_pre_training(tmp_path: Path) -> None:
    names = names_of(plan_of(tmp_path, "bert", task_seeds=3, fractions=(0.1, 1.0)))
    assert {name for name in names if name.startswith("bert-3")} == {
        "bert-3/frozen-0.1",  # its examples are drawn
        "bert-3/tuned-0.1",
        "bert-3/tuned-1",
        "bert-3/random-0.1",
        "bert-3/random-1",
    }
    with pytest.raises(ConfigError, match="task_seeds"):
        CompareConfig(out="x", seeds=2, task_seeds=1)


def test_minimal_pairs_are_planned_by_their_number_and_length(tmp_path: Path) -> None:
    def seconds(system: str, *lines: str) -> float:
        path = tmp_path / "pairs.tsv"
        path.write_text("good\tbad\n" + "".join(f"{line}\t{line}\n" for line in lines), "utf-8")
        plan = plan_of(tmp_path, system, task=False, pairs=(str(path),))
        (found,) = (seconds for step, seconds in plan.todo if step.name.endswith("/pairs"))
        return found

    few, short, long = ("a b c d",), ("a b c d",) * 500, ("a b c d e f g h",) * 500
    of_masked = [seconds("bert", *lines) for lines in (few, short, long)]
    of_text = [seconds("gpt2", *lines) for lines in (few, short, long)]
    assert of_masked[0] < of_masked[1] < of_masked[2]
    assert of_masked[2] - of_masked[0] > 2 * (of_masked[1] - of_masked[0])  # T times T tokens
    assert of_text[0] < of_text[1] < of_text[2] < of_masked[2]
    with pytest.raises(DataError, match="nowhere"):
        plan_of(tmp_path, "bert", pairs=("nowhere.tsv",))
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        plan_of(tmp_path, "bert", word_tests=("nowhere.txt",))


def test_steps_are_kept_by_their_key(tmp_path: Path) -> None:
    finished = Finished(tmp_path)
    assert finished.find("bert-1/text", {}) is None
    row = Row("text", "bert", "BERT", 1, metric="bits_per_character", value=1.5)
    finished.keep("bert-1/text", {"files": ("a",)}, Done([row], {"characters": 3}))
    for each in (finished, Finished(tmp_path)):
        found = each.find("bert-1/text", {"files": ["a"]})
        assert found == Done([row], {"characters": 3})
        assert each.find("bert-1/text", {"files": ["b"]}) is None
    (tmp_path / "steps.jsonl").write_text("{")
    with pytest.raises(IntegrityError, match=r"line 1 of .*steps\.jsonl"):
        Finished(tmp_path).find("bert-1/text", {})
