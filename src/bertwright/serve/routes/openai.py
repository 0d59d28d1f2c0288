"""OpenAI's protocol: POST /v1/embeddings.

The reply is OpenAI's to the letter. Vectors have length 1, as OpenAI's do, unless the folder of the
model says how vectors are made and does not normalize them. As OpenAI's clients cannot ask for
truncation, long texts are truncated, and a header says how many.
"""

from __future__ import annotations

from collections.abc import Sequence

from bertwright.arrays import Float32s
from bertwright.serve.calls import Call
from bertwright.serve.routes.vectors import base64_rows
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import Embedding, EmbeddingsReply, Usage
from bertwright.serve.schemas.requests import EmbeddingsRequest, listed

router = ModelRouter()


@router.post("/v1/embeddings")
async def embeddings(body: EmbeddingsRequest, call: Call) -> EmbeddingsReply:
    """Return vectors in the form that OpenAI's clients expect."""
    model = await call.model(body)
    vectors = model.engine.default
    if body.dimensions is not None:
        vectors = vectors.over(dimensions=body.dimensions, normalize=True)
    elif not model.engine.model.says_vectors:
        vectors = vectors.over(normalize=True)
    found = await model.embed(listed(body.input), vectors, truncate=True)
    rows: Sequence[Float32s | str] = found.results
    if body.encoding_format == "base64":
        rows = await call.beside(base64_rows, found.results)
    about = found.about
    call.headers = {  # OpenAI's reply has no keys for these
        "x-bertwright-sha256": about["sha256"],
        "x-bertwright-layers": ", ".join(map(str, about["layers"])),
        "x-bertwright-pooling": str(about["pooling"]),
        "x-bertwright-normalized": str(about["normalized"]).lower(),
        "x-bertwright-truncated": str(len(about["truncated"])),
    }
    if "unknown_words" in about:
        call.headers["x-bertwright-unknown-words"] = str(about["unknown_words"])
    return EmbeddingsReply(
        object="list",
        data=[Embedding("embedding", number, row) for number, row in enumerate(rows)],
        model=about["model"],
        usage=Usage(prompt_tokens=about["tokens_used"], total_tokens=about["tokens_used"]),
    )
