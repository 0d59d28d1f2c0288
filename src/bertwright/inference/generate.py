"""Texts that go on from a prompt, by a causal encoder that keeps a state (`GoesOn`: a KV cache, or
the last tokens of an n-gram model) and a next-token objective.

A prompt of a model that was trained here begins as its training texts did (`BOS A`). That of
another model begins as transformers begins it: with what its tokenizer's files say, for GPT-2
nothing. An empty prompt is BOS alone. Each token is read once.

Letters: B prompts, R rows (texts), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.decoding.search import RowsInFlight
from bertwright.decoding.texts import (
    CausalDecoder,
    Generated,
    GrowingText,
    Prompt,
    continue_prompts,
    ends_of,
)
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, Text, listed, only_text
from bertwright.nn.encoder import GoesOn
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import GivesLogits
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.products import lay_out

ROWS = 32  # texts at once, of which each needs its own state


class CheckedDecoder(CausalDecoder):
    """A decoder whose model must give numbers."""

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """B prompts -> `[B, V]`, and the state of the encoder."""
        logits, state = super().begin(source)
        require_finite(logits.amax(1), "logits")  # NaN is larger than all
        return logits, state


def decoder_of(runner: ModelRunner) -> CausalDecoder:
    """What continues prompts; DataError where a model is no language model from left to right that
    keeps what it has read."""
    runner.require("next_token", "generation")
    if not generates(runner):
        raise DataError(
            f"{runner.name} is a language model that does not generate text here; expected a GPT, "
            "a GPT-2, a bert-ltr or an n-gram model. How well it predicts a text is shown by: "
            f"bertwright perplexity FILE --model {runner.name}"
        )
    head: Any = runner.learner.objectives["next_token"]
    lay_out(runner.learner, *([head.weight] if isinstance(head, NextToken) else []))
    return CheckedDecoder(runner.encoder, head)


def generates(runner: ModelRunner) -> bool:
    """Whether a model continues prompts."""
    heads = dict(runner.learner.objectives.items())
    return isinstance(runner.encoder, GoesOn) and isinstance(heads.get("next_token"), GivesLogits)


def make_prompts(
    runner: ModelRunner, texts: Sequence[Text], config: GenerationConfig
) -> list[Prompt]:
    """Tokenize prompts; for the errors see `make_prompt`."""
    bare = runner.tokenizer.encode_bare_ids([only_text(text) for text in texts])
    return [
        make_prompt(runner, own, config.max_new_tokens, f"prompt {number}")
        for number, own in enumerate(bare)
    ]


def make_prompt(runner: ModelRunner, own: Sequence[int], most: int, name: str) -> Prompt:
    """A prompt of bare ids, after which `most` tokens may come; DataError where there is nothing to
    begin with, or more than the model reads at once."""
    longest = runner.spec.max_length
    begin = runner.tokenizer.framing.begin
    if own and runner.prompt_begin is not None:
        begin = runner.prompt_begin
    ids = [*begin, *own]
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
    """The number of each prompt and its `config.num` texts, as soon as they are done.

    Raises:
        DataError: see `decoder_of` and `make_prompt`; or the model gives no finite logits.
    """
    made = make_prompts(runner, listed(prompts), config)
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
    text = GrowingText(config, made.limit, made.ids, tokenizer=runner.tokenizer)
    flight.add([made.ids], [[text]])
    while len(flight):
        flight.step()
        if more := text.write():
            yield more


def rows_in_flight(runner: ModelRunner) -> RowsInFlight:
    """Rows of this model."""
    return RowsInFlight(decoder_of(runner), *ends_of(runner.tokenizer))
