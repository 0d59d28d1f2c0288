"""Turn texts and pairs into vectors of their tokens: tokenize, batch, run the encoder.

`tokenize` turns texts into sequences that the encoder can read: whole, in windows, or truncated.
`encode_batches` sorts sequences by length and fills batches up to a number of tokens, so the cost
is proportional to the tokens: a short text never waits for a long one.

Letters: n sequences, B of them in a batch, N tokens of a batch, H hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from numbers import Integral
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s
from bertwright.data.batch import make_inputs, token_batches
from bertwright.errors import DataError
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.host import send_numbers
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Sequences
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.windows import split, truncate_pair

T = TypeVar("T")
Text = str | tuple[str, str]
"""A text or a pair of texts."""
Ids = Sequence[Sequence[int]]
"""n sequences of token ids, including special tokens, or of another integer for each token."""
Positions = Sequence[Sequence[int]]
"""For each of n sequences, the positions of the tokens that are read; the first token is 0."""


@dataclass
class Tokenized:
    """Sequences with their special tokens, and the text that each belongs to."""

    ids: list[list[int]] = field(default_factory=list)
    segments: list[list[int]] | None = None
    """The segment of each token, if there are pairs."""
    owners: list[int] = field(default_factory=list)
    """The index of each sequence's text, in ascending order; a text has one window or more."""
    starts: list[int] = field(default_factory=list)
    """The number of tokens of the text before the window's first token."""
    left_out: dict[int, int] = field(default_factory=dict)
    """Index of a text that was truncated -> number of its tokens that were left out."""


def tokenize(
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    longest: int | None,
    truncate: bool,
    paired: bool = True,
    windows: bool = False,
) -> Tokenized:
    """Return texts as sequences of at most `longest` tokens.

    Args:
        tokenizer: the tokenizer.
        texts: texts and pairs.
        longest: the most tokens of a sequence, including special tokens; None: no limit.
        truncate: whether to truncate long texts at the end (for a pair, the longer text). Otherwise
            a text is read in windows, and a long pair is an error.
        paired: whether the encoder reads pairs.
        windows: read texts in windows even with `truncate`, which then applies to pairs only.

    Raises:
        DataError: the input is not a list of texts and pairs, a pair is too long, or the encoder
            does not read pairs.
    """
    texts, framing = listed(texts), tokenizer.framing
    single = [number for number, text in enumerate(texts) if isinstance(text, str)]
    bare = tokenizer.encode_bare_ids([str(texts[n]) for n in single])
    ids = {number: [of_text] for number, of_text in zip(single, bare, strict=True)}
    tokenized = Tokenized(segments=None if len(single) == len(texts) else [])
    longest = sys.maxsize if longest is None else longest
    for number, text in enumerate(texts):
        parts = ids.get(number) or tokenizer.encode_bare_ids(parts_of(number, text))
        pair = len(parts) == 2
        room = longest - framing.special_tokens(pair)
        if pair and (not paired or room < 2):
            raise DataError(
                "this model reads no pairs; expected a model of BERT's family with room for two "
                "texts"
            )
        over = sum(map(len, parts)) - room
        if over > 0 and pair and not truncate:
            raise DataError(
                f"pair {number} has {over + longest} tokens; this model reads {longest} at once: "
                "truncate long pairs (--truncate, or truncate=True), or embed their texts one by "
                "one"
            )
        if over > 0 and truncate and (pair or not windows):
            tokenized.left_out[number] = over
            counts = truncate_pair(len(parts[0]), len(parts[1]), room) if pair else (room,)
            parts = [part[:count] for part, count in zip(parts, counts, strict=True)]
        for start, stop in [(0, 0)] if pair else split(len(parts[0]), room, 0):
            window = parts if pair else [parts[0][start:stop]]
            # a model without special tokens needs at least one token: the unknown word
            sequence = framing.two(*window) if pair else framing.one(*window)
            tokenized.ids.append(sequence or [tokenizer.unk_id])
            tokenized.owners.append(number)
            tokenized.starts.append(start)
            if tokenized.segments is not None:
                tokenized.segments.append(framing.segments(*map(len, window)) or [0])
    return tokenized


def chunks(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` rows; the last one may be shorter."""
    while chunk := list(islice(rows, size)):
        yield chunk


def listed(texts: object) -> list[Text]:
    """Return texts as a list.

    The texts are one text, a sequence of texts, a column, or a table or array with one column.

    Raises:
        DataError: the argument does not hold texts, or has several columns.
    """
    if isinstance(texts, str):
        return [texts]
    shape = getattr(texts, "shape", None)
    if shape is not None and len(shape) != 1:
        if len(shape) != 2 or shape[1] != 1:
            raise DataError(
                f"the texts have the shape {list(shape)}; expected one column, or for pairs a list "
                "of two texts each"
            )
        texts = getattr(texts, "values", texts)[:, 0]  # type: ignore[index]
    if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Iterable):
        raise DataError(
            f"the texts are of type {type(texts).__name__}; expected a list of texts and pairs"
        )
    return list(texts)


def parts_of(number: int, text: object) -> list[str]:
    """Return a text as a list of one, or the two texts of a pair.

    Raises:
        DataError: it is neither a text nor a pair; the message names its index.
    """
    if isinstance(text, str):
        return [text]
    parts = list(text) if isinstance(text, (tuple, list)) else []
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise DataError(
            f"text {number} is of type {type(text).__name__}; expected str, or two of them"
        )
    return parts


def only_text(text: object) -> str:
    """Return the text; raise DataError if it is not a text."""
    if not isinstance(text, str):
        raise DataError(f"the text is of type {type(text).__name__}; expected one str")
    return text


def is_count(value: object) -> bool:
    """Return whether a value is an integer of at least 1; booleans are not."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) > 0


def join_windows(
    framing: Framing, tokenized: Tokenized, batches: Iterable[tuple[list[int], Sequences, Float32s]]
) -> list[Float32s]:
    """Return the values of each text's tokens, with its windows joined.

    Args:
        framing: the framing of the sequences. Special tokens are kept only at the start of the
            first window and at the end of the last one.
        tokenized: the sequences of n texts.
        batches: for each batch, the indices of its sequences, the sequences end to end, and the
            values of their tokens, `[..., N, H]`.

    Returns:
        `[..., T, H]` for each text.
    """
    states: list[Float32s] = [np.empty((0, 0), np.float32)] * len(tokenized.ids)
    for rows, sequences, x in batches:
        for number, row in enumerate(rows):
            start, stop = sequences.offsets[number : number + 2]
            states[row] = x[..., start:stop, :].copy()
    windows: dict[int, list[Float32s]] = {}
    for owner, state in zip(tokenized.owners, states, strict=True):
        windows.setdefault(owner, []).append(state)
    joined = []
    for of_text in windows.values():
        if len(of_text) > 1:
            inside = [
                framing.inside(state.shape[-2] - framing.special_tokens())[0] for state in of_text
            ]
            of_text = [
                state[
                    ...,
                    own.start if number else 0 : own.stop if number < len(of_text) - 1 else None,
                    :,
                ]
                for number, (state, own) in enumerate(zip(of_text, inside, strict=True))
            ]
        joined.append(np.concatenate(of_text, -2))
    return joined


def kept_tokens(
    tokenizer: Tokenizer, text: Text, kept: int, prompt: str = ""
) -> tuple[list[str], list[tuple[int, int]], list[int]]:
    """Return the tokens of a text that `tokenize` kept, their offsets in characters, and their
    rows.

    Special tokens are included. Offsets in the second text of a pair count from its own start.

    Args:
        tokenizer: the tokenizer.
        text: the text or pair.
        kept: the number of its tokens that were kept, including special tokens.
        prompt: the text that was put before it; tokens of the prompt are left out.
    """
    first, *second = [text] if isinstance(text, str) else text
    framing = tokenizer.framing
    room = kept - framing.special_tokens(bool(second))
    encodings = [tokenizer.encode(part) for part in (prompt + first, *second)]
    plain = [framing.inside(len(each.ids) - framing.special_tokens())[0] for each in encodings]
    lengths = [each.stop - each.start for each in plain]
    lengths = [room] if not second else [*truncate_pair(lengths[0], lengths[1], room)]
    parts = [
        list(zip(each.ids[own][:n], each.offsets[own][:n], strict=True))
        for each, own, n in zip(encodings, plain, lengths, strict=True)
    ]
    ids = [[token for token, _ in part] for part in parts]
    tokens = tokenizer.tokens_of(framing.two(*ids) if second else framing.one(*ids))
    offsets, inside = [(0, 0)] * len(tokens), framing.inside(*lengths)
    for part, own in zip(parts, inside, strict=True):
        offsets[own] = [offset for _, offset in part]
    rows, before = list(range(len(tokens))), len(prompt)
    if prompt:
        prompted = rows[inside[0]]
        rows = [row for row in rows if row not in prompted or offsets[row][1] > before]
        for row in prompted:
            start, stop = offsets[row]
            offsets[row] = max(start - before, 0), stop - before
    return [tokens[row] for row in rows], [offsets[row] for row in rows], rows


@dataclass(frozen=True)
class ModelRunner:
    """A learner in eval mode on its device, with its tokenizer."""

    learner: Learner
    tokenizer: Tokenizer
    device: torch.device
    batch_tokens: int
    """The approximate number of tokens of a batch, which has at least one sequence."""
    name: str
    """The path it was loaded from, for messages."""
    prompt_begin: tuple[int, ...] | None = None
    """The ids before a prompt, for a model that was not trained here; None: those of the
    framing.
    """
    max_length: int | None = None
    """The most tokens that the model was trained to read at once; None: as many as the encoder
    reads.
    """

    @cached_property
    def spec(self) -> EncoderSpec:
        """The specification of the encoder, with this `max_length`."""
        spec = self.learner.encoder.spec
        return replace(spec, max_length=self.max_length or spec.max_length)

    def room(self, paired: bool = False) -> int:
        """Return the number of tokens of text that fit in a sequence, or of both texts in that of a
        pair.
        """
        longest = sys.maxsize if self.spec.max_length is None else self.spec.max_length
        return longest - self.tokenizer.framing.special_tokens(paired)

    @property
    def precision(self) -> Literal["fp32", "bf16"]:
        """The precision of the weights."""
        low = any(p.dtype == torch.bfloat16 for p in self.learner.parameters())
        return "bf16" if low else "fp32"

    @property
    def encoder(self) -> Encoder:
        """Return the encoder that computes the vectors, without its objectives."""
        return self.learner.encoder

    def require(self, objective: str, purpose: str) -> None:
        """Raise DataError if the checkpoint lacks a head."""
        if objective not in self.learner.objectives:
            raise DataError(
                f"{self.name} has no {objective} head, which {purpose} needs (it has: "
                f"{', '.join(self.learner.objectives) or 'the encoder alone'}); use a checkpoint "
                "that was pre-trained with it"
            )

    def run(
        self, ids: Ids, segments: Ids | None = None, **settings: Any
    ) -> Iterator[tuple[list[int], Encoded]]:
        """Encode sequences; see `encode_batches`."""
        return encode_batches(self.encoder, ids, segments, self.batch_tokens, **settings)


def encode_batches(
    encoder: Encoder,
    ids: Ids,
    segments: Ids | None,
    batch_tokens: int,
    *,
    top: int | None = None,
    keep_layers: bool = False,
    positions: Positions | None = None,
) -> Iterator[tuple[list[int], Encoded]]:
    """Encode n sequences of ids, each with its special tokens, by an encoder in eval mode.

    Args:
        encoder: the encoder.
        ids: the sequences.
        segments: the segments of their tokens; None: all 0.
        batch_tokens: the approximate number of tokens of a batch, which has at least one sequence.
        top: the highest layer that is computed, where 0 is the embeddings; None: all layers and
            the pooler.
        keep_layers: whether to return every layer.
        positions: the positions at which the last layer is read, besides the pooler; None: all. It
            cannot be combined with `top` and `keep_layers`.

    Yields:
        The indices of a batch's sequences, and what the encoder computed for them.
    """
    for rows in token_batches([len(sequence) for sequence in ids], batch_tokens):
        rows, inputs = make_inputs(rows, ids, segments, encoder.device)
        read = None if positions is None else positions_in(rows, inputs.sequences, positions)
        with torch.inference_mode():
            encoded = encoder(inputs, top=top, keep_layers=keep_layers, positions=read)
        yield rows, encoded


def positions_in(rows: list[int], sequences: Sequences, positions: Positions) -> Tensor:
    """Return the given positions of the sequences of a batch as indices into its N tokens.

    The result is `[R]`, sequence by sequence.
    """
    starts = zip(rows, sequences.offsets[:-1], strict=True)
    flat = [start + position for row, start in starts for position in positions[row]]
    return send_numbers(flat, sequences.device)
