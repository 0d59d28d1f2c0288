from __future__ import annotations

import pytest

from bertwright.labelled.examples import is_mostly_chinese


@pytest.mark.parametrize(
    ("texts", "chinese"),
    [
        (["红楼梦 in English"], False),
        (["红楼梦作者 abc", "1954, 1955!"], True),
        (["红ab", "楼梦"], True),
        (["红a"], False),
        (["ひらがな 漢"], False),
        ([""], False),
        ([], False),
    ],
)
def test_more_than_half_of_the_letters(texts: list[str], chinese: bool) -> None:
    assert is_mostly_chinese(texts) is chinese
