"""`bertwright info`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError

import pytest
import torch

import bertwright
from bertwright.cli import info
from tests.raising import assert_names


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    info.info(json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["bertwright"] == bertwright.__version__
    assert facts["python"] == platform.python_version()
    assert facts["cores"] >= 1
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
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
    assert_names(out, 'pip install "bertwright[zst]"', "zstandard")
