"""The section of a quickstart's page: results by the number of labelled examples, in a chart, a
table and sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from bertwright.report.comparison.rows import Mean, Results
from bertwright.report.numbers import baseline_title
from bertwright.report.plots import Series, chart
from bertwright.report.sentences import sentence

STYLES = {
    ("bert", "tuned"): ("pre-trained, fine-tuned", "tuned"),
    ("bert", "frozen"): ("pre-trained, frozen, linear layer", "frozen"),
    ("bert", "random"): ("random initialization, fine-tuned", "random"),
    ("tfidf", "baseline"): (baseline_title("tfidf"), "words"),
    ("majority", "baseline"): (baseline_title("majority"), "baseline"),
}
"""The name and the line style of each method, by its system and its way."""
COMPARED = ("tuned", "words", "random")
"""The styles of the methods that the conclusion compares."""


@dataclass(frozen=True)
class Method:
    """A method, and its result for each number of labelled examples."""

    name: str
    style: str
    results: Sequence[Mean | None]

    @property
    def accuracy(self) -> list[float | None]:
        """The accuracies; None: it is not measured."""
        return [None if mean is None else mean.value for mean in self.results]


@dataclass(frozen=True)
class Labelled:
    """What the section shows."""

    sizes: Sequence[int] = ()
    """The numbers of labelled examples, in ascending order."""
    methods: Sequence[Method] = ()
    task: str = ""
    """A description of the task."""
    command: str = ""
    """The command that fine-tunes again; empty: there is none."""
    left_out: str = ""
    """Why there is no task; empty: there is one."""
    best: Sequence[float] = field(default=())
    """The best accuracy for each number of examples."""

    @property
    def chart(self) -> Markup:
        """The chart of accuracy by the number of examples; empty if there is one number."""
        if len(self.sizes) < 2:
            return Markup("")
        return labelled_chart(
            self.sizes, [(each.name, each.style, each.accuracy) for each in self.methods]
        )

    @property
    def conclusion(self) -> str:
        """Whether pre-training is worth it with the fewest and with the most labels."""
        named = {each.style: each.results for each in self.methods}
        unknown = [None] * len(self.sizes)
        wins, ends = [], []
        for index in sorted({0, len(self.sizes) - 1}):
            found = [mean for style in COMPARED if (mean := named.get(style, unknown)[index])]
            if len(found) < len(COMPARED):
                return ""
            values = [mean.value for mean in found]
            wins.append((found[0].low or 0.0) > max(values[1:]))
            ends.append((self.sizes[index], *values))
        answer = "always" if all(wins) else "few" if wins[0] else "no"
        return sentence("labelled", "conclusion", answer=answer, ends=ends)

    @property
    def best_sentence(self) -> str:
        """The best method for each number of examples, and those within its 95 % interval."""
        sizes = []
        for index, size in enumerate(self.sizes):
            found = [(m.name, mean) for m in self.methods if (mean := m.results[index])]
            found.sort(key=lambda each: -each[1].value)
            low = found[0][1].low
            level = [each for each in found[1:] if low is None or each[1].value >= low]
            sizes.append((size, [(name, mean.value) for name, mean in [found[0], *level]]))
        return sentence("labelled", "best", sizes=sizes) if self.methods else ""


def labelled_section(results: Results, task: str, command: str) -> Labelled:
    """Return the section of the results of a quickstart's task.

    Args:
        results: the results.
        task: a description of the task.
        command: the command that fine-tunes again; empty: there is none.
    """
    examples = results.facts["task"]["examples"]["train"]
    methods = []
    for (system, way), (name, style) in STYLES.items():
        found = [
            results.mean(measure="task", system=system, way=way, fraction=fraction)
            for fraction in results.fractions
        ]
        if any(found):
            methods.append(Method(name, style, found))
    sizes = [max(1, round(fraction * examples)) for fraction in results.fractions]
    best = [
        max((v for each in methods if (v := each.accuracy[index]) is not None), default=0.0)
        for index in range(len(sizes))
    ]
    return Labelled(sizes, methods, task, command, best=best)


def labelled_chart(
    sizes: Sequence[int], methods: Sequence[tuple[str, str, Sequence[float | None]]]
) -> Markup:
    """Return a chart of accuracy by the number of labelled examples.

    `methods` are names, line styles and accuracies.
    """
    lines = []
    for name, style, accuracy in methods:
        points = {float(n): value for n, value in enumerate(accuracy) if value is not None}
        lines.append(Series(name, list(points), list(points.values()), style, legend=""))
    names = [f"{size:,}" for size in sizes]
    return chart("Test accuracy", lines, "labelled examples", True, True, names)
