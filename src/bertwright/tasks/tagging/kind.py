"""Tagging: a tag for each word of a sentence, such as entities or parts of speech.

**Instances.** Every word is split into wordpieces by itself, and its first token is tagged (Devlin
et al. 2019, section 5.3). A word that the tokenizer removes, such as a zero-width space, becomes
[UNK]; a word that looks like a special token ("[SEP]") is split like any other. So every word has a
first token. A sentence longer than a window is read in several windows (`text/windows.py`), and a
word is tagged in the window where its first token has the most context.

With `context = "document"`, sentences are read in the context of their document ("the maximal
document context", Devlin et al. 2019; Luoma and Pyysalo, COLING 2020, also fill windows with
neighbouring sentences). A window tags as many whole sentences of a document as leave a quarter of
the window on each side for context; a document that fits is one window. The remaining room is
filled with the document's tokens, half on the left and half on the right; room that one side does
not need goes to the other.

**Head.** A word is classified by the vector of its first wordpiece, through dropout and a linear
layer, as in `BertForTokenClassification` of transformers; other wordpieces have no label. There may
be an LSTM over the words of an example, or TagLM's two LSTMs, before the dropout and the linear
layer. A CRF over the scores (`nn/layers/crf.py`) scores the tags of an example jointly (Lample et
al. 2016). The loss is a sum over words: the cross-entropy of each word times the weight of its
class; or, with a CRF, minus the log-probability of the whole tag sequences, divided by the same
number of words.

TagLM is a tagger that reads a language model's vectors between its two LSTMs (Peters, Ammar,
Bhagavatula and Power 2017, "Semi-supervised sequence tagging with bidirectional language models",
section 2):

    word:      [a CNN over its bytes, trained; the encoder's layer 0]
    first:     biLSTM over the words of a sentence
    joined:    [first; the vectors of the language model]
    second:    biLSTM, whose states are scored, by a CRF if the task has one

**Predictions.** A word gets the most probable tag, or with a CRF the tag on the most probable path.

**Metrics.** Precision, recall and F1 of entities, counted as by the Perl script `conlleval` of
CoNLL-2000: an entity is correct if its type, first word and last word are. Tags that break their
scheme are read as the script reads them (`tags.chunks`): "I-PER" after "O" or after another type
begins an entity, so IOB1 and IOB2 follow the same rules. Of the script's rules for "E" (the end of
an entity), one is corrected here: an "E-X" before "B-X" ends the entity. The script does not know
"S" (an entity of one word), which is read as in seqeval. For well-formed IOB2 and IOBES the results
equal those of seqeval's strict mode.

Letters: N tokens, W words, E sentences, C tags or types of entity, H hidden, F width of a feature,
H_0 width of layer 0.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from operator import eq
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.arrays import Float32s, Float64s, Int64s
from bertwright.errors import DataError, listed
from bertwright.labelled.examples import Example, TaggingExample
from bertwright.labelled.file import Read, ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.labelled.tagged.schemes import chunks
from bertwright.labelled.tagged.sentences import TAGS
from bertwright.labelled.tagged.texts import text_example
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.layers.characters import CharacterCnn, character_ids
from bertwright.nn.layers.crf import Crf
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.layers.recurrent import Lstm
from bertwright.nn.objective import Loss
from bertwright.tasks.baselines import tag_baselines
from bertwright.tasks.batch import LinearBatch, flat, windows_of
from bertwright.tasks.head import Head, Scorer, balanced_weights, make_before_scores, make_parts
from bertwright.tasks.instances import Instance, Lengths, segments_of
from bertwright.tasks.kind import (
    Kind,
    RowColumns,
    Scored,
    ScoreGraph,
    are_texts,
    check_count,
    input_values,
)
from bertwright.tasks.metrics import (
    Metrics,
    Statistic,
    calibration,
    class_counts,
    class_statistic,
    confusion,
    f1_of,
    of_sums,
    only_prediction,
    per_class,
    ratio,
)
from bertwright.tasks.predictions import Entity, TaggingPrediction
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import Span, most_context, split

DOCUMENT_LENGTH = 256
"""The default number of tokens of a window for a context of whole documents."""


@dataclass(frozen=True)
class TaggingInstance(Instance):
    """One window, with the sentences whose words are tagged in it."""

    label: Sequence[int] | None = None
    """The index of the tag of each word."""
    counts: tuple[int, ...] = (0,)
    """The number of words of each sentence."""
    words: tuple[int, ...] = ()
    """The position of the first token of every word that is tagged in this window."""
    texts: tuple[str, ...] = ()
    """These words as they are spelled."""
    first_word: int = 0
    """The index of the first of these words in its sentence. It is not 0 if a sentence is divided
    into several windows.
    """


def _tokens(tokenizer: Tokenizer, examples: Sequence[TaggingExample]) -> dict[str, list[int]]:
    words = list(dict.fromkeys(word for example in examples for word in example.words))
    of_words = zip(words, tokenizer.encode_bare_ids(words, recognize=False), strict=True)
    return {word: ids or [tokenizer.unk_id] for word, ids in of_words}


def _documents(
    task: TaggingTask, examples: Sequence[TaggingExample]
) -> Iterator[list[TaggingExample]]:
    """Return an iterator over the groups of sentences that are read as each other's context."""
    if task.options.context == "sentence":
        return ([example] for example in examples)
    return (list(group) for _, group in groupby(examples, key=lambda example: example.document))


def _runs(bounds: Sequence[int], room: int) -> Iterator[Span]:
    """Yield the runs of sentences of a document that share a window of `room` tokens.

    A run is the index of its first sentence and one after its last. `bounds` holds the position in
    the document's tokens where each sentence begins, and where the last ends.
    """
    length, margin = bounds[-1], room // 4
    first = 0
    for last in range(1, len(bounds)):
        if last + 1 < len(bounds):
            start, stop = bounds[first], bounds[last + 1]
            if min(start, margin) + (stop - start) + min(length - stop, margin) <= room:
                continue
        yield first, last
        first = last


def _windows(start: int, stop: int, length: int, room: int, stride: int) -> list[Span]:
    """Return the windows over the tokens from `start` to `stop` of a document with `length`
    tokens.
    """
    if stop - start > room:
        return [(start + a, start + b) for a, b in split(stop - start, room, stride)]
    free = room - (stop - start)
    left = min(start, max(free // 2, free - (length - stop)))
    return [(start - left, min(length, stop + free - left))]


@dataclass(frozen=True)
class TaggingBatch(LinearBatch):
    """A batch of sentences: `labels` is `[W]` int64, the index of the tag of each word."""

    words: Tensor | None = None
    """[W] int64: the position in N of every word's first wordpiece, sentence by sentence."""
    counts: tuple[int, ...] = ()
    """The number of words of each sentence, or of each part of it."""
    first_words: tuple[int, ...] = ()
    """The index in its sentence of the first of these words. It is not 0 if a sentence is divided
    into several instances.
    """
    texts: tuple[str, ...] = ()
    """[W]: the words as they are spelled."""

    @property
    def labelled(self) -> Sequence[int]:
        return [row for row, n in zip(self.rows, self.counts, strict=True) for _ in range(n)]


class TagLm(nn.Module):
    """TagLM's two biLSTMs over words."""

    def __init__(self, word: int, features: int, size: int, dropout: float) -> None:
        """Build the network.

        Args:
            word: H_0, the width of the encoder's layer 0.
            features: F, the width of the language model's features.
            size: the width of each direction of the LSTMs.
            dropout: the dropout probability before and between the LSTMs.
        """
        super().__init__()
        self.characters = CharacterCnn(_BYTE_SIZE, _FILTERS, _WIDTH)
        self.first = Lstm(_WIDTH + word, size, "both")
        self.second = Lstm(2 * size + features, size, "both")
        self.dropout = Dropout(dropout)

    def forward(
        self, words: Sequence[str], layer_0: Tensor, features: Tensor, counts: Sequence[int]
    ) -> Tensor:
        """Return the states of the second LSTM for each word.

        Args:
            words: W words, sentence by sentence.
            layer_0: `[W, H_0]`.
            features: `[W, F]`, the vectors of the language model.
            counts: the number of words of each sentence, W in all.

        Returns:
            `[W, 2 size]` float32
        """
        different = {word: number for number, word in enumerate(dict.fromkeys(words))}
        ids = torch.tensor([character_ids(word, _MOST_BYTES) for word in different]).long()
        ids = ids.view(-1, _MOST_BYTES)
        which = torch.tensor([different[word] for word in words]).long()
        device = features.device
        spelled = self.characters(send(self.characters.trim(ids), device))[send(which, device)]
        x = self.first(self.dropout(torch.cat([spelled, layer_0], 1)), counts)
        joined = torch.cat([self.dropout(x), features], 1)
        return self.second(joined, counts)


class Tagger(Head[TaggingBatch]):
    """Head that scores the tags of each word."""

    def __init__(self, spec: EncoderSpec, task: TaggingTask) -> None:
        """Build the head."""
        super().__init__()
        self.network: Lstm | TagLm | None
        self.mix, self.network, width, self.layers = make_parts(task.head, spec.widths)
        self.before_scores = make_before_scores(task.head, spec)
        if task.head.network == "taglm":
            size = task.head.network_size
            self.network = TagLm(spec.widths[0], width, size, task.head.dropout)
            width = 2 * size
            self.layers = tuple(sorted({0, *(self.layers or (len(spec.widths) - 1,))}))
        self.dropout = Dropout(task.head.dropout)
        self.classifier = Scorer(width, task.num_scores)
        self.crf = Crf(task.num_scores) if task.options.crf else None
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", None, persistent=False)
        """`[C]`, with a mean of 1 over the training words; None: all are 1. A CRF does not use
        them.
        """

    @property
    def scorer(self) -> Scorer:
        """The linear layer that computes the scores."""
        return self.classifier

    def count(self, batch: TaggingBatch) -> int:
        """Return W, the number of words in a batch."""
        assert batch.words is not None
        return len(batch.words)

    def positions(self, batch: TaggingBatch) -> Tensor | None:
        """Return the positions of the words' first wordpieces."""
        return batch.words

    def read(self, encoded: Encoded, batch: TaggingBatch) -> Tensor:
        """Return the vectors of the words' first wordpieces, `[W, F]`."""
        return self.features(encoded, batch.words).float()

    def scores(self, encoded: Encoded, batch: TaggingBatch) -> Tensor:
        """Return the scores of each word, `[W, C]` float32; with a CRF they are its input."""
        x = self.features(encoded, batch.words)  # [W, F]
        if isinstance(self.network, TagLm):
            assert batch.words is not None
            layer_0 = encoded.layers[0].index_select(0, batch.words)
            x = self.network(batch.texts, layer_0.float(), x.float(), batch.counts)
        elif self.network is not None:
            x = self.network(x, batch.counts)
        scores: Tensor = self.classifier(self.dropout(x))
        return scores

    def decode(self, scores: Tensor, batch: TaggingBatch) -> Tensor:
        """Return the tag of each word, `[W]` int64: the one with the largest score, or on the best
        path.
        """
        if self.crf is None:
            return scores.argmax(1)
        return self.crf.decode(scores, batch.counts)

    def probabilities(self, scores: Tensor, batch: TaggingBatch) -> Tensor:
        """Return the probability of each tag for each word, `[W, C]` float32, without gradient."""
        if self.crf is None:
            return scores.detach().float().softmax(1)
        return self.crf.probabilities(scores, batch.counts)

    def forward(self, encoded: Encoded, batch: TaggingBatch) -> Loss:
        """Return the loss summed over the words of a batch."""
        labels = batch.labels
        assert labels is not None
        scores = self.scores(encoded, batch)
        if self.crf is None:
            total = F.cross_entropy(scores, labels, self.class_weights, reduction="sum")
        else:
            total = -self.crf.log_likelihood(scores, labels, batch.counts).sum()
        correct = (self.decode(scores.detach(), batch) == labels).sum()
        return Loss(total, len(labels), correct)


def decode_tagging(
    task: TaggingTask,
    example: TaggingExample,
    probabilities: npt.NDArray[np.floating[Any]],
    labels: npt.NDArray[np.integer[Any]],
) -> TaggingPrediction:
    """Return the tags and entities of a sentence of W words.

    Entities are given in characters if the text and the words' offsets are known, otherwise in
    words. Tags that break the scheme are read as conlleval reads them; without a scheme, there are
    no entities.

    Args:
        probabilities: [W, C], the probability of every tag for each word.
        labels: [W], the index of each word's tag; with a CRF it is not always the most probable
            one.
    """
    tags = tuple(task.labels[number] for number in labels)
    scores = probabilities[np.arange(len(tags)), labels].tolist()
    entities = []
    for start, stop, label in chunks(tags) if task.scheme != "none" else ():
        score = sum(scores[start:stop]) / (stop - start)
        first, last = start, stop
        if example.text is not None and example.offsets is not None:
            first, last = example.offsets[start][0], example.offsets[stop - 1][1]
        entities.append(Entity(label, first, last, example.read(start, stop), score))
    return TaggingPrediction(example.words, tags, tuple(scores), tuple(entities), example.offsets)


class EntityCounts:
    """Counts of right, predicted and true entities of each sentence.

    `gold` and `predicted` are the tags of E sentences, of the same length in both.
    """

    def __init__(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
        pairs = [(set(chunks(a)), set(chunks(b))) for a, b in zip(gold, predicted, strict=True)]
        self.types = tuple(sorted({kind for pair in pairs for one in pair for *_, kind in one}))
        """The C types of entity in gold or predicted, in alphabetical order."""
        entities = [(true & chosen, chosen, true) for true, chosen in pairs]
        counts = [
            Counter(kind for of_sentence in side for *_, kind in of_sentence)
            for side in zip(*entities)  # noqa: B905
        ]
        by_type = [[of_side[kind] for kind in self.types] for of_side in counts]
        self.by_type: Float64s = np.array(by_type, np.float64).reshape(3, -1)
        """Right, predicted and true entities of each type, [3, C]."""
        words = [(sum(map(eq, *tags)), len(tags[0])) for tags in zip(gold, predicted, strict=True)]
        parts = [[*map(len, sets), *right] for sets, right in zip(entities, words, strict=True)]
        self.parts: Float64s = np.array(parts, np.float64)
        """Right, predicted and true entities, right words and all words, [E, 5]."""

    @property
    def statistic(self) -> Statistic:
        """The statistic of `precision`, `recall`, `f1` of entities and `accuracy` of words'
        tags.
        """

        def formula(sums: Float64s) -> Mapping[str, Float64s]:
            hits, chosen, true, right, words = sums.T
            f1 = f1_of(hits, chosen, true)
            scores = {"precision": ratio(hits, chosen), "recall": ratio(hits, true), "f1": f1}
            return scores | {"accuracy": ratio(right, words)}

        return of_sums(self.parts, formula)


def _show(task: TaggingTask, example: TaggingExample, tags: Sequence[str]) -> str:
    """Return the tags, or the entities that they mark: "ORG European Union; LOC Brussels"."""
    if task.scheme == "none":
        return " ".join(tags)
    return "; ".join(f"{kind} {example.read(start, end)}" for start, end, kind in chunks(tags))


_BYTE_SIZE, _FILTERS, _WIDTH, _MOST_BYTES = 25, ((3, 60),), 30, 50


def _sentences(examples: Sequence[Example]) -> Sequence[TaggingExample]:
    return cast(Sequence[TaggingExample], examples)


class TaggingKind(Kind[TaggingTask, TaggingExample, TaggingInstance, TaggingPrediction]):
    """Tagging: a label for each word of a text."""

    name = "tagging"
    task_class = TaggingTask
    prediction = TaggingPrediction
    reader = TAGS
    example = TaggingExample
    fields = (("words", "tags"),)
    inputs = ("words",)
    expected_input = "a text, or a list of words"
    scores_tokens = True
    linear = True
    graph = ScoreGraph(
        lambda inputs: TaggingBatch(
            inputs,
            rows=(0,),
            words=torch.arange(inputs.sequences.total),
            counts=(inputs.sequences.total,),
        ),
        of_tokens=True,
    )
    has_baselines = True

    def source(self, example: TaggingExample) -> Hashable:
        """Return the number of the sentence's document."""
        return example.document

    def usual_length(self, options: TaggingOptions) -> int | None:
        return DOCUMENT_LENGTH if options.context == "document" else None

    def is_linear(self, options: TaggingOptions) -> bool:
        return not options.crf

    def make_task(
        self,
        options: TaggingOptions,
        read: Read,
        examples: Sequence[TaggingExample],
        **common: Any,
    ) -> TaggingTask:
        return TaggingTask(options=options, scheme=read.scheme, **common)

    def class_weights(self, task: TaggingTask, examples: Sequence[TaggingExample]) -> Tensor | None:
        if task.options.class_weights == "none":
            return None
        return balanced_weights(task.labels, examples)

    def parse_input(self, given: Any) -> TaggingExample | None:
        """Return a text, or a list of words, as an example; None if the input is neither."""
        if not isinstance(given, str | Mapping):
            given = {"words": given}
        values = input_values(given, TaggingExample, ("text", "words"))
        if values is None:
            return None
        text, words = values
        if words is None:
            return text_example(text, 0) if are_texts(text) else None
        words = tuple(words)
        return TaggingExample(words) if words and are_texts(*words) else None

    def row(self, task: TaggingTask) -> RowColumns:
        return RowColumns(("text",), "a text")

    def make(
        self, task: TaggingTask, tokenizer: Tokenizer, examples: Sequence[TaggingExample]
    ) -> tuple[list[TaggingInstance], Lengths]:
        """Return one instance for each window; those of a document are adjacent. Each word is
        tagged in exactly one of them.
        """
        tokens = _tokens(tokenizer, examples)
        framing = tokenizer.framing
        before = framing.inside(0)[0].start
        numbers = {label: number for number, label in enumerate(task.labels)}
        room = task.max_length - framing.special_tokens()
        instances: list[TaggingInstance] = []
        lengths = Lengths()
        for document in _documents(task, examples):
            # The tokens of one document, end to end, with the start of each word and each sentence.
            counts = np.array([len(tokens[word]) for e in document for word in e.words], np.int64)
            ids = array("i", [id_ for e in document for word in e.words for id_ in tokens[word]])
            begins = [0, *np.cumsum(counts).tolist()]
            ends = [0, *accumulate(len(example.words) for example in document)]  # words
            bounds = [begins[word] for word in ends]
            for first, last in _runs(bounds, room):
                spans = _windows(bounds[first], bounds[last], len(ids), room, task.stride)
                read = document[first:last]
                words = [word for example in read for word in example.words]
                tags = [numbers[tag] for example in read for tag in example.tags or ()]
                starts = begins[ends[first] : ends[last]]
                windows = most_context(spans, starts)
                for window, (a, b) in enumerate(
                    spans
                ):  # several windows only for a single sentence
                    tagged = slice(*np.searchsorted(windows, [window, window + 1]).tolist())
                    if tagged.start == tagged.stop and words:
                        continue  # the middle of a very long word
                    sizes = tuple(len(e.words) for e in read)
                    instances.append(
                        TaggingInstance(
                            lengths.examples + first,
                            (array("i", framing.one(ids[a:b])),),
                            (segments_of(framing, b - a),),
                            None if any(e.tags is None for e in read) else tags[tagged],
                            words=tuple(start - a + before for start in starts[tagged]),
                            texts=tuple(words[tagged]),
                            counts=sizes if len(spans) == 1 else (tagged.stop - tagged.start,),
                            first_word=tagged.start,
                        )
                    )
                lengths.windows += len(spans)
                lengths.in_windows += len(spans) > 1
            lengths.tokens += [
                stop - start + framing.special_tokens() for start, stop in pairwise(bounds)
            ]
            lengths.examples += len(document)
        return instances, lengths

    def collate(
        self,
        task: TaggingTask,
        instances: Sequence[TaggingInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> TaggingBatch:
        """Return the batch of some instances; its rows are all their sentences."""
        windows = windows_of(instances)
        starts = np.empty_like(windows.lengths)
        starts[windows.order] = windows.lengths.cumsum() - windows.lengths
        words = np.repeat(starts, [len(each.words) for each in instances])
        words += flat(each.words for each in instances)
        labels = torch.from_numpy(flat(each.label or () for each in instances))
        return TaggingBatch(
            windows.inputs,
            rows=tuple(each.example + n for each in instances for n in range(len(each.counts))),
            labels=labels if with_labels else None,
            words=torch.from_numpy(words),
            counts=tuple(chain.from_iterable(each.counts for each in instances)),
            first_words=tuple(each.first_word for each in instances for _ in each.counts),
            texts=tuple(chain.from_iterable(each.texts for each in instances)),
        )

    def head(self, spec: EncoderSpec, task: TaggingTask) -> Head[TaggingBatch]:
        return Tagger(spec, task)

    def decode(
        self,
        task: TaggingTask,
        examples: Sequence[TaggingExample],
        instances: Sequence[TaggingInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, TaggingPrediction]]:
        """Yield the tags of each sentence as soon as all its parts are scored."""
        held: dict[int, dict[int, tuple[Float32s, Int64s]]] = {}  # parts of long sentences
        for batch, head, scores in scored:
            assert isinstance(head, Tagger)
            probabilities = head.probabilities(scores, batch).cpu().numpy()
            tags = head.decode(scores, batch).cpu().numpy()
            ends = accumulate(batch.counts)
            for row, first, count, end in zip(
                batch.rows, batch.first_words, batch.counts, ends, strict=True
            ):
                example, words = examples[row], slice(end - count, end)
                parts = held.setdefault(row, {})
                parts[first] = probabilities[words], tags[words]
                if sum(len(scored_tags) for _, scored_tags in parts.values()) == len(example.words):
                    whole = zip(*(parts[first] for first in sorted(parts)), strict=True)
                    yield row, decode_tagging(task, example, *map(np.concatenate, whole))
                    del held[row]

    def read_predictions(self, path: str, read: Read) -> list[TaggingPrediction]:
        """Read predicted tags; the file must have the same sentences as the labelled file."""
        predicted = read_examples(path, TAGS, options=ReadOptions(as_scheme="none")).examples
        check_count(path, len(predicted), read.examples)
        predictions: list[TaggingPrediction] = []
        for each, example in zip(_sentences(predicted), _sentences(read.examples), strict=True):
            if each.words != example.words:
                raise DataError(
                    f"{path}, line {each.line}: the words are {listed(each.words, 5)}, those of "
                    f"the labelled file, line {example.line}, {listed(example.words, 5)}; expected "
                    "the same sentences"
                )
            tags = each.tags or ()
            predictions.append(TaggingPrediction(each.words, tags, (1.0,) * len(tags), ()))
        return predictions

    def metric_names(self, task: TaggingTask) -> tuple[str, ...]:
        """Return the names of the metrics of entities and the accuracy of words; without a scheme,
        the names of the metrics of words.
        """
        if task.scheme == "none":
            return "accuracy", "macro_f1"
        return "f1", "precision", "recall", "accuracy"

    def metrics(
        self,
        task: TaggingTask,
        examples: Sequence[TaggingExample],
        predictions: Sequence[TaggingPrediction],
    ) -> Metrics:
        """Return the metrics of predicted tags. A predicted tag that the task does not have is
        wrong, not an error.
        """
        gold = [cast("tuple[str, ...]", e.tags) for e in examples]
        predicted = [p.tags for p in predictions]
        right = [[*map(eq, *pair)] for pair in zip(gold, predicted, strict=True)]
        wrong = {
            row: max(s for s, ok in zip(predictions[row].scores, oks, strict=True) if not ok)
            for row, oks in enumerate(right)
            if not all(oks)
        }
        confidence = np.array([s for p in predictions for s in p.scores])
        calibrated = calibration(
            confidence, np.array([ok for oks in right for ok in oks], np.bool_)
        )
        flat = [[tag for tags in side for tag in tags] for side in (gold, predicted)]
        names = tuple(sorted({*flat[0], *flat[1]}))
        numbers = {tag: number for number, tag in enumerate(names)}
        true_tags, chosen_tags = (np.array([numbers[t] for t in side], np.int64) for side in flat)
        if task.scheme == "none":  # each word has a tag, and there are no entities: parts of speech
            parts = class_counts(true_tags, chosen_tags, len(names), [len(tags) for tags in gold])
            main, statistic = "accuracy", class_statistic(parts, only=("accuracy", "macro_f1"))
            classes = per_class(parts.sum(axis=0), names)
            degenerate = only_prediction(flat[0], flat[1], str)
        else:
            entities = EntityCounts(gold, predicted)
            main, statistic = "f1", entities.statistic
            classes = per_class(entities.by_type, entities.types)
            _, chosen, true = entities.by_type.sum(1)
            degenerate = f"predicts no entity; there are {true:.0f}" if true and not chosen else ""
        return Metrics(
            main=main,
            statistic=statistic,
            errors=wrong,
            describe=lambda row: (
                _show(task, examples[row], gold[row]),
                _show(task, examples[row], predicted[row]),
            ),
            degenerate=degenerate,
            per_class=classes,
            confusion=confusion(true_tags, chosen_tags, names),
            calibration=calibrated,
        )

    def gold(self, example: TaggingExample) -> tuple[str, ...] | None:
        return example.tags

    def shown(self, example: TaggingExample) -> tuple[str | None, str | None]:
        return example.read() if example.text is None else example.text, None

    def baselines(
        self,
        task: TaggingTask,
        train: Sequence[TaggingExample],
        dev: Sequence[TaggingExample],
        seed: int,
        simplest: bool,
    ) -> Mapping[str, Sequence[TaggingPrediction]]:
        return {
            name: [
                decode_tagging(task, example, *guess)
                for example, guess in zip(dev, guesses, strict=True)
            ]
            for name, guesses in tag_baselines(task, train, dev, seed, simplest).items()
        }
