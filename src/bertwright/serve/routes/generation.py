"""Routes of models that generate text: /generate, OpenAI's /v1/completions, and /translate.

They take one or more texts and return one or more texts for each, whole or as server-sent events.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

from starlette.responses import Response

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import BeamSteps
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner
from bertwright.inference.generate import make_prompt, rows_in_flight
from bertwright.inference.translation.translate import target_search
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import CONTINUATION, TRANSLATION, Engine
from bertwright.serve.engine.generation.flight import Piece, PromptTexts, Searches, Text
from bertwright.serve.engine.generation.stream import PreparedGeneration, Way, respond
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.preparing import Json, tokenize_texts
from bertwright.serve.schemas.replies import (
    About,
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

router = make_router()


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
async def generate(body: GenerateRequest, call: Call) -> Response:
    """Continue prompts."""
    return await respond(call, prepare_generate, body)


def prepare_generate(
    engine: Engine, body: GenerateRequest, config: ServeConfig
) -> PreparedGeneration:
    """Tokenize the prompts of `/generate`."""
    check_sampling(body)
    if body.num > 1 and not body.sample:
        raise invalid_request('all texts would be the same: request "sample": true, or num 1')
    rows = _tokenized(engine, listed(body.input))
    truncated = _truncate(engine, rows, body.max_new_tokens) if body.truncate else []
    prompts = make_prompts(
        engine, rows, body, config, most=body.max_new_tokens, sample=body.sample, num=body.num
    )
    return _prepared(engine, prompts, truncated, body.stream, CONTINUES)


def check_sampling(body: SampledRequest) -> None:
    """Raise `HttpError` if options of sampling are given without `sample`."""
    given = body.temperature != 1 or body.top_k is not None or body.top_p != 1
    if given and not body.sample:
        reason = 'temperature, top_k and top_p are of sampling: request "sample": true'
        raise invalid_request(reason)


@router.post("/translate", response_model=GenerateReply[GeneratedText])
async def translate(body: TranslateRequest, call: Call) -> Response:
    """Translate sentences."""
    return await respond(call, prepare_translate, body)


def prepare_translate(
    engine: Engine, body: TranslateRequest, config: ServeConfig
) -> PreparedGeneration:
    """Tokenize the sentences of `/translate`."""
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
    check_new(prompts, config)
    return _prepared(engine, prompts, truncated, body.stream, TRANSLATES)


def _prepared(
    engine: Engine,
    prompts: list[PromptTexts],
    truncated: list[Truncated],
    streams: bool,
    way: Way,
) -> PreparedGeneration:
    """Return a request of `/generate`, or of `/translate`, which has one text for each prompt."""
    translates = way is TRANSLATES

    def text_of(piece: Piece) -> str:
        return piece.text.strip() if translates else piece.text

    def finish(
        pieces: list[Piece], about: About
    ) -> GenerateReply[list[GeneratedText]] | GenerateReply[GeneratedText]:
        texts = texts_of(pieces, len(prompts), text_of)
        generated = sum(len(piece.ids) for piece in pieces)
        if translates:
            translations = [text for (text,) in texts]
            return GenerateReply[GeneratedText](
                **about, results=translations, tokens_generated=generated
            )
        return GenerateReply[list[GeneratedText]](
            **about, results=texts, tokens_generated=generated
        )

    def event(piece: Piece) -> Json:
        own = {"prompt": piece.prompt, "number": piece.number, "text": text_of(piece)}
        return {**own, "reason": piece.reason, "score": piece.score}

    prepared = PreparedGeneration(engine, [], finish, truncated=truncated, prompts=prompts, way=way)
    if streams:
        about = prepared.about
        prepared.event = event
        prepared.last = lambda generated: {**about, "tokens_generated": generated}
    return prepared


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
async def completions(body: CompletionsRequest, call: Call) -> Response:
    """Continue prompts, in the form that OpenAI's clients expect."""
    return await respond(call, prepare_completions, body)


def prepare_completions(
    engine: Engine, body: CompletionsRequest, config: ServeConfig
) -> PreparedGeneration:
    """Tokenize the prompts of `/v1/completions`."""
    rows, count = _tokenized(engine, listed(body.prompt)), body.n
    samples = body.temperature > 0
    prompts = make_prompts(
        engine, rows, body, config, most=body.max_tokens, sample=samples, num=count
    )
    identity, created = f"cmpl-{secrets.token_hex(12)}", int(time.time())
    read = sum(len(prompt.ids) for prompt in prompts)

    def reply(pieces: Sequence[Piece], usage: CompletionUsage | None) -> CompletionsReply:
        choices = [
            Completion(piece.text, piece.prompt * count + piece.number, None, piece.reason)
            for piece in pieces
        ]
        return CompletionsReply(
            id=identity,
            object="text_completion",
            created=created,
            model=engine.name,
            choices=sorted(choices, key=lambda choice: choice.index),
            usage=usage,
        )

    def finish(pieces: list[Piece], about: About) -> CompletionsReply:
        made = sum(len(piece.ids) for piece in pieces)
        usage = CompletionUsage(
            prompt_tokens=read, completion_tokens=made, total_tokens=read + made
        )
        return reply(pieces, usage)

    headers = {"x-bertwright-sha256": engine.sha256}
    prepared = PreparedGeneration(
        engine, [], finish, headers=headers, prompts=prompts, way=CONTINUES
    )
    if body.stream:
        prepared.event = lambda piece: reply([piece], None)
    return prepared


def make_prompts(
    engine: Engine,
    rows: Sequence[Sequence[int]],
    body: GenerateRequest | CompletionsRequest,
    config: ServeConfig,
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
    check_new(prompts, config)
    return prompts


def check_new(prompts: Sequence[PromptTexts], config: ServeConfig) -> None:
    """Raise `HttpError` if the texts may get too many tokens."""
    count = sum(text.limit for prompt in prompts for text in prompt.texts)
    if count > config.max_new_tokens:
        reason = f"this allows for {count} new tokens; at most {config.max_new_tokens} are"
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
