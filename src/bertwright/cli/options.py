"""Options that several verbs share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.config.task import Form

ConfigFile = Annotated[
    Path | None,
    Parameter(
        name="--config",
        help="TOML file with these keys, or the name of a recipe (pretrain); options override it.",
    ),
]
"""`config_file: ConfigFile = None`: `cli.app` has read it before the verb is called."""

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print one JSON object on standard output and nothing else.",
    ),
]
"""`json: Json = False`."""

Overwrite = Annotated[bool, Parameter(negative="", help="Replace the output if it exists.")]
"""`overwrite: Overwrite = False`."""

TokenizerFolder = Annotated[
    Path, Parameter(help="Folder of a tokenizer, a run, a checkpoint or a Hugging Face BERT.")
]
"""`tokenizer: TokenizerFolder`, to be read by way of `find_tokenizer`."""


def find_tokenizer(path: Path) -> Path:
    """The folder of the files of a tokenizer: the one given, or of a run, its newest checkpoint.

    The errors are those of `checkpoint.find_checkpoint`.
    """
    is_run = path.name in ("checkpoints", "latest") or (path / "checkpoints").is_dir()
    if not is_run or (path / "tokenizer.json").is_file() or (path / "vocab.txt").is_file():
        return path
    from bertwright.checkpoint.checkpoint import find_checkpoint
    from bertwright.checkpoint.sources import folder_of

    return folder_of(find_checkpoint(path))


FineTuned = Annotated[
    str, Parameter(help="A run of finetune, or a Hugging Face folder with a task head.")
]
"""`model: FineTuned`."""

TaskName = Annotated[str | None, Parameter(help="Name of the task, if the model has several.")]
"""`task: TaskName = None`."""

TextColumn = Annotated[str | None, Parameter(help="Column of the text; unset: found by its name.")]
"""`text: TextColumn = None`."""

SecondColumn = Annotated[
    str | None, Parameter(help="Column of the second text; unset: found by its name.")
]
"""`text2: SecondColumn = None`."""

FileForm = Annotated[
    Form | None, Parameter(help="Form of the file; unset: by its name or its header.")
]
"""`format: FileForm = None`."""

BadRows = Annotated[
    Literal["refuse", "skip"],
    Parameter(help="A row that cannot be read: stop, or skip and count it."),
]
"""`bad_rows: BadRows = "refuse"`."""

Precision = Annotated[
    Literal["auto", "bf16", "fp32"],
    Parameter(help="Precision of matrix products; auto measures which is faster."),
]
"""`precision: Precision = "auto"`."""

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Parameter(help="Device to run on; auto uses the GPU if there is one."),
]
"""`device: Device = "auto"`."""

EVERY_KEY = Parameter(name="*")
"""`config: Annotated[SomeConfig, EVERY_KEY]`: each key of the dataclass becomes an option."""

NOT_FINITE = (
    "gives probabilities that are not finite: its training diverged; use an earlier checkpoint, or "
    "train it again with a lower learning rate"
)
"""The message for a model whose predictions are not finite."""
