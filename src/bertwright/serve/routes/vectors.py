"""Routes of vectors, tokens and attention maps, and bert-as-service's /encode."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.responses import Response

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import DataError
from bertwright.inference.encode import Text, kept_tokens, parts_of
from bertwright.inference.vectors.compare import cosines
from bertwright.inference.vectors.embed import with_prompt
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine, RequestItem
from bertwright.serve.engine.outputs import Attention, Tokens, Vectors
from bertwright.serve.errors import invalid_request
from bertwright.serve.preparing import (
    Finish,
    Prepared,
    R,
    check_characters,
    check_texts,
    check_tokens,
    items_of,
    request_vectors,
    texts_in,
    tokenize_texts,
    vector_config,
)
from bertwright.serve.schemas.replies import (
    About,
    AttentionReply,
    EmbedReply,
    EncodeReply,
    NearWord,
    Results,
    SimilarityReply,
    TokenizedText,
    TokenVectors,
)
from bertwright.serve.schemas.requests import (
    AttentionRequest,
    EmbedRequest,
    EncodeRequest,
    NearestRequest,
    Sentences,
    SimilarityRequest,
    TokenizeRequest,
    TokensRequest,
    listed,
)

router = make_router()


def prepare_vectors(
    engine: Engine,
    texts: list[Text],
    vectors: VectorConfig,
    finish: Finish[R],
    truncate: bool,
    windows: bool = False,
) -> Prepared[R]:
    """Return a request for one vector of each text."""
    engine.spec.require_vectors()
    prompted, longest = with_prompt(vectors.prompt, texts), engine.vector_tokens
    tokenized, truncated = tokenize_texts(engine, prompted, truncate, windows, longest)
    items = items_of(Vectors(engine, vectors), tokenized)
    return request_vectors(engine, vectors, items, finish, truncated, len(texts))


def _check_prompt(vectors: VectorConfig, texts: list[Text], config: ServeConfig) -> None:
    """Raise `HttpError` if texts with their prompts have too many characters."""
    if vectors.prompt:
        check_characters(sum(map(len, texts_in(texts))) + len(texts) * len(vectors.prompt), config)


@router.post("/embed", response_model=EmbedReply)
async def embed(body: EmbedRequest, call: Call) -> Response:
    """Return one vector for each text, from any layers and pooling."""
    return await call.reply(prepare_embed, body)


def prepare_embed(engine: Engine, body: EmbedRequest, config: ServeConfig) -> Prepared[EmbedReply]:
    """Tokenize the texts of `/embed`."""
    vectors, texts = vector_config(engine, body), listed(body.input)
    _check_prompt(vectors, texts, config)

    def finish(results: list[Float32s], about: About) -> EmbedReply:
        stored, scales = store(np.stack(results), body.dtype)
        reply = EmbedReply(
            **about,
            vectors=base64_rows(stored) if body.encoding == "base64" else stored,
            width=len(results[0]),
            dtype=body.dtype,
        )
        if scales is not None:
            reply.scales = scales
        return reply

    return prepare_vectors(engine, texts, vectors, finish, body.truncate, body.windows)


def store(vectors: Float32s, dtype: str) -> tuple[npt.NDArray[np.generic], list[float] | None]:
    """Return vectors as they are sent, and the scales of int8: number = stored * scale."""
    if dtype == "int8":
        largest = np.abs(vectors).max(1, keepdims=True)
        scales = np.where(largest > 0, largest, 1) / 127
        return np.rint(vectors / scales).astype(np.int8), scales[:, 0].tolist()
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1), None
    return vectors.astype(np.float16) if dtype == "float16" else vectors, None


def base64_rows(vectors: Iterable[npt.NDArray[np.generic]]) -> list[str]:
    """Return the bytes of each row as base64."""
    return [base64.b64encode(row.tobytes()).decode() for row in vectors]


@router.post("/encode", response_model=EncodeReply)
async def encode(body: EncodeRequest, call: Call) -> Response:
    """Return the mean of layer -2 for each text, in the form of bert-as-service."""
    return await call.reply(prepare_encode, body)


def prepare_encode(
    engine: Engine, body: EncodeRequest, config: ServeConfig
) -> Prepared[EncodeReply]:
    """Tokenize the texts of `/encode`."""
    if body.is_tokenized:
        raise invalid_request("is_tokenized must be false: send texts, not their words")

    def finish(results: list[Float32s], about: About) -> EncodeReply:
        return EncodeReply(**about, id=body.id, status=200, result=np.stack(results))

    vectors = VectorConfig((-2,), "mean")
    return prepare_vectors(engine, listed(body.texts), vectors, finish, body.truncate)


@router.post("/tokens", response_model=Results[TokenVectors])
async def tokens(body: TokensRequest, call: Call) -> Response:
    """Return one vector for each token, with the characters it comes from."""
    return await call.reply(prepare_tokens, body)


def prepare_tokens(
    engine: Engine, body: TokensRequest, config: ServeConfig
) -> Prepared[Results[TokenVectors]]:
    """Tokenize the texts of `/tokens`."""
    requested, texts = vector_config(engine, body), listed(body.input)
    vectors = replace(requested, pooling="mean", dense=0, dimensions=None)
    _check_prompt(vectors, texts, config)
    prompted = with_prompt(vectors.prompt, texts)
    tokenized, truncated = tokenize_texts(
        engine, prompted, body.truncate, body.windows, engine.vector_tokens
    )
    items = items_of(Tokens(engine, vectors), tokenized)
    special = engine.tokenizer.framing.special_tokens()
    counts = [item.tokens - (len(item.ids) - 1) * special for item in items]
    shown = [
        kept_tokens(engine.tokenizer, text, count, vectors.prompt)
        for text, count in zip(texts, counts, strict=True)
    ]

    def finish(results: list[Float32s], about: About) -> Results[TokenVectors]:
        texts = [
            TokenVectors(tokens=tokens, offsets=offsets, vectors=np.ascontiguousarray(result[rows]))
            for (tokens, offsets, rows), result in zip(shown, results, strict=True)
        ]
        return Results[TokenVectors](**about, results=texts)

    prepared = request_vectors(engine, vectors, items, finish, truncated, sum(counts))
    prepared.pooling = None
    return prepared


@router.post("/tokenize", response_model=Results[TokenizedText])
async def tokenize(body: TokenizeRequest, call: Call) -> Response:
    """Return the tokens of each text, without the model."""
    return await call.reply(prepare_tokenize, body)


def prepare_tokenize(
    engine: Engine, body: TokenizeRequest, config: ServeConfig
) -> Prepared[Results[TokenizedText]]:
    """Tokenize the texts of `/tokenize`."""
    texts, count = list[TokenizedText](), 0
    for text in listed(body.input):
        check_texts(engine, parts_of(0, text), count, config)
        encoding = engine.tokenizer.encode(*parts_of(0, text))
        count += len(encoding.ids)
        check_tokens(count, config)
        texts.append(
            TokenizedText(
                ids=encoding.ids,
                tokens=encoding.tokens,
                offsets=encoding.offsets,
                type_ids=encoding.type_ids,
            )
        )

    def finish(results: list[Any], about: About) -> Results[TokenizedText]:
        about["tokens_used"] = count
        return Results[TokenizedText](**about, results=texts)

    return Prepared(engine, [], finish)


@router.post("/nearest", response_model=Results[list[NearWord]])
async def nearest(body: NearestRequest, call: Call) -> Response:
    """Return the words with the largest cosine to each word, for models of word vectors."""
    return await call.reply(prepare_nearest, body)


def prepare_nearest(
    engine: Engine, body: NearestRequest, config: ServeConfig
) -> Prepared[Results[list[NearWord]]]:
    """Look up the words of `/nearest`. It is done here, as this runs in a thread."""
    if not engine.has_words:
        raise invalid_request(f"{engine.name} has no vectors of words", "no_words")
    found, words = list[list[NearWord]](), listed(body.input)
    for number, word in enumerate(words):
        try:
            near = engine.nearest(word, body.top_k)
        except DataError as error:
            reason = f"input {number} is not in the vocabulary of {engine.name}"
            raise invalid_request(reason, "unknown_word") from error
        found.append([NearWord(*each) for each in near])

    def finish(results: list[Any], about: About) -> Results[list[NearWord]]:
        return Results[list[NearWord]](**about, results=found)

    return Prepared(engine, [], finish, numbers=len(words) * body.top_k)


@router.post("/similarity", response_model=SimilarityReply)
async def similarity(body: SimilarityRequest, call: Call) -> Response:
    """Compare texts by the cosines of their vectors."""
    return await call.reply(prepare_similarity, body)


def prepare_similarity(
    engine: Engine, body: SimilarityRequest, config: ServeConfig
) -> Prepared[SimilarityReply]:
    """Tokenize the texts of `/similarity`."""
    given, of_one = body.input, isinstance(body.input, Sentences)
    texts: list[Text] = listed(given)
    if isinstance(given, Sentences):
        texts = [given.source_sentence, *listed(given.sentences)]
    vectors, count = vector_config(engine, body), len(texts)
    _check_prompt(vectors, texts, config)

    def finish(results: list[Float32s], about: About) -> SimilarityReply:
        made = np.stack(results)
        similarities = cosines(made[:1], made[1:])[0] if of_one else cosines(made, made)
        return SimilarityReply(**about, similarities=similarities)

    prepared = prepare_vectors(engine, texts, vectors, finish, body.truncate)
    prepared.numbers = max(prepared.numbers, count if of_one else count**2)
    return prepared


@router.post("/attention", response_model=AttentionReply)
async def attention(body: AttentionRequest, call: Call) -> Response:
    """Return the attention maps of a text, by layer and attention head."""
    return await call.reply(prepare_attention, body)


def prepare_attention(
    engine: Engine, body: AttentionRequest, config: ServeConfig
) -> Prepared[AttentionReply]:
    """Tokenize the text of `/attention`."""
    heads = engine.attention_heads
    if heads is None:
        raise invalid_request(f"{engine.name} has no attention maps", "no_attention")
    tokenized, truncated = tokenize_texts(engine, [body.input], body.truncate)
    layers = tuple(range(1, engine.top + 1) if body.layers is None else listed(body.layers))
    if not all(1 <= layer <= engine.top for layer in layers):
        raise invalid_request(f"layers must be from 1 to {engine.top}", "no_layer")
    (ids,), segments = tokenized.ids, tokenized.segments

    def finish(results: list[Float32s], about: About) -> AttentionReply:
        tokens = engine.tokenizer.tokens_of(ids)
        return AttentionReply(**about, tokens=tokens, attentions=np.round(results[0], 4))

    items = [RequestItem(Attention(engine, layers), [ids], segments)]
    numbers = len(layers) * heads * len(ids) ** 2
    return Prepared(engine, items, finish, layers, truncated=truncated, numbers=numbers)
