"""Sentence vectors: losses by their formulas, the gradient of a whole step, forms and metrics."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score, ndcg_score

from bertwright.cpu_threads import own_draws
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import SimilarityExample as Pair
from bertwright.models.bert.encoder import Bert
from bertwright.nn.objective import Learner
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.lexical import bm25_scorer, tfidf_cosines
from bertwright.tasks.predictions import SimilarityPrediction
from bertwright.tasks.similarity.forms import form_of, to_train
from bertwright.tasks.similarity.kind import SimilarityHead, SimilarityInstance, rank_second
from bertwright.tasks.similarity.losses import similarity_loss
from bertwright.tasks.similarity.options import SimilarityOptions, SimilarityTask
from bertwright.tasks.task_data import make_batch
from bertwright.train.distributed import Ranks
from bertwright.train.step_loss import share
from tests.task_files import SHAPE

ALONE = Ranks(0, 1, torch.device("cpu"))
# anchor 0 and 2 are the same text; the second texts of 1 and 3 are the same
ROLES = [0, 1, 2, 0, 1, 0, 1, 2, 0, 1]
EXAMPLE = [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
KEYS = [7, 1, 2, 8, 3, 7, 4, 5, 9, 3]
LABELS = [0.5, 2.0, 0.0, 1.0]


def facts() -> torch.Tensor:
    labels = [LABELS[example] for example in EXAMPLE]
    return torch.tensor([ROLES, KEYS, labels], dtype=torch.float64).T


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(10, 6, generator=torch.Generator().manual_seed(3))


def cosine(x: torch.Tensor, a: int, b: int) -> float:
    return float(F.cosine_similarity(x[a], x[b], dim=0))


def negatives(row: int) -> list[int]:
    """The candidates of an example, its own second text first."""
    anchor, own = [n for n in range(10) if EXAMPLE[n] == row][:2]
    found = [own]
    for n in range(10):
        also_right = ROLES[n] == 1 and KEYS[EXAMPLE.index(EXAMPLE[n])] == KEYS[anchor]
        if ROLES[n] and n != own and KEYS[n] not in (KEYS[own], KEYS[anchor]) and not also_right:
            found.append(n)
    return found


def other_firsts(row: int) -> list[int]:
    """The candidates of the second text of an example, its own first text first."""
    firsts = [0, 3, 5, 8]  # the second text follows each
    anchor = firsts[row]
    key, key2 = KEYS[anchor], KEYS[anchor + 1]
    others = [n for n in firsts if KEYS[n] not in (key, key2) and KEYS[n + 1] != key2]
    return [anchor, *others]


def test_in_batch_is_the_softmax_over_all_other_texts(x: torch.Tensor) -> None:
    config = SimilarityTask(options=SimilarityOptions(temperature=0.3))
    losses, right = similarity_loss(x, facts(), config)
    assert right is not None

    def loss_at_first(scores: list[float]) -> float:
        return math.log(sum(map(math.exp, scores))) - scores[0]

    for row, anchor in enumerate([0, 3, 5, 8]):
        scores = [cosine(x, anchor, n) / 0.3 for n in negatives(row)]
        back = [cosine(x, anchor + 1, n) / 0.3 for n in other_firsts(row)]
        expected = (loss_at_first(scores) + loss_at_first(back)) / 2
        assert float(losses[anchor]) == pytest.approx(expected, abs=1e-5)
        assert bool(right[anchor]) == (max(scores) == scores[0])


def _with(task: SimilarityTask, objective: Any, **options: Any) -> SimilarityTask:
    return replace(task, objective=objective, options=SimilarityOptions(**options))


def test_other_objectives_are_their_formulas(x: torch.Tensor) -> None:
    pairs = [(0, 1), (3, 4), (5, 6), (8, 9)]
    cosines = [cosine(x, a, b) for a, b in pairs]
    config = SimilarityTask()
    losses, _ = similarity_loss(x, facts(), _with(config, "cosent", temperature=0.5))
    gaps = [
        math.exp((cosines[j] - cosines[i]) / 0.5)
        for i, j in product(range(4), repeat=2)
        if LABELS[i] > LABELS[j]
    ]
    assert float(losses.sum()) == pytest.approx(4 * math.log(1 + sum(gaps)), abs=1e-4)
    losses, right = similarity_loss(x, facts(), _with(config, "triplet", margin=0.4))
    gap = 0.4 - cosines[2] + cosine(x, 5, 7)
    assert float(losses[5]) == pytest.approx(max(0.0, gap), abs=1e-5)
    assert right is not None
    assert bool(right[5]) == (gap < 0.4)


def test_sizes_train_the_beginning_of_a_vector(x: torch.Tensor) -> None:
    config = SimilarityTask()
    losses, _ = similarity_loss(
        x, facts(), replace(config, options=SimilarityOptions(sizes=(2, 6)))
    )
    parts = [similarity_loss(x[:, :size], facts(), config).losses for size in (2, 6)]
    assert torch.allclose(losses, (parts[0] + parts[1]) / 2, atol=1e-6)


@pytest.mark.parametrize("objective", ["in-batch", "cosent"])
def test_the_gradient_does_not_depend_on_micro_batches(objective: Any) -> None:
    """With dropout: the masks of the first pass are those of the second."""
    task = SimilarityTask(max_length=16, stride=4, objective=objective, scores=(0.0, 3.0))
    encoder = Bert(replace(SHAPE, hidden_dropout_prob=0.2))
    encoder.reset_parameters(torch.Generator().manual_seed(1))
    learner = Learner(encoder, {"task": SimilarityHead(encoder.spec, task)})
    learner.train()
    instances = [
        SimilarityInstance(n, ((2, 5 + n, 3), (2, 6 + n, 7, 3)), ((0,) * 3, (0,) * 4), float(n))
        for n in range(4)
    ]
    instances = [replace(each, keys=(n, 10 + n)) for n, each in enumerate(instances)]
    rows = [[0, 1], [2], [3]]
    batches = [make_batch("task", task, instances, part) for part in rows]
    head: Any = learner.objectives["task"]

    def gradient(given: list[Any], together: bool) -> tuple[float, torch.Tensor]:
        learner.zero_grad()
        total = 0.0
        if together:
            parts = []
            for number, batch in enumerate(given):
                with own_draws(number):
                    parts.append(learner.step_vectors(batch))
            loss = head.step_loss(
                torch.cat(parts), torch.cat([head.facts(batch) for batch in given])
            ).losses.sum()
            loss.backward()
            total = float(loss.detach())
        else:
            for number, batch in enumerate(given):
                with own_draws(number):
                    loss = learner(batch)["task"].total
                loss.backward()
                total += float(loss.detach())
        return total, torch.cat(
            [p.grad.flatten() for p in encoder.parameters() if p.grad is not None]
        )

    vectors = []
    for number, batch in enumerate(batches):
        with torch.no_grad(), own_draws(number):
            vectors.append(learner.step_vectors(batch))
    shared = share(head, batches, vectors, ALONE)
    total, found = gradient(shared, together=False)
    expected_total, expected = gradient(batches, together=True)
    assert total == pytest.approx(expected_total, rel=1e-5)
    assert torch.allclose(found, expected, atol=1e-6)
    alone, of_each = gradient(batches, together=False)
    assert alone != pytest.approx(total, rel=1e-3)  # without the others it is another loss
    assert not torch.allclose(of_each, expected, atol=1e-3)


def test_forms() -> None:
    assert form_of([Pair("a", "b", label=1.0)]) == "pairs"
    assert form_of([Pair("a", "b", label=1.0), Pair("a", "c", label=0.0)]) == "labels"
    assert form_of([Pair("a", "b", label=n / 2) for n in range(4)]) == "scores"
    assert form_of([Pair("a", "b", label="Entailment")]) == "labels"
    with pytest.raises(DataError, match="'maybe'"):
        form_of([Pair("a", "b", label="maybe")])
    with pytest.raises(DataError, match="0=entailment"):
        form_of([Pair("a", "b", label=float(n)) for n in range(3)])
    for numbers, way in (
        ((1, 2), "1=0 2=1"),
        ((0, 1, 2, 3), "0=0 1=0.33 2=0.67 3=1"),
        ((0, 2), "0=entailment"),
    ):
        pairs = [Pair("a", "b", label=float(n)) for n in numbers]
        with pytest.raises(DataError, match=f"--label-map.*{way}"):
            form_of(pairs)
        assert form_of(pairs, scores=(0.0, 5.0)) == "scores"  # of a model trained on scores
        assert form_of([replace(each, is_score=True) for each in pairs]) == "scores"
    assert form_of([Pair("a", "b", label=float(n)) for n in range(6)]) == "scores"
    with pytest.raises(DataError, match="line 7"):
        form_of([Pair("a", "b", label=1.0), Pair("a", "b", label="yes", line=7)])


def test_contradictions_are_hard_negatives() -> None:
    labels = ["entailment", "neutral", "contradiction", "entailment"]
    rows = [Pair("a", f"b{n}", label=label) for n, label in enumerate(labels)]
    made = to_train([*rows, Pair("c", "d", label="entailment")], None)
    assert made.objective == "in-batch"
    assert [(e.text2, e.negatives) for e in made.examples] == [
        ("b0", ("b2",)),
        ("b3", ("b2",)),
        ("d", ()),
    ]
    made = to_train(rows, "cosent")
    assert [e.label for e in made.examples] == [1.0, 0.0, 1.0]
    assert any("1 neutral" in note for note in made.notes)
    with pytest.raises(ConfigError, match="--negatives"):
        to_train([Pair("a", "b", label=1.0)], "triplet")
    with pytest.raises(ConfigError, match="cosent"):
        to_train([Pair("a", "b", label=1.0)], "cosent")
    with pytest.raises(ConfigError, match="in-batch"):
        to_train([Pair("a", "b", label=n / 2) for n in range(3)], "in-batch")


def scores_of(form: Any, examples: list[Pair], predictions: list[SimilarityPrediction]) -> Any:
    task = SimilarityTask(form=form)
    return evaluate(task, examples, predictions)


def test_labelled_pairs_have_average_precision() -> None:
    gold = [1, 0, 1, 1, 0, 0, 1]
    cosines = [0.9, 0.8, 0.8, 0.3, 0.5, -0.2, 0.85]
    examples = [Pair("a", "b", label=float(n)) for n in gold]
    found = scores_of("labels", examples, [SimilarityPrediction(v) for v in cosines])
    expected = average_precision_score(gold, cosines)
    assert found.metrics["average_precision"] == pytest.approx(expected)
    low, high = found.intervals["average_precision"]
    assert low <= expected <= high
    threshold = found.tuned["threshold"]
    right = np.mean([(v > threshold) == bool(n) for v, n in zip(cosines, gold, strict=True)])
    assert found.metrics["accuracy"] == pytest.approx(right)
    none_is_similar = [Pair("a", "b", label=0.0)] * 3 + [Pair("a", "b", label=1.0)]
    few = [SimilarityPrediction(v) for v in (0.9, 0.8, 0.7, 0.1)]
    assert scores_of("labels", none_is_similar, few).metrics["accuracy"] == 0.75


def test_rounding_errors_are_not_ranked() -> None:
    scores = [5.0, 4.0, 3.0, 1.0]
    examples = [Pair("a", "b", label=score) for score in scores]
    cosines = np.array([1.0, 1.0, 0.2, 0.1])
    noisy = cosines + [-3e-8, 4e-8, 0, 0]
    expected = spearmanr(cosines, scores).statistic
    for each in (cosines, noisy):
        found = scores_of("scores", examples, [SimilarityPrediction(float(v)) for v in each])
        assert found.metrics["spearman"] == pytest.approx(expected)
    pair = [Pair("q", "x", label=1.0)]
    near = np.array([[0.7, 0.7 + 1e-7, 0.7 + 1e-7]], np.float32)
    assert rank_second(pair, ["x", "y", "z"], lambda part: near[part]).tolist() == [2]


def test_pairs_are_a_search() -> None:
    examples = [Pair("q", "x", label=1.0), Pair("q", "y", label=1.0), Pair("r", "z", label=1.0)]
    texts = ["x", "y", "z", "q"]
    scores = np.array([[3, 9, 5, 9], [3, 9, 5, 9], [1, 2, 1, 2]], np.float32)
    # y is right too and q the text itself; of equal texts half count as nearer
    ranks = rank_second(examples, texts, lambda part: scores[part])
    assert ranks.tolist() == [2, 1, 3]
    predictions = [SimilarityPrediction(0.1 * n, n, 0.1 * (2 - n)) for n in (2, 1, 3)]
    found = scores_of("pairs", examples, predictions).metrics
    assert found["mrr"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)
    assert found["recall_at_1"] == pytest.approx(1 / 3)
    truth, shown = np.eye(12)[[1, 0, 2]], np.arange(12, 0, -1)[None].repeat(3, 0)
    assert found["ndcg_at_10"] == pytest.approx(ndcg_score(truth, shown, k=10))
    assert found["triplet_accuracy"] == pytest.approx(1 / 3)


def test_shared_words() -> None:
    cosines = tfidf_cosines(["a big cat", "..."], ["a big cat", "a dog"])
    assert cosines.tolist() == pytest.approx([1, 0], abs=1e-6)
    documents = ["the cat sat", "the dog sat on the mat today", "the bird"]
    (scores,) = bm25_scorer(documents)(["cat of the neighbour"])
    idf = math.log(1 + (3 - 1 + 0.5) / 1.5), math.log(1 + (3 - 3 + 0.5) / 3.5)
    mean = (3 + 7 + 2) / 3
    norm = 1.2 * (0.25 + 0.75 * 3 / mean)
    assert scores[0] == pytest.approx(sum(idf) * 2.2 / (1 + norm), rel=1e-4)
    assert scores.argmax() == 0
