"""Damaged files of a run: an error that names the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run
from bertwright.report import pages
from bertwright.report.pages import run_page
from bertwright.report.read import read_run
from tests.report.finetuned_runs import classification, write_finetuned
from tests.report.pretrained_runs import write_run


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("results.json", "[1]", r"results\.json.*damaged.*\[1\].*object"),
        ("results.json", "[" * 100_000, r"results\.json.*damaged"),
        ("metrics.jsonl", "[" * 100_000 + "\n", "line 1 .*damaged"),
        ("config.toml", "steps = ", r"config\.toml.*TOML"),
        ("config.toml", "\0", r"config\.toml.*TOML"),
    ],
)
def test_the_command_says_it(
    name: str, content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_finetuned(tmp_path / "r", classification())
    (folder / name).write_text(content)
    assert run(["report", str(folder)]) == 4
    assert re.search(told, capsys.readouterr().err)


def test_a_bug_of_a_page_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bug(results: Any) -> str:
        raise TypeError("no such chart")

    folder = write_finetuned(tmp_path / "r", classification())
    monkeypatch.setattr(pages, "metrics_table", bug)
    assert run(["report", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "TypeError: no such chart" in said
    assert "damaged" not in said
    with pytest.raises(TypeError):
        run(["report", str(folder), "--debug"])


def test_other_configurations_are_shown_as_they_are(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r")
    for content in ("data = 3", "instances = 3", "masking = 1", "steps = [1]", "minutes = nan"):
        (folder / "config.toml").write_text(content)
        assert f"<code>{content.partition(' ')[0]}</code>" in run_page(read_run(folder))
