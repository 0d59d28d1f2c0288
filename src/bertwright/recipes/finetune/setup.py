"""Prepare a task for training: read its labelled files, find its labels, and make its instances.

A labelled file becomes examples (`labelled/read.py`), and these become instances
(`tasks/task_data.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from torch import Tensor

from bertwright.arrays import Int64s
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.task import (
    HeadConfig,
    Layers,
    TaskConfig,
    TaskOptions,
)
from bertwright.data.randomness import make_key, permutation
from bertwright.errors import ConfigError, DataError
from bertwright.inference.vectors.embed import frame_of
from bertwright.labelled.columns import make_columns
from bertwright.labelled.examples import (
    Example,
    SimilarityExample,
    TextExample,
    classes_of,
    labels_of,
)
from bertwright.labelled.file import Read
from bertwright.labelled.look import options_of
from bertwright.labelled.read import read_examples
from bertwright.nn.encoder import EncoderSpec
from bertwright.recipes.finetune.teacher import teach
from bertwright.rows.read import MemoryRows
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import check_main, metrics_of
from bertwright.tasks.kind import Kind
from bertwright.tasks.similarity.options import SimilarityOptions, SimilarityTask
from bertwright.tasks.task_data import TaskData
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.file_words import coverage
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.transfer.linear import folds_of

HELD_OUT = 0.1
"""The fraction of the training file that becomes dev if no dev file is given."""
FEW = 500
"""With fewer training examples and no dev file, a linear head is evaluated by cross-validation."""
LENGTH = 512
"""The default number of tokens of a window for a model without a maximum length."""


class Fold(NamedTuple):
    """A part of the training examples, and the others, by their numbers."""

    train: list[int]
    held: list[int]
    """The part that is predicted by a model that was trained on the others."""


@dataclass(frozen=True)
class Split:
    """The training and dev examples of a task, read from its labelled files."""

    read: Read
    dev_read: Read
    """That of the dev file; without one, `read`."""
    labels: tuple[str, ...]
    train: list[Example]
    dev: list[Example]
    folds: tuple[Fold, ...] = ()
    """The folds of cross-validation, of which each example of `train` is held out in one; `dev` is
    then `train`. Empty: `dev` has examples of its own."""


@dataclass(frozen=True)
class TaskSpec:
    """The name, kind, files and options of a task."""

    name: str
    kind: str
    files: TaskFilesConfig
    options: TaskOptions
    train: MemoryRows | None = None
    """Rows in memory, in place of the training file."""
    dev: MemoryRows | None = None
    split: Split | None = None
    """The examples, in place of the files. A comparison reads them once, because runs with several
    seeds would each hold out other examples, and train on those that others are evaluated on.
    """
    most_train: int | None = None
    """The maximum number of training examples, drawn at random by the seed; None: all."""
    most_dev: int | None = None
    """The maximum number of dev examples, drawn in the same way; None: all."""


@dataclass(frozen=True)
class TaskSetup:
    """A prepared task with its data and the facts that the run reports about it."""

    task_name: str
    task: TaskConfig
    files: TaskFilesConfig
    options: TaskOptions
    """The options as they were given; those of `task` are what became of them."""
    train: TaskData
    dev: TaskData
    folds: tuple[Fold, ...]
    """The folds of cross-validation (`Split.folds`)."""
    class_weights: Tensor | None
    facts: dict[str, Any]
    """The files with their formats and sizes, which become `data` in `results.json`."""
    warnings: list[str]


def set_up(
    spec: TaskSpec,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    encoder: EncoderSpec,
    say: Callable[[str], None],
    trained: int | None = None,
    reads: Layers | None = None,
    vectors: EmbeddingDefaults | None = None,
    by_folds: bool = False,
) -> TaskSetup:
    """Read a task's files and make its instances.

    Args:
        trained: the maximum length of sequences that the model was trained on, which is the default
            length of windows; None: its number of positions.
        reads: the layer of which a linear head reads the vectors, as `embed` computes them; None:
            it reads what the encoder was published with.
        vectors: the embedding settings of the model's folder, if it is one of
            sentence-transformers.
        by_folds: whether to cross-validate if there are few examples and no dev file.
    """
    trained = encoder.max_length if trained is None else trained
    name, kind, files, options = spec.name, kind_of(spec.kind), spec.files, spec.options
    kind.check_packages(options)  # a missing package is an error now, not after an epoch
    rows = kind.rows(files, options, say)
    if rows is not None:
        spec = replace(spec, train=rows)
        files = replace(files, train=rows.name)
    if not files.train:
        raise ConfigError(f"{name}: missing key 'train', the labelled file to train on")
    split = spec.split or read_split(
        kind, files, options, config.seed, say, spec.train, spec.dev, spec.most_train, by_folds
    )
    read, dev_read, labels, folds = split.read, split.dev_read, split.labels, split.folds
    train, dev = split.train, split.dev
    if files.dev is not None:
        warnings = _overlap(count_shared(kind, train, dev), len(dev), files)
    elif folds:
        warnings = [
            f"no dev file: figures are of all {len(train)} examples of {files.train}, each "
            f"predicted by a model that was trained on the other {len(folds) - 1} of "
            f"{len(folds)} parts"
        ]
    else:
        warnings = [
            f"no dev file: {len(dev)} of {len(train) + len(dev)} examples of {files.train} are "
            "held out to evaluate on"
        ]
    if not folds:
        train = draw(train, spec.most_train, config.seed)
        dev = draw(dev, spec.most_dev, config.seed)
    framing = tokenizer.framing
    task = _task(kind, files, options, config, read, labels, train, encoder, trained, framing)
    if reads is not None:
        head = _head_of_vectors(
            kind, options, config, reads, read.columns.text2, encoder, tokenizer
        )
        task = replace(task, head=head)
    if isinstance(task, SimilarityTask):
        task = _with_vectors(task, files, config, encoder, tokenizer, vectors)
    if isinstance(options, SimilarityOptions) and options.teacher is not None:
        pairs = cast(list[SimilarityExample], train)
        taught, has_vectors = teach(pairs, options.teacher, config.device, say)
        train = list(taught)
        if has_vectors and options.objective != "auto":
            raise ConfigError(
                f"objective is {options.objective}, but the teacher's vectors are learned; leave "
                "it out, or pass a teacher that scores pairs"
            )
    task, train, notes = kind.prepare(task, train)
    for note in notes:
        say(f"{name}: {note}")
    task = kind.evaluated(task, dev)
    if trained is not None and task.max_length > trained:
        warnings.append(
            f"{config.model} was trained on {trained} tokens at once: what it reads of windows of "
            f"{task.max_length} beyond these is learned from this data alone"
        )
    weights = kind.class_weights(task, train)
    if files.metric is not None:
        check_main(metrics_of(task), files.metric)
    warnings += [*read.warnings, *(dev_read.warnings if files.dev else [])]
    setup = TaskSetup(
        task_name=name,
        task=task,
        files=files,
        options=options,
        train=TaskData(name, task, tokenizer, train),
        dev=TaskData(name, task, tokenizer, dev),
        folds=folds,
        class_weights=weights,
        facts={
            "train": _facts(files.train, read, len(train)),
            "dev": _facts(files.dev or files.train, dev_read, len(dev))
            | ({"folds": len(folds)} if folds else {"in_train": count_shared(kind, train, dev)}),
        },
        warnings=warnings,
    )
    for which, data in (("train", setup.train), ("dev", setup.dev)):
        warnings += data.warnings(f"{which} examples")
    for warning in warnings:
        say(f"warning: {warning}")
    if encoder.depth == 0 or tokenizer.file_words is not None:
        for which, data in (("train", setup.train), ("dev", setup.dev)):
            words, unknown = data.coverage
            setup.facts[which] |= {"words": words, "unknown": unknown}
            say(f"{which}: {coverage(words, unknown)}")
    return setup


def read_split(
    kind: Kind[Any, Any, Any, Any],
    files: TaskFilesConfig,
    options: TaskOptions,
    seed: int,
    say: Callable[[str], None],
    train: MemoryRows | None = None,
    dev: MemoryRows | None = None,
    most: int | None = None,
    by_folds: bool = False,
) -> Split:
    """Read the labelled files of a task. Without a dev file, the rows for dev are those that a
    column of the training file names, or some examples that are held out.

    Args:
        seed: the seed of the examples that are held out.
        train: rows in memory, in place of the training file.
        dev: rows in memory, in place of the dev file.
        most: the maximum number of training examples, before some of them are held out.
        by_folds: whether to return folds where there are few examples.
    """
    read = read_labelled(train or files.train, kind, files, options, say)
    examples = read.of_part("train")
    own_dev: list[Example] = []
    if files.dev is None and len(examples) < len(read.examples) and "dev" in read.parts.values():
        own_dev = read.of_part("dev")
    labels = find_labels(kind, replace(read, examples=[*examples, *own_dev]), files.train)
    if own_dev:
        return Split(read, read, labels, examples, own_dev)
    if files.dev is None:
        examples = draw(examples, most, seed)
        if by_folds and kind.linear and len(examples) < FEW:
            return Split(read, read, labels, examples, examples, _folds(examples, kind, seed))
        return Split(read, read, labels, *hold_out(examples, kind, seed))
    dev_read = read_labelled(dev or files.dev, kind, files, options, say, like=read, labels=labels)
    return Split(read, dev_read, labels, examples, dev_read.of_part("dev", "test"))


def draw(examples: list[Example], most: int | None, seed: int) -> list[Example]:
    """Return at most `most` examples, drawn at random, in their original order.

    With the same seed, a smaller sample is a subset of a larger one.
    """
    if most is None or most >= len(examples):
        return examples
    rows = permutation(make_key("examples", seed), len(examples))[:most]
    return [examples[row] for row in np.sort(rows).tolist()]


def hold_out(
    examples: Sequence[Example], kind: Kind[Any, Any, Any, Any], seed: int
) -> tuple[list[Example], list[Example]]:
    """Split examples into training and dev examples.

    Examples of one group (`_groups`) stay together.
    """
    groups = _groups(examples, kind)
    taken = np.isin(groups, _about_a_tenth(np.bincount(groups), seed))
    if taken.all():
        raise _too_few(examples)
    train = [example for example, held in zip(examples, taken, strict=True) if not held]
    return train, [example for example, held in zip(examples, taken, strict=True) if held]


def _folds(
    examples: Sequence[Example], kind: Kind[Any, Any, Any, Any], seed: int
) -> tuple[Fold, ...]:
    """Return the folds of examples, as `hold_out` groups them."""
    folds = tuple(
        Fold(train.tolist(), held.tolist())
        for train, held in folds_of(_groups(examples, kind), seed)
    )
    if len(folds) < 2:
        raise _too_few(examples)
    return folds


def _too_few(examples: Sequence[Example]) -> DataError:
    return DataError(
        f"{len(examples)} examples are too few to hold some out and to train on the others; pass "
        "more, or --dev FILE"
    )


def _groups(examples: Sequence[Example], kind: Kind[Any, Any, Any, Any]) -> Int64s:
    """Return the number of the group of each example, which is held out as a whole: those of the
    same document or passage, or, with fewer than ten of these, repetitions of the same text.
    """
    contents = [kind.content(example) for example in examples]
    sources = [kind.source(example) for example in examples]
    for groups_of in (contents if None in sources else sources, contents):
        numbers: dict[Hashable, int] = {}
        groups = np.array([numbers.setdefault(group, len(numbers)) for group in groups_of])
        if len(numbers) >= 10:
            break
    return groups


def _about_a_tenth(sizes: Int64s, seed: int) -> list[int]:
    """Draw groups at random that have about a tenth of all examples, and return their numbers.

    A group that would make the drawn part larger than a fifth is skipped, such as a book among
    articles.

    Args:
        sizes: the number of examples of each group.
        seed: the seed of the draw.
    """
    wanted, total = HELD_OUT * sizes.sum(), 0
    drawn: list[int] = []
    for number in permutation(make_key("dev", seed), len(sizes)).tolist():
        if total < wanted and total + sizes[number] <= 2 * wanted:
            drawn.append(number)
            total += sizes[number]
    return drawn or [int(sizes.argmin())]


def read_labelled(
    path: str | MemoryRows,
    kind: Kind[Any, Any, Any, Any],
    files: TaskFilesConfig,
    options: TaskOptions,
    say: Callable[[str], None],
    like: Read | None = None,
    labels: Sequence[str] = (),
) -> Read:
    """Read a labelled file.

    For dev, `like` is the training file that was read before, whose tagging scheme and columns are
    used, and `labels` are its labels. In dev, answers that are not at their offsets are kept,
    because only their texts are compared.
    """
    reading = options_of(files, options)
    if like is not None:
        reading = replace(
            reading,
            labels=labels or None,
            as_scheme=like.scheme,
            hint=like.columns,
            keep_wrong_answers=True,
        )
    columns = make_columns(files.text, files.text2, files.label, options.more_columns)
    if like is not None:
        columns = make_columns(
            files.dev_text or files.text,
            files.dev_text2 or files.text2,
            files.dev_label or files.label,
        )
    try:
        read = read_examples(path, kind.reader, columns, reading)
    except DataError as error:
        if like is None or not error.options:
            raise
        message = str(error).replace("Name one: --", "Name one: --dev-")
        options_of_dev = [re.sub("^--(text2?|label)$", r"--dev-\1", each) for each in error.options]
        raise DataError(message, options_of_dev) from error
    count = len(read.examples)
    name = path.name if isinstance(path, MemoryRows) else path
    say(f"{name}: {count:,} example{'s' * (count != 1)}, {read.format}")
    return read


def _facts(path: str, read: Read, examples: int) -> dict[str, Any]:
    columns = read.columns
    label = columns.label or [*columns.labels] or None
    columns_by_role = {"text": columns.text, "text2": columns.text2, "label": label}
    return {
        "file": Path(path).name,
        "examples": examples,
        "format": read.format,
        "columns": {key: value for key, value in columns_by_role.items() if value is not None},
        "skipped": {reason: asdict(each) for reason, each in read.log.skipped.items()},
    }


def _task(
    kind: Kind[Any, Any, Any, Any],
    files: TaskFilesConfig,
    options: TaskOptions,
    config: FinetuneConfig,
    read: Read,
    labels: tuple[str, ...],
    train: list[Example],
    encoder: EncoderSpec,
    trained: int | None,
    framing: Framing,
) -> TaskConfig:
    usual, longest = kind.usual_length(options) or trained or LENGTH, encoder.max_length
    length = files.max_length or min(usual, trained or usual)
    if longest is not None and length > longest:
        raise ConfigError(
            f"max_length is {length}, but {config.model} has positions for {longest}; "
            "pass less: what is longer is read in windows"
        )
    stride = files.stride
    if stride is None:
        stride = min(kind.usual_stride, length // 3)
    head = HeadConfig(dropout=config.dropout, hidden_size=config.hidden_size)
    network, pooling = config.network, config.pooling
    if pooling == "pooler":
        if config.transfer == "features" or kind.vectors:
            raise ConfigError(
                "pooling is pooler, which is trained for a task; frozen features and vectors of "
                "texts are pooled otherwise, as by mean"
            )
    elif config.transfer == "features" or network != "linear" or pooling is not None:
        layers = config.layers or "last"
        head = replace(head, layers=layers, network=network, pooling=pooling or "mean")
    elif encoder.reads_last:
        head = replace(head, pooling="last")
    # A head that reads tokens reads the one that ends a text too, as the classifier of a GPT does,
    # though pre-training gave it no vector.
    reads_tokens = kind.scores_tokens or head.pooling in ("cls", "last")
    if not reads_tokens or not encoder.averages_begin:
        head = replace(head, frame=frame_of(encoder, framing))  # as `embed` averages
    task: TaskConfig = kind.make_task(
        options,
        read,
        train,
        labels=labels,
        max_length=length,
        stride=stride,
        max_windows=1 if files.truncate or kind.generates or kind.vectors else files.max_windows,
        text_column=read.columns.text,
        text2_column=read.columns.text2,
        label_column=read.columns.label,
        head=head,
    )
    return task


def _head_of_vectors(
    kind: Kind[Any, Any, Any, Any],
    options: TaskOptions,
    config: FinetuneConfig,
    layers: Layers,
    text2: str | None,
    encoder: EncoderSpec,
    tokenizer: Tokenizer,
) -> HeadConfig:
    """Return the configuration of a head that reads the vectors that `embed` computes.

    For a text, the head reads its vector. For a pair, it reads both vectors, their absolute
    difference and their product; encoders that can read pairs together also may (`comparing`). For
    a word, it reads the vector of the word's first token.
    """
    if kind.scores_tokens:
        return HeadConfig(layers=layers, dropout=config.dropout)
    skips = not encoder.averages_unknown and tokenizer.file_words is None
    reads_one_by_one = not (encoder.reads_pairs or encoder.reads_last) and kind.compares(options)
    return HeadConfig(
        layers=layers,
        pooling=config.pooling or "mean",
        frame=frame_of(encoder, tokenizer.framing),
        unknown=tokenizer.unk_id if skips else None,
        compares=text2 is not None and reads_one_by_one,
        dropout=config.dropout,
    )


def comparing(setup: TaskSetup) -> TaskSetup | None:
    """Return the task of pairs with a head that compares the vectors of the two texts, where the
    head of `setup` reads both texts together; None if there is no choice.
    """
    task, kind = setup.task, kind_of(setup.task.kind)
    head = task.head
    if task.text2_column is None or head.compares or not kind.compares(setup.options):
        return None
    if head.layers is None or head.network != "linear" or head.hidden_size:
        return None
    compared = replace(task, head=replace(head, compares=True))
    train, dev = (
        TaskData(data.name, compared, data.tokenizer, data.examples)
        for data in (setup.train, setup.dev)
    )
    return replace(setup, task=compared, train=train, dev=dev)


def _with_vectors(
    task: SimilarityTask,
    files: TaskFilesConfig,
    config: FinetuneConfig,
    encoder: EncoderSpec,
    tokenizer: Tokenizer,
    known: EmbeddingDefaults | None,
) -> SimilarityTask:
    """Return the task with a head that makes vectors.

    The vectors are made according to the settings of the model's folder (`known`). Without such
    settings, they are those that `embed` computes from the last layer.
    """
    if config.transfer in ("features", "gradual") or config.network != "linear":
        what = config.transfer if config.network == "linear" else config.network
        raise ConfigError(
            f"{what} is for a head with weights of its own; a {task.kind} task trains the encoder "
            "to give vectors: leave it out, or pass --transfer finetune or top-N"
        )
    if config.hidden_size:
        raise ConfigError(f"hidden_size is for a head with scores; a {task.kind} task has none")
    usual = "last" if encoder.reads_last else "mean"
    pooling = config.pooling or (usual if known is None else known.pooling)
    skips = not encoder.averages_unknown and tokenizer.file_words is None
    head = HeadConfig(
        pooling=pooling,
        frame=frame_of(encoder, tokenizer.framing),
        unknown=tokenizer.unk_id if skips else None,
        dropout=config.dropout,
    )
    if known is not None:
        same = pooling == known.pooling
        task = replace(
            task,
            normalize=known.normalize,
            prompts=tuple(known.prompts.items()),
            default_prompt=known.default_prompt_name,
            dense=tuple(layer.as_config() for layer in known.dense) if same else (),
            dimensions=known.dimensions if same else None,
        )
    length = task.max_length
    if known is not None and files.max_length is None:
        length = min(length, known.max_length or length)
    stride = min(task.stride, length // 3)
    return replace(task, head=head, max_length=length, stride=stride)


MANY_EXAMPLES = 20
"""If the labels of this many examples or more all differ, the label column is taken to be wrong."""


def find_labels(kind: Kind[Any, Any, Any, Any], read: Read, path: str) -> tuple[str, ...]:
    """Return the labels of the training examples.

    If the file has a column of 0 or 1 for each class, they are in its order. The tag O is always
    the first label.
    """
    train = read.examples
    labels = read.classes or labels_of(train)
    has_none = any(isinstance(e, TextExample) and e.label == () for e in train)  # multi-label
    if kind.task_class.needs_labels and len(labels) + has_none < 2:
        raise DataError(
            f"{path} has one label only, {labels[0]!r}: there is nothing to train on; "
            "is --label the right column?"
            if labels
            else f"{path} has no labels; is --label the right column?"
        )
    counts = Counter(label for example in train for label in classes_of(example))
    if labels and len(train) >= MANY_EXAMPLES and max(counts.values(), default=0) == 1:
        raise DataError(
            f"{path} has {len(counts):,} labels in {len(train):,} examples, each of them once, as "
            f"{labels[0]!r}: nothing can be learned of a label that has one example; is --label "
            "the right column?"
        )
    return labels


def count_shared(
    kind: Kind[Any, Any, Any, Any], train: Sequence[Example], dev: Sequence[Example]
) -> int:
    """Return the number of dev inputs that are also training inputs."""
    seen = {kind.content(example) for example in train}
    return sum(kind.content(example) in seen for example in dev)


def _overlap(shared: int, total: int, files: TaskFilesConfig) -> list[str]:
    """Return a warning if at least a tenth of the dev inputs is in the training file.

    In published sets, up to 6 % are.
    """
    if shared < 0.1 * total:
        return []
    some = f"all {shared}" if shared == total else f"{shared} of {total}"
    return [
        f"{some} inputs of {files.dev} are in {files.train} too: figures on them show how well "
        "the model memorizes, not how well it generalizes"
    ]
