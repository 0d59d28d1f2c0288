"""A run that was stopped, killed or damaged goes on as if it never had been."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bertwright.atomic import verify_manifest
from bertwright.checkpoint.find import list_checkpoints
from bertwright.config import values
from bertwright.errors import ConfigError, IntegrityError, Interrupted
from bertwright.nn.objective import Learner
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes import run_folder
from bertwright.train.loop import Trainer
from bertwright.train.state import Position
from tests.small_runs import (
    assert_same_run,
    build_data,
    config_of,
    fails,
    mapping_of,
    newest,
    records,
    tensors,
    train,
    without_clocks,
)

# Real processes, each of which sends itself a signal when it encodes its n-th micro-batch; one
# process imports torch for them all.
STOPPED = """
import json, os, sys
import torch._dynamo  # as the first optimizer does
from bertwright.cli.app import run
from bertwright.nn.objective import Learner
from bertwright.recipes import run_folder
from bertwright.recipes import pretrain as pretraining

pretraining.choose_precision = lambda *_: ("fp32", 1e11)

def stopped(number, left, run_dir):
    forward = Learner.forward

    def counting(learner, batch):
        nonlocal left
        if learner.training:
            left -= 1
            if not left:
                os.kill(os.getpid(), number)
        return forward(learner, batch)

    Learner.forward = counting
    os.dup2(os.open(run_dir + ".said", os.O_WRONLY | os.O_CREAT), 2)
    return run(["pretrain", "--config", run_dir + ".toml"])

ids = []
for plan in json.loads(sys.argv[1]):
    ids.append(os.fork())
    if not ids[-1]:
        sys.exit(stopped(*plan))
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in ids]))
"""


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """`stop_at(7, 2)`: Ctrl-C at the second micro-batch of the step after step 7, once."""
    one_step, forward = Trainer._step, Learner.forward
    place = {"step": -1, "micro_batch": 0}
    wanted = {"step": -1, "micro_batch": -1}

    def counted_step(trainer: Trainer, position: Position) -> Position:
        place.update(step=position.step, micro_batch=0)
        return one_step(trainer, position)

    def counted_forward(learner: Learner, batch: object) -> object:
        if learner.training:
            place["micro_batch"] += 1
            if place == wanted:
                wanted["step"] = -1
                signal.raise_signal(signal.SIGINT)
        return forward(learner, batch)

    monkeypatch.setattr(Trainer, "_step", counted_step)
    monkeypatch.setattr(Learner, "forward", counted_forward)
    return lambda step, micro_batch: wanted.update(step=step, micro_batch=micro_batch)


@pytest.mark.parametrize(
    ("after", "micro_batch"), [(7, 2), (6, 3), (0, 1), (19, 1)], ids=["7", "told", "first", "last"]
)
def test_stopped_and_resumed_is_the_same_run(
    data: Path,
    tmp_path: Path,
    whole_run: Path,
    stop_at: Callable[[int, int], None],
    after: int,
    micro_batch: int,
) -> None:
    config = config_of(data, tmp_path / "run")
    stop_at(after, micro_batch)
    with pytest.raises(Interrupted, match=f"before step {after + 1}; .*--resume goes on") as stop:
        train(config)
    assert stop.value.exit_code == 130
    assert newest(tmp_path / "run").name == f"step-{after:08d}"
    verify_manifest(newest(tmp_path / "run"))
    said = train(config, resume=True)
    assert f"going on after step {after}, from {tmp_path}" in said[1]
    assert_same_run(tmp_path / "run", whole_run)


@pytest.mark.slow
def test_stopped_again_and_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_run: Path
) -> None:
    forward, left = Learner.forward, [9]

    def impatient(learner: Learner, batch: object) -> object:
        if learner.training:
            left[0] -= 1
            if left[0] == 0:
                left[0] = 13
                signal.raise_signal(signal.SIGTERM)
        return forward(learner, batch)

    monkeypatch.setattr(Learner, "forward", impatient)
    config, stops = config_of(data, tmp_path / "run"), []
    while not stops or stops[-1]:
        with contextlib.suppress(Interrupted):
            stops.append(True)
            train(config, resume=True)
            stops[-1] = False
    assert len(stops) > 4
    assert_same_run(tmp_path / "run", whole_run)


def test_after_the_run_handlers_are_as_before(data: Path, tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    train(config_of(data, tmp_path / "run", steps=1))
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Runs and their exit codes by the signal that ended them in the middle of a step."""
    folder = tmp_path_factory.mktemp("stopped")
    plan = {"SIGTERM": 34, "SIGINT": 42, "SIGKILL": 54}
    words = []
    for name, micro_batch in plan.items():
        mapping = mapping_of(data, folder / name, checkpoint={"every_steps": 4})
        (folder / f"{name}.toml").write_text(values.to_toml(mapping))
        words.append([int(signal.Signals[name]), micro_batch, str(folder / name)])
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, json.dumps(words)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    return {name: (folder / name, code) for name, code in zip(plan, codes, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGKILL", -9)])
def test_a_process_stopped_by_a_signal(
    data: Path, stopped: dict[str, tuple[Path, int]], whole_run: Path, name: str, code: int
) -> None:
    run, ended = stopped[name]
    said = run.with_suffix(".said").read_text()
    assert ended == code, said
    step = int(newest(run).name.removeprefix("step-"))
    verify_manifest(newest(run))
    if name == "SIGKILL":
        assert step % 4 == 0
        with (run / "metrics.jsonl").open("a") as log:
            log.write('{"step": 99, "spl')  # as a kill cuts a line
        (run / "checkpoints" / f".step-{step + 4:08d}.partial-1").mkdir()
    else:
        assert f"interrupted before step {step + 1}; everything is saved" in said
        assert "Traceback" not in said
    said = "\n".join(train(config_of(data, run, checkpoint={"every_steps": 4}), resume=True))
    assert f"going on after step {step}" in said
    assert_same_run(run, whole_run)
    assert not list((run / "checkpoints").glob(".*"))


@pytest.mark.slow
def test_a_damaged_checkpoint_is_passed_over(
    data: Path, tmp_path: Path, whole_run: Path, stop_at: Callable[[int, int], None]
) -> None:
    run = tmp_path / "run"
    config = config_of(data, run, checkpoint={"every_steps": 4})
    stop_at(11, 1)
    with pytest.raises(Interrupted):
        train(config)
    assert [f.name for f in list_checkpoints(run)] == ["step-00000008", "step-00000011"]
    with (newest(run) / "trainer.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    said = "\n".join(train(config, resume=True))
    assert "damaged, and skipped: step-00000011" in said
    assert f"going on after step 8, from {run / 'checkpoints' / 'step-00000008'}" in said
    assert_same_run(run, whole_run)


@pytest.mark.slow
def test_a_damaged_checkpoint_pushes_no_whole_one_out(
    data: Path, tmp_path: Path, stop_at: Callable[[int, int], None]
) -> None:
    run = tmp_path / "run"
    stop_at(9, 1)
    config = config_of(data, run, checkpoint={"every_steps": 4, "keep": 2})
    with pytest.raises(Interrupted):
        train(config)
    shutil.copytree(newest(run), run / "checkpoints" / "step-00000019")
    (run / "checkpoints" / "step-00000019" / "config.json").unlink()
    train(config_of(data, run, checkpoint={"every_steps": 4, "keep": 1}), resume=True)
    assert newest(run).name == "step-00000020"
    (run / "checkpoints" / "step-00000020" / "MANIFEST.json").unlink()
    with pytest.raises(IntegrityError, match=r"no whole checkpoint: .*step-00000020"):
        train(config_of(data, run, checkpoint={"every_steps": 4, "keep": 1}), resume=True)


@pytest.mark.slow
def test_killed_between_two_renames(
    data: Path, tmp_path: Path, stop_at: Callable[[int, int], None], whole_run: Path
) -> None:
    run = tmp_path / "run"
    stop_at(9, 1)
    with pytest.raises(Interrupted):
        train(config_of(data, run))
    newest(run).rename(run / "checkpoints" / ".step-00000009.old-123")
    train(config_of(data, run), resume=True)
    assert_same_run(run, whole_run)


def test_resume_with_another_configuration_names_the_keys(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config_of(data, run, steps=2))
    other = config_of(data, run, steps=3, optimizer={"learning_rate": 5e-4})
    with pytest.raises(ConfigError) as error:
        train(other, resume=True)
    assert str(error.value) == (
        f"{run} was begun with another configuration: steps (was 2, now 3), "
        "optimizer.learning_rate (was 0.001, now 0.0005). Pass the same values, or begin a new "
        f"run with --init {run} --out ELSEWHERE"
    )
    assert error.value.exit_code == 2
    told = config_of(data, run, steps=2, log={"every_steps": 1}, checkpoint={"keep": 3})
    assert "is finished already, at step 2; nothing to do" in train(told, resume=True)[-1]


def test_resume_where_nothing_is_begins(data: Path, tmp_path: Path) -> None:
    said = train(config_of(data, tmp_path / "run", steps=2), resume=True)
    assert not any("going on" in line for line in said)
    assert [each["step"] for each in records(tmp_path / "run")] == [2, 2]


@pytest.mark.slow
def test_resume_of_a_run_without_a_checkpoint_begins(
    data: Path, tmp_path: Path, whole_run: Path
) -> None:
    run = tmp_path / "run"
    train(config_of(data, run))
    shutil.rmtree(run / "checkpoints")
    train(config_of(data, run), resume=True)
    assert_same_run(run, whole_run)


def test_resume_where_something_else_is(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is no run"):
        train(config_of(data, tmp_path / "run"), resume=True)
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"


def test_resume_with_moved_data_and_run(
    data: Path, tmp_path: Path, whole_run: Path, stop_at: Callable[[int, int], None]
) -> None:
    stop_at(7, 1)
    with pytest.raises(Interrupted):
        train(config_of(data, tmp_path / "run"))
    shutil.copytree(data, tmp_path / "moved")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    train(config_of(tmp_path / "moved", tmp_path / "elsewhere"), resume=True)
    assert_same_run(tmp_path / "elsewhere", whole_run)


def test_resume_with_other_data(data: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shutil.copytree(data, shards)
    config = config_of(shards, tmp_path / "run", steps=2)
    train(config)
    shutil.rmtree(shards)
    (tmp_path / "other").mkdir()
    other = build_data(tmp_path / "other", documents=30)
    shutil.copytree(other, shards)
    fails(config, IntegrityError, r"is not what .* was begun with", resume=True)
    with pytest.raises(ConfigError, match=r"another configuration: data \(was"):
        train(config_of(other, tmp_path / "run", steps=2), resume=True)


def test_resume_keeps_the_measured_precision(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(device: object, name: str) -> tuple[str, float]:
        asked.append(name)
        return ("bf16" if name == "auto" else name), 1e11

    monkeypatch.setattr(pretraining, "choose_precision", measure)
    config = config_of(data, tmp_path / "run", steps=2, precision="auto")
    train(config)
    train(config, resume=True)
    assert asked == ["auto", "bf16"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"instances": {"objectives": "mlm"}},
        {"instances": {"objectives": "mlm+contrast"}},
        {"optimizer": {"matrices": "muon"}},
        {"precision": "bf16", "architecture": {"attention_probs_dropout_prob": 0.1}},
        {"long_phase": {"fraction": 0.5, "sequence_length": 64}},
    ],
    ids=["mlm", "contrast", "muon", "bf16", "long"],
)
def test_runs_of_other_kinds_resume_bit_for_bit(
    data: Path, tmp_path: Path, stop_at: Callable[[int, int], None], change: dict[str, object]
) -> None:
    change = {"steps": 8, **change}
    train(config_of(data, tmp_path / "whole", **change))
    stop_at(5, 2)
    config = config_of(data, tmp_path / "run", **change)
    with pytest.raises(Interrupted):
        train(config)
    train(config, resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_resume_after_the_checkpoint_of_init_is_gone(
    data: Path, tmp_path: Path, whole_run: Path, stop_at: Callable[[int, int], None]
) -> None:
    shutil.copytree(newest(whole_run), tmp_path / "start")
    over = {"init": str(tmp_path / "start"), "architecture": {"hidden_dropout_prob": 0.2}}
    stop_at(3, 1)
    with pytest.raises(Interrupted):
        train(config_of(data, tmp_path / "run", **over))
    shutil.rmtree(tmp_path / "start")
    train(config_of(data, tmp_path / "run", **over), resume=True)
    config = json.loads((newest(tmp_path / "run") / "config.json").read_text())
    assert config["hidden_dropout_prob"] == 0.2


def test_resume_takes_back_what_was_told_after_the_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_run: Path
) -> None:
    """Killed after the last step was told, before it was saved: nothing is told twice."""
    save = run_folder.save

    def dies_at_the_end(*words: object) -> None:
        if words[5].finished:
            raise KeyboardInterrupt
        save(*words)

    config = config_of(data, tmp_path / "run", checkpoint={"every_steps": 20})
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "save", dies_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    assert without_clocks(tmp_path / "run") == without_clocks(whole_run)
    train(config, resume=True)
    assert_same_run(tmp_path / "run", whole_run)
    assert set(tensors(whole_run)) == set(tensors(tmp_path / "run"))
