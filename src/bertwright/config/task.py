"""The configuration of a task: what its head predicts and how a text reaches it, as saved with a
model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.ranges import (
    MOST_TOKENS,
    MOST_WIDTH,
    OutOfRange,
    above,
    at_least,
    below_one,
    between,
)
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, poolings_of, usual_prompt
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

HeadPooling = Literal["cls", "last", "mean", "max", "mean-sqrt", "weighted", "last+max+mean"]
"""How the vectors of a text's tokens become one vector. `last+max+mean` is ULMFiT's concatenation
(Howard & Ruder 2018, section 3.3).
"""

Scheme = Literal["none", "iob1", "iob2", "iobes"]
"""How tags mark entities; none: each tag is a label of its word, such as a part of speech."""

_WINDOWS_TOKENS = 8192
"""The default number of tokens of all windows of one text: a micro-batch on a CPU."""

Form = Literal["tsv", "csv", "jsonl", "json", "parquet", "conll", "conllu", "fasttext", "text"]
"""The formats of labelled files (docs/tasks-formats.md)."""


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
    crf: bool = False
    """Predict tags jointly, with a linear-chain conditional random field."""
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


SimilarityObjective = Literal["in-batch", "cosent", "cosine", "triplet", "teacher"]
"""How sentence vectors are trained (`tasks/similarity/losses.py`)."""

Activation = Literal["identity", "tanh", "relu", "gelu", "silu", "sigmoid"]
"""The function after a dense layer."""


@dataclass(frozen=True)
class DenseConfig:
    """A dense layer that the pooled vector of a text passes through."""

    size: int
    """Width of the layer's output."""
    activation: Activation = "identity"
    """The activation function after the layer."""
    bias: bool = True
    """Whether the layer has a bias."""

    def __post_init__(self) -> None:
        between(self, 1, MOST_WIDTH, "size")


@dataclass(frozen=True)
class SimilarityConfig:
    """How sentence vectors are made, trained and evaluated (tasks of the kind similarity)."""

    form: Literal["pairs", "scores", "labels"] = "pairs"
    """Form of the evaluated examples: pairs that belong together; pairs with a score; pairs that
    are labelled as belonging together or not.
    """
    objective: SimilarityObjective = "in-batch"
    """The objective that trains the vectors."""
    temperature: float = 0.05
    """Temperature: cosines are divided by it before a softmax or log-sum-exp."""
    margin: float = 0.2
    """Margin by which the cosine of a positive must exceed that of a negative (triplet)."""
    one_direction: bool = False
    """Whether only the second text of a pair is predicted from the first, not also the reverse."""
    sizes: tuple[int, ...] = ()
    """Numbers of leading dimensions that are also trained as vectors (Matryoshka)."""
    scores: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest score of the training examples, which are mapped to the cosines 0
    and 1.
    """
    normalize: bool = True
    """Whether `embed` scales the vectors to length 1."""
    prompts: tuple[tuple[str, str], ...] = ()
    """The names and texts of prompts; one named as a query is put before every first text, one
    named as a document before every other text.
    """
    default_prompt: str | None = None
    """The name of the prompt for texts that have no other."""
    dense: tuple[DenseConfig, ...] = ()
    """The dense layers that the pooled vector passes through."""
    dimensions: int | None = None
    """The number of leading dimensions of a vector that are kept; None: all."""

    def __post_init__(self) -> None:
        above(self, 0, "temperature", "margin")
        at_least(self, 1, "dimensions")
        if not all(size >= 1 for size in self.sizes):
            raise ConfigError(f"sizes is {self.sizes}; expected numbers from 1 on")
        if self.scores[0] >= self.scores[1]:
            raise ConfigError(f"scores is {self.scores}; expected two numbers, the smaller first")

    @property
    def first_prompt(self) -> str:
        """The text that is put before every first text."""
        return self._prompt(OF_QUERIES)

    @property
    def second_prompt(self) -> str:
        """The text that is put before every other text."""
        return self._prompt(OF_DOCUMENTS)

    def _prompt(self, names: tuple[str, ...]) -> str:
        prompts = dict(self.prompts)
        found = usual_prompt(prompts, names)
        return prompts.get(self.default_prompt or "", "") if found is None else found


@dataclass(frozen=True)
class TaskConfig:
    """A task as it is saved with its model, in `task.json`."""

    kind: str
    """The kind of task (`tasks/catalogue.py`)."""
    labels: tuple[str, ...] = ()
    """The labels, in the order of the scores; empty for regression, spans and multiple choice."""
    multi_label: bool = False
    """Whether any number of labels may apply to a text (classification)."""
    scheme: Scheme = "none"
    """How tags mark entities (tagging)."""
    max_length: int = 128
    """Maximum tokens of a window, including [CLS] and [SEP]; longer texts are read in several."""
    stride: int = 32
    """Tokens by which neighbouring windows overlap."""
    max_windows: int | None = None
    """Number of windows of a text that are read, from its beginning; 1 truncates it; unset: as many
    as hold 8,192 tokens. Passages and sentences for tagging are always read whole.
    """
    both_orders: bool = False
    """Whether a pair is read in both orders, whose scores are averaged (GPT's similarity)."""
    merge: Literal["mean", "max"] = "mean"
    """How the scores of a text's windows are combined; tokens use the window with the most
    context.
    """
    context: Literal["sentence", "document"] = "sentence"
    """Tagging: whether a sentence is encoded alone or with its neighbours in the document."""
    unanswerable: bool | None = False
    """Whether a question may have no answer (SQuAD 2.0); None: the model is one of transformers,
    which does not say.
    """
    null_threshold: float = 0.0
    """No answer is predicted if the null score exceeds the best span's by more than this."""
    max_answer_tokens: int = 30
    """Maximum tokens of an answer."""
    max_target_tokens: int = 64
    """Generation: maximum tokens of a target; the source may use the rest of `max_length`."""
    bleu_tokenize: BleuTokenize = "auto"
    """Generation: sacreBLEU's tokenizer; auto: by the script of the targets."""
    text_column: str | None = None
    """Column of the text, or source, in the files it was trained on."""
    text2_column: str | None = None
    """Column of the second text, if there is one."""
    label_column: str | None = None
    """Column of the label, or target; for tags in CoNLL columns its name or number, if it was
    given.
    """
    activation: Literal["identity", "sigmoid"] = "identity"
    """Function that is applied to the number that is predicted (regression); sigmoid: the model is
    a cross-encoder of sentence-transformers.
    """
    head: HeadConfig = field(default_factory=HeadConfig)
    """How the head is built on the encoder."""
    similarity: SimilarityConfig | None = None
    """Similarity: how sentence vectors are made, trained and evaluated; None for other kinds."""

    def __post_init__(self) -> None:
        if self.kind in ("classification", "tagging") and not self.labels:
            raise ConfigError(f"a {self.kind} task needs labels; there are none")
        if len(set(self.labels)) != len(self.labels):
            raise ConfigError("labels are not all different")
        between(self, 8, MOST_TOKENS, "max_length")
        if not 0 <= self.stride <= self.max_length // 2:
            raise OutOfRange(self, "stride", f"0 to half of max_length ({self.max_length})")
        between(self, 1, MOST_TOKENS, "max_answer_tokens", "max_windows")
        if self.kind == "similarity" and self.similarity is None:
            object.__setattr__(self, "similarity", SimilarityConfig())
        elif self.kind != "similarity" and self.similarity is not None:
            raise ConfigError(f"the section similarity is not for the kind {self.kind}")
        of_words = {"tagging"}
        for is_set, rule, kinds in (
            (self.multi_label, "multi_label is for classification", {"classification"}),
            (self.context == "document", "context is for tagging", of_words),
            (self.activation == "sigmoid", "activation is for regression", {"regression"}),
            (self.head.crf, "crf is for tagging", of_words),
            (self.head.network == "taglm", "network taglm is for tagging (use bilstm)", of_words),
            (self.both_orders, "both_orders is for pairs", {"classification", "regression"}),
            (self.head.compares, "head.compares is for pairs", {"classification", "regression"}),
        ):
            if is_set and self.kind not in kinds:
                raise ConfigError(f"{rule}; the kind of this task is {self.kind}")
        if self.head.hidden_size and self.kind in ("tagging", "span"):
            raise ConfigError(f"hidden_size is for texts; the kind of this task is {self.kind}")
        if self.kind == "generation":
            at_least(self, 1, "max_target_tokens")
            if self.max_target_tokens > self.max_length - 8:
                raise OutOfRange(
                    self, "max_target_tokens", f"8 less than max_length ({self.max_length})"
                )
            if self.head.layers is not None or self.head.hidden_size:
                raise ConfigError(
                    "a generation task trains the encoder and the head that predicts its tokens: "
                    "leave out --transfer features, --network, --pooling and --hidden-size"
                )

    @property
    def most_windows(self) -> int:
        """The most windows of an example that are in memory at once."""
        return self.max_windows or max(1, _WINDOWS_TOKENS // self.max_length)

    @property
    def num_scores(self) -> int:
        """C, the number of scores of a text, a word, or a token (start and end of a span)."""
        if self.kind == "span":
            return 2
        return len(self.labels) if self.labels else 1
