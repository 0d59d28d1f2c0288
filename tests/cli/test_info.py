"""`bertwright info`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError

import pytest

import bertwright
from bertwright.cli import info


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    info.info(json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["bertwright"] == bertwright.__version__
    assert facts["python"] == platform.python_version()
    assert facts["cores"] >= 1
    assert facts["bf16_processor"] in (True, False, None)
    assert {"hf", "zst", "tensorboard", "dev"} <= set(facts["extras"])


def test_a_missing_extra_names_its_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = info.importlib.metadata.version

    def version(package: str) -> str:
        if package == "zstandard":
            raise PackageNotFoundError
        return real(package)

    monkeypatch.setattr(info.importlib.metadata, "version", version)
    info.info()
    out = capsys.readouterr().out
    assert 'pip install "bertwright[zst]" for zstandard' in out
