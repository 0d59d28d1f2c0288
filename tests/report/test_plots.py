"""Charts as SVG."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.report.plots import Series, chart, labels, ticks
from tests.raising import assert_names

NUMBERS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False, allow_subnormal=False)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 9e6, [0, 2e6, 4e6, 6e6, 8e6, 1e7]),
        (0.45, 0.7, [0.45, 0.5, 0.55, 0.6, 0.65, 0.7]),
        (3.0, 3.0, [3, 4, 5, 6]),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@given(NUMBERS, NUMBERS)
def test_ticks_cover(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    found = ticks(low, high)
    assert 2 <= len(found) <= 9, found
    step = found[1] - found[0]
    assert found[0] <= low + 1e-6 * step
    assert found[-1] >= high - 1e-6 * step


def draw(*series: Series) -> str:
    return chart("Loss", series, "tokens")


def test_a_chart_is_xml_with_its_lines() -> None:
    drawn = draw(
        Series("training", [1, 2, 3], [5.0, 4.0, 3.5]),
        Series("held out", [2, 3], [4.2, 3.9], "dev"),
        Series("baseline", [], [4.5], "baseline"),
    )
    root = ET.fromstring(drawn)
    assert len(list(root.iter("circle"))) == 2
    assert "held out: 3.9 at 3" in drawn
    styles = [path.get("class") for path in root.iter("path")]
    for style in ("line train", "line dev", "line baseline"):
        assert style in styles


def test_points_that_are_no_numbers_are_left_out() -> None:
    drawn = draw(Series("training", [1, 2, 3], [1.0, math.nan, math.inf]))
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert draw(Series("training", [1], [math.nan])) == ""
    assert draw() == ""


def test_names_are_escaped() -> None:
    drawn = draw(Series('<script>"&', [1, 2], [1, 2], "dev"))
    assert "<script>" not in drawn
    ET.fromstring(drawn)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_every_point_is_inside(points: list[tuple[float, float]]) -> None:
    xs = sorted(abs(x) for x, _ in points)
    drawn = draw(Series("a", xs, [y for _, y in points], "dev"))
    circles = list(ET.fromstring(drawn).iter("circle"))
    assert circles
    for circle in circles:
        assert 0 <= float(circle.get("cx", "")) <= 520
        assert 0 <= float(circle.get("cy", "")) <= 262


def test_marks_of_an_axis() -> None:
    assert labels(ticks(0.0, 1.0)) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert labels(ticks(0.0, 1.2e-4)) == ["0", "5e-05", "0.0001", "0.00015"]
    assert labels(ticks(0.0, 10.0)) == ["0", "2", "4", "6", "8", "10"]
    assert labels(ticks(0.0, 9e6)) == ["0", "2M", "4M", "6M", "8M", "10M"]
    assert labels(ticks(0.05, 0.09), percent=True) == ["5%", "6%", "7%", "8%", "9%"]
    assert labels(ticks(0.2301, 0.2305), percent=True)[0] == "23.01%"


@given(NUMBERS, NUMBERS)
def test_labels_of_an_axis_differ(a: float, b: float) -> None:
    found = ticks(min(a, b), max(a, b))
    for percent in (False, True):
        assert len(set(labels(found, percent))) == len(found)


def test_a_chart_says_in_words_what_it_shows() -> None:
    drawn = draw(
        Series("training", [1, 2, 3], [5.0, 4.0, 3.5]),
        Series("baseline", [], [4.5], "baseline"),
    )
    told = next(n for n in ET.fromstring(drawn) if n.tag == "svg").get("aria-label")
    assert_names(told, "Loss", "training from 5 to 3.5", "baseline 4.5")


def test_a_long_line_is_thinned_and_keeps_its_end() -> None:
    xs = list(range(20_001))
    drawn = draw(Series("held out", xs, [float(x % 7) for x in xs], "dev"))
    assert len(drawn) < 15_000
    paths = [p for p in ET.fromstring(drawn).iter("path") if p.get("class") == "line dev"]
    path = paths[-1]  # behind that of the legend
    points = path.get("d", "")[1:].split("L")
    assert 400 < len(points) <= 500
    assert points[-1].startswith("506.0 ")
