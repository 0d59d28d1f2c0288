"""Options that several verbs share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

ConfigFile = Annotated[
    Path | None,
    Parameter(
        name="--config",
        help="TOML file with the keys below, or a recipe's name; the command line goes over it.",
    ),
]
"""`config_file: ConfigFile = None`: `cli.app` has read it before the verb is called."""

Json = Annotated[
    bool,
    Parameter(
        name="--json", negative="", help="Print one JSON object on standard output, nothing else."
    ),
]
"""`json: Json = False`."""

Overwrite = Annotated[
    bool, Parameter(negative="", help="Replace the output where it exists already.")
]
"""`overwrite: Overwrite = False`."""

EVERY_KEY = Parameter(name="*")
"""`config: Annotated[SomeConfig, EVERY_KEY]`: each key of the dataclass becomes an option."""
