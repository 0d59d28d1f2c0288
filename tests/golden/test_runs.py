"""Runs that an earlier version wrote: loaded, used, resumed, repeated and converted with equal
results.

`make_runs.py` made them and says what is computed with each. The tests use the command line and
`import bertwright` alone, so that they hold whatever moves behind these.

On the computer that made the runs training must repeat bit for bit. On others the last bits of sums
differ, and Adam's first steps enlarge them: losses and weights are then compared with a tolerance,
and what a model computes to within 1e-5.
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
from tests.golden.make_runs import (
    EXPECTED,
    FINETUNED,
    FOREIGN,
    PRETRAINED,
    RUNS,
    SHARDS,
    UNEQUAL_BYTES,
    UNSTORED,
    USES,
    verb,
)

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
    shutil.copytree(RUNS, folder)
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
    content: dict[str, Any] = json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))
    return content


@cache
def on_the_same_computer() -> bool:
    """Whether training must repeat bit for bit."""
    return bool(expected("computer")["computer"] == make_runs.computer())


@cache
def stored(name: str) -> str:
    """A run by its name; one that is too large to store is made first."""
    if name in UNSTORED:
        make_runs.make(name)
    return name


def differences(
    ours: Any, golden: Any, relative: float, absolute: float, place: str = ""
) -> Iterator[str]:
    """Where two JSON values differ by more than a tolerance."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key in ours.keys() ^ golden.keys():
            yield f"{place}.{key} is in one of them only"
        for key in ours.keys() & golden.keys():
            if key == "warnings":  # how many there are; their words may change
                ours, golden = ours | {key: len(ours[key])}, golden | {key: len(golden[key])}
            yield from differences(ours[key], golden[key], relative, absolute, f"{place}.{key}")
    elif isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        for number, (one, other) in enumerate(zip(ours, golden, strict=True)):
            yield from differences(one, other, relative, absolute, f"{place}[{number}]")
    elif isinstance(golden, float) and isinstance(ours, float | int):
        if ours != pytest.approx(golden, rel=relative, abs=absolute, nan_ok=True):
            yield f"{place} is {ours}; expected {golden}"
    elif type(ours) is not type(golden) or ours != golden:
        yield f"{place} is {ours!r}; expected {golden!r}"


def assert_equal(ours: Any, golden: Any, relative: float = 1e-5, absolute: float = 1e-5) -> None:
    """Two JSON values are equal up to a tolerance."""
    found = list(differences(make_runs.plain(ours), golden, relative, absolute))
    assert not found, "\n".join(found[:20])


LATER_SIZES = {"pooler"}
"""Keys of configurations that came after the runs were stored."""
SUMMED_OTHERWISE = {"awd-lstm"}
"""Runs that were stored before a loss of theirs was summed in another order."""


def assert_same_end(name: str, ours: Any, golden: Any) -> None:
    """Two runs have come to the same end: bit for bit on the computer that made the runs."""
    if on_the_same_computer() and name not in SUMMED_OTHERWISE:
        assert_equal(ours, golden, relative=1e-8, absolute=1e-9)
        return
    for file, of_file in golden["weights"].items():
        assert ours["weights"][file]["layout"] == of_file["layout"]
        assert ours["weights"][file]["norm"] == pytest.approx(of_file["norm"], rel=1e-2)
    assert len(ours["records"]) == len(golden["records"])
    for one, other in zip(ours["records"], golden["records"], strict=True):
        assert one.keys() == other.keys()
        losses = {key: value for key, value in other.items() if key.endswith("loss")}
        assert one | losses == pytest.approx(one | losses)
        assert {key: one[key] for key in losses} == pytest.approx(losses, rel=1e-2)


def uses_of(name: str, folder: str) -> dict[str, Any]:
    """What is computed with `folder`, which was converted from the run `name`."""
    return {use.__name__: use(folder) for use in USES[name] if use.__name__ in AFTER_CONVERSION}


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_a_stored_run_computes_the_same(name: str) -> None:
    golden = {key: value for key, value in expected(name).items() if key not in ("config", "end")}
    ours = make_runs.plain(make_runs.uses_of(stored(name)))
    for task, of_task in golden.get("predictions", {}).items():
        lines = zip(ours["predictions"][task]["lines"], of_task["lines"], strict=True)
        ours["predictions"][task]["lines"] = [stored_keys(line, before) for line, before in lines]
    if "inspect" in golden:
        for key in LATER_SIZES - golden["inspect"]["sizes"].keys():
            ours["inspect"]["sizes"].pop(key, None)
    assert_equal(ours, golden)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRETRAINED)
def test_a_stopped_run_resumes_to_the_same_end(name: str) -> None:
    out = Path(f"resumed-{name}")
    shutil.copytree(stored(name), out)
    verb("pretrain", "--config", out / "config.toml", "--out", out, "--resume")
    assert_same_end(name, make_runs.end_of(out), expected(name)["end"])


def stored_keys(config: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """A configuration without keys that came after a run was stored."""
    return {
        key: stored_keys(value, stored[key]) if isinstance(value, dict) else value
        for key, value in config.items()
        if key in stored
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRETRAINED, *FINETUNED])
def test_a_stored_configuration_repeats_the_run(name: str) -> None:
    out = Path(f"repeated-{name}")
    file = Path(stored(name)) / "config.toml"
    kind = make_runs.kind_of(name) if name in FINETUNED else None
    verb(*(["finetune", kind] if kind else ["pretrain"]), "--config", file, "--out", out)
    written = make_runs.as_now(expected(name)["config"])
    assert stored_keys(make_runs.config_of(out), written) == written
    assert stored_keys(make_runs.config_of(name), written) == written
    end, golden = make_runs.end_of(out), expected(name)["end"]
    if kind:
        end |= {"results": stored_keys(make_runs.results_of(out), golden["results"])}
    assert_same_end(name, end, golden)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRETRAINED, *FINETUNED])
def test_a_converted_run_computes_the_same(name: str) -> None:
    out = make_runs.CONVERTED + name
    verb("convert", stored(name), out)
    found = uses_of(name, out)
    assert_equal(found, {key: expected(name)[key] for key in found})


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_written_as_stored(name: str) -> None:
    source, to, stored_as = FOREIGN[name]
    golden = Path(stored_as)
    out = golden.with_name(f"again-{golden.name}")
    verb("convert", stored(source), out, "--to", to)
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


def without_zeros(manifest: Any) -> Any:
    """A manifest without what was counted and not met: later versions count more."""
    if not isinstance(manifest, dict):
        return manifest
    return {key: without_zeros(value) for key, value in manifest.items() if value not in (0, {})}


def test_tokenizers_and_shards_are_built_as_stored(tmp_path: Path) -> None:
    make_runs.build_shards(tmp_path / "shards", tmp_path / "tokenizers")
    for golden in Path("shards").rglob("*"):
        if golden.name == "MANIFEST.json":
            made = json.loads((tmp_path / golden).read_text("utf-8"))
            assert without_zeros(made) == without_zeros(json.loads(golden.read_text("utf-8")))
        elif golden.is_file():
            assert (tmp_path / golden).read_bytes() == golden.read_bytes(), golden
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {*SHARDS, "trees"}
