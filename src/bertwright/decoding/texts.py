"""Generation: a source and its target as an instance, and texts that continue prompts.

A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read in one window:
of a source that leaves no room for a target the rest is not read, and a target's tokens beyond
`max_target_tokens` are not trained on. Both are counted in `Lengths`.

Prompts, and the sources of a task, each once, are read without padding and continued token by token
over what is kept; rows leave when their text ends, and the next prompt joins.

Letters: B prompts, R rows (texts), V vocabulary."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.data.to_device import make_inputs
from bertwright.decoding.search import (
    BeamSteps,
    Generates,
    Row,
    RowsInFlight,
    beam_steps,
    finish,
)
from bertwright.errors import ConfigError
from bertwright.nn.encoder import Encoder, GoesOn
from bertwright.nn.host import send
from bertwright.text.tokenizer.tokenizer import Tokenizer


def ends_of(tokenizer: Tokenizer) -> tuple[set[int], set[int]]:
    """Ids that end a text, and ids that no text has: of other special tokens, and of none."""
    ends = {tokenizer.special[role] for role in ("sep", "eos") if role in tokenizer.special}
    return ends, {*tokenizer.special.values(), *tokenizer.ids_without_token} - ends


@runtime_checkable
class GivesLogits(Protocol):
    """A head that says what the next token is."""

    def logits(self, x: Tensor) -> Tensor:
        """Vectors of R tokens `[R, H]` -> `[R, V]`"""


class CausalDecoder:
    """`search.Generates` over prompts of ids, by an encoder that goes on from them."""

    def __init__(self, encoder: Encoder, head: GivesLogits, paired: bool = False) -> None:
        """`paired`: the text that follows is of the second segment."""
        if not isinstance(encoder, GoesOn):
            raise ConfigError(
                "this encoder does not generate text, which a generation task needs: use a BERT, a "
                "GPT or a GPT-2 as --model"
            )
        self.encoder: GoesOn = encoder
        self.head, self.paired, self.device = head, paired, encoder.device

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """B prompts -> `[B, V]`, and what is kept of them."""
        segments = [[0] * len(ids) for ids in source] if self.paired else None
        order, inputs = make_inputs(list(range(len(source))), source, segments, self.device)
        x, state = self.encoder.begin(inputs)
        if order != sorted(order):
            back = torch.tensor(order).argsort()
            x, state = x.index_select(0, send(back, x.device)), state.select(back)
        return self.head.logits(x), state

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """See `Generates`."""
        x, state = self.encoder.advance(ids, state)
        return self.head.logits(x), state


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it."""

    ids: list[int]
    limit: int
    """Tokens that a text may have."""
    before: Sequence[int] = ()
    """Tokens that a text joins, and that the repetition penalty counts."""


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


@dataclass(eq=False)
class GrowingText(Row):
    """A row and its text, which is shown as soon as the next token cannot change it, but for half a
    character, and what may become a stop string."""

    tokenizer: Tokenizer = field(kw_only=True)
    text: str = ""
    """All of it, before the first stop string."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._before = list(self.prompt[-8:])
        self._start = len(self.tokenizer.decode(self._before))
        self._shown = self._last = ""

    def write(self) -> str:
        """What can be shown more, now that it has these ids: all, once it has ended. A stop string
        ends it."""
        text = self.tokenizer.decode([*self._before, *self.ids])[self._start :]
        stops = self.config.stop
        if found := [text.find(each) for each in stops if each in text]:
            self.reason, text = "stop", text[: min(found)]
        self.text, before, self._last = text, self._last, text
        if self.reason is None:
            text = os.path.commonprefix([before, text]).rstrip("\ufffd")  # noqa: RUF071
            starts = [each[:size] for each in stops for size in range(1, len(each))]
            held = max((len(each) for each in starts if text.endswith(each)), default=0)
            text = text[: len(text) - held]
        more = text[len(self._shown) :]
        self._shown += more
        return more

    def finished(self, score: float | None = None) -> Generated:
        """It has ended."""
        self.write()
        assert self.reason is not None
        return Generated(self.text, self.ids, self.reason, score)


def continue_prompts(
    decoder: Generates,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    config: GenerationConfig,
    batch_tokens: int,
    most_rows: int,
) -> Iterator[tuple[int, list[Generated]]]:
    """The number of a prompt and its `config.num` texts, as soon as they are done; at most so many
    rows at once, and about so many tokens of prompts that join at once."""
    if config.beam > 1:
        yield from _by_beams(decoder, tokenizer, prompts, config, most_rows)
        return
    flight = RowsInFlight(decoder, *ends_of(tokenizer))
    waiting = list(enumerate(prompts))[::-1]
    going: dict[int, list[GrowingText]] = {}
    while waiting or len(flight):
        joining: list[tuple[int, Prompt]] = []
        tokens = 0
        # prompts join together, as that copies what is kept of all rows
        room = max(most_rows, config.num) - len(flight) if len(flight) <= most_rows // 2 else 0
        while waiting and (len(joining) + 1) * config.num <= room:
            tokens += len(waiting[-1][1].ids)
            if joining and tokens > batch_tokens:
                break
            joining.append(waiting.pop())
        for number, prompt in joining:
            going[number] = [
                GrowingText(config, prompt.limit, prompt.before, n, tokenizer=tokenizer)
                for n in range(config.num)
            ]
        joining.sort(key=lambda each: -len(each[1].ids))  # neighbours of like length are faster
        if joining:
            flight.add([each.ids for _, each in joining], [going[number] for number, _ in joining])
        flight.step()
        for number, texts_of in list(going.items()):
            for text in texts_of:
                if config.stop and text.reason is None:
                    text.write()
            if all(text.reason for text in texts_of):
                yield number, [text.finished() for text in going.pop(number)]


def begin_beams(
    decoder: Generates,
    tokenizer: Tokenizer,
    source: Sequence[Sequence[int]],
    limits: Sequence[int],
    config: GenerationConfig,
) -> BeamSteps:
    """A beam search for the texts that continue prompts, of `limits` tokens at most."""
    ends, never = ends_of(tokenizer)
    return beam_steps(
        decoder,
        source,
        ends,
        limits,
        beam=config.beam,
        norm=lambda length: length**config.length_penalty,
        never=never,
    )


def _by_beams(
    decoder: Generates,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    config: GenerationConfig,
    most_rows: int,
) -> Iterator[tuple[int, list[Generated]]]:
    """By beam search, some prompts at once."""
    some = max(1, most_rows // config.beam)
    for first in range(0, len(prompts), some):
        own = prompts[first : first + some]
        source, limits = [prompt.ids for prompt in own], [prompt.limit for prompt in own]
        steps = begin_beams(decoder, tokenizer, source, limits, config)
        for number, best in enumerate(finish(steps), first):
            row = config, prompts[number].limit, prompts[number].before, 0
            texts = (
                GrowingText(*row, ids, reason, tokenizer=tokenizer).finished(score)
                for score, ids, reason in best[: config.num]
            )
            yield number, list(texts)
