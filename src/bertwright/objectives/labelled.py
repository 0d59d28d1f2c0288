"""A batch of labelled examples, and how task heads read it.

Letters: B sequences (windows), N tokens in all, E examples, W words, C scores.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.models.encoder import Encoded
from bertwright.nn.dropout import Dropout
from bertwright.nn.layer_mix import LayerMix
from bertwright.nn.sequences import Sequences
from bertwright.nn.task_head import Scorer, make_parts, text_vectors
from bertwright.objectives.objective import Objective


@dataclass(frozen=True)
class LabelledBatch:
    """Windows of examples of one task, end to end, longest first."""

    task: str
    """The head it is for, by the name it has in the learner."""
    input_ids: Tensor
    """[N]"""
    token_type_ids: Tensor
    """[N]"""
    sequences: Sequences
    """The bounds of the B windows."""
    rows: tuple[int, ...]
    """[E]: the number of each example in its data, in the order of scores and labels; a span task
    judges every window by itself, so there E = B, in the order of `sequences`."""
    labels: Tensor | None = None
    """Classification [E] int64, multi-label [E, C] float; regression [E] float; tagging [W] int64;
    span [B, 2] int64, places of the first and last token in the window; multiple choice [E]."""
    owners: Tensor | None = None
    """[B] int64: the example of each window, 0 to E - 1 (tagging: its run of sentences); with
    multiple choice, the choice of it: choices of all examples counted through."""
    words: Tensor | None = None
    """Tagging, [W] int64: place in N of every word's first piece, example by example."""
    counts: tuple[int, ...] = ()
    """Words (tagging) or choices (multiple choice) of each example."""


class Head(Objective[LabelledBatch]):
    """An objective that also predicts."""

    mix: LayerMix | None
    """How the layers that it reads become one; None: it reads what the encoder gives last."""

    def features(self, encoded: Encoded, places: Tensor | None = None) -> Tensor:
        """What it reads of every token, `[N, F]`, or of those at `places` `[R]`: `[R, F]`."""
        if self.mix is None:
            return encoded.last if places is None else encoded.at(places)
        mixed: Tensor = self.mix(encoded.layers)
        return mixed if places is None else mixed.index_select(0, places)

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """Float32 scores: classification [E, C]; regression [E]; tagging [W, C]; span [N, 2];
        multiple choice [sum of counts]."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores")


class TextHead(Head):
    """Scores a whole window: through the pooler over [CLS], dropout and a linear layer; or over
    other layers, pooled or read by an LSTM (`HeadConfig`)."""

    def __init__(self, hidden: int, layers: int, task: TaskConfig, scores: int) -> None:
        """Build the head.

        Args:
            hidden: H, width of the encoder.
            layers: L, its layers.
            task: its `head` says what is read.
            scores: how many a window.

        Raises:
            ConfigError: layers the encoder has not.
        """
        super().__init__()
        self.task = task
        self.mix, self.network, width, self.layers = make_parts(task.head, hidden, layers)
        self.dropout = Dropout(task.head.dropout)
        self.classifier = Scorer(width, scores)

    @property
    def reads_pooler(self) -> bool:
        """Whether it reads nothing else."""
        return self.mix is None and self.network is None

    def places(self, batch: LabelledBatch) -> Tensor | None:
        """Nowhere if it reads the pooler."""
        return batch.input_ids.new_empty(0) if self.reads_pooler else None

    def vectors(self, encoded: Encoded) -> Tensor:
        """A vector for each window, `[B, F]`."""
        if self.reads_pooler:
            assert encoded.pooled is not None
            return encoded.pooled
        return text_vectors(self.features(encoded), encoded.sequences, self.network, self.task.head)
