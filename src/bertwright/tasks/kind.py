"""What every kind of task brings: one record, in the file of the kind.

The record says how labelled files are read, how examples become instances, which head scores them,
and what predictions and metrics are made of the scores. The catalogue (`tasks/catalogue.py`) names
all records; recipes, checkpoints, inference and the command line know the record alone.

Letters: E the class of the examples, J of the instances, P of the predictions.
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
from bertwright.tasks.collation import Collated
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.instances import Instance, Lengths
from bertwright.tasks.metrics import Metrics
from bertwright.tasks.predictions import Prediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

E = TypeVar("E", bound=Example)
J = TypeVar("J", bound=Instance)
P = TypeVar("P", bound=Prediction)


class Scored(NamedTuple):
    """A batch with what its head gives."""

    batch: LabelledBatch
    head: Head
    scores: Tensor
    """float32, as `Head.scores` gives them."""


class Data(Protocol):
    """Examples of one task with their instances (`tasks/task_data.py`)."""

    @property
    def name(self) -> str:
        """The name of the task's head in the learner."""

    @property
    def task(self) -> TaskConfig:
        """What the task is: its kind, labels and settings."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def instances(self) -> Sequence[Instance]:
        """The instances, in the order of the examples."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all windows."""


class Row(NamedTuple):
    """How a text of the command line becomes a row: its parts have tabs between."""

    columns: tuple[str, ...]
    """The column of each part."""
    expected: str
    """The parts in words."""
    lists_the_rest: bool = False
    """Whether the last column is a list, of two parts or more."""


class ScoreGraph(NamedTuple):
    """How an exported graph gives the scores of a head (`checkpoint/export`)."""

    outputs: tuple[str, ...] = ("logits",)
    """The names of its outputs; where there are several, each is one score of a token."""
    of_tokens: bool = False
    """Whether an output has a row for each token."""
    choices: bool = False
    """Whether its inputs have an axis of choices, `[B, M, T]`."""
    one_number: bool = False
    """Whether a text, or a choice, has one score."""


class Generate(Protocol):
    """Writes predictions token by token, in place of decoding scores."""

    def __call__(
        self,
        learner: Learner,
        data: Data,
        precision: str,
        batch_tokens: int,
        config: GenerationConfig | None,
        on_progress: OnProgress,
    ) -> Iterator[tuple[int, Any]]:
        """Yield numbers of examples, and their predictions."""


def windows_read(task: TaskConfig) -> str:
    """Return in words how much of a text is read, for warnings of longer ones."""
    if task.most_windows > 1:
        return f"{task.most_windows} windows of {task.max_length} tokens (--max-windows)"
    return one_window(task)


def one_window(task: TaskConfig) -> str:
    """Return the same where a text is read in windows however long it is."""
    return f"a window of {task.max_length} tokens"


@dataclass(frozen=True, kw_only=True)
class TaskKind(Generic[E, J, P]):
    """One kind of task."""

    name: str
    """The `kind` in `task.json`, and the word of `bertwright finetune`."""

    # Labelled files and other input
    reader: Reader
    """How a labelled file is read."""
    fields: tuple[tuple[str, ...], ...]
    """The names of the items of a row that is a tuple; one tuple for each length."""
    inputs: tuple[str, ...]
    """The fields of an example that a model reads: two examples with these equal are one input."""
    source: Callable[[E], Hashable] | None = None
    """What an example is taken from, as a document: examples of one source are not split between
    training and dev; None: each input stands for itself."""
    needs_labels: bool = False
    """Whether the labels are a closed set of two or more."""
    usual_length: int | None = None
    """Tokens of a window where nothing else is said; None: as many as the model was trained on."""
    usual_stride: int = 32
    """Tokens by which windows overlap where nothing else is said."""
    check_files: Callable[[TaskFilesConfig], None] | None = None
    """Raises an error before a run begins, as MissingExtra where the metrics need a package."""
    parse_input: Callable[[Any], E | None]
    """Returns an input of `Model.predict` as an example; None, a TypeError or a ValueError where it
    is none."""
    expected_input: str
    """Such an input in words."""
    row: Callable[[TaskConfig], Row]
    """Of a task, how a text of the command line becomes a row."""

    # Examples to batches
    make: Callable[[TaskConfig, Tokenizer, Sequence[E]], tuple[list[J], Lengths]]
    """(task, tokenizer, examples) -> instances in the order of the examples."""
    collate: Callable[[TaskConfig, Sequence[J], Sequence[int], bool], Collated]
    """(task, instances, their numbers, with labels or not) -> a batch."""
    room: Callable[[TaskConfig], str] = windows_read
    """How much of a text is read, in words."""

    # The head
    head: Callable[[EncoderSpec, TaskConfig], Head]
    """(specification of the encoder, task) -> a new head; ConfigError where they do not fit."""
    scores_tokens: bool = False
    """Whether the head scores tokens or words; otherwise texts."""
    graph: ScoreGraph | None = None
    """How `bertwright export` writes a head that is linear; None: there is no export of it."""
    start: Callable[[Head, Sequence[E]], None] | None = None
    """(head, training examples): changes the initial weights of a new head."""

    # Scores to predictions
    decode: Callable[
        [TaskConfig, Sequence[E], Sequence[J], Iterator[Scored]], Iterator[tuple[int, P]]
    ]
    """(task, examples, instances, scored batches) -> an iterator over numbers of examples and
    their predictions."""
    generate: Generate | None = None
    """Where predictions are written token by token; `decode` is then not used."""
    parse_prediction: Callable[[Any, E, str], P] | None = None
    """(value of a table, example, where it stands) -> a prediction that was made elsewhere;
    DataError; None where `read_predictions` alone reads them."""
    read_predictions: Callable[[str, Read], Sequence[P] | None] | None = None
    """(file of predictions, labelled file) -> predictions from a form of file of the kind's own;
    None where the file is a table."""

    # Metrics
    metric_names: Callable[[TaskConfig], tuple[str, ...]]
    """The names of a task's metrics, the main one (it selects a model) first."""
    metrics: Callable[[TaskConfig, Sequence[E], Sequence[P]], Metrics]
    """(task, examples, predictions) -> the metrics."""
    gold: Callable[[E], Any]
    """The label of an example, for JSON."""
    shown: Callable[[E], tuple[str | None, str | None]]
    """The text and the second text of an example, for a list of errors."""
    correlates: bool = False
    """Whether the main metric is a correlation, which may well be 0 or less."""
    tune: Callable[[Sequence[E], Sequence[P], Any], tuple[list[Any], float]] | None = None
    """(examples, predictions, metric) -> predictions under the best null threshold, and it."""
    baselines: (
        Callable[[TaskConfig, Sequence[E], Sequence[E], int], Mapping[str, Sequence[P]]] | None
    ) = None
    """(task, training examples, dev examples, seed) -> predictions of simple models for dev, by
    their names."""

    @property
    def generates(self) -> bool:
        """Whether predictions are texts that are written token by token."""
        return self.generate is not None


def input_values(given: Any, example: type, names: Sequence[str]) -> list[Any] | None:
    """Return the parts of an input of `Model.predict`: a text alone, a pair, or a mapping of some
    fields of `example`; None where it is nothing of these. Parts that are not given are None.

    Args:
        given: the input.
        example: the class of the examples.
        names: the fields that an input has, in order.
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
