from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.tasks.metrics import value
from bertwright.tasks.span.kind import (
    Rules,
    best_threshold,
    normalize_answer,
    rules_for,
    score_answer,
    score_answers,
)


@pytest.mark.parametrize(
    ("text", "squad"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("an  apple,\ta pear", "apple pear"),
        ("Anna's theory", "annas theory"),  # articles are whole words
        ("U.S.A. (a)", "usa"),
        ("mother-in-law", "motherinlaw"),  # punctuation goes before words are cut
        ("“the” café", "“ ” café"),  # only ASCII is punctuation to the script
        ("the", ""),
    ],
)
def test_squads_normal_form(text: str, squad: str) -> None:
    assert normalize_answer(text, "squad1") == squad
    assert normalize_answer(text, "squad2") == squad


@pytest.mark.parametrize(
    ("said", "answers", "rules", "exact", "f1"),
    [
        ("Denver Broncos", ["The Denver Broncos."], "squad1", 1, 1),
        ("Broncos", ["Denver Broncos"], "squad1", 0, 2 / 3),
        # the best answer, of exact match and of F1 by itself
        ("in Santa Clara", ["Santa Clara, California", "Santa Clara"], "squad1", 0, 4 / 5),
        # a word counts as often as both have it
        ("to to be", ["to be or not to be"], "squad1", 0, 2 * 3 / (3 + 6)),
        ("42", ["43"], "squad1", 0, 0),
        ("", ["43"], "squad1", 0, 0),
        # 1.1 has no rule for what normalizes to nothing: the same, but no word in common
        ("The", ["the"], "squad1", 1, 0),
        # 2.0: such an answer does not count, and the question has none
        ("", ["the"], "squad2", 1, 1),
        ("Broncos", ["the"], "squad2", 0, 0),
        ("", [], "squad2", 1, 1),
        ("the", [], "squad2", 1, 1),
        ("Broncos", [], "squad2", 0, 0),
        ("", ["Broncos"], "squad2", 0, 0),
        # CMRC: marks go, each Chinese character counts alone, words of letters stay whole
        ("《红楼梦》", ["红楼梦。"], "cmrc", 1, 1),
        ("红楼", ["红楼梦"], "cmrc", 0, 4 / 5),
        ("使用Windows 10", ["Windows"], "cmrc", 0, 2 * 1 / (4 + 1)),
        # a run, not a subsequence: 年 and 10月 are common, but 3月 stands between
        ("1年3月10月", ["1年10月"], "cmrc", 0, 2 * 2 / (6 + 4)),
        ("3.5公里", ["3.5米"], "cmrc", 0, 2 * 1 / (3 + 2)),
        ("甲", ["乙"], "cmrc", 0, 0),
        ("", [], "cmrc", 1, 1),
    ],
)
def test_worked_examples(
    said: str, answers: list[str], rules: Rules, exact: float, f1: float
) -> None:
    assert score_answer(said, answers, rules) == pytest.approx((exact, f1))


@given(st.text("ab 红楼", max_size=8), st.text("ab 红楼", max_size=8))
def test_scores_are_symmetric_and_within_0_and_1(a: str, b: str) -> None:
    for rules in ("squad1", "cmrc"):
        there, back = score_answer(a, [b], rules), score_answer(b, [a], rules)
        assert there == back
        assert 0 <= there[1] <= 1
        assert not there[0] or there[1] in (0, 1)


def test_the_answers_script_chooses_the_rules() -> None:
    assert rules_for([["红楼梦", "Dream of"]], False) == "squad1"
    assert rules_for([["红楼梦"], ["1954年", "NBA"]], True) == "cmrc"
    assert rules_for([["Broncos"], []], True) == "squad2"
    assert rules_for([[]], True) == "squad2"


def test_questions_with_and_without_an_answer_are_told_apart() -> None:
    scores = score_answers(["a b", "", "x", "c"], [["b c"], [], [], ["c"]], "squad2")
    assert value(scores.statistic, 4) == pytest.approx(
        {
            "exact_match": 2 / 4,
            "f1": (2 / 3 + 1 + 0 + 1) / 4,  # "a b" is "b"
            "has_answer_exact_match": 1 / 2,
            "has_answer_f1": (2 / 3 + 1) / 2,
            "no_answer_exact_match": 1 / 2,
        }
    )
    assert set(value(score_answers(["x"], [["x"]], "squad2").statistic, 1)) == {"exact_match", "f1"}


def test_the_best_threshold_by_hand() -> None:
    # in order of null scores: right (+1), no answer there (-1), half right (+0.5), none (-1)
    scores = np.array([0.0, 1.0, 0.5, 0.0])
    has_answer = np.array([0.0, 1.0, 1.0, 0.0])
    null = np.array([2.0, -3.0, 1.0, -1.0])
    answered = np.ones(4)
    # never: 2 of 4; up to -3: 3; up to -1: 2; up to 1: 2.5; always: 1.5
    assert best_threshold(scores, has_answer, answered, null) == (3 / 4, -2.0)  # midway
    # an answer that is empty anyway costs nothing
    assert best_threshold(scores, has_answer, np.array([1.0, 1, 1, 0]), null) == (3.5 / 4, 1.5)

    # never to answer is below every null score, always above
    null = np.array([-5.0, -7])
    assert best_threshold(np.zeros(2), np.zeros(2), np.ones(2), null) == (1, -8.0)
    assert best_threshold(np.ones(2), np.ones(2), np.ones(2), null) == (1, -4.0)


cases = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans(), st.booleans(), st.integers(-3, 3)),
    min_size=1,
    max_size=12,
)


@given(cases)
def test_no_threshold_is_better(drawn: list[tuple[float, bool, bool, int]]) -> None:
    scores, has_answer, answered, null = (
        np.array(c, dtype=float) for c in zip(*drawn, strict=True)
    )
    scores = scores * answered * has_answer

    def mean(threshold: float) -> float:
        silent = (null > threshold) | (answered == 0)
        return float(np.where(silent, has_answer == 0, scores).mean())

    reached, threshold = best_threshold(scores, has_answer, answered, null)
    assert mean(threshold) == pytest.approx(reached)
    assert max(map(mean, [-9.0, *null])) <= reached + 1e-12


@pytest.mark.parametrize(
    ("predicted", "true", "f1"),
    [
        ("おととい", "おとといのあさ", 2 * 4 / 11),
        ("เมื่อวาน", "เมื่อวาน", 1.0),
        ("น้ำ", "น้ำแข็ง", 2 * 2 / 7),
        ("「おととい」", "おととい。", 1.0),
        ("さくら", "うみ", 0.0),
        ("", "うみ", 0.0),
    ],
)
def test_a_script_without_blanks_is_compared_by_characters(
    predicted: str, true: str, f1: float
) -> None:
    rules = rules_for([[true]], False)
    assert rules == "script1"
    assert score_answer(predicted, [true], rules)[1] == pytest.approx(f1)


def test_a_script_without_blanks_may_have_no_answer() -> None:
    rules = rules_for([["おととい"], []], True)
    assert rules == "script2"
    assert score_answer("", [], rules) == (1.0, 1.0)
    assert score_answer("おととい", [], rules) == (0.0, 0.0)
    assert score_answer("おととい", ["!", "おととい"], rules) == (1.0, 1.0)
