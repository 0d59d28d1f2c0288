"""Pre-training from shards to a checkpoint: what it writes, says and refuses."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bertwright.atomic import verify_manifest
from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.find import list_checkpoints
from bertwright.config import values
from bertwright.data.loading.phase_loader import PhaseLoader
from bertwright.data.loading.phases import DataPosition
from bertwright.data.shards import open_shards
from bertwright.inference import model as inference
from bertwright.models.bert import system as bert
from bertwright.models.bert.config import BertRun, LeftToRightBertRun
from bertwright.models.catalogue import make_run
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes.pretrain import make_learner
from tests.small_runs import config_of, newest, records, tensors, train

CPU = torch.device("cpu")


def test_a_run_on_disk(data: Path, whole_run: Path) -> None:
    names = {place.name for place in whole_run.iterdir()}
    assert names == {"config.toml", "environment.json", "metrics.jsonl", "checkpoints", "model"}
    saved = make_run(BertRun, values.read_toml(whole_run / "config.toml"))
    noted = {
        "validation": {"hold_out": "documents"},
        "architecture": {"vocab_size": open_shards(data).vocab_size},
    }
    assert saved == config_of(data, whole_run, **noted)
    environment = json.loads((whole_run / "environment.json").read_text())
    assert environment["precision"] == "fp32"
    assert environment["torch"] == torch.__version__
    manifest = verify_manifest(newest(whole_run))
    assert manifest["step"] == 20
    assert {"model.safetensors", "trainer.safetensors", "trainer.json"} <= manifest["files"].keys()
    state = json.loads((newest(whole_run) / "trainer.json").read_text())
    assert state["position"]["finished"] is True
    assert "Step 20" in (newest(whole_run) / "README.md").read_text()


def test_metrics_have_the_names_of_the_design(whole_run: Path) -> None:
    told = records(whole_run)
    every = {
        *("step", "tokens", "seconds", "split", "loss"),
        *("masked_lm.loss", "masked_lm.accuracy", "next_sentence.loss", "next_sentence.accuracy"),
    }
    training = {"learning_rate", "gradient_norm", "tokens_per_second"}
    by_split = {split: [r for r in told if r["split"] == split] for split in ("train", "dev")}
    assert all(r.keys() == every for r in by_split["dev"])
    machine = {"utilization", "memory_gb"}
    assert all(r.keys() == every | training | machine for r in by_split["train"])
    assert [r["step"] for r in by_split["train"]] == [3, 6, 9, 12, 15, 18, 20]
    assert [r["step"] for r in by_split["dev"]] == [6, 12, 18, 20]
    assert [r["tokens"] for r in told] == sorted(r["tokens"] for r in told)
    assert told[-1]["tokens"] == pytest.approx(20 * 256, rel=0.1)
    for record in told:
        assert record["loss"] == record["masked_lm.loss"] + record["next_sentence.loss"]
    assert by_split["train"][0]["masked_lm.loss"] == pytest.approx(np.log(87), rel=0.05)
    assert by_split["train"][0]["next_sentence.loss"] == pytest.approx(np.log(2), rel=0.05)


def test_what_is_said(data: Path, tmp_path: Path) -> None:
    said = train(config_of(data, tmp_path / "run", steps=3))
    assert said[0] == "bert-tiny: 5,137 parameters, fp32 on cpu"
    assert said.pop(1).startswith(
        "positions 33 to 64 stay untrained: the model will read 32 tokens"
    )
    assert re.fullmatch(
        r"step 3 · 100% · masked LM \d\.\d{3} \([\d.]+%\) · next sentence \d\.\d{3} \([\d.]+%\) · "
        r"rate \d\.\de-04 · gradient \d\.\d\d · [\d,]+ tokens/s · \d+% of peak · \d\.\d GB · "
        r"0:00 left",
        said[1],
    )
    assert re.fullmatch(
        r"step 3 held-out · masked LM \d\.\d{3} \([\d.]+%\) · next sentence \d\.\d{3} \([\d.]+%\)",
        said[2],
    )
    assert len(said) == 3


def test_shards_of_one_process_are_none(data: Path, tmp_path: Path) -> None:
    said = train(config_of(data, tmp_path / "run", steps=1, parallel="fsdp"))
    assert "fp32 on cpu (fsdp shards nothing in one process: torchrun --nproc" in said[0]


def test_a_model_reads_what_it_was_trained_on(data: Path, tmp_path: Path) -> None:
    """The longest sequences of its training, or of the training before."""
    before, said = None, list[str]()
    for number, (length, expected) in enumerate([(16, 16), (24, 24), (16, 24), (64, 64)]):
        out = tmp_path / str(number)
        more = {"steps": 1, "instances": {"sequence_length": length}, "init": before}
        said = train(config_of(data, out, **more | ({"model": None} if before else {})))
        assert inference.load(out, "cpu").spec.max_length == expected
        assert any("stay untrained" in line for line in said) == (expected < 64)
        before = str(out)
    keys = {"data": str(data), "out": str(tmp_path / "ltr"), "model": "bert-tiny-ltr"}
    more = {"steps": 1, "sequence_length": 16, "batch": {"tokens": 64}, "precision": "fp32"}
    pretraining.pretrain(make_run(LeftToRightBertRun, keys | more), said.append)
    assert "positions 17 to 512 stay untrained" in "\n".join(said)
    assert inference.load(tmp_path / "ltr", "cpu").spec.max_length == 16


def test_it_learns(data: Path, tmp_path: Path) -> None:
    """Each sentence counts on: the word beside a mask gives it away."""
    more = {
        "steps": 120,
        "architecture": {"hidden_size": 64, "hidden_dropout_prob": 0.0},
        "optimizer": {"learning_rate": 5e-3},
        "batch": {"tokens": 1024, "micro_tokens": 1024},
        "log": {"every_steps": 1000},
        "validation": {"every_steps": 1000},
    }
    train(config_of(data, tmp_path / "run", **more))
    assert records(tmp_path / "run")[-1]["masked_lm.accuracy"] > 0.3


@pytest.mark.parametrize("objectives", ["mlm", "mlm+sop", "mlm+contrast"])
def test_objectives(data: Path, tmp_path: Path, objectives: str) -> None:
    train(config_of(data, tmp_path / "run", steps=3, instances={"objectives": objectives}))
    names = {key.partition(".")[0] for key in records(tmp_path / "run")[-1] if "." in key}
    second = {"mlm": set(), "mlm+sop": {"next_sentence"}, "mlm+contrast": {"contrast"}}[objectives]
    assert names == {"masked_lm", *second}
    config = json.loads((newest(tmp_path / "run") / "config.json").read_text())
    expected = "BertForPreTraining" if objectives == "mlm+sop" else "BertForMaskedLM"
    assert config["architectures"] == [expected]


def test_masked_lm_alone_leaves_the_pooler_as_it_began(data: Path, tmp_path: Path) -> None:
    config = config_of(data, tmp_path / "run", steps=3, instances={"objectives": "mlm"})
    before = make_learner(config, open_shards(data))
    assert not before.encoder.pooler.dense.weight.requires_grad
    train(config)
    after = load(newest(tmp_path / "run")).learner
    for name, value in before.state_dict().items():
        pooler, moved = "pooler" in name, not torch.equal(value, after.state_dict()[name])
        assert moved != pooler, name
    moments = load_file(newest(tmp_path / "run") / "trainer.safetensors")
    assert not any("pooler" in name for name in moments)


@pytest.mark.slow
def test_length_in_epochs(data: Path, tmp_path: Path) -> None:
    config = config_of(data, tmp_path / "run", epochs=1.5)
    batches = PhaseLoader(bert.phases(config, open_shards(data)), 64, CPU)
    loader = batches.loaders[0]
    whole, next_one = (loader.steps_in_epoch(epoch, 256) for epoch in (0, 1))
    train(config)
    last = records(tmp_path / "run")[-1]
    assert last["step"] == whole + round(next_one / 2)
    state = json.loads((newest(tmp_path / "run") / "trainer.json").read_text())
    assert state["position"]["data"] == {"phase": 0, "epoch": 1, "step": last["step"] - whole}
    at, seen = DataPosition(), 0
    while at.epoch == 0:
        step, at = batches.step(at, 0.0)
        seen += sum(batch.num_tokens for batch in step)
    assert seen == loader.tokens_in_epoch(0)


def test_length_in_minutes(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of our own: 0.5 seconds at each look, three looks a step."""
    from bertwright.train import loop

    ticks = iter(range(1_000_000))
    monkeypatch.setattr(loop.time, "monotonic", lambda: 0.5 * next(ticks))
    said = train(config_of(data, tmp_path / "run", minutes=0.5, log={"every_steps": 1}))
    told = [r for r in records(tmp_path / "run") if r["split"] == "train"]
    assert 10 < told[-1]["step"] < 25
    assert told[-1]["seconds"] == pytest.approx(30, abs=2)
    rates = [record["learning_rate"] for record in told]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(rates) <= 1e-3
    assert rates[-1] < 1e-4
    assert said[2].endswith("0:29 left")


def test_long_sequences_come_last(data: Path, tmp_path: Path) -> None:
    long = {"fraction": 0.25, "sequence_length": 64, "batch_tokens": 512}
    config = config_of(
        data,
        tmp_path / "run",
        steps=8,
        long_phase=long,
        log={"every_steps": 1},
        checkpoint={"every_steps": 6, "keep": 2},
    )
    seen: list[int] = []
    step = PhaseLoader.step

    def watched(batches: PhaseLoader, place: DataPosition, done: float) -> object:
        made = step(batches, place, done)
        seen.append(max(batch.inputs.sequences.longest for batch in made[0]))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PhaseLoader, "step", watched)
        train(config)
    assert max(seen[:6]) <= 32 < min(seen[6:])
    assert len(seen) == 8
    before, after = list_checkpoints(tmp_path / "run")
    assert inference.load(before, "cpu").spec.max_length == 32  # none longer was seen yet
    assert inference.load(after, "cpu").spec.max_length == 64
    told = [r["tokens"] for r in records(tmp_path / "run") if r["split"] == "train"]
    steps = np.diff([0, *told])
    assert steps[:6].mean() == pytest.approx(256, rel=0.2)
    assert steps[6:].mean() == pytest.approx(512, rel=0.2)


@pytest.mark.parametrize(("validation", "splits"), [({"fraction": 0.0}, 1), ({"tokens": 1}, 2)])
def test_no_validation_and_one_of_less_than_a_sequence(
    data: Path, tmp_path: Path, validation: dict[str, float], splits: int
) -> None:
    train(config_of(data, tmp_path / "run", steps=1, validation=validation))
    told = records(tmp_path / "run")
    assert len({record["split"] for record in told}) == splits
    assert told[-1]["masked_lm.loss"] > 1


def test_checkpoints_are_kept(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config_of(data, run, steps=10, checkpoint={"every_steps": 3, "keep": 3}))
    assert [f.name for f in list_checkpoints(run)] == [f"step-{n:08d}" for n in (6, 9, 10)]
    assert newest(run).name == "step-00000010"
    assert not list((run / "checkpoints").glob(".*"))


def test_attention_dropout_and_bf16(data: Path, tmp_path: Path) -> None:
    changes = {"attention_probs_dropout_prob": 0.1}
    run = tmp_path / "run"
    said = train(config_of(data, run, steps=3, precision="bf16", architecture=changes))
    assert "bf16 on cpu" in said[0]
    assert records(run)[-1]["masked_lm.loss"] < 5
    weights = load_file(newest(run) / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float32}
    assert (
        json.loads((newest(run) / "config.json").read_text())["attention_probs_dropout_prob"] == 0.1
    )


@pytest.mark.slow
def test_the_same_seed_is_the_same_run(data: Path, tmp_path: Path, whole_run: Path) -> None:
    train(config_of(data, tmp_path / "again"))
    train(config_of(data, tmp_path / "other", seed=2))
    one, again, other = (tensors(r) for r in (whole_run, tmp_path / "again", tmp_path / "other"))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_chosen_parts_are_wired(data: Path, tmp_path: Path) -> None:
    nothing = {"aimed_heads": False, "counted_vectors": False, "frequency_bias": False}
    config = config_of(data, tmp_path / "run", start=nothing)
    neighbours = config_of(data, tmp_path / "run", start={**nothing, "aimed_heads": True})
    shards = open_shards(data)
    one, other = (make_learner(each, shards).state_dict() for each in (config, neighbours))
    differing = {name for name in one if not torch.equal(one[name], other[name])}
    assert differing == {
        "encoder.embeddings.position.weight",
        "encoder.layers.0.attention.qkv.weight",
    }


def test_a_slow_start_leaves_a_run_its_minutes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = pretraining.make_learner

    def make_slowly(*words: Any) -> Any:
        time.sleep(0.7)
        return quick(*words)

    monkeypatch.setattr(pretraining, "make_learner", make_slowly)
    train(config_of(data, tmp_path / "run", minutes=0.01))
    found = records(tmp_path / "run")
    assert found[-1]["step"] > 1
    assert found[0]["seconds"] < 0.7
