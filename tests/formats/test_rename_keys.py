"""Keys of stored runs are rewritten, manifests hold again, and nothing else changes."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from safetensors.numpy import save_file

from bertwright.atomic import sha256_file, verify_manifest, write_manifest
from tests.formats.rename_keys import Added, Change, Removed, Renamed, rename_keys

CONFIG = {"steps": 3, "validation": {"share": 0.1, "tokens": 7}, "log": {"every": 1}}
RECORDS = [{"step": n, "first.loss": 0.1 + n / 3, "memory": n} for n in range(3)]
TASK = {"tasks": {"a": {"head": {"size": 4, "crf": False}}, "b": {"head": {"size": 5}}}}
RESULTS = {"seeds": [{"seed": 1, "f1": 0.3}, {"seed": 2, "f1": 2 / 3}], "cut": 0}
CHANGES: tuple[Change, ...] = (
    Renamed("config.toml", "validation/share", "validation/fraction"),
    Renamed("config.toml", "log/every", "every_steps"),
    Removed("config.toml", "steps"),
    Added("one/config.toml", "validation/hold_out", "documents"),
    Added("two/config.toml", "validation/hold_out", "sentences"),
    Renamed("metrics.jsonl", "first.loss", "loss"),
    Removed("metrics.jsonl", "memory"),
    Renamed("task.json", "tasks/*/head/size", "tasks/*/units"),
    Renamed("results.json", "seeds/*/f1", "seeds/*/macro_f1"),
    Added("results.json", "activation", "none"),
    Renamed("checkpoints/*/config.json", "width", "hidden_size"),
    Renamed("MANIFEST.json", "counts/pieces", "counts/tokens"),
    Renamed("environment.json", "cpu", "processor"),
    Renamed("inspect", "sizes/width", "sizes/hidden_size"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run on shards with a checkpoint, and what is expected of it."""
    shards, run = tmp_path / "runs" / "shards", tmp_path / "runs" / "one"
    checkpoint = run / "checkpoints" / "step-3"
    for each in (shards, checkpoint, tmp_path / "expected"):
        each.mkdir(parents=True)
    (shards / "shard.tokens").write_bytes(b"1234")
    write_manifest(shards, {"counts": {"pieces": 4}})
    environment = {"cpu": "x", "data_sha256": sha256_file(shards / "MANIFEST.json")}
    (run / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    (run / "config.toml").write_text(tomli_w.dumps(CONFIG))
    (run / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    (run / "results.json").write_text(json.dumps(RESULTS, indent=1) + "\n")
    (checkpoint / "config.json").write_text(json.dumps({"width": 8}, indent=2) + "\n")
    (checkpoint / "task.json").write_text(json.dumps(TASK, indent=1) + "\n")
    save_file({"x": np.arange(3.0)}, checkpoint / "model.safetensors")
    write_manifest(checkpoint, {"step": 3})
    expected = {
        "config": CONFIG,
        "end": {"records": RECORDS, "results": RESULTS},
        "inspect": {"sizes": {"width": 8}, "norm": 0.1},
    }
    lines = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in expected.items())
    (tmp_path / "expected" / "one.json").write_text("{\n" + lines + "\n}\n")
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    places = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in places}


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_keys_change_and_values_stay(folder: Path) -> None:
    before = everything(folder)
    rename_keys(folder, CHANGES)
    run, expected = folder / "runs" / "one", read(folder / "expected" / "one.json")
    checkpoint = run / "checkpoints" / "step-3"

    config = {
        "validation": {"fraction": 0.1, "tokens": 7, "hold_out": "documents"},
        "log": {},
        "every_steps": 1,
    }
    assert tomllib.loads((run / "config.toml").read_text("utf-8")) == config
    assert list(config["validation"]) == ["fraction", "tokens", "hold_out"]  # in its place
    records = [{"step": n, "loss": 0.1 + n / 3} for n in range(3)]
    lines = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == records
    seeds = [{"seed": 1, "macro_f1": 0.3}, {"seed": 2, "macro_f1": 2 / 3}]
    results = {"seeds": seeds, "cut": 0, "activation": "none"}
    assert read(run / "results.json") == results
    task = {"a": {"head": {"crf": False}, "units": 4}, "b": {"head": {}, "units": 5}}
    assert read(checkpoint / "task.json") == {"tasks": task}
    assert read(checkpoint / "config.json") == {"hidden_size": 8}
    assert expected == {
        "config": config,
        "end": {"records": records, "results": results},
        "inspect": {"sizes": {"hidden_size": 8}, "norm": 0.1},
    }

    assert verify_manifest(checkpoint)["step"] == 3
    shards = folder / "runs" / "shards"
    assert verify_manifest(shards)["counts"] == {"tokens": 4}
    environment = {"processor": "x", "data_sha256": sha256_file(shards / "MANIFEST.json")}
    assert read(run / "environment.json") == environment

    after = everything(folder)
    assert before.keys() == after.keys()
    same = {name for name in before if before[name] == after[name]}
    assert same == {"runs/shards/shard.tokens", "runs/one/checkpoints/step-3/model.safetensors"}
    assert rename_keys(folder, CHANGES) == []
    assert everything(folder) == after


@pytest.mark.parametrize(
    "change",
    [
        Renamed("model.safetensors", "x", "y"),
        Removed("weights.hdf5", "x"),
        Added("metrics.jsonl", "loss", 0.5),
        Added("results.json", "seeds/*/f1", 0.5),
        Added("inspect", "norm", 0),
        Renamed("results.json", "seeds/*/f1", "f1"),
        Renamed("config.toml", "validation/share", "validation/tokens"),
        Removed("checkpoints/*/heads.safetensors", "x"),
    ],
)
def test_what_is_refused_changes_nothing(folder: Path, change: Change) -> None:
    before = everything(folder)
    with pytest.raises(SystemExit, match=change.file.split("/")[-1]):
        rename_keys(folder, [change])
    assert everything(folder) == before


def test_a_changed_file_does_not_pass_for_a_rewritten_one(folder: Path) -> None:
    weights = folder / "runs" / "one" / "checkpoints" / "step-3" / "model.safetensors"
    manifest = weights.with_name("MANIFEST.json")
    was = read(manifest)["files"]["model.safetensors"]
    shutil.copy(folder / "expected" / "one.json", weights)
    rename_keys(folder, CHANGES)
    assert read(manifest)["files"]["model.safetensors"] == was
