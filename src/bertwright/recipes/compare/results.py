"""Collect the results of a comparison from its finished steps: the content of `results.json`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from bertwright.config import values
from bertwright.config.compare import CompareConfig
from bertwright.machine import processor, usable_cores
from bertwright.recipes.compare import use
from bertwright.recipes.compare.rungs import Rung
from bertwright.recipes.compare.stages import Found
from bertwright.report.ladder import conclusion
from bertwright.version import __version__


def run_folder(out: Path, rung: Rung, seed: int) -> Path:
    """Return the folder of a rung's pre-training run."""
    return out / "runs" / (rung.is_that_of or rung.name) / f"seed-{seed}"


def task_folder(out: Path, rung: Rung, seed: int) -> Path:
    """Return the folder of a rung's fits of the task."""
    return out / "tasks" / rung.name / f"seed-{seed}"


@dataclass(frozen=True)
class Results:
    """Collects the results of a comparison from its finished steps."""

    config: CompareConfig
    labelled: use.Labelled | None
    out: Path
    rungs: Sequence[Rung]
    left_out: Mapping[str, str]
    failed: Mapping[str, str]
    """The reasons of the steps that failed, by step."""
    found: Callable[[str], Found | None]
    """Returns the result of a step; None if it is not done."""

    def as_dict(self) -> dict[str, Any]:
        """Return the results so far."""
        task: dict[str, Any] | None = None
        if self.labelled is not None:
            own = self.labelled
            task = {
                "kind": own.task.kind,
                "metric": own.metric,
                "ways": list(own.ways),
                "files": {"train": own.task.files.train, "dev": own.task.files.dev}
                | {"test": own.task.test},
                "examples": {"train": len(own.train), "dev": len(own.dev)}
                | ({} if own.test is None else {"test": len(own.test)}),
                "evaluated_on": "dev" if own.test is None else "test",
                "labels": list(own.config.labels),
                "baselines": self._baselines(),
            }
        found: dict[str, Any] = {
            "format": 1,
            "bertwright": __version__,
            "out": str(self.out),
            "environment": {
                "processor": processor(),
                "cores": usable_cores(),
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
            "settings": values.to_dict(
                replace(
                    self.config,
                    minutes=self.config.minutes_each,
                    task_minutes=self.config.minutes_of_fit,
                )
            ),
            "text": self.found("text") or {},
            "vocabulary": self.found("vocabulary") or {},
            "task": task,
            "rungs": [self._row(rung) for rung in self.rungs],
            "left_out": dict(self.left_out),
            "failed": dict(self.failed),
        }
        return found | {"conclusion": conclusion(found)}

    def _baselines(self) -> dict[str, Any]:
        """Return the results of the baselines by fraction and name, as means over the seeds."""
        found: dict[str, Any] = {}
        for fraction in self.config.sorted_fractions:
            of_seeds = [
                each
                for seed in self.config.seeds_of_fits
                if (each := self.found(f"baselines/{fraction:g}-{seed}"))
            ]
            if of_seeds:
                found[f"{fraction:g}"] = {
                    name: _mean([each[name] for each in of_seeds]) for name in of_seeds[0]
                }
        return found

    def _row(self, rung: Rung) -> dict[str, Any]:
        """Return all results of a rung. Numbers are means over the seeds, except for word tests."""
        found = partial(self._found_of, rung.name, self.config.seeds_of_training)
        first = run_folder(self.out, rung, self.config.seed)
        row: dict[str, Any] = {
            "name": rung.name,
            "title": rung.title,
            "system": rung.system,
            "adds": rung.adds,
            "page": rung.page,
            "run": str(first.relative_to(self.out)),
            "trained_on": "translations" if rung.reads_pairs else "text",
        }
        trained = self._found_of(
            rung.is_that_of or rung.name, self.config.seeds_of_training, "pretrain"
        )
        if trained:
            numbers = ("parameters", "tokens", "seconds", "tokens_per_second")
            row |= {name: fmean(each[name] for each in trained) for name in numbers}
            row |= {"model": trained[0]["model"], "passes": trained[0]["passes"]}
            row["has_page"] = trained[0]["page"]
        if scored := found("text"):
            which = "pseudo_bits" if rung.scores == "masked" else "bits"
            row[f"{which}_per_character"] = fmean(each["bits_per_character"] for each in scored)
            row["spelling_fraction"] = fmean(each["spelling_fraction"] for each in scored)
            row["unknown_fraction"] = fmean(
                each["unknown"] / max(1, each["tokens"]) for each in scored
            )
        if pairs := found("pairs"):
            row["minimal_pairs"] = {
                name: fmean(each[name]["accuracy"] for each in pairs) for name in pairs[0]
            }
        if words := found("words"):
            row["words"] = words[0]
        if senses := found("senses"):
            row["senses"] = fmean(each["accuracy"] for each in senses)
        if self.labelled is not None and rung.vectors:
            row["task"] = self._task_of(rung)
            row["seconds_of_use"] = sum(
                each["seconds"] + each["seconds_of_evaluation"]
                for ways in row["task"].values()
                for way, each in ways.items()
                if way != "random"
            )
        own = {name: why for name, why in self.failed.items() if _rung_of(name) == rung.name}
        row["reasons"] = list(dict.fromkeys(own.values()))
        row["failed"] = bool(own)
        return row

    def _found_of(self, name: str, seeds: Sequence[int], what: str) -> list[Found]:
        """Return the results of a step of a rung for the seeds for which it is done."""
        of_seeds = [self.found(f"{name}-{seed}/{what}") for seed in seeds]
        return [each for each in of_seeds if each]

    def _task_of(self, rung: Rung) -> dict[str, Any]:
        """Return the results of the task by fraction and way."""
        by_fraction: dict[str, Any] = {}
        for fraction in self.config.sorted_fractions:
            ways: dict[str, Any] = {}
            for way in use.WAYS:
                step = f"{way}-{fraction:g}"
                if fits := self._found_of(rung.name, self.config.seeds_of_fits, step):
                    folder = task_folder(self.out, rung, self.config.seed)
                    names = ("rate", "epochs", "examples", "of_examples", "degenerate", "metrics")
                    ways[way] = {
                        **_mean(fits),
                        **{name: fits[0][name] for name in names},
                        "seconds": fmean(each["seconds"] for each in fits),
                        "seconds_of_evaluation": fmean(
                            each["seconds_of_evaluation"] for each in fits
                        ),
                        "run": str((folder / f"{way}-{fraction:g}").relative_to(self.out)),
                        "has_page": fits[0]["page"],
                    }
            by_fraction[f"{fraction:g}"] = ways
        return by_fraction


def _rung_of(step: str) -> str:
    """Return the name of the rung that a step is for."""
    return step.partition("/")[0].rpartition("-")[0]


def _mean(found: Sequence[Found]) -> Found:
    """Return the means over seeds of a value and of the ends of its interval, and the standard
    deviation of the value.
    """
    ends = {
        end: fmean(each[end] for each in found)
        for end in ("low", "high")
        if all(each[end] is not None for each in found)
    }
    several = [each["value"] for each in found]
    return {
        "value": fmean(several),
        "low": ends.get("low"),
        "high": ends.get("high"),
        "seeds": len(found),
        "sd": stdev(several) if len(found) > 1 else None,
    }
