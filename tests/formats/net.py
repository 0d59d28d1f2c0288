"""The present code computes bit for bit what that of a commit did.

The command is `tests/formats/net.sh COMMIT`: it makes the runs with the code of the commit, names
their folder by the variable BERTWRIGHT_NET and runs this file, which pytest does not collect by
itself.

Everything must be equal: figures to the last bit, files to the last byte. What is not compared
depends on the clock or on the path: the keys `CLOCKED` of logs and results, and `out`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.formats.configurations import CONVERTED, FINETUNED, FOREIGN, PRETRAINED
from tests.formats.differences import differences
from tests.formats.make_runs import export_foreign, import_foreign, kind_of, uses_of
from tests.formats.observe import computer, config_of, end_of, one_thread, plain, results_of, verb
from tests.formats.sample_data import build_shards
from tests.formats.uses import USES

if "BERTWRIGHT_NET" not in os.environ:
    raise RuntimeError("run tests/formats/net.sh COMMIT, which makes the runs that are compared")
NET = Path(os.environ["BERTWRIGHT_NET"])
NAMES = sorted(path.stem for path in (NET / "expected").glob("*.json") if path.stem != "computer")
MADE_BY = json.loads((NET / "expected" / "computer.json").read_text("utf-8"))["computer"]
if (here := computer()) != MADE_BY:  # the last bits would differ
    raise RuntimeError(f"the runs were made by {MADE_BY}; here is {here}: remove build/net")
MOST = 10
"""Differences that are shown of a run."""

AFTER_CONVERSION = {
    *("embed", "fill", "next_sentence", "score", "translate", "parse", "answers", "nearest"),
    "library_predictions",
}
"""Of the uses those that are computed with a converted run: one for each head, and vectors."""


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A copy of the runs as the working directory, and one thread that computes."""
    folder = tmp_path_factory.mktemp("net") / "runs"
    shutil.copytree(NET / "runs", folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with one_thread():
            yield
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


@cache
def expected(name: str) -> dict[str, Any]:
    """What `make_runs.py` wrote of a run."""
    content: dict[str, Any] = json.loads((NET / "expected" / f"{name}.json").read_text("utf-8"))
    return content


def assert_equal(name: str, ours: Any, expected: Any) -> None:
    """Two JSON values are equal bit for bit."""
    found = list(differences(plain(ours), expected))
    if found:
        more = [f"... {len(found) - MOST} more"] if len(found) > MOST else []
        pytest.fail("\n".join(name + line for line in [*found[:MOST], *more]), pytrace=False)


def uses_when_converted(name: str, folder: str) -> dict[str, Any]:
    """What is computed with `folder`, which was converted from the run `name`."""
    return {use.__name__: use(folder) for use in USES[name] if use.__name__ in AFTER_CONVERSION}


def of(*kinds: dict[str, Any]) -> list[str]:
    """The names of the runs of these kinds."""
    return [name for name in NAMES if any(name in kind for kind in kinds)]


def test_the_runs_are_those_of_make_runs() -> None:
    assert sorted(USES) == NAMES


@pytest.mark.parametrize("name", of(USES))
def test_computes_the_same(name: str) -> None:
    used = {key: value for key, value in expected(name).items() if key not in ("config", "end")}
    assert_equal(name, uses_of(name), used)


@pytest.mark.parametrize("name", of(PRETRAINED))
def test_resumes_to_the_same_end(name: str) -> None:
    out = Path(f"resumed-{name}")
    shutil.copytree(name, out)
    verb("pretrain", "--config", out / "config.toml", "--out", out, "--resume")
    assert_equal(f"{name} resumed", end_of(out), expected(name)["end"])


@pytest.mark.parametrize("name", of(PRETRAINED, FINETUNED))
def test_its_configuration_repeats_the_run(name: str) -> None:
    out = f"repeated-{name}"
    command = ["finetune", kind_of(name)] if name in FINETUNED else ["pretrain"]
    verb(*command, "--config", Path(name) / "config.toml", "--out", out)
    end = end_of(out)
    if name in FINETUNED:
        end |= {"results": results_of(out)}
    ours = {"config": config_of(out), "end": end}
    assert_equal(f"{name} repeated", ours, {key: expected(name)[key] for key in ours})


@pytest.mark.parametrize("name", of(PRETRAINED, FINETUNED))
def test_computes_the_same_when_converted(name: str) -> None:
    out = CONVERTED + name
    verb("convert", name, out)
    found = uses_when_converted(name, out)
    assert_equal(f"{name} converted", found, {key: expected(name)[key] for key in found})


@pytest.mark.parametrize("name", of(FOREIGN))
def test_a_foreign_file_computes_the_same(name: str) -> None:
    out = f"imported-{name}"
    import_foreign(name, out)
    found = uses_when_converted(name, out)
    assert_equal(f"{name} imported", found, {key: expected(name)[key] for key in found})


@pytest.mark.parametrize("name", of(FOREIGN))
def test_a_foreign_file_is_written_the_same(name: str) -> None:
    stored = Path(FOREIGN[name][2])
    out = stored.with_name(f"again-{stored.name}")
    export_foreign(name, out)
    assert_equal(f"{name} exported", contents(out), contents(stored))


@pytest.mark.parametrize("folder", ["tokenizers", "shards"])
def test_tokenizers_and_shards_are_the_same(folder: str, tmp_path: Path) -> None:
    build_shards(tmp_path / "shards", tmp_path / "tokenizers")
    assert_equal(folder, contents(tmp_path / folder), contents(Path(folder)))


def contents(path: Path) -> dict[str, Any]:
    """Names of files within a folder, or `file` -> what identifies their content."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    names = [str(each.relative_to(path)) if path.is_dir() else "file" for each in files]
    return {name: content_of(each) for name, each in zip(names, files, strict=True)}


def content_of(path: Path) -> Any:
    """The size and hash of a file; of a JSON file its values, whose order `rename_keys.py` changes.

    The manifest of a folder has the sizes and hashes of its other JSON files.
    """
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(data)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
