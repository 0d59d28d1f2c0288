"""The conclusion of a comparison claims no more than its intervals; its page holds all of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bertwright.report.comparison.conclusion import conclusion, remarks
from bertwright.report.comparison.page import comparison_page
from bertwright.report.comparison.rows import Row, columns_of
from bertwright.report.comparison.tables import by_fraction, task_table, text_table
from bertwright.report.read import read_run
from tests.raising import assert_names
from tests.report.comparison.sample import fit, fits, results
from tests.report.pages import parse
from tests.report.pretrained_runs import write_run


def with_interval(rows: list[Row], low: float | None, high: float | None) -> list[Row]:
    return [replace(row, low=low, high=high) for row in rows]


def test_what_is_ahead_by_its_interval_is_called_so() -> None:
    said = conclusion(results(*fits("BERT", 0.7, 0.9), *fits("GPT", 0.6, 0.8)))
    assert said.startswith("BERT (fine-tuned)")
    assert_names(said, "90.0% (88.0 to 92.0)", "clearly ahead", "TF-IDF", "50.0% (48.0 to 52.0)")
    assert "not" not in said


def test_nothing_is_claimed_where_intervals_overlap() -> None:
    said = conclusion(results(*fits("BERT", 0.7, 0.9), *fits("GPT", 0.6, 0.87), tfidf=0.88))
    first, second, *_ = said.split(". ")
    assert_names(first, "not clearly ahead", "GPT (fine-tuned, 87.0%)")
    twice = conclusion(results(*fits("BERT", 0.7, 0.9), *fits("GPT", 0.88, 0.87)))
    assert_names(twice.split(". ")[0], "GPT (frozen features, 88.0%)")
    assert twice.count("GPT") == 1
    assert_names(second, "TF-IDF", "88.0%", "not clearly less")
    bare = with_interval(fits("BERT", 0.7, 0.9), None, None)
    assert "not clearly ahead of GPT" in conclusion(results(*bare, *fits("GPT", 0.1, 0.2)))


@pytest.mark.parametrize(("tfidf", "is_clear"), [(0.95, True), (0.71, False)])
def test_the_highest_is_named_first_also_where_it_is_a_baseline(
    tfidf: float, is_clear: bool
) -> None:
    said = conclusion(results(*fits("BERT", 0.7, 0.6), *fits("GPT", 0.3, 0.4), tfidf=tfidf))
    first, second, *_ = said.split(". ")
    assert first.startswith("TF-IDF")
    assert f"{tfidf:.1%}" in first
    assert_names(second, "BERT (frozen features)", "70.0% (68.0 to 72.0)")
    assert ("not clearly less" in second) is not is_clear


@pytest.mark.parametrize(
    ("random", "said"),
    [(0.5, "clearly worth it"), (0.71, "level with it"), (0.69, "level"), (0.8, "clearly more")],
)
def test_random_weights_may_be_level_or_ahead(random: float, said: str) -> None:
    last = conclusion(results(*fits("BERT", 0.7, 0.6, random=random))).split(". ")[-1]
    assert_names(last, "BERT", "random weights", f"{random:.1%}", said)
    assert ("not" in last) is (random > 0.5)


def test_a_fit_that_predicts_one_class_is_no_result() -> None:
    fallen = [replace(row, degenerate=row.way != "frozen") for row in fits("BERT", 0.6, 0.9, 0.9)]
    found = results(*fallen, *fits("GPT", 0.5, 0.55))
    assert conclusion(found).startswith("BERT (frozen features)")
    assert "random" not in conclusion(found)
    (remark,) = remarks(found)
    assert_names(remark, "BERT", "fine-tuned; random", "--systems bert --task-minutes 3")
    assert "GPT" not in remark
    for is_short in (False, True):
        row = next(row for row in task_table(found, is_short=is_short)[1] if row[0] == "BERT")
        assert row[2:4] == ["one class for all"] * 2
    page = comparison_page(found, Path("x"))
    assert page.count('class="line tuned hatch"') == page.count('class="line random hatch"') == 1
    assert re.search("hatched: one class for all", page)
    every = [replace(row, degenerate=True) for row in fits("BERT", 0.6, 0.9)]
    assert "hatch" in comparison_page(results(*every), Path("x"))
    # of several seeds, the others are the result
    seeds = results(
        fit("BERT", "tuned", 0.9), replace(fit("BERT", "tuned", 0.1, degenerate=True), seed=2)
    )
    assert conclusion(seeds).startswith("BERT (fine-tuned)")
    assert remarks(seeds) == []


def test_more_time_is_offered_only_where_it_helps() -> None:
    fitted = [fit("BERT", "frozen", 0.3, degenerate=True, rate=None)]
    (remark,) = remarks(results(*fitted, *fits("GPT", 0.5, 0.6)))
    assert "BERT (frozen features)" in remark
    assert "--task-minutes" not in remark


def test_what_is_not_measured_yet_is_named() -> None:
    found = results(*fits("BERT", 0.7, 0.9), systems=("GPT",))
    assert remarks(found) == ["Not measured yet: GPT."]
    page = comparison_page(found, Path("x"))
    assert "not measured yet" in page
    assert "Not measured yet: GPT." in page
    assert remarks(results(*fits("BERT", 0.7, 0.9))) == []


def test_fine_tuning_that_was_too_short_is_named() -> None:
    short = [replace(row, epochs=0.2) for row in fits("GPT", 0.5, 0.4)]
    (remark,) = remarks(results(*fits("BERT", 0.7, 0.9), *short))
    assert_names(remark, "GPT", "--systems gpt --task-minutes 3")


def test_busy_cores_are_named() -> None:
    busy = [
        replace(row, waited=0.34 if row.way == "tuned" else 0.01) for row in fits("GPT", 0.5, 0.4)
    ]
    found = results(*fits("BERT", 0.7, 0.9), *busy)
    (remark,) = remarks(found)
    assert_names(remark, "GPT", "34%")
    assert "BERT" not in remark
    assert remark in comparison_page(found, Path("x"))


def test_a_system_with_other_minutes_is_named() -> None:
    longer = [replace(row, minutes=3.0) for row in fits("BERT", 0.7, 0.9)]
    rows = [*longer, *fits("GPT", 0.6, 0.8), *fits("ELMo", 0.6, 0.8)]
    page = comparison_page(results(*rows), Path("x"))
    assert re.search("at most 1 min; one of BERT 3 min", page)


def test_seeds_are_means_with_a_deviation() -> None:
    first = fit("BERT", "tuned", 0.9)
    found = results(first, replace(first, seed=2, value=0.8, low=0.78, high=0.82))
    mean = found.of_task("bert", "tuned")
    assert mean is not None
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.85, 0.83, 0.87))
    assert mean.sd == pytest.approx(0.05 * 2**0.5)
    assert "85.0% (83.0 to 87.0), sd 7.1" in task_table(found)[1][0]


def test_without_a_task_the_lowest_bits_are_named() -> None:
    bits = (("GPT", "bits", 1.5), ("n-gram", "bits", 1.4), ("BERT", "pseudo_bits", 1.0))
    found = results(
        *(
            Row("text", name.lower(), name, 1, metric=f"{kind}_per_character", value=value)
            for name, kind, value in bits
        ),
        task=False,
    )
    said = conclusion(found)
    assert "n-gram predicts" in said
    assert "BERT" not in said
    columns, rows = text_table(found)
    assert columns[-2:] == ["bits a character", "pseudo-bits"]
    assert [row[-2:] for row in rows] == [["1.500", ""], ["1.400", ""], ["", "1.000"]]
    page = comparison_page(found, Path("x"))
    assert "n-gram, bits a character: 1.400" in page


def test_each_figure_of_a_file_has_its_column() -> None:
    of_file = {"seed": 1, "test": "other.txt"}
    found = results(
        Row("text", "gpt", "GPT", metric="bits_per_character", value=1.5, **of_file),
        Row("text", "gpt", "GPT", metric="perplexity", value=40.0, **of_file),
        Row("text", "gpt", "GPT", 1, metric="bits_per_character", value=1.25),
        task=False,
    )
    columns, rows = text_table(found)
    cells = dict(zip(columns, rows[0], strict=True))
    assert cells["bits a character"] == "1.250"
    assert cells["other.txt"] == "1.500"
    assert cells["other.txt perplexity"].startswith("40")


def test_rows_are_flat_in_tables() -> None:
    row = fit("BERT", "tuned", 0.9, metrics={"accuracy": 0.9, "f1": 0.8})
    flat = row.flat()
    assert flat["metrics.f1"] == 0.8
    assert not any(isinstance(value, dict | list) for value in flat.values())
    assert set(flat) <= set(columns_of([flat]))
    assert task_table(results(row), is_short=True)[1][0][2] == "90.0% (88-92)"


def test_baselines_have_a_column_of_their_own() -> None:
    found = results(*fits("BERT", 0.7, 0.9), fractions=(0.5, 1.0))
    for columns, rows in (
        task_table(found),
        task_table(found, is_short=True),
        *(table for _, table in by_fraction(found)),
    ):
        column = columns.index("baseline")
        for row in rows:
            assert len(row) == len(columns)
            assert not (row[1] and row[column])
            assert bool(row[column]) is (row[0] != "BERT")


def test_the_page_has_the_picture_the_failures_and_what_is_left_out() -> None:
    failed = Row("pretrain", "nnlm", "NNLM", 1, reason="out of <memory>", failed=True)
    few = [fit("BERT", way, value, fraction=0.1) for way, value in (("tuned", 0.6),)]
    rows = [*fits("BERT", 0.7, 0.9), *few, failed]
    page = comparison_page(results(*rows, fractions=(0.1, 1.0)), Path("ladder"))
    assert re.search('aria-label="Accuracy on test[^"]*BERT', page)
    assert "BERT, fine-tuned: 90.0%, 88.0% to 92.0%" in page
    assert "TF-IDF + logistic regression: 50.0%" in page
    assert "By number of labels" in page
    assert "out of &lt;memory&gt;" in page
    assert "What BERT adds &lt;here&gt;." in page
    assert 'href="runs/BERT/report.html"' in page
    assert re.search("cove, seq2seq: .*translations", page)
    assert "http" not in page.replace("http-equiv", "")


def test_what_was_learned_stands_side_by_side() -> None:
    rows = [*fits("BERT", 0.7, 0.9), *fits("GPT", 0.6, 0.8), *fits("ELMo", 0.5, 0.6)]
    page = comparison_page(results(*rows), Path("x"))
    parse(page)
    _, shown = page.split("What was learned")
    beginnings, surprise, nearest = re.findall("<table.*?</table>", shown, re.DOTALL)[:3]
    assert_names(beginnings, "It &lt;is&gt;", "so.", "what GPT says", "50%", "25%")
    assert re.search('class="ok">so<', beginnings)
    assert "ELMo" not in beginnings
    assert re.search(r"GPT.*--part:100%.*8\.0 bits", surprise)
    assert re.search("BERT reads the words after it too", shown)
    assert re.search("BERT.*dog.*ELMo.*dog, cow.*blue", nearest, re.DOTALL)


def test_systems_without_examples_have_no_such_part() -> None:
    found = results(*fits("BERT", 0.7, 0.9))
    systems = [{**each, "examples": {}} for each in found.systems]
    page = comparison_page(replace(found, facts={**found.facts, "systems": systems}), Path("x"))
    assert "What was learned" not in page


@pytest.mark.parametrize(
    ("folder", "name"),
    [("runs/bert/seed-1", "bert, seed 1"), ("tasks/bert/seed-1/tuned-1", "bert, tuned 1")],
)
def test_a_run_of_a_comparison_has_the_name_of_its_system(
    folder: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "ladder.json").write_text("{}")
    assert read_run(write_run(tmp_path / folder)).name == name
