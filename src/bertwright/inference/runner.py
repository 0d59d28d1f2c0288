"""What every use of a model shares: ids in any number and length, to vectors, in good batches.

Sequences are sorted by length and laid end to end up to a number of tokens a batch, so a long text
costs what it is long and a short one never waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral

import torch

from bertwright.config.bert import BertConfig
from bertwright.data.batch import token_batches
from bertwright.errors import DataError
from bertwright.inference.backends.plain import Places, lay_out, places_in
from bertwright.models.bert import Bert
from bertwright.models.encoder import Encoded
from bertwright.objectives.objective import Learner
from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Runner:
    """A learner in eval mode on its device, with its tokenizer."""

    learner: Learner
    tokenizer: Tokenizer
    config: BertConfig
    device: torch.device
    batch_tokens: int
    """Tokens of a batch, about: at least one sequence goes."""
    name: str
    """Where it was loaded from, for messages."""

    @property
    def room(self) -> int:
        """Tokens of text in one sequence, beside [CLS] and [SEP]."""
        return self.config.max_position_embeddings - 2

    @property
    def encoder(self) -> Bert:
        """The BERT."""
        encoder = self.learner.encoder
        assert isinstance(encoder, Bert)
        return encoder

    def require(self, objective: str, purpose: str) -> None:
        """Raise DataError if the checkpoint lacks a head."""
        if objective not in self.learner.objectives:
            raise DataError(
                f"{self.name} has no {objective} head, which {purpose} needs (it has: "
                f"{', '.join(self.learner.objectives) or 'the encoder alone'}); use a checkpoint "
                "that was pre-trained with it"
            )

    def run(
        self,
        ids: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        top: int | None = None,
        keep_layers: bool = False,
        places: Places | None = None,
    ) -> Iterator[tuple[list[int], Encoded]]:
        """Encode sequences of ids, each with its [CLS] and [SEP].

        Args:
            ids: B sequences.
            types: their segments; unset: all 0.
            top: the highest layer needed, 0 the embeddings; unset: all, and the pooler.
            keep_layers: give every layer.
            places: where the last layer is read, beside the pooler; unset: everywhere. Leave out
                `top` and `keep_layers` with it.

        Yields:
            The indices of a batch's sequences in `ids`, and what the encoder made of them.
        """
        for rows in token_batches([len(sequence) for sequence in ids], self.batch_tokens):
            rows, flat, kinds, sequences = lay_out(rows, ids, types, self.device)
            read = None if places is None else places_in(rows, sequences, places)
            with torch.inference_mode():
                encoded = self.encoder(flat, kinds, sequences, top, keep_layers, read)
            yield rows, encoded


def is_count(value: object) -> bool:
    """Whether a user's number is a whole one from 1."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) > 0


def windows(length: int, room: int) -> list[tuple[int, int]]:
    """Bounds that cut `length` tokens into the fewest windows of at most `room`, evenly filled."""
    count = max(1, -(-length // room))
    bounds = [length * index // count for index in range(count + 1)]
    return list(pairwise(bounds))


def window_around(place: int, length: int, room: int) -> tuple[int, int]:
    """Bounds of at most `room` of `length` tokens with `place` as near the middle as can be."""
    start = max(0, min(place - room // 2, length - room))
    return start, min(length, start + room)
