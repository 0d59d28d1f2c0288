"""The page of attention: it holds all it needs, and draws in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bertwright.errors import DataError
from bertwright.inference.attention.maps import AttentionMaps
from bertwright.report.attention_page import MOST, attention_page
from tests.serve.browser import CHROMIUM, NEEDED, UNREADABLE, browser


def made(rows: int, columns: int, name: str = "encoder") -> AttentionMaps:
    weights = np.random.default_rng(0).dirichlet(np.ones(columns), (2, 3, rows))
    tokens = [f"w{n}" for n in range(max(rows, columns) - 1)]
    return AttentionMaps(
        name, ["</script><b>", *tokens][:rows], ["[CLS]", *tokens][:columns], weights.astype("f4")
    )


def test_the_page_needs_nothing_else() -> None:
    page = attention_page([made(5, 5)], "<mine>")
    assert "Attention of &lt;mine&gt;" in page
    assert page.count("</script>") == 2
    for outside in (r"\bimport\b.*from", r"<link", r"src=", r"url\(", r"fetch\("):
        assert not re.search(outside, page, re.MULTILINE), outside
    with pytest.raises(DataError, match=f"{MOST + 1} tokens"):
        attention_page([made(MOST + 1, MOST + 1)], "mine")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)
def test_all_heads_one_in_detail_light_and_dark_on_a_phone_too(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    given = [made(40, 40), made(6, 40, "encoder-decoder")]
    out.write_text(attention_page(given, "mine"), "utf-8")
    with browser(tmp_path / "chromium") as page:
        for width in (1200, 390):
            for dark in (False, True):
                page.open(out.as_uri(), width=width, dark=dark)
                assert page.run("document.documentElement.scrollWidth") <= width
                assert page.run(UNREADABLE) == []
                assert page.run("document.querySelectorAll('.thumb canvas').length") == 6
        assert page.run("document.querySelectorAll('.from .token').length") == 6
        page.run("document.querySelector('[name=kind]').click()")
        assert page.run("document.querySelectorAll('.from .token').length") == 40
        page.run("document.querySelectorAll('.thumb')[5].click()")
        page.run("document.querySelectorAll('.from .token')[7].focus()")
        row = given[0].weights[1, 2, 7]
        seen = page.text(".seen")
        assert given[0].columns[row.argmax()] in seen
        assert f"{100 * row.max():.1f} %" in seen
        assert page.text(".canvas h3") == "Layer 2, head 3"
        assert page.problems == []
