"""What task heads share: the batch that they read, and the parts that they are built of.

Letters: B sequences (windows), N tokens in all, E examples, W words, C scores, H hidden, L layers
of the encoder, F width of a feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.config.vectors import poolings_of
from bertwright.nn.dropout import Dropout
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.features import Inside, LayerMix, pool
from bertwright.nn.host import send
from bertwright.nn.objective import Objective
from bertwright.nn.recurrent import Lstm
from bertwright.nn.sequences import Inputs, Sequences


@dataclass(frozen=True)
class LabelledBatch:
    """Windows of examples of one task, end to end, longest first."""

    task: str
    """The head it is for, by the name it has in the learner."""
    inputs: Inputs
    """The B windows."""
    rows: tuple[int, ...]
    """[E]: the number of each example in its data, in the order of scores and labels; a span task
    scores every window by itself, so there E = B, in the order of `inputs.sequences`."""
    labels: Tensor | None = None
    """Classification [E] int64, multi-label [E, C] float; regression [E] float; tagging [W] int64;
    span [B, 2] int64, positions of the first and last token in the window; multiple choice [E];
    generation [K] int64, the tokens of the targets and their ends."""
    owners: Tensor | None = None
    """[B] int64: the example of each window, 0 to E - 1 (tagging: its run of sentences); with
    multiple choice, the choice of it: choices of all examples counted through."""
    words: Tensor | None = None
    """Tagging, [W] int64: position in N of every word's first wordpiece, example by example;
    generation, [K]: of the token before each label."""
    counts: tuple[int, ...] = ()
    """Words (tagging) or choices (multiple choice) of each example."""
    first_words: tuple[int, ...] = ()
    """Tagging: the number of the first of these words in its sentence, of which more than a few
    windows are several instances."""
    texts: tuple[str, ...] = ()
    """Tagging, [W]: the words, as they are spelled."""

    @property
    def num_tokens(self) -> int:
        """N, the tokens of all windows."""
        return self.inputs.sequences.total

    @property
    def tokens(self) -> Tensor:
        """`[N]`, as an objective of language modelling reads them."""
        return self.inputs.ids

    @cached_property
    def positions(self) -> Tensor:
        """`[N - B]`: all tokens that another one of their window follows."""
        sequences = self.inputs.sequences
        kept = torch.ones(sequences.total, dtype=torch.bool)
        kept[torch.tensor(sequences.offsets[1:]) - 1] = False
        return send(kept.nonzero()[:, 0], sequences.device)


class Head(Objective[LabelledBatch]):
    """An objective that also predicts."""

    mix: LayerMix | None
    """How the layers that it reads become one; None: it reads what the encoder gives last."""

    def features(self, encoded: Encoded, positions: Tensor | None = None) -> Tensor:
        """What it reads of every token, `[N, F]`, or of those at `positions` `[R]`: `[R, F]`."""
        if self.mix is None:
            return encoded.last if positions is None else encoded.at(positions)
        mixed: Tensor = self.mix(encoded.layers)
        return mixed if positions is None else mixed.index_select(0, positions)

    def tie(self, encoder: Encoder) -> None:
        """Share weights with the encoder that it stands on, if it has any in common."""

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """Float32 scores: classification [E, C]; regression [E]; tagging [W, C]; span [N, 2];
        multiple choice [sum of counts]."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")


class Parts(NamedTuple):
    """What stands between an encoder and a head's scores."""

    mix: LayerMix | None
    """Unset: the head reads what the encoder gives last."""
    network: Lstm | None
    width: int
    """Numbers of a vector that reaches the scores."""
    layers: tuple[int, ...] | None
    """`Objective.layers`."""


def make_parts(head: HeadConfig, widths: Sequence[int]) -> Parts:
    """Return the parts of a head over an encoder whose layers 0 to L have these widths.

    Raises:
        ConfigError: the encoder does not have these layers.
    """
    mix = None if head.layers is None else LayerMix(head.layers, len(widths) - 1)
    width = widths[-1] if mix is None else mix.width(widths)
    numbers = None if mix is None else mix.numbers
    if head.network != "bilstm":
        return Parts(mix, None, width, numbers)
    size = head.network_size
    return Parts(mix, Lstm(width, size, "both"), 2 * size, numbers)


def text_vectors(x: Tensor, sequences: Sequences, network: Lstm | None, head: HeadConfig) -> Tensor:
    """Return a vector for each window, made of those of its tokens.

    With an LSTM the largest of each number over its states, whatever the pooling (Conneau et al.
    2017, section 3.2.2); without, as `head.pooling` says.

    Args:
        x: `[N, F]`, features of tokens.
        sequences: the windows' lengths.
        network: the LSTM, if there is one.
        head: says which pooling.

    Returns:
        `[B, F]`, `[B, 3 F]` of three poolings, or `[B, 2 size]` with an LSTM; float32.
    """
    if network is not None:
        return pool(network(x, sequences.lengths), sequences, "max")
    if head.frame == (0, 0) or head.pooling in ("cls", "last"):
        return pool(x, sequences, head.pooling)
    inside = sequences.once(("inside", head.frame), lambda: Inside(sequences, head.frame))
    return pool(inside(x), inside.sequences, head.pooling)


class Scorer(nn.Linear):
    """A linear layer computed in float32, also under autocast.

    Rounded to bfloat16, scores have 8 bits: regressions of 3.01 and 3.02 would be equal.
    """

    def forward(self, input: Tensor) -> Tensor:
        """`[..., F]` -> `[..., C]` float32"""
        with torch.autocast(input.device.type, enabled=False):
            return F.linear(input.float(), self.weight.float(), self.bias.float())


class TextHead(Head):
    """Scores a whole window: through the encoder's pooler (BERT's over [CLS]), dropout and a linear
    layer; or over other layers, pooled or read by an LSTM (`HeadConfig`); ULMFiT's has a hidden
    layer between (Howard & Ruder 2018, section 3.3; without its batch normalization, which would
    make the gradient depend on how a batch is split)."""

    def __init__(self, spec: EncoderSpec, task: TaskConfig, scores: int) -> None:
        """Build the head.

        Args:
            spec: of the encoder; one without a pooler has its last layer pooled.
            task: its `head` says what is read.
            scores: how many a window.

        Raises:
            ConfigError: layers the encoder does not have.
        """
        super().__init__()
        self.task = task
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
        hidden = task.head.hidden_size
        self.hidden = nn.Linear(width, hidden) if hidden else None
        self.dropout = Dropout(task.head.dropout)
        self.classifier = Scorer(hidden or width, scores)

    @property
    def scorer(self) -> Scorer:
        """The linear layer that gives the scores."""
        return self.classifier

    def positions(self, batch: LabelledBatch) -> Tensor | None:
        """None of the last layer's if it reads the pooled vector, the last token's if that."""
        if self.reads_last:
            sequences = batch.inputs.sequences
            return self._last(sequences)
        if not self.reads_pooled:
            return None
        return torch.empty(0, dtype=torch.long, device=batch.inputs.ids.device)

    def _last(self, sequences: Sequences) -> Tensor:
        """Of each window the position of its last token, `[B]`: what GPT extracts."""
        return sequences.once("last", lambda: sequences.cu_seqlens[1:].long() - 1)

    def vectors(self, encoded: Encoded) -> Tensor:
        """A vector for each window, `[B, F]`."""
        if self.reads_pooled:
            assert encoded.pooled is not None
            x = encoded.pooled
        elif self.reads_last:
            x = encoded.at(self._last(encoded.sequences)).float()
        else:
            head = self.task.head
            x = text_vectors(self.features(encoded), encoded.sequences, self.network, head)
        if self.hidden is None:
            return x
        return torch.relu(self.hidden(self.dropout(x)))
