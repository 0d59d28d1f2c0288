"""The configuration file of a run: what is written is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertwright.config import values
from bertwright.models.catalogue import make_run
from bertwright.models.seq2seq.config import Seq2SeqConfig, Seq2SeqRun


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_what_is_written_is_read(tmp_path: Path, attention: Any) -> None:
    sizes = Seq2SeqConfig(hidden_size=8, attention=attention)
    run = Seq2SeqRun(data="d", out="o", steps=3, architecture=sizes)
    path = tmp_path / "config.toml"
    path.write_text(values.to_toml(run), encoding="utf-8")
    assert make_run(Seq2SeqRun, values.read_toml(path), str(path)) == run
