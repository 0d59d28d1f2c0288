"""What cannot be served is said before anything heavy is imported."""

from __future__ import annotations

from typing import Any

import pytest

from bertwright.config.serve import ServeConfig
from bertwright.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": ""}, "host is empty"),
        ({"host": " "}, "host is empty"),
        ({"device": "gpu"}, "device is 'gpu'; expected cpu"),
        ({"device": "cuda:"}, "device is 'cuda:'"),
        ({"load_timeout": 0.0}, "load_timeout is 0.0"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServeConfig(**given)


@pytest.mark.parametrize("device", [None, "cpu", "cuda", "cuda:3"])
def test_devices(device: str | None) -> None:
    assert ServeConfig(device=device).device == device
