"""What a quickstart's model is worth on held-out modules: figures beside baselines, and examples.

Masked tokens: the fraction of masked positions whose token is predicted, beside predicting the most
frequent token, or the one most often seen behind the left neighbour (a bigram table of the training
text; it is shown the true neighbour, masked or not).
Next sentences: the fraction of pairs predicted right, beside the more frequent answer and the
TF-IDF cosine of the two halves with the threshold that is best on training pairs.
Nearest sentences: the fraction of queries whose nearest other sentence, by the cosine of
mean-pooled vectors, is from the same module; beside TF-IDF fitted on the very sentences searched,
and chance.
Examples for the page: blanks (a word of four letters or more that is one token and none of the
hundred most frequent), pairs (a sentence with the next of its module, or with one of another
module) and queries with their nearest sentences. They are drawn at random before the model is run;
none is drawn again because its result was not nice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from bertwright.arrays import Float32s, Int64s
from bertwright.config.bert_run import BertRun
from bertwright.data.epoch_loader import EpochLoader
from bertwright.data.masked_pairs import MaskedBatch, held_out_pairs
from bertwright.data.shards import Shards, open_shards
from bertwright.data.split import Split, split_documents
from bertwright.data.to_device import to_device
from bertwright.errors import DataError
from bertwright.inference.model import Model
from bertwright.recipes.quickstart.run import Paths, read_modules

MASKED_TOKENS = 1 << 15  # tokens of the sequences that are predicted
PAIRS = 600
SENTENCES = 1500
COUNTED_TOKENS = 8_000_000
WORDS = (7, 40)  # words of a sentence that is searched for
NOTE = (
    "Held-out sentences, drawn at random before the model was run; none was drawn again because "
    "its result was not nice. What is right is in colour."
)


@dataclass(frozen=True)
class Sentence:
    """A held-out sentence and where it is from."""

    text: str
    module: str
    package: str
    document: int


@dataclass(frozen=True)
class Nearest:
    """The nearest other sentence of each, as indices; by vectors and by words."""

    sentences: list[Sentence]
    bert: Int64s
    tfidf: Int64s


def evaluate(model: Model, paths: Paths, config: BertRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures by name, and `examples.json`: what the page shows of them."""
    masked = masked_tokens(model, config)
    paired = next_sentences(model, config)
    sentences, seen = held_out(paths, config)
    near, nearest = nearest_sentences(model, sentences)
    found = {
        "baselines": {
            "masked_lm.accuracy": masked["most_frequent_token"],
            "next_sentence.accuracy": paired["more_frequent_answer"],
        },
        "comparison": comparison(masked, paired, near, seen),
        "blanks": blanks(model, sentences),
        "pairs": pairs(model, sentences),
        "neighbours": neighbours(nearest),
        "note": NOTE,
    }
    masked["sentences_seen_in_training"] = seen
    figures = {"masked_tokens": masked, "next_sentences": paired, "nearest_sentences": near}
    return figures, found


def held_out(paths: Paths, config: BertRun) -> tuple[list[Sentence], float]:
    """All sentences of the modules that were held out, in order; and the fraction of them that
    occur word for word in a training module too."""
    found: list[Sentence] = []
    trained_on: set[str] = set()
    for entry, sentences, is_held_out in read_modules(paths, config.validation.share):
        if is_held_out:
            origin = entry["module"], entry["package"], entry["document"]
            found.extend(Sentence(sentence, *origin) for sentence in sentences)
        else:
            trained_on.update(sentences)
    seen = sum(sentence.text in trained_on for sentence in found)
    return found, seen / max(1, len(found))


def masked_tokens(model: Model, config: BertRun) -> dict[str, Any]:
    """Accuracy at the masked positions of held-out sequences, and of the two tables."""
    shards = open_shards(config.data)
    most_frequent, behind = _tables(shards, config)
    right = np.zeros(3, np.int64)
    count, loss = 0, 0.0
    for batch in _batches(shards, config, "dev", MASKED_TOKENS):
        truth = batch.masked_labels
        whole = batch.restored().inputs.ids
        losses = _losses(model, batch)["masked_lm"]
        count += len(truth)
        loss += float(losses.total)
        right += [
            int(losses.correct),
            int((truth == most_frequent).sum()),
            int((truth == behind[whole[batch.masked_positions - 1]]).sum()),
        ]
    return {
        "predictions": count,
        "bert": float(right[0] / count),
        "most_frequent_token": float(right[1] / count),
        "token": model.tokenizer.tokens_of([most_frequent])[0],
        "bigram_table": float(right[2] / count),
        "loss": loss / count,
    }


def next_sentences(model: Model, config: BertRun) -> dict[str, Any]:
    """Accuracy on held-out pairs with nothing masked, and of TF-IDF on the same pairs."""
    shards = open_shards(config.data)
    labels: dict[Split, list[int]] = {"train": [], "dev": []}
    halves: dict[Split, list[tuple[str, str]]] = {"train": [], "dev": []}
    right = 0
    for split in labels:
        for batch in _batches(shards, config, split, PAIRS * config.instances.sequence_length):
            whole = batch.restored()
            assert whole.next_sentence_labels is not None
            labels[split] += whole.next_sentence_labels.tolist()
            halves[split] += _halves(whole)
            if split == "dev":
                right += int(_losses(model, whole)["next_sentence"].correct)
    train, dev = _cosines(halves["train"], halves["dev"])
    threshold = _best_threshold(train, np.array(labels["train"]))
    is_random = np.array(labels["dev"]) == 1
    return {
        "pairs": len(is_random),
        "bert": right / len(is_random),
        "more_frequent_answer": float(max(is_random.mean(), 1 - is_random.mean())),
        "tfidf": float(((dev < threshold) == is_random).mean()),
    }


def nearest_sentences(
    model: Model, sentences: Sequence[Sentence], seed: int = 0
) -> tuple[dict[str, Any], Nearest]:
    """How often the nearest of up to `SENTENCES` held-out sentences is from the same module."""
    fitting = [s for s in sentences if WORDS[0] <= len(s.text.split()) <= WORDS[1]]
    if len(fitting) < 2:
        raise DataError(
            f"only {len(fitting)} held-out sentences to search: the corpus is too small"
        )
    drawn = np.random.default_rng(seed).permutation(len(fitting))[:SENTENCES]
    chosen = [fitting[index] for index in np.sort(drawn)]
    texts = [sentence.text for sentence in chosen]
    vectors = model.embed(texts)
    vectors -= vectors.mean(axis=0)  # what all sentences have in common tells none apart
    dense: Float32s = normalize(vectors)
    words = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    nearest = Nearest(chosen, _other(dense @ dense.T), _other((words @ words.T).toarray()))
    return {
        "sentences": len(chosen),
        "same_module": _same(nearest, lambda s: s.module),
        "same_package": _same(nearest, lambda s: s.package),
    }, nearest


def comparison(
    masked: Mapping[str, Any], paired: Mapping[str, Any], near: Mapping[str, Any], seen: float
) -> list[dict[str, Any]]:
    """The figures as rows of the page."""
    module, package = near["same_module"], near["same_package"]
    return [
        {
            "task": "Masked tokens",
            "measure": "fraction of hidden tokens predicted",
            "count": masked["predictions"],
            "figures": {
                "BERT": masked["bert"],
                "the token most often seen behind the left neighbour": masked["bigram_table"],
                f"the most frequent token ({masked['token']!r})": masked["most_frequent_token"],
            },
            "note": "The table of neighbours is always shown the true token on the left; "
            f"BERT's may be hidden. {seen:.1%} of the held-out sentences also occur word for word "
            "in a training module.",
        },
        {
            "task": "Next sentences",
            "measure": "fraction of pairs predicted: does B follow A, or is it from another module",
            "count": paired["pairs"],
            "figures": {
                "BERT": paired["bert"],
                "TF-IDF cosine of A and B, threshold trained": paired["tfidf"],
                "the more frequent answer": paired["more_frequent_answer"],
            },
        },
        {
            "task": "Nearest sentences",
            "measure": "fraction of sentences whose nearest other is from the same module",
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


def blanks(model: Model, sentences: Sequence[Sentence], count: int = 8, seed: int = 0) -> list[Any]:
    """Sentences with one word hidden, and the five likeliest tokens for it."""
    generator = np.random.default_rng(seed)
    words = Counter(w for s in sentences for w in s.text.lower().split())
    frequent = {word for word, _ in words.most_common(100)}
    found: list[Any] = []
    for index in generator.permutation(len(sentences)):
        sentence = sentences[index]
        if len(found) == count:
            break
        if not 8 <= len(sentence.text.split()) <= 24:
            continue
        encoding = model.tokenizer.encode(sentence.text)
        tokens_of = Counter(encoding.word_ids)
        tokens = zip(encoding.tokens, encoding.word_ids, strict=True)
        fitting = [
            number
            for number, (token, word) in enumerate(tokens)
            if word is not None and tokens_of[word] == 1
            if len(token) >= 4 and token.isalpha() and token not in frequent
        ]
        if not fitting:
            continue
        number = int(generator.choice(fitting))
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
    generator = np.random.default_rng(seed)
    fitting = [
        number
        for number, (first, second) in enumerate(pairwise(sentences))
        if first.document == second.document
        and all(8 <= len(each.text.split()) <= 30 for each in (first, second))
    ]
    found: list[Any] = []
    for number in generator.permutation(fitting)[:count].tolist():
        first, second = sentences[number : number + 2]
        follows = len(found) % 2 == 0
        others = [sentences[n + 1] for n in fitting if sentences[n].document != first.document] or [
            first
        ]  # where there is one module only
        if not follows:
            second = others[int(generator.integers(len(others)))]
        found.append(
            {
                "first": first.text,
                "second": second.text,
                "follows": follows,
                "probability": model.next_sentence(first.text, second.text),
            }
        )
    return found


def neighbours(nearest: Nearest, count: int = 6, seed: int = 0) -> list[Any]:
    """Queries with the nearest other sentence by vectors and by words."""

    def shown(index: int) -> dict[str, str]:
        return {"text": nearest.sentences[index].text, "module": nearest.sentences[index].module}

    drawn = np.random.default_rng(seed).permutation(len(nearest.sentences))[:count].tolist()
    return [
        {
            "query": nearest.sentences[index].text,
            "module": nearest.sentences[index].module,
            "bert": shown(int(nearest.bert[index])),
            "tfidf": shown(int(nearest.tfidf[index])),
        }
        for index in drawn
    ]


def _same(nearest: Nearest, of: Callable[[Sentence], str]) -> dict[str, float]:
    """Fractions of queries whose nearest sentence has the same `of`, and that of chance."""
    names, owners = np.unique([of(s) for s in nearest.sentences], return_inverse=True)
    sizes = np.bincount(owners, minlength=len(names))
    count = len(owners)
    return {
        "bert": float((owners[nearest.bert] == owners).mean()),
        "tfidf": float((owners[nearest.tfidf] == owners).mean()),
        "chance": float((sizes[owners] - 1).mean() / (count - 1)),
    }


def _other(similarity: Float32s) -> Int64s:
    """The column of the largest value of each row, itself left out."""
    np.fill_diagonal(similarity, -np.inf)
    nearest: Int64s = similarity.argmax(axis=1).astype(np.int64)
    return nearest


def _batches(shards: Shards, config: BertRun, split: Split, tokens: int) -> list[MaskedBatch]:
    """The first sequences of a split, always the same."""
    data = EpochLoader(
        held_out_pairs(shards, config.instances, config.masking, config.validation.share, split)
    )
    tokens = min(tokens, data.tokens_in_epoch(0))
    return data.step(0, 0, tokens, max(4096, config.instances.sequence_length))


def _losses(model: Model, batch: MaskedBatch) -> Any:
    """The losses of a batch by objective."""
    with torch.inference_mode():
        return model.runner.learner(to_device(batch, model.runner.device))


def _tables(shards: Shards, config: BertRun) -> tuple[int, Int64s]:
    """Of the training text: the most frequent token, and what most often follows each token [V]."""
    documents = split_documents(shards, "train", config.validation.share)
    first = shards.sentence_tokens[shards.document_sentences[documents]]
    last = shards.sentence_tokens[shards.document_sentences[documents + 1]]
    runs, counted = [], 0
    for start, stop in zip(first.tolist(), last.tolist(), strict=True):
        runs.append(shards.tokens(start, stop))
        counted += stop - start
        if counted >= COUNTED_TOKENS:
            break
    ids = np.concatenate(runs)
    size = shards.vocab_size
    most_frequent = int(np.bincount(ids, minlength=size).argmax())
    bigrams, counts = np.unique(ids[:-1] * size + ids[1:], return_counts=True)
    behind = np.full(size, most_frequent, np.int64)
    order = np.argsort(counts, kind="stable")  # the most frequent of each is written last
    behind[bigrams[order] // size] = bigrams[order] % size
    return most_frequent, behind


def _halves(batch: MaskedBatch) -> list[tuple[str, str]]:
    """A and B of each pair as words for TF-IDF: their ids, those of special tokens too."""
    lengths, segments = batch.inputs.lengths, batch.inputs.segments
    assert segments is not None
    ends = np.cumsum(lengths)
    found = []
    for start, stop in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
        ids, own = batch.inputs.ids[start:stop], segments[start:stop]
        a, b = (" ".join(map(str, ids[own == half])) for half in (0, 1))
        found.append((a, b))
    return found


def _cosines(
    train: Sequence[tuple[str, str]], dev: Sequence[tuple[str, str]]
) -> tuple[Float32s, Float32s]:
    """TF-IDF cosines of pairs; the weights are those of the training pairs."""
    tfidf = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S+", dtype=np.float32)
    tfidf.fit([half for pair in train for half in pair])

    def cosines(found: Sequence[tuple[str, str]]) -> Float32s:
        a, b = (tfidf.transform([pair[half] for pair in found]) for half in (0, 1))
        products: Float32s = np.asarray(a.multiply(b).sum(axis=1)).ravel()
        return products

    return cosines(train), cosines(dev)


def _best_threshold(cosines: Float32s, labels: Int64s) -> float:
    """The cosine below which calling a pair random (label 1) is right most often."""
    thresholds: list[float] = [*np.sort(cosines).tolist(), float("inf")]
    return max(thresholds, key=lambda each: int(((cosines < each) == (labels == 1)).sum()))
