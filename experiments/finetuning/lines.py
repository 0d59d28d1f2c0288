"""Results as JSON lines in a file: what is there is not done again."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Lines:
    """A file of results, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.records: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]

    def select(self, **values: Any) -> list[dict[str, Any]]:
        """The records that have these values."""
        return [r for r in self.records if all(r.get(k) == v for k, v in values.items())]

    def has(self, **values: Any) -> bool:
        """Whether a record with these values is there."""
        return bool(self.select(**values))

    def add(self, record: dict[str, Any]) -> None:
        """Write a record to the file and print it."""
        line = json.dumps(record, ensure_ascii=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self.records.append(record)
        print(line, flush=True)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of a sample; 0 for one value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def shown(values: Sequence[float], scale: float = 100) -> str:
    """`mean ± sd (n)`, or a dash where there is none."""
    if not values:
        return "-"
    mean, sd = mean_and_sd([scale * value for value in values])
    return f"{mean:.1f} ± {sd:.1f} ({len(values)})"
