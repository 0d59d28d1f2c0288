"""Runs that an earlier version wrote, on another computer: loaded and used with equal results.

`make_runs.py` made them and says what is computed with each. The tests use the command line and
`import bertwright` alone, so that they hold whatever moves behind these. What a model computes is
compared to within 1e-5, as the last bits of sums differ between computers; keys that are new are
not compared. `net.sh` compares all bit for bit, and resumes, repeats and converts the runs as well.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.golden import make_runs
from tests.golden.make_runs import COMMITTED, FOREIGN, SHARDS, UNCOMMITTED, USES, verb

UNEQUAL_BYTES = {"README.md", "MANIFEST.json", "weights.hdf5"}
"""Files of a foreign folder whose bytes may differ where nothing else does."""
AFTER_CONVERSION = {
    *("embed", "fill", "next_sentence", "score", "translate", "parse", "answers", "nearest"),
    "library_predictions",
}
"""Of the uses those that are computed with a converted run: one for each head, and vectors."""
OF_OTHER_TOKENS = {"vectors-binary"}
"""Unknown words have a vector in a converted file, and are left out by the runs they are of."""


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the runs as the working directory, and one thread that computes."""
    folder = tmp_path_factory.mktemp("golden") / "runs"
    shutil.copytree(COMMITTED / "runs", folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with make_runs.one_thread():
            yield folder
    finally:
        os.chdir(before)


@cache
def expected(name: str) -> dict[str, Any]:
    """What `make_runs.py` wrote of a run."""
    content: dict[str, Any] = json.loads(
        (COMMITTED / "expected" / f"{name}.json").read_text("utf-8")
    )
    return content


def differences(ours: Any, golden: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ by more than a tolerance, in the keys of the second."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key in golden.keys() - ours.keys():
            yield f"{place}.{key} is missing"
        for key in ours.keys() & golden.keys():
            if key == "warnings":  # how many there are; their words may change
                ours, golden = ours | {key: len(ours[key])}, golden | {key: len(golden[key])}
            yield from differences(ours[key], golden[key], f"{place}.{key}")
    elif isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        for number, (one, other) in enumerate(zip(ours, golden, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(golden, float) and isinstance(ours, float | int):
        if ours != pytest.approx(golden, rel=1e-5, abs=1e-5, nan_ok=True):
            yield f"{place} is {ours}; expected {golden}"
    elif type(ours) is not type(golden) or ours != golden:
        yield f"{place} is {ours!r}; expected {golden!r}"


def assert_equal(ours: Any, golden: Any) -> None:
    """Two JSON values are equal up to a tolerance."""
    found = list(differences(make_runs.plain(ours), golden))
    assert not found, "\n".join(found[:20])


def uses_of(name: str, folder: str) -> dict[str, Any]:
    """What is computed with `folder`, which was converted from the run `name`."""
    return {use.__name__: use(folder) for use in USES[name] if use.__name__ in AFTER_CONVERSION}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in USES if name not in UNCOMMITTED])
def test_a_stored_run_computes_the_same(name: str) -> None:
    golden = {key: value for key, value in expected(name).items() if key not in ("config", "end")}
    assert_equal(make_runs.uses_of(name), golden)


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_written_as_stored(name: str) -> None:
    source, to, stored_as = FOREIGN[name]
    golden = Path(stored_as)
    out = golden.with_name(f"again-{golden.name}")
    verb("convert", source, out, "--to", to)
    pairs = [(out, golden)]
    if golden.is_dir():
        names = {path.relative_to(golden) for path in golden.rglob("*") if path.is_file()}
        assert {path.relative_to(out) for path in out.rglob("*") if path.is_file()} == names
        pairs = [(out / each, golden / each) for each in names if each.name not in UNEQUAL_BYTES]
    for ours, theirs in pairs:
        assert ours.read_bytes() == theirs.read_bytes(), theirs


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_compute_what_their_run_does(name: str) -> None:
    source, _, file = FOREIGN[name]
    out = f"imported-{name}"
    verb("convert", file, out)
    found = uses_of(name, out)
    assert_equal(found, {key: expected(name)[key] for key in found})
    kept = found.keys() & expected(source).keys() - (
        {"embed"} if name in OF_OTHER_TOKENS else set()
    )
    assert_equal({key: found[key] for key in kept}, {key: expected(source)[key] for key in kept})


def test_tokenizers_and_shards_are_built_as_stored(tmp_path: Path) -> None:
    make_runs.build_shards(tmp_path / "shards", tmp_path / "tokenizers")
    for golden in Path("shards").rglob("*"):
        if golden.name == "MANIFEST.json":
            made, stored = (json.loads(x.read_bytes()) for x in (tmp_path / golden, golden))
            assert_equal(made, stored)
        elif golden.is_file():
            assert (tmp_path / golden).read_bytes() == golden.read_bytes(), golden
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {*SHARDS, "trees"}
