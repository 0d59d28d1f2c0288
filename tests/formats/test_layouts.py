"""Every stored layout is opened, used and, if it is a run, resumed, with equal results.

The files lie in `layouts`, as an earlier version or another program wrote them, each folder with
what was computed with it. On the kind of computer on which that was computed all is equal to the
last bit; elsewhere numbers differ by less than `TOLERANCE`, as sums are rounded differently.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats.differences import differences
from tests.formats.layouts import EXPECTED, LAYOUTS, LAYOUTS_FOLDER, compute, unpack
from tests.formats.observe import computer, one_thread

TOLERANCE = 1e-5
"""Relative and absolute."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_computes_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads((LAYOUTS_FOLDER / name / EXPECTED).read_text("utf-8"))
    tolerance = 0.0 if expected.pop("computer") == computer() else TOLERANCE
    monkeypatch.chdir(tmp_path)
    unpack(name)
    with one_thread():
        found = list(differences(compute(name), expected, tolerance))
    assert not found, "\n".join(found[:20])


def test_every_folder_has_a_row() -> None:
    assert {path.name for path in LAYOUTS_FOLDER.iterdir()} == LAYOUTS.keys()
