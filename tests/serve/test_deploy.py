"""The files of deploy/ say what the server's settings are."""

from __future__ import annotations

import re
from dataclasses import fields

from bertwright.config.serve import ServeConfig
from tests.house.source import ROOT

UNIT, IMAGE, MANIFEST = (
    (ROOT / "deploy" / name).read_text("utf-8")
    for name in ("bertwright.service", "Dockerfile", "kubernetes.yaml")
)


def found(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match, pattern
    return float(match[1])


def test_variables_are_settings() -> None:
    known = {f"BERTWRIGHT_{field.name.upper()}" for field in fields(ServeConfig)}
    for text in (UNIT, IMAGE, MANIFEST):
        assert set(re.findall(r"^(?!\s*#).*?\b(BERTWRIGHT_\w+)", text, re.M)) <= known


def test_the_end_comes_after_the_time_to_drain() -> None:
    drain = ServeConfig().drain_seconds
    delay = found(r'DRAIN_DELAY, value: "(\d+)"', MANIFEST)
    assert found(r"TimeoutStopSec=(\d+)", UNIT) > drain
    assert found(r"--stop-timeout (\d+)", IMAGE) > drain
    assert found(r"terminationGracePeriodSeconds: (\d+)", MANIFEST) > drain + delay


def test_variables_of_a_service_named_bertwright_do_not_count() -> None:
    assert "enableServiceLinks: false" in MANIFEST
    assert '{name: BERTWRIGHT_PORT, value: "8080"}' in MANIFEST


def test_the_image_is_built_from_what_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    copied = {
        name for names in re.findall(r"^COPY (.*) \S+$", IMAGE, re.M) for name in names.split()
    }
    assert "*" in ignored
    assert {name[1:] for name in ignored if name.startswith("!")} == {
        name.removeprefix("./") for name in copied
    }
