"""The pictures of the documents, by a headless Chromium (Playwright's, or `--chromium PATH`).

`python docs/pictures/make.py --attention attention.html --ladder report.html` writes `labels.png`,
the chart that a quickstart's page opens with, drawn from the table in
`docs/tutorials/quickstart.md`; `race.png`, from the rows of `experiments/speedrun`;
`attention.png`, of a page of `bertwright attention`; and `ladder.png`, of one of `bertwright
compare`. A picture whose page is not named stays as it is. It needs `pip install -e ".[pictures]"`.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from bertwright.report.comparison.labelled import STYLES, labelled_chart
from bertwright.report.plots import Series, chart, key

HERE = Path(__file__).parent
STYLES_OF = dict(STYLES.values()) | {"pre-trained, frozen": "frozen"}
"""The line styles of the table's rows."""
TRIED = {
    "small-budget": "before",
    "counted": "counts",
    "slow": "rate 3e-4",
    "fast": "rate 2e-3",
    "contrast": "contrast",
    "contrast3": "three times",
    "contrast10": "step",
}
"""The recipes of the race that were tried for 6 minutes, in their order, and their short names."""
PROBED = {"SST-2": "tuned", "TREC-6": "random", "STS-B": "frozen"}
"""The tasks of the probes, and the line styles that they have."""


def page_of(charts: str, legend: str = "") -> str:
    """Return a page with charts in the style of all pages, and a legend below them."""
    css = Path(labelled_chart.__code__.co_filename).parents[1] / "templates" / "page.css"
    return (
        f'<meta charset="utf-8"><style>{css.read_text("utf-8")}main{{padding:12px}}</style><main>'
        f'<div class="charts one">{charts}</div><ul class="legend">{legend}</ul>'
    )


def labels_page() -> str:
    """Return a page with the chart of the table of `docs/tutorials/quickstart.md`."""
    page = (HERE.parent / "tutorials" / "quickstart.md").read_text("utf-8")
    (head,) = re.findall(r"^\| method \| (\d.*) \|$", page, re.M)
    sizes = [int(re.sub(r"\D", "", cell)) for cell in head.split("|")]
    rows = re.findall(r"^\| ([^|]+) \| ((?:[\d.]+ %[ |]*)+)$", page, re.M)
    methods = [
        (name, STYLES_OF[name], [float(f) / 100 for f in re.findall(r"[\d.]+", cells)])
        for name, cells in rows
        if name in STYLES_OF
    ]
    legend = "".join(f"<li>{key(style)} {name}</li>" for name, style, _ in methods)
    return page_of(labelled_chart(sizes, methods), legend)


def race_page() -> str:
    """Return a page with the probes of the recipes of the race, by the last layer."""
    rows = HERE.parents[1] / "experiments" / "speedrun" / "results.jsonl"
    records = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    found = {
        record["recipe"]: record["scores"]
        for record in records
        if record["what"] == "probe" and record["minutes"] == 6
    }
    scores = [found[recipe] for recipe in TRIED]
    xs = list(range(len(TRIED)))
    lines = [
        Series(task, xs, [each[f"{task}, last"] / 100 for each in scores], style)
        for task, style in PROBED.items()
    ]
    title = "Probes with 1,000 labels, after 6 minutes"
    return page_of(chart(title, lines, "recipe", percent=True, x_labels=list(TRIED.values())))


def main() -> None:
    """Write the files beside this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attention", type=Path)
    parser.add_argument("--ladder", type=Path)
    parser.add_argument("--chromium", help="path of the browser; unset: Playwright's own")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        labels, race = Path(folder, "labels.html"), Path(folder, "race.html")
        labels.write_text(labels_page(), encoding="utf-8")
        race.write_text(race_page(), encoding="utf-8")
        options = {"executable_path": given.chromium, "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        for file, name, width, height in (
            (labels, "labels.png", 760, 470),
            (race, "race.png", 760, 440),
            (given.attention, "attention.png", 820, 1010),
            (given.ladder, "ladder.png", 820, 690),
        ):
            if file is None:
                continue
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(file.resolve().as_uri())
            page.screenshot(path=HERE / name)
        browser.close()


if __name__ == "__main__":
    main()
