"""Every mark, line and legend of every page has a colour, and the legend has those of the marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertwright.inference.attention.maps import AttentionMaps
from bertwright.inference.senses import WordUsage
from bertwright.report import sections
from bertwright.report.attention_page import attention_page
from bertwright.report.comparison.page import comparison_page
from bertwright.report.pages import run_page, vector_page
from bertwright.report.read import read_run
from bertwright.report.senses_page import senses_page
from tests.house.source import PACKAGE
from tests.report.comparison.sample import fits, results, section
from tests.report.finetuned_runs import KINDS, multi_task, write_finetuned
from tests.report.pages import parse
from tests.report.pretrained_runs import examples, write_run

POINTS = np.arange(24, dtype=np.float32).reshape(12, 2)
VALUES = ["sport", "world", "science"] * 4
SHAPES = ("circle", "path", "rect", "line", "polyline")
COLOUR = re.compile(r"#[0-9a-f]{6}|var\(--\w+\)")


def vectors(_: Path) -> str:
    return vector_page("texts", POINTS, ["text"] * 12, VALUES, "kind")


def senses(_: Path) -> str:
    usages = [
        WordUsage(word, sense, f"a {word} {n}", 2)
        for word in ("bank", "bat")
        for n, sense in enumerate(["one", "two"] * 3)
    ]
    found = [
        {
            "model": name,
            "layer": 1,
            "accuracy": [0.5, 0.75],
            "words": {"bank": [0.5, 1], "bat": [0.5, 0.5]},
        }
        for name in ("first", "second")
    ]
    return senses_page(found, [POINTS] * 2, usages)


def attention(_: Path) -> str:
    weights = np.full((2, 3, 4, 4), 0.25, np.float32)
    return attention_page([AttentionMaps("encoder", list("abcd"), list("abcd"), weights)], "mine")


def quickstart(folder: Path) -> str:
    return run_page(read_run(write_run(folder, examples=examples())), section())


def learned(folder: Path) -> str:
    """A page with a section of every kind."""
    shown = examples() | {
        "sections": [
            sections.table("A table", ["a", "b"], [["x", "1"]], numbers=[1]),
            sections.bars("Bars", {"one": 1.0, "two": 2.0}, percent=False),
            sections.lines("Lines", "layer", ["0", "1"], {"first": [0.2, 0.4]}),
            sections.surprisal("A sentence", ["a", "b"], {"one": [1, 2], "two": [2, 1]}),
            sections.heat("Attention", ["a", "b"], ["c", "d"], [[0.1, 0.9], [0.5, 0.5]]),
            sections.words("Words", POINTS.tolist(), ["word"] * 12, VALUES, "kind"),
        ]
    }
    return run_page(read_run(write_run(folder, examples=shown)))


def comparison(folder: Path) -> str:
    rows = *fits("BERT", 0.7, 0.8), *fits("GPT-2", 0.3, 0.4)
    return comparison_page(results(*rows, fractions=(0.1, 1.0)), folder)


def finetuned(make: Callable[[], dict[str, object]]) -> Callable[[Path], str]:
    return lambda folder: run_page(read_run(write_finetuned(folder, make())))


PAGES: dict[str, Callable[[Path], str]] = {
    "plot": vectors,
    "senses": senses,
    "attention": attention,
    "quickstart": quickstart,
    "learned": learned,
    "comparison": comparison,
    "multitask": finetuned(multi_task),
    **{f"finetune {kind}": finetuned(make) for kind, make in KINDS.items()},
}


def rules(page: str) -> list[tuple[set[str], dict[str, str]]]:
    """The classes that each simple selector of the page's style sheets asks for, and its body."""
    css = "".join(re.findall("<style>(.*?)</style>", page, re.DOTALL))
    found = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", css):
        declared = dict(re.findall(r"([\w-]+):\s*([^;]+)", body))
        for selector in selectors.split(","):
            if re.fullmatch(r"(\.[\w-]+)+", selector.strip()):
                found.append(({*selector.strip().strip(".").split(".")}, declared))
    return found


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return PAGES[request.param](tmp_path / "run")


def test_each_shape_has_a_colour(page: str) -> None:
    found = rules(page)
    shapes = [(tag, given) for tag, given in parse(page).seen if tag in SHAPES]
    assert bool(shapes) == ("<svg" in page)
    for tag, given in shapes:
        colours = [given[key] or "" for key in ("fill", "stroke") if key in given]
        classes = {*(given.get("class") or "").split()}
        for wanted, declared in found:
            if wanted <= classes:
                colours += [declared[key] for key in ("fill", "stroke") if key in declared]
        assert any(COLOUR.match(colour) for colour in colours), (tag, given)


def test_each_variable_is_defined(page: str) -> None:
    of_cells = {"--part"}  # each cell of a confusion matrix states its own
    defined = (
        of_cells | {*re.findall(r"(--[\w-]+)\s*:", page)} | {*re.findall(r"\"(--[\w-]+)\"", page)}
    )
    assert {*re.findall(r"var\((--[\w-]+)\)", page)} <= defined


def test_a_legend_has_the_colours_of_the_marks(page: str) -> None:
    found = re.findall(
        r'<ul class="legend">(.*?)</ul>.*?(<svg class="dots".*?)<details>', page, re.DOTALL
    )
    assert bool(found) == ('<svg class="dots"' in page)
    for legend, dots in found:
        keys = re.findall('fill="(.*?)"', legend)
        assert len({*keys}) == len(keys) > 1
        for plot in dots.split('<svg class="dots"')[1:]:
            assert {*re.findall('fill="(.*?)"', plot)} == {*keys}


def test_a_chart_draws_what_its_legend_names(page: str) -> None:
    found = re.findall(
        r"<figcaption>(.*?)</figcaption><svg class=\"chart\"(.*?)</svg>", page, re.DOTALL
    )
    assert bool(found) == ('<svg class="chart"' in page)
    for caption, drawn in found:
        lines = {*re.findall(r'class="line (\w+)"', drawn)}
        named = re.findall(r'class="line (\w+)"', caption)
        assert len({*named}) == len(named)
        assert {*named} <= lines
        assert lines


def test_every_page_with_marks_is_here() -> None:
    templates = {path.name for path in (PACKAGE / "report" / "templates").glob("*.html.j2")}
    names = "page", "macros", "dots", "labelled", "comparison_examples", "learned", "task"
    parts = {f"{name}.html.j2" for name in names}
    assert templates - parts == {
        "attention.html.j2",
        "finetuned.html.j2",
        "comparison.html.j2",
        "pretrained.html.j2",
        "senses.html.j2",
        "vectors.html.j2",
    }
