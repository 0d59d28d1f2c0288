"""What cannot be served is said before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertwright.config.serve import ServeConfig
from bertwright.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": ""}, "host"),
        ({"host": " "}, "host"),
        ({"device": "gpu"}, "'gpu'"),
        ({"device": "cuda:"}, "'cuda:'"),
        ({"load_timeout": 0.0}, r"load_timeout.*0\.0"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServeConfig(**given)


@pytest.mark.parametrize("device", [None, "cpu", "cuda", "cuda:3"])
def test_devices(device: str | None) -> None:
    assert ServeConfig(device=device).device == device


def test_a_folder_with_an_equals_sign_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "size=small" / "news"
    assert ServeConfig(model=(str(folder),)).models == {f"{tmp_path}/size": "small/news"}
    folder.mkdir(parents=True)
    expected = {"news": str(folder), "mine": str(folder)}
    assert ServeConfig(model=(str(folder), f"mine={folder}")).models == expected
