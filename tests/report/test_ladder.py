"""The conclusion of a comparison claims no more than its intervals; its page holds all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bertwright.report.ladder import (
    by_fraction,
    conclusion,
    ladder_page,
    rows_of,
    short_table,
    task_table,
    text_table,
)
from tests.raising import assert_names


def figures(value: float, spread: float = 0.02, **more: Any) -> dict[str, Any]:
    interval = {"value": value, "low": value - spread, "high": value + spread, "sd": None}
    fit = {"rate": 1e-3, "epochs": 5.0, "examples": 90, "of_examples": 90, "degenerate": False}
    return interval | fit | {"run": "tasks/x", "has_page": True} | more


def rung(name: str, frozen: float, tuned: float, random: float = 0.3, **more: Any) -> Any:
    ways = {"frozen": figures(frozen), "tuned": figures(tuned), "random": figures(random)}
    return {
        "name": name.lower(),
        "title": name,
        "adds": f"What {name} adds <here>.",
        "run": f"runs/{name}",
        "has_page": True,
        "reasons": [],
        "failed": False,
        "task": {"1": ways},
        "parameters": 5e6,
        "tokens": 2e6,
        "tokens_per_second": 1e4,
        "seconds": 200.0,
        "seconds_of_use": 40.0,
        "model": name,
        "passes": None,
        **more,
    }


def results(*rungs: Any, tfidf: float = 0.5, fractions: tuple[float, ...] = (1.0,)) -> Any:
    baselines = {
        f"{each:g}": {"majority": figures(0.25), "tfidf": figures(tfidf)} for each in fractions
    }
    ways = ["frozen", "tuned", "random"]
    found = {
        "bertwright": "1",
        "rungs": list(rungs),
        "left_out": dict.fromkeys(("cove", "seq2seq"), "it is trained on translations"),
        "failed": {},
        "settings": {"fractions": list(fractions), "minutes": 3.0, "tokens": None},
        "environment": {"cores": 2},
        "text": {"train": {"characters": 10**7}, "held_out": {"characters": 3 * 10**5}},
        "task": {
            "kind": "classification",
            "metric": "accuracy",
            "ways": ways,
            "examples": {"train": 90},
            "evaluated_on": "test",
            "baselines": baselines,
        },
    }
    return found | {"conclusion": conclusion(found)}


def test_what_is_ahead_by_its_interval_is_called_so() -> None:
    said = conclusion(results(rung("BERT", 0.7, 0.9), rung("GPT", 0.6, 0.8)))
    assert said.startswith("BERT, fine-tuned,")
    assert_names(said, "accuracy 90.0% (88.0 to 92.0)", "clearly ahead of every")
    assert "clearly ahead of TF-IDF" in said
    assert "not" not in said


def test_nothing_is_claimed_where_intervals_overlap() -> None:
    said = conclusion(results(rung("BERT", 0.7, 0.9), rung("GPT", 0.6, 0.87), tfidf=0.88))
    assert "not clearly ahead of GPT" in said
    assert "87.0%" in said
    assert "not clearly ahead of TF-IDF" in said
    bare = rung("BERT", 0.7, 0.9)
    bare["task"]["1"]["tuned"] |= {"low": None, "high": None}
    assert "not clearly ahead of GPT" in conclusion(results(bare, rung("GPT", 0.1, 0.2)))


def test_a_baseline_and_random_weights_may_be_ahead() -> None:
    said = conclusion(results(rung("BERT", 0.7, 0.6, random=0.71), tfidf=0.95))
    assert said.startswith("BERT, frozen features,")
    assert_names(said, "95.0% (93.0 to 97.0), is clearly ahead", "not clearly worth it")
    near = conclusion(results(rung("BERT", 0.7, 0.6), tfidf=0.71))
    assert "71.0% (69.0 to 73.0), is above" in near
    assert "no better than TF-IDF" in conclusion(results(rung("BERT", 0.7, 0.6), tfidf=0.7))


def test_what_is_not_measured_yet_is_named() -> None:
    begun = {**rung("GPT", 0, 0), "task": {"1": {}}}
    found = results(rung("BERT", 0.7, 0.9), begun)
    assert "Not measured yet: GPT" in found["conclusion"]
    assert "not measured yet" in ladder_page(found, Path("x"))
    assert "Not measured" not in results(rung("BERT", 0.7, 0.9))["conclusion"]


def test_fine_tuning_that_was_too_short_is_named() -> None:
    short = rung("GPT", 0.5, 0.4)
    short["task"]["1"]["tuned"]["epochs"] = 0.2
    said = results(rung("BERT", 0.7, 0.9), short)["conclusion"]
    assert re.search("too short.*GPT", said)


def test_without_a_task_the_lowest_bits_are_named() -> None:
    rungs = [
        rung("GPT", 0, 0, bits_per_character=1.5),
        rung("n-gram", 0, 0, bits_per_character=1.4),
        rung("BERT", 0, 0, pseudo_bits_per_character=1.0),
    ]
    found = {**results(*rungs), "task": None}
    said = conclusion(found)
    assert "n-gram predicts" in said
    assert "BERT" not in said
    assert "bits a character" in text_table(found)[0]
    page = ladder_page({**found, "conclusion": said}, Path("x"))
    assert "n-gram, bits a character: 1.400" in page


def test_rows_are_flat_and_baselines_are_among_them() -> None:
    rows = rows_of(results(rung("BERT", 0.7, 0.9)))
    assert [row["rung"] for row in rows] == ["bert", "majority", "tfidf"]
    assert (rows[0]["tuned"], rows[0]["tuned_high"]) == (0.9, pytest.approx(0.92))
    assert rows[2]["baseline"] == 0.5
    assert not any(isinstance(value, dict | list) for row in rows for value in row.values())
    assert short_table(results(rung("BERT", 0.7, 0.9)))[1][0][2] == "90.0% (88-92)"


def test_baselines_have_a_column_of_their_own() -> None:
    found = results(rung("BERT", 0.7, 0.9), fractions=(0.5, 1.0))
    for columns, rows in (task_table(found), short_table(found)):
        column = columns.index("baseline")
        for row in rows:
            assert len(row) == len(columns)
            is_rung = row[0] == "BERT"
            assert bool(row[1]) is is_rung
            assert bool(row[column]) is not is_rung
    ((_, rows),) = by_fraction(found)
    assert all(len(row) == len(task_table(found)[0]) - 1 for row in rows)


def test_the_page_has_the_picture_the_failures_and_what_is_left_out() -> None:
    failed = {**rung("NNLM", 0, 0), "task": {}, "reasons": ["out of <memory>"], "failed": True}
    few = rung("BERT", 0.7, 0.9)
    few["task"]["0.1"] = {"tuned": figures(0.6), "frozen": figures(0.5)}
    page = ladder_page(results(few, failed, fractions=(0.1, 1.0)), Path("ladder"))
    assert re.search('aria-label="Accuracy on test[^"]*BERT', page)
    assert "BERT, fine-tuned: 90.0%, 88.0% to 92.0%" in page
    assert "TF-IDF + logistic regression: 50.0%" in page
    assert "By number of labels" in page
    assert "out of &lt;memory&gt;" in page
    assert "What BERT adds &lt;here&gt;." in page
    assert 'href="runs/BERT/report.html"' in page
    assert re.search("cove, seq2seq: .*translations", page)
    assert "http" not in page.replace("http-equiv", "")
