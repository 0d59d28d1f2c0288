"""A run of every system starts from the system's own defaults, whatever else is given."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import make_app
from bertwright.cli.reading import read
from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.models.catalogue import make_run, row_of, trainable

NEEDED = {"data": "d", "out": "o"}


def defaults_of(system: str) -> RunConfig:
    return make_run(trainable()[system], NEEDED)


def one_key_of_each_section(run: RunConfig) -> dict[str, Any]:
    """The first key of each section that the command line has, with its default value."""
    first: dict[str, Any] = {}
    for name, section in vars(run).items():
        if is_dataclass(section):
            keys = vars(section).items()
            read_ones = (k for k, v in keys if v is not None and k not in row_of(run).fixed)
            if key := next(read_ones, None):
                first[f"{name}.{key}"] = getattr(section, key)
    return first


@pytest.mark.parametrize("system", trainable())
def test_one_key_leaves_all_others_at_the_default(system: str) -> None:
    default = defaults_of(system)
    for key, value in values.flatten(values.to_dict(default)).items():
        given = values.merge(NEEDED, values.nested({key: value}))
        assert make_run(type(default), given) == default, key


@pytest.mark.parametrize("system", trainable())
def test_so_does_one_of_the_command_line_and_of_a_file(system: str, tmp_path: Path) -> None:
    default = defaults_of(system)
    model = row_of(default).default
    some = one_key_of_each_section(default)
    words = ["pretrain", "--data", "d", "--out", "o", "--model", model]
    options: list[str] = []
    for key, value in some.items():
        section, _, name = key.replace("_", "-").rpartition(".")
        if isinstance(value, bool):
            options += [f"--{section}.{'' if value else 'no-'}{name}"]
        else:
            options += [f"--{section}.{name}", str(value)]
    file = tmp_path / "some.toml"
    file.write_text(values.to_toml(values.nested(some)), encoding="utf-8")
    expected = make_run(type(default), {**NEEDED, "model": model})
    for more in (options, ["--config", str(file)]):
        line = [*words, *more]
        _, bound = read(make_app(words=line), line)
        assert bound.arguments["config"] == expected


@dataclass(frozen=True)
class Section:
    """A section."""

    rate: float = 0.5
    kept: int = 1


@dataclass(frozen=True)
class Whole:
    """A configuration that changes a default of its section."""

    section: Section = field(default_factory=lambda: Section(rate=0.25))


def test_a_section_starts_from_its_value_in_the_default() -> None:
    given = {"section": {"kept": 2}}
    assert values.from_dict(Whole, given).section == Section(0.25, 2)
    assert values.from_dict(Whole(Section(0.75)), given).section == Section(0.75, 2)
    assert values.from_dict(Whole(Section(0.75)), {}) == Whole(Section(0.75))
