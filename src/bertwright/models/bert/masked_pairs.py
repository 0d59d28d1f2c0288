"""The training instances of BERT: batches of masked sequences or pairs of sequences.

A pair is [CLS] A [SEP] B [SEP], with segment 0 up to the first [SEP] and 1 after it; a single
sequence is [CLS] A [SEP]. `models/bert/sentence_pairs.py` plans which tokens are A and B, and
`models/bert/masking.py` masks them.

Letters: B sequences, N tokens in all, K masked tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from bertwright.arrays import Bools, Int64s, ranges
from bertwright.config.run import HoldOut
from bertwright.data.batch import inputs_of
from bertwright.data.checkup import Checkup, Level, grade, note_lengths
from bertwright.data.randomness import make_key
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.errors import DataError
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masking import Masker
from bertwright.models.bert.sentence_pairs import EpochPlan, plan_epoch
from bertwright.text.framing import Framing

CHECKED_SEQUENCES = 4096
"""The maximum number of sequences whose masks are checked."""


class MaskedPairs:
    """The `Instances` of BERT for one split of a built corpus."""

    def __init__(
        self,
        shards: Shards,
        config: InstanceConfig,
        masking: MaskingConfig,
        *,
        validation_fraction: float,
        hold_out: HoldOut | None = None,
        seed: int = 0,
        split: Split = "train",
    ) -> None:
        """Read the documents of a split, of which a part may be held out."""
        self.shards, self._documents, _ = split_text(shards, split, validation_fraction, hold_out)
        self.config = config
        self.seed = seed
        self.split = split
        self._masker = masker_of(shards, masking, config.sequence_length)
        self._plan: Callable[[int], EpochPlan] = lru_cache(maxsize=2)(self._make_plan)

    @property
    def longest(self) -> int:
        """The maximum length of a sequence, `sequence_length`."""
        return self.config.sequence_length

    def plan(self, epoch: int) -> EpochPlan:
        """Return the instances of an epoch, in order. The last two plans are cached."""
        return self._plan(epoch)

    def lengths(self, epoch: int) -> Int64s:
        return self._plan(epoch).lengths

    def batch(self, epoch: int, positions: Int64s) -> MaskedBatch:
        """Return a batch, whose masks are a function of (seed, epoch, position, token)."""
        key = make_key("masks", self.seed, epoch)
        return assemble(self.shards, self.plan(epoch), positions, self._masker, key)

    def check(self, checkup: Checkup) -> None:
        plan = plan_epoch(self.shards, self._documents, self.config, self.seed, 0)
        note_lengths(checkup, plan.lengths, self.longest)
        if len(plan):
            _check_pairs(checkup, self.shards, self._documents, plan, self.config)
            some = np.arange(min(len(plan), CHECKED_SEQUENCES))
            _check_masks(checkup, self.batch(0, some), self._masker)

    def _make_plan(self, epoch: int) -> EpochPlan:
        plan = plan_epoch(self.shards, self._documents, self.config, self.seed, epoch)
        if len(plan) == 0:
            raise DataError(
                f"{self.shards.folder} gives no training instances for the {self.split} split; "
                "run: bertwright data check"
            )
        return plan


def masker_of(shards: Shards, config: MaskingConfig, sequence_length: int) -> Masker:
    """Return a masker with the special ids of the tokenizer that built the shards."""
    unk_id, mask_id, *_ = map(shards.special_id, ("unk", "mask", "cls", "sep"))
    special = np.isin(np.arange(shards.vocab_size), sorted(shards.special_ids))
    return Masker(config, special, unk_id, mask_id, sequence_length)


def assemble(
    shards: Shards, plan: EpochPlan, positions: Int64s, masker: Masker, mask_key: np.uint64
) -> MaskedBatch:
    """Make a batch of the instances at `positions` `[B]` of an epoch's plan."""
    lengths = plan.lengths[positions]
    order = np.argsort(-lengths, kind="stable")
    positions, lengths = positions[order], lengths[order]
    a_start = plan.a_start[positions]
    a_length = plan.a_stop[positions] - a_start
    framing = Framing((shards.special_id("cls"),), (shards.special_id("sep"),))
    segments: Int64s | None = None
    labels: Int64s | None = None
    source = ranges(a_start, a_length)
    if plan.paired:
        b_start = plan.b_start[positions]
        b_length = plan.b_stop[positions] - b_start
        frames = framing.frames(a_length, b_length)
        segments = framing.segments_of(a_length, b_length)
        source = np.concatenate([source, ranges(b_start, b_length)])
        labels = plan.is_random[positions].astype(np.int64)
    else:
        frames = framing.frames(a_length)
    ids, target = frames.ids, np.concatenate([frames.first, frames.second])
    ids[target] = shards.tokens_at(source)
    word_starts: Bools | None = None
    if masker.config.whole_word:
        word_starts = np.ones(len(ids), np.bool_)
        word_starts[target] = shards.word_starts_at(source)
        word_starts[frames.starts + 1] = True  # the rest of a split word counts as a word
        if plan.paired:
            word_starts[frames.starts + 2 + a_length] = True
    input_ids, masked_positions, masked_labels = masker(
        ids, lengths, positions, mask_key, word_starts
    )
    neighbours = None
    if plan.neighbours is not None:
        neighbours = torch.from_numpy(plan.neighbours[positions])
    return MaskedBatch(
        inputs_of(input_ids, lengths, segments),
        masked_positions=torch.from_numpy(masked_positions),
        masked_labels=torch.from_numpy(masked_labels),
        next_sentence_labels=None if labels is None else torch.from_numpy(labels),
        instances=torch.from_numpy(positions),
        neighbours=neighbours,
        masking_probability=masker.config.probability,
    )


def _check_pairs(
    checkup: Checkup,
    shards: Shards,
    documents: Int64s,
    plan: EpochPlan,
    instances: InstanceConfig,
) -> None:
    if plan.paired:
        sentences = np.diff(shards.document_sentences)[documents]
        alone = float((sentences == 1).mean())
        checkup.note(
            grade(alone, 0.1, 0.5),
            "one_sentence_documents",
            round(alone, 4),
            f"{alone:.1%} of the documents have one sentence: their next sentence is always random",
            "is there a blank line after every line, or --documents line on lines of one sentence? "
            "Join what belongs together, or train with --instances.objectives mlm",
        )
        fraction = float(plan.is_random.mean())
        wanted = instances.random_next_probability
        off = abs(fraction - wanted)
        level: Level = "error" if not 0.05 <= fraction <= 0.95 else grade(off, 0.1, 1.0)
        checkup.note(
            "ok" if wanted in (0.0, 1.0) else level,
            "next_sentence_ratio",
            round(fraction, 4),
            f"{fraction:.1%} of the pairs are random (or swapped); {wanted:.0%} configured",
            "documents of one sentence, or sentences longer than a sequence, give only random "
            "pairs: join short documents, split long sentences, or train with "
            "--instances.objectives mlm",
        )
    special = 3 if plan.paired else 2
    lost = float(plan.truncated.sum() / (plan.truncated + plan.lengths - special).sum())
    cut = float((plan.truncated > 0).mean())
    checkup.note(
        grade(lost, 0.25, 0.5),
        "truncated",
        round(lost, 4),
        f"{lost:.1%} of the tokens are truncated, from {cut:.1%} of the instances",
        "sentences are long for this sequence length (are lines whole paragraphs?): build with "
        "--sentences split, or raise --instances.sequence-length",
    )


def _check_masks(checkup: Checkup, batch: MaskedBatch, masker: Masker) -> None:
    wanted, predicted = masker.config.probability, len(batch.masked_labels) / batch.num_tokens
    shown = batch.inputs.ids[batch.masked_positions]
    hidden, kept = shown == masker.mask_id, shown == batch.masked_labels
    fractions = [
        float(x.double().mean()) if len(shown) else 0.0 for x in (hidden, ~hidden & ~kept, kept)
    ]
    checkup.note(
        "warning" if predicted < 0.8 * wanted and batch.num_tokens > 20_000 else "ok",
        "predicted_tokens",
        round(predicted, 4),
        f"{predicted:.1%} of the tokens are predicted ({wanted:.0%} configured); of these "
        "{:.0%} are masked, {:.0%} replaced, {:.0%} kept".format(*fractions),
        "special tokens and too few --masking.max-predictions leave so little",
    )
