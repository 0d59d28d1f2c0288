"""Routes of vectors, tokens and attention maps, and bert-as-service's /encode."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.inference.encode import kept_tokens, parts_of
from bertwright.inference.vectors.embed import with_prompt
from bertwright.serve import replies, schemas
from bertwright.serve.engine import Engine, RequestItem
from bertwright.serve.errors import invalid_request
from bertwright.serve.outputs import Attention, Tokens, Vectors
from bertwright.serve.requests import (
    Finish,
    Json,
    Prepared,
    check_characters,
    check_texts,
    check_tokens,
    cosines,
    items_of,
    request_vectors,
    texts_in,
    tokenize_texts,
    vector_config,
)
from bertwright.serve.routes.router import JsonRoute, model_route
from bertwright.serve.schemas import Sentences, listed

router = APIRouter(route_class=JsonRoute)


def prepare_vectors(
    engine: Engine,
    texts: list[Any],
    vectors: VectorConfig,
    finish: Finish,
    truncate: bool,
    windows: bool = False,
) -> Prepared:
    """A vector a text."""
    engine.spec.require_vectors()
    prompted, longest = with_prompt(vectors.prompt, texts), engine.vector_tokens
    tokenized, truncated = tokenize_texts(engine, prompted, truncate, windows, longest)
    items = items_of(Vectors(engine, vectors), tokenized)
    return request_vectors(engine, vectors, items, finish, truncated, len(texts))


def _check_prompt(vectors: VectorConfig, texts: list[Any], config: ServeConfig) -> None:
    """Raise `HttpError` if texts with their prompts have too many characters."""
    if vectors.prompt:
        check_characters(sum(map(len, texts_in(texts))) + len(texts) * len(vectors.prompt), config)


@model_route(router, "/embed", replies.EmbedReply)
def prepare_embed(engine: Engine, body: schemas.EmbedRequest, config: ServeConfig) -> Prepared:
    """One vector a text, of any layers and pooling."""
    vectors, texts = vector_config(engine, body), listed(body.input)
    _check_prompt(vectors, texts, config)

    def finish(results: list[Any]) -> Json:
        stored, more = store(np.stack(results), body.dtype)
        shown: Any = stored
        if body.encoding == "base64":
            shown = [base64.b64encode(row).decode() for row in stored]
        return {"vectors": shown, "width": len(results[0]), "dtype": body.dtype, **more}

    return prepare_vectors(engine, texts, vectors, finish, body.truncate, body.windows)


def store(vectors: Float32s, dtype: str) -> tuple[npt.NDArray[Any], Json]:
    """Vectors as they are sent; of int8 their scales: number = stored * scale."""
    if dtype == "int8":
        largest = np.abs(vectors).max(1, keepdims=True)
        scales = np.where(largest > 0, largest, 1) / 127
        return np.rint(vectors / scales).astype(np.int8), {"scales": scales[:, 0].tolist()}
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1), {}
    return (vectors.astype(np.float16) if dtype == "float16" else vectors), {}


@model_route(router, "/encode", replies.EncodeReply)
def prepare_encode(engine: Engine, body: schemas.EncodeRequest, config: ServeConfig) -> Prepared:
    """As bert-as-service has it: the mean of layer -2."""
    if body.is_tokenized:
        raise invalid_request("is_tokenized must be false: send texts, not their words")

    def finish(results: list[Any]) -> Json:
        return {"id": body.id, "status": 200, "result": np.stack(results)}

    vectors = VectorConfig((-2,), "concat", "mean")
    return prepare_vectors(engine, listed(body.texts), vectors, finish, body.truncate)


@model_route(router, "/tokens", replies.Results[replies.TokenVectors])
def prepare_tokens(engine: Engine, body: schemas.TokensRequest, config: ServeConfig) -> Prepared:
    """One vector a token, with the characters each is from."""
    own, texts = vector_config(engine, body), listed(body.input)
    vectors = replace(own, pooling="mean", dense=0, dimensions=None)
    _check_prompt(vectors, texts, config)
    prompted = with_prompt(vectors.prompt, texts)
    tokenized, truncated = tokenize_texts(
        engine, prompted, body.truncate, body.windows, engine.vector_tokens
    )
    items = items_of(Tokens(engine, vectors), tokenized)
    special = engine.tokenizer.framing.special_tokens()
    counts = [item.tokens - (len(item.ids) - 1) * special for item in items]
    kept = [
        kept_tokens(engine.tokenizer, text, count, vectors.prompt)
        for text, count in zip(texts, counts, strict=True)
    ]

    def finish(results: list[Any]) -> Json:
        found = [
            {"tokens": tokens, "offsets": offsets, "vectors": np.ascontiguousarray(result[rows])}
            for (tokens, offsets, rows), result in zip(kept, results, strict=True)
        ]
        return {"results": found}

    prepared = request_vectors(engine, vectors, items, finish, truncated, sum(counts))
    prepared.pooling = None
    return prepared


@model_route(router, "/tokenize", replies.Results[replies.TokenizedText])
def prepare_tokenize(
    engine: Engine, body: schemas.TokenizeRequest, config: ServeConfig
) -> Prepared:
    """The tokens of a text, without the model."""
    found, count = list[Json](), 0
    for text in listed(body.input):
        check_texts(engine, parts_of(0, text), count, config)
        encoding = engine.tokenizer.encode(*parts_of(0, text))
        count += len(encoding.ids)
        check_tokens(count, config)
        names = ("ids", "tokens", "offsets", "type_ids")
        found.append({name: getattr(encoding, name) for name in names})
    return Prepared(engine, [], lambda _: {"results": found, "tokens_used": count})


@model_route(router, "/similarity", replies.SimilarityReply)
def prepare_similarity(
    engine: Engine, body: schemas.SimilarityRequest, config: ServeConfig
) -> Prepared:
    """Compare texts by the cosines of their vectors."""
    given, of_one = body.input, isinstance(body.input, Sentences)
    texts = listed(given)
    if isinstance(given, Sentences):
        texts = [given.source_sentence, *listed(given.sentences)]
    vectors, count = vector_config(engine, body), len(texts)
    _check_prompt(vectors, texts, config)

    def finish(results: list[Any]) -> Json:
        made = np.stack(results)
        found = cosines(made[:1], made[1:])[0] if of_one else cosines(made, made)
        return {"similarities": found}

    prepared = prepare_vectors(engine, texts, vectors, finish, body.truncate)
    prepared.numbers = max(prepared.numbers, count if of_one else count**2)
    return prepared


@model_route(router, "/attention", replies.AttentionReply)
def prepare_attention(
    engine: Engine, body: schemas.AttentionRequest, config: ServeConfig
) -> Prepared:
    """Attention maps, by layer and attention head."""
    heads = engine.attention_heads
    if heads is None:
        raise invalid_request(f"{engine.name} has no attention maps", "no_attention")
    tokenized, truncated = tokenize_texts(engine, [body.input], body.truncate)
    layers = tuple(range(1, engine.top + 1) if body.layers is None else listed(body.layers))
    if not all(1 <= layer <= engine.top for layer in layers):
        raise invalid_request(f"layers must be from 1 to {engine.top}", "no_layer")
    (ids,), segments = tokenized.ids, tokenized.segments

    def finish(results: list[Any]) -> Json:
        tokens = engine.tokenizer.tokens_of(ids)
        return {"tokens": tokens, "attentions": np.round(results[0], 4)}

    items = [RequestItem(Attention(engine, layers), [ids], segments)]
    numbers = len(layers) * heads * len(ids) ** 2
    return Prepared(engine, items, finish, layers, truncated=truncated, numbers=numbers)
