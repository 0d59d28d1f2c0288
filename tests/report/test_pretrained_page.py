"""The page of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.report.pages import run_page, write_report
from bertwright.report.read import read_run
from tests.raising import raises
from tests.report.pages import HOSTILE, parse
from tests.report.pretrained_runs import examples, record, write_run


def test_a_page_is_one_file_without_scripts_or_network(tmp_path: Path) -> None:
    run = write_run(tmp_path / "news", examples=examples())
    path = write_report(read_run(run))
    assert path == run / "report.html"
    page = path.read_text(encoding="utf-8")
    tags = parse(page).seen
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object"}
    linked = {str(attrs["href"])[0] for _, attrs in tags if "href" in attrs}
    assert linked == {"#"}
    assert not [attrs for _, attrs in tags if "src" in attrs]
    assert "@import" not in page
    assert "url(" not in page
    assert "<h1>news</h1>" in page
    assert page.count('<svg class="chart"') == 7
    assert "8.0%" in page
    assert "prefers-color-scheme:dark" in page
    assert [p.name for p in run.iterdir() if p.name.startswith(".")] == []


def test_hostile_text_is_text(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "a<b>&",
        examples=examples(HOSTILE),
        environment={HOSTILE: HOSTILE, "bertwright": HOSTILE, "threads": HOSTILE},
    )
    (run / "config.toml").write_text("model = '''" + HOSTILE[:40] + "'''\n", encoding="utf-8")
    page = run_page(read_run(run))
    tags = {tag for tag, _ in parse(page).seen}
    assert not tags & {"script", "img"}
    assert "alert(" in page
    assert not re.search("[\x00\ud800]", page)
    page.encode("utf-8")
    write_report(read_run(run))


def test_what_is_not_there_has_no_place(tmp_path: Path) -> None:
    page = run_page(
        read_run(write_run(tmp_path / "r", [{"step": 1, "split": "train", "loss": 2.0}]))
    )
    parse(page)
    for absent in ("Examples", "Configuration", "The data", "Masked LM accuracy", "None", "nan"):
        assert absent not in page


def test_numbers_that_are_none_or_not_finite(tmp_path: Path) -> None:
    told = [record(1), {**record(2), "loss": None}, {**record(3), "loss": float("nan")}]
    parse(run_page(read_run(write_run(tmp_path / "r", told))))


def test_the_settings(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", environment={"threads": 2})
    (run / "config.toml").write_text('model = "bert-mini"\n[optimizer]\nlearning_rate = 0.001\n')
    page = run_page(read_run(run))
    for shown in ("optimizer.learning_rate", "2 threads", "bert-mini"):
        assert shown in page


def test_the_best_figure_stands_out_whoever_has_it(tmp_path: Path) -> None:
    found = examples()
    found["sections"][0]["charts"][0]["figures"] = {"BERT": 0.2, "TF-IDF": 0.3}
    shown = run_page(read_run(write_run(tmp_path / "r", examples=found)))
    assert '<li class="right"><span>TF-IDF</span>' in shown
    assert "width:66.7%" in shown


def test_a_run_of_another_objective_has_a_page(tmp_path: Path) -> None:
    found = [
        {"step": n, "tokens": n, "seconds": n, "split": split, "loss": 9.0 - n}
        | {"next_token.loss": 9.0 - n, "next_token.perplexity": 100.0 * n}
        for n in (1, 2, 3)
        for split in ("train", "dev")
    ]
    page = run_page(read_run(write_run(tmp_path / "r", found)))
    parse(page)
    assert re.search("<b>6.000</b><span>next token loss.*held-out", page)
    for name in ("Next token loss", "Next token perplexity"):
        assert page.count(f"<b>{name}</b>") == 1
    for absent in ("Loss, all", "asked LM", "entence"):
        assert absent not in page


def test_a_line_that_a_kill_cut_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "to')
    assert len(read_run(run).records) == 9


def test_no_run(tmp_path: Path) -> None:
    raises(DataError, "absent", read_run, tmp_path / "absent")
    (tmp_path / "results.json").touch()
    raises(DataError, r"results\.json", read_run, tmp_path / "results.json")
    (tmp_path / "results.json").unlink()
    raises(DataError, "metrics.jsonl", read_run, tmp_path)
    write_run(tmp_path / "CoLA")
    raises(DataError, "CoLA", read_run, tmp_path)


@pytest.mark.parametrize("content", ["", "\n", '{"step": 1}\n', '{"loss": null}\n'])
def test_nothing_measured_yet(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(content)
    raises(DataError, "no measurements", read_run, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("examples.json", "{", r"examples\.json.*damaged"),
        ("metrics.jsonl", '{]\n{"step": 1}\n', "line 1 .*damaged"),
        ("metrics.jsonl", "[1]\n", "object"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    run = write_run(tmp_path / "r")
    (run / name).write_text(content)
    raises(DataError, message, read_run, run)


def test_a_place_that_is_no_file_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "mine")
    for out in (tmp_path / "mine", tmp_path / "absent" / "page.html"):
        with pytest.raises(ConfigError, match=f"--out.*{re.escape(str(out))}"):
            write_report(read_run(tmp_path / "mine"), out)
    assert not list(tmp_path.glob("*.partial"))


def test_one_objective_has_one_loss_chart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "news")
    assert "Loss, all objectives" in run_page(read_run(run))
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    alone = [
        {key: value for key, value in json.loads(line).items() if "next_sentence" not in key}
        for line in lines
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in alone))
    page = run_page(read_run(run))
    assert "Loss, all objectives" not in page
    assert "Masked LM loss" in page


@pytest.mark.parametrize(("seconds", "told"), [(7.25, "0:08"), (1801, "30:01"), (9000, "2:30:00")])
def test_time_has_its_unit(tmp_path: Path, seconds: float, told: str) -> None:
    run = write_run(tmp_path / "news", environment={"threads": 1})
    record = {"step": 1, "tokens": 10, "split": "train", "loss": 2.0, "masked_lm.loss": 2.0}
    (run / "metrics.jsonl").write_text(json.dumps(record | {"seconds": seconds}) + "\n")
    page = run_page(read_run(run))
    for shown in (f"<b>{told}</b><span>for 1 step</span>", "1 thread<"):
        assert shown in page, shown


@pytest.mark.parametrize("value", [5e-324, 1e308, 10**400])
def test_numbers_beyond_every_axis(tmp_path: Path, value: float) -> None:
    write_run(tmp_path, [record(step) | {"masked_lm.loss": value} for step in (1, 2)])
    page = run_page(read_run(tmp_path))
    assert "Next sentence loss" in page
    assert ("Masked LM loss" in page) == (value < 1)
