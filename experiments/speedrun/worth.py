"""The worth of pre-training, computed and shown from the rows of `results.jsonl`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]
BUSY = 0.05
"""A row whose threads waited longer for a core, as a fraction of their time, is not a record."""


def worth(score: float, random_start: float) -> float:
    """Return the part of what random weights leave wrong that pre-training mends, in percent."""
    return 100 * (score - random_start) / (100 - random_start)


def mean_worth(rows: Rows) -> list[float]:
    """Return the mean worth of the tasks for each seed."""
    seeds = sorted({row["seed"] for row in rows})
    return [
        statistics.fmean(worth(r["score"], r["random_start"]) for r in rows if r["seed"] == seed)
        for seed in seeds
    ]


def shown(found: Sequence[float | None]) -> str:
    """Return the mean, with the standard deviation of several values."""
    known = [value for value in found if value is not None]
    if not known:
        return "-"
    sd = f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.1f}{sd}"


def table(tasks: Rows, all_labels: Rows, runs: Rows, pairs: Rows) -> str:
    """Return the worth of a recipe and its parts, as Markdown.

    Args:
        tasks: the fits that count, of all seeds.
        all_labels: the fits with all labels, which do not count.
        runs: the pre-training runs.
        pairs: the results on minimal pairs.
    """
    lines = [
        "| task | labels | score | random start | TF-IDF | worth |",
        "|---|---|---|---|---|---|",
    ]
    names = dict.fromkeys((row["task"], row["labels"]) for row in [*tasks, *all_labels])
    for name, labels in names:
        own = [r for r in [*tasks, *all_labels] if (r["task"], r["labels"]) == (name, labels)]
        columns = [[row[key] for row in own] for key in ("score", "random_start", "tfidf")]
        columns.append([worth(row["score"], row["random_start"]) for row in own])
        cells = [name, f"{labels:,}" if isinstance(labels, int) else labels, *map(shown, columns)]
        lines.append(f"| {' | '.join(cells)} |")
    of_seeds = mean_worth(tasks)
    first = runs[0]
    lines += [
        "",
        f"{first['recipe']}, {first['minutes']:g} minutes: worth {shown(of_seeds)} (mean over "
        f"{len({row['task'] for row in tasks})} tasks, {len(of_seeds)} seeds); masked accuracy "
        f"{shown([row['score'] for row in runs])}; BLiMP {shown([row['score'] for row in pairs])}; "
        f"{statistics.fmean(row['tokens'] for row in runs) / 1e6:.2f} M tokens read",
    ]
    every = [*tasks, *all_labels, *runs, *pairs]
    machines = sorted({f"{row['cores']} cores of {row['processor']}" for row in every})
    lines.append(f"on {', '.join(machines)}")
    busy = [row for row in every if (row["waited"] or 0) > BUSY]
    if busy:
        lines.append(
            f"no record: other work had the cores in {len(busy)} of {len(every)} rows (waited "
            f"above {BUSY:.0%})"
        )
    return "\n".join(lines)
