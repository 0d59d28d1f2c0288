"""OpenAI's protocol: POST /v1/embeddings and the descriptions of GET /v1/models.

The reply is OpenAI's to the letter. As its clients cannot request it, long texts are truncated, and
a header says how many.
"""

from __future__ import annotations

import base64
from typing import Any

from fastapi import APIRouter

from bertwright.config.serve import ServeConfig
from bertwright.serve.engine import Engine
from bertwright.serve.replies import Embedding, EmbeddingsReply
from bertwright.serve.requests import Json, Prepared, vector_config
from bertwright.serve.routes.router import JsonRoute, model_route
from bertwright.serve.routes.vectors import prepare_vectors
from bertwright.serve.schemas import EmbeddingsRequest, listed

router = APIRouter(route_class=JsonRoute)


@model_route(router, "/v1/embeddings", EmbeddingsReply)
def prepare_embeddings(engine: Engine, body: EmbeddingsRequest, config: ServeConfig) -> Prepared:
    """Vectors as OpenAI's clients request them."""
    vectors, encoding = vector_config(engine, body), body.encoding_format
    if body.dimensions is not None:
        vectors = vectors.over(dimensions=body.dimensions, normalize=True)

    def finish(results: list[Any]) -> Json:
        shown = [x if encoding == "float" else base64.b64encode(x).decode() for x in results]
        data = [Embedding("embedding", n, vector) for n, vector in enumerate(shown)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": engine.name, "usage": usage}

    prepared = prepare_vectors(engine, listed(body.input), vectors, finish, truncate=True)
    tokens = prepared.tokens
    prepared.headers = {  # the reply itself is OpenAI's alone
        "x-bertwright-sha256": engine.sha256,
        "x-bertwright-layers": ", ".join(map(str, prepared.layers)),
        "x-bertwright-pooling": str(prepared.pooling),
        "x-bertwright-normalized": str(prepared.normalized).lower(),
        "x-bertwright-truncated": str(len(prepared.truncated)),
    }
    return prepared


def describe(engine: Engine) -> Json:
    """A model as /v1/models lists it: OpenAI's keys and ours."""
    default, pairs = engine.default, engine.reads_pairs
    return {
        "id": engine.name,
        "object": "model",
        "created": engine.loaded,
        "owned_by": "bertwright",
        "sha256": engine.sha256,
        "checkpoint": engine.checkpoint,
        "damaged": list(engine.damages),
        "layers": engine.top,
        "attention_heads": engine.attention_heads,
        "hidden_size": engine.spec.width,
        "max_tokens": engine.longest,
        "precision": engine.precision,
        "default": {
            "layers": list(default.numbers(engine.top)),
            **{name: getattr(default, name) for name in ("pooling", "normalize", "prompt")},
            "max_tokens": engine.vector_tokens,
            "width": default.width(engine.spec.widths),
        },
        "examples": engine.examples,
        "generates": engine.generates,
        "vectors": engine.spec.has_vectors,
        "heads": [name for name in engine.model.heads if name not in engine.model.tasks],
        "tasks": [
            {
                "name": name,
                "kind": task.kind,
                "labels": list(task.labels),
                "multi_label": task.multi_label,
                "pairs": pairs(name),
            }
            for name, task in engine.model.tasks.items()
        ],
    }
