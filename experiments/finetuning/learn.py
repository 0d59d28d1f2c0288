"""One fine-tuning run of Bertwright as a record: its figures on dev, and its speed."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import torch

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.tasks.catalogue import KINDS


def learn(name: str, kind: str, files: TaskFilesConfig, config: FinetuneConfig) -> dict[str, Any]:
    """Train one seed and say how good it is; the run in `config.out` is replaced.

    Args:
        name: of the task.
        kind: of the task.
        files: what is read, and how.
        config: the run.
    """
    config = replace(config, seeds=1)
    processor, clock = time.process_time(), time.perf_counter()
    task = TaskSpec(name.replace(".", "-"), kind, files, KINDS[kind].options())
    results = finetune([task], config, _nothing, overwrite=True)
    seed = results["seeds"][0]
    return {
        "side": "bertwright",
        "task": name,
        "seed": seed["seed"],
        "precision": results["settings"]["precision"],
        "main": results["main"],
        "scores": {key: round(value, 5) for key, value in seed["metrics"].items()},
        "degenerate": seed["degenerate"],
        "baselines": results["baselines"],
        "train_examples": results["data"]["train"]["examples"],
        "examples": round(results["data"]["train"]["examples"] * seed["epochs"]),
        "seconds": seed["seconds"],
        "examples_per_second": seed["examples_per_second"],
        "whole_run_seconds": round(time.perf_counter() - clock, 1),
        "whole_run_cpu_seconds": round(time.process_time() - processor, 1),
        "threads": torch.get_num_threads(),
        "settings": {**asdict(config), **asdict(files)},
        "warnings": results["warnings"],
        "versions": {"torch": torch.__version__},
    }


def _nothing(line: str) -> None:
    """Say nothing: the record says it."""
