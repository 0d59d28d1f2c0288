"""`bertwright report`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import JsonOf, Ran
from tests.report.finetuned_runs import topics, write_finetuned
from tests.report.pretrained_runs import write_run


def test_the_page_and_where_it_is(tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    folder, page = write_run(tmp_path / "news"), tmp_path / "page.html"
    assert json_of("report", folder, "--out", page) == {"report": str(page)}
    assert page.is_file()
    assert not (folder / "report.html").exists()
    assert ran("report", folder).out == f"{folder / 'report.html'}\n"
    assert (folder / "report.html").is_file()


def test_the_page_of_a_quickstart_is_at_its_top(tmp_path: Path, ran: Ran) -> None:
    write_run(tmp_path / "quick" / "run")
    assert ran("report", tmp_path / "quick").out == f"{tmp_path / 'quick' / 'report.html'}\n"
    assert (tmp_path / "quick" / "report.html").is_file()
    assert not (tmp_path / "quick" / "run" / "report.html").exists()


def test_data_that_cannot_be_read_or_went_away(tmp_path: Path, ran: Ran) -> None:
    folder = write_run(tmp_path / "news")
    (tmp_path / "shards").mkdir()
    for data, told in (("gone", False), (str(tmp_path / "shards"), True)):
        (folder / "config.toml").write_text(f"data = {json.dumps(data)}\n")
        assert ("without examples: " in ran("report", folder).err) == told
        assert (folder / "report.html").is_file()


def test_a_fine_tuned_run(tmp_path: Path, ran: Ran) -> None:
    folder = write_finetuned(tmp_path / "reviews", topics())
    # files, where a pre-training run has a folder
    (folder / "config.toml").write_text('[data]\ntrain = "train.tsv"\n')
    assert ran("report", folder).out == f"{folder / 'report.html'}\n"
    assert "86.6%" in (folder / "report.html").read_text(encoding="utf-8")
    (folder / "results.json").unlink()  # while the run goes on
    ran("report", folder)
    assert "train.tsv" in (folder / "report.html").read_text(encoding="utf-8")
