"""What it buys: pre-training by the recipe `half-hour` with a batch that suits the card, for what
is left of the call; its loss curve, how many held-out masked tokens it fills right, and SST-2 after
fine-tuning.

The recipe is `bertwright pretrain --config half-hour` (masked LM without pairs, short sequences
first, no dropout, data-dependent initialization, Muon), but a larger model and more tokens a step.
The training loop, the loader and the checkpoint are those of the command line.
"""

from __future__ import annotations

import json
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import open_model
from bertwright.config import values
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.loading.phase_loader import PhaseLoader
from bertwright.data.shards import open_shards
from bertwright.models.bert.config import BertRun
from bertwright.models.catalogue import make_run
from bertwright.models.load import system_of
from bertwright.progress import silent
from bertwright.recipes import pretrain
from bertwright.recipes.finetune.seeds import new_learner
from bertwright.recipes.finetune.setup import TaskSpec, set_up
from bertwright.recipes.finetune.training import TaskHardware, train_seed
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks
from bertwright.train.hardware import Hardware, micro_tokens
from bertwright.train.log import Log
from bertwright.train.loop import Trainer
from bertwright.train.loss_sums import mean_losses
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget, rate_factor
from bertwright.train.state import Position

from .device import Device
from .models import SMALL_BERT
from .prepare import DONE
from .record import Checks

MODEL, BATCH_TOKENS = "bert-medium", 32768
"""8 layers of 512: some hundred million tokens in two minutes at half of an H100's peak."""
FINETUNING, LEAST = 50.0, 25.0
"""Seconds kept for SST-2; seconds of pre-training below which it is not begun."""


def run(checks: Checks, device: Device, work: Path, text: Path | None, sst2: Path | None) -> None:
    """Pre-train on what `prepare.py` made, then fine-tune."""
    if text is None and not device.smoke:
        checks.record.line("pre-training", ok=None, skipped="no --text FILE was given")
        return
    prepared: dict[str, Any] = {}
    checks.run("text to shards", lambda: prepared.update(wait_for(work)) or prepared, most=60)
    if not prepared.get("ok"):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = FINETUNING if sst2 is not None else 5.0
        seconds = 30.0 if device.smoke else checks.left - kept
        if seconds < LEAST and not device.smoke:
            checks.record.line("pre-training", ok=None, skipped=f"{checks.left:.0f} s are left")
            return
        checks.run(
            "pre-training",
            lambda: pretraining(checks, device, work, folder, seconds),
            most=seconds + 15,
        )
        if sst2 is None:
            checks.record.line("SST-2", ok=None, skipped="no --sst2 FOLDER was given")
        elif (folder / "model" / "config.json").is_file():
            checks.run("SST-2", lambda: finetuning(device, folder / "model", sst2))
        else:
            checks.record.line("SST-2", ok=None, skipped="there is no pre-trained model")


def wait_for(work: Path) -> dict[str, Any]:
    """Until the shards are made, or could not be."""
    while not (work / DONE).is_file():
        time.sleep(0.2)
    found: dict[str, Any] = json.loads((work / DONE).read_text(encoding="utf-8"))
    return found


def run_on(device: Device, work: Path, folder: Path, seconds: float) -> BertRun:
    """The recipe, for this card."""
    recipe = Path(pretrain.__file__).with_name("half-hour.toml")
    content = tomllib.loads(recipe.read_text(encoding="utf-8"))
    over: dict[str, Any] = {
        "data": str(work / "shards"),
        "out": str(folder / "run"),
        "model": MODEL,
        **({"architecture": SMALL_BERT} if device.smoke else {}),
        "minutes": seconds / 60,
        "precision": "bf16",
        "device": "cpu" if device.smoke else "cuda",
        "batch": {"tokens": 512 if device.smoke else BATCH_TOKENS},
        "validation": {"tokens": 2048 if device.smoke else 131072},
    }
    return make_run(BertRun, values.merge(content, over))


def pretraining(
    checks: Checks, device: Device, work: Path, folder: Path, seconds: float
) -> dict[str, Any]:
    """Train for so many seconds, the first weights included; each line of the log is a line of the
    record."""
    began = time.monotonic()
    config = run_on(device, work, folder, seconds)
    shards, system = open_shards(config.data), system_of(config)
    hardware = Hardware(Ranks(0, 1, device.device), "bf16", device.peak or 1e12)
    learner = pretrain.make_learner(config, shards).to(device.device)
    optimizers = make_optimizers(learner, config.optimizer, "bf16")
    tokens = config.batch.micro_tokens or micro_tokens(device.device)
    loader = PhaseLoader(system.trained_on(config, shards), tokens, device.device)
    of_dev = system.evaluated_on(config, shards, "dev")
    assert of_dev is not None
    held_out = EpochLoader(of_dev)
    most = min(config.validation.tokens, held_out.tokens_in_epoch(0))

    def evaluate() -> dict[str, float]:
        def batches() -> Iterator[Any]:
            for batch in held_out.step(0, 0, most, max(65536, held_out.instances.longest)):
                yield batch.to(device.device)

        return mean_losses(learner, batches(), hardware)

    def begin_step(done: float, width: float) -> float:
        factor = rate_factor(config.schedule, done, width)
        optimizers.set_rates(factor)
        return config.optimizer.learning_rate * factor

    def note(record: dict[str, Any]) -> None:
        checks.record.line("pre-training, a line of its log", **record)

    run_folder = folder / "run"
    run_folder.mkdir()
    every = max(1.0, seconds / 12)
    log = Log(run_folder, silent, on_log=note)
    trainer = Trainer(
        learner=learner,
        optimizers=optimizers,
        begin_step=begin_step,
        clip_norm=config.optimizer.clip_norm,
        source=loader,
        budget=Budget(steps=6) if device.smoke else Budget(seconds=seconds),
        seed=config.seed,
        hardware=hardware,
        log=log,
        evaluate=evaluate,
        save=lambda position: None,
        when_to_log=replace(config.log, every_seconds=every),
        when_to_validate=replace(config.validation, every_minutes=2 * every / 60),
        when_to_save=replace(config.checkpoint, every_minutes=1e9),
    )
    prepared = time.monotonic() - began
    position = trainer.run(Position(seconds=prepared))
    log.close()
    made = folder / "model"
    made.mkdir()
    checkpoint.save(made, learner, shards.tokenizer_folder, "pre-trained by benchmarks.gpu\n")
    held = mean_losses_of(learner, evaluate)
    return {
        "model": config.model,
        "parameters": sum(p.numel() for p in learner.parameters()),
        "steps": position.step,
        "tokens": position.tokens,
        "tokens_of_a_step": config.batch.tokens,
        "first_weights_s": prepared,
        "training_s": position.seconds,
        "held_out_loss": held["loss"],
        "held_out_accuracy": held.get("masked_lm.accuracy"),
    }


def mean_losses_of(learner: Any, evaluate: Any) -> dict[str, float]:
    """The held-out losses, without dropout."""
    learner.eval()
    found: dict[str, float] = evaluate()
    return found


def finetuning(device: Device, model: Path, sst2: Path) -> dict[str, Any]:
    """Accuracy on SST-2's dev set after a pass over its training set, once from the pre-trained
    weights and, where time is left, nothing else: one seed."""
    train, dev = sst2 / "train.tsv", sst2 / "dev.tsv"
    files = TaskFilesConfig(train=str(train), dev=str(dev))
    config = FinetuneConfig(
        str(model), str(model.parent / "sst2"), epochs=1.0, learning_rate=1e-4, batch_size=128
    )
    learner = checkpoint.load(model).learner
    tokenizer = load_tokenizer(model)
    task = TaskSpec("sst2", "classification", files, ClassificationOptions())
    setup = set_up(task, config, tokenizer, learner.encoder.spec, silent)
    ranks = Ranks(0, 1, device.device)
    hardware = TaskHardware(ranks, "bf16", device.peak or 1e12, 65536, 65536)
    learner, _ = new_learner(open_model(model), config, [setup], 1)
    found = train_seed(config, [setup], learner, hardware, None)
    (evaluation,) = found.evaluations.values()
    return {
        "examples": len(setup.train.examples),
        "examples_per_second": found.examples_per_second,
        "training_s": found.seconds,
        **{f"dev_{name}": value for name, value in evaluation.metrics.items()},
    }
