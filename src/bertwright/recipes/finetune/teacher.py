"""Learn sentence vectors from another model: from its vectors, or from its scores of pairs.

- A model of vectors encodes each text of the training file, and the objective `teacher` learns
  these vectors (Reimers and Gurevych 2020, "Making Monolingual Sentence Embeddings Multilingual
  using Knowledge Distillation"). If they have another width than the student's, the objective
  learns the similarities between the texts of a step.
- A model that was fine-tuned on pairs, for regression or classification, or a cross-encoder,
  predicts a score for each pair, which becomes its label (Thakur et al. 2021, "Augmented SBERT").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from bertwright.config.task import TaskConfig
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, usual_prompt
from bertwright.errors import ConfigError
from bertwright.inference.model import Model, load
from bertwright.labelled.examples import SimilarityExample
from bertwright.tasks.predictions import NumberPrediction, TextPrediction
from bertwright.tasks.similarity.forms import POSITIVE
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask


def teach(
    examples: Sequence[SimilarityExample], teacher: str, device: str, say: Callable[[str], None]
) -> tuple[list[SimilarityExample], bool]:
    """Return the training examples with the vectors or scores that the teacher computes for them.

    Args:
        teacher: a run, a folder of a model, or `hf:ORG/NAME`.
        device: the device of the teacher; `auto` chooses one.

    Returns:
        The examples, and whether they have vectors (`targets`); otherwise they have scores.
    """
    model = load(teacher, device)
    name = next((n for n, task in model.tasks.items() if _scores_pairs(model, task)), None)
    if name is not None and isinstance(model.tasks[name], ClassificationTask | RegressionTask):
        say(f"the teacher {teacher} scores {len(examples):,} pairs")
        return _with_scores(examples, model, name), False
    if model.tasks and not model.says_vectors:
        kinds = ", ".join(task.kind for task in model.tasks.values())
        raise ConfigError(
            f"the teacher {teacher} was fine-tuned for {kinds}; expected a model of vectors, or "
            "one of regression or classification of pairs"
        )
    say(f"the teacher {teacher} encodes the texts of {len(examples):,} training examples")
    return _with_vectors(examples, model), True


def _scores_pairs(model: Model, task: TaskConfig) -> bool:
    """Return whether a head was trained on pairs, or is that of a cross-encoder."""
    sigmoid = isinstance(task, RegressionTask) and task.activation == "sigmoid"
    cross_encoder = model.is_cross_encoder or sigmoid
    return task.text2_column is not None or cross_encoder


def _with_scores(
    examples: Sequence[SimilarityExample], model: Model, name: str
) -> list[SimilarityExample]:
    task = model.tasks[name]
    predictions = model.predict([(each.text, each.text2) for each in examples], task=name)
    return [
        replace(example, label=_score(prediction, task), negatives=())
        for example, prediction in zip(examples, predictions, strict=True)
    ]


def _score(prediction: object, task: TaskConfig) -> float:
    """Return the similarity of two texts that a teacher predicts."""
    if isinstance(prediction, NumberPrediction):
        return prediction.value
    scores = cast(TextPrediction, prediction).scores
    positive = [label for label in task.labels if label.lower() in POSITIVE]
    several = isinstance(task, ClassificationTask) and task.options.multi_label
    if several or len(positive) != 1:
        raise ConfigError(
            f"the teacher has the labels {', '.join(task.labels)}; expected one of them to say "
            "that two texts belong together, as 1, entailment or duplicate"
        )
    return scores[positive[0]]


def _with_vectors(examples: Sequence[SimilarityExample], model: Model) -> list[SimilarityExample]:
    embedder = model.embedder()
    first = list(dict.fromkeys(each.text for each in examples))
    others = list(dict.fromkeys(t for each in examples for t in (each.text2, *each.negatives)))
    prompts = (usual_prompt(model.prompts, names) for names in (OF_QUERIES, OF_DOCUMENTS))
    of_first, of_others = (
        dict(zip(texts, embedder.embed(texts, prompt=prompt), strict=True))
        for texts, prompt in zip((first, others), prompts, strict=True)
    )
    return [
        replace(
            each,
            targets=(of_first[each.text], *(of_others[t] for t in (each.text2, *each.negatives))),
        )
        for each in examples
    ]
