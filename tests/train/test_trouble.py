"""Steps that are not finite are left out; a signal ends a run with all it has done."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.config.run import ValidationConfig
from bertwright.data.loading.phases import DataPosition
from bertwright.errors import BertwrightError, Interrupted
from bertwright.nn.objective import Learner
from bertwright.train import signals
from bertwright.train.log import Log, read_records
from bertwright.train.loop import MOST_SKIPPED
from bertwright.train.signals import SeveralRuns, Signals
from bertwright.train.state import Position
from tests.raising import assert_names
from tests.train.sample import corrupt, make_trainer, new_learner


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_left_out_even_where_its_gradient_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """Adding a constant to a loss leaves its gradient as it was."""
    said: list[str] = []
    learner, log = new_learner(), Log(tmp_path, said.append)
    before = {name: p.clone() for name, p in learner.named_parameters()}
    corrupt(monkeypatch, value, [1])
    trainer = make_trainer(learner, steps=1, log=log)
    end = trainer.run(Position())
    assert all(torch.equal(p, before[name]) for name, p in learner.named_parameters())
    assert not any(trainer.optimizers.state_of(p) for p in learner.parameters())
    (line,) = said
    assert_names(line, "step 1", "not finite")
    assert read_records(tmp_path / "metrics.jsonl") == []
    assert (end.step, end.tokens, end.data) == (1, 0, DataPosition(step=1))  # on with other data


def test_a_gradient_that_is_not_finite_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    learner, log = new_learner(), Log(tmp_path, said.append)
    before = {name: p.clone() for name, p in learner.named_parameters()}
    learner.encoder.pooler.dense.bias.register_hook(lambda g: g * float("inf"))
    make_trainer(learner, steps=2, log=log).run(Position())
    assert all(torch.equal(p, before[name]) for name, p in learner.named_parameters())
    assert_names(said[0], "step 1", "gradient")
    assert len(said) == 2


def test_only_steps_in_a_row_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Position] = []
    bad = [*range(2, 2 + MOST_SKIPPED - 1), *range(10, 10 + MOST_SKIPPED)]
    corrupt(monkeypatch, float("nan"), bad)
    learner = new_learner()
    trainer = make_trainer(learner, steps=40, save=saved.append)
    message = r"step 14: .*5 steps"
    with pytest.raises(BertwrightError, match=message):
        trainer.run(Position())
    assert saved[-1].step == 8  # no loss after step 9 was finite: nobody should go on from there
    assert (trainer.diverged, trainer.good) == (True, 8)
    assert all(p.isfinite().all() for p in learner.parameters())


@pytest.mark.parametrize(
    ("bad", "evaluate", "is_kept"),
    [
        ([], None, True),
        ([2, 3, 4, 5], None, True),
        ([1, 2, 3, 4, 5], None, False),
        ([1, 2, 3, 4, 5], lambda: {"loss": 1.0}, True),
    ],
)
def test_weights_of_which_a_loss_was_finite_are_kept(
    monkeypatch: pytest.MonkeyPatch, bad: list[int], evaluate: Any, is_kept: bool
) -> None:
    """Of training or of held-out text, though no gradient was and later losses were not."""
    saved: list[Position] = []
    learner = new_learner()
    learner.encoder.pooler.dense.bias.register_hook(lambda g: g * float("inf"))
    corrupt(monkeypatch, float("nan"), bad)
    trainer = make_trainer(learner, steps=9, save=saved.append, evaluate=evaluate)
    trainer.when_to_validate = ValidationConfig(every_steps=99)
    with pytest.raises(BertwrightError, match="5 steps"):
        trainer.run(Position())
    assert [position.step for position in saved] == ([4] if is_kept else [])
    assert (trainer.diverged, trainer.good) == (True, 4 if is_kept else -1)


def test_held_out_text_whose_loss_is_not_finite_ends_a_run(tmp_path: Path) -> None:
    log, saved = Log(tmp_path, lambda line: None), []
    evaluate = lambda: {"loss": float("nan")}  # noqa: E731
    trainer = make_trainer(new_learner(), log=log, evaluate=evaluate, save=saved.append)
    with pytest.raises(BertwrightError, match=r"step 2: .*held-out loss"):
        trainer.run(Position())
    assert (trainer.diverged, trainer.good, saved) == (True, 1, [])
    assert read_records(tmp_path / "metrics.jsonl")[-1]["loss"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_breaks_an_accumulation_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    forward, calls, saved = Learner.forward, [0], []

    def stopping(learner: Learner, batch: object) -> object:
        calls[0] += 1
        if calls[0] == 8:  # the second of three micro-batches of step 3
            signal.raise_signal(number)
            signal.raise_signal(number)  # a closing terminal and some launchers send it twice
        return forward(learner, batch)

    monkeypatch.setattr(Learner, "forward", stopping)
    log = Log(tmp_path, lambda line: None)
    split = [[0, 1, 2], [3, 4], [5, 6]]
    trainer = make_trainer(new_learner(), split, log=log, steps=9, save=saved.append)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(Interrupted, match="interrupted before step 3") as stop:
            trainer.run(Position())
    finally:
        signal.signal(signal.SIGHUP, hangup)
    assert stop.value.exit_code == 128 + number
    assert calls[0] in (8, 9)  # the third may have begun on another core
    assert [p.step for p in saved] == [2]  # saved already when the signal came
    assert [r["step"] for r in read_records(tmp_path / "metrics.jsonl")] == [1, 2]


@pytest.mark.parametrize(("start", "call", "ends"), [(0, 1, [0]), (2, 1, []), (2, 2, [3])])
@pytest.mark.usefixtures("one_thread")  # or both micro-batches begin at once
def test_what_is_done_when_a_signal_comes_is_saved_once(
    start: int, call: int, ends: list[int]
) -> None:
    """A step is broken off but in its last micro-batch; a run goes on from what is saved."""
    saved: list[Position] = []
    learner, calls = new_learner(), [0]

    def stop(*_: object) -> None:
        calls[0] += 1
        if calls[0] == call:
            signal.raise_signal(signal.SIGINT)

    learner.encoder.register_forward_pre_hook(stop)
    trainer = make_trainer(learner, [[0, 1, 2], [3, 4, 5, 6]], steps=9, save=saved.append)
    with pytest.raises(Interrupted):
        trainer.run(Position(step=start))
    assert [position.step for position in saved] == ends


def test_a_second_signal_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(position: Position) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(signals, "SECONDS_OF_ONE_SIGNAL", -1.0)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(new_learner(), steps=9, save=impatient).run(Position())


def test_under_nohup_a_closed_terminal_is_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hang_up = lambda position: signal.raise_signal(signal.SIGHUP)  # noqa: E731
        assert make_trainer(new_learner(), steps=3, save=hang_up).run(Position()).finished
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_belongs_to_the_run_in_which_it_arrived() -> None:
    """Not to later work of the same process, nor to other work around it."""
    with SeveralRuns() as first:
        with Signals():
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted) as stop:
            first.heed()
        assert stop.value.exit_code == 128 + signal.SIGTERM
        with SeveralRuns() as second:
            with Signals() as signals:
                pass
            second.heed()
    assert signals.number == 0
    with SeveralRuns() as third:
        third.heed()


def test_work_whose_run_is_work_of_several_runs_learns_of_its_signal() -> None:
    with SeveralRuns() as outer:
        with SeveralRuns(), Signals():
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interrupted):
            outer.heed()
