"""Routes of vectors and tokens: /embed, /tokens, /tokenize, /similarity and bert-as-service's
/encode."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Float32s
from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.inference.embed import with_prompt
from bertwright.inference.encode import kept_tokens
from bertwright.serve import schemas as shapes
from bertwright.serve.engine import Engine
from bertwright.serve.errors import bad
from bertwright.serve.outputs import Tokens, Vectors
from bertwright.serve.requests import (
    Called,
    Plan,
    Route,
    cosines,
    cut_texts,
    judge_characters,
    judge_texts,
    judge_tokens,
    texts_in,
    vector_config,
    which_prompt,
    works_of,
)
from bertwright.serve.schemas import MODEL, Args, Key, Shape

VECTORS = {
    "layers": Key(shapes.LAYERS, "0 the embeddings, 1 and up the layers, negative from the top."),
    "combine": Key(shapes.COMBINE, "What becomes of several layers."),
    "pooling": Key(shapes.POOLING, "How the tokens of a text become one vector."),
    "normalize": Key(shapes.FLAG, "Scale every vector to length 1."),
}
PROMPTS = {
    "prompt": Key(shapes.PROMPT, 'Text before every text, "" for none; unset: the default.'),
    "prompt_name": Key(shapes.NAME, "The same by its name in the model's folder."),
}
INPUT = Key(shapes.TEXTS_OR_PAIRS, "A text, or texts and pairs.", True, aliases=("inputs",))


def plan_vectors(
    engine: Engine,
    texts: list[Any],
    config: VectorConfig,
    truncate: bool,
    windows: bool = False,
    called: Called = None,
) -> Plan:
    """A vector a text; `finish` is for the caller to set."""
    read = with_prompt(config.prompt, texts)
    cuts = cut_texts(engine, read, truncate, windows, engine.vector_tokens, called)
    return Plan(
        engine,
        works_of(Vectors(engine, config), cuts),
        lambda _: {},
        config.numbers(engine.top),
        config.pooling,
        config.normalize,
        cuts.truncated,
        numbers=len(texts) * config.width(engine.config.hidden_size, engine.top),
        prompt=which_prompt(engine, config),
    )


def _judge_prompt(how: VectorConfig, texts: list[Any], config: ServeConfig) -> None:
    """Raise `Refusal` if texts and prompts have too many characters; without a prompt they were
    judged when they came."""
    if how.prompt:
        judge_characters(sum(map(len, texts_in(texts))) + len(texts) * len(how.prompt), config)


def _embed(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    how, texts = vector_config(engine, args), args["input"]
    _judge_prompt(how, texts, config)
    plan = plan_vectors(engine, texts, how, args["truncate"], args["windows"])

    def finish(answers: list[Any]) -> Args:
        stored, more = store(np.stack(answers), args["dtype"])
        shown: Any = stored
        if args["encoding"] == "base64":
            shown = [base64.b64encode(row.tobytes()).decode() for row in stored]
        return {"vectors": shown, "width": len(answers[0]), "dtype": args["dtype"], **more}

    plan.finish = finish
    return plan


def store(vectors: Float32s, dtype: str) -> tuple[npt.NDArray[Any], Args]:
    """Vectors as they are sent; of int8 their scales: number = stored * scale."""
    if dtype == "int8":
        largest = np.abs(vectors).max(1, keepdims=True)
        scales = np.where(largest > 0, largest, 1) / 127
        return np.rint(vectors / scales).astype(np.int8), {"scales": scales[:, 0].tolist()}
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1), {}
    return (vectors.astype(np.float16) if dtype == "float16" else vectors), {}


def _tokens(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    how = replace(vector_config(engine, args), pooling="mean", dense=0, dimensions=None)
    _judge_prompt(how, args["input"], config)
    texts = with_prompt(how.prompt, args["input"])
    cuts = cut_texts(engine, texts, args["truncate"], args["windows"], engine.vector_tokens)
    works = works_of(Tokens(engine, how), cuts)
    counts = [2 + sum(len(ids) - 2 for ids in windows) for windows in cuts.ids]
    places = [
        kept_tokens(engine.tokenizer, text, count, how.prompt)
        for text, count in zip(args["input"], counts, strict=True)
    ]

    def finish(answers: list[Any]) -> Args:
        found = [
            {"tokens": tokens, "offsets": offsets, "vectors": np.ascontiguousarray(vectors[rows])}
            for (tokens, offsets, rows), vectors in zip(places, answers, strict=True)
        ]
        return {"results": found}

    layers = how.numbers(engine.top)
    numbers = sum(counts) * how.width(engine.config.hidden_size, engine.top)
    return Plan(
        engine,
        works,
        finish,
        layers,
        None,
        how.normalize,
        cuts.truncated,
        numbers=numbers,
        prompt=which_prompt(engine, how),
    )


def _tokenize(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    found: list[Args] = []
    count = 0
    for text in args["input"]:
        judge_texts(engine, [*texts_in(text)], count, config)
        each = engine.tokenizer.encode(*([text] if isinstance(text, str) else text))
        count += len(each.ids)
        judge_tokens(count, config)
        found.append(
            {
                "ids": each.ids,
                "tokens": each.tokens,
                "offsets": each.offsets,
                "type_ids": each.type_ids,
            }
        )
    return Plan(engine, [], lambda _: {"results": found, "tokens_used": count})


def _similarity(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    one = args["source_sentence"]
    if (one is None) == (args["input"] is None) or (one is None) != (args["sentences"] is None):
        raise bad("give input, a list of texts; or source_sentence and sentences")
    texts = args["input"] if one is None else [one, *args["sentences"]]
    how, count = vector_config(engine, args), len(texts)
    _judge_prompt(how, texts, config)

    def called(number: int) -> str:
        return f"sentence {number - 1}" if number else "source sentence"

    plan = plan_vectors(
        engine,
        texts,
        how,
        args["truncate"],
        called=None if one is None else called,
    )
    plan.numbers = max(plan.numbers, count**2 if one is None else count)

    def finish(answers: list[Any]) -> Args:
        vectors = np.stack(answers)
        if one is None:
            return {"similarities": cosines(vectors, vectors)}
        return {"similarities": cosines(vectors[:1], vectors[1:])[0]}

    plan.finish = finish
    return plan


def _encode(engine: Engine, args: Args, config: ServeConfig) -> Plan:
    texts = args["texts"]
    plan = plan_vectors(engine, texts, VectorConfig((-2,), "concat", "mean"), args["truncate"])
    plan.finish = lambda answers: {"id": args["id"], "status": 200, "result": np.stack(answers)}
    return plan


ROUTES = (
    Route(
        "/embed",
        Shape(
            {
                "input": INPUT,
                **MODEL,
                **VECTORS,
                **PROMPTS,
                "windows": Key(shapes.FLAG, "Read long texts in windows.", default=False),
                "dtype": Key(
                    shapes.choice("float32", "float16", "int8", "binary"),
                    "Of the numbers.",
                    default="float32",
                ),
                "encoding": Key(shapes.choice("float", "base64"), "Of the reply.", default="float"),
            },
            example={"input": ["a text", "another"], "layers": [-2], "pooling": "mean"},
        ),
        _embed,
        "One vector a text, of any layers and pooling.",
    ),
    Route(
        "/tokens",
        Shape(
            {
                "input": Key(shapes.TEXTS, "A text or texts.", True, aliases=("inputs",)),
                **MODEL,
                **{name: key for name, key in VECTORS.items() if name != "pooling"},
                **PROMPTS,
                "windows": Key(shapes.FLAG, "Read long texts in windows.", default=False),
            },
            example={"input": "a text"},
        ),
        _tokens,
        "One vector a token, with the characters each is from.",
    ),
    Route(
        "/tokenize",
        Shape({"input": INPUT, **MODEL}, example={"input": "a text"}),
        _tokenize,
        "The tokens of a text, without the model.",
    ),
    Route(
        "/similarity",
        Shape(
            {
                "input": Key(shapes.TEXTS, "Texts to compare each with each.", aliases=("inputs",)),
                "source_sentence": Key(shapes.TEXT, "One text, to compare with `sentences`."),
                "sentences": Key(shapes.TEXTS, "Texts to compare with it."),
                **MODEL,
                **VECTORS,
                **PROMPTS,
            },
            example={"source_sentence": "a text", "sentences": ["another", "one more"]},
        ),
        _similarity,
        "Cosines between texts.",
    ),
    Route(
        "/encode",
        Shape(
            {
                "texts": Key(shapes.TEXTS_OR_PAIRS, "Texts.", True),
                "id": Key(shapes.ID, "Given back."),
                "is_tokenized": Key(shapes.FALSE, "Only false: cutting words is the model's own."),
                **MODEL,
            },
            example={"id": 1, "texts": ["a text"]},
        ),
        _encode,
        "As bert-as-service has it: the mean of layer -2.",
    ),
)
