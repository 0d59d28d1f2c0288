"""The pictures of the documents, by a headless Chromium (Playwright's, or `--chromium PATH`).

`python docs/pictures/make.py --attention attention.html --ladder report.html` writes `labels.png`,
the chart that a quickstart's page opens with, drawn from the table in
`docs/tutorials/quickstart.md`; `attention.png`, of a page of `bertwright attention`; and
`ladder.png`, of one of `bertwright compare`. A picture whose page is not named stays as it is. It
needs `pip install -e ".[pictures]"`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from bertwright.report.comparison.labelled import STYLES, labelled_chart
from bertwright.report.plots import key

HERE = Path(__file__).parent
STYLES_OF = dict(STYLES.values()) | {"pre-trained, frozen": "frozen"}
"""The line styles of the table's rows."""


def chart_page() -> str:
    """A page with the chart of the table of `docs/tutorials/quickstart.md`, and its legend."""
    page = (HERE.parent / "tutorials" / "quickstart.md").read_text("utf-8")
    (head,) = re.findall(r"^\| method \| (\d.*) \|$", page, re.M)
    sizes = [int(re.sub(r"\D", "", cell)) for cell in head.split("|")]
    rows = re.findall(r"^\| ([^|]+) \| ((?:[\d.]+ %[ |]*)+)$", page, re.M)
    methods = [
        (name, STYLES_OF[name], [float(f) / 100 for f in re.findall(r"[\d.]+", cells)])
        for name, cells in rows
        if name in STYLES_OF
    ]
    css = Path(labelled_chart.__code__.co_filename).parents[1] / "templates" / "page.css"
    legend = "".join(f"<li>{key(style)} {name}</li>" for name, style, _ in methods)
    return (
        f'<meta charset="utf-8"><style>{css.read_text("utf-8")}main{{padding:12px}}</style><main>'
        f'<div class="charts one">{labelled_chart(sizes, methods)}</div>'
        f'<ul class="legend">{legend}</ul>'
    )


def main() -> None:
    """Write the files beside this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attention", type=Path)
    parser.add_argument("--ladder", type=Path)
    parser.add_argument("--chromium", help="path of the browser; unset: Playwright's own")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        chart = Path(folder, "chart.html")
        chart.write_text(chart_page(), encoding="utf-8")
        options = {"executable_path": given.chromium, "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**options)
        for file, name, width, height in (
            (chart, "labels.png", 760, 470),
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
