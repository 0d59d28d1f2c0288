"""The files of deploy/ say what the server's settings are."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bertwright.config.serve import ServeConfig
from bertwright.errors import BertwrightError
from bertwright.serve.app import make_app
from bertwright.serve.calls import REPLIES
from bertwright.serve.engine.loading import load_engine
from tests.house.source import ROOT

UNIT, IMAGE, MANIFEST = (
    (ROOT / "deploy" / name).read_text("utf-8")
    for name in ("bertwright.service", "Dockerfile", "kubernetes.yaml")
)
SWAPPED = 2.5 * 2**30
"""Bytes of a server that changes a model of BERT-base's size; 2.1 GB were measured."""


def found(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match, pattern
    return float(match[1])


def not_tried_again() -> set[int]:
    """Exit codes after which systemd does not start the server anew."""
    match = re.search(r"^RestartPreventExitStatus=(.*)$", UNIT, re.M)
    assert match
    return {int(code) for code in match[1].split()}


def test_variables_are_settings() -> None:
    known = {f"BERTWRIGHT_{field.name.upper()}" for field in fields(ServeConfig)}
    for text in (UNIT, IMAGE, MANIFEST):
        assert set(re.findall(r"^(?!\s*#).*?\b(BERTWRIGHT_\w+)", text, re.M)) <= known


def test_the_end_comes_after_the_time_to_drain() -> None:
    drain = ServeConfig().drain_seconds
    delay = found(r'preStop: .*sleep, "(\d+)"', MANIFEST)
    assert found(r"TimeoutStopSec=(\d+)", UNIT) > drain
    assert found(r"--stop-timeout (\d+)", IMAGE) > drain
    assert found(r"terminationGracePeriodSeconds: (\d+)", MANIFEST) > drain + delay


def test_who_asks_after_the_server_asks_a_route_of_it_at_its_port() -> None:
    client = TestClient(make_app(ServeConfig(model=("model",), log_requests=False)))
    paths = set(re.findall(r"\bpath: (\S+?)[,}\n]", MANIFEST))
    statuses = {path: client.get(path).status_code for path in paths}
    assert statuses == {"/livez": 200, "/readyz": 503, "/metrics": 200}
    ports = re.findall(r"(?:ort: |PORT, value: )\"?(\d+)", MANIFEST.replace("port: 80,", ""))
    assert (len(ports), set(ports)) == (7, {"8080"})
    assert found(r"EXPOSE (\d+)", IMAGE) == found(r"BERTWRIGHT_PORT=(\d+)", IMAGE)


def test_the_user_of_the_image_is_the_one_of_the_manifest() -> None:
    assert found(r"--uid (\d+)", IMAGE) == found(r"runAsUser: (\d+)", MANIFEST)


def test_bodies_and_replies_fit_into_the_memory() -> None:
    requests = found(r'QUEUE_REQUESTS, value: "(\d+)"', MANIFEST)
    bodies = requests * ServeConfig().max_body_bytes
    limit = found(r"limits: {memory: (\d+)Gi}", MANIFEST) * 2**30
    assert bodies + REPLIES + SWAPPED <= limit


def test_variables_of_a_service_named_bertwright_do_not_count() -> None:
    assert "enableServiceLinks: false" in MANIFEST
    assert '{name: BERTWRIGHT_PORT, value: "8080"}' in MANIFEST


@contextmanager
def of_no_rights() -> Iterator[None]:
    """Not root, who reads everything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(10001)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_model_that_the_user_may_not_read_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the folders above are root's
    tmp_path.chmod(0o755)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}", "utf-8")
        (tmp_path / name).chmod(0)
    with of_no_rights(), pytest.raises(BertwrightError, match="cannot be read: P") as caught:
        load_engine("m", ".")
    assert caught.value.exit_code in not_tried_again()


def test_a_command_that_cannot_be_run_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "bertwright").touch()
    for command in (tmp_path / "nothing", tmp_path / "bertwright"):
        done = subprocess.run(["/usr/bin/env", command], stderr=subprocess.PIPE, check=False)
        assert done.returncode in not_tried_again(), done.stderr
    assert 203 in not_tried_again()  # systemd's own, for the whole path of a command
