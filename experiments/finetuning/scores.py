"""Metrics by others, one code for both sides: scikit-learn, scipy, seqeval, SQuAD's own rules."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence


def classification_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Accuracy, F1 of class 1, Matthews correlation."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    return {
        "accuracy": float(accuracy_score(gold, predicted)),
        "f1": float(f1_score(gold, predicted, pos_label="1")),
        "matthews": float(matthews_corrcoef(gold, predicted)),
    }


def regression_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation."""
    from scipy.stats import pearsonr, spearmanr

    return {
        "pearson": float(pearsonr(gold, predicted)[0]),
        "spearman": float(spearmanr(gold, predicted)[0]),
    }


def tagging_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Entity precision, recall and F1, as seqeval (and conlleval) count."""
    from seqeval.metrics import f1_score, precision_score, recall_score

    return {
        "precision": float(precision_score(gold, predicted)),
        "recall": float(recall_score(gold, predicted)),
        "f1": float(f1_score(gold, predicted)),
    }


def normalize_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single blanks (evaluate-v1.1.py)."""
    kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def answer_f1(predicted: str, gold: str) -> float:
    """F1 of shared words (evaluate-v1.1.py)."""
    ours, theirs = normalize_answer(predicted).split(), normalize_answer(gold).split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def span_scores(
    gold: Mapping[str, Sequence[str]], predicted: Mapping[str, str]
) -> dict[str, float]:
    """Exact match and F1 of SQuAD 1.1, from 0 to 1: the best over the accepted answers."""
    exact = [
        max(normalize_answer(predicted[i]) == normalize_answer(a) for a in answers)
        for i, answers in gold.items()
    ]
    f1 = [max(answer_f1(predicted[i], a) for a in answers) for i, answers in gold.items()]
    return {"exact_match": sum(exact) / len(exact), "f1": sum(f1) / len(f1)}
