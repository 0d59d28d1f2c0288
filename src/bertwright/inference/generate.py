"""Texts that go on from a prompt: any causal encoder with a next-token objective generates.

A prompt is framed without its end (`BOS A`). An encoder that keeps a state (`GoesOn`: a KV cache,
an LSTM) reads each token once; any other reads the text again at each token. Prompts of unlike
lengths are read without padding; rows leave when their text ends, and the next prompt joins.

Text leaves as soon as the next token cannot change it: `Writer` keeps back half a character, and
what may become a stop string.

Letters: B prompts, R rows (texts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, listed, make_inputs, only_text
from bertwright.models.encoder import Encoded, Encoder, GoesOn, State
from bertwright.nn.search import BeamSteps, Hypothesis, Row, RowsInFlight, beam_steps, finish
from bertwright.tasks.generation import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

ROWS = 32  # texts at once, of which each needs its own state


@dataclass(frozen=True)
class Generated:
    """A text that continues a prompt."""

    text: str
    """What follows the prompt, as it joins it."""
    ids: list[int]
    """Its tokens, without that which ended it."""
    reason: Literal["stop", "length"]
    """`stop`: a token or a string ended it; `length`: `max_new_tokens`, or the model's context."""
    score: float | None = None
    """Of beam search: its log-probability over its length to the power of the penalty."""


@runtime_checkable
class PredictsTokens(Protocol):
    """A `next_token` head that generates."""

    layers: tuple[int, ...] | None
    """Layers it reads; None: the last."""

    def read(self, encoded: Encoded, positions: Tensor) -> Tensor:
        """What predicts the tokens after R positions in N."""

    def logits(self, x: Tensor) -> Tensor:
        """Of the whole vocabulary by what `read` gave, `[R, V]`; log-probabilities are such."""


class CausalDecoder:
    """`search.Joins` over prompts of ids, by an encoder that keeps a state."""

    def __init__(self, encoder: Encoder, head: PredictsTokens) -> None:
        self.encoder, self.head = encoder, head
        self.device = encoder.device

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """B prompts -> `[B, V]`, and the state of the encoder."""
        order, inputs = make_inputs(list(range(len(source))), source, None, self.device)
        x, state = cast(GoesOn, self.encoder).begin(inputs)
        if order != sorted(order):
            back = torch.tensor(order, device=self.device).argsort()
            x, state = x[back], state.select(back)
        return _checked(self.head.logits(x)), state

    def advance(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Generates`."""
        x, state = cast(GoesOn, self.encoder).advance(ids, state)
        return self.head.logits(x), state

    def select(self, state: State, rows: Tensor) -> State:
        """See `Generates`."""
        return state.select(rows)

    def join(self, first: State, second: State) -> State:
        """See `Joins`."""
        return first.join(second)


class RereadingDecoder:
    """The same for any causal encoder: the state is the ids so far, which are read again."""

    def __init__(self, encoder: Encoder, head: PredictsTokens) -> None:
        self.encoder, self.head = encoder, head
        self.device = encoder.device

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, list[list[int]]]:
        """B prompts -> `[B, V]`, and the prompts."""
        texts = [list(ids) for ids in source]
        order, inputs = make_inputs(list(range(len(texts))), texts, None, self.device)
        sequences = inputs.sequences
        last = torch.tensor(sequences.offsets[1:], device=self.device) - 1
        several = self.head.layers is not None
        encoded = self.encoder(inputs, keep_layers=several, positions=None if several else last)
        x = self.head.read(encoded, last)
        back = torch.tensor(order, device=self.device).argsort()
        return _checked(self.head.logits(x[back])), texts

    def advance(self, ids: Tensor, state: list[list[int]]) -> tuple[Tensor, list[list[int]]]:
        """See `Generates`."""
        return self.begin([[*text, token] for text, token in zip(state, ids.tolist(), strict=True)])

    def select(self, state: list[list[int]], rows: Tensor) -> list[list[int]]:
        """See `Generates`."""
        return [state[row] for row in rows.tolist()]

    def join(self, first: list[list[int]], second: list[list[int]]) -> list[list[int]]:
        """See `Joins`."""
        return first + second


def _checked(logits: Tensor) -> Tensor:
    """Logits that are numbers; DataError if they are not."""
    if logits.isnan().any():
        raise DataError(
            "the model gives logits that are not numbers: its training diverged; use an earlier "
            "checkpoint, or train again with a lower learning rate"
        )
    return logits


def decoder_of(runner: ModelRunner) -> CausalDecoder | RereadingDecoder:
    """What continues prompts by a model.

    Raises:
        DataError: it is no language model from left to right.
    """
    runner.require("next_token", "generation")
    head = runner.learner.objectives["next_token"]
    if not isinstance(head, PredictsTokens):
        raise DataError(f"the head of {runner.name} predicts {head.title}: it generates no text")
    keeps = isinstance(runner.encoder, GoesOn) and head.layers is None
    return (CausalDecoder if keeps else RereadingDecoder)(runner.encoder, head)


def generates(runner: ModelRunner) -> bool:
    """Whether a model continues prompts."""
    heads = runner.learner.objectives
    return "next_token" in heads and isinstance(heads["next_token"], PredictsTokens)


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it."""

    ids: list[int]
    limit: int
    """Tokens that a text may have before the context is full."""


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
    return Prompt(ids, min(room, most))


class Writer:
    """The text of a row as it grows."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str]) -> None:
        self._decode = tokenizer.decode
        self._before = list(prompt[-8:])
        self._start = len(self._decode(self._before))
        self._stop = stop
        self._shown = ""
        self._last = ""
        self.text = ""
        """All of it, before the first stop string."""
        self.stopped = False
        """Whether a stop string came."""

    def write(self, ids: Sequence[int], final: bool = False) -> str:
        """What can be shown more, now that the row has these ids; `final`: the rest."""
        text = self._decode([*self._before, *ids])[self._start :]
        found = [text.find(each) for each in self._stop if each in text]
        if found:
            self.stopped, text = True, text[: min(found)]
        self.text, before, self._last = text, self._last, text
        if not (final or found):
            text = _common(before, text).rstrip("\ufffd")
            held = [
                size
                for each in self._stop
                for size in range(1, len(each))
                if text.endswith(each[:size])
            ]
            text = text[: len(text) - max(held, default=0)]
        more = text[len(self._shown) :]
        self._shown += more
        return more


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
    decoder = decoder_of(runner)
    search = _by_beams if config.beam > 1 else _by_rows
    yield from search(runner, decoder, made, config)


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


def rows_in_flight(runner: ModelRunner) -> RowsInFlight[Any]:
    """Rows of this model."""
    return RowsInFlight(decoder_of(runner), *ends_of(runner.tokenizer))


def _by_rows(
    runner: ModelRunner, decoder: Any, prompts: Sequence[Prompt], config: GenerationConfig
) -> Iterator[tuple[int, list[Generated]]]:
    """Greedily, or by sampling: as many rows at once as there is room for."""
    flight = RowsInFlight(decoder, *ends_of(runner.tokenizer))
    waiting = list(enumerate(prompts))[::-1]
    owners: dict[int, list[tuple[Row, Writer]]] = {}
    while waiting or len(flight):
        joining: list[tuple[int, Prompt]] = []
        tokens = 0
        while waiting and len(flight) + (len(joining) + 1) * config.num <= max(ROWS, config.num):
            tokens += len(waiting[-1][1].ids)
            if joining and tokens > runner.batch_tokens:
                break
            joining.append(waiting.pop())
        for number, prompt in joining:
            owners[number] = [
                (
                    Row(config, prompt.limit, prompt.ids, n),
                    Writer(runner.tokenizer, prompt.ids, config.stop),
                )
                for n in range(config.num)
            ]
        joining.sort(key=lambda each: -len(each[1].ids))  # neighbours of like length are faster
        if joining:
            flight.add(
                [prompt.ids for _, prompt in joining],
                [[row for row, _ in owners[number]] for number, _ in joining],
            )
        flight.step()
        for number, of_prompt in list(owners.items()):
            for row, writer in of_prompt:
                if config.stop and row.reason is None:
                    writer.write(row.ids)
                    row.reason = "stop" if writer.stopped else None
            if all(row.reason for row, _ in of_prompt):
                yield number, [_finished(row.ids, row.reason, w) for row, w in owners.pop(number)]


def _by_beams(
    runner: ModelRunner, decoder: Any, prompts: Sequence[Prompt], config: GenerationConfig
) -> Iterator[tuple[int, list[Generated]]]:
    """By beam search, some prompts at once."""
    some = max(1, ROWS // config.beam)
    for first in range(0, len(prompts), some):
        own = prompts[first : first + some]
        ids, limits = [prompt.ids for prompt in own], [prompt.limit for prompt in own]
        found = finish(begin_beams(runner, decoder, ids, limits, config))
        for number, (prompt, best) in enumerate(zip(own, found, strict=True), first):
            yield (
                number,
                [_of_beam(each, runner.tokenizer, prompt, config) for each in best[: config.num]],
            )


def begin_beams(
    runner: ModelRunner,
    decoder: Any,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    config: GenerationConfig,
) -> BeamSteps:
    """A beam search for texts that continue these prompts of ids, of `limits` tokens at most."""
    tokenizer = runner.tokenizer
    ends, never = ends_of(tokenizer)

    def stops(source: int, ids: list[int]) -> bool:
        writer = Writer(tokenizer, prompts[source], config.stop)
        writer.write(ids)
        return writer.stopped

    return beam_steps(
        decoder,
        prompts,
        ends,
        limits,
        beam=config.beam,
        length_penalty=config.length_penalty,
        repetition_penalty=config.repetition_penalty,
        prompts=prompts,
        stops=stops if config.stop else None,
        never=never,
    )


def _of_beam(
    found: Hypothesis, tokenizer: Tokenizer, prompt: Prompt, config: GenerationConfig
) -> Generated:
    writer = Writer(tokenizer, prompt.ids, config.stop)
    return _finished(found.ids, found.reason, writer, found.score)


def _finished(
    ids: list[int],
    reason: Literal["stop", "length"] | None,
    writer: Writer,
    score: float | None = None,
) -> Generated:
    writer.write(ids, final=True)
    assert reason is not None
    return Generated(writer.text, ids, "stop" if writer.stopped else reason, score)


def _common(first: str, second: str) -> str:
    """What both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    least = min(len(first), len(second))
    return first[: next((n for n, (a, b) in pairs if a != b), least)]
