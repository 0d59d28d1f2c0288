"""The configuration of a task: what its head predicts and how a text reaches it, as saved with a
model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bertwright.config.ranges import (
    MOST_TOKENS,
    MOST_WIDTH,
    OutOfRange,
    below_one,
    between,
)
from bertwright.config.vectors import poolings_of
from bertwright.errors import ConfigError

Layers = Literal[
    "embeddings",
    "last",
    "embeddings+last",
    "second-to-last",
    "sum-last-4",
    "mix-last-4",
    "concat-last-4",
    "mix",
]
"""Which layers are features (Devlin et al. 2019, table 7). `mix` is ELMo's weighted sum of all
layers (Peters et al. 2018, equation 1), `mix-last-4` the same over the last four.
"""

HeadPooling = Literal[
    "pooler", "cls", "last", "mean", "max", "mean-sqrt", "weighted", "last+max+mean"
]
"""How the vectors of a text's tokens become one vector. `pooler` is the encoder's own pooler,
`last+max+mean` ULMFiT's concatenation (Howard & Ruder 2018, section 3.3).
"""

Scheme = Literal["none", "iob1", "iob2", "iobes"]
"""How tags mark entities; none: each tag is a label of its word, such as a part of speech."""

_WINDOWS_TOKENS = 8192
"""The default number of tokens of all windows of one text: a micro-batch on a CPU."""

Form = Literal["tsv", "csv", "jsonl", "json", "parquet", "conll", "conllu", "fasttext", "text"]
"""The formats of labelled files (docs/reference/labelled-files.md)."""


BleuTokenize = Literal[
    "auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none", "flores200"
]
"""sacreBLEU's tokenizers; auto chooses one by the script of the references."""

Network = Literal["linear", "bilstm", "taglm"]
"""The network between features and scores: none, a bidirectional LSTM, or TagLM's two LSTMs over
words, which read the features in between.
"""


@dataclass(frozen=True)
class HeadConfig:
    """How a task head is built on the encoder."""

    layers: Layers | None = None
    """Layers that the head reads as features; unset: the pooler for a text, the last layer for
    tokens.
    """
    network: Network = "linear"
    """The network between features and scores."""
    network_size: int = 256
    """Width of each direction of the LSTM."""
    pooling: str = "mean"
    """How the features of a text become one vector, if `layers` is set: a `HeadPooling`, or any
    that a folder of sentence-transformers names.
    """
    frame: tuple[int, int] = (0, 0)
    """Number of tokens at the beginning and at the end of a text that a mean over its tokens omits,
    because the encoder was never trained on them.
    """
    unknown: int | None = None
    """The id of the unknown word if a mean over a text leaves it out, as `embed` does; None: it is
    averaged as other words are.
    """
    compares: bool = False
    """Whether the texts of a pair are read one by one, and the vector of the pair is
    [u, v, |u - v|, u * v] (Conneau et al. 2017, figure 1).
    """
    hidden_size: int = 0
    """Width of a hidden layer with ReLU between a text's vector and its scores; 0: none."""
    dropout: float = 0.1
    """Dropout before the output layer."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_WIDTH, "network_size")
        between(self, 0, MOST_WIDTH, "hidden_size")
        below_one(self, "dropout")
        if not {"none", "first-last"}.isdisjoint((self.pooling, *poolings_of(self.pooling))):
            raise ConfigError(f"pooling is {self.pooling!r}, which gives no vector of one layer")
        if self.compares and (self.hidden_size or self.network != "linear"):
            raise ConfigError("a head that compares two texts is linear, without a hidden layer")


@dataclass(frozen=True)
class TaskOptions:
    """The options of a kind of task, which are keys of its runs. Each kind has a subclass of its
    own (`tasks/KIND/options.py`), and the docstring of a field is the help of its option.
    """

    @property
    def has_examples(self) -> bool:
        """Whether the options name what to train on, so that a run needs no labelled file."""
        return False

    @property
    def several_label_columns(self) -> bool:
        """Whether the labels of an example may be in several columns."""
        return False

    @property
    def more_columns(self) -> tuple[str, ...]:
        """Columns that are read beside those of the texts and the label."""
        return ()

    def reading(self) -> dict[str, Any]:
        """Return the options of `ReadOptions` that say how a labelled file is read."""
        return {}


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """A task as it is saved with its model, in `task.json`. Each kind has a subclass of its own
    (`tasks/KIND/options.py`) with its options, and with what it learned from the training file.
    """

    needs_labels: ClassVar[bool] = False
    """Whether the labels are a closed set of at least two labels."""
    compares_pairs: ClassVar[bool] = False
    """Whether a head may compare the vectors of two texts."""
    networks: ClassVar[tuple[Network, ...]] = ("linear", "bilstm")
    """The networks that a head may have."""
    hidden_layer: ClassVar[bool] = True
    """Whether a head may have a hidden layer."""

    kind: str
    """The kind of task (`tasks/catalogue.py`)."""
    labels: tuple[str, ...] = ()
    """The labels, in the order of the scores; empty if the kind has none."""
    max_length: int = 128
    """Maximum tokens of a window, including [CLS] and [SEP]; longer texts are read in several."""
    stride: int = 32
    """Tokens by which neighbouring windows overlap."""
    max_windows: int | None = None
    """Number of windows of a text that are read, from its beginning; 1 truncates it; unset: as many
    as hold 8,192 tokens. Passages and sentences for tagging are always read whole.
    """
    text_column: str | None = None
    """Column of the text, or source, in the files it was trained on."""
    text2_column: str | None = None
    """Column of the second text, if there is one."""
    label_column: str | None = None
    """Column of the label, or target; for tags in CoNLL columns its name or number, if it was
    given.
    """
    head: HeadConfig = field(default_factory=HeadConfig)
    """How the head is built on the encoder."""
    options: TaskOptions = field(default_factory=TaskOptions)
    """The options of the kind."""

    def __post_init__(self) -> None:
        if self.needs_labels and not self.labels:
            raise ConfigError(f"a {self.kind} task needs labels; there are none")
        if len(set(self.labels)) != len(self.labels):
            raise ConfigError("labels are not all different")
        between(self, 8, MOST_TOKENS, "max_length")
        if not 0 <= self.stride <= self.max_length // 2:
            raise OutOfRange(self, "stride", f"0 to half of max_length ({self.max_length})")
        between(self, 1, MOST_TOKENS, "max_windows")
        if self.head.network not in self.networks:
            raise ConfigError(
                f"network is {self.head.network}; expected {' or '.join(self.networks)} for a "
                f"{self.kind} task"
            )
        if self.head.compares and not self.compares_pairs:
            raise ConfigError(f"head.compares is for pairs; the kind of this task is {self.kind}")
        if self.head.hidden_size and not self.hidden_layer:
            raise ConfigError(f"hidden_size is for texts; the kind of this task is {self.kind}")

    @property
    def most_windows(self) -> int:
        """The most windows of an example that are in memory at once."""
        return self.max_windows or max(1, _WINDOWS_TOKENS // self.max_length)

    @property
    def num_scores(self) -> int:
        """C, the number of scores of a text, a word, or a token."""
        return len(self.labels) or 1

    @property
    def problem_type(self) -> str | None:
        """The `problem_type` that transformers gives such a task; None: it gives none."""
        return None

    @property
    def decodes_jointly(self) -> bool:
        """Whether predictions need more than the scores of each word, as those of a CRF."""
        return False

    @property
    def reads_documents(self) -> bool:
        """Whether an example is read in the context of its document."""
        return False

    def reading(self) -> dict[str, Any]:
        """Return the options of `ReadOptions` with which further files are read."""
        return {}

    def of_weights(self) -> tuple[object, ...]:
        """Return the settings of the kind that determine the weights of its head."""
        return ()

    def check_saved(self) -> None:
        """Raise ConfigError if the task has a value that may be used but not saved."""
