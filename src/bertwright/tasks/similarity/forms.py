"""Find the form of a file for sentence vectors, and make the examples that objectives learn from.

| labels of the file | form | objective by default |
|---|---|---|
| none | `pairs` | `in-batch`; hard negatives of the file take part |
| 0 and 1, or classes such as `duplicate` | `labels` | `cosent` |
| classes of inference (`entailment`, `contradiction`) | `labels` | `in-batch`: entailed texts are \
positives, contradicting ones hard negatives (Gao et al. 2021, SimCSE, section 4) |
| two to four of the numbers 0 to 4 (0 and 1 excepted), in a column that is not called score | \
an error, as they may be classes | |
| other numbers | `scores` | `cosent` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from bertwright.errors import ConfigError, DataError, listed, shorten
from bertwright.labelled.examples import SimilarityExample
from bertwright.tasks.similarity.options import SimilarityObjective

Form = Literal["pairs", "scores", "labels"]

_TOGETHER = "1 entailment entails entailed duplicate paraphrase equivalent similar same match yes"
_APART = (
    "0 contradiction contradicts not_entailment non-entailment not_duplicate non-duplicate "
    "not_paraphrase not_equivalent dissimilar different no_match no negative"
)
POSITIVE = frozenset((*_TOGETHER.split(), "positive"))
"""Classes of texts that belong together, in lower case."""
NEGATIVE = frozenset(_APART.split())
"""Classes of texts that do not belong together."""
NEITHER = frozenset({"neutral"})
"""Classes of pairs that are not trained on."""
_INFERENCE = {"entailment", "entails", "entailed"}
_HOW = "rename them, as --label-map same=1 other=0"


def form_of(
    examples: Sequence[SimilarityExample], scores: tuple[float, float] = (0.0, 1.0)
) -> Form:
    """Return the form of the examples of a file.

    Args:
        scores: the lowest and the highest score that the model was trained on, if it was trained on
            scores. Numbers are then scores; by default they may be classes.
    """
    labels = [example.label for example in examples]
    classes = {label for label in labels if isinstance(label, str)}
    numbers = {label for label in labels if isinstance(label, float)}
    if classes and numbers:
        odd = next(each for each in examples if isinstance(each.label, str))
        raise DataError(
            f"line {odd.line}: the label is {shorten(odd.label)}, and others are numbers; expected "
            "numbers or classes"
        )
    if classes:
        known = POSITIVE | NEGATIVE | NEITHER
        unknown = sorted(name for name in classes if name.lower() not in known)
        if unknown:
            raise DataError(
                f"the labels {listed(unknown, 4)} do not say whether two texts belong together; "
                f"{_HOW}; or name the column of a number: --label COLUMN"
            )
        return "labels"
    if numbers <= {1.0}:
        return "pairs"
    if numbers <= {0.0, 1.0}:
        return "labels"
    may_be_classes = 1 < len(numbers) <= 4 and numbers <= {0.0, 1.0, 2.0, 3.0, 4.0}
    if may_be_classes and scores == (0.0, 1.0) and not all(each.is_score for each in examples):
        raise _unclear(sorted(numbers))
    return "scores"


def _unclear(numbers: Sequence[float]) -> DataError:
    """Return the error for numbers that may be scores or classes, with the option for each."""
    least, most = numbers[0], numbers[-1]
    scaled = " ".join(f"{each:g}={(each - least) / (most - least):.2g}" for each in numbers)
    meanings = ("entailment", "neutral", "contradiction")  # the order of data sets of Hugging Face
    classes = [*zip(("0", "1", "2"), meanings, strict=True)]
    if most > 2 or least > 0:
        classes = [(f"{each:g}", "same" if each == most else "different") for each in numbers]
    names = " ".join(f"{number}={name}" for number, name in classes)
    return DataError(
        f"the labels are {', '.join(f'{each:g}' for each in numbers)}, which may be scores or "
        f"classes. For scores, where {most:g} is the most similar: --label-map {scaled}. For "
        f"classes, give the meaning of each (same, different, entailment, neutral or "
        f"contradiction): --label-map {names}"
    )


def is_positive(example: SimilarityExample) -> bool:
    """Return whether two labelled texts belong together."""
    if isinstance(example.label, str):
        return example.label.lower() in POSITIVE
    return example.label == 1.0


@dataclass(frozen=True)
class Trained:
    """The examples that an objective learns from."""

    objective: SimilarityObjective
    examples: list[SimilarityExample]
    scores: tuple[float, float]
    """The least and the greatest label."""
    notes: list[str]
    """Messages for the user."""


def to_train(examples: Sequence[SimilarityExample], wanted: SimilarityObjective | None) -> Trained:
    """Return the examples that an objective learns from, with numbers as labels.

    Args:
        wanted: the objective; None: the one that suits the form.
    """
    if wanted == "teacher":
        made = [replace(each, label=1.0) for each in examples]
        note = f"{len(made):,} examples to train on, objective teacher"
        return Trained("teacher", made, (0.0, 1.0), [note])
    form = form_of(examples)
    names = {each.label.lower() for each in examples if isinstance(each.label, str)}
    usual: SimilarityObjective = "in-batch" if form == "pairs" or names & _INFERENCE else "cosent"
    objective = wanted or usual
    ranks = objective in ("in-batch", "triplet")
    if form == "pairs" and not ranks:
        raise ConfigError(
            f"the objective {objective} needs a number or a label for each pair, and the training "
            "file has none; name its column with --label, or leave --objective out"
        )
    if form == "scores" and ranks:
        raise ConfigError(
            f"the objective {objective} needs texts that belong together, and the training file "
            "scores pairs by numbers; use cosent, or leave --objective out"
        )
    notes: list[str] = []
    if form == "labels":
        made = _with_negatives(examples, notes) if ranks else _as_numbers(examples, notes)
    else:
        made = list(examples)
    if objective == "triplet":
        made = _with_some(made, notes)
    if not made:
        raise DataError(
            "no training example says that two texts belong together; is --label the right column?"
        )
    numbers = [cast(float, each.label) for each in made]
    lowest, highest = (min(numbers), max(numbers)) if form == "scores" else (0.0, 1.0)
    if lowest == highest:
        raise DataError(f"all scores are {lowest:g}: there is nothing to train on")
    notes.insert(0, f"{len(made):,} examples to train on, objective {objective}")
    return Trained(objective, made, (lowest, highest), notes)


def _as_numbers(examples: Sequence[SimilarityExample], notes: list[str]) -> list[SimilarityExample]:
    """Return labelled pairs with the label 1 if they belong together and 0 if they do not.

    Neutral pairs are left out.
    """
    made = [
        replace(each, label=float(is_positive(each)))
        for each in examples
        if not (isinstance(each.label, str) and each.label.lower() in NEITHER)
    ]
    if left := len(examples) - len(made):
        notes.append(f"{left:,} neutral pairs are left out")
    return made


def _with_negatives(
    examples: Sequence[SimilarityExample], notes: list[str]
) -> list[SimilarityExample]:
    """Return the positive pairs, each with one hard negative if its first text has any.

    A hard negative of a first text is the second text of a pair that is labelled as not belonging
    together. If a first text has several, its positive pairs take them in turn.
    """
    against: dict[str, list[str]] = {}
    positive = [each for each in examples if is_positive(each)]
    for each in examples:
        is_neutral = isinstance(each.label, str) and each.label.lower() in NEITHER
        if not is_neutral and not is_positive(each):
            against.setdefault(each.text, []).append(each.text2)
    seen: dict[str, int] = {}
    made = []
    for each in positive:
        others = [text for text in against.get(each.text, []) if text != each.text2]
        turn = seen[each.text] = seen.get(each.text, -1) + 1
        hard = (others[turn % len(others)],) if others else ()
        made.append(replace(each, negatives=(*each.negatives, *hard), label=1.0))
    with_one = sum(bool(each.negatives) for each in made)
    notes.append(
        f"{len(made):,} of {len(examples):,} pairs belong together and are trained on, "
        f"{with_one:,} of them with a hard negative of the same text"
    )
    return made


def _with_some(examples: list[SimilarityExample], notes: list[str]) -> list[SimilarityExample]:
    """Return the examples that have hard negatives, which the objective `triplet` needs."""
    made = [each for each in examples if each.negatives]
    if not made:
        raise ConfigError(
            "the objective triplet needs hard negatives, and the training file has none; name "
            "their column with --negatives, or use --objective in-batch"
        )
    if left := len(examples) - len(made):
        notes.append(f"{left:,} pairs without a hard negative are left out")
    return made
