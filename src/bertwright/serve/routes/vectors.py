"""Routes of vectors, tokens and attention maps, and bert-as-service's /encode."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import DataError
from bertwright.inference.encode import Text, kept_tokens, parts_of
from bertwright.inference.vectors.compare import cosines
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine, RequestItem
from bertwright.serve.engine.items import Prepared, attention_items, check_texts, count_tokens
from bertwright.serve.errors import invalid_request
from bertwright.serve.limits import check_characters, check_tokens, texts_in
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import (
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
    LayersRequest,
    NearestRequest,
    PoolingRequest,
    Sentences,
    SimilarityRequest,
    TokenizeRequest,
    TokensRequest,
    listed,
)

router = ModelRouter()


def vector_config(engine: Engine, body: LayersRequest) -> VectorConfig:
    """Return which vectors a request asks for, or raise `ConfigError` or `HttpError`."""
    engine.spec.require_vectors()
    prompt, name = body.prompt, body.prompt_name
    if name is not None and (prompt is not None or name not in engine.prompts):
        known = ", ".join(engine.prompts) or "none"
        reason = f"prompt_name is one of the model's ({known}), without prompt"
        raise invalid_request(reason, "no_prompt")
    others: dict[str, Any] = {
        "pooling": body.pooling if isinstance(body, PoolingRequest) else None,
        "normalize": body.normalize,
        "prompt": engine.prompts[name] if name else prompt,
    }
    layers = None if body.layers is None else tuple(listed(body.layers))
    vectors = engine.default.over(layers=layers, **others)
    if vectors.numbers(engine.top) == engine.default.numbers(engine.top):
        # these are the default's layers, perhaps by other numbers: its dense layers stay
        return engine.default.over(**others)
    return vectors


def check_prompted(vectors: VectorConfig, texts: list[Text], limits: ServeConfig) -> None:
    """Raise `HttpError` if texts with their prompts have too many characters."""
    if vectors.prompt:
        check_characters(sum(map(len, texts_in(texts))) + len(texts) * len(vectors.prompt), limits)


@router.post("/embed")
async def embed(body: EmbedRequest, call: Call) -> EmbedReply:
    """Return one vector for each text, from any layers and pooling."""
    model, texts = await call.model(body), listed(body.input)
    vectors = vector_config(model.engine, body)
    check_prompted(vectors, texts, call.config)
    found = await model.embed(texts, vectors, body.truncate, body.windows)
    stored, scales = await call.beside(store, found.results, body.dtype)
    is_base64 = body.encoding == "base64"
    reply = EmbedReply(
        **found.about,
        vectors=await call.beside(base64_rows, stored) if is_base64 else stored,
        width=len(found.results[0]),
        dtype=body.dtype,
    )
    if scales is not None:
        reply.scales = scales
    return reply


def store(
    vectors: Sequence[Float32s], dtype: str
) -> tuple[npt.NDArray[np.generic], list[float] | None]:
    """Return vectors as they are sent, and the scales of int8: number = stored * scale."""
    rows = np.stack(vectors)
    if dtype == "int8":
        largest = np.abs(rows).max(1, keepdims=True)
        scales = np.where(largest > 0, largest, 1) / 127
        return np.rint(rows / scales).astype(np.int8), scales[:, 0].tolist()
    if dtype == "binary":
        return np.packbits(rows > 0, axis=1), None
    return rows.astype(np.float16) if dtype == "float16" else rows, None


def base64_rows(vectors: Iterable[npt.NDArray[np.generic]]) -> list[str]:
    """Return the bytes of each row as base64."""
    return [base64.b64encode(row.tobytes()).decode() for row in vectors]


@router.post("/encode")
async def encode(body: EncodeRequest, call: Call) -> EncodeReply:
    """Return the mean of layer -2 for each text, in the form of bert-as-service."""
    model = await call.model(body)
    if body.is_tokenized:
        raise invalid_request("is_tokenized must be false: send texts, not their words")
    vectors = VectorConfig((-2,), "mean")
    found = await model.embed(listed(body.texts), vectors, body.truncate)
    result = await call.beside(np.stack, found.results)
    return EncodeReply(**found.about, id=body.id, status=200, result=result)


@router.post("/tokens")
async def tokens(body: TokensRequest, call: Call) -> Results[TokenVectors]:
    """Return one vector for each token, with the characters it comes from."""
    model, texts = await call.model(body), listed(body.input)
    requested = vector_config(model.engine, body)
    vectors = replace(requested, pooling="mean", dense=0, dimensions=None)
    check_prompted(vectors, texts, call.config)
    found = await model.tokens(texts, vectors, body.truncate, body.windows)
    shown = await call.beside(
        _token_vectors, texts, vectors.prompt, found.read.items, found.results
    )
    return Results[TokenVectors](**found.about, results=shown)


def _token_vectors(
    texts: Sequence[str], prompt: str, items: Sequence[RequestItem], results: Sequence[Float32s]
) -> list[TokenVectors]:
    """Return the tokens of texts without those of the prompt, and their vectors."""
    shown = []
    for text, item, result in zip(texts, items, results, strict=True):
        tokenizer, count = item.output.engine.tokenizer, count_tokens(item)
        tokens, offsets, rows = kept_tokens(tokenizer, text, count, prompt)
        vectors = np.ascontiguousarray(result[rows])
        shown.append(TokenVectors(tokens=tokens, offsets=offsets, vectors=vectors))
    return shown


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, call: Call) -> Results[TokenizedText]:
    """Return the tokens of each text, without the model."""
    model = await call.model(body)
    texts = await model.run(tokenized_texts, listed(body.input), call.config)
    call.accept(read := Prepared(engine=model.engine))
    about = read.about
    about["tokens_used"] = sum(len(text.ids) for text in texts)
    return Results[TokenizedText](**about, results=texts)


def tokenized_texts(
    engine: Engine, texts: Sequence[Text], limits: ServeConfig
) -> list[TokenizedText]:
    """Return the tokens of texts and pairs; `HttpError` if they are too many."""
    found, count = list[TokenizedText](), 0
    for text in texts:
        check_texts(engine, parts_of(0, text), count, limits)
        encoding = engine.tokenizer.encode(*parts_of(0, text))
        count += len(encoding.ids)
        check_tokens(count, limits)
        found.append(
            TokenizedText(
                ids=encoding.ids,
                tokens=encoding.tokens,
                offsets=encoding.offsets,
                type_ids=encoding.type_ids,
            )
        )
    return found


@router.post("/nearest")
async def nearest(body: NearestRequest, call: Call) -> Results[list[NearWord]]:
    """Return the words with the largest cosine to each word, for models of word vectors."""
    model, words = await call.model(body), listed(body.input)
    if not model.engine.has_words:
        raise invalid_request(f"{model.engine.name} has no vectors of words", "no_words")
    call.accept(read := Prepared(engine=model.engine, numbers=len(words) * body.top_k))
    found = await model.run(nearest_words, words, body.top_k)
    return Results[list[NearWord]](**read.about, results=found)


def nearest_words(engine: Engine, words: Sequence[str], top: int) -> list[list[NearWord]]:
    """Return the words nearest to each word. The first call makes a table, which takes time."""
    found = list[list[NearWord]]()
    for number, word in enumerate(words):
        try:
            near = engine.nearest(word, top)
        except DataError as error:
            reason = f"input {number} is not in the vocabulary of {engine.name}"
            raise invalid_request(reason, "unknown_word") from error
        found.append([NearWord(*each) for each in near])
    return found


@router.post("/similarity")
async def similarity(body: SimilarityRequest, call: Call) -> SimilarityReply:
    """Compare texts by the cosines of their vectors."""
    model, given = await call.model(body), body.input
    of_one = isinstance(given, Sentences)
    texts: list[Text] = listed(given)
    if isinstance(given, Sentences):
        texts = [given.source_sentence, *listed(given.sentences)]
    vectors, count = vector_config(model.engine, body), len(texts)
    check_prompted(vectors, texts, call.config)
    numbers = count if of_one else count**2
    found = await model.embed(texts, vectors, body.truncate, numbers=numbers)
    similarities = await call.beside(_similarities, found.results, of_one)
    return SimilarityReply(**found.about, similarities=similarities)


def _similarities(vectors: Sequence[Float32s], of_one: bool) -> Float32s:
    """Return the cosines of each vector with each, or of the first with each of the others."""
    rows = np.stack(vectors)
    return cosines(rows[:1], rows[1:])[0] if of_one else cosines(rows, rows)


def _rounded(maps: Float32s) -> Float32s:
    """Return attention weights with the digits that are sent."""
    return np.round(maps, 4)


@router.post("/attention")
async def attention(body: AttentionRequest, call: Call) -> AttentionReply:
    """Return the attention maps of a text, by layer and attention head."""
    model = await call.model(body)
    engine, heads = model.engine, model.engine.attention_heads
    if heads is None:
        raise invalid_request(f"{engine.name} has no attention maps", "no_attention")
    layers = tuple(range(1, engine.top + 1) if body.layers is None else listed(body.layers))
    found = await model.compute(attention_items, body.input, layers, heads, body.truncate)
    (ids,), (maps,) = found.read.sequences, found.results
    rounded = await call.beside(_rounded, maps)
    return AttentionReply(**found.about, tokens=engine.tokenizer.tokens_of(ids), attentions=rounded)
