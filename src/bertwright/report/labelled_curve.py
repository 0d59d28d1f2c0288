"""Accuracy by number of labelled examples, on the page of a quickstart.

Read is `learning_curve.json` as `recipes/quickstart/task.py` writes it. The table is the legend of
the chart; whoever is best in a column stands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertwright.report.html import Markup, table, text
from bertwright.report.plots import Series, chart, key

METHODS = {
    "pretrained": ("pre-trained, fine-tuned", "tuned"),
    "frozen": ("pre-trained, frozen, linear layer", "frozen"),
    "random_start": ("random start, fine-tuned", "random"),
    "tfidf": ("TF-IDF + logistic regression", "words"),
    "majority": ("the most frequent answer", "baseline"),
}
"""What each method is called, and the style of its line."""


def method_title(name: str) -> str:
    """A method in words."""
    return METHODS[name][0] if name in METHODS else name.replace("_", " ")


def labelled_curve(found: Mapping[str, Any]) -> str:
    """The section: what the task is, chart, table, and how to repeat it."""
    if not found:
        return ""
    title = "<h2>Fine-tuned, by number of labelled examples</h2>"
    if "left_out" in found:
        return f"{title}<p class='soft'>Left out: {text(found['left_out'])}.</p>"
    sizes = [int(size) for size in found["sizes"]]
    methods = found["methods"]
    drawn = _chart(sizes, methods) if len(sizes) > 1 else ""
    figure = f'<div class="charts one">{drawn}</div>' if drawn else ""
    return (
        f"{title}<p>{text(task_sentence(found))}</p><p>{text(best_sentence(found))}</p>"
        f"{figure}{_table(sizes, methods)}<p class='soft'>{text(_how(found))}</p>"
        f"<p class='soft'>Again: <code>{text(found['command'])}</code></p>"
    )


def task_sentence(found: Mapping[str, Any]) -> str:
    """What is asked, of what."""
    labels = found["labels"]
    least, most = found["words"]
    return (
        f"Which of {len(labels)} packages ({', '.join(labels)}) does a passage of documentation "
        f"belong to? A passage has {least} to {most} words; the packages' names are replaced by "
        f'"{found["hidden"]}". {int(found["test"]["examples"]):,} test passages are of modules '
        "that were held out of pre-training and of fine-tuning; every label is as frequent."
    )


def best_sentence(found: Mapping[str, Any]) -> str:
    """Who wins at each size, whoever it is, and who is as good: within the winner's interval."""
    parts = []
    for place, size in enumerate(found["sizes"]):
        ranked = sorted(found["methods"], key=lambda method: -float(method["accuracy"][place]))
        names = [f"{method_title(m['name'])} ({m['accuracy'][place]:.1%})" for m in ranked]
        low = float(ranked[0]["intervals"][place][0])
        level = [n for n, m in zip(names, ranked, strict=True) if m["accuracy"][place] >= low][1:]
        said = f", not clearly ahead of {' and '.join(level)}" if level else ""
        parts.append(f"with {int(size):,}, {names[0]}{said}")
    return f"Best {'; '.join(parts)}."


def _how(found: Mapping[str, Any]) -> str:
    """How it was measured."""
    epochs = ", ".join(str(count) for count in found["epochs"])
    return (
        "Share of test passages judged right, with 95% intervals over the test passages; one seed. "
        f"Fine-tuned with a learning rate of {found['learning_rate']:g} for {epochs} epochs; a "
        "random start gets the same. Nothing is chosen by the test file: the last weights count."
    )


def _chart(sizes: Sequence[int], methods: Sequence[Mapping[str, Any]]) -> str:
    """A line a method; the sizes stand evenly, as each is some times the one before."""
    lines = []
    for method in methods:
        name, style = METHODS.get(method["name"], (str(method["name"]), "train"))
        ys = [float(value) for value in method["accuracy"]]
        lines.append(Series(name, [float(n) for n in range(len(ys))], ys, style, legend=""))

    def show_size(place: float) -> str:
        return str(sizes[int(place)]) if place.is_integer() else ""

    title = "Test passages judged right"
    return chart(title, lines, "labelled examples", show_size, "{:.0%}".format, from_zero=True)


def _table(sizes: Sequence[int], methods: Sequence[Mapping[str, Any]]) -> str:
    """A row a method, a column a size."""
    best = [max(float(m["accuracy"][place]) for m in methods) for place in range(len(sizes))]
    rows = []
    for method in methods:
        style = METHODS.get(method["name"], ("", "train"))[1]
        row: list[object] = [Markup(f"{key(style)} {text(method_title(method['name']))}")]
        for place in range(len(sizes)):
            value = float(method["accuracy"][place])
            low, high = method["intervals"][place]
            shown = f"{value:.1%}"
            if value == best[place]:
                shown = f'<b class="ok">{shown}</b>'
            shown += f' <span class="soft">{100 * low:.0f} to {100 * high:.0f}</span>'
            if method["degenerate"][place] and method["name"] != "majority":
                shown += '<br><span class="warning">one answer for all</span>'
            row.append(Markup(shown))
        rows.append(row)
    columns = ["labelled examples", *(f"{size:,}" for size in sizes)]
    return table(columns, rows, range(1, len(columns)))
