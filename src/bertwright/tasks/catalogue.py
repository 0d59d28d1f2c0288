"""The catalogue of the kinds of tasks: a name, its description, and what else needs no torch.

A kind (`Kind`) imports torch with its head, so `kind_of` imports only the kind that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.tasks.kind import Kind


@dataclass(frozen=True)
class Entry:
    """One kind of task in the catalogue."""

    help: str
    """What the kind predicts, in a few words."""
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
        "text-classification",
        example_of_pair=PAIR,
    ),
    "regression": Entry(
        "a number for a text or a pair of texts",
        "text-classification",
        example_of_pair=PAIR,
        error="off by {:.3g}",
    ),
    "tagging": Entry(
        "a tag for each word: entities, parts of speech",
        "token-classification",
        '"A sentence of words."',
        separator=" ",
        of_words=True,
    ),
    "span": Entry(
        "the answer to a question as a slice of a passage",
        "question-answering",
        '("What is the question?", "A passage that may hold the answer.")',
        nothing="no answer",
    ),
    "multiple-choice": Entry(
        "which of several texts is right",
        "multiple-choice",
        '("A text.", ["one ending", "another ending"])',
    ),
    "generation": Entry(
        "a text generated from a source text",
        "text-generation",
        '"A source."',
        error="1 - ROUGE-L: {:.3f}",
    ),
    "similarity": Entry(
        "vectors whose cosine says how similar two texts are",
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


def kind_of(name: str) -> Kind[Any, Any, Any]:
    """Return a kind of task.

    Raises:
        ConfigError: there is no kind of this name.
    """
    return import_kind(check_kind(name))


def import_kind(name: str) -> Kind[Any, Any, Any]:
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
