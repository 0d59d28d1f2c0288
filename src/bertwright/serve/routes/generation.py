"""Routes of models that generate text: /generate, OpenAI's /v1/completions, and /translate.

They take a text or several and give one text or several of each, whole or as server-sent events.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from fastapi import APIRouter

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.generate import make_prompt
from bertwright.inference.translation.translate import target_limit
from bertwright.serve.engine import GENERATION, TRANSLATION, Engine
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.generation.flight import Piece, PromptTexts, Text
from bertwright.serve.generation.stream import PreparedGeneration, respond
from bertwright.serve.replies import CompletionsReply, GeneratedText, GenerateReply
from bertwright.serve.requests import Json, Prepared, Truncation, tokenize_texts
from bertwright.serve.routes.router import JsonRoute, model_route
from bertwright.serve.schemas import CompletionsRequest, GenerateRequest, TranslateRequest, listed

router = APIRouter(route_class=JsonRoute)


@model_route(router, "/generate", GenerateReply[list[GeneratedText]], respond)
def prepare_generate(engine: Engine, body: GenerateRequest, config: ServeConfig) -> Prepared:
    """Text that continues prompts."""
    given = body.temperature != 1 or body.top_k is not None or body.top_p != 1
    if given and not body.sample:
        reason = 'temperature, top_k and top_p are of sampling: request "sample": true'
        raise invalid_request(reason)
    if body.num > 1 and not body.sample:
        raise invalid_request('all texts would be the same: request "sample": true, or num 1')
    settings = _settings(body, body.max_new_tokens, body.sample)
    rows = _tokenized(engine, listed(body.input))
    truncated = _truncate(engine, rows, body.max_new_tokens) if body.truncate else []
    prompts = make_prompts(engine, rows, settings, body.num, config, body.seed, body.stream)

    def finish(pieces: list[Piece]) -> Json:
        results: list[list[GeneratedText]] = [[] for _ in prompts]
        for piece in sorted(pieces, key=lambda piece: piece.number):
            results[piece.prompt].append(_shown(piece, piece.text))
        return {"results": results, **_generated(pieces)}

    prepared = PreparedGeneration(engine, [], finish, truncated=truncated, prompts=prompts)
    _stream(prepared, body.stream)
    return prepared


@model_route(router, "/translate", GenerateReply[GeneratedText], respond)
def prepare_translate(engine: Engine, body: TranslateRequest, config: ServeConfig) -> Prepared:
    """Translations of sentences."""
    if not engine.translates:
        raise NoHead(f"{engine.name} translates nothing", (TRANSLATION,))
    tokenized, truncated = tokenize_texts(engine, listed(body.input), body.truncate)
    settings = GenerationConfig(beam=body.beam, length_penalty=body.length_penalty)
    prompts = []
    for number, ids in enumerate(tokenized.ids):
        if len(ids) <= engine.tokenizer.framing.special_tokens():
            raise invalid_request(f"input {number} has no tokens: give it text")
        limit = target_limit(engine.runner, len(ids), body.max_length)
        text = Text(settings, limit, tokenizer=engine.tokenizer)
        prompts.append(PromptTexts(number, ids, [text]))
    _check_new([prompt.texts[0].limit for prompt in prompts], config)

    def finish(pieces: list[Piece]) -> Json:
        ordered = sorted(pieces, key=lambda piece: piece.prompt)
        results = [_shown(piece, piece.text.strip()) for piece in ordered]
        return {"results": results, **_generated(pieces)}

    prepared = PreparedGeneration(
        engine, [], finish, truncated=truncated, prompts=prompts, way=TRANSLATION
    )
    _stream(prepared, body.stream)
    return prepared


def _stream(prepared: PreparedGeneration, streams: bool) -> None:
    """Let a request have our events, if it wants them: pieces, and what every reply says."""
    about, strips = prepared.about, prepared.way == TRANSLATION

    def event(piece: Piece) -> Json:
        own = {"prompt": piece.prompt, "number": piece.number}
        text = piece.text.strip() if strips else piece.text
        return {**own, "text": text, "reason": piece.reason, "score": piece.score}

    if streams:
        prepared.event = event
        prepared.last = lambda generated: {**about, "tokens_generated": generated}


def _shown(whole: Piece, text: str) -> GeneratedText:
    assert whole.reason is not None
    return GeneratedText(text, len(whole.ids), whole.reason, whole.score)


def _generated(pieces: list[Piece]) -> Json:
    return {"tokens_generated": sum(len(piece.ids) for piece in pieces)}


@model_route(router, "/v1/completions", CompletionsReply, respond)
def prepare_completions(engine: Engine, body: CompletionsRequest, config: ServeConfig) -> Prepared:
    """Text that continues prompts, as OpenAI's clients request it."""
    settings = _settings(body, body.max_tokens, body.temperature > 0)
    rows = _tokenized(engine, listed(body.prompt))
    prompts = make_prompts(engine, rows, settings, body.n, config, body.seed, body.stream)
    count = body.n
    common = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": engine.name,
    }
    read = sum(len(prompt.ids) for prompt in prompts)

    def choice(piece: Piece) -> Json:
        index = piece.prompt * count + piece.number
        own = {"text": piece.text, "index": index}
        return {**own, "logprobs": None, "finish_reason": piece.reason}

    def finish(pieces: list[Piece]) -> Json:
        choices = sorted(map(choice, pieces), key=lambda each: each["index"])
        made = sum(len(piece.ids) for piece in pieces)
        usage = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
        return {**common, "choices": choices, "usage": usage}

    headers = {"x-bertwright-sha256": engine.sha256}
    prepared = PreparedGeneration(engine, [], finish, headers=headers, prompts=prompts)
    if body.stream:
        prepared.event = lambda piece: {**common, "choices": [choice(piece)], "usage": None}
    return prepared


def make_prompts(
    engine: Engine,
    rows: Sequence[Sequence[int]],
    settings: Json,
    num: int,
    config: ServeConfig,
    seed: int | None,
    streams: bool,
) -> list[PromptTexts]:
    """Prompts of bare ids, each with the texts that will continue it.

    Raises:
        HttpError: the model does not generate, a prompt is empty or too long, or the texts may have
            too many tokens.
    """
    prompts, limits = [], []
    for number, own in enumerate(rows):
        try:
            made = make_prompt(engine.runner, own, settings["max_new_tokens"], f"prompt {number}")
        except DataError as error:  # its message has numbers alone
            raise invalid_request(str(error), "too_long" if own else "bad_request") from error
        limits.append(num * made.limit)
        own_seed = 0
        if settings["sample"]:
            own_seed = secrets.randbits(32) if seed is None else seed
        own_config = GenerationConfig(**settings, seed=own_seed)
        texts = [
            Text(
                own_config,
                made.limit,
                made.ids,
                n,
                tokenizer=engine.tokenizer,
                streams=streams,
            )
            for n in range(num)
        ]
        prompts.append(PromptTexts(number, made.ids, texts))
    _check_new(limits, config)
    return prompts


def _check_new(limits: Sequence[int], config: ServeConfig) -> None:
    """Raise `HttpError` if texts of at most these numbers of tokens are too much."""
    if sum(limits) > config.max_new_tokens:
        reason = f"this allows for {sum(limits)} new tokens; at most {config.max_new_tokens} are"
        raise HttpError(413, "too_many_tokens", f"{reason} allowed in one request: request fewer")


def _settings(
    body: GenerateRequest | CompletionsRequest, max_new_tokens: int, sample: bool
) -> Json:
    """What decides the texts, but for the seed."""
    settings = {
        "max_new_tokens": max_new_tokens,
        "sample": sample,
        "repetition_penalty": float(body.repetition_penalty),
        "stop": tuple(listed(body.stop)),
    }
    if sample:
        sampling = {"temperature": float(body.temperature), "top_p": float(body.top_p)}
        settings |= {**sampling, "top_k": body.top_k}
    return settings


def _tokenized(engine: Engine, texts: list[str]) -> list[list[int]]:
    """Prompts as bare ids, of a model that continues them."""
    if not engine.generates:
        reason = f"{engine.name} generates no text: it does not predict the next token of a text"
        raise NoHead(reason, (GENERATION,))
    return engine.tokenizer.encode_bare_ids(texts)


def _truncate(engine: Engine, rows: list[list[int]], new: int) -> list[Truncation]:
    """Keep the ends of prompts, so that `new` tokens fit, or half of what the model reads."""
    longest = engine.longest - engine.tokenizer.framing.special_tokens()
    room, truncated = max(longest - new, longest // 2, 1), list[Truncation]()
    for number, row in enumerate(rows):
        if excess := max(0, len(row) - room):
            rows[number] = row[excess:]
            truncated.append({"input": number, "tokens_cut": excess})
    return truncated
