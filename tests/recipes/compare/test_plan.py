"""Which systems are compared, what a fit has time for, and what is done once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertwright.config.compare import CompareConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.catalogue import MODELS
from bertwright.recipes.compare.plan import choose, make_plan
from bertwright.recipes.compare.rungs import NO_RUNGS, RUNGS
from bertwright.recipes.compare.stages import Stages
from bertwright.recipes.compare.use import plan_fit, plan_frozen, plan_network
from tests.house.source import ROOT


def names(config: CompareConfig, kind: str | None) -> set[str]:
    return {rung.name for rung in choose(config, kind)[0]}


def test_every_system_is_a_rung_or_has_a_reason() -> None:
    systems = {rung.system for rung in RUNGS.values()}
    ours = {name for name, row in MODELS.items() if row.config.__module__.startswith("bertwright.")}
    assert systems | NO_RUNGS.keys() == ours  # without toys of other tests
    assert not systems & NO_RUNGS.keys()
    for rung in RUNGS.values():
        assert rung.model in MODELS[rung.system].presets
        assert (ROOT / "docs" / "systems" / rung.page).is_file()


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
    assert reasons.keys() & NO_RUNGS.keys() == NO_RUNGS.keys()


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


def test_a_rung_that_reads_another_run_needs_it() -> None:
    config = CompareConfig(out="x", systems=("taglm",))
    with pytest.raises(ConfigError, match=r"taglm.*elmo"):
        choose(config, "tagging")


def test_done_steps_are_not_planned_and_seeds_add_some() -> None:
    config = CompareConfig(out="x", systems=("ngram", "bert"), minutes=2)
    whole = make_plan(config, "classification", 10**6)
    rest = make_plan(config, "classification", 10**6, lambda name: name.startswith("ngram"))
    assert {step.rung for step in rest.steps} == {"", "bert"}
    assert rest.seconds < whole.seconds
    assert whole.bytes_needed > 4 * 10**6
    two = make_plan(CompareConfig(out="x", systems=("bert",), seeds=2), "classification", 10)
    assert {"bert-1/pretrain", "bert-2/tuned-1"} <= {step.name for step in two.steps}


def test_seeds_of_the_task_alone_add_fits_of_the_same_pre_training() -> None:
    config = CompareConfig(out="x", systems=("bert",), task_seeds=3, fractions=(0.1, 1.0))
    names = {step.name for step in make_plan(config, "classification", 10).steps}
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
        config = CompareConfig(out="x", systems=(system,), pairs=(str(path),))
        (step,) = (s for s in make_plan(config, None, 10).steps if s.name.endswith("/pairs"))
        return step.seconds

    few, short, long = ("a b c d",), ("a b c d",) * 500, ("a b c d e f g h",) * 500
    of_masked = [seconds("bert", *lines) for lines in (few, short, long)]
    of_text = [seconds("gpt2", *lines) for lines in (few, short, long)]
    assert of_masked[0] < of_masked[1] < of_masked[2]
    assert of_masked[2] - of_masked[0] > 2 * (of_masked[1] - of_masked[0])  # T times T tokens
    assert of_text[0] < of_text[1] < of_text[2] < of_masked[2]
    with pytest.raises(DataError, match="nowhere"):
        make_plan(CompareConfig(out="x", systems=("bert",), pairs=("nowhere.tsv",)), None, 10)
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        make_plan(CompareConfig(out="x", word_tests=("nowhere.txt",)), None, 10)


def test_a_fit_has_what_fits_its_time() -> None:
    fast = plan_fit(400, 100, 20, seconds=60, speed=2000, rates=3, has_dev=True)
    assert (fast.examples, fast.dev, fast.epochs, fast.on_a_slice) == (400, 100, 20, False)
    short = plan_fit(400, 100, 20, seconds=60, speed=100, rates=3, has_dev=True)
    assert short.on_a_slice
    assert 25 < 400 * short.epochs / 100 < 60 / 1.4
    swept = plan_fit(400, 100, 20, seconds=60, speed=100, rates=3, has_dev=False)
    assert not swept.on_a_slice
    assert 3 * 400 * swept.epochs / 100 < 60
    known = plan_fit(400, 100, 20, seconds=60, speed=100, rates=1, has_dev=True)
    assert known.epochs > short.epochs
    for has_dev in (True, False):  # so little time is for one rate
        few = plan_fit(400, 100, 20, seconds=25, speed=40, rates=3, has_dev=has_dev)
        assert (few.rates, few.on_a_slice) == (1, False)
        assert 400 * few.epochs > 25 * 40 / 2
    two = plan_fit(400, 100, 20, seconds=50, speed=80, rates=3, has_dev=False)
    assert two.rates == 2
    slow = plan_fit(400, 100, 20, seconds=1, speed=1, rates=3, has_dev=True)
    assert slow.epochs == 32 / 400  # a step at least


def test_frozen_features_are_of_as_many_examples_as_fit() -> None:
    assert plan_frozen(400, 100, seconds=60, speed=100).examples == 400
    few = plan_frozen(100_000, 5000, seconds=10, speed=100)
    assert few.examples + few.dev == 3000


def test_a_network_on_frozen_features_ends_in_time() -> None:
    slow = plan_network(3000, 3250, 20, seconds=60, speed=12, network_speed=90)
    features = (slow.examples + slow.dev) / (3 * 12)
    training = slow.examples * slow.epochs / 90
    evaluations = slow.epochs * slow.every * slow.dev / (3 * 90)
    assert features < 35
    assert training + evaluations < 35
    assert slow.epochs > 1
    fast = plan_network(3000, 100, 20, seconds=60, speed=1000, network_speed=3000)
    assert (fast.examples, fast.epochs) == (3000, 20)


def test_stages_are_kept_by_their_key(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    assert stages.find("bert-1/text", {}) is None
    stages.keep("bert-1/text", {"files": ("a",)}, {"bits": 1.5})
    assert stages.find("bert-1/text", {"files": ["a"]}) == {"bits": 1.5}
    assert stages.find("bert-1/text", {"files": ["b"]}) is None
    stages.path("bert-1/text").write_text("{")
    with pytest.raises(IntegrityError, match="bert-1"):
        stages.find("bert-1/text", {})
