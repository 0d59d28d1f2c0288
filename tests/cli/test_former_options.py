"""Options and keys of `pretrain` by the names that earlier versions had for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bertwright
from bertwright.config import values
from bertwright.config.run import RunConfig, ValidationConfig
from bertwright.models.bert.config import BertRun
from bertwright.recipes import pretrain as pretraining
from bertwright.recipes import run_folder
from tests.cli.conftest import Ran

FORMER = {
    "validation.share": 0.25,
    "long_phase.share": 0.5,
    "masking.mask_share": 0.75,
    "masking.random_share": 0.125,
}
BEGIN = ("pretrain", "--data", "d", "--out", "o", "--steps", "2")


@pytest.fixture
def came(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """The configurations that the recipe would have been called with."""
    calls: list[RunConfig] = []

    def recipe(config: RunConfig, say: Callable[[str], None], **options: object) -> Path:
        calls.append(config)
        return Path(config.out)

    monkeypatch.setattr(pretraining, "pretrain", recipe)
    return calls


def values_of(run: RunConfig) -> list[float]:
    assert isinstance(run, BertRun)
    masking = run.masking
    return [
        run.validation.fraction,
        run.long_phase.fraction,
        masking.mask_fraction,
        masking.random_fraction,
    ]


def test_every_former_name_is_here() -> None:
    assert values.former_keys(BertRun).keys() == FORMER.keys()


def test_options(came: list[RunConfig], ran: Ran) -> None:
    joined = [f"--{key}={value}" for key, value in FORMER.items()]
    apart = [
        word for key, value in FORMER.items() for word in (f"--{key.replace('_', '-')}", str(value))
    ]
    for words in (joined, apart):
        ran(*BEGIN, *words)
        assert values_of(came[-1]) == list(FORMER.values())
    shown = ran("pretrain", "--help-all").out
    assert "--validation.fraction" in shown
    assert not any(f".{name}" in shown for name in ("share", "mask-share", "random-share"))


def test_keys_of_a_file_and_options_over_them(
    came: list[RunConfig], ran: Ran, tmp_path: Path
) -> None:
    file = tmp_path / "old.toml"
    file.write_text("\n".join(f"{key} = {value}" for key, value in FORMER.items()))
    ran(*BEGIN, "--config", file)
    assert values_of(came[-1]) == list(FORMER.values())
    ran(*BEGIN, "--config", file, "--validation.fraction", "0.125")
    assert values_of(came[-1])[0] == 0.125


def test_a_former_name_is_no_option_of_other_verbs(ran: Ran) -> None:
    assert "--validation.share" in ran("embed", "--validation.share", "0.1", code=2).err


def test_what_an_earlier_version_saved_is_what_a_resumed_run_asks_for(tmp_path: Path) -> None:
    config = BertRun("d", "o", steps=2, validation=ValidationConfig(fraction=0.25)).completed()
    saved = values.to_toml(config).replace("fraction", "share")
    assert saved.count("share") == len(FORMER)
    (tmp_path / "config.toml").write_text(saved)
    assert run_folder.read_saved(tmp_path, BertRun) == config


def test_the_library_reads_them(came: list[RunConfig], tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text("steps = 2\n[validation]\nshare = 0.25\n")
    for config in (tmp_path / "old.toml", {"steps": 2, "validation": {"share": 0.25}}):
        bertwright.pretrain("d", out="o", config=config, progress=False)
        assert came[-1].validation.fraction == 0.25
        bertwright.pretrain(
            "d", out="o", config=config, validation={"fraction": 0.5}, progress=False
        )
        assert came[-1].validation.fraction == 0.5
