"""Unicode repair, boilerplate lines, exact and near duplicates."""

from __future__ import annotations

import random

import pytest

from bertwright.text.corpus import cleaning
from bertwright.text.corpus.cleaning import RepeatedLines, looks_like_boilerplate, repair_unicode
from bertwright.text.corpus.duplicates import ExactDuplicates, NearDuplicates, signature


def test_repair_without_ftfy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "_ftfy", lambda: None)
    assert cleaning.repair_name() == "nfc"
    assert (
        repair_unicode("Cafe\u0301 \ufeffA\u00adB\u200bC\x07\x00\tD\nE\x85F") == "Café ABC\tD\nE\nF"
    )
    assert repair_unicode("plain") == "plain"
    assert repair_unicode("A\x0bB\x0cC") == "A\nB\nC"


def test_repair_with_ftfy() -> None:
    pytest.importorskip("ftfy")
    assert cleaning.repair_name().startswith("ftfy ")
    assert repair_unicode("It doesnâ€™t â€“ Ã©tÃ©") == "It doesn’t – été"
    assert repair_unicode("é\x0bB\x0cC\u2028D\u2029E") == "é\nB\nC\nD\nE"
    assert repair_unicode("“ﬁne” ＡＢ &amp;") == "“ﬁne” ＡＢ &amp;"


BOILERPLATE = [
    "© 2014 Example Inc. All rights reserved.",
    "Copyright 2009 by the Authors",
    "Home | About | Products | Contact",
    "Skip to main content",
    "Share this on Facebook",
    "Privacy Policy | Terms of Service",
    "Page 3 of 10",
    "Sign in",
    "This site uses cookies to improve your visit.",
]
PROSE = [
    "The copyright of the book lapsed in 1962.",
    "He went home and talked about the products.",
    "Page 3 of the report tells of 10 dead.",
    "They share this view on Sundays.",
    "Terms of trade improved.",
    "History.",
    "He read more than he wrote.",
    "The vertical bar | is a character.",
]


def test_looks() -> None:
    assert [line for line in BOILERPLATE if not looks_like_boilerplate(line)] == []
    assert [line for line in PROSE if looks_like_boilerplate(line)] == []


def test_lines_that_repeat_across_documents() -> None:
    lines = RepeatedLines(repeats=3)
    for number in range(10):
        text, out = lines.leave_out(f"Text {number}.\nThe same.\nThe same.\nSign in")
        assert out == (["Sign in"] if number < 3 else ["The same."] * 2 + ["Sign in"])
        assert text.startswith(f"Text {number}.")


def test_rare_lines_do_not_hide_a_repeated_one() -> None:
    lines = RepeatedLines(repeats=5, slots=1)
    gone = [bool(lines.leave_out(f"Text {n}.\nA.\nB{n}." if n % 3 else "A.")[1]) for n in range(60)]
    assert not gone[0]
    assert lines.leave_out("A new line.")[1] == []


def test_exact_duplicates() -> None:
    exact = ExactDuplicates()
    assert [exact.met(text) for text in ["a b", "a c", "a b", "A b"]] == [False, False, True, False]


def _words(seed: int, count: int = 400) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices("abcdefgh", k=5)) for _ in range(count)]


@pytest.mark.parametrize("join", [" ", ""])
def test_near_duplicates(join: str) -> None:
    near = NearDuplicates(remembered=64)
    texts = [join.join(_words(seed)) for seed in range(50)]
    assert not any(near.met(text) for text in texts)
    assert all(near.met(text) for text in texts)
    changed = _words(7)
    changed[200] = "else"
    assert near.met(join.join(changed).upper())
    assert not near.met(join.join(_words(7)[:200] + _words(99)[:200]))


def test_near_duplicates_forget_the_oldest() -> None:
    near = NearDuplicates(remembered=8)
    texts = [" ".join(_words(seed)) for seed in range(20)]
    assert not any(near.met(text) for text in texts)
    assert near.met(texts[-1])
    assert not near.met(texts[0])


def test_signature_estimates_jaccard() -> None:
    first, second = _words(1, 3000), _words(2, 3000)
    shared = 1500
    a, b = signature(" ".join(first)), signature(" ".join(first[:shared] + second[shared:]))
    assert a is not None
    assert b is not None
    assert abs(float((a == b).mean()) - 1 / 3) < 0.2
    assert signature(" \n") is None
    assert signature("one") is not None
