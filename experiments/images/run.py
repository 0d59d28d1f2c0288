"""Pre-training in vision, the idea that BERT brought to text: a CNN that has learned five digits
learns the other five from a few labelled images.

    python experiments/images/run.py [--seeds 10] [--first-seed 1] [--steps 60] [--out FILE]

Images are scikit-learn's digits (1,797 of 8 x 8, bundled with it). Each seed draws which five
classes are pre-trained on, with all their images; of the other five, half of the images are for
test, and the labelled examples are drawn from the rest, equally many a class. An image is one token
of 64 pixels, so that the CNN is an `Encoder`, the head the `Classifier` of texts, and what is
trained, and how fast, is set by `transfer/freezing.py` and `transfer/stepping.py` as for BERT.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from bertwright.config.finetune import FinetuneConfig
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.batch import TextBatch
from bertwright.tasks.texts.kind import Classifier
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.transfer.freezing import learn_from
from bertwright.transfer.stepping import Stepping

SHADES, SIDE, WIDTH, BATCH = 17, 8, 32 * 4 * 4, 32
EXAMPLES = 5, 10, 20, 50, 100, 200
PRETRAINING_STEPS = 200
WAYS = {
    "frozen": ("features", 1e-2),
    "last layer": ("top-1", 3e-3),
    "gradual": ("gradual", 1e-2),
    "fine-tuned": ("finetune", 3e-3),
    "from scratch": ("finetune", 3e-3),
}
"""Name -> transfer; and the learning rate that was best, of 1e-3, 3e-3, 1e-2 and 3e-2, for 10 and
50 examples of the seeds 101 to 103."""


class Cnn(Encoder):
    """Two convolutions, the second pooled to 4 x 4: layers 0 and 1."""

    def __init__(self) -> None:
        super().__init__(EncoderSpec(WIDTH, 1, SHADES, own_widths=(16 * SIDE**2, WIDTH)))
        first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU())
        second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layers = nn.Sequential(first, second, nn.Flatten())

    def forward(
        self,
        inputs: Inputs,
        *,
        top: int | None = None,
        keep_layers: bool = False,
        positions: Tensor | None = None,
    ) -> Encoded:
        """ids `[N, 64]`, an image each -> `[N, H]`"""
        x = inputs.ids.view(-1, 1, SIDE, SIDE) / (SHADES - 1)
        return Encoded(inputs.sequences, self.layers(x))

    def stages(self) -> Sequence[nn.Module]:
        """See `Encoder`."""
        return list(self.layers)[:2]


def batch(images: Tensor, labels: Tensor) -> TextBatch:
    """A token an image."""
    inputs = Inputs(images, Sequences([1] * len(images)))
    return TextBatch(inputs, tuple(range(len(images))), labels, task="digits")


def train(encoder: Cnn, way: str, images: Tensor, labels: Tensor, steps: int, seed: int) -> Learner:
    """The encoder, trained on labelled images as a way of transfer says, with a new head."""
    transfer, rate = WAYS[way]
    torch.manual_seed(seed)
    names = tuple(map(str, range(5)))
    head = Classifier(encoder.spec, ClassificationTask(labels=names))
    learner = Learner(encoder, {"digits": head}).train()
    epochs = steps * min(BATCH, len(images)) / len(images)
    config = FinetuneConfig("digits", "digits", transfer)
    stepping = Stepping(learner, config, rate, epochs, steps)
    if transfer == "features":
        learn_from(learner, len(encoder.stages()))
    for step in range(steps):
        stepping(step / steps, 1 / steps)
        rows = torch.randperm(len(images))[:BATCH]
        loss = learner(batch(images[rows], labels[rows]))["digits"]
        stepping.optimizers.zero_grad()
        torch.autograd.backward(loss.total / loss.count)
        stepping.optimizers.step()
    return learner.eval()


def accuracies(seed: int, steps: int) -> dict[str, list[float]]:
    """Of every way, by the number of labelled examples."""
    pixels, target = (torch.from_numpy(each).long() for each in load_digits(return_X_y=True))
    draw = torch.Generator().manual_seed(seed)
    classes = torch.randperm(10, generator=draw)
    rank = classes.argsort()[target]  # 0 to 4 are pre-trained on
    order = torch.randperm(len(pixels), generator=draw)
    source, other = order[rank[order] < 5], order[rank[order] >= 5]
    test, rest = other[: len(other) // 2], other[len(other) // 2 :]
    torch.manual_seed(seed)
    pretrained = train(Cnn(), "from scratch", pixels[source], rank[source], PRETRAINING_STEPS, seed)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for count in EXAMPLES:
        rows = torch.cat([rest[rank[rest] == c][: count // 5] for c in range(5, 10)])
        for way in WAYS:
            torch.manual_seed(seed)
            encoder = Cnn()
            if way != "from scratch":
                encoder.load_state_dict(pretrained.encoder.state_dict())
            learner = train(encoder, way, pixels[rows], rank[rows] - 5, steps, seed)
            with torch.no_grad():
                loss = learner(batch(pixels[test], rank[test] - 5))["digits"]
            found[way].append(int(loss.correct) / len(test))
    return found


def _sd(table: np.ndarray) -> np.ndarray:
    """Over the seeds, the rows; 0 of one."""
    found: np.ndarray = table.std(0, ddof=min(1, len(table) - 1))
    return found


def main() -> None:
    """Measure; write mean and standard deviation over the seeds, of the accuracy and of what each
    seed gains over training from scratch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    runs = [accuracies(seed, given.steps) for seed in seeds]
    rows: list[dict[str, Any]] = []
    tables = {way: np.array([run[way] for run in runs]) for way in WAYS}
    for way, table in tables.items():
        gain = table - tables["from scratch"]
        means, gains = table.mean(0).round(4), gain.mean(0).round(4)
        spreads, gain_spreads = _sd(table).round(4), _sd(gain).round(4)
        for column, count in enumerate(EXAMPLES):
            row = {"way": way, "examples": count, "mean": float(means[column])}
            row |= {"sd": float(spreads[column]), "gain": float(gains[column])}
            rows.append(row | {"gain_sd": float(gain_spreads[column])})
            print(json.dumps(rows[-1]))
    given.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
