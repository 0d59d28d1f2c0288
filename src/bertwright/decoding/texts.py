"""Generate the texts that continue prompts, with continuous batching or by beam search.

Prompts are read once, without padding, and continued token by token over a KV cache. Finished texts
leave the batch and the next prompts join it between steps. The sources of a generation task are
prompts too.

Letters: B prompts, R rows (texts), V vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.data.batch import make_inputs
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
from bertwright.nn.objective import GivesLogits
from bertwright.nn.sequences import Inputs
from bertwright.text.tokenizer.tokenizer import Tokenizer


def ends_of(tokenizer: Tokenizer) -> tuple[set[int], set[int]]:
    """Return the ids that end a text, and the ids that are never generated: those of other special
    tokens and those to which no token belongs."""
    ends = {tokenizer.special[role] for role in ("sep", "eos") if role in tokenizer.special}
    return ends, {*tokenizer.special.values(), *tokenizer.ids_without_token} - ends


class CausalDecoder:
    """A decoder (`search.Generates`) made of an encoder that continues prompts, and a head."""

    def __init__(self, encoder: Encoder, head: GivesLogits, paired: bool = False) -> None:
        """Build the decoder.

        Args:
            encoder: an encoder that implements `GoesOn`.
            head: the head that predicts the next token.
            paired: whether prompts have segment 0 and generated tokens segment 1.
        """
        if not isinstance(encoder, GoesOn):
            raise ConfigError(f"a {type(encoder).__name__} cannot continue a text token by token")
        self.encoder: GoesOn = encoder
        self.head, self.paired, self.device = head, paired, encoder.device
        self.reads_parts = encoder.spec.causal
        """Whether a prompt may be read in parts, which requires that the encoder is causal."""

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        order, inputs = self._inputs(source)
        return self._in_order(order, *self.encoder.begin(inputs))

    def extend(self, source: Sequence[Sequence[int]], state: Any) -> tuple[Tensor, Any]:
        order, inputs = self._inputs(source)
        if order != sorted(order):
            state = state.select(torch.tensor(order))
        return self._in_order(order, *self.encoder.extend(inputs, state))

    def _inputs(self, source: Sequence[Sequence[int]]) -> tuple[list[int], Inputs]:
        """Return the numbers of the prompts, longest first, and their inputs in this order."""
        segments = [[0] * len(ids) for ids in source] if self.paired else None
        return make_inputs(list(range(len(source))), source, segments, self.device)

    def _in_order(self, order: list[int], x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the logits of vectors `[B, H]` and the state, both in the order of the prompts.

        `order` is the order of the vectors and the state, as `_inputs` returns it.
        """
        if order != sorted(order):
            back = torch.tensor(order).argsort()
            x, state = x.index_select(0, send(back, x.device)), state.select(back)
        return self.head.logits(x), state

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.encoder.advance(ids, state)
        return self.head.logits(x), state


@dataclass(frozen=True)
class Prompt:
    """A prompt in the model's ids."""

    ids: list[int]
    limit: int
    """The maximum number of tokens of a text."""
    before: Sequence[int] = ()
    """The tokens that the text continues; they count for the repetition penalty."""


@dataclass(frozen=True)
class Generated:
    """A text that continues a prompt."""

    text: str
    """The text after the prompt; it begins with a space where one separates them."""
    ids: list[int]
    """Its tokens, without the one that ended it."""
    reason: Literal["stop", "length"]
    """The reason why it ended: an end token or a stop string (`stop`), or `max_new_tokens` or the
    model's maximum length (`length`)."""
    score: float | None = None
    """With beam search, its log-probability divided by its length to the power of the length
    penalty; otherwise None."""


SETTLED = 64
"""The number of new tokens after which a growing text is settled further, and the number of last
tokens that are not settled."""
CONTEXT = 8
"""The number of preceding tokens that are decoded too, as they may change how the text begins."""


@dataclass(eq=False)
class GrowingText(Row):
    """A row with its text, which is emitted as it grows.

    Text is emitted once the next token cannot change it. An incomplete character and a possible
    begin of a stop string are held back. Text that was emitted long ago is settled, that is, it is
    not decoded again, so that a token takes as long at the end of a long text as at its begin.
    """

    tokenizer: Tokenizer = field(kw_only=True)
    text: str = ""
    """The whole text, up to the first stop string."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settled, self._count = "", 0
        """The settled text, and the number of its tokens."""
        self._context = list(self.prompt[-CONTEXT:])
        """The last tokens before the unsettled ones."""
        self._start = len(self.tokenizer.decode(self._context))
        self._shown = self._last = ""
        """The emitted text and the latest text, both without the settled text."""
        self._settles_at = 2 * SETTLED
        """The number of tokens at which the text is settled next."""

    def write(self) -> str:
        """Return the text that can be emitted now; after the row has ended, all of the rest.

        A stop string in the text ends the row.
        """
        new = self.ids[self._count :]
        text = self.tokenizer.decode([*self._context, *new])[self._start :]
        stops = self.config.stop
        if positions := [text.find(stop) for stop in stops if stop in text]:
            self.reason, text = "stop", text[: min(positions)]
        self.text, before, self._last = self._settled + text, self._last, text
        if self.reason is None:
            text = os.path.commonprefix([before, text]).rstrip("\ufffd")  # noqa: RUF071
            starts = [stop[:size] for stop in stops for size in range(1, len(stop))]
            held = max((len(start) for start in starts if text.endswith(start)), default=0)
            text = text[: len(text) - held]
        more = text[len(self._shown) :]
        self._shown += more
        if self.reason is None and len(self.ids) >= self._settles_at:
            self._settle()
        return more

    def _settle(self) -> None:
        """Keep the text of all but the last `SETTLED` tokens, which are not decoded again.

        This is done only if that text was emitted, and if decoding the others without it gives the
        same text.
        """
        self._settles_at = len(self.ids) + SETTLED
        count = len(self.ids) - SETTLED
        context = self.ids[count - CONTEXT : count]
        start = len(self.tokenizer.decode(context))
        text = self.tokenizer.decode([*context, *self.ids[count:]])[start:]
        settled = len(self._last) - len(text)
        if settled <= len(self._shown) and self._last[settled:] == text:
            self._settled += self._last[:settled]
            self._count, self._context, self._start = count, context, start
            self._last, self._shown = text, self._shown[settled:]

    def finished(self, score: float | None = None) -> Generated:
        """Return the text of a row that has ended."""
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
    """Generate `config.num` texts for each prompt.

    Args:
        batch_tokens: the approximate number of prompt tokens that are read at once.
        most_rows: the maximum number of texts that are generated at once.

    Yields:
        The number of a prompt and its texts, as soon as all of them are finished.
    """
    if config.beam > 1:
        yield from _by_beams(decoder, tokenizer, prompts, config, most_rows)
        return
    flight = RowsInFlight(decoder, *ends_of(tokenizer))
    waiting = list(enumerate(prompts))[::-1]
    going: dict[int, list[GrowingText]] = {}
    while waiting or len(flight):
        joining: list[tuple[int, Prompt]] = []
        tokens = 0
        # Prompts join in groups, because joining copies the cache of all rows.
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
        joining.sort(key=lambda numbered: -len(numbered[1].ids))  # attention is then faster
        if joining:
            flight.add(
                [prompt.ids for _, prompt in joining], [going[number] for number, _ in joining]
            )
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
    """Return the steps of a beam search for texts that continue prompts.

    `limits` are the maximum numbers of tokens of the texts of each prompt.
    """
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
    """Generate texts by beam search, for as many prompts at once as `most_rows` allows."""
    at_once = max(1, most_rows // config.beam)
    for first in range(0, len(prompts), at_once):
        some = prompts[first : first + at_once]
        source, limits = [prompt.ids for prompt in some], [prompt.limit for prompt in some]
        steps = begin_beams(decoder, tokenizer, source, limits, config)
        for number, best in enumerate(finish(steps), first):
            row = config, prompts[number].limit, prompts[number].before, 0
            texts = (
                GrowingText(*row, ids, reason, tokenizer=tokenizer).finished(score)
                for score, ids, reason in best[: config.num]
            )
            yield number, list(texts)
