"""Run the command line, and read what it wrote."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from threadpoolctl import threadpool_limits

from bertwright.cli.app import run as run_verb

Json = Any

# The text: documents of a small grammar, each about one subject and one place.

CLOCKED = (
    "seconds",
    "tokens_per_second",
    "examples_per_second",
    "utilization",
    "memory_gb",
    "cores",
)
"""Keys of a line of `metrics.jsonl` that depend on the computer and on the clock."""


def plain(value: Any) -> Json:
    """Numbers of NumPy, tuples and paths as JSON has them."""
    return json.loads(
        json.dumps(value, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
    )


def verb(*words: object) -> str:
    """Run a command line and return what it printed.

    Raises:
        RuntimeError: it failed; with its messages.
    """
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run_verb([str(word) for word in words])
    if code:
        raise RuntimeError(f"bertwright {' '.join(map(str, words))}: {code}\n{said.getvalue()}")
    return out.getvalue()


def answer_of(*words: object) -> Json:
    """Run a command line with `--json` and return the object that it printed."""
    return json.loads(verb(*words, "--json"))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the working directory that is removed at the end."""
    folder = Path(f"scratch-{os.getpid()}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread computes: the same sums in the same order on every computer of a kind."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def computer() -> str:
    """What the last bits of results depend on: the processor and the libraries that compute."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        keys = ("vendor_id", "cpu family", "model\t", "flags")
        facts = dict.fromkeys(line for line in lines if line.startswith(keys))
        processor = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return f"{processor}, torch {torch.__version__}, numpy {np.__version__}"


def newest(run: Path | str) -> Path:
    """The checkpoint that `latest` names."""
    folder = Path(run) / "checkpoints"
    return folder / (folder / "latest").read_text("utf-8").strip()


def records(run: Path | str) -> list[dict[str, Any]]:
    """Every line of the log, less what depends on the clock."""
    lines = (Path(run) / "metrics.jsonl").read_text("utf-8").splitlines()
    return [{k: v for k, v in json.loads(each).items() if k not in CLOCKED} for each in lines]


def config_of(run: Path | str) -> dict[str, Any]:
    """The configuration of a run, less the folder it was written to."""
    config = tomllib.loads((Path(run) / "config.toml").read_text("utf-8"))
    return {key: value for key, value in config.items() if key not in ("out", "tasks")}


def weights_of(run: Path | str) -> Json:
    """What identifies the tensors of the newest checkpoint, those of its optimizer too.

    `layout` is a hash of names, types and shapes, `bits` one of all numbers; `norm` and
    `projection` are two sums over the numbers for a comparison with a tolerance.
    """
    found: dict[str, Any] = {}
    for path in sorted(newest(run).glob("*.safetensors")):
        tensors = load_file(path)
        layout, bits, squares, projection = hashlib.sha256(), hashlib.sha256(), 0.0, 0.0
        for name, x in sorted(tensors.items()):
            layout.update(f"{name} {x.dtype} {x.shape}\n".encode())
            bits.update(x.tobytes())
            if x.dtype.kind == "f":
                wide = x.astype(np.float64).ravel()
                squares += float(wide @ wide)
                projection += float(wide @ np.cos(np.arange(len(wide))))
        found[path.name] = {
            "layout": layout.hexdigest()[:16],
            "bits": bits.hexdigest()[:16],
            "norm": squares**0.5,
            "projection": projection,
        }
    return found


def end_of(run: Path | str) -> Json:
    """What a finished run has come to: its log and its weights."""
    return {"records": records(run), "weights": weights_of(run)}


def results_of(run: Path | str) -> Json:
    """The figures of a fine-tuned run, less its settings, which `config_of` gives."""
    results = json.loads((Path(run) / "results.json").read_text("utf-8"))
    return without(results, "settings", *CLOCKED)


def without(value: Json, *keys: str) -> Json:
    """A JSON value without some keys at any depth."""
    if isinstance(value, dict):
        return {k: without(v, *keys) for k, v in value.items() if k not in keys}
    return [without(each, *keys) for each in value] if isinstance(value, list) else value
