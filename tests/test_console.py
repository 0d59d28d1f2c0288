"""Progress: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys
import time

import pytest

from bertwright import console
from tests.raising import assert_names


def on_a_terminal(patch: pytest.MonkeyPatch) -> io.StringIO:
    """Have a standard error that says it is a terminal."""
    made = io.StringIO()
    made.isatty = lambda: True  # type: ignore[method-assign]
    patch.setattr(sys, "stderr", made)
    patch.setenv("TERM", "xterm")
    return made


def test_quiet_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with console.bar("Reading", "documents") as on_progress:
        for done in range(100):
            on_progress(done, 100)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "done", "names"),
    [
        (
            [0.0, 10.0, 31.0, 40.0],
            [1000, 3100, 4000],
            ["3,100 of 6,200 texts", "50 %", "100/s", "0:31"],
        ),
        # 20 seconds of loading, and a run that is resumed, are of no rate
        ([0.0, 20.0, 40.0], [2200, 4200], ["4,200 of 6,200 texts", "68 %", "100/s", "0:20"]),
    ],
)
def test_a_line_when_one_is_due(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: list[float],
    done: list[int],
    names: list[str],
) -> None:
    clock = iter(seconds)
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.bar("Reading", "texts") as on_progress:
        for each in done:
            on_progress(each, 6200)
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert_names(line, "Reading", *names)


def test_no_lines_beside_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    for lines in (True, False):
        with console.bar("Reading", "texts", lines) as on_progress:
            on_progress(1, 2)
        assert (capsys.readouterr().err != "") == lines


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with console.bar("Reading", "bytes") as on_progress:
        on_progress(5_000_000, 10_000_000)
    assert "Reading" in terminal.getvalue()
    assert "5.0 of 10.0 MB (50 %)" in terminal.getvalue()


def test_no_bar_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with console.bar("Encoding", "tokens"):
        time.sleep(0.6)
    assert "Encoding" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("done", "total", "seconds", "unit", "text"),
    [
        (0, None, 0.0, "documents", "0 documents"),
        (500, None, 2.0, "", "500, 250/s"),
        (3_000_000, None, 2.0, "bytes", "3.0 MB, 1.5 MB/s"),
        (20_000, 40_000, 2.0, "lines", "20,000 of 40,000 lines (50 %), 10,000/s, 0:02 left"),
        (50, 40, 1.0, "lines", "50 of 40 lines (125 %), 50/s, 0:00 left"),
    ],
)
def test_describe(done: int, total: int | None, seconds: float, unit: str, text: str) -> None:
    assert console.describe(done, total, seconds, unit) == text


def test_steps_are_lines_when_one_is_due(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 31.0, 31.0, 40.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.step_bars("all") as on_step:
        on_step("first", 60, 0, 240)
        on_step("second", 60, 60, 240)
        on_step("third", 120, 120, 240)
        on_step("", 0, 240, 240)
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert_names(line, "all", "25 %", "3:00", "second")


def test_two_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_a_terminal(monkeypatch)
    with console.step_bars("all") as on_step:
        on_step("the first step", 60, 0, 240)
        time.sleep(0.8)
    assert "the first step" in shown.getvalue()
    assert "at most 4:00 left" in shown.getvalue() or "at most 3:59 left" in shown.getvalue()
