"""What a BERT must beat: simple models on the same files, evaluated by the same metrics.

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
| generation | `nearest`: the target of the training source whose TF-IDF is nearest |

Texts: TF-IDF of words and of pairs of neighbouring words, with 1 + log of the counts (Wang and
Manning, "Baselines and Bigrams", ACL 2012); of characters, one to three, where texts are mostly
Chinese. Features of a pair: those of each text, their absolute difference and their product, and
how much the two overlap (cosines, shared words, lengths, numbers).

Words: the word, its shape ("Xxxx", "dddd"), its first and last letters, and the words and shapes of
two neighbours on each side: the features of feature-based taggers without their word lists (Ratinov
and Roth, CoNLL 2009). Each word is tagged by itself. A word that the training set does not have is
"O" for `majority`, or has the most frequent tag where there is no "O".

But for that threshold all is trained on the training examples alone, in one thread and without
torch. On one core: less than 10 seconds for a file of GLUE or the 203,000 words of CoNLL-2003, half
a minute for the 25,000 reviews of IMDb or the 34,000 Chinese pairs of AFQMC.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np

from bertwright.arrays import Float64s
from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import (
    ChoiceExample,
    Example,
    GenerationExample,
    SpanExample,
    TaggingExample,
    TextExample,
    is_mostly_chinese,
)
from bertwright.tasks.predictions import (
    Answer,
    ChoicePrediction,
    GenerationPrediction,
    NumberPrediction,
    Prediction,
    SpanPrediction,
    TaggingPrediction,
    TextPrediction,
)
from bertwright.tasks.span import decide_best
from bertwright.tasks.tagging import decode_tagging
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
    elif task.kind == "generation":
        found = {"nearest": _nearest_target(train, dev)}
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
    fractions = np.array([counts[label] / len(train) for label in task.labels])
    one = label_set(task, fractions) if task.multi_label else one_label(task, fractions)
    return [one] * len(dev)


def _majority_choice(
    train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]
) -> list[ChoicePrediction]:
    counts = Counter(cast(int, e.label) for e in train)
    found = []
    for example in dev:
        fractions = np.array([counts[n] + 1e-9 for n in range(len(example.choices))])
        fractions /= fractions.sum()
        found.append(ChoicePrediction(int(fractions.argmax()), tuple(fractions.tolist())))
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


def _nearest_target(
    train: Sequence[GenerationExample], dev: Sequence[GenerationExample]
) -> list[GenerationPrediction]:
    """The target of the source with the greatest cosine."""
    model = _words([example.source for example in train])
    known = model.transform([example.source for example in train])
    asked = model.transform([example.source for example in dev])
    best = [int((known @ row.T).toarray().argmax()) for row in asked]
    return [GenerationPrediction(cast(str, train[number].target)) for number in best]


def _most_overlap(train: Sequence[SpanExample], dev: Sequence[SpanExample]) -> list[SpanPrediction]:
    """The whole sentence with the greatest TF-IDF product with the question."""
    passages = list(dict.fromkeys(e.context for e in train))
    model = _words(passages + [e.question for e in train])
    known: dict[str, tuple[list[tuple[int, int]], Any]] = {}
    questions = model.transform([e.question for e in dev])
    found = []
    for row, example in enumerate(dev):
        if example.context not in known:
            spans = _sentences(example.context)
            texts = [example.context[start:end] for start, end in spans]
            known[example.context] = (spans, model.transform(texts) if texts else None)
        spans, weights = known[example.context]
        if not spans:
            found.append(_no_answer())
            continue
        scores = (weights @ questions[[row]].T).toarray().ravel()
        best = int(scores.argmax())
        start, end = spans[best]
        score, probability = float(scores[best]), float(scores[best] / max(scores.sum(), 1e-9))
        answer = Answer(example.context[start:end], start, end, score, probability)
        found.append(SpanPrediction(answer.text, start, end, score, -score, (answer,)))
    return found


def _sentences(passage: str) -> list[tuple[int, int]]:
    """Where each sentence is in its passage."""
    spans, end = [], 0
    for sentence in split_sentences(passage):
        start = passage.find(sentence, end)
        if start >= 0:
            end = start + len(sentence)
            spans.append((start, end))
    return spans or ([(0, len(passage))] if passage else [])


def _no_answer() -> SpanPrediction:
    return SpanPrediction("", 0, 0, 0.0, 1.0, ())


def _words(texts: Sequence[str]) -> Any:
    """TF-IDF of words, or of Chinese characters and pairs of them."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [*texts, *NO_WORDS]
    if is_mostly_chinese(texts[:1000]):
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 2)).fit(texts)
    return TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", sublinear_tf=True).fit(texts)


_FEATURES = 2**20
_UPDATES = 1_000_000
"""Words seen in training, at least; 20 passes at most."""


def predict_most_frequent(
    task: TaskConfig, train: Sequence[TaggingExample], dev: Sequence[TaggingExample]
) -> list[TaggingPrediction]:
    """Each word's most frequent tag; its score is the fraction of its occurrences."""
    numbers = {label: number for number, label in enumerate(task.labels)}
    counts: dict[str, Counter[int]] = {}
    every: Counter[int] = Counter()
    for example in train:
        for word, tag in zip(example.words, cast("tuple[str, ...]", example.tags), strict=True):
            counts.setdefault(word, Counter())[numbers[tag]] += 1
            every[numbers[tag]] += 1
    otherwise = Counter({numbers["O"]: 1}) if "O" in numbers else every
    found = []
    for example in dev:
        fractions = np.zeros((len(example.words), len(task.labels)))
        for row, word in enumerate(example.words):
            for number, times in counts.get(word, otherwise).items():
                fractions[row, number] = times
        fractions /= fractions.sum(axis=1, keepdims=True)
        found.append(decode_tagging(task, example, fractions, fractions.argmax(axis=1)))
    return found


def predict_by_shape(
    task: TaskConfig, train: Sequence[TaggingExample], dev: Sequence[TaggingExample], seed: int
) -> list[TaggingPrediction]:
    """Tags by logistic regression on each word, its shape and its neighbours."""
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(_FEATURES, input_type="string", alternate_sign=False)
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[tag] for e in train for tag in cast("tuple[str, ...]", e.tags)])
    known = np.unique(gold)
    words = sum(len(e.words) for e in dev)
    probabilities = np.zeros((words, len(task.labels)))
    if len(known) == 1:
        probabilities[:, known] = 1
    elif words:
        passes = max(3, min(20, -(-_UPDATES // len(gold))))
        model = SGDClassifier(
            loss="log_loss", alpha=1e-6, max_iter=passes, tol=None, average=True, random_state=seed
        )
        model.fit(hasher.transform(_all_features(train)), gold)
        probabilities[:, known] = model.predict_proba(hasher.transform(_all_features(dev)))
    found, start = [], 0
    for example in dev:
        here: Float64s = probabilities[start : start + len(example.words)]
        start += len(example.words)
        found.append(decode_tagging(task, example, here, here.argmax(axis=1)))
    return found


def shape(word: str) -> str:
    """ "Xx" of "Brussels", "X.X." of "U.S.", "d-x" of "3-year": runs of a kind as one letter."""
    return "".join(letter for letter, _ in groupby(map(_kind, word)))


def _kind(character: str) -> str:
    if character.isupper():
        return "X"
    if character.isalpha():
        return "x"
    return "d" if character.isdigit() else character


def _all_features(examples: Sequence[TaggingExample]) -> Iterator[list[str]]:
    """Names of the features that each word of all examples has."""
    known: dict[str, list[str]] = {}  # a word's own features are made once
    for example in examples:
        shapes = ["", "", *map(shape, example.words), "", ""]
        lower = ["<", "<", *(w.lower() for w in example.words), ">", ">"]
        for number, word in enumerate(example.words):
            if word not in known:
                known[word] = _own_features(word)
            near = [f"{d}{lower[number + 2 + d]}" for d in (-2, -1, 1, 2)]
            near += [f"s{d}{shapes[number + 2 + d]}" for d in (-1, 1)]
            near.append(f"l{shapes[number + 1]} {shapes[number + 2]} {shapes[number + 3]}")
            yield known[word] + near


def _own_features(word: str) -> list[str]:
    lower = word.lower()
    ends = [f"p{lower[:n]}" for n in (1, 2, 3, 4)] + [f"e{lower[-n:]}" for n in (1, 2, 3, 4)]
    return ["b", f"w{word}", f"0{lower}", f"s{shape(word)}", f"n{min(len(word), 12)}", *ends]


STRENGTHS = (0.3, 1.0, 10.0)
"""C of logistic regression, the best of which is found on a fifth of the training set held out."""

ENOUGH_TO_CHOOSE = 200
"""Examples; with fewer the largest C is taken, which suits small sets."""

NO_WORDS = ("...", "...")
"""Added to what TF-IDF is fitted on: it refuses texts without a single word."""

_NUMBERS = re.compile(r"\d+")


def predict_labels(
    task: TaskConfig, train: Sequence[TextExample], dev: Sequence[TextExample], seed: int
) -> list[TextPrediction]:
    """Classes or label sets of `dev` by TF-IDF and logistic regression learned on `train`."""
    x, x_dev = _features(train, dev)
    if task.multi_label:
        held = np.array([[label in cast(Any, e.label) for label in task.labels] for e in train])
        columns = [_probabilities(x, column, x_dev, seed)[:, -1] for column in held.T]
        return [label_set(task, row) for row in np.stack(columns, axis=1)]
    numbers = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([numbers[cast(str, e.label)] for e in train])
    found = np.zeros((len(dev), len(task.labels)))
    found[:, np.unique(gold)] = _probabilities(x, gold, x_dev, seed, single=True)
    return [one_label(task, row) for row in found]


def predict_numbers(
    train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[NumberPrediction]:
    """Numbers of `dev` by ridge regression learned on `train`, within the range of the latter."""
    from sklearn.linear_model import Ridge

    x, x_dev = overlaps(train, dev) if is_of_pairs(train) else _features(train, dev)
    gold = np.array([cast(float, e.label) for e in train], dtype=np.float64)
    predicted = Ridge(alpha=1.0).fit(x, gold).predict(x_dev)
    return [NumberPrediction(v) for v in np.clip(predicted, gold.min(), gold.max()).tolist()]


def one_label(task: TaskConfig, scores: Float64s) -> TextPrediction:
    """The likeliest class of scores [C]."""
    named = dict(zip(task.labels, scores.tolist(), strict=True))
    return TextPrediction(task.labels[int(scores.argmax())], named)


def label_set(task: TaskConfig, scores: Float64s) -> TextPrediction:
    """The labels whose probability is 0.5 or more, of scores [C]."""
    named = dict(zip(task.labels, scores.tolist(), strict=True))
    return TextPrediction(tuple(label for label, p in named.items() if p >= 0.5), named)


def _probabilities(x: Any, gold: Any, x_dev: Any, seed: int, single: bool = False) -> Float64s:
    """Probability of each class that `gold` has, [E, classes]; certain where it has one only."""
    known, numbers = np.unique(gold, return_counts=True)
    if len(known) == 1:
        return np.full((x_dev.shape[0], 1), 1.0 if single else float(known[0]))
    strength = STRENGTHS[-1]
    if len(gold) >= ENOUGH_TO_CHOOSE and numbers.min() > 1:
        order = np.random.default_rng(seed).permutation(len(gold))
        held, rest = order[: len(gold) // 5], order[len(gold) // 5 :]
        if len(np.unique(gold[rest])) == len(known):
            found = [_model(s, known, seed).fit(x[rest], gold[rest]) for s in STRENGTHS]
            strength = STRENGTHS[int(np.argmax([m.score(x[held], gold[held]) for m in found]))]
    probabilities: Float64s = _model(strength, known, seed).fit(x, gold).predict_proba(x_dev)
    return probabilities


def _model(strength: float, known: Any, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    solver = "liblinear" if len(known) == 2 else "lbfgs"
    return LogisticRegression(C=strength, solver=solver, max_iter=200, tol=1e-3, random_state=seed)


def _vectorizer(texts: Sequence[str]) -> Any:
    """TF-IDF fitted on `texts`: of words and pairs of words, or of Chinese characters."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    # what is seen once says little and is most of all; a small file has little else
    rarest = 2 if len(texts) > 1000 else 1
    settings: dict[str, Any] = {"sublinear_tf": True, "min_df": rarest}
    texts = [*texts, *NO_WORDS]
    if is_mostly_chinese(texts[:1000]):
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), **settings).fit(texts)
    pattern = r"\w+|[^\w\s]"
    return TfidfVectorizer(token_pattern=pattern, ngram_range=(1, 2), **settings).fit(texts)


def _features(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Any, Any]:
    """Sparse features of both, [E, F] each."""
    from scipy.sparse import csr_matrix, hstack

    words = _vectorizer(_texts(train))
    if not is_of_pairs(train):
        return words.transform([e.text for e in train]), words.transform([e.text for e in dev])
    found = []
    for side, overlap in zip((train, dev), overlaps(train, dev), strict=True):
        x = words.transform([e.text for e in side])
        y = words.transform([e.text2 or "" for e in side])
        found.append(hstack([x, y, abs(x - y), x.multiply(y), csr_matrix(overlap)]).tocsr())
    return found[0], found[1]


def is_of_pairs(examples: Sequence[TextExample]) -> bool:
    """Whether any example has a second text."""
    return any(e.text2 is not None for e in examples)


def _texts(examples: Sequence[TextExample]) -> list[str]:
    """All texts, first and second."""
    return [e.text for e in examples] + [e.text2 for e in examples if e.text2 is not None]


def overlaps(train: Sequence[TextExample], dev: Sequence[TextExample]) -> tuple[Float64s, Float64s]:
    """How much the two texts of each pair share, [E, 7] each, scaled by what `train` has.

    Cosines of words and of runs of three characters (both TF-IDF of `train`), the fraction of
    each text's words that the other has, the ratio and the difference of lengths, and whether the
    same numbers are in both.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import StandardScaler

    texts = _texts(train)
    words = _vectorizer(texts)
    size = (1, 3) if is_mostly_chinese(texts[:1000]) else (3, 3)
    runs = TfidfVectorizer(analyzer="char", ngram_range=size, sublinear_tf=True).fit(
        [*texts, *NO_WORDS]
    )
    found = []
    for side in (train, dev):
        first, second = [e.text for e in side], [e.text2 or "" for e in side]
        columns = []
        for model in (words, runs):
            columns.append(_row_dot(model.transform(first), model.transform(second)))
        here, there = (words.transform(each).sign() for each in (first, second))
        both = _row_dot(here, there)
        columns += [both / np.maximum(1, _row_dot(x, x)) for x in (here, there)]
        lengths = np.array([[len(a), len(b)] for a, b in zip(first, second, strict=True)]) + 1.0
        columns += [np.log(lengths[:, 0] / lengths[:, 1]), np.log1p(abs(lengths @ [1, -1]))]
        pairs = zip(first, second, strict=True)
        same = [set(_NUMBERS.findall(a)) == set(_NUMBERS.findall(b)) for a, b in pairs]
        columns.append(np.array(same, dtype=np.float64))
        found.append(np.stack(columns, axis=1))
    scale = StandardScaler().fit(found[0])
    return scale.transform(found[0]), scale.transform(found[1])


def _row_dot(x: Any, y: Any) -> Float64s:
    """The product of each row of x with the same row of y."""
    return np.asarray(x.multiply(y).sum(axis=1), dtype=np.float64).ravel()
