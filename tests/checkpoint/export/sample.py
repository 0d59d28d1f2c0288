"""Learners of random weights for each task, and their padded encoders at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.checkpoint.export.exported import Exported
from bertwright.checkpoint.export.padded import INPUTS, PaddedEncoder
from bertwright.config.task import TaskConfig
from bertwright.nn.objective import Learner
from bertwright.tasks.catalogue import make_task
from tests.checkpoint.conftest import CONFIG
from tests.small_bert import scatter


def task(kind: str, labels: tuple[str, ...] = (), **more: object) -> TaskConfig:
    options = {key: more.pop(key) for key in ("crf",) if key in more}
    given = {"labels": labels, "max_length": 16, "stride": 4, "head": more, "options": options}
    return make_task({"kind": kind, **given})


ABC = ("a", "b", "c")
TASKS = {
    "classes": task("classification", ABC),
    "mix-max": task("classification", ABC, layers="mix", pooling="max"),
    "last-mean": task("classification", ABC, layers="last"),
    "mean-sqrt": task("classification", ABC, layers="last", pooling="mean-sqrt"),
    "weighted": task("classification", ABC, layers="last", pooling="weighted"),
    "below-cls": task("classification", ABC, layers="second-to-last", pooling="cls"),
    "ulmfit": task("classification", ABC, layers="last", pooling="last+max+mean", hidden_size=7),
    "hidden": task("classification", ABC, hidden_size=7),
    "number": task("regression"),
    "tags": task("tagging", ABC),
    "crf": task("tagging", ABC, crf=True, layers="embeddings"),
    "span": task("span"),
    "span-mix": task("span", layers="embeddings+last"),
    "choice": task("multiple-choice"),
}


def learner_of(
    name: str, config: Any = CONFIG, pretrained: tuple[str, ...] = ("masked_lm", "next_sentence")
) -> tuple[Learner, str | None, TaskConfig | None]:
    """Every number random, those of mixes and CRFs too."""
    learner = make_learner(config, pretrained, {name: TASKS[name]} if name in TASKS else {})
    scatter(learner, 0.2, 0.1)
    return learner.eval(), None if name == "encoder" else name, TASKS.get(name)


def run(padded: PaddedEncoder, feed: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
    ids, mask, *more = (torch.from_numpy(feed[name]) for name in INPUTS)
    with torch.no_grad():
        return padded(ids, mask, more)


def stand_in(padded: PaddedEncoder, head: str | None = None) -> Exported:
    """An export whose runtime is torch itself."""

    def session(feed: Any) -> list[Any]:
        return [x.numpy() for x in run(padded, feed)]

    kind, outputs = padded.kind, padded.outputs
    return Exported(None, "onnx", False, head, kind, outputs, padded.layers, 17, session)  # type: ignore[arg-type]
