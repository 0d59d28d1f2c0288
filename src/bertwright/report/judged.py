"""What a fine-tuned model gets wrong: confusion matrix, classes, calibration, the worst errors.

Calibration: examples in bins by the probability the model gave its answer; the error is the mean
distance between that probability and the share that was right, weighted by the examples of a bin
(Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertwright.report.html import Markup, cards, folded, table, text
from bertwright.report.numbers import number
from bertwright.report.plots import reliability

MOST_CLASSES = 30
"""A matrix of more is no longer read; its most confused pairs are."""
MOST_PAIRS = 20
MOST_ROWS = 40
"""Classes that stand open; a longer table is folded away."""
LONGEST_TEXT = 400
"""Characters of an example's text that stand open."""


def confusion(found: Mapping[str, Any] | None) -> str:
    """A heat-mapped table, or the most confused pairs where there are many classes."""
    if not found or not found.get("labels"):
        return ""
    labels = [str(label) for label in found["labels"]]
    if found.get("by_label"):
        return _by_label(labels, found["by_label"])
    if not found.get("counts"):
        return ""
    counts = [[int(count) for count in row] for row in found["counts"]]
    shown = _matrix(labels, counts) if len(labels) <= MOST_CLASSES else ""
    pairs = _pairs(labels, counts) if len(labels) > 6 else ""
    return f"<h2>Which class is taken for which</h2>{shown}{pairs}" if shown or pairs else ""


def _matrix(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Rows in truth, columns predicted; the deeper, the larger the share of its row."""
    upright = max(map(len, labels)) > 5 and len(labels) > 4
    style = ' class="upright"' if upright else ""
    head = "".join(
        f'<th scope="col"{style}><span><bdi>{text(label)}</bdi></span></th>' for label in labels
    )
    kind = "heat dense" if len(labels) > 12 else "heat"
    rows = []
    for place, (label, row) in enumerate(zip(labels, counts, strict=False)):
        whole = sum(row)
        cells = []
        for column, count in enumerate(row):
            share = count / whole if whole else 0.0
            right = "right" if column == place else "wrong"
            said = f"{label} taken for {labels[column]}: {count:,} of {whole:,}, {share:.1%}"
            cells.append(
                f'<td class="{right}{"" if count else " none"}" '
                f'style="--share:{100 * share:.0f}%" title="{text(said)}">{count:,}</td>'
            )
        rows.append(
            f'<tr><th scope="row" title="{text(label)}"><bdi>{text(label)}</bdi></th>'
            f"{''.join(cells)}</tr>"
        )
    return (
        '<p class="soft">Rows: in truth; columns: predicted.</p><div class="card">'
        f'<table class="{kind}"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _by_label(labels: Sequence[str], cells: Sequence[Sequence[Sequence[int]]]) -> str:
    """Two by two for each label, a row each: it holds or not, it was given or not."""
    rows = [
        [_isolated(label), *(f"{int(n):,}" for n in (has[1], has[0], has_not[1], has_not[0]))]
        for label, (has_not, has) in zip(labels, cells, strict=False)
    ]
    columns = ["label", "given, rightly", "missed", "given, wrongly", "left out, rightly"]
    made = table(columns, rows, (1, 2, 3, 4))
    if len(rows) > MOST_ROWS:
        made = folded(f"{len(rows)} labels", made)
    return f"<h2>Which label is given or missed</h2>{made}"


def _pairs(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The pairs confused most often."""
    pairs = sorted(
        (
            (count, labels[gold], labels[column], count / sum(row))
            for gold, row in enumerate(counts)
            for column, count in enumerate(row)
            if count and gold != column
        ),
        key=lambda pair: -pair[0],
    )
    most = MOST_PAIRS if len(labels) > MOST_CLASSES else 5
    rows = [
        [_isolated(gold), _isolated(taken), f"{count:,}", f"{share:.1%}"]
        for count, gold, taken, share in pairs[:most]
    ]
    columns = ["in truth", "taken for", "times", "of that class"]
    return "<h3>Most confused</h3>" + table(columns, rows, (2, 3)) if rows else ""


def per_class(rows: Sequence[Mapping[str, Any]]) -> str:
    """Precision, recall and F1 of every class."""
    if not rows:
        return ""
    shown = []
    for row in rows:
        f1 = number(row.get("f1")) or 0.0
        wide = max(0.0, min(100.0, 100 * f1 if f1 <= 1 else f1))
        shown.append(
            [
                _isolated(row.get("label", "")),
                *(_percent(row.get(key)) for key in ("precision", "recall")),
                Markup(
                    f"{_percent(row.get('f1'))}<i class='bar'><i style='width:{wide:.0f}%'></i></i>"
                ),
                f"{int(number(row.get('support')) or 0):,}",
            ]
        )
    columns = ["class", "precision", "recall", "F1", "examples"]
    made = table(columns, shown, (1, 2, 3, 4))
    if len(shown) > MOST_ROWS:
        made = folded(f"{len(shown)} classes", made)
    return f"<h2>Each class</h2>{made}"


def calibration(found: Mapping[str, Any] | None) -> str:
    """The reliability diagram, its number, and what they say."""
    bins = [
        (confidence, accuracy, int(count))
        for each in (found or {}).get("bins") or []
        if (count := number(each.get("count")))
        and (confidence := number(each.get("confidence"))) is not None
        and (accuracy := number(each.get("accuracy"))) is not None
    ]
    if not found or not bins:
        return ""
    whole = sum(count for _, _, count in bins)
    error = number(found.get("error"))
    if error is None:
        error = sum(abs(c - a) * count for c, a, count in bins) / whole
    tilt = sum((c - a) * count for c, a, count in bins) / whole
    sure = sum(c * count for c, _, count in bins) / whole
    if abs(tilt) < 0.01:
        says = "On the whole it is as often right as it says"
    else:
        says = "It claims more than it keeps" if tilt > 0 else "It is right more often than it says"
    sentence = (
        f"{says}: mean probability of its answers {sure:.1%}, share that is right "
        f"{sure - tilt:.1%}. Expected calibration error <b>{error:.3f}</b>, over {whole:,} answers."
    )
    drawn = reliability("Probability given, and share that was right", bins)
    return (
        f'<h2>Is its probability to be believed?</h2><p>{sentence}</p><div class="charts one">'
        f"{drawn}</div>"
    )


def worst(errors: Sequence[Mapping[str, Any]], kind: str, form: str = "") -> str:
    """The errors the model was surest of, with their texts; `form` is that of the dev file."""
    units = (("SQuAD", "question"), ("Parquet", "row"), ("JSON with", "row"))
    unit = next((unit for begin, unit in units if form.startswith(begin)), "line")
    shown = [_error(error, kind, unit) for error in errors]
    return f"<h2>The worst errors</h2>{cards(shown)}" if shown else ""


def _error(error: Mapping[str, Any], kind: str, unit: str) -> str:
    """One error: its texts, what is true, what was said, where it stands."""
    parts = [_text(error[key]) for key in ("text", "text2") if error.get(key) not in (None, "")]
    said = _isolated(_plain(error.get("predicted"), kind))
    truth = _isolated(_plain(error.get("gold"), kind))
    parts.append(
        f'<dl><dt>in truth</dt><dd class="ok">{truth}</dd>'
        f'<dt>predicted</dt><dd class="warning">{said}</dd></dl>'
    )
    facts = []
    score = number(error.get("score"))
    if score is not None:
        facts.append(f"off by {score:.3g}" if kind == "regression" else f"given {score:.1%}")
    if error.get("line"):
        facts.append(f"{unit} {text(error['line'])}")
    return "".join(parts) + (f'<p class="soft">{" · ".join(facts)}</p>' if facts else "")


def _text(value: object) -> str:
    """A text in its own direction, the end of a long one folded away."""
    whole = value if isinstance(value, str) else " ".join(map(str, _many(value)))
    if len(whole) <= LONGEST_TEXT:
        return f'<p dir="auto">{text(whole)}</p>'
    return (
        f'<p dir="auto">{text(whole[:LONGEST_TEXT])}…</p>'
        '<details class="small"><summary>all of it</summary>'
        f'<p dir="auto">{text(whole)}</p></details>'
    )


def _plain(value: object, kind: str) -> str:
    """A label, labels, tags, a number or an answer as text."""
    if value is None or value == "" or value == []:
        return "no answer" if kind == "span" else "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return (" " if kind == "tagging" else ", ").join(map(str, _many(value)))


def _many(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _percent(value: object) -> str:
    found = number(value)
    return "-" if found is None else f"{found:.1%}" if found <= 1 else f"{found:.1f}"


def _isolated(value: object) -> Markup:
    """A name whose direction does not turn its neighbours."""
    return Markup(f"<bdi>{text(value)}</bdi>")
