"""Generation: a source and its target as an instance, and texts that continue prompts.

A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read in one window:
of a source that leaves no room for a target the rest is not read, and a target's tokens beyond
`max_target_tokens` are not trained on. Both are counted in `Lengths`.

Prompts, and the sources of a task, each once, are read without padding and continued token by token
over what is kept; rows leave when their text ends, and the next prompt joins.

Letters: B prompts, R rows (texts), V vocabulary.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.data.to_device import make_inputs
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import Example, GenerationExample
from bertwright.models.encoder import Encoder, GoesOn
from bertwright.nn.host import send
from bertwright.nn.products import lay_out
from bertwright.nn.search import Generates, Row, RowsInFlight, beam_steps, finish
from bertwright.objectives.objective import Learner
from bertwright.progress import OnProgress
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    segments_of,
    tokenized,
    whole_length,
)
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

ROWS = 128
"""Targets that are searched for at once, beams counted."""


def make_generation_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance an example; its label is how many tokens are the source's.

    Raises:
        DataError: an empty source or target, or one of which the tokenizer keeps nothing; with the
            line.
    """

    def texts_of(example: GenerationExample) -> dict[str, str]:
        target = {} if example.target is None else {"target": example.target}
        return {"source": example.source} | target

    chosen, framing = cast(Sequence[GenerationExample], examples), tokenizer.framing
    room = task.max_length - task.max_target_tokens - framing.special_tokens(True)
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example, (source, *targets) in tokenized(tokenizer, chosen, texts_of):
        if targets and not targets[0]:
            where = in_words(example, number)
            raise DataError(
                f"{where}: the tokenizer keeps nothing of the target {example.target!r}"
            )
        target: Sequence[int] = targets[0] if targets else ()
        first, second = source[:room], target[: task.max_target_tokens]
        ids = framing.two(first, second)
        prefix = len(ids) - len(second) - (framing.special_tokens(True) > 0)
        if len(second) < len(target):
            ids = ids[:-1]  # it does not end here
        segments = segments_of(framing, len(first), len(second))[: len(ids)]
        instances.append(Instance(number, (array("i", ids),), (segments,), prefix))
        lost = len(source) - len(first) + len(target) - len(second)
        lengths.add(whole_length(framing, source, target), 1, lost)
    return instances, lengths


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


def generate_targets(
    learner: Learner,
    data: Any,
    precision: str,
    batch_tokens: int,
    config: GenerationConfig | None,
    on_progress: OnProgress,
) -> Iterator[tuple[int, GenerationPrediction]]:
    """Numbers of examples of a `TaskData`, and their predictions by its head; by default greedily,
    never of more than the task's `max_target_tokens`."""
    config = config or GenerationConfig(max_new_tokens=data.task.max_target_tokens)
    limit = min(config.max_new_tokens, data.task.max_target_tokens)
    decoder = _decoder(learner, data.name, precision)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, instance in enumerate(data.instances):
        groups.setdefault(tuple(instance.ids[0][: instance.label]), []).append(row)
    sources = sorted(groups, key=len, reverse=True)
    prompts = [Prompt([*ids], limit) for ids in sources]
    done = 0
    texts = continue_prompts(decoder, data.tokenizer, prompts, config, batch_tokens, ROWS)
    for number, found in texts:
        first, *others = (each.text.strip() for each in found)
        score = found[0].score
        for row in groups[sources[number]]:
            yield row, GenerationPrediction(first, score, tuple(others))
            done += data.instances[row].num_tokens
        on_progress(done, data.num_tokens)


def _decoder(learner: Learner, name: str, precision: str) -> CausalDecoder:
    """Of a copy of the weights that a head needs, in a precision: autocast would cast all of them
    at each step, and those of training are laid out for it."""
    with torch.inference_mode(False):  # tensors that it makes do not tell whether they changed
        own = deepcopy(nn.ModuleList([learner.encoder, learner.objectives[name]]))
        if precision == "bf16":
            own.to(torch.bfloat16)
        encoder, head = cast(Encoder, own[0]), cast(Any, own[1])
        lay_out(own, head.weight)
    return CausalDecoder(encoder, head, paired=True)


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


def _by_beams(
    decoder: Generates,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    config: GenerationConfig,
    most_rows: int,
) -> Iterator[tuple[int, list[Generated]]]:
    """By beam search, some prompts at once."""
    ends, never = ends_of(tokenizer)
    some = max(1, most_rows // config.beam)
    for first in range(0, len(prompts), some):
        own = prompts[first : first + some]
        steps = beam_steps(
            decoder,
            [prompt.ids for prompt in own],
            ends,
            [prompt.limit for prompt in own],
            beam=config.beam,
            norm=lambda length: length**config.length_penalty,
            never=never,
        )
        for number, best in enumerate(finish(steps), first):
            row = config, prompts[number].limit, prompts[number].before, 0
            texts = (
                GrowingText(*row, ids, reason, tokenizer=tokenizer).finished(score)
                for score, ids, reason in best[: config.num]
            )
            yield number, list(texts)
