"""What a BERT must beat: simple models on the same files, judged by the same metrics.

| kind | baselines |
|---|---|
| classification | `majority`: the most frequent class; `tfidf`: TF-IDF + logistic regression |
| multi-label | `majority`: the labels that most examples have; `tfidf`, one against the rest |
| regression | `mean`; `tfidf_ridge`: TF-IDF or, for pairs, their overlap + ridge regression |
| tagging | `majority`: each word's most frequent tag; `word_shape`: + logistic regression |
| span | `overlap`: the sentence that shares most TF-IDF weight with the question, or none by a \
threshold tuned on dev, as a model's is; `majority`: no answer, where questions may have none |
| multiple choice | `majority`: the most frequent number; `overlap`: the choice whose TF-IDF is \
nearest to the text's |

But for that threshold all is learned from the training examples alone, in one thread and without
torch. On one core: less than 10 seconds for a file of GLUE or the 203,000 words of CoNLL-2003, half
a minute for the 25,000 reviews of IMDb or the 34,000 Chinese pairs of AFQMC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    SpanExample,
    TaggingExample,
    TextExample,
)
from bertwright.labelled.script import is_mostly_chinese
from bertwright.tasks.predictions import (
    Answer,
    ChoicePrediction,
    NumberPrediction,
    Prediction,
    SpanPrediction,
    TextPrediction,
)
from bertwright.tasks.span_decoding import decide_best
from bertwright.tasks.tagging_baselines import predict_by_shape, predict_most_frequent
from bertwright.tasks.text_baselines import (
    NO_WORDS,
    label_set,
    one_label,
    predict_labels,
    predict_numbers,
)
from bertwright.text.sentences import split_sentences


def baseline_predictions(
    task: TaskConfig,
    train_examples: Sequence[Example],
    dev_examples: Sequence[Example],
    seed: int = 0,
) -> dict[str, list[Prediction]]:
    """The predictions of every baseline of this kind of task for `dev_examples`, in their order.

    Raises `DataError` where there is nothing to learn from, or a label that the task does not have.
    """
    if not train_examples or not dev_examples:
        raise DataError(
            f"{len(train_examples)} training and {len(dev_examples)} development examples; "
            "a baseline needs 1 or more of each"
        )
    _check_labels(task, train_examples)
    train, dev = cast("list[Any]", train_examples), cast("list[Any]", dev_examples)
    found: dict[str, Sequence[Prediction]]
    if task.kind == "classification":
        found = {
            "majority": _majority(task, train, dev),
            "tfidf": predict_labels(task, train, dev, seed),
        }
    elif task.kind == "regression":
        mean = float(np.mean([e.label for e in train]))
        found = {
            "mean": [NumberPrediction(mean)] * len(dev),
            "tfidf_ridge": predict_numbers(train, dev),
        }
    elif task.kind == "tagging":
        found = {
            "majority": predict_most_frequent(task, train, dev),
            "word_shape": predict_by_shape(task, train, dev, seed),
        }
    elif task.kind == "span":
        found = {"majority": [_no_answer() for _ in dev]} if task.unanswerable else {}
        found["overlap"] = _most_overlap(train, dev)
    else:
        found = {"majority": _majority_choice(train, dev), "overlap": _nearest(train, dev)}
    if task.unanswerable:  # no answer by the same rule as of a model
        found = {name: decide_best(dev, cast("list[Any]", p))[0] for name, p in found.items()}
    return {name: list(predictions) for name, predictions in found.items()}


def _check_labels(task: TaskConfig, train: Sequence[Example]) -> None:
    """Every training label must be one of the task's."""
    if task.kind not in ("classification", "tagging"):
        return
    for number, example in enumerate(train, 1):
        held = example.tags if isinstance(example, TaggingExample) else cast(Any, example).label
        for label in (held,) if isinstance(held, str) or held is None else held:
            if label not in task.labels:
                raise DataError(
                    f"training example {number} (line {example.line}): label {label!r} is not one "
                    f"the task has; expected one of {len(task.labels)}, as {task.labels[0]!r}"
                )


def _majority(
    task: TaskConfig, train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[TextPrediction]:
    """The most frequent class, or the labels that half of the examples have, for every one."""
    if task.multi_label:
        counts = Counter(label for e in train for label in cast("tuple[str, ...]", e.label))
    else:
        counts = Counter(cast(str, e.label) for e in train)
    shares = np.array([counts[label] / len(train) for label in task.labels])
    one = label_set(task, shares) if task.multi_label else one_label(task, shares)
    return [one] * len(dev)


def _majority_choice(
    train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]
) -> list[ChoicePrediction]:
    counts = Counter(cast(int, e.label) for e in train)
    found = []
    for example in dev:
        shares = np.array([counts[n] + 1e-9 for n in range(len(example.choices))])
        shares /= shares.sum()
        found.append(ChoicePrediction(int(shares.argmax()), tuple(shares.tolist())))
    return found


def _nearest(
    train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]
) -> list[ChoicePrediction]:
    """The choice with the greatest cosine; scores are cosines that sum to 1."""
    model = _words([text for e in train for text in (f"{e.text} {e.text2}", *e.choices)])
    found = []
    for example in dev:
        near = model.transform([f"{example.text} {example.text2}", *example.choices]).toarray()
        cosines = near[1:] @ near[0] + 1e-9
        cosines /= cosines.sum()
        found.append(ChoicePrediction(int(cosines.argmax()), tuple(cosines.tolist())))
    return found


def _most_overlap(train: Sequence[SpanExample], dev: Sequence[SpanExample]) -> list[SpanPrediction]:
    """The whole sentence with the greatest TF-IDF product with the question."""
    passages = list(dict.fromkeys(e.context for e in train))
    model = _words(passages + [e.question for e in train])
    cut: dict[str, tuple[list[tuple[int, int]], Any]] = {}
    questions = model.transform([e.question for e in dev])
    found = []
    for row, example in enumerate(dev):
        if example.context not in cut:
            places = _sentences(example.context)
            texts = [example.context[start:end] for start, end in places]
            cut[example.context] = (places, model.transform(texts) if texts else None)
        places, weights = cut[example.context]
        if not places:
            found.append(_no_answer())
            continue
        scores = (weights @ questions[[row]].T).toarray().ravel()
        best = int(scores.argmax())
        start, end = places[best]
        score, probability = float(scores[best]), float(scores[best] / max(scores.sum(), 1e-9))
        answer = Answer(example.context[start:end], start, end, score, probability)
        found.append(SpanPrediction(answer.text, start, end, score, -score, (answer,)))
    return found


def _sentences(passage: str) -> list[tuple[int, int]]:
    """Where each sentence is in its passage."""
    places, end = [], 0
    for sentence in split_sentences(passage):
        start = passage.find(sentence, end)
        if start >= 0:
            end = start + len(sentence)
            places.append((start, end))
    return places or ([(0, len(passage))] if passage else [])


def _no_answer() -> SpanPrediction:
    return SpanPrediction("", 0, 0, 0.0, 1.0, ())


def _words(texts: Sequence[str]) -> Any:
    """TF-IDF of words, or of Chinese characters and pairs of them."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [*texts, *NO_WORDS]
    if is_mostly_chinese(texts[:1000]):
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 2)).fit(texts)
    return TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", sublinear_tf=True).fit(texts)
