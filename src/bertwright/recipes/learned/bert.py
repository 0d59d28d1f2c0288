"""Examine what a BERT has learned: accuracy on held-out text compared with baselines, and examples.

The model's results are those of the run's last validation, and the baselines read the same
sequences:

- Masked tokens are compared with the most frequent token, and with the token that most often
  follows the left neighbour in training text (a bigram table, which reads the true neighbour, even
  if it is masked for the model).
- Next sentences are compared with the more frequent label, and with the TF-IDF cosine of the two
  halves, with the threshold that is best on training pairs.
- Nearest sentences measure how often the nearest other sentence, by the cosine of mean-pooled
  vectors, is from the same document. They are compared with TF-IDF, fitted on the sentences that
  are searched, and with a random choice.

Examples are drawn at random before the model is run. Masked words are drawn from each eighth of all
words by frequency, so that a model that predicts a third of all words is likely to be right in a
third of the examples. Text is decoded from ids, so that of an uncased vocabulary is in lower case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from bertwright.arrays import Float32s, Int64s
from bertwright.config.run import EvaluatedRun, RunConfig
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.errors import BertwrightError
from bertwright.inference.model import Model
from bertwright.models.bert.config import MaskedRun, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.recipes.learned.run import (
    FinishedRun,
    most_frequent_label,
    validation_batches,
    validation_labels,
)
from bertwright.report import sections
from bertwright.report.vector_plot import project
from bertwright.report.verdict import Verdict, pretraining_verdict, wilson
from bertwright.tasks.lexical import terms
from bertwright.text.scripts import is_word, length_in_words

SENTENCES = 1500
WORDS = (7, 40)
"""The minimum and the maximum length in words of a sentence whose nearest one is searched; see
`length_in_words`.
"""
LABELS = {"masked_lm": "masked_labels", "next_sentence": "next_sentence_labels"}
"""The names of the labels in a batch, by objective."""
EXAMPLES = 8
PLOTTED, GROUPS = 600, 9
NOTE = "Held-out sentences, drawn at random before the model was run, and not selected."
NOTE_OF_MASKS = (
    " One of the masked words is from each eighth of all words, from rare to frequent. A correct "
    "prediction is coloured."
)


@dataclass(frozen=True)
class Sentence:
    """A held-out sentence and the document that it is from."""

    number: int
    """The number of the sentence in the shards."""
    text: str
    document: int
    name: str
    """The name of the document."""
    group: str
    """The group of the document, which has a colour in the plot."""


def verdict(run: FinishedRun) -> Verdict:
    """Return whether a run predicts better than always the most frequent token or label, and
    masked tokens better than a table of neighbouring tokens.
    """
    known = run.once(levels)
    counts = {
        f"{head}.accuracy": len(validation_labels(run.shards, run.config, labels))
        for head, labels in LABELS.items()
        if f"{head}.accuracy" in known
    }
    return pretraining_verdict(run.records, known, counts, lambda: _beside_bigrams(run))


def _beside_bigrams(run: FinishedRun) -> tuple[bool, str] | None:
    """Return whether masked tokens are predicted better than by the bigram table, and its accuracy
    in words; None if no tokens are masked.
    """
    if "masked_lm.accuracy" not in run.last:
        return None
    bigram, count = run.once(bigram_accuracy)
    low, _ = wilson(float(run.last["masked_lm.accuracy"]), count)
    table = f"a table of the token that most often follows the left neighbour {bigram:.1%}"
    if low > bigram:
        return True, table
    return False, f"{table} of the masked tokens, which the model does not clearly exceed"


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: accuracy beside baselines, masked words, neighbours,
    and a plot of sentences.
    """
    model, shards, record = run.model, run.shards, run.last
    counts, _ = run.frequencies
    without = run.once(levels)
    charts: dict[str, tuple[str, dict[str, float]]] = {}
    examples: list[sections.Section] = []
    sentences = held_out(model, shards, run.config, run.names)
    if "masked_lm.accuracy" in without:
        token = model.tokenizer.tokens_of([int(counts.argmax())])[0]
        bigram, count = run.once(bigram_accuracy)
        charts["Masked tokens"] = (
            f"Fraction of masked tokens predicted, of {count:,}. The table of neighbours reads the "
            "true token on the left, the model maybe a mask.",
            {
                "this model": record["masked_lm.accuracy"],
                "the token most often seen behind the left neighbour": bigram,
                f"the most frequent token ({token!r})": without["masked_lm.accuracy"],
            },
        )
        masked = masked_words(model, shards, sentences, counts)
        if masked:
            examples.append(sections.blanks("Masked words", masked, NOTE + NOTE_OF_MASKS))
    if "next_sentence.accuracy" in without:
        tfidf, count = tfidf_accuracy(shards, run.config)
        charts["Next sentences"] = (
            "Fraction of pairs predicted (does B follow A, or is it from elsewhere?), of "
            f"{count:,}. TF-IDF reads the whole pair; in the model's some tokens are masked.",
            {
                "this model": record["next_sentence.accuracy"],
                "TF-IDF cosine of A and B, threshold trained": tfidf,
                "the more frequent label": without["next_sentence.accuracy"],
            },
        )
    chosen = [s for s in sentences if WORDS[0] <= length_in_words(s.text) <= WORDS[1]]
    chosen = [chosen[i] for i in np.sort(_drawn(len(chosen), SENTENCES))]
    near: dict[str, float] = {}
    if len({s.document for s in chosen}) > 1:
        near, shown, vectors = nearest_sentences(model, chosen)
    if near:
        charts["Nearest sentences"] = (
            "Fraction of sentences whose nearest other is from the same document, of "
            f"{len(chosen):,}.",
            near,
        )
        examples.append(shown)
        examples += plot(chosen, vectors, "document" if run.names is None else "package")
    title, note = "On held-out text, beside simple baselines", "Also where a baseline is better."
    side_by_side = [sections.fractions_side_by_side(title, charts, note)] if charts else []
    found: dict[str, Any] = {"baselines": without, "sections": side_by_side + examples}
    assert isinstance(run.config, MaskedRun)
    trained, validated = run.config.masking.probability, MaskingConfig.probability
    if trained != validated:
        found["curves_note"] = (
            f"Training masks {trained:.0%} of the tokens and validation {validated:.0%}, so the "
            "two curves of masked LM are not comparable: with fewer masks the task is easier."
        )
    return found


def _drawn(of: int, most: int, seed: int = 0) -> Int64s:
    """Return up to `most` of the indices below `of`, in a random order that is always the same."""
    drawn: Int64s = np.random.default_rng(seed).permutation(of)[:most]
    return drawn


def held_out(
    model: Model, shards: Shards, config: RunConfig, names: Sequence[tuple[str, str]] | None
) -> list[Sentence]:
    """Return held-out sentences of documents in random order, always the same.

    Documents are added until there are at least `4 * SENTENCES` sentences.
    """
    assert isinstance(config, EvaluatedRun)
    held = config.validation
    shards, documents, numbers = split_text(shards, "dev", held.fraction, held.hold_out)
    found: list[Sentence] = []
    for index in _drawn(len(documents), len(documents)).tolist():
        document, number_of = int(documents[index]), int(numbers[index])
        name, group = names[number_of] if names else (f"document {number_of}",) * 2
        first, last = shards.document_sentences[document : document + 2].tolist()
        for number in range(first, last):
            start, stop = shards.sentence_tokens[number : number + 2].tolist()
            text = model.tokenizer.readable(shards.tokens(start, stop).tolist())
            found.append(Sentence(number, text, number_of, name, group))
        if len(found) >= 4 * SENTENCES:
            break
    return found


def levels(run: FinishedRun) -> dict[str, float]:
    """Return the accuracy without a model in the run's validation, by key of a record.

    It is that of always predicting the most frequent token of the training text, and that of always
    predicting the most frequent label.
    """
    known: dict[str, float] = {}
    if "masked_lm.accuracy" in run.last:
        truth = validation_labels(run.shards, run.config, LABELS["masked_lm"])
        most_frequent = run.frequencies[0].argmax()
        known["masked_lm.accuracy"] = float((truth == most_frequent).mean())
    if "next_sentence.accuracy" in run.last:
        level = most_frequent_label(run.shards, run.config, LABELS["next_sentence"])
        known["next_sentence.accuracy"] = level
    return known


def bigram_accuracy(run: FinishedRun) -> tuple[float, int]:
    """Return the accuracy of the bigram table at the masked positions of the validation, and the
    number of these positions.
    """
    behind = run.frequencies[1]
    right, count = 0, 0
    for batch in validation_batches(run.shards, run.config, "dev"):
        before = batch.restored().inputs.ids[batch.masked_positions - 1].numpy()
        count += len(batch.masked_labels)
        right += int((batch.masked_labels.numpy() == behind[before]).sum())
    return right / count, count


def tfidf_accuracy(shards: Shards, config: RunConfig) -> tuple[float, int]:
    """Return the accuracy of TF-IDF on the pairs of the validation, and the number of the pairs."""
    labels: dict[Split, list[int]] = {"train": [], "dev": []}
    halves: dict[Split, list[tuple[str, str]]] = {"train": [], "dev": []}
    for split in labels:
        for batch in validation_batches(shards, config, split):
            assert batch.next_sentence_labels is not None
            labels[split] += batch.next_sentence_labels.tolist()
            halves[split] += _halves(batch.restored())
    train, dev = _cosines(halves["train"], halves["dev"])
    is_random = np.array(labels["dev"]) == 1
    predicted = dev < _best_threshold(train, np.array(labels["train"]))
    return float((predicted == is_random).mean()), len(is_random)


def nearest_sentences(
    model: Model, sentences: Sequence[Sentence]
) -> tuple[dict[str, float], sections.Section, Float32s]:
    """Return how often the nearest sentence is from the same document, a table of examples, and the
    vectors.

    The vectors are centred and normalized, `[n, W]`. All results are empty if the model makes no
    vectors.
    """
    texts = [sentence.text for sentence in sentences]
    try:
        vectors = model.embed(texts)
    except BertwrightError:
        return {}, {}, np.zeros((0, 0), np.float32)
    vectors = vectors - vectors.mean(axis=0)  # the common part distinguishes no sentence
    dense: Float32s = normalize(vectors)
    words = TfidfVectorizer(**terms(texts, r"\S+"), sublinear_tf=True).fit_transform(texts)
    by_vectors, by_words = _other(dense @ dense.T), _other((words @ words.T).toarray())
    _, owners = np.unique([s.document for s in sentences], return_inverse=True)
    figures = {
        "this model, mean of token vectors": _same(by_vectors, owners),
        "TF-IDF": _same(by_words, owners),
        "a random sentence": float((np.bincount(owners)[owners] - 1).mean() / (len(owners) - 1)),
    }
    drawn = _drawn(len(sentences), EXAMPLES).tolist()
    rows = [
        [
            f"{sentence.text} ({sentence.name})",
            *(_shown(sentences[nearest[index]], sentence) for nearest in (by_vectors, by_words)),
        ]
        for index, sentence in ((index, sentences[index]) for index in drawn)
    ]
    columns = ["sentence", "nearest by the model's vectors", "nearest by TF-IDF"]
    note = f"{NOTE} A tick marks a sentence of the same document."
    return figures, sections.table("Nearest sentences", columns, rows, note, even=True), dense


def _shown(nearest: Sentence, to: Sentence) -> str:
    """Return a sentence with its document, and a tick if that is the document of another."""
    tick = "✓ " if nearest.document == to.document else ""
    return f"{tick}{nearest.text} ({nearest.name})"


def plot(sentences: Sequence[Sentence], vectors: Float32s, column: str) -> list[sections.Section]:
    """Return a plot of the sentences of the largest groups, projected onto a plane with t-SNE.

    The result is empty if there are fewer than three sentences.
    """
    names, owners = np.unique([s.group for s in sentences], return_inverse=True)
    largest = np.argsort(-np.bincount(owners), kind="stable")[:GROUPS]
    kept = np.flatnonzero(np.isin(owners, largest))[:PLOTTED]
    if len(kept) < 3:
        return []
    points, _ = project(vectors[kept], "tsne")
    return [
        sections.dots(
            "Held-out sentences by their vectors",
            np.round(points.astype(float), 2).tolist(),
            [sentences[index].text for index in kept],
            [str(names[owners[index]]) for index in kept],
            column,
            f"A mark is a sentence, coloured by its {column}. Marks that are near each other are "
            "neighbours; large distances mean nothing (t-SNE).",
        )
    ]


def masked_words(
    model: Model,
    shards: Shards,
    sentences: Sequence[Sentence],
    counts: Int64s,
    most: int = EXAMPLES,
) -> list[Any]:
    """Return sentences with one masked word, and the five most probable tokens for it.

    A masked word is a single token of letters. The words are sorted by their frequency in training
    text and divided into `most` strata of equal size, and one word is drawn from each.
    """
    found: list[Any] = []
    for number, position, sentence in drawn_words(model, shards, sentences, counts, most):
        ids = shards.tokens(*shards.sentence_tokens[number : number + 2].tolist())
        truth = model.tokenizer.tokens_of([ids[position]])[0]
        ids[position] = model.tokenizer.mask_id
        text = model.tokenizer.readable(ids.tolist())
        (top, *_) = model.fill(text, 5)
        found.append({"text": text, "truth": truth, "source": sentence.name, "top": top})
    return found


def drawn_words(
    model: Model, shards: Shards, sentences: Sequence[Sentence], counts: Int64s, most: int
) -> list[tuple[int, int, Sentence]]:
    """Draw a word from each stratum of frequency, the rarest first.

    The words are from different sentences if possible. For each word, return the number of its
    sentence in the shards, its position in the sentence, and the sentence.
    """
    fitting = [s for s in sentences if 8 <= length_in_words(s.text) <= 24]
    words: list[tuple[int, int, int]] = []
    for index, sentence in enumerate(fitting):
        start, stop = shards.sentence_tokens[sentence.number : sentence.number + 2].tolist()
        ids = shards.tokens(start, stop)
        whole = np.append(shards.word_starts(start, stop), True)
        tokens = model.tokenizer.tokens_of(ids.tolist())
        words += [
            (int(counts[ids[n]]), index, n)
            for n, token in enumerate(tokens)
            if whole[n] and whole[n + 1] and is_word(token)
        ]
    words.sort()
    generator = np.random.default_rng(0)
    strata = [words[len(words) * k // most : len(words) * (k + 1) // most] for k in range(most)]
    drawn: list[tuple[int, int, int]] = []
    for stratum in filter(None, strata):
        chosen = stratum[int(generator.integers(len(stratum)))]
        used = {index for _, index, _ in drawn}
        others = [word for word in stratum if word[1] not in used]
        if chosen[1] in used and others:
            chosen = others[int(generator.integers(len(others)))]
        drawn.append(chosen)
    return [(fitting[index].number, position, fitting[index]) for _, index, position in drawn]


def _same(nearest: Int64s, owners: Int64s) -> float:
    return float((owners[nearest] == owners).mean())


def _other(similarity: Float32s) -> Int64s:
    """Return the column of the largest value in each row, without the diagonal.

    The diagonal of `similarity` is overwritten.
    """
    np.fill_diagonal(similarity, -np.inf)
    nearest: Int64s = similarity.argmax(axis=1).astype(np.int64)
    return nearest


def _halves(batch: MaskedBatch) -> list[tuple[str, str]]:
    """Return the halves A and B of each pair as words for TF-IDF.

    The words are token ids, including those of special tokens.
    """
    segments = batch.inputs.segments
    assert segments is not None
    found = []
    for start, stop in pairwise(batch.inputs.sequences.offsets):
        ids, own = batch.inputs.ids[start:stop].numpy(), segments[start:stop].numpy()
        a, b = (" ".join(map(str, ids[own == half])) for half in (0, 1))
        found.append((a, b))
    return found


def _cosines(
    train: Sequence[tuple[str, str]], dev: Sequence[tuple[str, str]]
) -> tuple[Float32s, Float32s]:
    """Return the TF-IDF cosines of the training and the dev pairs, with the weights of training."""
    tfidf = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S+", dtype=np.float32)
    tfidf.fit([half for pair in train for half in pair])

    def cosines(found: Sequence[tuple[str, str]]) -> Float32s:
        a, b = (tfidf.transform([pair[half] for pair in found]) for half in (0, 1))
        products: Float32s = np.asarray(a.multiply(b).sum(axis=1)).ravel()
        return products

    return cosines(train), cosines(dev)


def _best_threshold(cosines: Float32s, labels: Int64s) -> float:
    """Return the best threshold for cosines, below which a pair is taken to be random (label 1)."""
    thresholds: list[float] = [*np.sort(cosines).tolist(), float("inf")]
    return max(thresholds, key=lambda each: int(((cosines < each) == (labels == 1)).sum()))
