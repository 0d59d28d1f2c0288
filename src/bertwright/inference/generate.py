"""Continue prompts with a causal encoder that keeps a state, and a next-token objective.

The state is a KV cache, or the last tokens for an n-gram model (`GoesOn`). The prompt of a model
that was trained here begins like its training texts (`BOS A`). For another model it begins as in
transformers: with the ids that its tokenizer's files state, which are none for GPT-2. An empty
prompt is BOS. Each token is read once.

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
from bertwright.models.load import continues_texts, systems_that
from bertwright.models.system import System
from bertwright.nn.encoder import GoesOn
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import GivesLogits
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.products import lay_out

ROWS = 32  # the most texts at once, each of which needs its own state


class CheckedDecoder(CausalDecoder):
    """A decoder that raises an error if the model's logits are not finite."""

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Return the logits of B prompts, `[B, V]`, and the state of the encoder."""
        return _checked(*super().begin(source))

    def extend(self, source: Sequence[Sequence[int]], state: Any) -> tuple[Tensor, Any]:
        """Return the logits of B prompts after further tokens, `[B, V]`, and the new state."""
        return _checked(*super().extend(source, state))


def _checked(logits: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Return the arguments; raise an error if some logits are not finite."""
    require_finite(logits.amax(1), "logits")  # the maximum is NaN if any logit is
    return logits, state


def decoder_of(runner: ModelRunner) -> CausalDecoder:
    """Return the decoder that continues prompts.

    Raises:
        DataError: the model is not a left-to-right language model that can continue from a state.
    """
    runner.require("next_token", "generation")
    if not generates(runner):
        raise DataError(
            f"{runner.name} is a language model that does not generate text here; expected one of "
            f"{', '.join(systems_that(continues_prompts))}. How well it predicts a text is shown "
            f"by: bertwright perplexity FILE --model {runner.name}"
        )
    head: Any = runner.learner.objectives["next_token"]
    lay_out(runner.learner, *([head.weight] if isinstance(head, NextToken) else []))
    return CheckedDecoder(runner.encoder, head)


def continues_prompts(system: System) -> bool:
    """Return whether the models of a system can continue prompts."""
    return continues_texts(system) and "next_token" in system.objectives


def generates(runner: ModelRunner) -> bool:
    """Return whether a model can continue prompts."""
    heads = dict(runner.learner.objectives.items())
    return isinstance(runner.encoder, GoesOn) and isinstance(heads.get("next_token"), GivesLogits)


def make_prompts(
    runner: ModelRunner, texts: Sequence[Text], config: GenerationConfig
) -> list[Prompt]:
    """Tokenize prompts; see `make_prompt` for the errors."""
    bare = runner.tokenizer.encode_bare_ids([only_text(text) for text in texts])
    return [
        make_prompt(runner, ids, config.max_new_tokens, f"prompt {number}")
        for number, ids in enumerate(bare)
    ]


def make_prompt(runner: ModelRunner, bare: Sequence[int], most: int, name: str) -> Prompt:
    """Return a prompt of bare ids, after which at most `most` tokens are generated.

    Raises:
        DataError: the prompt is empty and the tokenizer has no begin token, or it is longer than
            the model reads at once.
    """
    longest = runner.spec.max_length
    begin = runner.tokenizer.framing.begin
    if bare and runner.prompt_begin is not None:
        begin = runner.prompt_begin
    ids = [*begin, *bare]
    if not ids:
        raise DataError(f"{name} is empty, but this tokenizer has no begin token: give it text")
    room = most if longest is None else longest - len(ids) + 1
    if room < 2 and longest is not None:
        raise DataError(
            f"{name} has {len(ids):,} tokens; this model reads {longest:,} at once, including "
            "those that it generates: shorten it"
        )
    return Prompt(ids, min(room, most), ids)


def generate(
    runner: ModelRunner, prompts: Sequence[str], config: GenerationConfig
) -> Iterator[tuple[int, list[Generated]]]:
    """Yield the index of each prompt and its `config.num` texts, as soon as they are complete.

    Raises:
        DataError: see `decoder_of` and `make_prompt`; or the model's logits are not finite.
    """
    tokenized = make_prompts(runner, listed(prompts), config)
    yield from continue_prompts(
        decoder_of(runner), runner.tokenizer, tokenized, config, runner.batch_tokens, ROWS
    )


def stream(runner: ModelRunner, prompt: str, config: GenerationConfig) -> Iterator[str]:
    """Yield the text that continues a prompt as it is generated; with beams, at the end."""
    (tokenized,) = make_prompts(runner, [prompt], config)
    if config.beam > 1:
        for _, (best, *_) in generate(runner, [prompt], config):
            yield best.text
        return
    flight = rows_in_flight(runner)
    text = GrowingText(config, tokenized.limit, tokenized.ids, tokenizer=runner.tokenizer)
    flight.add([tokenized.ids], [[text]])
    while len(flight):
        flight.step()
        if more := text.write():
            yield more


def rows_in_flight(runner: ModelRunner) -> RowsInFlight:
    """Return an empty batch of rows that this model continues."""
    return RowsInFlight(decoder_of(runner), *ends_of(runner.tokenizer))
