"""`--help` of verbs with many options shows them in sections."""

from __future__ import annotations

import re

import pytest

from bertwright.cli.app import run
from bertwright.cli.sections import SECTIONS

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("verb", SECTIONS)
def test_help_shows_every_option_in_a_section(verb: str, capsys: Captured) -> None:
    assert run([verb, "--help"]) == 0
    out = capsys.readouterr().out
    titles = re.findall(r"╭─ (.+?) ─", out)
    assert [title for title in titles if title != "Arguments"] == [
        title for title in SECTIONS[verb] if title != "Long texts" or verb != "glue"
    ]


def test_options_stand_in_their_section(capsys: Captured) -> None:
    assert run(["finetune", "--help"]) == 0
    out = capsys.readouterr().out
    data = out[out.index("─ Data ─") : out.index("─ Model and transfer ─")]
    assert "--train STR" in data
    assert "--epochs" not in data
    assert run(["pretrain", "--help"]) == 0
    out = capsys.readouterr().out
    masks = out[out.index("─ Sequences and masks ─") : out.index("─ First weights ─")]
    assert "--masking.mask-share" in masks
    assert "--optimizer" not in masks
