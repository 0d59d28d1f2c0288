"""What verbs print."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.cli import output
from bertwright.console import say


def test_one_has_no_plural() -> None:
    assert [output.counted(n, "text") for n in (0, 1, 2000)] == ["0 texts", "1 text", "2,000 texts"]


def test_json_is_one_object_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        "a": np.float32(0.5),
        "b": np.arange(3),
        "c": float("nan"),
        "d": Path("Zürich"),
        "e": {1},
    }
    output.print_json(given)
    assert capsys.readouterr().out == (
        '{"a": 0.5, "b": [0, 1, 2], "c": null, "d": "Zürich", "e": [1]}\n'
    )


def test_a_table_takes_brackets_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["[MASK]", 0.25], ["[/red]", None]]
    output.print_table(["token", "[i]share"], rows, "[/b] [red]hot")
    out = capsys.readouterr().out
    for shown in ("[/b] [red]hot", "[i]share", "[MASK]", "[/red]", "0.25"):
        assert shown in out


def test_fields_stand_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_fields({"tokens": 12345, "bf16": True, "loss": 1.23456, "gpu": None})
    assert capsys.readouterr().out == "tokens  12,345\nbf16    yes\nloss    1.235\ngpu     -\n"


def test_errors_and_remarks_leave_results_alone(capsys: pytest.CaptureFixture[str]) -> None:
    say("reading")
    output.complain("no [documents]")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "reading\nbertwright: no [documents]\n"


def test_a_line_that_nobody_can_read_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed terminal, or a full disk under a redirection, ends no training."""

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("sys.stderr", Gone())
    say("step 1")
    output.complain("interrupted")


def test_json_where_the_output_cannot_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, encoding in (("\ud800 Z\u00fcrich", "utf-8"), ("\u6771\u4eac", "latin-1")):
        written = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding, write_through=True))
        output.print_json({"text": text})
        assert written.getvalue().isascii()
        assert json.loads(written.getvalue()) == {"text": text}


@pytest.mark.slow
def test_a_process_among_several_leaves_with_its_code_and_all_it_said(
    command_line: Callable[..., Any],
) -> None:
    for word, code, said in (("--help", 0, "pretrain"), ("pretend", 2, "pretend")):
        done = command_line(word, env={**os.environ, "WORLD_SIZE": "2"})
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
