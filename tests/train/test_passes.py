"""A system that is counted: pass by pass, logged, evaluated, saved, resumed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint import checkpoint, find
from bertwright.config.run import EvaluatedRun, PassRun
from bertwright.data.loading.phases import Pass, PassBudget
from bertwright.errors import ConfigError, Interrupted
from bertwright.models.catalogue import make_run
from bertwright.recipes.pretrain import pretrain
from bertwright.train.log import read_records
from tests.contract import toy
from tests.small_runs import build_data, mapping_of

STOP_AFTER: list[int] = []


@dataclass(frozen=True)
class CountedRun(PassRun, EvaluatedRun):
    epochs: float | None = 1.0
    minutes: float | None = None
    sequence_length: int = 128
    burn_in: int = 0
    architecture: toy.ToyConfig | None = None


def fit(run: Any, shards: Any, learner: Any, budget: PassBudget) -> Iterator[Pass]:
    for number in range(budget.begun + 1, int(run.epochs) + 1):
        with torch.no_grad():
            learner.encoder.embeddings.weight.fill_(number)
        if number in STOP_AFTER:
            signal.raise_signal(signal.SIGINT)
        yield Pass(100, {"count.loss": 1 / number}, budget.done(number))


COUNTED = replace(toy.TOY, row=replace(toy.TOY.row, run=CountedRun), fit=fit)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    toy.add_system(monkeypatch, COUNTED)
    STOP_AFTER.clear()


def config_of(folder: Path, **over: Any) -> Any:
    data = folder / "data"
    if not data.exists():
        data.mkdir()
        build_data(data)
    made = mapping_of(data / "shards", folder / "run", model="toy", **{"steps": None, **over})
    keys = {"data", "out", "model", "epochs", "steps", "minutes", "precision", "device"}
    return make_run(CountedRun, {k: v for k, v in made.items() if k in keys and v})


def test_each_pass_is_logged_evaluated_and_saved(tmp_path: Path) -> None:
    run = pretrain(config_of(tmp_path, epochs=3), lambda _: None)
    records = read_records(run / "metrics.jsonl")
    assert [(r["step"], r["split"]) for r in records] == [
        (n, split) for n in (1, 2, 3) for split in ("train", "dev")
    ]
    assert records[2]["count.loss"] == 0.5
    assert records[3]["next_token.loss"] > 0
    weight = checkpoint.load(run).learner.state_dict()["encoder.embeddings.weight"]
    assert (weight == 3).all()


def test_a_signal_saves_after_the_pass_and_resume_goes_on(tmp_path: Path) -> None:
    STOP_AFTER.append(2)
    with pytest.raises(Interrupted, match="pass 2, 50%"):
        pretrain(config_of(tmp_path, epochs=4), lambda _: None)
    STOP_AFTER.clear()
    run = pretrain(config_of(tmp_path, epochs=4), lambda _: None, resume=True)
    steps = [r["step"] for r in read_records(run / "metrics.jsonl") if r["split"] == "train"]
    assert steps == [1, 2, 3, 4]


def test_what_has_no_checkpoint_begins_and_says_so(tmp_path: Path) -> None:
    """A misspelt --out is noticed."""
    said: list[str] = []
    pretrain(config_of(tmp_path), said.append, resume=True)
    assert said[0].endswith("has no checkpoint to go on from: the run begins")


def test_its_length_is_in_passes(tmp_path: Path) -> None:
    assert config_of(tmp_path).epochs == 1
    with pytest.raises(ConfigError, match=r"'steps'.* epochs"):
        config_of(tmp_path, steps=3)


@pytest.mark.parametrize("lost", ["latest", "model", "names an older one"])
def test_a_run_killed_after_its_last_save_is_mended(tmp_path: Path, lost: str) -> None:
    run = pretrain(config_of(tmp_path, epochs=3), lambda _: None)
    newest = (run / "checkpoints" / "latest").read_text().strip()
    scratch = run / ".ngrams-abc123"
    scratch.mkdir()
    (scratch / "tokens").write_bytes(b"1")
    if lost == "names an older one":
        find.write_latest(run, "step-00000002")
    elif lost == "latest":
        (run / "checkpoints" / "latest").unlink()
    else:
        (run / "model").unlink()
    said: list[str] = []
    pretrain(config_of(tmp_path, epochs=3), said.append, resume=True)
    assert "finished already" in said[-1]
    assert (run / "checkpoints" / "latest").read_text().strip() == newest
    assert (run / "model").resolve().name == newest
    assert not scratch.exists()
