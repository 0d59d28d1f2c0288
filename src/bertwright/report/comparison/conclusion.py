"""Conclude from the results of a comparison, in sentences of `templates/comparison.txt.j2`.

One result is called clearly ahead of another only if their 95 % intervals do not overlap. A fit
that predicts one class for all examples is no result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bertwright.report.comparison.rows import WAYS, Mean, Results, Row
from bertwright.report.sentences import sentence

BITS = "bits_per_character"
BUSY = 0.1
"""The fraction of its time for which training waits for cores that is mentioned."""
MORE_TIME = 3
"""How many times the minutes of a fit that failed for want of time are suggested."""


class Entry(NamedTuple):
    """A result with the most labels that is compared with others."""

    system: str
    """The name of the system or of the baseline."""
    title: str
    way: str
    """The way to use the system; empty: it is a baseline."""
    mean: Mean

    @property
    def name(self) -> str:
        """The name for users."""
        return f"{self.title} ({self.way})" if self.way else self.title

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline."""
        return not self.way


class MoreTime(NamedTuple):
    """Fits that need more time, and the options that give it to them."""

    names: Sequence[str]
    systems: Sequence[str]
    minutes: float | None
    """None: more time does not help, because the fits were not trained in steps."""


def conclusion(results: Results) -> str:
    """Return a conclusion from the results; empty if there are no results."""
    task = results.facts["task"]
    entries = _entries(results) if task else []
    systems = [entry for entry in entries if not entry.is_baseline]
    if not systems:
        return _of_text(results)
    top, best = entries[0], systems[0]
    others: dict[str, Entry] = {}
    for entry in systems:  # the best of each other system
        if entry.system != top.system:
            others.setdefault(entry.system, entry)
    return sentence(
        "comparison",
        "conclusion",
        metric=task["metric"],
        top=top,
        level=[each for each in others.values() if not top.mean.is_ahead_of(each.mean)],
        others=bool(others),
        best=best,
        baseline=next((entry for entry in entries if entry.is_baseline), None),
        random=results.of_task(best.system, "random"),
    )


def remarks(results: Results) -> list[str]:
    """Return a sentence for each doubt about the results: fits that predict one class for all
    examples, or had too little time, systems without a result yet, and cores that were busy.
    """
    task = results.facts["task"]
    found = []
    if task and (fits := _one_class(results)):
        found.append(sentence("comparison", "one_class", fits=fits, kind=task["kind"]))
    if task and (fits := _too_short(results)):
        found.append(sentence("comparison", "too_short", fits=fits))
    if to_come := [each["title"] for each in results.systems if is_to_come(results, each)]:
        found.append(sentence("comparison", "to_come", names=to_come))
    if busy := _busy(results):
        found.append(sentence("comparison", "busy", waited=busy))
    return found


def _entries(results: Results) -> list[Entry]:
    """Return the results of the task, the best first, without those from random weights."""
    found = [
        Entry(system["name"], system["title"], WAYS[way], mean)
        for system in results.systems
        for way in ("frozen", "tuned")
        if (mean := results.of_task(system["name"], way))
    ]
    found += [Entry(name, mean.first.title, "", mean) for name, mean in results.baselines().items()]
    return sorted(found, key=lambda entry: (-entry.mean.value, entry.is_baseline))


def _of_text(results: Results) -> str:
    found = sorted(
        (mean.value, system["title"])
        for system in results.systems
        if (mean := results.mean(system=system["name"], metric=BITS))
    )
    return sentence("comparison", "of_text", found=found) if found else ""


def _one_class(results: Results) -> MoreTime | None:
    """Return the fits with the most labels that predict one class for all examples with every seed;
    None if there are none.
    """
    fits: dict[str, list[Row]] = {}
    for system in results.systems:
        fallen = {
            WAYS[way]: rows
            for way in results.facts["task"]["ways"]
            if (rows := results.of_one_class(system["name"], way))
            and results.of_task(system["name"], way) is None
        }
        if fallen:
            name = f"{system['title']} ({'; '.join(fallen)})"
            fits[name] = [row for rows in fallen.values() for row in rows]
    return _more_time(fits)


def _too_short(results: Results) -> MoreTime | None:
    """Return the systems that were fine-tuned for less than one epoch; None if there are none."""
    fits = {
        system["title"]: mean.rows
        for system in results.systems
        if (mean := results.of_task(system["name"], "tuned")) and (mean.first.epochs or 0) < 1
    }
    return _more_time(fits)


def _more_time(fits: Mapping[str, Sequence[Row]]) -> MoreTime | None:
    if not fits:
        return None
    in_steps = [row for rows in fits.values() for row in rows if row.rate is not None]
    minutes = max((row.minutes or 1.0 for row in in_steps), default=0.0)
    systems = list(dict.fromkeys(row.system for row in in_steps))
    return MoreTime(list(fits), systems, math.ceil(MORE_TIME * minutes) if in_steps else None)


def is_to_come(results: Results, system: Mapping[str, Any]) -> bool:
    """Return whether a system can do the task, has no result of it yet, and has not failed."""
    name = system["name"]
    own = results.find(measure="task", system=name, fraction=results.fractions[-1])
    return system["fits_tasks"] and not own and not has_failed(results, name)


def has_failed(results: Results, system: str) -> bool:
    """Return whether a step of a system failed."""
    return bool(results.find(system=system, failed=True))


def _busy(results: Results) -> dict[str, float]:
    """Return the systems whose training waited for cores that other processes used, and the
    fraction of its time for which the training that waited longest did so.
    """
    found = {}
    for system in results.systems:
        waited = [row.waited for row in results.find(system=system["name"]) if row.waited]
        if waited and max(waited) >= BUSY:
            found[system["title"]] = max(waited)
    return found
