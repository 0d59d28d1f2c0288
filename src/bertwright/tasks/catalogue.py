"""The catalogue of the kinds of tasks: a name, its description, and the function that loads it.

A record (`TaskKind`) imports torch with its head, so it is imported only when its function is
called. The command line and the pages read the other fields, which need no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.tasks.kind import TaskKind


@dataclass(frozen=True)
class Entry:
    """One kind of task in the catalogue."""

    help: str
    """What the kind predicts, in a few words."""
    load: Callable[[], TaskKind[Any, Any, Any]]
    """Imports and returns the kind's record."""
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


def _classification() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.texts.kind import CLASSIFICATION

    return CLASSIFICATION


def _regression() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.texts.kind import REGRESSION

    return REGRESSION


def _tagging() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.tagging.kind import TAGGING

    return TAGGING


def _span() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.span.kind import SPAN

    return SPAN


def _multiple_choice() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.choices.kind import MULTIPLE_CHOICE

    return MULTIPLE_CHOICE


def _generation() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.generation.kind import GENERATION

    return GENERATION


def _similarity() -> TaskKind[Any, Any, Any]:
    from bertwright.tasks.similarity.kind import SIMILARITY

    return SIMILARITY


PAIR = '("One text.", "The other.")'
KINDS: dict[str, Entry] = {
    "classification": Entry(
        "a class, or any number of labels, for a text or a pair of texts",
        _classification,
        "text-classification",
        example_of_pair=PAIR,
    ),
    "regression": Entry(
        "a number for a text or a pair of texts",
        _regression,
        "text-classification",
        example_of_pair=PAIR,
        error="off by {:.3g}",
    ),
    "tagging": Entry(
        "a tag for each word: entities, parts of speech",
        _tagging,
        "token-classification",
        '"A sentence of words."',
        separator=" ",
        of_words=True,
    ),
    "span": Entry(
        "the answer to a question as a slice of a passage",
        _span,
        "question-answering",
        '("What is the question?", "A passage that may hold the answer.")',
        nothing="no answer",
    ),
    "multiple-choice": Entry(
        "which of several texts is right",
        _multiple_choice,
        "multiple-choice",
        '("A text.", ["one ending", "another ending"])',
    ),
    "generation": Entry(
        "a text generated from a source text",
        _generation,
        "text-generation",
        '"A source."',
        error="1 - ROUGE-L: {:.3f}",
    ),
    "similarity": Entry(
        "vectors whose cosine says how similar two texts are",
        _similarity,
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


def kind_of(name: str) -> TaskKind[Any, Any, Any]:
    """Return the record of a kind of task.

    Raises:
        ConfigError: there is no kind of this name.
    """
    return KINDS[check_kind(name)].load()
