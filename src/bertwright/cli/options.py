"""Options that several verbs share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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

FineTuned = Annotated[str, Parameter(help="A run of finetune, or a folder of transformers.")]
"""`model: FineTuned`."""

TaskName = Annotated[str | None, Parameter(help="Name of the task, where the model has several.")]
"""`task: TaskName = None`."""

TextColumn = Annotated[str | None, Parameter(help="Column of the text; unset: found.")]
"""`text: TextColumn = None`."""

SecondColumn = Annotated[str | None, Parameter(help="Column of the second text; unset: found.")]
"""`text2: SecondColumn = None`."""

BadRows = Annotated[
    Literal["refuse", "skip"],
    Parameter(help="What to do with a row that cannot be read: stop, or count it and go on."),
]
"""`bad_rows: BadRows = "refuse"`."""

Precision = Annotated[
    Literal["auto", "bf16", "fp32"],
    Parameter(help="Of matrix products; auto measures whether bf16 is faster here."),
]
"""`precision: Precision = "auto"`."""

Device = Annotated[
    Literal["auto", "cpu", "cuda"], Parameter(help="auto takes the GPU if there is one.")
]
"""`device: Device = "auto"`."""

EVERY_KEY = Parameter(name="*")
"""`config: Annotated[SomeConfig, EVERY_KEY]`: each key of the dataclass becomes an option."""
