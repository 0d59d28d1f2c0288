"""What a model does with texts, on the page: blanks, pairs, neighbours, and baselines beside it.

`examples.json` of a run, each part optional:

    {"baselines": {"masked_lm.accuracy": 0.05},             # levels drawn into the charts, by key
     "comparison": [{"task", "measure", "count", "figures": {"BERT": 0.3, ...}, "note"}],
     "blanks": [{"text", "truth", "module", "top": [{"token", "probability"}]}],
     "pairs": [{"first", "second", "follows", "probability"}],
     "neighbours": [{"query", "module", "bert": {"text", "module"}, "tfidf": {...}}],
     "note": "how the texts were chosen"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertwright.report.html import Markup, bars, cards, table, text


def comparison(found: Mapping[str, Any]) -> str:
    """Measured figures beside the baselines; the best of a row stands out, whoever it is."""
    contents = []
    for row in found.get("comparison") or []:
        figures = {str(name): float(value) for name, value in row["figures"].items()}
        best = max(figures.values(), default=0.0)
        measure = f"{text(row['measure'])}, of {int(row['count']):,}"
        note = f"<p class='soft'>{text(row['note'])}</p>" if row.get("note") else ""
        shown = bars((name, value, value == best) for name, value in figures.items())
        contents.append(f"<h3>{text(row['task'])}</h3><p class='soft'>{measure}</p>{shown}{note}")
    return f"<h2>Beside the obvious baselines</h2>{cards(contents)}" if contents else ""


def examples(found: Mapping[str, Any]) -> str:
    """The texts themselves."""
    parts = [
        _blanks(found.get("blanks") or []),
        _pairs(found.get("pairs") or []),
        _neighbours(found.get("neighbours") or []),
    ]
    if not any(parts):
        return ""
    note = f"<p class='soft'>{text(found['note'])}</p>" if found.get("note") else ""
    return f"<h2>Examples</h2>{note}{''.join(parts)}"


def _blanks(blanks: list[Mapping[str, Any]]) -> str:
    """Each text with what the model would put there."""
    contents = []
    for blank in blanks:
        shown = text(blank["text"]).replace("[MASK]", "<mark>[MASK]</mark>")
        guesses = bars(
            (guess["token"], float(guess["probability"]), guess["token"] == blank["truth"])
            for guess in blank["top"]
        )
        truth = f"in truth <b>{text(blank['truth'])}</b>, in {text(blank['module'])}"
        contents.append(f"<p>{shown}</p>{guesses}<p class='soft'>{truth}</p>")
    return f"<h3>Blanks filled</h3>{cards(contents)}" if contents else ""


def _pairs(pairs: list[Mapping[str, Any]]) -> str:
    """Does the second follow the first?"""
    rows = []
    for pair in pairs:
        probability = float(pair["probability"])
        right = (probability > 0.5) == bool(pair["follows"])
        rows.append(
            [
                Markup(
                    f"{text(pair['first'])}<br><span class='soft'>then</span> "
                    f"{text(pair['second'])}"
                ),
                "follows" if pair["follows"] else "from elsewhere",
                Markup(_class_of(right, f"{probability:.1%}")),
            ]
        )
    columns = ["a pair", "in truth", "BERT: follows"]
    return "<h3>Next sentences judged</h3>" + table(columns, rows, (2,)) if rows else ""


def _neighbours(neighbours: list[Mapping[str, Any]]) -> str:
    """The nearest sentence of each query, by vectors and by words."""
    rows = [
        [
            _sentence(each["query"], each["module"]),
            *(
                _sentence(each[name]["text"], each[name]["module"], each["module"])
                for name in ("bert", "tfidf")
            ),
        ]
        for each in neighbours
    ]
    columns = ["a sentence", "nearest by BERT's vectors", "nearest by TF-IDF"]
    return "<h3>Nearest sentences</h3>" + table(columns, rows, even=True) if rows else ""


def _sentence(sentence: str, module: str, wanted: str | None = None) -> Markup:
    """A sentence above where it is from; the module that was looked for stands out."""
    shown = _class_of(module == wanted, text(module))
    return Markup(f"{text(sentence)}<br><span class='soft'>{shown}</span>")


def _class_of(right: bool, shown: str) -> str:
    return f'<span class="ok">{shown}</span>' if right else shown
