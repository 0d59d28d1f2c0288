"""The doctor's findings on a run's data, for its page."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from bertwright.config import values
from bertwright.config.bert_run import InstanceConfig, MaskingConfig
from bertwright.data.doctor import Finding, check
from bertwright.data.shards import read_shards_manifest
from bertwright.errors import BertwrightError
from bertwright.progress import OnProgress, silent
from bertwright.report.run_page import Run

MOST_TOKENS = 200_000_000
"""A larger corpus is not read again for a page."""


def with_checkup(run: Run, on_progress: OnProgress = silent) -> Run:
    """The run with what `data.doctor.check` finds in its data; as it is where the data has gone.

    Data that cannot be read is a finding, no error: the page is about the run.
    """
    data = run.config.get("data")  # a fine-tuned run has files there, not a folder
    if run.checkup or run.results or not data or not isinstance(data, str):
        return run
    folder = Path(data)
    if not folder.is_dir():
        return run
    try:
        tokens = int(read_shards_manifest(folder)["counts"]["tokens"])
        if tokens > MOST_TOKENS:
            found = Finding(
                "ok",
                "size",
                tokens,
                f"{tokens:,} tokens, not read again for this page: bertwright data check {folder}",
            )
            return replace(run, checkup={"findings": [asdict(found)]})
        checkup = check(
            folder,
            values.from_dict(InstanceConfig, run.config.get("instances", {}), "config.toml"),
            values.from_dict(MaskingConfig, run.config.get("masking", {}), "config.toml"),
            on_progress=on_progress,
        )
    except BertwrightError as error:
        found = Finding("error", "data", str(folder), str(error))
        return replace(run, checkup={"findings": [asdict(found)]})
    return replace(run, checkup=checkup.as_dict())
