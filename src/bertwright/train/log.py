"""The log of a run: one JSON object a line in `metrics.jsonl`, one line on the screen."""

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

Number = float | int
OnLog = Callable[[dict[str, Any]], object]
"""Called with each record of `metrics.jsonl`."""
_PLACES = {"step", "tokens", "seconds", "split", "epoch", "seed"}
_MOST_METRICS = 4  # of a line on the screen


class Log:
    """Appends records to `metrics.jsonl`, prints them, and writes them to TensorBoard if wanted."""

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
        """Open the log of a run that is at `step`; lines after its first `keep` are removed
        (`keep` -1: none are). `labels` are put into every record; `titles` are what a person reads
        for the names of objectives."""
        self._say = say
        self._on_log = on_log
        self._titles = dict(titles or {})
        self._labels = dict(labels or {})
        path = folder / "metrics.jsonl"
        kept = _whole_lines(path) if path.exists() else []
        kept = kept if keep < 0 else kept[:keep]
        with atomic_path(path, overwrite=True) as partial:  # in one go: a kill here loses no line
            partial.write_bytes(b"".join(kept))
        self.records = len(kept)
        # Unbuffered: a line is on its way once it is written, and a full disk is an error at once.
        self._file = path.open("ab", buffering=0)
        self._board = open_board(folder / "tensorboard", step) if tensorboard else None

    def write(self, record: Mapping[str, Number | str], **shown: float | None) -> None:
        """Append a record; `shown`, only printed: `done` (of the run, 0 to 1), `left`
        (seconds)."""
        record = {**record, **self._labels}
        kept = {key: _number(value) for key, value in record.items()}
        line = json.dumps(kept) + "\n"
        if self._file.write(line.encode()) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._file.name)
        self.records += 1
        self._say(describe(record, self._titles, **shown))
        if self._board is not None:
            for name, value in record.items():
                if not isinstance(value, str):
                    self._board.add_scalar(f"{record['split']}/{name}", value, record["step"])
            self._board.flush()  # else two minutes of lines go with a kill
        self._on_log(kept)

    def say(self, text: str) -> None:
        """Print something that is no record."""
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
    """A record as one line: what a person wants to see while it runs."""
    held_out = record["split"] == "dev"
    parts = [f"step {record['step']:,}" + (" held-out" if held_out else "")]
    if done is not None:
        parts.append(f"{min(done, 1):.0%}")
    for key in [key.removesuffix(".loss") for key in record if key.endswith(".loss")]:
        name = titles.get(key) or key
        right = record.get(f"{key}.accuracy")  # none of a regression
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
    """The objects of a `metrics.jsonl`, one a line; a last line that a kill cut is left out.

    Raises:
        DataError: a line is damaged.
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
    """A value as JSON has it, which knows neither infinity nor NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary_writer() -> Any:
    """TensorBoard's writer; raises MissingExtra where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard", "--log.tensorboard") from error
    return SummaryWriter


def open_board(folder: Path, step: int = 0) -> Any:
    """TensorBoard's writer of events into a folder; those after `step`, of a session that was
    killed, are removed; raises as `summary_writer`."""
    return summary_writer()(str(folder), purge_step=step + 1)
