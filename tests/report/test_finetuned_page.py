"""The page of a fine-tuned run, of every kind of task."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.report.pages import run_page, write_report
from bertwright.report.read import read_run
from bertwright.report.verdict import verdict
from tests.report.finetuned_runs import (
    KINDS,
    classification,
    error,
    many_classes,
    multi_task,
    span,
    topics,
    write_finetuned,
)
from tests.report.pages import HOSTILE, parse


def page_of(folder: Path, found: dict[str, Any]) -> str:
    return run_page(read_run(write_finetuned(folder, found)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_every_kind_is_one_file(kind: str, tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / kind, KINDS[kind]())
    path = write_report(read_run(run))
    page = path.read_text(encoding="utf-8")
    tags = parse(page).seen
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object", "input"}
    assert not [attrs for _, attrs in tags if {"src", "href"} & attrs.keys()]
    for shown in (f"<h1>{kind}</h1>", "worth it?", "Curves by seed", "No text was"):
        assert shown in page or (kind == "topics" and shown == "No text was")
    for absent in ("None", ">nan", "nan%"):
        assert absent not in page, absent
    svg = [attrs["aria-label"] for _, attrs in tags if "aria-label" in attrs]
    assert any(told.startswith("Training loss: ") for told in svg)
    assert svg[0].startswith("Dev ")


def test_the_sections_of_classification(tmp_path: Path) -> None:
    page = page_of(tmp_path / "r", classification())
    for shown in (
        "77.5% ± 23.1",
        "89.2 to 93.1",
        "Perhaps: 77.5% accuracy against 82.2%",
        "3 examples of dev",
        '<span class="error">degenerate</span>',
        '<span class="ok">best, saved</span>',
        "positive predicted as negative: 5 of 357, 1.4%",
        "<b>0.053</b>",
        "800 predictions",
        "Overconfident",
        "probability 99.3% · line 214",
        "12 (1.5%)",
        "learning_rate",
        "train.tsv",
        "text: sentence, label: label",
        "all of it",  # a long text is folded, and whole
        classification()["worst"][2]["text"],
        '<p dir="auto">פעמיים',
    ):
        assert shown in page, shown


def test_the_score_of_an_error_is_named_by_the_kind_of_task(tmp_path: Path) -> None:
    rank = error("a b", "rank 1", "rank 4", 0.75, 7, "c d")
    for kind, shown in (
        ("similarity", "line 7"),
        ("regression", "off by 0.75"),
        ("generation", "ROUGE-L: 0.750"),
    ):
        task = {**classification()["task"], "kind": kind}
        page = page_of(tmp_path / kind, {**classification(), "task": task, "worst": [rank]})
        assert shown in page
        assert "Largest errors" in page
        assert "75.0%" not in page.partition("Largest errors")[2].partition("</div>\n</div>")[0]


@pytest.mark.parametrize(
    ("make", "shown", "absent"),
    [
        (topics, ["3 of 800 examples of train", "790 tokens"], "None"),
        (many_classes, ["80.5% macro F1"], 'class="heat'),
        (
            span,
            ["<bdi>no answer</bdi>", "null_threshold", "-2.138", "--baselines"],
            "Metrics by class",
        ),
    ],
)
def test_what_others_show(
    tmp_path: Path, make: Callable[[], dict[str, Any]], shown: list[str], absent: str
) -> None:
    page = page_of(tmp_path / "r", make())
    assert absent not in page
    for each in shown:
        assert each in page, each


def test_a_matrix_of_thirty_is_shown(tmp_path: Path) -> None:
    found = many_classes()
    whole = found["confusion"]
    found["confusion"] = {
        "labels": whole["labels"][:30],
        "counts": [row[:30] for row in whole["counts"][:30]],
    }
    page = page_of(tmp_path / "r", found)
    assert page.count('class="heat dense"') == 1
    assert page.count("--part:") == 900


def _hostile(value: Any) -> Any:
    """The same with every text replaced, keys of settings too."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, list):
        return [_hostile(each) for each in value]
    if isinstance(value, dict):
        return {key: _hostile(each) for key, each in value.items()}
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_is_text(kind: str, tmp_path: Path) -> None:
    found = _hostile(KINDS[kind]())
    found["main"] = KINDS[kind]()["main"]
    for key in ("settings", "tuned", "baselines", "data", "lengths"):
        found[key] |= {f"{name}{HOSTILE}": each for name, each in found[key].items()}
    run = write_finetuned(tmp_path / "r", found)
    (run / "environment.json").write_text(json.dumps({HOSTILE: HOSTILE, "bertwright": HOSTILE}))
    page = write_report(read_run(run)).read_text(encoding="utf-8")
    tags = {tag for tag, _ in parse(page).seen}
    assert not tags & {"script", "img"}
    assert "&lt;script&gt;alert(" in page


def test_what_is_said_where_it_is_so(tmp_path: Path) -> None:
    found = classification()
    page = page_of(tmp_path / "plain", found)
    found["per_class"][0]["label"] = "שלילי"  # keeps its own direction
    found["data"]["train"]["skipped"] = {"no text": {"count": 3, "lines": [2, 5, 9]}}
    found["settings"]["random_start"] = True
    other = page_of(tmp_path / "other", found)
    for said in ("<bdi>שלילי</bdi>", "no text: 3", "random initialization"):
        assert (said in page, said in other) == (False, True)


def test_a_run_without_results_yet_has_the_page_of_its_records(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "r", classification())
    (run / "results.json").unlink()
    page = run_page(read_run(run))
    parse(page)
    assert "Loss, all objectives" in page
    assert "worth it" not in page


def test_several_tasks_stand_one_after_the_other(tmp_path: Path) -> None:
    page = page_of(tmp_path / "r", multi_task())
    tags = parse(page).seen
    assert "<h2>Tasks over one encoder</h2>" in page
    for shown in ("sentiment", "names"):
        assert f'<h1 class="task">{shown}</h1>' in page
    labels = [attrs["aria-label"] for _, attrs in tags if "aria-label" in attrs]
    names = [str(label).partition(":")[0] for label in labels]
    assert names.count("Training loss") == 2
    assert {"Dev accuracy", "Dev F1"} < set(names)
    for task in multi_task()["tasks"].values():
        assert html.escape(verdict(task).sentence) in page
    assert "None" not in page


def test_the_table_has_the_kept_model_beside_its_interval(tmp_path: Path) -> None:
    found = classification()
    found["summary"]["accuracy"]["max"] = 0.999  # of a seed that was not kept
    found["intervals"]["accuracy"] = [1.0, 1.0]
    page = page_of(tmp_path / "r", found)
    assert "saved model</th>" in page
    assert "99.9%" not in page


def test_results_without_records_have_no_curves(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "r", classification())
    (run / "metrics.jsonl").unlink()
    page = run_page(read_run(run))
    assert "Curves by seed" not in page
    assert "77.5% ± 23.1" in page
