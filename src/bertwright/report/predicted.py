"""Predicted numbers beside the true ones (regression): every example of dev as a dot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from bertwright.report.numbers import number
from bertwright.report.plots import LARGEST, scatter

MOST_DOTS = 2000
"""Of more, dots at equal distances in the file are drawn."""

Pair = tuple[float, float]
"""In truth, and predicted."""


def number_pairs(predictions: Iterable[Mapping[str, Any]]) -> dict[str, list[Pair]]:
    """Of each task that predicts numbers, the lines of `dev-predictions.jsonl`; numbers too far out
    for an axis are left out."""
    found: dict[str, list[Pair]] = {}
    for line in predictions:
        gold, said = number(line.get("gold")), number(line.get("value"))
        if gold is not None and said is not None and max(abs(gold), abs(said)) < LARGEST / 10:
            found.setdefault(str(line.get("task")), []).append((gold, said))
    return found


def numbers(pairs: Sequence[Pair]) -> str:
    """The dots, and whether the predictions lie too high or spread too little."""
    if len(pairs) < 2:
        return ""
    step = -(-len(pairs) // MOST_DOTS)
    shown = pairs[::step]
    gold, said = zip(*pairs, strict=True)
    off = fmean(said) - fmean(gold)
    where = "too high" if off > 0 else "too low"
    sentence = (
        "On the line a prediction is right. "
        f"On average predictions lie {abs(off):.3g} {where}; their standard deviation is "
        f"{pstdev(said):.3g}, in truth {pstdev(gold):.3g}."
    )
    if step > 1:
        sentence += f" {len(shown):,} of {len(pairs):,} examples are drawn."
    drawn = scatter("Predicted numbers, dev", shown, "in truth", "predicted", "{:.4g}".format)
    return f'<h2>Predicted and true</h2><p>{sentence}</p><div class="charts one">{drawn}</div>'
