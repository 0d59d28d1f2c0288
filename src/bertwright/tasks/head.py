"""The parts that task heads share.

Letters: B sequences (windows), N tokens in all, E examples, W words, C scores, H hidden, L layers
of the encoder, F width of a feature, R positions, K predicted tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.config.vectors import poolings_of
from bertwright.labelled.examples import Example, classes_of
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.features import Inside, LayerMix, pool
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.layers.recurrent import Lstm
from bertwright.nn.objective import Objective
from bertwright.nn.outputs.transform import DenseNorm
from bertwright.nn.sequences import Sequences
from bertwright.tasks.batch import TaskBatch

B = TypeVar("B", bound=TaskBatch)


class Head(Objective[B], Generic[B]):
    """An objective that also predicts. B is the class of its batches."""

    at_high_rates = ("network", "crf", "mix", "hidden")
    mix: LayerMix | None
    """Combines the layers that the head reads; None: the head reads the encoder's last layer."""
    before_scores: DenseNorm | None
    """The dense layer, activation and norm between the last layer and the scores; None: there are
    none.
    """

    def features(self, encoded: Encoded, positions: Tensor | None = None) -> Tensor:
        """Return the features of every token, `[N, F]`, or of those at `positions` `[R]`, `[R,
        F]`.
        """
        if self.mix is None:
            last = encoded.last if positions is None else encoded.at(positions)
            return last if self.before_scores is None else self.before_scores(last)
        mixed: Tensor = self.mix(encoded.layers)
        return mixed if positions is None else mixed.index_select(0, positions)

    def tie(self, encoder: Encoder) -> None:
        """Share weights with the encoder. A head that shares none does nothing."""

    def read(self, encoded: Encoded, batch: B) -> Tensor:
        """Return the vectors that a linear head scores: `[E, F]` of texts, or `[W, F]` of words.

        Only heads of kinds of task with `Kind.linear` have such vectors.
        """
        raise NotImplementedError(f"{type(self).__name__} is no linear head")

    def scores(self, encoded: Encoded, batch: B) -> Tensor:
        """Return float32 scores, in the form that `Kind.decode` reads."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")


class Parts(NamedTuple):
    """The modules between an encoder and a head's scores."""

    mix: LayerMix | None
    """Combines layers; None: the head reads the encoder's last layer."""
    network: Lstm | None
    width: int
    """The width of the vectors that are scored."""
    layers: tuple[int, ...] | None
    """The layers that are read, for `Objective.layers`."""


def make_before_scores(head: HeadConfig, spec: EncoderSpec) -> DenseNorm | None:
    """Return the dense layer, activation and norm that a head of tokens applies before its scores.

    The result is None unless the head is a linear layer over the encoder's last layer, and the
    encoder was published with them (`EncoderSpec.before_scores`).
    """
    if spec.before_scores is None or head.layers is not None or head.network != "linear":
        return None
    return DenseNorm(spec.before_scores)


def make_parts(head: HeadConfig, widths: Sequence[int]) -> Parts:
    """Return the parts of a head for an encoder whose layers 0 to L have these widths."""
    mix = None if head.layers is None else LayerMix(head.layers, len(widths) - 1)
    width = widths[-1] if mix is None else mix.width(widths)
    numbers = None if mix is None else mix.numbers
    if head.network != "bilstm":
        return Parts(mix, None, width, numbers)
    size = head.network_size
    return Parts(mix, Lstm(width, size, "both"), 2 * size, numbers)


def text_vectors(
    x: Tensor,
    sequences: Sequences,
    network: Lstm | None,
    head: HeadConfig,
    ids: Tensor | None = None,
) -> Tensor:
    """Return one vector for each window, pooled from the features of its tokens.

    With an LSTM, the vector is the maximum over its states, whatever the pooling (Conneau et al.
    2017, section 3.2.2). Without one, `head.pooling` decides.

    Args:
        x: `[N, F]`, features of tokens.
        sequences: the windows' lengths.
        network: the LSTM, if there is one.
        head: the configuration, which names the pooling.
        ids: `[N]`, the ids of the tokens, which are needed if `head.unknown` is set. The vector of
            a window with only unknown words is zeros, as in `embed`.

    Returns:
        `[B, F]`, or `[B, 3 F]` for three poolings, or `[B, 2 size]` with an LSTM; float32.
    """
    if network is not None:
        return pool(network(x, sequences.lengths), sequences, "max")
    leaves_out = head.frame != (0, 0) or head.unknown is not None
    if not leaves_out or head.pooling in ("cls", "last"):
        return pool(x, sequences, head.pooling)
    if head.unknown is None or ids is None:
        inside = sequences.once(("inside", head.frame), lambda: Inside(sequences, head.frame))
        return pool(inside(x), inside.sequences, head.pooling)
    inside = Inside(sequences, head.frame, (ids != head.unknown).cpu().numpy())
    pooled = pool(inside(x), inside.sequences, head.pooling)
    if inside.empty:
        pooled[inside.empty] = 0
    return pooled


class Scorer(nn.Linear):
    """A linear layer that is computed in float32, even under autocast.

    In bfloat16, scores would have 8 significant bits: regressions of 3.01 and 3.02 would be equal.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the scores in float32: `[..., F]` -> `[..., C]`."""
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input.float(), self.weight.float(), self.bias.float())


def balanced_weights(
    labels: Sequence[str], examples: Sequence[Example], several: bool = False
) -> Tensor:
    """Return a weight for each label, `[C]`, which is proportional to the inverse of its frequency.

    The weights have a mean of 1 over the examples, so that the scale of the loss stays the same. If
    an example may have `several` labels, it counts for all of them.
    """
    counts = Counter(label for example in examples for label in classes_of(example))
    inverse = torch.tensor([1 / max(1, counts[label]) for label in labels])
    often = [1 if several else counts[label] for label in labels]
    return inverse * sum(often) / (inverse @ torch.tensor(often, dtype=inverse.dtype))


class TextHead(Head[B]):
    """Scores a whole window.

    The score is computed by the encoder's pooler (BERT's over [CLS]), dropout and a linear layer;
    or from other layers, pooled or read by an LSTM (`HeadConfig`). ULMFiT's head has a hidden layer
    before the scores (Howard and Ruder 2018, section 3.3). Its batch normalization is left out,
    because it would make the gradient depend on how a batch is split.
    """

    def __init__(self, spec: EncoderSpec, task: TaskConfig, scores: int) -> None:
        """Build the head.

        Args:
            spec: the specification of the encoder. If it has no pooler, its last layer is pooled.
            task: the task, whose `head` says which layers are read and how they are pooled.
            scores: the number of scores of each window.
        """
        super().__init__()
        self.task = task
        self.before_scores = None
        self.mix, self.network, width, self.layers = make_parts(task.head, spec.widths)
        self.reads_pooled = spec.pooled and self.mix is None and self.network is None
        self.reads_last = (
            not self.reads_pooled
            and self.mix is None
            and self.network is None
            and task.head.pooling == "last"
        )
        if not self.reads_pooled and self.network is None:
            width *= len(poolings_of(task.head.pooling))
        width *= 4 if task.head.compares else 1
        hidden = task.head.hidden_size
        self.hidden = nn.Linear(width, hidden) if hidden else None
        self.dropout = Dropout(task.head.dropout)
        self.classifier = Scorer(hidden or width, scores)

    @property
    def scorer(self) -> Scorer:
        """The linear layer that computes the scores."""
        return self.classifier

    def positions(self, batch: B) -> Tensor | None:
        """Return the positions of the last layer that the head reads: the last tokens, none if it
        reads the pooled vector, or None for all.
        """
        if self.reads_last:
            return batch.inputs.sequences.last
        if not self.reads_pooled:
            return None
        return torch.empty(0, dtype=torch.long, device=batch.inputs.ids.device)

    def vectors(self, encoded: Encoded, batch: B) -> Tensor:
        """Return one vector for each window, `[B, F]`."""
        if self.reads_pooled:
            assert encoded.pooled is not None
            x = encoded.pooled
        elif self.reads_last:
            x = encoded.at(encoded.sequences.last).float()
        else:
            head = self.task.head
            features = self.features(encoded)
            ids = batch.inputs.ids
            x = text_vectors(features, encoded.sequences, self.network, head, ids)
        if self.hidden is None:
            return x
        return torch.relu(self.hidden(self.dropout(x)))
