"""`Kind`: what a kind of task defines, which a subclass in the kind's folder fills in.

A kind says how labelled files are read, how examples become instances and batches, which head
scores them, and how scores become predictions and metrics. The catalogue (`tasks/catalogue.py`)
names all kinds. Recipes, checkpoints, inference and the command line know only this class. An
object of it has no state; the task is an argument.

Letters: T is the class of the tasks, E of the examples, J of the instances, P of the predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor

from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example
from bertwright.labelled.file import Read, Reader
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs
from bertwright.rows.read import MemoryRows
from bertwright.tasks.batch import TaskBatch
from bertwright.tasks.head import Head
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.metrics import Metrics
from bertwright.tasks.predictions import Prediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

T = TypeVar("T", bound=TaskConfig)
E = TypeVar("E", bound=Example)
J = TypeVar("J", bound=Instance)
P = TypeVar("P", bound=Prediction)


class Scored(NamedTuple):
    """A batch with the scores that its head computed."""

    batch: Any
    """The batch, of the kind's class."""
    head: Head[Any]
    scores: Tensor
    """The scores in float32, as `Head.scores` returns them."""


class RowColumns(NamedTuple):
    """How a text given on the command line is split into columns, at tabs."""

    columns: tuple[str, ...]
    """The column of each part."""
    expected: str
    """A description of the parts, for messages."""
    lists_the_rest: bool = False
    """Whether the last column is a list of two parts or more."""


@dataclass(frozen=True)
class ScoreGraph:
    """How an exported graph computes the scores of a head (`checkpoint/export`)."""

    batch: Callable[[Inputs], TaskBatch]
    """Returns the batch of one sequence, in which every token is scored if tokens are."""
    outputs: tuple[str, ...] = ("logits",)
    """The names of the graph's outputs. If there are several, each is one score for each token."""
    of_tokens: bool = False
    """Whether an output has a row for each token."""
    choices: bool = False
    """Whether the inputs have an axis of choices, `[B, M, T]`."""
    one_number: bool = False
    """Whether a text, or a choice, has a single score."""


class Kind(ABC, Generic[T, E, J, P]):
    """One kind of task."""

    name: ClassVar[str]
    """The `kind` in `task.json`, and the argument of `bertwright finetune`."""

    task_class: type[T]
    """The class of its tasks, which has its options (`tasks/KIND/options.py`)."""

    # Labelled files and other input
    reader: ClassVar[Reader]
    """How a labelled file is read."""
    example: type[E]
    """The class of the examples."""
    fields: ClassVar[tuple[tuple[str, ...], ...]]
    """The names of the items of a row that is a tuple; one tuple of names for each length."""
    inputs: ClassVar[tuple[str, ...]]
    """The fields of an example that a model reads. Two examples with equal fields are the same
    input.
    """
    optional_inputs: ClassVar[tuple[str, ...]] = ()
    """Those of the inputs that an example may lack."""
    expected_input: ClassVar[str]
    """A description of an input of `Model.predict`, for messages."""
    usual_stride: ClassVar[int] = 32
    """The default number of tokens by which windows overlap."""

    # Scores, predictions and metrics
    prediction: type[P]
    """The class of the predictions."""
    scores_tokens: ClassVar[bool] = False
    """Whether the head scores tokens or words, and not whole texts."""
    linear: ClassVar[bool] = False
    """Whether the head, if it has no network, is a linear layer over one vector of each text or
    word (`Head.read`), so that it can be fitted on frozen vectors without training steps. Its batch
    is then a `LinearBatch`.
    """
    graph: ClassVar[ScoreGraph | None] = None
    """How `bertwright export` writes the head; None: it cannot be exported."""
    generates: ClassVar[bool] = False
    """Whether predictions are texts that are generated token by token (`generate`)."""
    vectors: ClassVar[bool] = False
    """Whether the head computes the vectors that `embed` returns. A model of such a kind is saved
    as a folder of sentence-transformers, and its encoder is useful before it is trained.
    """
    correlates: ClassVar[bool] = False
    """Whether the main metric is a correlation, which may be 0 or negative."""
    has_baselines: ClassVar[bool] = False
    """Whether there are simple models to compare with (`baselines`)."""

    def usual_length(self, options: Any) -> int | None:
        """Return the default number of tokens in a window; None: as many as the model was trained
        on.
        """
        return None

    def is_linear(self, options: Any) -> bool:
        """Return whether a head without a network is linear under these options."""
        return self.linear

    def compares(self, options: Any) -> bool:
        """Return whether a linear head on frozen vectors may read the texts of a pair one by
        one.
        """
        return False

    def check_packages(self, options: Any) -> None:
        """Raise MissingExtra if the metrics need a package that is not installed."""

    def rows(
        self, files: TaskFilesConfig, options: Any, say: Callable[[str], None]
    ) -> MemoryRows | None:
        """Return the training examples that the options name as rows; None: there is a file."""
        return None

    def source(self, example: E) -> Hashable:
        """Return what an example belongs to, such as a document; None: nothing. Examples with the
        same source are not split between training and dev.
        """
        return None

    def content(self, example: E) -> Hashable:
        """Return the inputs that a model reads of an example."""
        return tuple(getattr(example, name) for name in self.inputs)

    def parse_input(self, given: Any) -> E | None:
        """Return an input of `Model.predict` as an example. For an invalid input, return None or
        raise TypeError or ValueError.
        """
        values = input_values(given, self.example, self.inputs)
        if values is None:
            return None
        texts = dict(zip(self.inputs, values, strict=True))
        needed = [
            text
            for name, text in texts.items()
            if name not in self.optional_inputs or text is not None
        ]
        return self.example(**texts) if are_texts(*needed) else None

    def row(self, task: T) -> RowColumns:
        """Return how a text given on the command line becomes a row."""
        return RowColumns(self.inputs, self.expected_input)

    def make_task(self, options: Any, read: Read, examples: Sequence[E], **common: Any) -> T:
        """Return the task of a training file.

        Args:
            common: the settings that a task of any kind has.
        """
        return self.task_class(kind=self.name, options=options, **common)

    def prepare(self, task: T, examples: Sequence[E]) -> tuple[T, list[E], list[str]]:
        """Return the task with the settings that depend on the training examples, the examples to
        train on, and messages for the user.
        """
        return task, list(examples), []

    def class_weights(self, task: T, examples: Sequence[E]) -> Tensor | None:
        """Return a weight for each label, `[C]`, which the loss is weighted by; None: there are
        none.
        """
        return None

    # Examples to batches
    @abstractmethod
    def make(self, task: T, tokenizer: Tokenizer, examples: Sequence[E]) -> tuple[list[J], Lengths]:
        """Return the instances in the order of the examples, and their lengths."""

    @abstractmethod
    def collate(
        self, task: T, instances: Sequence[J], rows: Sequence[int], with_labels: bool
    ) -> TaskBatch:
        """Return the batch of some instances with the indices `rows`, on the host."""

    def room(self, task: T) -> str:
        """Return how much of a text is read, for warnings about longer texts."""
        if task.most_windows > 1:
            return f"{task.most_windows} windows of {task.max_length} tokens (--max-windows)"
        return one_window(task)

    # The head
    @abstractmethod
    def head(self, spec: EncoderSpec, task: T) -> Head[Any]:
        """Return a new head; raise ConfigError if the encoder and the task do not fit."""

    def start(self, head: Head[Any], examples: Sequence[E]) -> None:
        """Initialize the weights of a new head from the training examples, where that helps."""

    # Scores to predictions
    def decode(
        self,
        task: T,
        examples: Sequence[E],
        instances: Sequence[J],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, P]]:
        """Yield indices of examples with their predictions."""
        raise NotImplementedError(f"{self.name} defines no decode")

    def generate(
        self,
        task: T,
        tokenizer: Tokenizer,
        instances: Sequence[J],
        learner: Learner,
        head: str,
        precision: str,
        batch_tokens: int,
        config: GenerationConfig | None,
    ) -> Iterator[tuple[int, P]]:
        """Yield indices of instances with the predictions that the head of this name generates
        token by token.
        """
        raise NotImplementedError(f"{self.name} defines no generate")

    def tune(
        self, task: T, examples: Sequence[E], predictions: Sequence[P], metric: str | None
    ) -> tuple[T, Sequence[P]]:
        """Return the task with the settings that are best for a metric of the examples (None: the
        main one), and the predictions under them.
        """
        return task, predictions

    def parse_prediction(self, value: Any, example: E, where: str) -> P:
        """Return a prediction made by another program, from a value in a table; raise DataError,
        with the place, if it is none.
        """
        raise NotImplementedError(f"{self.name} reads no predictions from a table")

    def read_predictions(self, path: str, read: Read) -> Sequence[P] | None:
        """Return the predictions for a labelled file from a file in a format of this kind; None if
        the file is a table.
        """
        return None

    # Metrics
    def evaluated(self, task: T, examples: Sequence[E]) -> T:
        """Return the task with the metrics that suit the labels of the examples."""
        return task

    @abstractmethod
    def metric_names(self, task: T) -> tuple[str, ...]:
        """Return the names of a task's metrics. The first is the main one, which selects a
        model.
        """

    @abstractmethod
    def metrics(self, task: T, examples: Sequence[E], predictions: Sequence[P]) -> Metrics:
        """Return the metrics of predictions."""

    @abstractmethod
    def gold(self, example: E) -> Any:
        """Return the label of an example, for JSON."""

    @abstractmethod
    def shown(self, example: E) -> tuple[str | None, str | None]:
        """Return the text and the second text of an example, for a list of errors."""

    def baselines(
        self,
        task: T,
        train: Sequence[E],
        dev: Sequence[E],
        seed: int,
        simplest: bool,
    ) -> Mapping[str, Sequence[P]]:
        """Return the predictions of simple models for dev, by the names of the models.

        With `simplest`, only the simplest model is fitted.
        """
        return {}


def one_window(task: TaskConfig) -> str:
    """Return the description of `Kind.room` for kinds that read one window."""
    return f"a window of {task.max_length} tokens"


def input_values(given: Any, example: type, names: Sequence[str]) -> list[Any] | None:
    """Return the parts of an input of `Model.predict`, or None if the input has another form.

    The input is a text, a pair, or a mapping with some fields of `example`. Parts that are not
    given are None.

    Args:
        names: the fields of an input, in order.
    """
    if isinstance(given, Mapping):
        if not set(given) <= {field.name for field in fields(example)}:
            return None
        values = [given.get(name) for name in names]
    elif isinstance(given, str):
        values = [given]
    else:
        values = list(given)
        if len(values) != 2:
            return None
    if len(values) > len(names):
        return None
    return [*values, *[None] * (len(names) - len(values))]


def are_texts(*values: Any) -> bool:
    """Return whether all values are strings that are not blank."""
    return all(isinstance(value, str) and value.strip() for value in values)


def check_count(path: str, count: int, examples: Collection[Example]) -> None:
    """Raise DataError unless a file has one prediction for each example."""
    if count != len(examples):
        raise DataError(
            f"{path} has {count:,} predictions for {len(examples):,} examples; expected one each, "
            "in the same order"
        )
