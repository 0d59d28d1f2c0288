"""Results of comparisons that nobody ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertwright.report.comparison.conclusion import conclusion, remarks
from bertwright.report.comparison.labelled import Labelled, labelled_section
from bertwright.report.comparison.rows import Results, Row
from bertwright.report.numbers import baseline_title


def fit(system: str, way: str, value: float, spread: float = 0.02, **more: Any) -> Row:
    """A result of the task."""
    facts = {"fraction": 1.0, "metric": "accuracy", "rate": 1e-3, "epochs": 5.0, "examples": 90}
    facts |= {"of_examples": 90, "degenerate": False, "run": "tasks/x", "page": True}
    interval = {"value": value, "low": value - spread, "high": value + spread}
    found = {"seconds": 30.0, "seconds_of_evaluation": 10.0, "minutes": 1.0} | interval | facts
    return Row("task", system.lower(), system, 1, way, **(found | more))


def fits(system: str, frozen: float, tuned: float, random: float = 0.3) -> list[Row]:
    values = {"frozen": frozen, "tuned": tuned, "random": random}
    return [fit(system, way, value) for way, value in values.items()]


def pretrained(system: str) -> Row:
    figures = {"parameters": 5e6, "tokens": 2e6, "seconds": 200.0, "run": f"runs/{system}"}
    return Row("pretrain", system.lower(), system, 1, page=True, **figures)


def system(name: str, fits_tasks: bool = True) -> dict[str, Any]:
    facts = {"name": name.lower(), "title": name, "adds": f"What {name} adds <here>."}
    facts |= {"run": f"runs/{name}", "run_of": name.lower(), "model": name}
    return {**facts, "fits_tasks": fits_tasks, "examples": examples(name)}


def examples(name: str) -> dict[str, Any]:
    """What a system makes of the same text and words."""
    shown: dict[str, Any] = {"prompts": [{"text": "It <is>", "rest": "so."}], "pseudo": False}
    if name == "ELMo":
        return shown | {"neighbours": {"cat": ["dog", "cow"], "red": ["blue"]}}
    shown["surprisal"] = {"words": ["it", "is", "(end)"], "bits": [1.5, 8.0, 2.0]}
    if name == "BERT":
        fill = {"word": "so", "guesses": [["no", 0.5], ["so", 0.25]]}
        return shown | {"fills": [fill], "pseudo": True, "neighbours": {"cat": ["dog"]}}
    return shown | {"continuations": [f"what {name} says"]}


def results(
    *rows: Row,
    tfidf: float = 0.5,
    fractions: tuple[float, ...] = (1.0,),
    systems: tuple[str, ...] = (),
    task: bool = True,
) -> Results:
    """The results of the systems of the rows, and of others that have none."""
    titles = dict.fromkeys([*(row.title for row in rows), *systems])
    baselines = [
        fit(name, "baseline", value, fraction=fraction, epochs=None, rate=None)
        for fraction in fractions
        for name, value in (("majority", 0.25), ("tfidf", tfidf))
    ]
    named = [replace(row, title=baseline_title(row.system)) for row in baselines]
    facts = {
        "bertwright": "1",
        "systems": [system(title, task) for title in titles],
        "left_out": dict.fromkeys(("cove", "seq2seq"), "it is trained on translations"),
        "settings": {"fractions": list(fractions), "minutes": 3.0, "tokens": None},
        "environment": {"cores": 2},
        "text": {"train": {"characters": 10**7}, "held_out": {"characters": 3 * 10**5}},
        "task": {
            "kind": "classification",
            "metric": "accuracy",
            "ways": ["frozen", "tuned", "random"],
            "examples": {"train": 90},
            "evaluated_on": "test",
        }
        if task
        else None,
    }
    trained = [pretrained(title) for title in titles if title not in systems]
    found = Results(facts, [*trained, *rows, *(named if task else [])])
    said = {"conclusion": conclusion(found), "remarks": remarks(found)}
    return replace(found, facts=facts | said)


METHODS = {
    "tuned": ("bert", [0.5, 0.7]),
    "frozen": ("bert", [0.55, 0.6]),
    "random": ("bert", [0.2, 0.4]),
    "tfidf": ("tfidf", [0.3, 0.5]),
    "majority": ("majority", [0.25, 0.25]),
}


def section(
    command: str = "bertwright finetune classification --model q",
    fallen: str = "",
    **accuracy: list[float],
) -> Labelled:
    """The section of the results with 96 and with 1,600 labels, or with 1,600 alone."""
    rows = []
    fractions = [0.06, 1.0][-len(accuracy.get("tuned", [0, 0])) :]
    for method, (system, usual) in METHODS.items():
        values = accuracy.get(method, usual)[-len(fractions) :]
        for fraction, value in zip(fractions, values, strict=True):
            facts: dict[str, Any] = {"value": value, "low": value - 0.02, "high": value + 0.02}
            facts |= {"fraction": fraction, "metric": "accuracy", "degenerate": method == fallen}
            way = "baseline" if system == method else method
            title = baseline_title(system) if way == "baseline" else "BERT"
            rows.append(Row("task", system, title, 1, way, **facts))
    facts = {"settings": {"fractions": fractions}, "task": {"examples": {"train": 1600}}}
    return labelled_section(Results(facts, rows), "Which of 3 packages?", command)
