"""Configurations as values: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config import values
from bertwright.errors import ConfigError
from tests.raising import assert_names


@dataclass(frozen=True)
class Inner:
    """A section."""

    rate: float = 0.5
    active: bool = True
    name: str = "x"
    pair: tuple[float, float] = (0.9, 0.999)
    many: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outer:
    """A configuration with every kind of value."""

    out: Path
    steps: int | None = 10
    kind: Literal["a", "b"] = "a"
    size: int | Literal["auto"] = "auto"
    choice: Literal["all", "none"] | None = None
    inner: Inner = field(default_factory=Inner)
    other: Inner | None = None
    table: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise ConfigError(f"steps is {self.steps}; expected 0 or more")


numbers = st.floats(allow_nan=False)
inners = st.builds(
    Inner,
    rate=numbers,
    active=st.booleans(),
    name=st.text().filter(lambda text: text != "none"),
    pair=st.tuples(numbers, numbers),
    many=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple),
)
outers = st.builds(
    Outer,
    out=st.just(Path("a/b")),
    steps=st.none() | st.integers(0, 2**62),
    kind=st.sampled_from(["a", "b"]),
    size=st.just("auto") | st.integers(0, 9),
    choice=st.sampled_from(["all", "none", None]),
    inner=inners,
    other=st.none() | inners,
    table=st.dictionaries(st.text(min_size=1), st.integers(0, 9), max_size=2),
)


@given(outers)
def test_a_configuration_survives_a_mapping_and_toml(outer: Outer) -> None:
    assert values.from_dict(Outer, values.to_dict(outer)) == outer
    import tomllib

    assert values.from_dict(Outer, tomllib.loads(values.to_toml(outer))) == outer


def test_toml_is_what_a_person_would_write() -> None:
    text = values.to_toml(Outer(out=Path("runs/x"), steps=None))
    assert text == (
        'out = "runs/x"\nsteps = "none"\nkind = "a"\nsize = "auto"\nother = "none"\n\n'
        '[inner]\nrate = 0.5\nactive = true\nname = "x"\n'
        "pair = [\n    0.9,\n    0.999,\n]\nmany = []\n\n"
        "[table]\n"
    )


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["'out'", "f.toml"]),
    ({"out": "o", "stepz": 1}, ["'stepz'", "f.toml", "'steps'"]),
    ({"out": "o", "inner": {"rat": 1}}, ["'inner.rat'", "f.toml", "'inner.rate'"]),
    (
        {"out": "o", "inner": {"zzzz": 1}},
        ["'inner.zzzz'", "inner.rate, inner.active, inner.name, inner.pair, inner.many"],
    ),
    ({"out": "o", "rate": 1}, ["'rate'", "f.toml", "'inner.rate'"]),
    ({"out": "o", "steps": "3"}, ["'steps'", "f.toml", "whole number", "'3'"]),
    ({"out": "o", "steps": 3.0}, ["'steps'", "whole number", "3.0"]),
    ({"out": "o", "steps": True}, ["'steps'", "whole number", "True"]),
    ({"out": "o", "kind": "c"}, ["'kind'", "f.toml", "'a', 'b'", "'c'"]),
    ({"out": "o", "inner": 3}, ["'inner'", "f.toml", "section", "3"]),
    ({"out": "o", "inner": {"active": 1}}, ["'inner.active'", "true or false", "1"]),
    ({"out": "o", "inner": {"active": "no"}}, ["'inner.active'", "true or false", "'no'"]),
    ({"out": "o", "inner": {"rate": "fast"}}, ["'inner.rate'", "number", "'fast'"]),
    ({"out": "o", "inner": {"pair": [1]}}, ["'inner.pair'", "2 values", "[1]"]),
    ({"out": "o", "inner": {"pair": [1, "x"]}}, ["'inner.pair[1]'", "number"]),
    ({"out": "o", "inner": {"many": 3}}, ["'inner.many'", "list", "3"]),
    ({"out": "o", "other": {"rat": 3}}, ["'other.rat'", "f.toml"]),
    ({"out": 3}, ["'out'", "path", "3"]),
    ({"out": "o", "table": {"k": "v"}}, ["'table.k'", "whole number", "'v'"]),
    ({"out": "o", "steps": -1}, ["steps", "-1", "0"]),
]


@pytest.mark.parametrize(("mapping", "names"), WRONG)
def test_what_is_wrong_is_named(mapping: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        values.from_dict(Outer, mapping, "f.toml")
    assert_names(raised.value, *names)


def test_a_whole_number_is_a_number() -> None:
    assert values.from_dict(Inner, {"rate": 2}).rate == 2.0


def test_keys_of_follows_sections() -> None:
    assert values.keys_of(Outer)[:5] == ["out", "steps", "kind", "size", "choice"]


def test_merge_goes_section_by_section() -> None:
    base = {"a": 1, "s": {"x": 1, "y": 2}}
    assert values.merge(base, {"s": {"y": 3}, "b": 4}) == {"a": 1, "s": {"x": 1, "y": 3}, "b": 4}
    assert base["s"] == {"x": 1, "y": 2}


def test_differing_keys_are_named_with_their_section() -> None:
    a = Outer(out=Path("o"))
    b = replace(a, steps=11, inner=Inner(pair=(0.9, 0.98)))
    assert values.differing_keys(a, a) == []
    assert values.differing_keys(a, b) == ["steps", "inner.pair"]
    assert values.differing_keys({"x": 1}, {"y": 1}) == ["x", "y"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"x =", "TOML"), (b"\xff", "TOML"), (None, "configuration file")],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "f.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        values.read_toml(path)
    with pytest.raises(ConfigError, match="cannot read"):
        values.read_toml(tmp_path)
