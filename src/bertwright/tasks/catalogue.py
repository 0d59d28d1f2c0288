"""The catalogue of the kinds of tasks: a name, its description, and what else needs no torch.

A kind (`Kind`) imports torch with its head, so `kind_of` imports only the kind that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from bertwright.config import values
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.task import TaskConfig, TaskOptions
from bertwright.errors import ConfigError
from bertwright.tasks.choices.options import MultipleChoiceOptions, MultipleChoiceTask
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.similarity.options import SimilarityOptions, SimilarityTask
from bertwright.tasks.span.options import SpanOptions, SpanTask
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.texts.options import (
    ClassificationOptions,
    ClassificationTask,
    RegressionOptions,
    RegressionTask,
)

if TYPE_CHECKING:
    from bertwright.tasks.kind import Kind


@dataclass(frozen=True)
class Entry:
    """One kind of task in the catalogue."""

    help: str
    """What the kind predicts, in a few words."""
    options: type[TaskOptions]
    """The class of its options, which are keys of its runs."""
    task: type[TaskConfig]
    """The class of its tasks, as they are saved."""
    pipeline: str = "other"
    """The name of the task on Hugging Face's hub (`pipeline_tag`)."""
    example: str = '"A text."'
    """An example input of `Model.predict` as Python code, for model cards."""
    example_of_pair: str | None = None
    """An example input of a task that was trained on pairs of texts, if pairs are possible."""
    separator: str = ", "
    """The separator between the parts of a label where it is displayed."""
    nothing: str = "none"
    """How an empty label is displayed."""
    error: str = "probability {:.1%}"
    """The form in which the score of an error is displayed; empty: it is not displayed, because the
    prediction names it.
    """
    of_words: bool = False
    """Whether each word has a label; the case of a word, which marks names, then matters."""


PAIR = '("One text.", "The other.")'
KINDS: dict[str, Entry] = {
    "classification": Entry(
        "a class, or any number of labels, for a text or a pair of texts",
        ClassificationOptions,
        ClassificationTask,
        "text-classification",
        example_of_pair=PAIR,
    ),
    "regression": Entry(
        "a number for a text or a pair of texts",
        RegressionOptions,
        RegressionTask,
        "text-classification",
        example_of_pair=PAIR,
        error="off by {:.3g}",
    ),
    "tagging": Entry(
        "a tag for each word: entities, parts of speech",
        TaggingOptions,
        TaggingTask,
        "token-classification",
        '"A sentence of words."',
        separator=" ",
        of_words=True,
    ),
    "span": Entry(
        "the answer to a question as a slice of a passage",
        SpanOptions,
        SpanTask,
        "question-answering",
        '("What is the question?", "A passage that may hold the answer.")',
        nothing="no answer",
    ),
    "multiple-choice": Entry(
        "which of several texts is right",
        MultipleChoiceOptions,
        MultipleChoiceTask,
        "multiple-choice",
        '("A text.", ["one ending", "another ending"])',
    ),
    "generation": Entry(
        "a text generated from a source text",
        GenerationOptions,
        GenerationTask,
        "text-generation",
        '"A source."',
        error="1 - ROUGE-L: {:.3f}",
    ),
    "similarity": Entry(
        "vectors whose cosine says how similar two texts are",
        SimilarityOptions,
        SimilarityTask,
        "sentence-similarity",
        PAIR,
        example_of_pair=PAIR,
        error="",
    ),
}
"""The kinds of tasks, by the `kind` in `task.json`."""


def check_kind(name: object) -> str:
    """Return `name` if it is a kind of task.

    Raises:
        ConfigError: there is no kind of this name.
    """
    if isinstance(name, str) and name in KINDS:
        return name
    near = get_close_matches(name, KINDS, n=1) if isinstance(name, str) else []
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"kind is {name!r}; expected one of {', '.join(KINDS)}{suggestion}")


def options_of(kind: str) -> list[str]:
    """Return the names of the options of a kind of task."""
    return values.keys_of(KINDS[kind].options)


def refuse_options(
    kind: str, keys: Iterable[str], written: str | None = None, where: str = ""
) -> None:
    """Raise ConfigError if one of the keys is an option of other kinds of tasks only.

    The message shows the key as it was `written`.
    """
    own = options_of(kind) if kind in KINDS else []
    for key in keys:
        others = [name for name in KINDS if key in options_of(name)]
        if others and key not in own:
            of_others = " and ".join(others)
            source = f" in {where}" if where else ""
            raise ConfigError(
                f"{written or key}{source} is an option of {of_others}, and this is a {kind} task: "
                "remove it"
            )


def files_and_options(
    kind: str, given: Mapping[str, Any], where: str = "", others: Sequence[str] = ()
) -> tuple[TaskFilesConfig, TaskOptions]:
    """Return the files of a task and the options of its kind, from one mapping with the keys of
    both.

    Args:
        where: the source for messages, such as a file name.
        others: further keys that are known, for messages.
    """
    refuse_options(kind, given, where=where)
    of_files, of_options = values.keys_of(TaskFilesConfig), options_of(kind)
    for key in given:
        if key not in (*of_files, *of_options):
            raise values.unknown_key(key, [*others, *of_files, *of_options], where)
    files = {key: value for key, value in given.items() if key in of_files}
    options = {key: value for key, value in given.items() if key in of_options}
    return (
        values.from_dict(TaskFilesConfig, files, where),
        values.from_dict(KINDS[kind].options, options, where),
    )


def make_task(content: Any, where: str = "") -> TaskConfig:
    """Return the task of a mapping with the keys of its kind's class, as `task.json` has them.

    Raises:
        ConfigError: there is no such kind or key, or a value is out of bounds.
    """
    kind = check_kind(content.get("kind") if isinstance(content, Mapping) else None)
    return values.from_dict(KINDS[kind].task, content, where)


def kind_of(name: str) -> Kind[Any, Any, Any, Any]:
    """Return a kind of task."""
    return import_kind(check_kind(name))


def kinds_that(holds: Callable[[Kind[Any, Any, Any, Any]], bool]) -> list[str]:
    """Return the names of the kinds for which something holds."""
    return [name for name in KINDS if holds(kind_of(name))]


def import_kind(name: str) -> Kind[Any, Any, Any, Any]:
    """Import the module of a kind of the catalogue, and return the kind."""
    match name:
        case "classification":
            from bertwright.tasks.texts.kind import ClassificationKind

            return ClassificationKind()
        case "regression":
            from bertwright.tasks.texts.kind import RegressionKind

            return RegressionKind()
        case "tagging":
            from bertwright.tasks.tagging.kind import TaggingKind

            return TaggingKind()
        case "span":
            from bertwright.tasks.span.kind import SpanKind

            return SpanKind()
        case "multiple-choice":
            from bertwright.tasks.choices.kind import MultipleChoiceKind

            return MultipleChoiceKind()
        case "generation":
            from bertwright.tasks.generation.kind import GenerationKind

            return GenerationKind()
        case "similarity":
            from bertwright.tasks.similarity.kind import SimilarityKind

            return SimilarityKind()
    raise ConfigError(f"the kind {name!r} is in no case of `kind_of`")
