"""Progress: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys
import time

import pytest

from bertwright.cli import bars


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_quiet_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with bars.bar("Reading", "documents") as on_progress:
        for done in range(100):
            on_progress(done, 100)
    assert capsys.readouterr() == ("", "")


def test_a_line_when_one_is_due(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 31.0, 40.0])
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(clock))
    with bars.bar("Reading", "documents") as on_progress:
        for done in (1000, 3100, 4000):
            on_progress(done, 6200)
    captured = capsys.readouterr()
    assert captured.err == "Reading: 3,100 of 6,200 documents (50 %), 100/s, 0:31 left\n"
    assert captured.out == ""


def test_what_was_loaded_or_done_before_is_of_no_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 20.0, 40.0])  # 20 seconds of loading, and a run that is resumed
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(clock))
    with bars.bar("Embedding", "texts") as on_progress:
        on_progress(5000, 9000)
        on_progress(7000, 9000)
    assert capsys.readouterr().err == "Embedding: 7,000 of 9,000 texts (78 %), 100/s, 0:20 left\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with bars.bar("Reading", "bytes") as on_progress:
        on_progress(5_000_000, 10_000_000)
    assert "Reading" in terminal.getvalue()
    assert "5.0 of 10.0 MB (50 %)" in terminal.getvalue()


def test_no_bar_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with bars.bar("Encoding", "tokens"):
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
    assert bars.describe(done, total, seconds, unit) == text
