"""The batches of a run: any step of any epoch for any rank, at once.

An epoch's instances stand in the order of its plan. Step s of S takes those that end in the s-th of
S equal stretches of the epoch's tokens, S being the tokens of the epoch over `batch_tokens`,
rounded up; so steps are equal to within a sequence and no instance is left out. The instances of a
step are sorted by length and dealt to the ranks like cards; each rank cuts its hand into equal
micro-batches of `micro_batch_tokens`, give or take a sequence or two. Nothing here remembers a
position: a step is a function of (data, configuration, seed, epoch, step), so resuming is asking
for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch

from bertwright.arrays import Int64s
from bertwright.config.bert_run import BertRun, InstanceConfig, MaskingConfig
from bertwright.data.batch import Batch, assemble, vocabulary_of
from bertwright.data.masking import Masker
from bertwright.data.randomness import make_key
from bertwright.data.sentence_pairs import Plan, plan_epoch
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.errors import ConfigError, DataError
from bertwright.nn.sequences import Sequences

_Step = tuple[int, int, int, int]


class PretrainingData:
    """Masked, paired batches of one split of a built corpus, by (epoch, step)."""

    def __init__(
        self,
        shards: Shards,
        instances: InstanceConfig,
        masking: MaskingConfig,
        *,
        validation_share: float,
        seed: int = 0,
        split: Split = "train",
        rank: int = 0,
        world_size: int = 1,
        prefetch: bool = True,
    ) -> None:
        """With `prefetch` a thread makes the step after the one asked for; results are the same.

        Raises:
            DataError: the split has no documents.
            ConfigError: an unusable share or rank.
        """
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank is {rank}; expected 0 to {world_size - 1}")
        self.shards = shards
        self.instances = instances
        self.masking = masking
        self.seed = seed
        self.split = split
        self.rank = rank
        self.world_size = world_size
        self.documents = split_documents(shards, split, validation_share)
        self.vocabulary = vocabulary_of(shards)
        self.masker = Masker(self.masking, self.vocabulary, self.instances.sequence_length)
        self._plan: Callable[[int], tuple[Plan, Int64s]] = lru_cache(maxsize=2)(self._make_plan)
        self._pool = ThreadPoolExecutor(1, "bertwright-batches") if prefetch else None
        self._next: tuple[_Step, Future[list[Batch]]] | None = None

    def plan(self, epoch: int) -> Plan:
        """The instances of an epoch, in order. The last two plans are kept."""
        return self._plan(epoch)[0]

    def tokens_in_epoch(self, epoch: int) -> int:
        """Tokens of all sequences of an epoch, special tokens included, over all ranks."""
        return int(self._plan(epoch)[1][-1])

    def steps_in_epoch(self, epoch: int, batch_tokens: int) -> int:
        """Steps of `batch_tokens` (over all ranks) that an epoch holds; at least 1."""
        if batch_tokens < 1:
            raise ConfigError(f"batch_tokens is {batch_tokens}; expected 1 or more")
        return max(1, -(-self.tokens_in_epoch(epoch) // batch_tokens))

    def positions(self, epoch: int, step_in_epoch: int, batch_tokens: int) -> Int64s:
        """The positions in the epoch of a step's instances, over all ranks."""
        steps = self.steps_in_epoch(epoch, batch_tokens)
        if not 0 <= step_in_epoch < steps:
            raise IndexError(f"step {step_in_epoch} of an epoch of {steps} steps asked for")
        ends = self._plan(epoch)[1]
        total = int(ends[-1])
        # A sequence belongs where it ends: ends lie in (0, total], so every one has a step.
        edges = [total * step_in_epoch // steps, total * (step_in_epoch + 1) // steps]
        first, last = np.searchsorted(ends, edges, side="right")
        return np.arange(first, last)

    def step(
        self, epoch: int, step_in_epoch: int, batch_tokens: int, micro_batch_tokens: int
    ) -> list[Batch]:
        """This rank's micro-batches of one step; empty if the step has fewer sequences than ranks.

        Raises:
            ConfigError: a sequence of the full length does not fit into a micro-batch.
            IndexError: the epoch has fewer steps.
        """
        wanted = (epoch, step_in_epoch, batch_tokens, micro_batch_tokens)
        if self._pool is None:
            return self._make_step(*wanted)
        ready, self._next = self._next, None
        batches = ready[1].result() if ready and ready[0] == wanted else self._make_step(*wanted)
        following = (epoch, step_in_epoch + 1, batch_tokens, micro_batch_tokens)
        if step_in_epoch + 1 >= self.steps_in_epoch(epoch, batch_tokens):
            following = (epoch + 1, 0, batch_tokens, micro_batch_tokens)
        self._next = (following, self._pool.submit(self._make_step, *following))
        return batches

    def close(self) -> None:
        """End the thread; `step` must not be called afterwards."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _make_plan(self, epoch: int) -> tuple[Plan, Int64s]:
        """An epoch's plan and where each of its sequences ends, in tokens of the epoch."""
        plan = plan_epoch(self.shards, self.documents, self.instances, self.seed, epoch)
        if len(plan) == 0:
            raise DataError(
                f"{self.shards.folder} gives no training instances for the {self.split} split; "
                "run: bertwright data check"
            )
        return plan, np.cumsum(plan.lengths)

    def _make_step(
        self, epoch: int, step_in_epoch: int, batch_tokens: int, micro_batch_tokens: int
    ) -> list[Batch]:
        if micro_batch_tokens < self.instances.sequence_length:
            raise ConfigError(
                f"micro_batch_tokens is {micro_batch_tokens}; expected at least the sequence "
                f"length, {self.instances.sequence_length}"
            )
        plan = self.plan(epoch)
        positions = self.positions(epoch, step_in_epoch, batch_tokens)
        order = np.argsort(-plan.lengths[positions], kind="stable")
        mine = positions[order][self.rank :: self.world_size]
        key = make_key("masks", self.seed, epoch)
        return [
            assemble(self.shards, plan, rows, self.vocabulary, self.masker, key)
            for rows in _cut(
                mine, plan.lengths[mine], micro_batch_tokens, self.instances.sequence_length
            )
        ]


def evaluation_data(
    shards: Shards, config: BertRun, split: Split, rank: int = 0, world_size: int = 1
) -> PretrainingData:
    """What a run is judged on: one epoch, masked as the paper masks, the same whatever its seed."""
    return PretrainingData(
        shards,
        config.instances,
        replace(config.masking, probability=MaskingConfig.probability),
        validation_share=config.validation.share,
        split=split,
        rank=rank,
        world_size=world_size,
        prefetch=False,
    )


def _cut(positions: Int64s, lengths: Int64s, micro_tokens: int, spare: int) -> list[Int64s]:
    """Cut, in order, into equal pieces of about `micro_tokens`.

    Shares of a step differ by a sequence or two; `spare` tokens more make no piece more, or a step
    that was meant to be one micro-batch would often be one and a tiny second.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    pieces = max(1, -(-(total - spare) // micro_tokens))
    edges = [total * piece // pieces for piece in range(pieces + 1)]
    cuts = np.searchsorted(ends, edges, side="right")
    return [positions[a:b] for a, b in pairwise(cuts) if b > a]


@dataclass(frozen=True)
class TensorBatch:
    """A `Batch` as tensors on a device (int64); its lengths as `Sequences`."""

    input_ids: torch.Tensor
    token_type_ids: torch.Tensor
    sequences: Sequences
    masked_positions: torch.Tensor
    masked_labels: torch.Tensor
    next_sentence_labels: torch.Tensor | None
    positions: Int64s


def to_tensors(batch: Batch, device: torch.device | str) -> TensorBatch:
    """A batch as tensors; on CUDA they are copied without waiting (from pinned memory)."""
    device = torch.device(device)

    def tensor(values: Int64s) -> torch.Tensor:
        made = torch.from_numpy(values)
        if device.type == "cuda":
            return made.pin_memory().to(device, non_blocking=True)
        return made.to(device)

    labels = batch.next_sentence_labels
    return TensorBatch(
        input_ids=tensor(batch.input_ids),
        token_type_ids=tensor(batch.token_type_ids),
        sequences=Sequences(batch.lengths.tolist(), device),
        masked_positions=tensor(batch.masked_positions),
        masked_labels=tensor(batch.masked_labels),
        next_sentence_labels=None if labels is None else tensor(labels),
        positions=batch.positions,
    )
