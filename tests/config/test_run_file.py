"""Configuration files of runs, those of earlier versions too: a saved run repeats itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.config import values
from bertwright.config.run_file import read_run_file
from bertwright.errors import ConfigError
from bertwright.models.bert.config import BertRun
from bertwright.models.seq2seq.config import Seq2SeqChanges, Seq2SeqRun


def seq2seq(attention: Any = None) -> Seq2SeqRun:
    changes = Seq2SeqChanges(hidden_size=8, attention=attention)
    return Seq2SeqRun(data="d", out="o", steps=3, architecture=changes)


def read(path: Path) -> Seq2SeqRun:
    return values.from_dict(Seq2SeqRun, read_run_file(path, Seq2SeqRun), str(path))


def write_as_earlier(path: Path, run: Seq2SeqRun) -> None:
    """As the version before wrote it: `share`, and "none" for every key that is None."""
    mapping = values.to_dict(run, "none")
    mapping["validation"]["share"] = mapping["validation"].pop("fraction")
    path.write_text(values.to_toml(mapping), encoding="utf-8")


@pytest.mark.parametrize("attention", [None, "none", "additive"])
def test_what_is_written_is_read(tmp_path: Path, attention: Any) -> None:
    path = tmp_path / "config.toml"
    path.write_text(values.to_toml(seq2seq(attention)), encoding="utf-8")
    assert read(path) == seq2seq(attention)


@pytest.mark.parametrize("attention", [None, "none", "additive"])
def test_a_file_of_an_earlier_version_means_what_its_model_has(
    tmp_path: Path, attention: Any
) -> None:
    path = tmp_path / "config.toml"
    write_as_earlier(path, seq2seq(attention))
    saved = tmp_path / "checkpoints" / "step-00000003"
    saved.mkdir(parents=True)
    model = values.to_dict(seq2seq(attention).model_config(50))
    (saved / "config.json").write_text(json.dumps({"model_type": "seq2seq", **model}))
    assert read(path) == seq2seq(attention)


def test_without_its_model_it_was_unset(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write_as_earlier(path, seq2seq())
    assert read(path).architecture.attention is None


@pytest.mark.parametrize("more", ["", "[validation]\nshare = 0.1\n"])
def test_a_file_of_ones_own_means_the_choice(tmp_path: Path, more: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'data = "d"\nout = "o"\n{more}[architecture]\nattention = "none"\n')
    assert read(path).architecture.attention == "none"


def test_former_names_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        "[validation]\nshare = 0.25\n[long_phase]\nshare = 0.5\n"
        "[masking]\nmask_share = 0.5\nrandom_share = 0.25\n"
    )
    mapping = read_run_file(path, BertRun)
    assert mapping == {
        "validation": {"fraction": 0.25},
        "long_phase": {"fraction": 0.5},
        "masking": {"mask_fraction": 0.5, "random_fraction": 0.25},
    }
    path.write_text("[validation]\nshare = 0.25\nfraction = 0.5\n")
    with pytest.raises(ConfigError, match=r"validation\.share.*validation\.fraction"):
        read_run_file(path, BertRun)
