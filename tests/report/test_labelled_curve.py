"""The section of a page on accuracy by number of labelled examples."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bertwright.report.curves import best_sentence, conclusion, task_sentence
from bertwright.report.pages import render, run_page
from bertwright.report.read import read_run
from tests.raising import assert_names
from tests.report.test_pretrained_page import HOSTILE, Balanced, write_run


def figures(word: str = "numpy", **accuracy: list[float]) -> dict[str, Any]:
    shares = {"pretrained": [0.5, 0.7], "frozen": [0.55, 0.6], "random_start": [0.2, 0.4]}
    shares |= {"tfidf": [0.3, 0.5], "majority": [0.25, 0.25], **accuracy}
    count = len(shares["pretrained"])
    return {
        "format": 1,
        "labels": [word, "python", "torch"],
        "sizes": [96, 1600][:count],
        "epochs": [20, 5][:count],
        "learning_rate": 3e-4,
        "test": {"file": f"{word}/test.jsonl", "examples": 960},
        "methods": [
            {
                "name": name,
                "accuracy": found[:count],
                "intervals": [[share - 0.02, share + 0.02] for share in found[:count]],
                "degenerate": [name == "majority"] * count,
            }
            for name, found in shares.items()
        ],
        "hidden": "package",
        "words": [12, 40],
        "model": f"{word}/finetuned",
        "command": f"bertwright finetune classification --model {word}",
    }


def labelled_curve(found: dict[str, Any]) -> str:
    run = SimpleNamespace(learning_curve=found)
    return render("labelled.html.j2", run=run)


def test_chart_and_table_of_all_methods() -> None:
    shown = labelled_curve(figures())
    assert shown.count('<path class="line tuned"') == 2  # in the chart and as its key
    for style in ("frozen", "random", "words"):
        assert shown.count(f'<circle class="mark {style}"') == 2
    assert '<th class="number">1,600</th>' in shown
    assert shown.count('<b class="ok">') == 2
    assert re.search(r'<b class="ok">55\.0%</b> <span[^>]*>53 to 57</span>', shown)
    assert "one label for all" not in shown  # the most frequent label is nothing else
    assert "20, 5 epochs" in shown
    command = re.search("<code>(.*?)</code><button", shown)
    assert command
    words = re.findall("<span>(.*?)</span>", command[1])  # each is kept on one line
    assert words == ["bertwright", "finetune", "classification", "--model", "numpy"]
    assert re.sub("<.*?>", "", command[1]) == " ".join(words)  # what the button copies


def test_whoever_wins_is_named() -> None:
    said = best_sentence(figures(tfidf=[0.9, 0.695]))
    few, many = said.split(";")
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
    said = conclusion(figures(tfidf=tfidf))
    assert f"{answer}:" in said
    of_few, of_many = said.split(";")
    assert re.findall(r"[\d.]+%", of_few) == ["50.0%", few, "20.0%"]
    assert re.findall(r"[\d.]+%", of_many) == ["70.0%", many, "40.0%"]
    one = {name: [found] for name, found in (("pretrained", 0.5), ("tfidf", tfidf[0]))}
    assert re.findall(r"[\d.]+%", conclusion(figures(**one))) == ["50.0%", few, "20.0%"]


def test_the_task_is_said() -> None:
    said = task_sentence(figures())
    assert_names(said, "3 packages", "numpy, python, torch", '"package"', "960 test passages")


def test_one_size_has_no_chart() -> None:
    shown = labelled_curve(figures(pretrained=[0.5]))
    assert "<figure" not in shown
    assert "pre-trained, frozen, linear layer" in shown


def test_a_fallen_run_is_named() -> None:
    found = figures()
    found["methods"][2]["degenerate"] = [True, False]
    assert labelled_curve(found).count("one label for all") == 1


@pytest.mark.parametrize("found", [{}, {"format": 1, "left_out": "too few <packages>"}])
def test_none_and_left_out(found: dict[str, Any]) -> None:
    shown = labelled_curve(found)
    assert ("too few &lt;packages&gt;" in shown) == bool(found)
    assert bool(shown.strip()) == bool(found)


def test_in_the_page(tmp_path: Path) -> None:
    shown = run_page(read_run(write_run(tmp_path / "run", learning_curve=figures(HOSTILE))))
    Balanced().feed(shown)
    assert "labelled examples" in shown
    assert "<script>alert" not in shown
    plain = run_page(read_run(write_run(tmp_path / "plain")))
    assert "labelled examples" not in plain
