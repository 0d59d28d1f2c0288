"""Why is a network from random weights level with one that was pre-trained for five minutes?

    python experiments/finetuning/causes.py runs/five-minutes --data DIR

SST-2 with 4,000 labels, two epochs at 3e-4 (accuracy on dev). Each row switches one thing off, or
another way of reading or learning on. Each result is a line of a file; what is there is not done
again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertwright.checkpoint import checkpoint
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.nn.objective import Learner
from bertwright.progress import silent
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.transfer import stepping

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
from lines import Lines
from speedrun.tasks import TASKS

Change = Callable[[nn.Module, nn.Module], None]
"""Changes the pre-trained encoder, given one of random weights."""


def scaled(factor: float, chosen: Callable[[str], bool]) -> Change:
    """Multiply the chosen matrices."""

    def change(encoder: nn.Module, _: nn.Module) -> None:
        for name, parameter in encoder.named_parameters():
            if parameter.dim() == 2 and chosen(name):
                parameter.data.mul_(factor)

    return change


def replaced(chosen: Callable[[str], bool]) -> Change:
    """Take the chosen parameters from the encoder of random weights."""

    def change(encoder: nn.Module, random: nn.Module) -> None:
        others = dict(random.named_parameters())
        for name, parameter in encoder.named_parameters():
            if chosen(name):
                parameter.data.copy_(others[name])

    return change


def to_published_size(encoder: nn.Module, _: nn.Module) -> None:
    """Scale each matrix of the layers to the standard deviation of BERT's initialization."""
    for name, parameter in encoder.named_parameters():
        if parameter.dim() == 2 and not name.startswith("embeddings"):
            parameter.data.mul_(0.02 / parameter.data.std())


@dataclass(frozen=True)
class Cause:
    """A row of the table."""

    change: Change | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    embedding_rate: float = 1.0
    """The factor of the learning rate of the embeddings."""


def is_embedding(name: str) -> bool:
    """Return whether a parameter is one of the embeddings."""
    return name.startswith("embeddings")


MEAN: dict[str, Any] = {"pooling": "mean"}
CAUSES = {
    "as it was": Cause(),
    "from random weights": Cause(settings={"random_start": True}),
    "frozen": Cause(settings={"transfer": "features", "epochs": None, "learning_rate": "auto"}),
    "matrices of Muon to 0.02": Cause(to_published_size),
    "embeddings to 0.02": Cause(scaled(0.4, is_embedding)),
    "new positions": Cause(replaced(lambda name: "position" in name)),
    "new first layer, without aimed heads": Cause(replaced(lambda name: "layers.0." in name)),
    "only the embeddings kept": Cause(replaced(lambda name: not is_embedding(name))),
    "only the layers kept": Cause(replaced(is_embedding)),
    "rate 1e-4": Cause(settings={"learning_rate": 1e-4}),
    "rate 1e-3": Cause(settings={"learning_rate": 1e-3}),
    "embeddings at 3 times the rate": Cause(embedding_rate=3),
    "embeddings at 10 times the rate": Cause(embedding_rate=10),
    "mean in place of the pooler": Cause(settings=MEAN),
    "mean, from random weights": Cause(settings={"random_start": True, **MEAN}),
    "mean, embeddings at 10 times the rate": Cause(settings=MEAN, embedding_rate=10),
    "mean, fitted head": Cause(settings={"head_start": "fitted", **MEAN}),
    "mean, fitted head, 5 epochs": Cause(settings={"head_start": "fitted", "epochs": 5.0, **MEAN}),
    "mean, fitted head, 5 epochs, from random weights": Cause(
        settings={"head_start": "fitted", "epochs": 5.0, "random_start": True, **MEAN}
    ),
    "mean, fitted head, 5 epochs, embeddings at 10 times the rate": Cause(
        settings={"head_start": "fitted", "epochs": 5.0, **MEAN}, embedding_rate=10
    ),
}


def changed(model: Path, change: Change, out: Path) -> Path:
    """Write a model with changed weights, and return its folder."""
    loaded = checkpoint.load(model)
    random = checkpoint.load(model).learner.encoder
    random.reset_parameters(torch.Generator().manual_seed(1))
    with torch.no_grad():
        change(loaded.learner.encoder, random)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    checkpoint.save(out, loaded.learner, loaded.opened.folder, "")
    return out


def fit(model: Path, cause: Cause, data: Path, work: Path) -> dict[str, Any]:
    """Fine-tune, and return the best accuracy on dev in percent."""
    if cause.change is not None:
        model = changed(model, cause.change, work / "model")
    usual = stepping.learning_rates

    def rates(
        learner: Learner, rate: float, layer_decay: float = 1.0
    ) -> Iterator[tuple[nn.Parameter, float]]:
        own = {id(parameter) for parameter in learner.encoder.stages()[0].parameters()}
        for parameter, found in usual(learner, rate, layer_decay):
            yield parameter, found * (cause.embedding_rate if id(parameter) in own else 1)

    task = TASKS["SST-2"]
    files = TaskFilesConfig(str(data / task.train), str(data / task.held_out))
    spec = TaskSpec("SST-2", task.kind, files, ClassificationOptions(), most_train=4000)
    settings = {"epochs": 2.0, "learning_rate": 3e-4, "head_start": "random", "baselines": False}
    config = FinetuneConfig(str(model), str(work / "run"), **{**settings, **cause.settings})
    stepping.learning_rates = rates
    try:
        found = finetune([spec], config, silent, overwrite=True)
    finally:
        stepping.learning_rates = usual
    return {"accuracy": round(100 * found["metrics"]["accuracy"], 2)}


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/causes"))
    given = parser.parse_args()
    lines = Lines(given.work / "causes.jsonl")
    for name, cause in CAUSES.items():
        if not lines.has(name=name):
            lines.add({"name": name, **fit(given.model, cause, given.data, given.work)})
    print("| | accuracy |\n|---|---|")
    for row in lines.records:
        print(f"| {row['name']} | {row['accuracy']:.1f} |")


if __name__ == "__main__":
    main()
