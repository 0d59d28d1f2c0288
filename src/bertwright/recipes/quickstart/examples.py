"""Held-out texts for the page of a quickstart, drawn by lot before the model is asked.

Blanks: a word of four letters or more that is one token and none of the hundred most frequent.
Pairs: a sentence with the next of its module, or with one of another module. Neighbours: queries of
`quickstart_evaluation.nearest_sentences`. None is drawn again because its answer was not nice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bertwright.inference.model import Model
from bertwright.recipes.quickstart.evaluation import Nearest, Sentence

NOTE = (
    "Held-out sentences, drawn by lot before the model was asked; none was drawn again because its "
    "answer was not nice. What is right is in colour."
)


def blanks(model: Model, sentences: Sequence[Sentence], count: int = 8, seed: int = 0) -> list[Any]:
    """Sentences with one word hidden, and the five likeliest tokens for it."""
    chance = np.random.default_rng(seed)
    tokenizer = model.tokenizer
    words = Counter(w for s in sentences for w in s.text.lower().split())
    frequent = {word for word, _ in words.most_common(100)}
    found: list[Any] = []
    for place in chance.permutation(len(sentences)):
        sentence = sentences[place]
        if len(found) == count:
            break
        if not 8 <= len(sentence.text.split()) <= 24:
            continue
        encoding = tokenizer.encode(sentence.text)
        owners = Counter(encoding.word_ids)
        fitting = [
            number
            for number, (token, word) in enumerate(
                zip(encoding.tokens, encoding.word_ids, strict=True)
            )
            if word is not None
            and owners[word] == 1
            and len(token) >= 4
            and token.isalpha()
            and token not in frequent
        ]
        if not fitting:
            continue
        number = int(chance.choice(fitting))
        start, stop = encoding.offsets[number]
        text = f"{sentence.text[:start]}[MASK]{sentence.text[stop:]}"
        (top,) = model.fill(text, 5)
        found.append(
            {
                "text": text,
                "truth": encoding.tokens[number],
                "module": sentence.module,
                "top": [{"token": token, "probability": p} for token, p in top],
            }
        )
    return found


def pairs(model: Model, sentences: Sequence[Sentence], count: int = 6, seed: int = 0) -> list[Any]:
    """Pairs that follow and pairs that do not, half each, and the probability that they do."""
    chance = np.random.default_rng(seed)
    fitting = [
        number
        for number, (first, second) in enumerate(pairwise(sentences))
        if first.document == second.document
        and all(8 <= len(each.text.split()) <= 30 for each in (first, second))
    ]
    found: list[Any] = []
    for number in chance.permutation(fitting)[:count].tolist():
        follows = len(found) % 2 == 0
        first = sentences[number]
        second = sentences[number + 1] if follows else _elsewhere(sentences, fitting, first, chance)
        probability = model.next_sentence(first.text, second.text)
        found.append(
            {
                "first": first.text,
                "second": second.text,
                "follows": follows,
                "probability": probability,
            }
        )
    return found


def neighbours(nearest: Nearest, count: int = 6, seed: int = 0) -> list[Any]:
    """Queries with the nearest other sentence by vectors and by words."""

    def shown(number: int) -> dict[str, str]:
        return {"text": nearest.sentences[number].text, "module": nearest.sentences[number].module}

    lot = np.random.default_rng(seed).permutation(len(nearest.sentences))[:count].tolist()
    return [
        {
            "query": nearest.sentences[number].text,
            "module": nearest.sentences[number].module,
            "bert": shown(int(nearest.bert[number])),
            "tfidf": shown(int(nearest.tfidf[number])),
        }
        for number in lot
    ]


def comparison(
    masked: Mapping[str, Any], pair: Mapping[str, Any], near: Mapping[str, Any], seen: float
) -> list[dict[str, Any]]:
    """The figures of `quickstart_evaluation` as rows of the page."""
    module, package = near["same_module"], near["same_package"]
    return [
        {
            "task": "Masked tokens",
            "measure": "share of hidden tokens named right",
            "count": masked["predictions"],
            "figures": {
                "BERT": masked["bert"],
                "the token most often seen behind the left neighbour": masked["bigram_table"],
                f"the most frequent token ({masked['token']!r})": masked["most_frequent_token"],
            },
            "note": "The table of neighbours is always shown the true token on the left; "
            f"BERT's may be hidden. {seen:.1%} of the held-out sentences also stand word for word "
            "in a training module.",
        },
        {
            "task": "Next sentences",
            "measure": "share of pairs judged right: does B follow A, or is it from another module",
            "count": pair["pairs"],
            "figures": {
                "BERT": pair["bert"],
                "TF-IDF cosine of A and B, threshold learned": pair["tfidf"],
                "the more frequent answer": pair["more_frequent_answer"],
            },
        },
        {
            "task": "Nearest sentences",
            "measure": "share of sentences whose nearest other is from the same module",
            "count": near["sentences"],
            "figures": {
                "BERT, mean of token vectors": module["bert"],
                "TF-IDF": module["tfidf"],
                "chance": module["chance"],
            },
            "note": f"From the same package: BERT {package['bert']:.1%}, "
            f"TF-IDF {package['tfidf']:.1%}, chance {package['chance']:.1%}.",
        },
    ]


def _elsewhere(
    sentences: Sequence[Sentence], fitting: Sequence[int], first: Sentence, chance: Any
) -> Sentence:
    """A sentence of another module (of any, where there is one module only)."""
    others = [sentences[n + 1] for n in fitting if sentences[n].document != first.document]
    return others[int(chance.integers(len(others)))] if others else first
