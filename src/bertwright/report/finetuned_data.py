"""What a fine-tuned run was made from, for its page: lengths, what was tuned, the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from bertwright.report.html import Markup, table, text
from bertwright.report.numbers import count, figure, number
from bertwright.report.plots import histogram


def lengths_section(lengths: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """How long the texts are beside the window, and what became of long ones."""
    found = {str(split): mapping(each) for split, each in lengths.items() if each}
    if not found:
        return ""
    lost = {split: number(each.get("cut")) or 0 for split, each in found.items()}
    window, stride = task.get("max_length"), task.get("stride")
    said = f"A window holds {window} tokens; neighbours share {stride}. " if window else ""
    if any(lost.values()):
        gone = " and ".join(
            f"{count(cut)} of {count(found[split].get('examples'))} examples of {split} "
            f"({count(found[split].get('tokens_cut'))} tokens)"
            for split, cut in lost.items()
            if cut
        )
        said += f"Something was cut of {gone}."
    else:
        said += "Nothing was cut."
    quantiles = (
        ("median_tokens", "tokens, median"),
        ("p90_tokens", "tokens, nine of ten have no more"),
        ("p99_tokens", "tokens, 99 of 100 have no more"),
        ("longest_tokens", "tokens, the longest"),
    )
    rows = [
        ["examples", *(count(each.get("examples")) for each in found.values())],
        *([name, *(count(each.get(key)) for each in found.values())] for key, name in quantiles),
        ["read in several windows", *map(_in_windows, found.values())],
        ["windows in all", *(count(each.get("windows")) for each in found.values())],
        ["examples cut", *(count(cut) for cut in lost.values())],
        ["tokens cut", *(count(each.get("tokens_cut")) for each in found.values())],
    ]
    columns = ["", *found]
    made = table(columns, rows, range(1, len(columns)))
    drawn = _histograms(found, number(window))
    return f"<h2>Lengths, and what was cut</h2><p>{text(said)}</p>{drawn}{made}"


def _histograms(found: Mapping[str, Mapping[str, Any]], window: float | None) -> str:
    """Tokens of the examples of each split over one axis, and where the window ends."""
    shown = {split: mapping(each.get("histogram")) for split, each in found.items()}
    ends = {
        split: int(each["width"]) * len(each["counts"])
        for split, each in shown.items()
        if number(each.get("width")) and each.get("counts")
    }
    if not ends:
        return ""
    end = float(max(ends.values()))
    if window is not None and window <= 2 * end:
        end = max(end, 1.05 * window)
    figures = "".join(
        histogram(
            f"Tokens of an example, {split}",
            [int(each) for each in shown[split]["counts"]],
            int(shown[split]["width"]),
            int(number(shown[split].get("beyond")) or 0),
            "tokens",
            end,
            None if window is None else (f"window, {count(window)}", window),
            "dev" if split == "dev" else "train",
        )
        for split in ends
    )
    return f'<div class="charts">{figures}</div>'


def _in_windows(lengths: Mapping[str, Any]) -> str:
    several, whole = number(lengths.get("in_windows")), number(lengths.get("examples"))
    return f"{count(several)} ({several / whole:.1%})" if several and whole else count(several)


def tuned_section(found: Mapping[str, Any]) -> str:
    """What was chosen on dev, and what it does."""
    meaning = {
        "null_threshold": "no answer where its score is above the best span's by more than this",
        "best_f1_threshold": "the null threshold of the best F1 on these examples",
        "best_exact_match_threshold": "the null threshold of most exact matches on these examples",
    }
    rows = [
        [Markup(f"<code>{text(name)}</code>"), figure(value), meaning.get(str(name), "")]
        for name, value in found.items()
        if value is not None
    ]
    return f"<h2>Tuned on dev</h2>{table(['', 'value', ''], rows, (1,))}" if rows else ""


def data_section(found: Mapping[str, Any]) -> str:
    """Files, sizes, and which column was taken for what."""
    rows = []
    for split, each in found.items():
        of = mapping(each)
        columns = of.get("columns")
        if isinstance(columns, Mapping):
            columns = ", ".join(f"{key}: {value}" for key, value in columns.items() if value)
        file = PurePath(str(of.get("file", ""))).name
        rows.append(
            [
                split,
                file,
                count(of.get("examples")),
                _skipped(of.get("skipped")),
                of.get("format") or "-",
                columns or "-",
            ]
        )
    columns_ = ["", "file", "examples", "rows skipped", "format", "columns"]
    return f"<h2>The data</h2>{table(columns_, rows, (2, 3))}" if rows else ""


def _skipped(found: object) -> str:
    """How many rows, for each reason."""
    rows = {reason: mapping(each).get("count") for reason, each in mapping(found).items()}
    return ", ".join(f"{reason}: {count(each)}" for reason, each in rows.items()) or "0"


def mapping(found: object) -> Mapping[str, Any]:
    """What was found, or nothing where it is no mapping."""
    return found if isinstance(found, Mapping) else {}
