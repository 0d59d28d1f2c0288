"""`TaskKind`: the record that defines a kind of task, which each kind's own file fills in.

The record says how labelled files are read, how examples become instances, which head scores them,
and how scores become predictions and metrics. The catalogue (`tasks/catalogue.py`) names all
records. Recipes, checkpoints, inference and the command line know only this record.

Letters: E is the class of the examples, J of the instances, P of the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import Example
from bertwright.labelled.file import Read, Reader
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.objective import Learner
from bertwright.progress import OnProgress
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.metrics import Metrics
from bertwright.tasks.predictions import Prediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

E = TypeVar("E", bound=Example)
J = TypeVar("J", bound=Instance)
P = TypeVar("P", bound=Prediction)


class Scored(NamedTuple):
    """A batch with the scores that its head computed."""

    batch: LabelledBatch
    head: Head
    scores: Tensor
    """The scores in float32, as `Head.scores` returns them."""


class Data(Protocol):
    """The examples of one task with their instances (`tasks/task_data.py`)."""

    @property
    def name(self) -> str:
        """The name of the task's head in the learner."""

    @property
    def task(self) -> TaskConfig:
        """The configuration of the task: its kind, labels and settings."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that turned the examples into ids."""

    @property
    def instances(self) -> Sequence[Instance]:
        """The instances, in the order of the examples."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all windows."""


class RowColumns(NamedTuple):
    """How a text given on the command line is split into columns, at tabs."""

    columns: tuple[str, ...]
    """The column of each part."""
    expected: str
    """A description of the parts, for messages."""
    lists_the_rest: bool = False
    """Whether the last column is a list of two parts or more."""


class ScoreGraph(NamedTuple):
    """How an exported graph computes the scores of a head (`checkpoint/export`)."""

    outputs: tuple[str, ...] = ("logits",)
    """The names of the graph's outputs. If there are several, each is one score for each token."""
    of_tokens: bool = False
    """Whether an output has a row for each token."""
    choices: bool = False
    """Whether the inputs have an axis of choices, `[B, M, T]`."""
    one_number: bool = False
    """Whether a text, or a choice, has a single score."""


class Generate(Protocol):
    """Generates predictions token by token, in place of decoding scores."""

    def __call__(
        self,
        learner: Learner,
        data: Data,
        precision: str,
        batch_tokens: int,
        config: GenerationConfig | None,
        on_progress: OnProgress,
    ) -> Iterator[tuple[int, Any]]:
        """Yield indices of examples with their predictions."""


def windows_read(task: TaskConfig) -> str:
    """Return a description of how much of a text is read, for warnings about longer texts."""
    if task.most_windows > 1:
        return f"{task.most_windows} windows of {task.max_length} tokens (--max-windows)"
    return one_window(task)


def one_window(task: TaskConfig) -> str:
    """Return the description of `windows_read` for kinds that have no limit of windows."""
    return f"a window of {task.max_length} tokens"


@dataclass(frozen=True, kw_only=True)
class TaskKind(Generic[E, J, P]):
    """One kind of task."""

    name: str
    """The `kind` in `task.json`, and the argument of `bertwright finetune`."""

    # Labelled files and other input
    reader: Reader
    """How a labelled file is read."""
    fields: tuple[tuple[str, ...], ...]
    """The names of the items of a row that is a tuple; one tuple of names for each length."""
    inputs: tuple[str, ...]
    """The fields of an example that a model reads. Two examples with equal fields are the same
    input.
    """
    source: Callable[[E], Hashable] | None = None
    """Returns the source that an example belongs to, such as a document. Examples with the same
    source are not split between training and dev. None: each input is its own source.
    """
    needs_labels: bool = False
    """Whether the labels are a closed set of at least two labels."""
    usual_length: int | None = None
    """The default number of tokens in a window; None: as many as the model was trained on."""
    usual_stride: int = 32
    """The default number of tokens by which windows overlap."""
    check_files: Callable[[TaskFilesConfig], None] | None = None
    """Raises an error before a run begins; for example MissingExtra if the metrics need a
    package.
    """
    parse_input: Callable[[Any], E | None]
    """Returns an input of `Model.predict` as an example. For an invalid input, it returns None or
    raises TypeError or ValueError.
    """
    expected_input: str
    """A description of such an input, for messages."""
    row: Callable[[TaskConfig], RowColumns]
    """Returns, for a task, how a text given on the command line becomes a row."""

    # Examples to batches
    make: Callable[[TaskConfig, Tokenizer, Sequence[E]], tuple[list[J], Lengths]]
    """(task, tokenizer, examples) -> instances in the order of the examples, and their lengths."""
    collate: Callable[[TaskConfig, Sequence[J], Sequence[int], bool], LabelledBatch]
    """(task, instances, their indices, whether with labels) -> a batch on the host, whose `task` is
    not set yet."""
    room: Callable[[TaskConfig], str] = windows_read
    """Returns a description of how much of a text is read."""

    # The head
    head: Callable[[EncoderSpec, TaskConfig], Head]
    """(specification of the encoder, task) -> a new head; raises ConfigError if they do not fit."""
    scores_tokens: bool = False
    """Whether the head scores tokens or words, and not whole texts."""
    linear: bool = False
    """Whether the head, if it has no network, is a linear layer over one vector of each text or
    word (`Head.read`), so that it can be fitted on frozen vectors without training steps.
    """
    graph: ScoreGraph | None = None
    """How `bertwright export` writes the head; None: it cannot be exported."""
    start: Callable[[Head, Sequence[E]], None] | None = None
    """(head, training examples): initializes the weights of a new head from the training
    examples.
    """

    # Scores to predictions
    decode: Callable[
        [TaskConfig, Sequence[E], Sequence[J], Iterator[Scored]], Iterator[tuple[int, P]]
    ]
    """(task, examples, instances, scored batches) -> an iterator over indices of examples and their
    predictions.
    """
    generate: Generate | None = None
    """Generates predictions token by token; if it is set, `decode` is not used."""
    parse_prediction: Callable[[Any, E, str], P] | None = None
    """(value in a table, example, its place) -> a prediction made by another program; raises
    DataError. None if `read_predictions` reads all predictions.
    """
    read_predictions: Callable[[str, Read], Sequence[P] | None] | None = None
    """(file of predictions, labelled file) -> predictions in a file format of this kind; None if
    the file is a table.
    """

    # Sentence vectors
    vectors: bool = False
    """Whether the head computes the vectors that `embed` returns. A model of such a kind is saved
    as a folder of sentence-transformers, and its encoder is useful before it is trained.
    """
    prepare: (
        Callable[[TaskConfig, TaskFilesConfig, Sequence[E]], tuple[TaskConfig, list[E], list[str]]]
        | None
    ) = None
    """(task, configuration of its files, training examples) -> the task with the settings that
    depend on the examples, the examples to train on, and messages for the user. None: no setting
    depends on the examples.
    """
    as_evaluated: Callable[[TaskConfig, Sequence[E]], TaskConfig] | None = None
    """(task, examples to evaluate on) -> the task with the metrics that suit the labels of the
    examples. None: the metrics do not depend on the labels.
    """

    # Metrics
    metric_names: Callable[[TaskConfig], tuple[str, ...]]
    """Returns the names of a task's metrics. The first is the main one, which selects a model."""
    metrics: Callable[[TaskConfig, Sequence[E], Sequence[P]], Metrics]
    """(task, examples, predictions) -> the metrics."""
    gold: Callable[[E], Any]
    """Returns the label of an example, for JSON."""
    shown: Callable[[E], tuple[str | None, str | None]]
    """Returns the text and the second text of an example, for a list of errors."""
    correlates: bool = False
    """Whether the main metric is a correlation, which may be 0 or negative."""
    tune: Callable[[Sequence[E], Sequence[P], Any], tuple[list[Any], float]] | None = None
    """(examples, predictions, metric) -> predictions under the best null threshold, and the
    threshold.
    """
    baselines: (
        Callable[[TaskConfig, Sequence[E], Sequence[E], int, bool], Mapping[str, Sequence[P]]]
        | None
    ) = None
    """(task, training examples, dev examples, seed, whether only the simplest model is wanted) ->
    predictions of simple models for dev, by the names of the models.
    """

    def evaluated(self, task: TaskConfig, examples: Sequence[E]) -> TaskConfig:
        """Return the task with the metrics that suit the labels of the examples."""
        return task if self.as_evaluated is None else self.as_evaluated(task, examples)

    @property
    def generates(self) -> bool:
        """Whether predictions are texts that are generated token by token."""
        return self.generate is not None


def input_values(given: Any, example: type, names: Sequence[str]) -> list[Any] | None:
    """Return the parts of an input of `Model.predict`, or None if the input has another form.

    The input is a text, a pair, or a mapping with some fields of `example`. Parts that are not
    given are None.

    Args:
        given: the input.
        example: the class of the examples.
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
