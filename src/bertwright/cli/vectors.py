"""What `embed`, `plot` and `whiten` have in common: the options that determine the vectors, loading
the model that makes them, and the messages about the texts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.cli.options import Prompt, TextColumn
from bertwright.cli.output import counted
from bertwright.config.vectors import BackendName, Pooling, VectorPrecision, choose_prompt
from bertwright.console import say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.checkpoint.opened import Opened
    from bertwright.inference.files.texts import Texts
    from bertwright.inference.vectors.embed import Embedder

SAMPLE = 128
"""The number of texts on which a backend or a precision is compared with float32."""

ModelPath = Annotated[
    str,
    Parameter(
        help="A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or "
        "hf:ORG/NAME."
    ),
]
InputFile = Annotated[
    str,
    Parameter(
        help="File of texts: a column of .jsonl, .csv, .tsv or .parquet, else one text per line; - "
        "for standard input: JSON lines if it begins with an object, with --text a table of any "
        "kind but .parquet, else one text per line."
    ),
]
Normalize = Annotated[
    bool | None, Parameter(help="Scale every vector to length 1. Unset: as the folder says.")
]
Dimensions = Annotated[
    int | None,
    Parameter(help="Keep only this many first dimensions of a vector. Unset: as the folder says."),
]
WhiteningFile = Annotated[
    Path | None,
    Parameter(
        name=["--whitening", "--whiten"],
        help="File that bertwright whiten wrote, to whiten the vectors with.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """The options for reading texts and computing their vectors."""

    text: TextColumn = None
    text2: str | None = None
    """Column of a second text: one vector per pair."""
    bad_rows: Literal["refuse", "skip"] = "refuse"
    """Rows without text: stop with an error, or skip and count them."""
    layers: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = ()
    """Layers to use: 0 is the embeddings, 1 and up the layers, negative numbers count from the top;
    several, which are concatenated, as 0,-1 or by repeating the option. Unset: as the folder says,
    else the model's default (BERT: -2)."""
    pooling: Pooling | str | None = None
    """How tokens become one vector; several ways are concatenated, as cls+mean. weighted: the mean
    weighted by position; first-last: the mean of the first and last layer's means; none (embed
    only): one vector per token, with its offsets in the text. Unset: as the folder says, else
    mean."""
    truncate: bool | None = None
    """Truncate long texts and count them, instead of encoding them in windows. Unset: as the folder
    says, else windows."""
    max_length: int | None = None
    """Maximum tokens per sequence; unset: as the folder or the model says."""
    prompt: Prompt = None
    """Text to put before every text, as "query: "; "" for none. Unset: the folder's default, if it
    has one."""
    prompt_name: str | None = None
    """Name of a prompt of a sentence-transformers folder, in place of --prompt."""
    backend: BackendName = "torch"
    """Runtime that computes the layers."""
    precision: VectorPrecision = "fp32"
    """Precision of the model. fp32 is exact; the others are first compared with it on a sample of
    the texts. On a CPU, bf16 is fastest with AMX, and int8 with AVX-512 VNNI and no AMX."""
    exported: Path | None = None
    """Folder that bertwright export wrote, for --backend onnx and openvino."""

    def check(self) -> None:
        """Raise ConfigError if options contradict each other."""
        if self.pooling == "first-last" and self.layers:
            raise ConfigError("--pooling first-last has its own layers; leave out --layers")

    def require_text_vectors(self, verb: str) -> None:
        """Raise ConfigError if `pooling` gives a vector per token; the verb needs one per text."""
        if self.pooling == "none":
            raise ConfigError(
                f"--pooling none gives a vector per token, and {verb} needs one per text; choose "
                "another --pooling, as mean"
            )

    def open_texts(self, path: str, color: str | None = None) -> Texts:
        """Open the file of texts; `color` is the column that colours a plot."""
        from bertwright.inference.files.texts import open_texts

        return open_texts(path, self.text, self.text2, color, self.bad_rows)

    def layer_numbers(self) -> tuple[int, ...] | None:
        """Return the layers by number; None if none are given."""
        try:
            return tuple(int(word) for each in self.layers for word in each.split(",")) or None
        except ValueError as error:
            raise ConfigError(f"--layers is {' '.join(self.layers)}; expected numbers") from error


def make_embedder(
    model: str | Opened,
    texts: Texts,
    options: VectorOptions,
    *,
    normalize: bool | None = None,
    dimensions: int | None = None,
    whitening: Path | None = None,
) -> tuple[Embedder, dict[str, Any]]:
    """Load a model, say which of its folder's settings apply, and return the embedder.

    Unless the vectors are computed by torch in fp32, the first texts are read ahead as a sample for
    the comparison with fp32.

    Returns:
        The embedder, and the arguments of `Model.embedder` with which another process makes the
        same embedder.
    """
    from bertwright.inference.model import load
    from bertwright.inference.vectors.whitening import load_whitening

    loaded = load(model)
    defaults = loaded.vectors
    config = defaults.over(
        options.layer_numbers(),
        options.pooling,
        normalize=normalize,
        truncate=options.truncate,
        max_length=options.max_length,
        prompt=choose_prompt(loaded.prompts, options.prompt, options.prompt_name),
        dimensions=dimensions,
    )
    if options.pooling != "none":
        left_out = {
            "dense layers": defaults.dense and not config.dense,
            "dimensions": defaults.dimensions and not config.dimensions,
        }
        for what, is_left_out in left_out.items():
            if is_left_out:
                say(
                    f"the folder's {what} are left out: they were trained on its own layers and "
                    "pooling"
                )
    if config.prompt:
        say(f"before every text: {config.prompt!r}")
    sample = []
    if (options.backend, options.precision) != ("torch", "fp32"):
        first = list(islice(texts.rows, SAMPLE))
        texts.rows = chain(first, texts.rows)
        sample = [text for text, _ in first]
    settings: dict[str, Any] = {
        "backend": options.backend,
        "precision": options.precision,
        "exported": options.exported and options.exported.resolve(),
        "whitening": whitening and load_whitening(whitening),
        "sample": sample,
    }
    embedder = loaded.embedder(config, **settings)
    for note in embedder.notes:
        say(note)
    return embedder, settings


def say_truncated(texts: int, tokens: int, embedder: Embedder) -> None:
    """Say how many texts were truncated, if any were, and how many tokens they lost."""
    from bertwright.inference.vectors.embed import truncation

    if texts:
        say(truncation(embedder.longest, texts, tokens))


def say_of_texts(texts: Texts, embedder: Embedder) -> None:
    """Say what was wrong with the texts that were read, and how blank ones were treated."""
    for note in [*texts.log.warnings, *texts.log.summary()]:
        say(note)
    if texts.empty:
        say(f"blank: {counted(texts.empty, 'text')}; {embedder.describe_empty()}")
    for remark in texts.counts.byte_remarks():
        say(remark)
