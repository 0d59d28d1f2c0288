"""Routes of models that generate text: /generate, and OpenAI's /v1/completions.

Both take a text or several and give one text or several of each, whole or as server-sent events.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.generate import Writer, make_prompt
from bertwright.serve.engine import GENERATION, Engine
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.generation.flight import Piece, PromptTexts, Text
from bertwright.serve.generation.stream import PreparedGeneration, respond
from bertwright.serve.replies import CompletionsReply, GenerateEvent, GenerateReply
from bertwright.serve.requests import Json, Truncation
from bertwright.serve.routes.router import JsonRoute, model_route
from bertwright.serve.schemas import CompletionsRequest, GenerateRequest, listed

router = APIRouter(route_class=JsonRoute)


@model_route(
    router,
    "/generate",
    GenerateReply,
    "Text that continues prompts.",
    respond,
    GenerateEvent.model_json_schema(),
)
def prepare_generate(
    engine: Engine, body: GenerateRequest, config: ServeConfig
) -> PreparedGeneration:
    """See the route."""
    given = body.temperature != 1 or body.top_k is not None or body.top_p != 1
    if given and not body.sample:
        reason = 'temperature, top_k and top_p are of sampling: request "sample": true'
        raise invalid_request(reason)
    settings = _settings(body, body.max_new_tokens, body.sample)
    rows = _tokenized(engine, listed(body.input))
    truncated = _truncate(engine, rows, body.max_new_tokens) if body.truncate else []
    prompts = make_texts(engine, rows, settings, body.num, config, body.seed, body.stream)
    prepared = PreparedGeneration(engine, [], _none, truncated=truncated, prompts=prompts)
    about = prepared.about

    def finish(pieces: list[Piece]) -> Json:
        results: list[list[Json]] = [[{} for _ in prompt.texts] for prompt in prompts]
        for piece in pieces:
            known = results[piece.prompt][piece.number]
            known["text"] = known.get("text", "") + piece.text
            known["tokens"] = known.get("tokens", 0) + len(piece.ids)
            known["reason"] = piece.reason
        return {"results": results, "tokens_generated": sum(len(each.ids) for each in pieces)}

    def event(piece: Piece) -> Json:
        own = {"prompt": piece.prompt, "number": piece.number}
        return {**own, "text": piece.text, "reason": piece.reason}

    prepared.finish = finish
    if body.stream:
        prepared.event = event
        prepared.last = lambda generated: {**about, "tokens_generated": generated}
    return prepared


@model_route(
    router,
    "/v1/completions",
    CompletionsReply,
    "Text that continues prompts, as OpenAI's clients request it.",
    respond,
    {"$ref": "#/components/schemas/CompletionsReply"},
)
def prepare_completions(
    engine: Engine, body: CompletionsRequest, config: ServeConfig
) -> PreparedGeneration:
    """See the route."""
    if body.best_of not in (None, body.n):
        raise invalid_request("best_of other than n is not supported: leave it out")
    if body.echo and body.logprobs is not None:
        raise invalid_request("echo with logprobs is not supported: there are none of the prompt")
    settings = _settings(body, body.max_tokens, body.temperature > 0)
    given: list[Any] = listed(body.prompt)
    if isinstance(given[0], int):
        given = [given]
    rows = _tokenized(engine, given) if isinstance(given[0], str) else _checked(engine, given)
    prompts = make_texts(engine, rows, settings, body.n, config, body.seed, body.stream)
    for prompt in prompts:
        for text in prompt.texts:
            text.alternatives = body.logprobs
    decode, count = engine.tokenizer.decode, body.n
    before = [""] * len(given)
    if body.echo:
        before = [each if isinstance(each, str) else decode(each) for each in given]
    common = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": engine.name,
    }
    prepared = PreparedGeneration(
        engine, [], _none, headers=lambda _: {"x-bertwright-sha256": engine.sha256}, prompts=prompts
    )
    read = prepared.tokens
    offsets: dict[int, list[int]] = {}
    """Of each text the tokens that were sent."""

    def choice(piece: Piece) -> Json:
        index = piece.prompt * count + piece.number
        text, logprobs = piece.text, None
        if index not in offsets:
            text, offsets[index] = before[piece.prompt] + text, []
        if body.logprobs is not None:
            logprobs = _logprobs(engine, offsets[index], piece)
        offsets[index] += piece.ids
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": piece.reason}

    def usage(generated: int) -> Json:
        own = {"prompt_tokens": read, "completion_tokens": generated}
        return {"usage": {**own, "total_tokens": read + generated}}

    def finish(pieces: list[Piece]) -> Json:
        choices: dict[int, Json] = {}
        for piece in pieces:
            made = choice(piece)
            known = choices.setdefault(made["index"], made)
            if known is not made:
                known["text"] += made["text"]
                known["finish_reason"] = made["finish_reason"]
                for key, values in (made["logprobs"] or {}).items():
                    known["logprobs"][key] += values
        ordered = [choices[index] for index in sorted(choices)]
        return {**common, "choices": ordered, **usage(sum(len(each.ids) for each in pieces))}

    prepared.finish = finish
    if body.stream:
        prepared.event = lambda piece: {**common, "choices": [choice(piece)], "usage": None}
        if body.stream_options.include_usage:
            prepared.last = lambda generated: {**common, "choices": [], **usage(generated)}
    return prepared


def make_texts(
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
    prompts, most = [], 0
    for number, own in enumerate(rows):
        try:
            made = make_prompt(engine.runner, own, settings["max_new_tokens"], f"prompt {number}")
        except DataError as error:  # its message has numbers alone
            raise invalid_request(str(error), "too_long" if own else "bad_request") from error
        most += num * made.limit
        if most > config.max_new_tokens:
            reason = f"this allows for more than {config.max_new_tokens} new tokens in one request"
            raise HttpError(413, "too_many_tokens", f"{reason}: request fewer, or fewer texts")
        own_seed = secrets.randbits(32) if seed is None else seed
        own_config = GenerationConfig(**settings, seed=own_seed)
        texts = [
            Text(
                own_config,
                made.limit,
                made.ids,
                n,
                writer=Writer(engine.tokenizer, made.ids, own_config.stop),
                streams=streams,
            )
            for n in range(num)
        ]
        prompts.append(PromptTexts(number, made.ids, texts))
    return prompts


def _none(pieces: list[Piece]) -> Json:
    """Until the route sets `finish`."""
    return {}


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


def _check_generates(engine: Engine) -> None:
    """Raise `HttpError` if a model continues no prompts."""
    if not engine.generates:
        reason = f"{engine.name} generates no text: it does not predict the next token of a text"
        raise NoHead(reason, (GENERATION,))


def _tokenized(engine: Engine, texts: list[str]) -> list[list[int]]:
    _check_generates(engine)
    return engine.tokenizer.encode_bare_ids(texts)


def _checked(engine: Engine, rows: list[list[int]]) -> list[list[int]]:
    """Ids without what the tokenizer begins a text with, which a client may have put there."""
    _check_generates(engine)
    framing, vocab_size = engine.tokenizer.framing, engine.tokenizer.vocab_size
    begin = framing.one([])[: framing.inside(0)[0].start]
    for number, row in enumerate(rows):
        if max(row) >= vocab_size:
            last = vocab_size - 1
            reason = f"prompt {number} has an id beyond {last}, the last of this model's tokenizer"
            raise invalid_request(reason)
    return [row[len(begin) :] if row[: len(begin)] == list(begin) else row for row in rows]


def _truncate(engine: Engine, rows: list[list[int]], new: int) -> list[Truncation]:
    """Keep the ends of prompts, so that `new` tokens fit, or half of what the model reads."""
    longest = engine.longest - engine.tokenizer.framing.special_tokens()
    room, truncated = max(longest - new, longest // 2, 1), list[Truncation]()
    for number, row in enumerate(rows):
        if excess := max(0, len(row) - room):
            rows[number] = row[excess:]
            truncated.append({"input": number, "tokens_cut": excess})
    return truncated


def _logprobs(engine: Engine, before: list[int], piece: Piece) -> Json:
    """OpenAI's: of each token of a piece, by those that were sent before."""
    names, decode = engine.tokenizer.tokens_of, engine.tokenizer.decode
    ids = [*before, *piece.ids]
    ends = range(len(before), len(ids))
    return {
        "tokens": names(piece.ids),
        "token_logprobs": [each.logprob for each in piece.logprobs],
        "top_logprobs": [
            dict(zip(names(i for i, _ in each.top), (p for _, p in each.top), strict=True))
            for each in piece.logprobs
        ],
        "text_offset": [len(decode(ids[:end])) for end in ends],
    }
