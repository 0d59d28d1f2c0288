"""The log of a run: one JSON object per line in `metrics.jsonl`, and one line on the screen."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bertwright.atomic import atomic_path
from bertwright.errors import DataError, MissingExtra
from bertwright.progress import clock, silent

METRICS = "metrics.jsonl"
"""The name of the log in the folder of a run."""

Number = float | int
OnLog = Callable[[dict[str, Any]], object]
"""A function that is called with each record of `metrics.jsonl`."""
_PLACES = {"step", "tokens", "seconds", "split", "epoch", "seed"}
_MOST_METRICS = 4  # the most metrics in a line on the screen


class Log:
    """Appends records to `metrics.jsonl`, prints them, and optionally writes them to
    TensorBoard.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        keep: int = 0,
        tensorboard: bool = False,
        step: int = 0,
        labels: Mapping[str, Number | str] | None = None,
        titles: Mapping[str, str] | None = None,
        on_log: OnLog = silent,
    ) -> None:
        """Open the log of a run that is at `step`: later TensorBoard events are removed.

        The first `keep` lines of an existing file are kept; -1 keeps all. `labels` are added to
        every record, `titles` are the names of objectives that are printed, and `on_log` is called
        with each record.
        """
        self._say = say
        self._on_log = on_log
        self._titles = dict(titles or {})
        self._labels = dict(labels or {})
        path = folder / METRICS
        lines = _whole_lines(path) if path.exists() else []
        lines = lines if keep < 0 else lines[:keep]
        with atomic_path(path, overwrite=True) as partial:  # atomic, so that a kill loses no line
            partial.write_bytes(b"".join(lines))
        self.records = len(lines)
        # Unbuffered, so that each line reaches the file and a full disk is an error at once.
        self._file = path.open("ab", buffering=0)
        self._board = Board(folder / "tensorboard", step) if tensorboard else None

    def write(self, record: Mapping[str, Number | str], **shown: float | None) -> None:
        """Append a record and print it.

        `shown` is only printed: `done` (the fraction of the run, 0 to 1) and `left` (seconds).
        """
        record = {**record, **self._labels}
        finite = {key: _number(value) for key, value in record.items()}
        line = json.dumps(finite) + "\n"
        if self._file.write(line.encode()) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._file.name)
        self.records += 1
        self._say(describe(record, self._titles, **shown))
        if self._board is not None:
            self._board.write(record)
        self._on_log(finite)

    def say(self, text: str) -> None:
        """Print a line that is not a record."""
        self._say(text)

    def close(self) -> None:
        """Close the files of the log."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def describe(
    record: Mapping[str, Number | str],
    titles: Mapping[str, str],
    done: float | None = None,
    left: float | None = None,
) -> str:
    """Return a record as one line for the screen."""
    held_out = record["split"] == "dev"
    parts = [f"step {record['step']:,}" + (" held-out" if held_out else "")]
    if done is not None:
        parts.append(f"{min(done, 1):.0%}")
    for key in [key.removesuffix(".loss") for key in record if key.endswith(".loss")]:
        name = titles.get(key) or key
        right = record.get(f"{key}.accuracy")  # a regression has none
        parts.append(
            f"{name} {record[f'{key}.loss']:.3f}" + ("" if right is None else f" ({right:.1%})")
        )
    if held_out and "loss" not in record:  # a task's own metrics, the main one first
        metrics = [key for key in record if key not in _PLACES]
        parts += [f"{key.replace('_', ' ')} {record[key]:.4f}" for key in metrics[:_MOST_METRICS]]
    formats = {
        "learning_rate": "rate {:.1e}",
        "gradient_norm": "gradient {:.2f}",
        "tokens_per_second": "{:,.0f} tokens/s",
        "utilization": "{:.0%} of peak",
        "memory_gb": "{:.1f} GB",
    }
    parts += [text.format(record[key]) for key, text in formats.items() if key in record]
    if left is not None:
        parts.append(f"{clock(left)} left")
    return " · ".join(parts)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a `metrics.jsonl`; an incomplete last line, after a kill, is left
    out.
    """
    records: list[dict[str, Any]] = []
    for number, line in enumerate(_whole_lines(path), 1):
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number} is damaged ({error}); remove that line"
            ) from error
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number} is {text[:40]!r}; expected an object")
        records.append(record)
    return records


def _whole_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True)
    return [line for line in lines if line.endswith(b"\n")]


def _number(value: Number | str) -> Number | str | None:
    """Return the value, or None for infinity and NaN, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary_writer() -> Any:
    """Return TensorBoard's writer class; raise MissingExtra if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard", "--log.tensorboard") from error
    return SummaryWriter


class Board:
    """Writes records to TensorBoard."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        """Open a folder of events. Events after `step`, from a session that was killed, are
        removed.
        """
        self._writer = summary_writer()(str(folder), purge_step=step + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of a record."""
        for name, value in record.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{record['split']}/{name}", value, record["step"])
        self._writer.flush()  # otherwise a kill would lose up to two minutes of lines

    def close(self) -> None:
        """Close the files of events."""
        self._writer.close()
