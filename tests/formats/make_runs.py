"""Tiny runs of every system and a fine-tuned model of every kind, and what they compute.

    python -m tests.formats.make_runs --out FOLDER

trains the runs in `FOLDER/runs` and writes what they compute to `FOLDER/expected`; without `--out`
into `build/net/runs` and `build/net/expected`, which git ignores. It takes a minute on one core. It
and what it imports (`sample_data.py`, `configurations.py`, `uses.py`, `observe.py`) use the command
line and `import bertwright` alone, so that they need no change when files move.
`net.sh COMMIT` makes them with the code of a commit, and `net.py` compares bit for bit what the
present code loads, computes, resumes, repeats and converts.

Every pre-training run is stored as one that stopped half-way: its newest checkpoint is that of half
its steps, and what `expected` holds of its end is what `--resume` must come to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tests.formats.configurations import FINETUNED, FOREIGN, MULTITASK, PRETRAINED, UNITS
from tests.formats.observe import (
    Json,
    computer,
    config_of,
    end_of,
    newest,
    one_thread,
    plain,
    results_of,
    scratch,
    verb,
)
from tests.formats.sample_data import build_shards, files, write_data
from tests.formats.uses import USES

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "build" / "net"


def start(words: list[object], config: dict[str, Any]) -> None:
    """Run `pretrain` or `finetune` with a configuration."""
    with scratch() as folder:
        (folder / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        verb(*words, "--config", folder / "config.toml")


def pretrain(name: str) -> Json:
    """Train a run of `PRETRAINED`, take it back to half of its steps, and return its end."""
    common = {"out": name, "seed": 3, "precision": "fp32", "device": "cpu"}
    start(["pretrain"], {**common, **PRETRAINED[name]})
    end = end_of(name)
    stop_half_way(name)
    return end


def finetune(name: str) -> Json:
    """Train a run of `FINETUNED`, make its head small, and return its end."""
    kind, config = FINETUNED[name]
    config = {"out": name, **config}
    if kind == "multitask":
        Path("tasks.toml").write_text(tomli_w.dumps(MULTITASK), encoding="utf-8")
        start(["finetune", kind, "--tasks", "tasks.toml"], config)
        Path("tasks.toml").unlink()
    else:
        start(["finetune", kind_of(name)], {**config, **files(kind)})
    (Path(name) / "model").unlink(missing_ok=True)
    end = {**end_of(name), "results": results_of(name)}
    shrink_head(name)
    return end


def kind_of(name: str) -> str:
    """The kind of a fine-tuned run, as `finetune` is given it."""
    kind, _ = FINETUNED[name]
    return {"pair": "classification", "multi-label": "classification"}.get(kind, kind)


def shrink_head(run: Path | str) -> None:
    """Cut a stored LSTM of a task's head from 256 units, which no option changes, to `UNITS`.

    The checkpoint is then one of `head.network_size` `UNITS`; its numbers are a part of those that
    were trained.
    """
    folder = newest(run)
    content = json.loads((folder / "task.json").read_text("utf-8"))
    heads = [
        task["head"] for task in content["tasks"].values() if task["head"]["network"] != "linear"
    ]
    if not heads:
        return
    for head in heads:
        head["network_size"] = UNITS
    (folder / "task.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    path = folder / "heads.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()

    def small(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if "characters" in name:
            return x
        sizes = (n // 256 * UNITS + n % 256 if n >= 256 else n for n in x.shape)
        return np.array(x[tuple(map(slice, sizes))], order="C")

    save_file({name: small(name, x) for name, x in load_file(path).items()}, path, metadata)
    manifest = json.loads((folder / "MANIFEST.json").read_text("utf-8"))
    for name, facts in manifest["files"].items():
        data = (folder / name).read_bytes()
        facts.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (folder / "MANIFEST.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def import_foreign(name: str, out: Path | str) -> None:
    """Read a foreign file as a folder of ours."""
    verb("convert", FOREIGN[name][2], out)


def export_foreign(name: str, out: Path | str) -> None:
    """Write a run as a foreign file."""
    source, to, _ = FOREIGN[name]
    verb("convert", source, out, "--to", to)


def stop_half_way(name: str) -> None:
    """Take a finished run back to the checkpoint before its last."""
    folder = Path(name) / "checkpoints"
    there = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(there) > 1:
        shutil.rmtree(there[-1])
        there.pop()
    step = int(there[-1].name.removeprefix("step-"))
    (folder / "latest").write_text(f"{there[-1].name}\n", encoding="utf-8")
    (Path(name) / "model").unlink(missing_ok=True)  # a link, which not every system has
    log = Path(name) / "metrics.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    log.write_text("".join(kept), encoding="utf-8")


def as_text(expected: Json) -> str:
    """The text of a file of `expected`: a line a key of the first level."""
    lines = (
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in expected.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make(name: str) -> dict[str, Json]:
    """Make a run or a folder of foreign files, and return what is known of its making."""
    if name in FOREIGN:
        if not Path(FOREIGN[name][2]).exists():
            export_foreign(name, FOREIGN[name][2])
        import_foreign(name, name)
        return {}
    end = pretrain(name) if name in PRETRAINED else finetune(name)
    return {"config": config_of(name), "end": end}


def uses_of(name: str) -> dict[str, Json]:
    """What is computed with a run or a folder of foreign files, by the names of the functions."""
    return {use.__name__: plain(use(name)) for use in USES[name]}


def make_all(out: Path) -> None:
    """Make `out/runs` and `out/expected` again.

    Raises:
        SystemExit: there is a folder `out/runs` that is not of this file.
    """
    runs, expected = out / "runs", out / "expected"
    if runs.exists() and not expected.is_dir():
        raise SystemExit(f"{runs} was not written by make_runs.py: name another folder by --out")
    for folder in (runs, expected):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def write(name: str, content: Json) -> None:
        (expected / f"{name}.json").write_text(as_text(content), encoding="utf-8")

    os.chdir(runs)
    with one_thread():
        write_data()
        build_shards(Path("shards"), Path("tokenizers"))
        Path("foreign").mkdir()
        for name in USES:
            print(name, flush=True)
            write(name, plain({**make(name), **uses_of(name)}))
    write("computer", {"computer": computer()})  # the last: the folder is complete
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size:,} bytes")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default: %(default)s")
    make_all(parser.parse_args().out.resolve())


if __name__ == "__main__":
    main()
