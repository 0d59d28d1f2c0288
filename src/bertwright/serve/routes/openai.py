"""OpenAI's protocol: POST /v1/embeddings.

The reply is OpenAI's to the letter. Vectors have length 1, as OpenAI's do, unless the folder of the
model says how vectors are made and does not normalize them. As OpenAI's clients cannot ask for
truncation, long texts are truncated, and a header says how many.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine
from bertwright.serve.preparing import Prepared
from bertwright.serve.routes.vectors import base64_rows, prepare_vectors
from bertwright.serve.schemas.replies import About, Embedding, EmbeddingsReply, Usage
from bertwright.serve.schemas.requests import EmbeddingsRequest, listed

router = make_router()


@router.post("/v1/embeddings", response_model=EmbeddingsReply)
async def embeddings(body: EmbeddingsRequest, call: Call) -> Response:
    """Return vectors in the form that OpenAI's clients expect."""
    return await call.reply(prepare_embeddings, body)


def prepare_embeddings(
    engine: Engine, body: EmbeddingsRequest, config: ServeConfig
) -> Prepared[EmbeddingsReply]:
    """Tokenize the texts of `/v1/embeddings`."""
    vectors = engine.default
    if body.dimensions is not None:
        vectors = vectors.over(dimensions=body.dimensions, normalize=True)
    elif not engine.model.says_vectors:
        vectors = vectors.over(normalize=True)

    def finish(results: list[Float32s], about: About) -> EmbeddingsReply:
        is_base64 = body.encoding_format == "base64"
        rows: Sequence[Float32s | str] = base64_rows(results) if is_base64 else results
        tokens = about["tokens_used"]
        return EmbeddingsReply(
            object="list",
            data=[Embedding("embedding", number, row) for number, row in enumerate(rows)],
            model=about["model"],
            usage=Usage(prompt_tokens=tokens, total_tokens=tokens),
        )

    prepared = prepare_vectors(engine, listed(body.input), vectors, finish, truncate=True)
    prepared.headers = {  # OpenAI's reply has no keys for these
        "x-bertwright-sha256": engine.sha256,
        "x-bertwright-layers": ", ".join(map(str, prepared.layers)),
        "x-bertwright-pooling": str(prepared.pooling),
        "x-bertwright-normalized": str(prepared.normalized).lower(),
        "x-bertwright-truncated": str(len(prepared.truncated)),
    }
    if (unknown := prepared.unknown_words) is not None:
        prepared.headers["x-bertwright-unknown-words"] = str(unknown)
    return prepared
