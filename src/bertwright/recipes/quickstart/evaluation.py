"""What a quickstart's model is worth on held-out modules, beside the obvious baselines.

Masked tokens: the share of masked positions whose token is named right, beside naming the most
frequent token, or the one most often seen behind the left neighbour (a bigram table of the training
text; it is shown the true neighbour, masked or not).
Next sentences: the share of pairs judged right, beside the more frequent answer and beside the
TF-IDF cosine of the two halves with the threshold that is best on training pairs.
Nearest sentences: the share of queries whose nearest other sentence, by the cosine of mean-pooled
vectors, is from the same module; beside TF-IDF fitted on the very sentences searched, and chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import normalize

from bertwright.arrays import Float32s, Int64s
from bertwright.config.bert_run import BertRun
from bertwright.data.batch import Batch
from bertwright.data.loader import evaluation_data, to_tensors
from bertwright.data.shards import Shards, open_shards
from bertwright.data.split import Split, split_documents
from bertwright.errors import DataError
from bertwright.inference.model import Model
from bertwright.recipes.quickstart.run import Places, read_modules

MASKED_TOKENS = 1 << 15  # tokens of the sequences that are asked
PAIRS = 600
SENTENCES = 1500
COUNTED_TOKENS = 8_000_000
WORDS = (7, 40)  # words of a sentence that is searched for


@dataclass(frozen=True)
class Sentence:
    """A held-out sentence and where it is from."""

    text: str
    module: str
    package: str
    document: int
    place: int
    """Which of its document's sentences it is."""


@dataclass(frozen=True)
class Nearest:
    """The nearest other sentence of each, as indices; by vectors and by words."""

    sentences: list[Sentence]
    bert: Int64s
    tfidf: Int64s


def held_out(places: Places, config: BertRun) -> tuple[list[Sentence], float]:
    """All sentences of the modules that were held out, in order; and the share of them that stand
    word for word in a training module too."""
    found: list[Sentence] = []
    learned: set[str] = set()
    for entry, sentences, is_held_out in read_modules(places, config.validation.share):
        if not is_held_out:
            learned.update(sentences)
        else:
            found.extend(
                Sentence(sentence, entry["module"], entry["package"], entry["document"], place)
                for place, sentence in enumerate(sentences)
            )
    seen = sum(sentence.text in learned for sentence in found)
    return found, seen / max(1, len(found))


def masked_tokens(model: Model, config: BertRun) -> dict[str, Any]:
    """Accuracy at the masked positions of held-out sequences, and of the two tables."""
    shards = open_shards(config.data)
    most_frequent, behind = _tables(shards, config)
    right = np.zeros(3, np.int64)
    count, loss = 0, 0.0
    for batch in _batches(shards, config, "dev", MASKED_TOKENS):
        truth = batch.masked_labels
        whole = _restored(batch).input_ids
        losses = _ask(model, batch)["masked_lm"]
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
    tokens = PAIRS * config.instances.sequence_length
    right = 0
    labels: list[int] = []
    halves: list[tuple[Int64s, Int64s]] = []
    for batch in _batches(shards, config, "dev", tokens):
        whole = _restored(batch)
        right += int(_ask(model, whole)["next_sentence"].correct)
        assert whole.next_sentence_labels is not None
        labels.extend(whole.next_sentence_labels.tolist())
        halves.extend(_halves(whole))
    learned_labels: list[int] = []
    learned: list[tuple[Int64s, Int64s]] = []
    for batch in _batches(shards, config, "train", tokens):
        whole = _restored(batch)
        assert whole.next_sentence_labels is not None
        learned_labels.extend(whole.next_sentence_labels.tolist())
        learned.extend(_halves(whole))
    cosines = _cosines(learned, halves, shards.vocab_size)
    threshold = _best_threshold(cosines[0], np.array(learned_labels))
    truth = np.array(labels)
    follows = float((truth == 0).mean())
    return {
        "pairs": len(truth),
        "bert": right / len(truth),
        "more_frequent_answer": max(follows, 1 - follows),
        "tfidf": float(((cosines[1] < threshold) == (truth == 1)).mean()),
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
    lot = np.random.default_rng(seed).permutation(len(fitting))[:SENTENCES]
    chosen = [fitting[place] for place in np.sort(lot)]
    texts = [sentence.text for sentence in chosen]
    vectors = model.embed(texts)
    vectors -= vectors.mean(axis=0)  # what all sentences share tells none apart
    dense: Float32s = normalize(vectors)
    words = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    nearest = Nearest(chosen, _other(dense @ dense.T), _other((words @ words.T).toarray()))
    result: dict[str, Any] = {"sentences": len(chosen)}
    for name, of in (("module", lambda s: s.module), ("package", lambda s: s.package)):
        result[f"same_{name}"] = _same(nearest, of)
    return result, nearest


def _same(nearest: Nearest, of: Callable[[Sentence], str]) -> dict[str, float]:
    """Shares of queries whose nearest sentence shares what `of` names, and chance's."""
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


def _batches(shards: Shards, config: BertRun, split: Split, tokens: int) -> list[Batch]:
    """The first sequences of a split, always the same."""
    data = evaluation_data(shards, config, split)
    tokens = min(tokens, data.tokens_in_epoch(0))
    return data.step(0, 0, tokens, max(4096, config.instances.sequence_length))


def _ask(model: Model, batch: Batch) -> Any:
    """The losses of a batch by objective."""
    with torch.inference_mode():
        return model.runner.learner(to_tensors(batch, model.runner.device))


def _restored(batch: Batch) -> Batch:
    """A batch with the true tokens at its masked positions."""
    ids = batch.input_ids.copy()
    ids[batch.masked_positions] = batch.masked_labels
    return replace(batch, input_ids=ids)


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
    pairs, counts = np.unique(ids[:-1] * size + ids[1:], return_counts=True)
    behind = np.full(size, most_frequent, np.int64)
    order = np.argsort(counts, kind="stable")  # the most frequent of each is written last
    behind[pairs[order] // size] = pairs[order] % size
    return most_frequent, behind


def _halves(batch: Batch) -> list[tuple[Int64s, Int64s]]:
    """A and B of each pair, with their special tokens."""
    ends = np.cumsum(batch.lengths)
    pairs = []
    for start, stop in zip((ends - batch.lengths).tolist(), ends.tolist(), strict=True):
        ids, types = batch.input_ids[start:stop], batch.token_type_ids[start:stop]
        pairs.append((ids[types == 0], ids[types == 1]))
    return pairs


def _cosines(
    learned: list[tuple[Int64s, Int64s]], asked: list[tuple[Int64s, Int64s]], vocab_size: int
) -> tuple[Float32s, Float32s]:
    """TF-IDF cosines of pairs, weights learned from the first list."""

    def counts(texts: list[Int64s]) -> sparse.csr_matrix:
        rows = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
        columns = np.concatenate(texts)
        ones = np.ones(len(rows), np.float32)
        return sparse.csr_matrix((ones, (rows, columns)), shape=(len(texts), vocab_size))

    tfidf = TfidfTransformer(sublinear_tf=True).fit(counts([h for pair in learned for h in pair]))
    found = []
    for pairs in (learned, asked):
        a, b = (tfidf.transform(counts([pair[half] for pair in pairs])) for half in (0, 1))
        found.append(np.asarray(a.multiply(b).sum(axis=1)).ravel())
    return found[0], found[1]


def _best_threshold(cosines: Float32s, labels: Int64s) -> float:
    """The cosine below which calling a pair random is right most often."""
    order = np.argsort(cosines)
    random = labels[order] == 1
    right = np.concatenate([[0], np.cumsum(random)]) + np.concatenate(
        [np.cumsum(~random[::-1])[::-1], [0]]
    )
    place = int(right.argmax())
    return float(cosines[order][place]) if place < len(order) else float("inf")
