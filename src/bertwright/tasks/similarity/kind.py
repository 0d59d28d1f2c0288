"""Similarity: sentence vectors whose cosine says how similar two texts are.

**Instances.** Each text is a sequence of its own, [CLS] A [SEP], after its prompt if there is one.
A text that is longer than a window is truncated, as sentence-transformers does.

**Head.** The tokens of the encoder's last layer are pooled; dense layers follow if the model has
them (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019, section 3). The network is siamese: the
texts of a pair are encoded by the same encoder, one by one. The losses are in
`tasks/similarity/losses.py`; they depend on all vectors of a step (`nn/objective.py`,
`StepObjective`).

**Predictions.** The prediction is the cosine of the two vectors. Pairs without a score or class are
evaluated as a search, by the rank of the second text among all second texts and hard negatives of
the file. Other second texts of the same first text, and the first text itself, are left out of the
ranking. Half of the texts that are equally near count as nearer.

Letters: B windows, E examples, R texts, W the width of a vector, M texts that are searched, T texts
of an example.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.arrays import Bools, Float32s, Float64s, Int64s
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.vectors import poolings_of
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import SimilarityExample
from bertwright.labelled.similarities import PAIRS
from bertwright.nn.encoder import Encoded, EncoderSpec
from bertwright.nn.objective import RowLosses, StepObjective
from bertwright.rows.read import MemoryRows
from bertwright.tasks.batch import TaskBatch, flat, windows_of
from bertwright.tasks.head import Head, text_vectors
from bertwright.tasks.instances import Instance, Lengths, make_windows, tokenized, whole_length
from bertwright.tasks.kind import (
    Kind,
    RowColumns,
    Scored,
    one_window,
)
from bertwright.tasks.lexical import Scorer, bm25_scorer, tfidf_cosines, tfidf_scorer
from bertwright.tasks.metrics import DECIMALS, Metrics, number_statistic, of_sums, ratio
from bertwright.tasks.predictions import SimilarityPrediction, read_number
from bertwright.tasks.similarity.corpus import corpus_rows
from bertwright.tasks.similarity.forms import form_of, is_positive, to_train
from bertwright.tasks.similarity.losses import FIRST, HARD, SECOND, similarity_loss
from bertwright.tasks.similarity.options import (
    Activation,
    SimilarityObjective,
    SimilarityOptions,
    SimilarityTask,
)
from bertwright.text.tokenizer.tokenizer import Tokenizer

_BLOCK = 1 << 24
"""The most cosines that are in memory at once."""
_CONSTANT = 1e-4
"""Cosines are constant if their standard deviation is below this."""
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "sigmoid": torch.sigmoid,
}
RANKED = ("ndcg_at_10", "mrr", "recall_at_1", "recall_at_10", "triplet_accuracy")
"""The metrics of pairs without a score or class."""


@dataclass(frozen=True)
class SimilarityInstance(Instance):
    """The texts of an example, one window for each: the first, the second, the hard negatives."""

    label: float | None = None
    keys: tuple[int, ...] = ()
    """A number for each text, equal for equal texts."""
    targets: tuple[Float32s, ...] = ()
    """The teacher's vectors of the texts, if there is a teacher."""


def _key(text: str) -> int:
    """Return a number below 2^52, which a float64 holds, that is equal for equal texts."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest())


@dataclass(frozen=True)
class SimilarityBatch(TaskBatch):
    """A batch of examples of several texts; the texts of all of them are numbered consecutively."""

    labels: Tensor | None = None
    """[E] float64: the score of each example."""
    owners: Tensor | None = None
    """[B] int64: the index of the text that each window is."""
    counts: tuple[int, ...] = ()
    """[E]: the number of texts of each example."""
    keys: tuple[int, ...] = ()
    """A number for each text, equal for equal texts."""
    targets: Tensor | None = None
    """With a teacher, float32: the teacher's vector of each text, one in each row."""


class SimilarityHead(StepObjective[SimilarityBatch], Head[SimilarityBatch]):
    """Head that computes a vector for each text. The loss compares all texts of a step."""

    task: SimilarityTask

    def __init__(self, spec: EncoderSpec, task: SimilarityTask) -> None:
        """Build the head."""
        super().__init__()
        self.task, self.mix = task, None
        width = spec.width * len(poolings_of(task.head.pooling))
        self.dense = nn.ModuleList()
        for layer in task.dense:
            self.dense.append(nn.Linear(width, layer.size, bias=layer.bias))
            width = layer.size
        dimensions = task.dimensions
        if dimensions is not None and dimensions > width:
            raise ConfigError(
                f"dimensions is {dimensions}, and a vector of this model has {width} numbers"
            )
        width = dimensions or width
        for size in task.options.sizes:
            if size > width:
                raise ConfigError(
                    f"sizes has {size}, and a vector of this model has {width} numbers"
                )

    def count(self, batch: SimilarityBatch) -> int:
        """Return E, the number of examples in a batch."""
        return len(batch.counts)

    def positions(self, batch: SimilarityBatch) -> Tensor | None:
        """Return the positions of the last layer that are pooled; None for all."""
        pooling, sequences = self.task.head.pooling, batch.inputs.sequences
        if pooling == "cls":
            return sequences.first
        return sequences.last if pooling == "last" else None

    def vectors(self, encoded: Encoded, batch: SimilarityBatch) -> Tensor:
        """Return the vector of each text, `[R, W]` float32, example by example."""
        positions = self.positions(batch)
        if positions is not None:
            x = encoded.at(positions).float()  # [B, H]
        else:
            ids = batch.inputs.ids
            x = text_vectors(encoded.last, encoded.sequences, None, self.task.head, ids)
        with torch.autocast(x.device.type, enabled=False):
            for layer, config in zip(self.dense, self.task.dense, strict=True):
                x = ACTIVATIONS[config.activation](layer(x))
        assert batch.owners is not None
        x = x[:, : self.task.dimensions]
        return torch.zeros_like(x).index_copy(0, batch.owners, x)

    def scores(self, encoded: Encoded, batch: SimilarityBatch) -> Tensor:
        """Return the vectors, `[R, W]` float32; `decode` compares them."""
        return self.vectors(encoded, batch)

    def facts(self, batch: SimilarityBatch) -> Tensor:
        """Return the role, key and label of each text, `[R, 3]`.

        If there is a teacher, its vectors follow in further columns.
        """
        assert batch.labels is not None
        roles = flat([FIRST, SECOND, *[HARD] * (count - 2)] for count in batch.counts)
        labels = batch.labels.double().cpu().repeat_interleave(torch.tensor(batch.counts))
        keys = torch.tensor(batch.keys, dtype=torch.float64)
        facts = torch.stack([torch.from_numpy(roles).double(), keys, labels], 1)
        return facts if batch.targets is None else torch.cat([facts, batch.targets.cpu()], 1)

    def step_loss(self, vectors: Tensor, facts: Tensor) -> RowLosses:
        """Return the losses of the examples of a step."""
        return similarity_loss(vectors, facts, self.task)


def compare(
    task: SimilarityTask, examples: Sequence[SimilarityExample], vectors: Mapping[int, Float32s]
) -> Iterator[tuple[int, SimilarityPrediction]]:
    """Yield the cosine of each example, and in an evaluation of pairs the rank of its second text.

    Args:
        task: the task, whose form decides whether ranks are computed.
        vectors: the unit vectors of the texts of each example, `[T, W]`, by its index.
    """
    ranks: dict[int, int] = {}
    searched = [row for row in vectors if examples[row].label is not None]
    if task.form == "pairs" and searched:
        by_text = {
            text: vector
            for row in searched
            for text, vector in zip(_candidates(examples[row]), vectors[row][1:], strict=True)
        }
        second = np.stack([*by_text.values()])
        first = np.stack([vectors[row][0] for row in searched])
        found = rank_second(
            [examples[row] for row in searched],
            list(by_text),
            lambda part: first[part] @ second.T,
        )
        ranks = dict(zip(searched, found.tolist(), strict=True))
    for row, own in vectors.items():
        cosines = own[1:] @ own[0]
        margin = float(cosines[0] - cosines[1:].max()) if len(cosines) > 1 else None
        value = min(1.0, max(-1.0, float(cosines[0])))
        yield row, SimilarityPrediction(value, ranks.get(row), margin)


def _candidates(example: SimilarityExample) -> tuple[str, ...]:
    return (example.text2, *example.negatives)


def rank_second(
    examples: Sequence[SimilarityExample],
    texts: Sequence[str],
    score: Callable[[slice], Float32s],
) -> Int64s:
    """Return the rank of each example's second text among M texts, from 1.

    Args:
        examples: E examples, whose second texts are among the texts.
        texts: the M different texts that are searched.
        score: returns the scores of all texts for a slice of the examples, `[e, M]`.
    """
    index = {text: number for number, text in enumerate(texts)}
    right: dict[str, set[int]] = {}
    for example in examples:
        right.setdefault(example.text, set()).add(index[example.text2])
    own = np.array([index[example.text2] for example in examples])
    ranks = np.empty(len(examples), np.int64)
    at_once = max(1, _BLOCK // max(1, len(texts)))
    for start in range(0, len(examples), at_once):
        part = slice(start, start + at_once)
        scores = np.array(score(part), np.float32).round(DECIMALS)
        chosen = own[part]
        best = scores[np.arange(len(scores)), chosen].copy()
        for row, example in enumerate(examples[part]):
            left_out = [*right[example.text], index.get(example.text, chosen[row])]
            scores[row, left_out] = -np.inf
        ahead, level = (scores > best[:, None]).sum(1), (scores == best[:, None]).sum(1)
        ranks[part] = 1 + ahead + level // 2
    return ranks


def _search_metrics(predictions: Sequence[SimilarityPrediction], degenerate: str) -> Metrics:
    """Return recall, mean reciprocal rank and nDCG of pairs, each with one right text."""
    if any(each.rank is None for each in predictions):
        raise DataError(
            "the file has pairs that belong together and no label, which are evaluated by a "
            "search among all texts; predictions of single pairs do not say that"
        )
    ranks = np.array([each.rank for each in predictions], dtype=np.float64)
    ones = np.ones(len(ranks))
    parts = [np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0), 1 / ranks, ranks <= 1, ranks <= 10]
    margins = np.array([math.nan if each.margin is None else each.margin for each in predictions])
    has_hard = ~np.isnan(margins)
    parts += [has_hard & (margins > 0), has_hard, ones]
    names = RANKED if has_hard.any() else RANKED[:-1]

    def formula(sums: Float64s) -> Mapping[str, Float64s]:
        total = sums[:, -1]
        found = {name: ratio(sums[:, n], total) for n, name in enumerate(RANKED[:-1])}
        found["triplet_accuracy"] = ratio(sums[:, 4], sums[:, 5])
        return {name: found[name] for name in names}

    return Metrics(
        main=RANKED[0],
        statistic=of_sums(np.stack(parts, axis=1).astype(np.float64), formula),
        errors={int(row): float(1 - 1 / ranks[row]) for row in np.flatnonzero(ranks > 1)},
        describe=lambda row: ("rank 1", f"rank {ranks[row]:.0f}"),
        degenerate=degenerate,
    )


def _label_metrics(gold: Bools, cosines: Float64s, degenerate: str) -> Metrics:
    """Return average precision, and the accuracy and F1 of the threshold that is best for each."""
    order = np.argsort(-cosines, kind="stable")
    ordered = cosines[order]
    last = np.searchsorted(-ordered, -ordered, side="right") - 1  # of equal cosines
    hits = gold[order].astype(np.float64)

    def statistic(counts: Float64s) -> Mapping[str, Float64s]:
        weights = counts[:, order]
        right = weights * hits
        above, of_them = weights.cumsum(1)[:, last], right.cumsum(1)[:, last]
        precision = ratio(of_them, above)
        return {"average_precision": ratio((precision * right).sum(1), right.sum(1))}

    above, of_them = np.arange(1, len(hits) + 1)[last], hits.cumsum()[last]
    accuracies = (of_them + (~gold).sum() - (above - of_them)) / len(gold)
    f1 = 2 * of_them / (above + gold.sum())
    best = int(accuracies.argmax())
    none = float((~gold).mean())  # a threshold above all cosines
    following = ordered[ordered < ordered[best]]
    threshold = float((ordered[best] + (following[0] if len(following) else -1)) / 2)
    if none > accuracies[best]:
        threshold = 1.0
    predicted = cosines > threshold
    wrong = np.flatnonzero(predicted != gold)
    return Metrics(
        main="average_precision",
        statistic=statistic,
        errors={int(row): float(abs(cosines[row] - threshold)) for row in wrong},
        describe=lambda row: (
            "similar" if gold[row] else "not similar",
            f"cosine {cosines[row]:.3f}",
        ),
        degenerate=degenerate if 0 < gold.sum() < len(gold) else "",
        best={"accuracy": max(none, float(accuracies[best])), "f1": float(f1.max())},
        tuned={"threshold": threshold},
    )


def _of_part(score: Scorer, queries: Sequence[str], part: slice) -> Float32s:
    return score(queries[part])


class SimilarityKind(
    Kind[SimilarityTask, SimilarityExample, SimilarityInstance, SimilarityPrediction]
):
    """Similarity of two texts by their vectors."""

    name = "similarity"
    task_class = SimilarityTask
    prediction = SimilarityPrediction
    reader = PAIRS
    example = SimilarityExample
    fields = (("text", "text2"), ("text", "text2", "label"))
    inputs = ("text", "text2")
    expected_input = "two texts"
    vectors = True
    correlates = True
    has_baselines = True

    def source(self, example: SimilarityExample) -> Hashable:
        """Return the document of an example, or its first text."""
        return example.document or example.text

    def rows(
        self, files: TaskFilesConfig, options: SimilarityOptions, say: Callable[[str], None]
    ) -> MemoryRows | None:
        """Return the pairs of a corpus; None: there is a labelled file."""
        if not options.corpus:
            return None
        if files.train:
            raise ConfigError("train and corpus are both given; leave one of them out")
        return corpus_rows(options, files.dev is not None, say)

    def row(self, task: SimilarityTask) -> RowColumns:
        return RowColumns((task.text_column or "text", task.text2_column or "text2"), "two texts")

    def prepare(
        self, task: SimilarityTask, examples: Sequence[SimilarityExample]
    ) -> tuple[SimilarityTask, list[SimilarityExample], list[str]]:
        """Return the task with its objective, the examples to train on, and messages."""
        wanted: SimilarityObjective | None = None
        options = task.options
        if options.objective != "auto":
            wanted = options.objective
        if any(example.targets for example in examples):
            wanted = "teacher"
        made = to_train(examples, wanted)
        prompts = dict(task.prompts)
        for name, text in (("query", options.prompt), ("document", options.prompt2)):
            if text is not None:
                prompts[name] = text
        # what was trained on is read, and a model that is passed on has no paths of its own run
        consumed = replace(options, sizes=tuple(sorted(options.sizes)), corpus=(), teacher=None)
        task = replace(
            task,
            labels=(),
            options=consumed,
            objective=made.objective,
            scores=made.scores,
            prompts=tuple(prompts.items()),
        )
        return task, made.examples, made.notes

    def make(
        self, task: SimilarityTask, tokenizer: Tokenizer, examples: Sequence[SimilarityExample]
    ) -> tuple[list[SimilarityInstance], Lengths]:
        """Return one instance for each example.

        `Lengths` counts the tokens of an example's longest text.
        """
        first_prompt, second_prompt = task.first_prompt, task.second_prompt

        def texts_of(example: SimilarityExample) -> dict[str, str]:
            hard = {f"negative {n}": second_prompt + t for n, t in enumerate(example.negatives)}
            pair = {"text": first_prompt + example.text, "text2": second_prompt + example.text2}
            return pair | hard

        framing = tokenizer.framing
        instances, lengths = [], Lengths()
        for number, example, texts in tokenized(tokenizer, examples, texts_of):
            made = [make_windows(task, framing, ids, most=1) for ids in texts]
            label = example.label if isinstance(example.label, float) else None
            if isinstance(example.label, str):
                label = float(is_positive(example))
            instances.append(
                SimilarityInstance(
                    number,
                    tuple(ids for windows, *_ in made for ids in windows),
                    tuple(ids for _, windows, _ in made for ids in windows),
                    label,
                    keys=tuple(map(_key, (example.text, example.text2, *example.negatives))),
                    targets=example.targets,
                )
            )
            longest = max(whole_length(framing, ids, None) for ids in texts)
            lengths.add(longest, len(made), max(lost for *_, lost in made), len(made))
        return instances, lengths

    def collate(
        self,
        task: SimilarityTask,
        instances: Sequence[SimilarityInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> SimilarityBatch:
        windows = windows_of(instances)
        labels = None
        if with_labels:
            labels = torch.tensor([each.label for each in instances], dtype=torch.float64)
        targets = None
        if with_labels and task.objective == "teacher":
            stacked = np.stack([vector for each in instances for vector in each.targets])
            targets = torch.from_numpy(stacked)
        return SimilarityBatch(
            windows.inputs,
            rows=tuple(rows),
            labels=labels,
            targets=targets,
            owners=torch.from_numpy(windows.order),
            counts=tuple(len(each.ids) for each in instances),
            keys=tuple(flat(each.keys for each in instances).tolist()),
        )

    def room(self, task: SimilarityTask) -> str:
        return one_window(task)

    def head(self, spec: EncoderSpec, task: SimilarityTask) -> Head[SimilarityBatch]:
        return SimilarityHead(spec, task)

    def decode(
        self,
        task: SimilarityTask,
        examples: Sequence[SimilarityExample],
        instances: Sequence[SimilarityInstance],
        scored: Iterator[Scored],
    ) -> Iterator[tuple[int, SimilarityPrediction]]:
        """Yield the prediction of each example; see `compare`."""
        vectors: dict[int, Float32s] = {}
        for batch, _, x in scored:
            unit = nn.functional.normalize(x, dim=1).cpu()
            for row, part in zip(batch.rows, torch.split(unit, list(batch.counts)), strict=True):
                vectors[row] = part.numpy()
        yield from compare(task, examples, vectors)

    def parse_prediction(
        self, value: Any, example: SimilarityExample, where: str
    ) -> SimilarityPrediction:
        return SimilarityPrediction(read_number(value, where))

    def evaluated(
        self, task: SimilarityTask, examples: Sequence[SimilarityExample]
    ) -> SimilarityTask:
        """Return the task with the form of the examples, which decides the metrics."""
        return replace(task, form=form_of(examples, task.scores))

    def metric_names(self, task: SimilarityTask) -> tuple[str, ...]:
        names = {
            "pairs": RANKED,
            "labels": ("average_precision", "accuracy", "f1"),
            "scores": ("spearman", "pearson"),
        }
        return names[task.form]

    def metrics(
        self,
        task: SimilarityTask,
        examples: Sequence[SimilarityExample],
        predictions: Sequence[SimilarityPrediction],
    ) -> Metrics:
        """Return the metrics for the form of the examples (`SimilarityTask.form`)."""
        # equal texts differ by rounding errors, which must not be ranked
        cosines = np.array([each.value for each in predictions], dtype=np.float64).round(DECIMALS)
        if not np.isfinite(cosines).all():
            row = int(np.flatnonzero(~np.isfinite(cosines))[0])
            raise DataError(f"prediction {row + 1} is {cosines[row]}; expected a number")
        degenerate = ""
        if len(cosines) > 1 and cosines.std() < _CONSTANT:
            degenerate = f"predicts the cosine {cosines.mean():.4f} for all {len(cosines)} examples"
        form = task.form
        if form == "pairs":
            return _search_metrics(predictions, degenerate)
        if form == "labels":
            gold = np.array([is_positive(each) for each in examples])
            return _label_metrics(gold, cosines, degenerate)
        scores = np.array([cast(float, each.label) for each in examples])
        all_metrics = number_statistic(scores, cosines)
        names = ("spearman", "pearson")

        def statistic(counts: Float64s) -> Mapping[str, Float64s]:
            found = all_metrics(counts)
            return {name: found[name] for name in names}

        low, high = scores.min(), scores.max()
        scaled = (scores - low) / max(1e-9, high - low)
        return Metrics(
            main="spearman",
            statistic=statistic,
            errors=dict(enumerate(np.abs(scaled - cosines).tolist())),
            describe=lambda row: (f"{scores[row]:.4g}", f"cosine {cosines[row]:.3f}"),
            degenerate=degenerate if len(set(scores.tolist())) > 1 else "",
        )

    def gold(self, example: SimilarityExample) -> float | str | None:
        return example.label

    def shown(self, example: SimilarityExample) -> tuple[str | None, str | None]:
        return example.text, example.text2

    def baselines(
        self,
        task: SimilarityTask,
        train: Sequence[SimilarityExample],
        dev: Sequence[SimilarityExample],
        seed: int,
        simplest: bool,
    ) -> Mapping[str, Sequence[SimilarityPrediction]]:
        """Return predictions for `dev` by TF-IDF, and in an evaluation of pairs also by BM25."""
        first = [example.text for example in dev]
        if task.form != "pairs":
            cosines = tfidf_cosines(first, [example.text2 for example in dev])
            return {"tfidf_cosine": [SimilarityPrediction(value) for value in cosines.tolist()]}
        texts = list(dict.fromkeys(text for example in dev for text in _candidates(example)))
        found = {}
        for name, make in (("tfidf_cosine", tfidf_scorer), ("bm25", bm25_scorer)):
            ranks = rank_second(dev, texts, partial(_of_part, make(texts), first))
            found[name] = [SimilarityPrediction(0.0, rank) for rank in ranks.tolist()]
        return found
