"""The section of a page on accuracy by number of labelled examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bertwright.report.comparison.labelled import Labelled
from bertwright.report.pages import render, run_page
from bertwright.report.read import read_run
from tests.raising import assert_names
from tests.report.comparison.sample import section
from tests.report.pages import HOSTILE, Balanced
from tests.report.pretrained_runs import write_run


def shown(found: Labelled | None) -> str:
    return render("labelled.html.j2", labelled=found)


def test_chart_and_table_of_all_methods() -> None:
    page = shown(section())
    assert page.count('<path class="line tuned"') == 2  # in the chart and as its key
    for style in ("frozen", "random", "words"):
        assert page.count(f'<circle class="mark {style}"') == 2
    assert '<th class="number">1,600</th>' in page
    assert page.count('<b class="ok">') == 2
    assert re.search(r'<b class="ok">55\.0%</b> <span[^>]*>53 to 57</span>', page)
    assert "one label for all" not in page
    command = re.search("<code>(.*?)</code><button", page)
    assert command
    words = re.findall("<span>(.*?)</span>", command[1])  # each is kept on one line
    assert words == ["bertwright", "finetune", "classification", "--model", "q"]
    assert re.sub("<.*?>", "", command[1]) == " ".join(words)  # what the button copies


def test_whoever_wins_is_named() -> None:
    few, many = section(tfidf=[0.9, 0.695]).best_sentence.split(";")
    assert_names(few, "96", "TF-IDF + logistic regression (90.0%)")
    assert_names(many, "1,600", "pre-trained, fine-tuned (70.0%)", "not clearly", "(69.5%)")


@pytest.mark.parametrize(
    ("tfidf", "answer"),
    [
        ([0.3, 0.5], "pays off"),
        ([0.3, 0.695], "pays off where labels are few"),
        ([0.49, 0.5], "does not clearly pay off"),
        ([0.9, 0.9], "does not clearly pay off"),
    ],
)
def test_the_conclusion_has_the_figures_of_the_table(tfidf: list[float], answer: str) -> None:
    few, many = (f"{value:.1%}" for value in tfidf)
    said = section(tfidf=tfidf).conclusion
    assert f"{answer}:" in said
    of_few, of_many = said.split(";")
    assert re.findall(r"[\d.]+%", of_few) == ["50.0%", few, "20.0%"]
    assert re.findall(r"[\d.]+%", of_many) == ["70.0%", many, "40.0%"]
    one = section(tuned=[0.5], tfidf=[tfidf[0]]).conclusion
    assert re.findall(r"[\d.]+%", one) == ["50.0%", few, "40.0%"]


def test_one_size_has_no_chart() -> None:
    page = shown(section(tuned=[0.5]))
    assert "<figure" not in page
    assert "pre-trained, frozen, linear layer" in page


def test_a_fallen_run_is_named() -> None:
    assert shown(section(fallen="random")).count("one label for all") == 2


def test_none_and_left_out() -> None:
    assert not shown(None).strip()
    assert "too few &lt;packages&gt;" in shown(Labelled(left_out="too few <packages>"))


def test_in_the_page(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run"))
    page = run_page(run, section(HOSTILE))
    Balanced().feed(page)
    assert "labelled examples" in page
    assert "<script>alert" not in page
    assert "labelled examples" not in run_page(run)
