"""Objectives, their losses, and the learner: an encoder with the objectives that train it.

A loss is a sum and a count. A mean of the means of micro-batches would be wrong whenever their
counts differ; sums are exact. The gradient of a step is the sum over its micro-batches and ranks,
divided once by the count of the whole step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from bertwright.cpu_threads import generator_on
from bertwright.nn.batch import Batch, StepShare
from bertwright.nn.encoder import Encoded, Encoder
from bertwright.nn.sequences import Inputs


@dataclass(frozen=True)
class Loss:
    """A summed loss and its count, so that any split of a batch gives the same gradient."""

    total: Tensor
    """The summed loss, a float32 scalar."""
    count: int
    """The number of predictions in the sum."""
    correct: Tensor | None
    """The number of correct predictions; None for a regression."""

    def weighted(self, fraction: float) -> Loss:
        """Return the same loss with its gradient scaled by `fraction` and its value unchanged."""
        if fraction == 1:
            return self
        value = self.total.detach()
        return replace(self, total=value + fraction * (self.total - value))


@runtime_checkable
class GivesLogits(Protocol):
    """An objective that scores classes, such as the tokens of a vocabulary."""

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores of C classes before the softmax: vectors `[R, H]` -> `[R, C]`."""


B = TypeVar("B")


class Objective(nn.Module, Generic[B]):
    """Computes a `Loss` from an encoder's vectors and the labels of a batch."""

    title: str = ""
    """Its name in the log and on pages; empty: its name in the learner."""
    layers: tuple[int, ...] | None = None
    """The layers it reads: 0 is the embeddings, then 1 to L. None: the last layer, or the pooled
    vector."""
    reads_pooled: bool = False
    """Whether it reads only `Encoded.pooled`."""
    reads_embeddings: bool = False
    """Whether its logits are products with the whole table of the encoder's token embeddings."""
    factor: float = 1.0
    """The factor of its gradient beside that of other objectives, where `Learner.weights` has
    none."""
    at_high_rates: tuple[str, ...] = ()
    """The names of its modules that fine-tuning trains at high rates (`transfer/stepping.py`)."""

    def prepare(self, batch: B, encoder: Encoder, generator: torch.Generator | None) -> B:
        """Return the batch that is encoded for this objective; by default the batch itself.

        An objective that replaces tokens (Clark et al. 2020, "ELECTRA") returns a batch with other
        inputs, whose fields hold what `forward` needs, such as a loss with a gradient. Objectives
        whose batches have the same `inputs` object share one pass of the encoder.

        Args:
            batch: the batch; it is not changed, as other objectives read it.
            encoder: the encoder that is trained, for weights that an objective shares with it.
            generator: the source of random numbers; None: the default generator of torch.
        """
        return batch

    def forward(self, encoded: Encoded, batch: B) -> Loss:
        """Return the loss summed over a batch that `prepare` returned."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    def count(self, batch: B) -> int:
        """Return the number of predictions of a batch, before it is prepared and encoded.

        It equals `Loss.count`. A step needs it before the losses, because it first adds the counts
        of its micro-batches and ranks.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no count")

    def positions(self, batch: B) -> Tensor | None:
        """Return the positions in N at which it reads the last layer by `Encoded.at`, `[R]`.

        They are empty if it reads only the pooled vector. None: it reads all positions.
        """
        return None

    def flops(self, batch: B) -> float:
        """Return the floating-point operations of its own matrix products, forward and backward.

        The learner counts one pass of the encoder over a batch. An objective that prepares its own
        inputs, beside objectives that read the batch itself, adds the operations of a second pass.
        """
        return 0.0


class RowLosses(NamedTuple):
    """The loss of a step, split by rows."""

    losses: Tensor
    """`[R]` float32, the loss of each row; their sum is the loss of the step, summed over its
    predictions."""
    correct: Tensor | None
    """`[R]`, the number of correct predictions of each row; None where none are counted."""


class StepObjective(Objective[B]):
    """An objective whose loss relates the vectors of a whole step to each other.

    In contrastive learning, the negatives of a text are the other texts of the step, which are in
    other micro-batches and on other ranks. The training loop therefore computes the vectors of all
    micro-batches without gradients, then the loss of the step and its gradient with respect to each
    vector, and then encodes one micro-batch after the other again and propagates the gradients of
    its vectors back (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
    Limited Setup"). The gradient therefore does not depend on how a step is split
    (`train/step_loss.py`). Where all micro-batches are in memory at the same time, one on each core
    of a CPU, they are encoded only once.

    Letters: R vectors of a batch, W width of a vector, K facts of a row.
    """

    def vectors(self, encoded: Encoded, batch: B) -> Tensor:
        """Return the vectors that the loss relates to each other, `[R, W]` float32."""
        raise NotImplementedError(f"{type(self).__name__} defines no vectors")

    def facts(self, batch: B) -> Tensor:
        """Return the numbers besides the vector that the loss needs for each row, such as labels,
        `[R, K]` float64 on the host."""
        raise NotImplementedError(f"{type(self).__name__} defines no facts")

    def step_loss(self, vectors: Tensor, facts: Tensor) -> RowLosses:
        """Return the loss of a step from all its vectors `[R, W]` and facts `[R, K]`."""
        raise NotImplementedError(f"{type(self).__name__} defines no step_loss")

    def forward(self, encoded: Encoded, batch: B) -> Loss:
        """Return the loss of a batch, whose gradient is that of the whole step (`Batch.share`)."""
        return self.loss_of(self.vectors(encoded, batch), batch)

    def loss_of(self, vectors: Tensor, batch: B) -> Loss:
        """Return the loss of a batch from its `vectors`, `[R, W]`."""
        share = cast(Batch, batch).share
        if share is None:
            with torch.autocast(vectors.device.type, enabled=False):
                losses, right = self.step_loss(vectors, self.facts(batch))
            return Loss(losses.sum(), self.count(batch), None if right is None else right.sum())
        product = (vectors * share.gradient).sum()
        total = share.total + product - product.detach()
        return Loss(total, self.count(batch), share.correct)


class Learner(nn.Module):
    """An encoder with the objectives that train it: the module that is trained and saved."""

    def __init__(self, encoder: Encoder, objectives: Mapping[str, Objective[Any]]) -> None:
        super().__init__()
        self.encoder = encoder
        self.objectives = nn.ModuleDict(dict(objectives))
        self.weights: dict[str, float] = {}
        """The factors of the objectives' gradients by name, in place of their own. They do not
        change the logged losses."""
        self.auxiliary: tuple[str, ...] = ()
        """The names of the objectives that every batch trains in addition to its own."""

    def active(self, batch: Batch) -> dict[str, Objective[Any]]:
        """Return the objectives that a batch trains: the one that `batch.task` names and the
        auxiliary ones, or all of them if it is None."""
        names = list(self.objectives) if batch.task is None else [batch.task, *self.auxiliary]
        return {name: cast("Objective[Any]", self.objectives[name]) for name in names}

    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of predictions of a batch by objective, before it is encoded."""
        return {name: objective.count(batch) for name, objective in self.active(batch).items()}

    def encode(self, batch: Batch, objectives: Sequence[Objective[Any]]) -> Encoded:
        """Encode a batch up to the highest layer that `objectives` read."""
        return self._encode(batch.inputs, [(objective, batch) for objective in objectives])

    def _encode(self, inputs: Inputs, readers: Sequence[tuple[Objective[Any], Batch]]) -> Encoded:
        """Encode inputs up to the highest layer that the objectives in `readers` read."""
        needed = [objective.layers for objective, _ in readers]
        layers = [number for numbers in needed if numbers is not None for number in numbers]
        if not layers:
            return self.encoder(inputs, positions=_positions(readers))
        top = None if None in needed else max(layers)
        return self.encoder(inputs, top=top, keep_layers=True)

    def step_objective(self, batch: Batch) -> StepObjective[Any] | None:
        """Return the `StepObjective` that a batch trains, or None if it trains none."""
        active = self.active(batch).values()
        return next((each for each in active if isinstance(each, StepObjective)), None)

    def step_vectors(self, batch: Batch) -> Tensor:
        """Return the vectors of a batch for its `StepObjective`, `[R, W]`.

        The encoder draws the same dropout masks as in `forward` after the same seed.
        """
        vectors = self.encoded(batch).vectors
        assert vectors is not None
        return vectors

    def depths(self) -> dict[str, int]:
        """Return the depth of every parameter by name: 0 the embeddings, 1 to L the layers, L + 1
        the pooler and the objectives."""
        stages = self.encoder.stages()
        depth_of = {id(p): depth for depth, stage in enumerate(stages) for p in stage.parameters()}
        top = max(1, len(stages))
        return {name: depth_of.get(id(p), top) for name, p in self.named_parameters()}

    def tokens_read(self, batch: Batch) -> int:
        """Return the number of tokens for which a batch computes the last layer."""
        positions = _positions([(each, batch) for each in self.active(batch).values()])
        sequences = batch.inputs.sequences
        return sequences.total if positions is None else sequences.count + len(positions)

    def flops(self, batch: Batch) -> float:
        """Return the floating-point operations of the matrix products of a forward and a backward
        pass."""
        encoder = self.encoder.flops(batch.inputs.sequences.lengths, self.tokens_read(batch))
        return encoder + sum(objective.flops(batch) for objective in self.active(batch).values())

    def forward(self, batch: Batch) -> dict[str, Loss]:
        """Return the losses by objective, whose gradients are scaled by `weights`."""
        encoded = self.encoded(batch)
        return encoded.losses(encoded.other_losses(), batch.share)

    def encoded(self, batch: Batch) -> EncodedBatch:
        """Encode a batch for all objectives that it trains."""
        active = self.active(batch)
        generator = self._generator(batch)
        prepared: dict[str, Batch] = {
            name: objective.prepare(batch, self.encoder, generator)
            for name, objective in active.items()
        }
        # Objectives that did not replace the inputs share a pass. Objects are compared, because a
        # comparison of ids would make the host wait for a GPU.
        passes: dict[int, list[str]] = {}
        for name, own in prepared.items():
            passes.setdefault(id(own.inputs), []).append(name)
        read: dict[str, tuple[Encoded, Batch]] = {}
        vectors = None
        for names in passes.values():
            readers = [(active[name], prepared[name]) for name in names]
            encoded = self._encode(prepared[names[0]].inputs, readers)
            for name, (objective, own) in zip(names, readers, strict=True):
                read[name] = encoded, own
                if isinstance(objective, StepObjective):
                    vectors = objective.vectors(encoded, own)
        return EncodedBatch(self, {name: read[name] for name in active}, vectors)

    def _generator(self, batch: Batch) -> torch.Generator | None:
        """Return the generator of the random numbers of objectives.

        In training it is that of this thread, or None for torch's default. In evaluation it is a
        new one with a constant seed, so that every evaluation draws the same numbers.
        """
        device = batch.inputs.ids.device
        return generator_on(device) if self.training else torch.Generator(device).manual_seed(0)


@dataclass(frozen=True)
class EncodedBatch:
    """A batch that a learner has encoded, with the graph of what its objectives read."""

    learner: Learner
    read: Mapping[str, tuple[Encoded, Batch]]
    """What each objective reads: the encoded sequences, and its batch (`Objective.prepare`)."""
    vectors: Tensor | None
    """The vectors of the `StepObjective`, `[R, W]`; None if the batch trains none."""

    def other_losses(self) -> dict[str, Loss]:
        """Return the losses of all objectives but the `StepObjective`."""
        losses: dict[str, Loss] = {}
        for name, (encoded, batch) in self.read.items():
            objective = cast("Objective[Any]", self.learner.objectives[name])
            if not isinstance(objective, StepObjective):
                losses[name] = objective(encoded, batch).weighted(self._factor(name))
        return losses

    def losses(self, others: Mapping[str, Loss], share: StepShare | None) -> dict[str, Loss]:
        """Return the losses of all objectives.

        Args:
            others: the `other_losses`.
            share: the part of the step's loss that belongs to this batch; None: the batch is a step
                by itself.
        """
        losses: dict[str, Loss] = {}
        for name, (_, batch) in self.read.items():
            objective = self.learner.objectives[name]
            if isinstance(objective, StepObjective):
                assert self.vectors is not None
                loss = objective.loss_of(self.vectors, replace(batch, share=share))
                losses[name] = loss.weighted(self._factor(name))
            else:
                losses[name] = others[name]
        return losses

    def _factor(self, name: str) -> float:
        objective = cast("Objective[Any]", self.learner.objectives[name])
        return self.learner.weights.get(name, objective.factor)


def _positions(readers: Sequence[tuple[Objective[Any], Batch]]) -> Tensor | None:
    """Return the positions in N at which the last layer is read; None stands for all positions,
    also where more than one objective reads tokens."""
    needed = [objective.positions(batch) for objective, batch in readers]
    read = [positions for positions in needed if positions is None or len(positions)]
    if not read:
        return needed[0]
    return read[0] if len(read) == 1 else None
