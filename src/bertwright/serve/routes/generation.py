"""Routes of models that generate text: /generate, OpenAI's /v1/completions, and /translate.

They take one or more texts and return one or more texts for each, whole or as server-sent events.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import BeamSteps
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner
from bertwright.inference.generate import make_prompt, rows_in_flight
from bertwright.inference.translation.translate import target_search
from bertwright.serve.calls import Call, Generating
from bertwright.serve.engine.engine import CONTINUATION, TRANSLATION, Engine
from bertwright.serve.engine.generation.flight import Piece, PromptTexts, Searches, Text
from bertwright.serve.engine.generation.way import Way
from bertwright.serve.engine.items import PreparedPrompts, tokenize_texts
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.event_stream import Events, EventStream
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import (
    Completion,
    CompletionsReply,
    CompletionUsage,
    GeneratedText,
    GenerateReply,
    Truncated,
)
from bertwright.serve.schemas.requests import (
    CompletionsRequest,
    GenerateRequest,
    SampledRequest,
    TranslateRequest,
    listed,
)

Json = dict[str, Any]
router = ModelRouter()


def _translations(runner: ModelRunner) -> Searches:
    """Return beam searches for translations by this model."""

    def begin(
        source: Sequence[list[int]], limits: Sequence[int], config: GenerationConfig
    ) -> BeamSteps:
        return target_search(runner).begin(source, limits, config.beam, config.length_penalty)

    return Searches(begin)


CONTINUES = Way(CONTINUATION, rows_in_flight)
TRANSLATES = Way(TRANSLATION, _translations, is_of_encoder=False)


@router.post("/generate", response_model=GenerateReply[list[GeneratedText]])
async def generate(
    body: GenerateRequest, call: Call
) -> GenerateReply[list[GeneratedText]] | EventStream:
    """Continue prompts."""
    model = await call.model(body)
    check_sampling(body)
    if body.num > 1 and not body.sample:
        raise invalid_request('all texts would be the same: request "sample": true, or num 1')
    found = await model.generate(CONTINUES, continuations, body, call.config)
    if body.stream:
        return await call.stream(found, events(found, lambda piece: piece.text, {}))
    texts = texts_of(await found.whole(), len(found.prompts), lambda piece: piece.text)
    return GenerateReply[list[GeneratedText]](
        **found.about, results=texts, tokens_generated=found.generated
    )


def continuations(engine: Engine, body: GenerateRequest, limits: ServeConfig) -> PreparedPrompts:
    """Return the prompts of `/generate`."""
    rows = _tokenized(engine, listed(body.input))
    truncated = _truncate(engine, rows, body.max_new_tokens) if body.truncate else []
    prompts = make_prompts(
        engine, rows, body, limits, most=body.max_new_tokens, sample=body.sample, num=body.num
    )
    return PreparedPrompts(engine=engine, prompts=prompts, truncated=truncated)


def check_sampling(body: SampledRequest) -> None:
    """Raise `HttpError` if options of sampling are given without `sample`."""
    given = body.temperature != 1 or body.top_k is not None or body.top_p != 1
    if given and not body.sample:
        reason = 'temperature, top_k and top_p are of sampling: request "sample": true'
        raise invalid_request(reason)


@router.post("/translate", response_model=GenerateReply[GeneratedText])
async def translate(
    body: TranslateRequest, call: Call
) -> GenerateReply[GeneratedText] | EventStream:
    """Translate sentences."""
    model = await call.model(body)
    found = await model.generate(TRANSLATES, translations, body, call.config)
    if body.stream:
        return await call.stream(found, events(found, stripped, {}))
    texts = texts_of(await found.whole(), len(found.prompts), stripped)
    return GenerateReply[GeneratedText](
        **found.about, results=[text for (text,) in texts], tokens_generated=found.generated
    )


def translations(engine: Engine, body: TranslateRequest, limits: ServeConfig) -> PreparedPrompts:
    """Return the sentences of `/translate`."""
    if not engine.translates:
        raise NoHead(f"{engine.name} translates nothing", (TRANSLATION,))
    texts = listed(body.input)
    tokenized, truncated = tokenize_texts(engine, texts, body.truncate)
    settings = GenerationConfig(beam=body.beam, length_penalty=body.length_penalty)
    prompts = []
    for number, ids in enumerate(tokenized.ids):
        is_blank = not texts[number].strip()
        if is_blank or len(ids) <= engine.tokenizer.framing.special_tokens():
            raise invalid_request(f"input {number} has no tokens: give it text")
        limit = target_search(engine.runner).limit(len(ids), body.max_length)
        text = Text(settings, limit, tokenizer=engine.tokenizer)
        prompts.append(PromptTexts(number, ids, [text]))
    check_new(prompts, limits)
    return PreparedPrompts(engine=engine, prompts=prompts, truncated=truncated)


def stripped(piece: Piece) -> str:
    """Return a text without white space at its ends."""
    return piece.text.strip()


async def events(found: Generating, text_of: Callable[[Piece], str], about: Json) -> Events:
    """Yield an event for each piece of the texts, and at last a reply without results, which also
    says what is in `about`."""
    about = {**found.about, **about}
    async for pieces in found:
        yield [
            {
                "prompt": piece.prompt,
                "number": piece.number,
                "text": text_of(piece),
                "reason": piece.reason,
                "score": piece.score,
            }
            for piece in pieces
        ]
    yield [{**about, "tokens_generated": found.generated}]


def texts_of(
    pieces: Sequence[Piece], prompts: int, text_of: Callable[[Piece], str]
) -> list[list[GeneratedText]]:
    """Return the texts of each prompt, from pieces that are whole texts."""
    texts: list[list[GeneratedText]] = [[] for _ in range(prompts)]
    for piece in sorted(pieces, key=lambda piece: piece.number):
        assert piece.reason is not None
        text = GeneratedText(text_of(piece), len(piece.ids), piece.reason, piece.score)
        texts[piece.prompt].append(text)
    return texts


@router.post("/v1/completions", response_model=CompletionsReply)
async def completions(body: CompletionsRequest, call: Call) -> CompletionsReply | EventStream:
    """Continue prompts, in the form that OpenAI's clients expect."""
    model = await call.model(body)
    found = await model.generate(CONTINUES, completed, body, call.config)
    call.headers = {"x-bertwright-sha256": model.engine.sha256}
    whole = CompletionsReply(
        id=f"cmpl-{secrets.token_hex(12)}",
        object="text_completion",
        created=int(time.time()),
        model=model.engine.name,
        choices=[],
        usage=None,
    )
    if body.stream:
        return await call.stream(found, _completion_events(found, whole, body.n))
    pieces, read = await found.whole(), found.read.tokens
    whole.choices = sorted(_choices(pieces, body.n), key=lambda choice: choice.index)
    whole.usage = CompletionUsage(
        prompt_tokens=read, completion_tokens=found.generated, total_tokens=read + found.generated
    )
    return whole


async def _completion_events(found: Generating, reply: CompletionsReply, num: int) -> Events:
    """Yield a reply with the new text for each piece."""
    async for pieces in found:
        yield [reply.model_copy(update={"choices": [choice]}) for choice in _choices(pieces, num)]


def _choices(pieces: Sequence[Piece], num: int) -> list[Completion]:
    """Return pieces of texts, of which each prompt has `num`, in the form of OpenAI."""
    return [
        Completion(piece.text, piece.prompt * num + piece.number, None, piece.reason)
        for piece in pieces
    ]


def completed(engine: Engine, body: CompletionsRequest, limits: ServeConfig) -> PreparedPrompts:
    """Return the prompts of `/v1/completions`."""
    rows, samples = _tokenized(engine, listed(body.prompt)), body.temperature > 0
    prompts = make_prompts(
        engine, rows, body, limits, most=body.max_tokens, sample=samples, num=body.n
    )
    return PreparedPrompts(engine=engine, prompts=prompts)


def make_prompts(
    engine: Engine,
    rows: Sequence[Sequence[int]],
    body: GenerateRequest | CompletionsRequest,
    limits: ServeConfig,
    *,
    most: int,
    sample: bool,
    num: int,
) -> list[PromptTexts]:
    """Return prompts of bare ids, each with `num` texts of at most `most` tokens.

    Raises:
        HttpError: a prompt is empty or too long, or the texts may have too many tokens.
    """
    stop, penalty = tuple(listed(body.stop)), float(body.repetition_penalty)
    settings: Json = {"max_new_tokens": most, "repetition_penalty": penalty, "stop": stop}
    if sample:
        sampling = {"temperature": float(body.temperature), "top_p": float(body.top_p)}
        settings |= {"sample": True, **sampling, "top_k": body.top_k}
    prompts = []
    for number, own in enumerate(rows):
        try:
            made = make_prompt(engine.runner, own, most, f"prompt {number}")
        except DataError as error:  # its message contains only numbers
            raise invalid_request(str(error), "too_long" if own else "bad_request") from error
        seed = 0
        if sample:
            seed = secrets.randbits(32) if body.seed is None else body.seed
        given = GenerationConfig(**settings, seed=seed), made.limit, made.ids
        more: Json = {"tokenizer": engine.tokenizer, "streams": body.stream}
        texts = [Text(*given, n, **more) for n in range(num)]
        prompts.append(PromptTexts(number, made.ids, texts))
    check_new(prompts, limits)
    return prompts


def check_new(prompts: Sequence[PromptTexts], limits: ServeConfig) -> None:
    """Raise `HttpError` if the texts may get too many tokens."""
    count = sum(text.limit for prompt in prompts for text in prompt.texts)
    if count > limits.max_new_tokens:
        reason = f"this allows for {count} new tokens; at most {limits.max_new_tokens} are"
        raise HttpError(413, "too_many_tokens", f"{reason} allowed in one request: request fewer")


def _tokenized(engine: Engine, texts: list[str]) -> list[list[int]]:
    """Return prompts as bare ids, or raise `HttpError` if the model does not continue them."""
    if not engine.generates:
        reason = f"{engine.name} generates no text: it does not predict the next token of a text"
        raise NoHead(reason, (CONTINUATION,))
    return engine.tokenizer.encode_bare_ids(texts)


def _truncate(engine: Engine, rows: list[list[int]], new: int) -> list[Truncated]:
    """Remove the beginnings of prompts that are too long, and return what was truncated.

    This leaves room for `new` tokens, but for no more than half of what the model reads at once.
    """
    longest = engine.longest - engine.tokenizer.framing.special_tokens()
    room, truncated = max(longest - new, longest // 2, 1), list[Truncated]()
    for number, row in enumerate(rows):
        if excess := max(0, len(row) - room):
            rows[number] = row[excess:]
            truncated.append(Truncated(number, excess))
    return truncated
