"""Texts that go on from a prompt: any causal encoder with a next-token objective generates.

A prompt is framed without its end (`BOS A`). An encoder that keeps a state (`GoesOn`: a KV cache,
an LSTM) reads each token once; any other reads the text again at each token.

Letters: B prompts, R rows (texts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.data.to_device import make_inputs
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, listed, only_text
from bertwright.models.encoder import Encoded, Encoder, GoesOn
from bertwright.nn.products import lay_out
from bertwright.nn.search import Row, RowsInFlight
from bertwright.objectives.next_token import NextToken
from bertwright.tasks.generation import (
    CausalDecoder,
    Generated,
    Prompt,
    Writer,
    checked,
    continue_prompts,
    ends_of,
)

ROWS = 32  # texts at once, of which each needs its own state


@runtime_checkable
class PredictsTokens(Protocol):
    """A `next_token` head that generates."""

    layers: tuple[int, ...] | None
    """Layers it reads; None: the last."""

    def read(self, encoded: Encoded, positions: Tensor) -> Tensor:
        """What predicts the tokens after R positions in N."""

    def logits(self, x: Tensor) -> Tensor:
        """Of the whole vocabulary by what `read` gave, `[R, V]`; log-probabilities are such."""


class CheckedDecoder(CausalDecoder):
    """A decoder whose model must give numbers."""

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """B prompts -> `[B, V]`, and the state of the encoder."""
        logits, state = super().begin(source)
        return checked(logits), state


class Texts(list[list[int]]):
    """A state: the ids so far."""

    def select(self, rows: Tensor) -> Texts:
        """See `nn/search.py`."""
        return Texts(self[row] for row in rows.tolist())

    def join(self, other: Texts) -> Texts:
        """See `nn/search.py`."""
        return Texts(self + other)


class RereadingDecoder:
    """`search.Generates` by any causal encoder: it reads texts again at each token."""

    def __init__(self, encoder: Encoder, head: PredictsTokens) -> None:
        self.encoder, self.head = encoder, head
        self.device = encoder.device

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Texts]:
        """B prompts -> `[B, V]`, and the prompts."""
        texts = Texts(list(ids) for ids in source)
        order, inputs = make_inputs(list(range(len(texts))), texts, None, self.device)
        sequences = inputs.sequences
        last = torch.tensor(sequences.offsets[1:], device=self.device) - 1
        several = self.head.layers is not None
        encoded = self.encoder(inputs, keep_layers=several, positions=None if several else last)
        x = self.head.read(encoded, last)
        back = torch.tensor(order, device=self.device).argsort()
        return checked(self.head.logits(x[back])), texts

    def advance(self, ids: Tensor, state: Texts) -> tuple[Tensor, Texts]:
        """See `Generates`."""
        return self.begin([[*text, token] for text, token in zip(state, ids.tolist(), strict=True)])


def decoder_of(runner: ModelRunner) -> CheckedDecoder | RereadingDecoder:
    """What continues prompts by a model.

    Raises:
        DataError: it is no language model from left to right.
    """
    runner.require("next_token", "generation")
    head = runner.learner.objectives["next_token"]
    lay_out(runner.learner, *([head.weight] if isinstance(head, NextToken) else []))
    if not isinstance(head, PredictsTokens):
        raise DataError(f"the head of {runner.name} predicts {head.title}: it generates no text")
    keeps = isinstance(runner.encoder, GoesOn) and head.layers is None
    return (CheckedDecoder if keeps else RereadingDecoder)(runner.encoder, head)


def generates(runner: ModelRunner) -> bool:
    """Whether a model continues prompts."""
    heads = runner.learner.objectives
    return "next_token" in heads and isinstance(heads["next_token"], PredictsTokens)


def make_prompts(
    runner: ModelRunner, texts: Sequence[str], config: GenerationConfig
) -> list[Prompt]:
    """Tokenize prompts.

    Raises:
        DataError: no text, nothing to begin with, or more than the model reads at once.
    """
    bare = runner.tokenizer.encode_bare_ids([only_text(text) for text in texts])
    return [
        make_prompt(runner, own, config.max_new_tokens, f"prompt {number}")
        for number, own in enumerate(bare)
    ]


def make_prompt(runner: ModelRunner, own: Sequence[int], most: int, name: str) -> Prompt:
    """A prompt of bare ids, after which `most` tokens may come.

    Raises:
        DataError: there is nothing to begin with, or more than the model reads at once.
    """
    framing, longest = runner.tokenizer.framing, runner.spec.max_length
    ids = framing.one(own)[: framing.inside(len(own))[0].stop]
    if not ids:
        raise DataError(f"{name} is empty, and this tokenizer has no token for begin: give it text")
    room = most if longest is None else longest - len(ids) + 1
    if room < 2 and longest is not None:
        raise DataError(
            f"{name} has {len(ids):,} tokens; this model reads {longest:,} at once, "
            "those that it generates included: shorten it"
        )
    return Prompt(ids, min(room, most), ids)


def generate(
    runner: ModelRunner, prompts: Sequence[str], config: GenerationConfig
) -> Iterator[tuple[int, list[Generated]]]:
    """Continue prompts.

    Yields:
        The number of a prompt and its `config.num` texts, as soon as they are done.

    Raises:
        DataError: see `decoder_of` and `make_prompts`; or the model gives no finite logits.
    """
    texts = [only_text(text) for text in listed(prompts)]
    made = make_prompts(runner, texts, config)
    yield from continue_prompts(
        decoder_of(runner), runner.tokenizer, made, config, runner.batch_tokens, ROWS
    )


def stream(runner: ModelRunner, prompt: str, config: GenerationConfig) -> Iterator[str]:
    """The text that continues a prompt, as it is made; with beams, at the end."""
    (made,) = make_prompts(runner, [prompt], config)
    if config.beam > 1:
        for _, (best, *_) in generate(runner, [prompt], config):
            yield best.text
        return
    flight = rows_in_flight(runner)
    writer = Writer(runner.tokenizer, made.ids, config.stop)
    row = Row(config, made.limit, made.ids)
    flight.add([made.ids], [[row]])
    while len(flight):
        flight.step()
        more = writer.write(row.ids, row.reason is not None)
        if writer.stopped:
            row.reason = "stop"
        if more:
            yield more


def rows_in_flight(runner: ModelRunner) -> RowsInFlight:
    """Rows of this model."""
    return RowsInFlight(decoder_of(runner), *ends_of(runner.tokenizer))
