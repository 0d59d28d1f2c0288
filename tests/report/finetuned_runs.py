"""Small `results.json` and `metrics.jsonl` of every kind of task, as a fine-tuned run has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertwright.config import values
from bertwright.tasks import catalogue


def task_of(kind: str, **keys: Any) -> dict[str, Any]:
    """A task as a run writes it."""
    needed = {"labels": ["negative", "positive"]} if catalogue.KINDS[kind].task.needs_labels else {}
    written: dict[str, Any] = values.to_dict(catalogue.make_task({"kind": kind, **needed, **keys}))
    return written


LENGTHS = {
    "examples": 800,
    "in_windows": 12,
    "windows": 815,
    "cut": 0,
    "tokens_cut": 0,
    "median_tokens": 24,
    "p90_tokens": 51,
    "longest_tokens": 311,
}
NEWS = [f"class {number:02}" for number in range(34)]
TOPICS = ["economy", "science", "sport", "culture", "politics", "health", "technology"]


def _confusion(labels: list[str], right: int = 37) -> dict[str, Any]:
    """Mostly right, the next class now and then, the one after that seldom."""
    size = len(labels)
    counts = [[0] * size for _ in labels]
    for place in range(size):
        counts[place][place] = right + place % 5
        counts[place][(place + 1) % size] += 3 + 2 * (place % 3)
        counts[place][(place + 2) % size] += place % 2
    return {"labels": labels, "counts": counts}


def _per_class(labels: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "label": label,
            "precision": 0.8 + 0.15 * (place % 2),
            "recall": 0.9 - 0.02 * (place % 9),
            "f1": 0.85 - 0.03 * (place % 7),
            "support": 40 + place,
        }
        for place, label in enumerate(labels)
    ]


def _calibration() -> dict[str, Any]:
    bins = [(0.55, 0.5, 20), (0.65, 0.58, 31), (0.75, 0.7, 40), (0.86, 0.79, 90), (0.98, 0.93, 619)]
    named = [{"confidence": c, "accuracy": a, "count": n} for c, a, n in bins]
    return {"bins": named, "error": 0.053}


def error(
    text: str, gold: str, predicted: str, score: float, line: int, text2: str | None = None
) -> dict[str, Any]:
    """One of the `worst`."""
    return {"text": text, "text2": text2, "gold": gold, "predicted": predicted} | {
        "score": score,
        "line": line,
    }


def results(kind: str, main: str = "accuracy", **more: Any) -> dict[str, Any]:
    """A run of three seeds, the second of them degenerate; `more` replaces."""
    values = (0.905, 0.509, 0.912)
    seeds = [
        {
            "seed": seed,
            "metrics": {main: value, "f1": value - 0.004},
            "best_epoch": 2,
            "epochs": 3,
            "degenerate": value < 0.6,
            "seconds": 61.5 + seed,
            "examples_per_second": 1203.4,
        }
        for seed, value in enumerate(values, 1)
    ]
    found: dict[str, Any] = {
        "format": 1,
        "task": task_of(kind),
        "name": "reviews",
        "main": main,
        "model": "runs/mini/checkpoints/step-00012000",
        "transfer": "finetune",
        "data": {
            split: {
                "file": f"{split}.tsv",
                "examples": size,
                "format": "tsv",
                "columns": {"text": "sentence", "label": "label"},
            }
            for split, size in (("train", 6920), ("dev", 800))
        },
        "settings": {"learning_rate": 5e-5, "epochs": 3},
        "seeds": seeds,
        "best_seed": 3,
        "diverged": [],
        "layer_weights": {},
        "summary": {
            main: {"mean": 0.775, "sd": 0.231, "max": 0.912},
            "f1": {"mean": 0.771, "sd": 0.23, "max": 0.908},
        },
        "intervals": {main: [0.892, 0.931], "f1": [0.888, 0.929]},
        "baselines": {"majority": {main: 0.509, "f1": 0.0}, "tfidf": {main: 0.822, "f1": 0.82}},
        "tuned": {},
        "lengths": {"train": {**LENGTHS, "examples": 6920}, "dev": LENGTHS},
        "per_class": [],
        "confusion": None,
        "calibration": None,
        "worst": [],
        "warnings": [],
    }
    return found | more


def _good_seeds(main: str, values: tuple[float, ...]) -> dict[str, Any]:
    """Three seeds that all learned."""
    found = results("classification", main)
    for seed, value in zip(found["seeds"], values, strict=True):
        seed.update(metrics={main: value}, degenerate=False)
    mean = sum(values) / len(values)
    return {
        "seeds": found["seeds"],
        "summary": {main: {"mean": mean, "sd": 0.004, "max": max(values)}},
        "intervals": {main: [mean - 0.019, mean + 0.018]},
        "best_seed": 1 + values.index(max(values)),
    }


def classification() -> dict[str, Any]:
    """Two classes; one seed of three fell."""
    labels = ["negative", "positive"]
    worst = [
        error(
            "An oddly moving film, in which nothing happens twice, and both times well.",
            "positive",
            "negative",
            0.9931,
            214,
        ),
        error(
            "פעמיים לא קורה כלום, ופעמיים זה טוב, לפחות בעיני המבקר הזה (2024).",
            "positive",
            "negative",
            0.987,
            17,
        ),
        error("It goes on, and on; then it goes on. " * 30, "negative", "positive", 0.981, 655),
    ]
    return results(
        "classification",
        task=task_of("classification", labels=labels),
        confusion=_confusion(labels, 350),
        per_class=_per_class(labels),
        calibration=_calibration(),
        worst=worst,
        warnings=[
            "seed 2: degenerate: the model predicts 'negative' for all 800 examples",
            "3 examples of dev are in train too",
        ],
    )


def topics() -> dict[str, Any]:
    """Seven classes; something was cut."""
    return results(
        "classification",
        **_good_seeds("accuracy", (0.861, 0.872, 0.866)),
        task=task_of("classification", labels=TOPICS),
        confusion=_confusion(TOPICS),
        per_class=_per_class(TOPICS),
        calibration=_calibration(),
        lengths={"train": {**LENGTHS, "cut": 3, "tokens_cut": 790}, "dev": LENGTHS},
    )


def many_classes() -> dict[str, Any]:
    """More classes than a matrix can show; worse than TF-IDF."""
    return results(
        "classification",
        "macro_f1",
        **_good_seeds("macro_f1", (0.801, 0.805, 0.81)),
        task=task_of("classification", labels=NEWS),
        confusion=_confusion(NEWS),
        per_class=_per_class(NEWS),
    )


def multi_label() -> dict[str, Any]:
    """Any number of labels."""
    return results(
        "classification",
        "micro_f1",
        **_good_seeds("micro_f1", (0.74, 0.752, 0.749)),
        baselines={"majority": {"micro_f1": 0.21}, "tfidf": {"micro_f1": 0.742}},
        task=task_of("classification", labels=TOPICS, options={"multi_label": True}),
        per_class=_per_class(TOPICS),
    )


def regression() -> dict[str, Any]:
    """Pairs to a number."""
    return results(
        "regression",
        "pearson_spearman",
        **_good_seeds("pearson_spearman", (0.853, 0.861, 0.857)),
        baselines={
            "mean": {"pearson_spearman": 0.0, "mean_squared_error": 2.2},
            "tfidf": {"pearson_spearman": 0.68, "mean_squared_error": 1.4},
        },
    )


def tagging() -> dict[str, Any]:
    """Entities, with a CRF."""
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    return results(
        "tagging",
        "f1",
        **_good_seeds("f1", (0.914, 0.921, 0.918)),
        baselines={"majority": {"f1": 0.0}, "word_shape": {"f1": 0.71}},
        task=task_of("tagging", labels=labels, scheme="iob2", options={"crf": True}),
        per_class=_per_class(["LOC", "PER"]),
    )


def span() -> dict[str, Any]:
    """Answers, or none; one seed, no baseline."""
    found = results(
        "span",
        "f1",
        task=task_of("span", max_length=384, unanswerable=True),
        tuned={"null_threshold": -2.1375},
        baselines={},
        worst=[
            error(
                "When was it opened?",
                "1876",
                "1871",
                0.91,
                1,
                "The bridge was begun in 1871 and opened, after two strikes, in 1876.",
            ),
            error("Who built the mill?", "", "Nobody", 0.62, 2, "Nobody knows who built the mill."),
        ],
    )
    metrics = {
        "f1": 0.7831,
        "exact_match": 0.749,
        "has_answer_f1": 0.802,
        "no_answer_exact_match": 0.764,
    }
    only = {**found["seeds"][0], "metrics": metrics, "degenerate": False}
    summary = {name: {"mean": value, "sd": None, "max": value} for name, value in metrics.items()}
    return found | {"seeds": [only], "best_seed": 1, "summary": summary, "intervals": {}}


def multiple_choice() -> dict[str, Any]:
    """Endings."""
    return results(
        "multiple-choice",
        **_good_seeds("accuracy", (0.781, 0.79, 0.786)),
        baselines={"majority": {"accuracy": 0.26}},
        calibration=_calibration(),
    )


def multi_task() -> dict[str, Any]:
    """Two tasks over one encoder."""
    shared = {"format": 1, "model": "runs/mini", "transfer": "finetune", "best_seed": 2}
    tasks = {"sentiment": topics(), "names": tagging()}
    return shared | {"tasks": {name: found | {"name": name} for name, found in tasks.items()}}


KINDS = {
    "classification": classification,
    "topics": topics,
    "many_classes": many_classes,
    "multi_label": multi_label,
    "regression": regression,
    "tagging": tagging,
    "span": span,
    "multiple_choice": multiple_choice,
}


def records(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What the seeds of a run measured on their way."""
    if "tasks" in found:
        return _records_of_tasks(found["tasks"])
    made = []
    for each in found["seeds"]:
        seed, goal = each["seed"], each["metrics"][found["main"]]
        for step in range(20, 601, 20):
            part = 0.0 if each["degenerate"] else 0.5 * (step / 600) ** 0.6
            loss = 0.69 - part + 0.02 * ((step * seed) % 7 - 3) / 3
            made.append(
                {
                    "seed": seed,
                    "split": "train",
                    "step": step,
                    "tokens": 1000 * step,
                    "seconds": step / 10,
                    "loss": loss,
                    "learning_rate": 5e-5 * min(step / 60, (620 - step) / 560),
                    "gradient_norm": 1.0,
                    "tokens_per_second": 31000.0,
                }
            )
        for epoch in (1, 2, 3):
            value = goal * (0.9 + 0.05 * epoch if epoch < 3 else 0.995)
            made.append(
                {
                    "seed": seed,
                    "split": "dev",
                    "step": 200 * epoch,
                    "tokens": 200_000 * epoch,
                    "epoch": epoch,
                    found["main"]: value,
                }
            )
    return made


def _records_of_tasks(tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """The measurements of each task in the lines of one run, under its name."""
    made: list[dict[str, Any]] = []
    for name, found in tasks.items():
        own = records(found)
        made = made or [{} for _ in own]
        for line, record in zip(made, own, strict=True):
            line.update(record)
            line |= {
                f"{name}.{key}": record[key] for key in ("loss", found["main"]) if key in record
            }
    return made


def write_finetuned(folder: Path, found: dict[str, Any]) -> Path:
    """The folder of a fine-tuned run, as far as the page reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records(found))
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(found), encoding="utf-8")
    environment = {"bertwright": "0.3.0", "torch": "2.13.0", "threads": 2}
    (folder / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
    return folder
