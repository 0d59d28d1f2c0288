"""Options that several verbs share, so that each is named and explained in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.variants import Variant, vary
from bertwright.config import values
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import Form, TaskOptions
from bertwright.errors import ConfigError
from bertwright.tasks.catalogue import KINDS, options_of, refuse_options

if TYPE_CHECKING:
    KindOfTask = str
else:
    KindOfTask = Literal[*KINDS]
"""A kind of task. The help and the shell's completion list the names of all kinds."""

ConfigFile = Annotated[
    Path | None,
    Parameter(
        name="--config",
        help="TOML file with these keys, or the name of a recipe (pretrain); options override it.",
    ),
]
"""Declared as `config_file: ConfigFile = None`. `cli/reading.py` reads the file before the verb is
called, so that the verb ignores this argument."""

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print one JSON object on standard output and nothing else.",
    ),
]
Flag = Annotated[bool, Parameter(negative="")]
"""An option without a negative form: `resume: Flag = False` has no `--no-resume`."""

Overwrite = Annotated[bool, Parameter(negative="", help="Replace the output if it exists.")]
TokenizerFolder = Annotated[
    Path,
    Parameter(
        help="Folder of a tokenizer, a run, a checkpoint, a Hugging Face BERT or hf:ORG/NAME."
    ),
]
"""Declared as `tokenizer: TokenizerFolder`. `checkpoint/tokenizer_folder.py` finds the folder that
holds the tokenizer's files."""


LONGEST_TEXT = 1_000_000
"""The maximum number of bytes of a sentence or a prompt in a file."""


def given_texts(
    texts: Sequence[str], file: str | None, column: str | None = None
) -> tuple[Iterable[Sequence[str]], int | None]:
    """Return the texts of a command line or of a file in groups, and their number if it is known.

    The texts of a command line are one group. A file is read while its groups are iterated over;
    a group has at most 512 texts, and for standard input the texts that have arrived.

    Raises:
        ConfigError: neither texts nor a file are given, or both are.
        DataError: there is no such file or column, or a text has more than `LONGEST_TEXT` bytes.
    """
    if bool(texts) == (file is not None):
        raise ConfigError("expected texts or --input FILE, and not both")
    if file is None:
        return [texts], len(texts)
    from bertwright.inference.files.texts import open_texts

    opened = open_texts(file, column, longest=LONGEST_TEXT)
    return ([str(each) for each in group] for group in opened.groups(512)), opened.total


TextColumn = Annotated[str | None, Parameter(help="Column of the text; unset: found by its name.")]
Prompt = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
"""A text that is put before others; it may begin with a hyphen."""
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Parameter(help="Device to run on; auto uses the GPU if there is one."),
]

EVERY_KEY = Parameter(name="*")
"""`config: Annotated[SomeConfig, EVERY_KEY]`: each key of the dataclass becomes an option."""
EVERY_KEY_OF_SEVERAL = Parameter(name="*", consume_multiple=True)
"""As `EVERY_KEY`, but the option of a list takes several words: `--label toxic obscene`."""


OptionsOfKind = Annotated[TaskOptions | None, Parameter(parse=False)]
"""Declared as `options: OptionsOfKind = None` by a verb that `of_kind` gives the options of a kind
of task; None: none of them is given."""


def of_kind(verb: Callable[..., None], kind: str) -> Callable[..., None]:
    """Give a verb the options of a kind of task; if it is no kind, the verb has none of them."""
    if kind not in KINDS:
        return verb
    variant = Variant(
        types={"options": Annotated[KINDS[kind].options | None, EVERY_KEY_OF_SEVERAL]},
        section=(f"options of {kind}", options_of(kind)),
    )
    return vary(verb, variant)


def refuse_other_options(kind: str, words: Sequence[str]) -> None:
    """Raise ConfigError if an option of a command line, or a key of the file that --config names,
    is one of other kinds of tasks only.
    """
    end = (*words, "--").index("--")
    options = [word.partition("=")[0] for word in words[:end] if word.startswith("--")]
    keys = {each.removeprefix("--").replace("-", "_").removeprefix("no_"): each for each in options}
    for key, option in keys.items():
        refuse_options(kind, [key], option)
    file = given(words, "config")
    if file is not None and Path(values.at_home(file)).is_file():
        refuse_options(kind, values.read_toml(file))


def given(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option on a command line, or None if it is not given."""
    values_of = [after for word, after in pairwise(words) if word == f"--{name}"]
    values_of += [
        word.removeprefix(f"--{name}=") for word in words if word.startswith(f"--{name}=")
    ]
    return values_of[-1] if values_of else None


_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}


def unescaped(config: GenerationConfig) -> GenerationConfig:
    """Return the configuration with the escapes in its stop strings replaced, because shells hand
    on `--stop "\\n"` as a backslash and an n.
    """

    def replaced(text: str) -> str:
        return re.sub(r"\\[ntr\\]", lambda found: _ESCAPES[found[0]], text)

    return replace(config, stop=tuple(map(replaced, config.stop)))


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a labelled file is read."""

    text: TextColumn = None
    text2: str | None = None
    """Column of the second text; unset: found by its name."""
    format: Form | None = None
    """Format of the file; unset: detected from its name or its header."""
    bad_rows: Literal["refuse", "skip"] = "refuse"
    """Rows that cannot be read: stop with an error, or skip and count them."""


@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """How a fine-tuned model predicts."""

    task: str | None = None
    """Name of the task, if the model has several."""
    null_threshold: float | None = None
    """Span: predict no answer if its score exceeds that of the best answer by more than this; inf:
    always predict an answer; unset: the model's threshold, or 0 for a model of transformers, which
    states none, if some questions of the file have no answer."""
    generation: Annotated[GenerationConfig | None, EVERY_KEY] = None
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of matrix products; auto: bf16 if the hardware multiplies it faster."""
    device: Device = "auto"
