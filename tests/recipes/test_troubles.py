"""Runs that cannot begin, or go on: bad input, gradients that are not finite, a full disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from bertwright.atomic import verify_manifest
from bertwright.checkpoint import checkpoint, memory
from bertwright.checkpoint.find import list_checkpoints
from bertwright.config import values
from bertwright.data.loading.phase_loader import PhaseLoader
from bertwright.data.loading.phases import DataPosition
from bertwright.data.shards import open_shards
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.models.bert import system as bert
from bertwright.models.bert.config import BertRun
from bertwright.models.catalogue import make_run
from bertwright.nn.objective import Learner
from bertwright.recipes.configure import configure
from bertwright.storage import model_folder
from bertwright.train.loop import Trainer
from bertwright.train.optim import Optimizers
from bertwright.train.state import Position
from tests.small_runs import (
    WORDS,
    build_data,
    config_of,
    fails,
    mapping_of,
    newest,
    records,
    tensors,
    train,
)

CPU = torch.device("cpu")


@pytest.mark.slow
def test_continued_from_a_checkpoint(data: Path, tmp_path: Path, whole_run: Path) -> None:
    nothing = {"learning_rate": 0.0}
    config = config_of(
        data, tmp_path / "run", init=str(whole_run), model="bert-base", steps=1, optimizer=nothing
    )
    train(config)
    before = load_file(newest(whole_run) / "model.safetensors")
    after = load_file(newest(tmp_path / "run") / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_continued_with_another_shape_or_longer_sequences(
    data: Path, tmp_path: Path, whole_run: Path
) -> None:
    init = str(newest(whole_run))
    wider = config_of(data, tmp_path / "run", init=init, architecture={"hidden_size": 32})
    fails(wider, ConfigError, r"hidden_size is 32, but .* has 16")
    more = {"init": init, "instances": {"sequence_length": 65}, "batch": {"micro_tokens": 65}}
    fails(config_of(data, tmp_path / "run", **more), ConfigError, r"65 tokens .* 64 positions")
    assert not (tmp_path / "run").exists()


def test_continued_with_shards_of_another_tokenizer(tmp_path: Path, whole_run: Path) -> None:
    other = build_data(tmp_path, words=WORDS[::-1])
    with pytest.raises(DataError, match=r"was built with another tokenizer \(") as error:
        train(config_of(other, tmp_path / "run", init=str(whole_run)))
    assert "ids would mean other words" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_run_that_exists(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = config_of(data, run, steps=1)
    train(config)
    fails(config, ConfigError, "--resume .*--overwrite")
    (run / "notes.txt").write_text("of the old run")
    train(config_of(data, run, steps=2), overwrite=True)
    assert newest(run).name == "step-00000002"
    assert not (run / "notes.txt").exists()
    assert [f.name for f in list_checkpoints(run)] == ["step-00000002"]
    fails(config, ConfigError, "--resume continues: pass one", overwrite=True, resume=True)


def test_overwrite_replaces_runs_only(data: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[mine]\n")
    for how in ({}, {"overwrite": True}, {"resume": True}):
        if how == {"resume": True}:
            (tmp_path / "config.toml").rename(tmp_path / "mine.toml")
        with pytest.raises(ConfigError, match=r"is no run .*choose another"):
            train(config_of(data, tmp_path), **how)
    (tmp_path / "mine.toml").rename(tmp_path / "config.toml")
    assert (tmp_path / "config.toml").read_text() == "[mine]\n"
    (tmp_path / "empty").mkdir()
    train(config_of(data, tmp_path / "empty", steps=1))


def test_bad_data_leaves_the_old_run(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config_of(data, run, steps=1))
    (tmp_path / "small").mkdir()
    one = build_data(tmp_path / "small", documents=1)
    with pytest.raises(DataError, match="one document"):
        train(config_of(one, run, steps=1), overwrite=True)
    with pytest.raises(DataError):
        train(config_of(tmp_path / "nothing", run, steps=1), overwrite=True)
    verify_manifest(newest(run))


def test_a_step_too_small_for_a_sequence(data: Path, tmp_path: Path) -> None:
    """Steps that no sequence ends in are passed over, and none for each process is an error."""
    train(config_of(data, tmp_path / "run", steps=3, batch={"tokens": 8}))
    assert records(tmp_path / "run")[-1]["tokens"] > 0
    config = config_of(data, tmp_path / "many", batch={"tokens": 8})
    batches = PhaseLoader(bert.phases(config, open_shards(data)), 64, CPU, 0, 64)
    with pytest.raises(ConfigError, match=r"64 processes.*--batch"):
        batches.step(DataPosition(), 0.0)


def test_gpu_where_none_is(data: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    fails(config_of(data, tmp_path / "run", device="cuda"), ConfigError, "sees no GPU")


@pytest.mark.parametrize("bad", [[5], [4, 5, 6]], ids=["once", "three"])
def test_a_step_that_is_not_finite_is_left_out(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: list[int]
) -> None:
    poison(monkeypatch, bad)
    config = config_of(data, tmp_path / "run", steps=9, log={"every_steps": 1})
    said = train(config)
    for step in bad:
        message = f"step {step}: the loss is not finite; the step is left out, the weights stay"
        assert any(message in line for line in said)
    told = [r["step"] for r in records(tmp_path / "run") if r["split"] == "train"]
    assert told == [step for step in range(1, 10) if step not in bad]
    assert all(value.isfinite().all() for value in tensors(tmp_path / "run").values())


@pytest.mark.slow
def test_five_steps_in_a_row_end_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train(config_of(data, tmp_path / "good", checkpoint={"every_steps": 3, "keep": 20}))
    poison(monkeypatch, range(4, 99))
    with pytest.raises(BertwrightError) as error:
        train(config_of(data, run))
    assert error.value.exit_code == 1
    assert str(error.value) == (
        "step 8: the loss is not finite, 5 steps in a row; the last checkpoint that gave a finite "
        f"loss is {newest(run)}: begin a new run from it with --init, and lower learning rates "
        "(--optimizer.learning-rate, --optimizer.matrix-learning-rate), or --precision fp32"
    )
    verify_manifest(newest(run))
    good = load_file(tmp_path / "good" / "checkpoints" / "step-00000003" / "model.safetensors")
    saved = load_file(newest(run) / "model.safetensors")
    assert all(torch.equal(saved[name], good[name]) for name in good)
    for line in (run / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


BLOWN_UP = {"learning_rate": 1e30, "matrix_learning_rate": 1e30, "clip_norm": 0.0}


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_a_run_that_diverges_fails_and_offers_no_ruins(
    data: Path, tmp_path: Path, steps: int
) -> None:
    over: dict[str, Any] = {"steps": steps, "optimizer": BLOWN_UP}
    if steps == 1:  # beyond all numbers at once, and nothing is held out to show it
        over |= {"schedule": {"warmup": 0.0}, "validation": {"fraction": 0.0}}
        over["optimizer"] = {"learning_rate": 1e38}
    with pytest.raises(BertwrightError, match="not finite") as error:
        train(config_of(data, tmp_path / "run", **over))
    assert error.value.exit_code == 1
    assert list_checkpoints(tmp_path / "run") == []


def test_a_run_that_diverges_names_its_last_good_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, step = tmp_path / "run", Optimizers.step

    def blow_up(optimizers: Optimizers, threads: int | None = None) -> None:
        step(optimizers, threads)
        if (run / "checkpoints" / "step-00000004").exists():
            with torch.no_grad():
                for group in optimizers.parts[0].param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(1e30)

    monkeypatch.setattr(Optimizers, "step", blow_up)
    config = config_of(data, run, steps=9, checkpoint={"every_steps": 2})
    fails(config, BertwrightError, r"loss is .*step-00000004")


@pytest.mark.slow
def test_a_run_that_ends_on_a_step_left_out_fails_unless_held_out_text_speaks_for_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, [20])
    unseen = {"fraction": 0.0}  # nothing says that the weights are good
    with pytest.raises(BertwrightError, match="the last 1; "):
        train(config_of(data, tmp_path / "run", validation=unseen))
    train(config_of(data, tmp_path / "judged"))
    verify_manifest(newest(tmp_path / "judged"))


def test_the_shortest_run_has_a_step(data: Path, tmp_path: Path) -> None:
    train(config_of(data, tmp_path / "run", minutes=1e-6))
    assert records(tmp_path / "run")[-1]["step"] == 1


def test_a_damaged_shard_ends_with_5(tmp_path: Path) -> None:
    damaged = build_data(tmp_path)
    tokens = next(damaged.glob("shard-*.tokens"))
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)
    config = config_of(damaged, tmp_path / "run")
    fails(config, IntegrityError, "was changed")
    fails(config, IntegrityError, "holds the id 65535", verify=False)


@pytest.mark.parametrize("left", [["environment.json"], [".config.toml.partial-7"]])
def test_what_a_kill_at_the_start_leaves_is_no_obstacle(
    data: Path, tmp_path: Path, left: list[str]
) -> None:
    for how in ("resume", "overwrite"):
        run = tmp_path / how
        run.mkdir()
        for name in left:
            (run / name).touch()
        fails(config_of(data, run, steps=1), ConfigError, "exists already")
        train(config_of(data, run, steps=1), **{how: True})
        assert {"config.toml", "environment.json"} <= {place.name for place in run.iterdir()}
        assert not (run / ".config.toml.partial-7").exists()


def test_a_full_disk_at_the_start_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(config: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(values, "to_toml", full)
        fails(config_of(data, tmp_path / "run", steps=1), BertwrightError, "is full")
    assert not (tmp_path / "run").exists()


def test_what_is_read_is_not_replaced(data: Path, tmp_path: Path, whole_run: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole_run, run)
    shutil.copytree(data, run / "shards")
    with pytest.raises(ConfigError, match="choose another --out"):
        train(config_of(run / "shards", run), overwrite=True)
    with pytest.raises(ConfigError, match="choose another --out"):
        train(config_of(data, run, init=str(run)), overwrite=True)
    verify_manifest(newest(run))


def test_init_brings_the_shape(data: Path, tmp_path: Path, whole_run: Path) -> None:
    mapping = mapping_of(data, tmp_path / "run", init=str(whole_run), steps=1)
    del mapping["architecture"]
    message = "--model bert-tiny"
    with pytest.raises(ConfigError, match=message):
        train(make_run(BertRun, mapping))
    with pytest.raises(ConfigError, match=message):
        configure(BertRun, {**mapping, "architecture": {"hidden_dropout_prob": 0.1}})
    del mapping["model"]
    train(make_run(BertRun, mapping))


def poison(monkeypatch: pytest.MonkeyPatch, steps: object) -> None:
    """Make the first loss of these steps (from 1) NaN."""
    forward, one_step, at = Learner.forward, Trainer._step, {"step": 0, "fresh": False}

    def watched(trainer: Trainer, position: Position) -> Position:
        at.update(step=position.step + 1, fresh=True)
        return one_step(trainer, position)

    def poisoned(learner: Learner, batch: object) -> object:
        losses = forward(learner, batch)
        if learner.training and at["fresh"] and at["step"] in steps:
            at["fresh"] = False
            losses["masked_lm"].total.mul_(float("nan"))
        return losses

    monkeypatch.setattr(Trainer, "_step", watched)
    monkeypatch.setattr(Learner, "forward", poisoned)


@pytest.mark.slow
def test_a_full_disk_loses_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    save, calls = checkpoint.save, [0]

    def full(folder: Path, *words: object, **named: object) -> None:
        calls[0] += 1
        if calls[0] == 2:
            (folder / "model.safetensors").write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(folder, *words, **named)

    monkeypatch.setattr(checkpoint, "save", full)
    config = config_of(data, run, checkpoint={"every_steps": 8})
    with pytest.raises(BertwrightError, match="is full") as e:
        train(config)
    assert e.value.exit_code == 1
    assert newest(run).name == "step-00000008"
    verify_manifest(newest(run))
    assert [f.name for f in (run / "checkpoints").iterdir() if f.is_dir()] == ["step-00000008"]
    train(config, resume=True)
    assert newest(run).name == "step-00000020"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("needs the right to mount a file system")
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 30, 60, 80])
def test_a_disk_that_is_really_full(data: Path, small_disk: Path, room: int) -> None:
    """The disk fills at different places of a checkpoint: its weights, its moments, its log."""
    run = small_disk / "run"
    config = config_of(data, run, checkpoint={"every_steps": 2, "keep": 9}, log={"every_steps": 1})
    (small_disk / "ballast").write_bytes(bytes(room * 1000))
    fails(config, BertwrightError, "is full")
    verify_manifest(newest(run))
    for folder in list_checkpoints(run):
        verify_manifest(folder)
    (small_disk / "ballast").unlink()
    for old in list_checkpoints(run)[:-1]:
        shutil.rmtree(old)
    fewer = config_of(data, run, checkpoint={"every_steps": 99, "keep": 1}, log={"every_steps": 1})
    train(fewer, resume=True)
    steps = [r["step"] for r in records(run) if r["split"] == "train"]
    assert steps == list(range(1, 21))


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ("I/O error: No space left on device (os error 28)", BertwrightError, "is full"),
        ("I/O error: File too large (os error 27)", BertwrightError, "be written: File too large"),
        ("something else", SafetensorError, "something else"),
    ],
)
def test_what_the_disk_says_to_the_writer_of_weights(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    error: Any,
    told: str,
) -> None:
    def broken(*words: object, **more: object) -> None:
        raise SafetensorError(f"Error: {said}")

    monkeypatch.setattr(model_folder, "save_file", broken)
    fails(config_of(data, tmp_path / "run", steps=1), error, told)


def test_tensorboard_that_is_not_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(BertwrightError, match=r"bertwright\[tensorboard\]") as error:
        train(config_of(data, tmp_path / "run", log={"tensorboard": True}))
    assert error.value.exit_code == 3
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_model_that_does_not_fit_the_memory_is_never_built(
    data: Path, tmp_path: Path, whole_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"hidden_size": 65_536, "num_hidden_layers": 1_000, "intermediate_size": 262_144}
    large = config_of(data, tmp_path / "run", architecture=sizes)
    fails(large, ConfigError, "GB of memory")
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(memory, "usable_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=f"{newest(whole_run).name} has .* parameters"):
        checkpoint.load(whole_run)
