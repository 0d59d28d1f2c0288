"""Make the sections of a run's page that show what its model has learned, as plain values.

`recipes/learned` makes sections with the functions below and writes them to `examples.json`, from
which the page reads them. A section has a `kind`, a `title`, a `note`, and the values of its kind:

| kind | values |
|---|---|
| `table` | `columns`, `rows` of cells, `numbers` (columns that are aligned to the right), `even` |
| `bars` | `charts`: `name`, `note`, `figures` (name -> value), `percent`, `lower` of each chart |
| `blanks` | `blanks`: `text` with a mask, `truth`, `source`, `top` (token, probability) of each |
| `lines` | `x_name`, `x_labels`, `lines`: name -> ys, `percent` |
| `surprisal` | `tokens`, `series`: name -> bits of each token |
| `heat` | `rows`, `columns`, `values` of cells from 0 to 1 |
| `words` | `points`, `texts`, `values`, `column`: words on a plane |
| `dots` | the same for sentences, which are shown as dots |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from bertwright.report.plots import Series, chart
from bertwright.report.vector_plot import dots_of

Section = dict[str, Any]
STYLES = ("dev", "words", "random", "frozen")
"""The styles of the lines of a chart, in the order of the lines."""


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    numbers: Sequence[int] = (),
    even: bool = False,
) -> Section:
    """Return a table.

    Args:
        title: the heading.
        columns: the names of the columns.
        rows: the cells of each row, as they are shown.
        note: a sentence below the heading.
        numbers: the columns that are aligned to the right.
        even: whether all columns have the same width, for texts side by side.
    """
    return {
        "kind": "table",
        "title": title,
        "note": note,
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "numbers": list(numbers),
        "even": even,
    }


def bars(
    title: str, figures: Mapping[str, float], percent: bool, note: str = "", lower: bool = False
) -> Section:
    """Return a bar chart, whose best bar is coloured.

    Args:
        title: the heading.
        figures: the value of each bar, by its name.
        percent: whether the values are fractions that are shown in percent.
        note: a sentence below the heading.
        lower: whether the lowest value is the best.
    """
    chart = {"name": "", "note": "", "figures": figures, "percent": percent, "lower": lower}
    return {"kind": "bars", "title": title, "note": note, "charts": [chart]}


def fractions_side_by_side(
    title: str, charts: Mapping[str, tuple[str, Mapping[str, float]]], note: str = ""
) -> Section:
    """Return several bar charts of fractions; `charts` has the note and the bars of each."""
    named = [
        {"name": name, "note": own, "figures": figures, "percent": True, "lower": False}
        for name, (own, figures) in charts.items()
    ]
    return {"kind": "bars", "title": title, "note": note, "charts": named}


def blanks(title: str, found: Sequence[Mapping[str, Any]], note: str = "") -> Section:
    """Return texts with a masked word, and the most probable tokens for it.

    Each has the keys `text`, `truth`, `source` and `top`, pairs of a token and its probability.
    """
    return {"kind": "blanks", "title": title, "note": note, "blanks": list(found)}


def lines(
    title: str,
    x_name: str,
    x_labels: Sequence[str],
    ys: Mapping[str, Sequence[float]],
    note: str = "",
    percent: bool = False,
) -> Section:
    """Return a line chart with named points on the x axis; `ys` has the values of each line."""
    return {
        "kind": "lines",
        "title": title,
        "note": note,
        "x_name": x_name,
        "x_labels": list(x_labels),
        "lines": {name: list(values) for name, values in ys.items()},
        "percent": percent,
    }


def surprisal(
    title: str, tokens: Sequence[str], series: Mapping[str, Sequence[float]], note: str = ""
) -> Section:
    """Return a sentence with the bits of each token; `series` has those of one or two models."""
    return {
        "kind": "surprisal",
        "title": title,
        "note": note,
        "tokens": list(tokens),
        "series": {name: list(bits) for name, bits in series.items()},
    }


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    note: str = "",
) -> Section:
    """Return a heat map of a matrix of fractions."""
    return {
        "kind": "heat",
        "title": title,
        "note": note,
        "rows": list(rows),
        "columns": list(columns),
        "values": [list(map(float, row)) for row in values],
    }


def words(
    title: str,
    points: Sequence[Sequence[float]],
    texts: Sequence[str],
    values: Sequence[str],
    column: str,
    note: str = "",
) -> Section:
    """Return a plot of words on a plane, coloured by the values of a column."""
    return {
        "kind": "words",
        "title": title,
        "note": note,
        "points": [list(point) for point in points],
        "texts": list(texts),
        "values": list(values),
        "column": column,
    }


def dots(
    title: str,
    points: Sequence[Sequence[float]],
    texts: Sequence[str],
    values: Sequence[str],
    column: str,
    note: str = "",
) -> Section:
    """Return a plot of sentences on a plane, coloured by the values of a column."""
    return {**words(title, points, texts, values, column, note), "kind": "dots"}


def prepared(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of `learned.html.j2` for a section of `examples.json`."""
    variables = dict(section)
    if section["kind"] == "lines":
        variables["chart"] = _chart(section)
    elif section["kind"] == "bars":
        variables["charts"] = [{**chart, "bars": _bars(chart)} for chart in section["charts"]]
    elif section["kind"] == "blanks":
        variables["blanks"] = [
            {
                **blank,
                "bars": [
                    (token, probability, f"{probability:.1%}", token == blank["truth"])
                    for token, probability in blank["top"]
                ],
            }
            for blank in section["blanks"]
        ]
    elif section["kind"] in ("words", "dots"):
        points = np.array(section["points"])
        variables["plot"] = dots_of(points, section["texts"], section["values"], section["column"])
    elif section["kind"] == "surprisal":
        most = max((max(bits, default=0.0) for bits in section["series"].values()), default=0.0)
        variables["most"] = max(most, 1e-9)
    return variables


def _bars(chart: Mapping[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Return the name, the value, the shown value of each bar, and whether it is the best."""
    figures: Mapping[str, float] = chart["figures"]
    best = (min if chart["lower"] else max)(figures.values())
    form = "{:.1%}" if chart["percent"] else "{:.3f}"
    return [(name, value, form.format(value), value == best) for name, value in figures.items()]


def _chart(section: Mapping[str, Any]) -> Markup:
    names = section["lines"]
    places = [float(number) for number in range(len(section["x_labels"]))]
    series = [
        Series(name, places, ys, style)
        for (name, ys), style in zip(names.items(), STYLES, strict=False)
    ]
    return chart(
        section["title"],
        series,
        section["x_name"],
        section["percent"],
        from_zero=True,
        x_labels=section["x_labels"],
    )
