"""OpenAI's protocol: POST /v1/embeddings and GET /v1/models.

The reply is OpenAI's to the letter; what else is to be said goes in headers `X-Bertwright-*`. As
OpenAI's clients cannot ask for it, long texts are cut here, and a header says so.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from bertwright.config.serve import ServeConfig
from bertwright.inference.embed import with_prompt
from bertwright.inference.encode import Text
from bertwright.serve import schemas as shapes
from bertwright.serve.engine import Engine
from bertwright.serve.errors import bad
from bertwright.serve.outputs import Vectors
from bertwright.serve.requests import (
    Cut,
    Plan,
    Route,
    cut_texts,
    vector_config,
    which_prompt,
    works_of,
)
from bertwright.serve.schemas import Args, Key, Shape


def _plan(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    how = vector_config(engine, {})
    width = how.width(engine.config.hidden_size, engine.top)
    dimensions = args["dimensions"]
    if dimensions is not None and dimensions > width:
        raise bad(f"dimensions must be from 1 to {width}")
    texts: list[Text] = []
    truncated: list[Cut] = []
    for number, given in enumerate(args["input"]):
        if isinstance(given, str):
            texts.append(given)
        else:
            _check_ids(engine, number, given)
    cuts = cut_texts(engine, with_prompt(how.prompt, texts), True, longest=engine.vector_tokens)
    if texts:
        truncated = cuts.truncated
    else:
        cuts.ids, cuts.types = [], [None] * len(args["input"])
        cuts.starts = [[0] for _ in args["input"]]
        for number, given in enumerate(args["input"]):
            ids, cut = _framed(engine, how.prompt, given, engine.vector_tokens)
            cuts.ids.append([ids])
            if cut:
                truncated.append({"input": number, "tokens_cut": cut})

    layers = how.numbers(engine.top)
    normalized = how.normalize or dimensions is not None
    works = works_of(Vectors(engine, how), cuts)
    tokens = sum(work.tokens for work in works)

    def finish(answers: list[Any]) -> Args:
        rows = [_shown(answer, dimensions, args["encoding_format"]) for answer in answers]
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(rows)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": engine.name, "usage": usage}

    plan = Plan(engine, works, finish, layers, how.pooling, normalized, truncated, headers)
    plan.numbers, plan.prompt = len(works) * width, which_prompt(engine, how)
    return plan


def headers(plan: Plan) -> dict[str, str]:
    """What a reply says of how it was made."""
    cut: list[Cut] = plan.truncated
    listed = ", ".join(str(each["input"]) for each in cut[:50]) + (", ..." if cut[50:] else "")
    return {
        "x-bertwright-sha256": plan.engine.sha256,
        "x-bertwright-layers": ", ".join(map(str, plan.layers)),
        "x-bertwright-pooling": plan.pooling or "none",
        "x-bertwright-normalized": str(plan.normalized).lower(),
        "x-bertwright-prompt": plan.prompt or "none",
        "x-bertwright-tokens": str(plan.tokens),
        "x-bertwright-truncated": listed or "none",
        "x-bertwright-tokens-cut": str(sum(int(each["tokens_cut"]) for each in cut)),
    }


def _check_ids(engine: Engine, number: int, ids: list[int]) -> None:
    if max(ids) >= engine.tokenizer.vocab_size:
        last = engine.tokenizer.vocab_size - 1
        raise bad(f"input {number} has an id beyond {last}, the last of this model's tokenizer")


def _framed(engine: Engine, prompt: str, ids: list[int], longest: int) -> tuple[list[int], int]:
    """Ids between [CLS] and [SEP], which the client may have put there already, after those of a
    prompt; tokens cut."""
    cls, sep = engine.tokenizer.cls_id, engine.tokenizer.sep_id
    inner = ids[1:-1] if len(ids) > 1 and ids[0] == cls and ids[-1] == sep else ids
    if prompt:
        inner = [*engine.tokenizer.encode(prompt).ids[1:-1], *inner]
    return [cls, *inner[: longest - 2], sep], max(0, len(inner) - longest + 2)


def _shown(vector: Any, dimensions: int | None, encoding: str) -> Any:
    if dimensions is not None:
        vector = vector[:dimensions]
        vector = vector / max(float(np.linalg.norm(vector)), 1e-30)
    vector = np.ascontiguousarray(vector, np.float32)
    return vector if encoding == "float" else base64.b64encode(vector.tobytes()).decode()


def describe(engine: Engine) -> Args:
    """A model as /v1/models lists it: OpenAI's keys and ours."""
    return {
        "id": engine.name,
        "object": "model",
        "created": engine.loaded,
        "owned_by": "bertwright",
        "sha256": engine.sha256,
        "layers": engine.top,
        "attention_heads": engine.config.num_attention_heads,
        "hidden_size": engine.config.hidden_size,
        "max_tokens": engine.longest,
        "precision": engine.precision,
        "default": {
            "layers": list(engine.default.numbers(engine.top)),
            "pooling": engine.default.pooling,
            "normalize": engine.default.normalize,
            "prompt": engine.default.prompt,
            "max_tokens": engine.vector_tokens,
            "width": engine.default.width(engine.config.hidden_size, engine.top),
        },
        "heads": [name for name in engine.model.heads if name not in engine.model.tasks],
        "tasks": [
            {
                "name": name,
                "kind": task.kind,
                "labels": list(task.labels),
                "pairs": engine.reads_pairs(name),
            }
            for name, task in engine.model.tasks.items()
        ],
    }


ROUTES = (
    Route(
        "/v1/embeddings",
        Shape(
            {
                "input": Key(shapes.OPENAI_INPUT, "A text, texts, or token ids.", True),
                "model": Key(shapes.NAME, "Name of the model; unset: the first."),
                "encoding_format": Key(
                    shapes.choice("float", "base64"), "Of the vectors.", default="float"
                ),
                "dimensions": Key(
                    shapes.number(1, 1 << 20), "Keep so many numbers of a vector, scaled anew."
                ),
                "user": Key(shapes.Kind(lambda value: None, {"type": "string"}), "Ignored."),
            },
            ignores=True,
            example={"input": ["a text"]},
        ),
        _plan,
        "Vectors as OpenAI's clients ask for them.",
    ),
)
