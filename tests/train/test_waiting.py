"""A step asks nothing of the device that the host would wait for.

Tensors of the device `meta` have no numbers: what reads one (`.item()`, `nonzero`, a mask as an
index, `unique`) is an error there, and a copy from the host is counted. The loop's own reading is
counted on a CPU, where a step's numbers are read late as on a GPU.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bertwright.config.run import CheckpointConfig, LogConfig, OptimizerConfig, ValidationConfig
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.data.loading.ahead import Ahead
from bertwright.data.loading.phases import DataPosition
from bertwright.data.shards import open_shards
from bertwright.errors import BertwrightError
from bertwright.models.load import system_of
from bertwright.nn import host
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.objective import Learner
from bertwright.nn.transformer.attention import CrossAttention, SelfAttention
from bertwright.recipes.pretrain import make_learner
from bertwright.tasks.choices.kind import ChoiceInstance
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.generation.options import GenerationTask
from bertwright.tasks.instances import Instance
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.kind import TaggingInstance
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.task_data import make_batch
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from bertwright.train.log import Log, read_records
from bertwright.train.muon import Muon
from bertwright.train.state import Position
from tests.contract.conftest import config_of
from tests.small_runs import build_data, build_pairs, build_stories
from tests.tasks.sample import make_learner as make_head
from tests.train.sample import corrupt, make_trainer, new_learner

READS = ("_local_scalar_dense", "nonzero", "_unique2", "masked_select", "equal")


class Waits(TorchDispatchMode):
    """Counts what reads a tensor of a device, and copies from the host that do not go by
    `nn/host.py`, which pins them."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        kwargs = kwargs or {}
        given = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if given is not None and given.device.type == self.device and name in READS:
            self.count[name] += 1
        target = kwargs.get("device")
        if name == "_to_copy" and given is not None and target is not None:
            goes = given.device.type == "cpu" and torch.device(target).type == "meta"
            self.count["copies"] += goes and not sent()
        return func(*args, **kwargs)


def sent() -> bool:
    """Whether this is called below `send` of `nn/host.py`."""
    return any(frame.f_code is host.send.__code__ for frame, _ in traceback.walk_stack(None))


def pretraining(system: str, build: Callable[[Path], Path]) -> Callable[[Path], Any]:
    def make(folder: Path) -> tuple[Learner, Any]:
        shards = open_shards(build(folder))
        config = config_of(system, shards.folder, folder / "run")
        learner = make_learner(config, shards)
        phase = system_of(config).trained_on(config, shards)[0]
        batch = phase.instances.batch(0, np.arange(9))
        return learner, batch.to

    return make


def finetuning(task: TaskConfig, instances: Sequence[Instance]) -> Callable[[Path], Any]:
    def make(folder: Path) -> tuple[Learner, Any]:
        learner = make_head(task)
        return learner, lambda device: make_batch(
            "head", task, instances, range(len(instances)), device
        )

    return make


TEXTS = [
    Instance(n, (list(range(5, 5 + size)),), ([0] * size,), label=n % 2)
    for n, size in enumerate((9, 7, 4))
]
WORDS = [
    TaggingInstance(n, each.ids, each.segments, (0, 1), (2,), words=(1, 3), texts=("a", "b"))
    for n, each in enumerate(TEXTS)
]
NUMBERS = [replace(each, label=0.5) for each in TEXTS]
TARGETS = [replace(each, label=2) for each in TEXTS]
SPANS = [replace(each, label=(1, 2)) for each in TEXTS]
CHOICES = [
    ChoiceInstance(n, (list(range(5, 5 + n)),) * 2, ([0] * n,) * 2, label=1, owners=(0, 1))
    for n in (6, 4)
]
STEPS: dict[str, Callable[[Path], Any]] = {
    "bert": pretraining("bert", build_data),
    "gpt": pretraining("gpt", build_data),
    "gpt2": pretraining("gpt2", build_data),
    "awd-lstm": pretraining("awd-lstm", build_data),
    "nnlm": pretraining("nnlm", build_data),
    "memory-network": pretraining("memory-network", build_stories),
    "transformer": pretraining("transformer", build_pairs),
    "seq2seq": pretraining("seq2seq", build_pairs),
    "classification": finetuning(ClassificationTask(labels=("x", "y")), TEXTS),
    "bilstm over a mix of layers": finetuning(
        ClassificationTask(labels=("x", "y"), head=HeadConfig(layers="mix", network="bilstm")),
        TEXTS,
    ),
    "three poolings": finetuning(
        ClassificationTask(
            labels=("x", "y"),
            head=HeadConfig(layers="last", pooling="last+max+mean", hidden_size=12),
        ),
        TEXTS,
    ),
    "regression": finetuning(RegressionTask(), NUMBERS),
    "tagging": finetuning(TaggingTask(labels=("x", "y")), WORDS),
    "crf": finetuning(TaggingTask(labels=("x", "y"), options=TaggingOptions(crf=True)), WORDS),
    "taglm": finetuning(TaggingTask(labels=("x", "y"), head=HeadConfig(network="taglm")), WORDS),
    "span": finetuning(SpanTask(), SPANS),
    "multiple-choice": finetuning(MultipleChoiceTask(), CHOICES),
    "generation": finetuning(GenerationTask(), TARGETS),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_reads_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # autocast knows no device "meta"
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    learner, batch_on = STEPS[name](tmp_path)
    for part in learner.modules():
        if isinstance(part, Dropout):  # draws on the host where it is not on CUDA
            part.p = 0.0
        elif isinstance(part, (SelfAttention, CrossAttention)):
            part.dropout = 0.0
    learner = learner.to("meta").train()
    batch = batch_on("meta")
    with Waits("meta") as waits:
        losses = learner(batch)
        sum(loss.total / max(1, loss.count) for loss in losses.values()).backward()
    assert not +waits.count


def test_a_step_of_muon_reads_nothing() -> None:
    """Matrices of one shape are moved together, by products of batches."""
    with torch.device("meta"):
        matrices = [nn.Parameter(torch.empty(24, 16)) for _ in range(3)]
        other = nn.Parameter(torch.empty(16, 24))
        for each in (*matrices, other):
            each.grad = torch.empty_like(each)
        muon = Muon([*matrices, other], 0.1, 0.1, torch.float32)
        muon.found_inf = torch.zeros(())
    with Waits("meta") as waits:
        muon.step()
    assert not +waits.count


@pytest.mark.parametrize("matrices", ["adamw", "muon"])
@pytest.mark.usefixtures("one_thread")
def test_the_loop_reads_late_and_the_same(
    matrices: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU is driven: nothing is read in a step, and weights, log and position are those of
    steps that are waited for; also where one of them is left out."""
    found, start = [], {name: p.detach() for name, p in new_learner().named_parameters()}
    for late in (False, True):
        (tmp_path / str(late)).mkdir()
        learner, log = new_learner(), Log(tmp_path / str(late), lambda text: None)
        optimizer = OptimizerConfig(matrices=matrices, clip_norm=0.5)
        trainer = make_trainer(
            learner, [[0, 1, 2], [3, 4, 5, 6]], steps=6, log=log, optimizer=optimizer
        )
        trainer.reads_late = late
        with monkeypatch.context() as patch:
            corrupt(patch, float("inf"), [3])
            position = trainer.run(Position())
        weights = {name: p.detach().clone() for name, p in learner.named_parameters()}
        found.append((weights, read_records(tmp_path / str(late) / "metrics.jsonl"), position))
    (weights, records, position), (others, other_records, other_position) = found
    assert position.tokens == other_position.tokens
    # AdamW steps by the sign of a gradient, also where that is rounding alone (biases of keys)
    moved = [
        torch.cat([(w - start[n]).flatten() for n, w in each.items()]) for each in (weights, others)
    ]
    assert float((moved[1] - moved[0]).norm() / moved[0].norm()) < 0.02
    assert len(records) == len(other_records)
    for one, other in zip(records, other_records, strict=True):
        for key in one.keys() - {
            "split",
            "seconds",
            "tokens_per_second",
            "utilization",
            "memory_gb",
        }:
            assert other[key] == pytest.approx(one[key], rel=1e-4), key


@pytest.mark.usefixtures("one_thread")
def test_the_loop_asks_for_no_number() -> None:
    learner = new_learner()
    trainer = make_trainer(learner, steps=6, log=None)
    trainer.reads_late = True
    trainer.when_to_log = LogConfig(every_steps=100)
    trainer.when_to_validate = ValidationConfig(every_steps=100)
    trainer.when_to_save = CheckpointConfig(every_steps=100)
    with Waits("cpu") as waits:
        trainer.run(Position())
    assert waits.count["_local_scalar_dense"] == 0


def test_what_follows_is_made_ahead() -> None:
    asked: list[int] = []

    def make(at: DataPosition) -> tuple[list[int], DataPosition]:
        asked.append(at.step)
        return [at.step], replace(at, step=at.step + 1)

    ahead, at = Ahead(make, True), DataPosition()
    for step in (0, 1, 2, 7, 8):
        at = at if at.step == step else DataPosition(step=step)
        batches, at = ahead(at)
        assert batches == [step]
    assert {0, 1, 2, 3, 7, 8} <= {*asked}
    assert asked.count(1) == asked.count(8) == 1


@pytest.mark.usefixtures("one_thread")
def test_a_run_that_diverges_ends_though_it_is_read_late(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, saved = new_learner(), []
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    corrupt(monkeypatch, float("nan"), list(range(20)))
    trainer = make_trainer(learner, steps=20, save=saved.append)
    trainer.reads_late = True
    trainer.when_to_log = LogConfig(every_steps=100)
    trainer.when_to_validate = ValidationConfig(every_steps=99)
    with pytest.raises(BertwrightError, match="5 steps"):
        trainer.run(Position())
    assert not saved
    assert trainer.diverged
    for name, p in learner.named_parameters():
        torch.testing.assert_close(p.detach(), before[name], rtol=0, atol=0, msg=name)
