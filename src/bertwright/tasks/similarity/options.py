"""The options of similarity, and its task as it is saved: how sentence vectors are made, trained
and evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bertwright.config.ranges import MOST_WIDTH, above, at_least, between
from bertwright.config.task import TaskConfig, TaskOptions
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, usual_prompt
from bertwright.errors import ConfigError

SimilarityObjective = Literal["in-batch", "cosent", "triplet", "teacher"]
"""How sentence vectors are trained (`tasks/similarity/losses.py`)."""

Activation = Literal["identity", "tanh", "relu", "gelu", "silu", "sigmoid"]
"""The function after a dense layer."""


@dataclass(frozen=True)
class SimilarityOptions(TaskOptions):
    """The options of similarity."""

    negatives: tuple[str, ...] = ()
    """Columns of hard negatives, each a text or a list of texts; unset: found by their names, as
    negative or negative_1.
    """
    objective: Literal["auto", "in-batch", "cosent", "triplet"] = "auto"
    """Training objective. in-batch: the other texts of a step are negatives; cosent: learn the
    order of the scores; triplet: keep a margin to the hard negatives; auto: in-batch for pairs and
    for inference data, whose contradictions are hard negatives, else cosent.
    """
    temperature: float = 0.05
    """Divide cosines by this temperature (objectives in-batch and cosent, and a teacher whose
    vectors have another size).
    """
    margin: float = 0.2
    """Triplet: margin by which the cosine of a positive must exceed that of a hard negative."""
    sizes: tuple[int, ...] = ()
    """Numbers of leading dimensions that are also trained to be used as vectors (Matryoshka), such
    as 64 128.
    """
    corpus: tuple[str, ...] = ()
    """Files, folders or globs of plain text to train on instead of --train."""
    corpus_pairs: Literal["auto", "neighbours", "dropout"] = "auto"
    """How positive pairs are made from a corpus. neighbours: consecutive sentences, and a title and
    its text; dropout: a sentence and itself under another dropout mask (SimCSE); auto: neighbours
    if at least half of the documents have two or more sentences, else dropout.
    """
    corpus_documents: Literal["blank-line", "file", "line"] = "blank-line"
    """What separates the documents of a corpus."""
    teacher: str | None = None
    """Teacher model, a run, a folder or hf:ORG/NAME. Its vectors are learned, or its scores if it
    was fine-tuned on pairs.
    """
    prompt: str | None = None
    """Text put before every first text, such as "query: "; unset: the model's own prompt."""
    prompt2: str | None = None
    """Text put before every other text; unset: the model's own prompt."""

    def __post_init__(self) -> None:
        above(self, 0, "temperature", "margin")
        if not all(size >= 1 for size in self.sizes):
            raise ConfigError(f"sizes is {self.sizes}; expected numbers from 1 on")

    @property
    def has_examples(self) -> bool:
        return bool(self.corpus)

    @property
    def more_columns(self) -> tuple[str, ...]:
        return self.negatives


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


@dataclass(frozen=True, kw_only=True)
class SimilarityTask(TaskConfig):
    """A task of similarity."""

    kind: str = "similarity"
    options: SimilarityOptions = field(default_factory=SimilarityOptions)
    form: Literal["pairs", "scores", "labels"] = "pairs"
    """Form of the evaluated examples: pairs that belong together; pairs with a score; pairs that
    are labelled as belonging together or not.
    """
    objective: SimilarityObjective = "in-batch"
    """The objective that trains the vectors."""
    scores: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest score of the training examples; 0 and 1 if it was not trained on
    scores.
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
        super().__post_init__()
        at_least(self, 1, "dimensions")
        if self.scores[0] >= self.scores[1]:
            raise ConfigError(f"scores is {self.scores}; expected two numbers, the smaller first")

    def of_weights(self) -> tuple[object, ...]:
        return (self.dense, self.head.pooling) if self.dense else ()

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
