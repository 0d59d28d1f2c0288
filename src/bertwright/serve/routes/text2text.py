"""The route of models of `finetune generation`, which write the target of a source.

A target is what the head was trained to write: a summary, an answer, a correction. It is generated
greedily, by sampling or by beam search, as `bertwright predict` does.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import RowsInFlight
from bertwright.decoding.texts import begin_beams, ends_of
from bertwright.inference.encode import ModelRunner
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.generation.flight import Piece, PromptTexts, Searches, Text
from bertwright.serve.engine.generation.way import Way
from bertwright.serve.engine.items import PreparedPrompts, task_items
from bertwright.serve.errors import invalid_request
from bertwright.serve.event_stream import EventStream
from bertwright.serve.routes.generation import (
    check_new,
    check_sampling,
    events,
    stripped,
    texts_of,
)
from bertwright.serve.routes.heads import task_that_predicts
from bertwright.serve.routing import ModelRouter
from bertwright.serve.schemas.replies import TextToTextReply
from bertwright.serve.schemas.requests import TextToTextRequest, listed
from bertwright.tasks.generation.kind import target_decoder
from bertwright.tasks.generation.options import GenerationTask
from bertwright.tasks.predictions import GenerationPrediction

router = ModelRouter()


@router.post("/text2text", response_model=TextToTextReply)
async def text2text(body: TextToTextRequest, call: Call) -> TextToTextReply | EventStream:
    """Write the targets of texts, by a model of `finetune generation`."""
    model = await call.model(body)
    name = task_that_predicts(model.engine, body.task, GenerationPrediction)
    found = await model.generate(_way(name, body.beam > 1), sources, name, body, call.config)
    if body.stream:
        return await call.stream(found, events(found, StrippedTexts(), {"task": name}))
    texts = texts_of(await found.whole(), len(found.prompts), stripped)
    return TextToTextReply(
        **found.about, task=name, results=texts, tokens_generated=found.generated
    )


def sources(
    engine: Engine, task: str, body: TextToTextRequest, limits: ServeConfig
) -> PreparedPrompts:
    """Return the sources of `/text2text`."""
    most = cast(GenerationTask, engine.model.tasks[task]).most_target_tokens
    settings = _settings(body, min(body.max_new_tokens or most, most))
    read = task_items(engine, task, listed(body.input), body.truncate, limits)
    prompts = []
    for number, item in enumerate(read.items):
        (instance,) = item.data.instances
        ids = list(instance.ids[0][: instance.label])
        more: dict[str, Any] = {"tokenizer": engine.tokenizer, "streams": body.stream}
        limit = settings.max_new_tokens
        texts = [Text(settings, limit, number=n, **more) for n in range(body.num)]
        prompts.append(PromptTexts(number, ids, texts))
    check_new(prompts, limits)
    return PreparedPrompts(engine=engine, prompts=prompts, truncated=read.truncated)


def _settings(body: TextToTextRequest, most: int) -> GenerationConfig:
    """Return how targets of at most `most` tokens are generated; `HttpError` for options that
    exclude each other."""
    check_sampling(body)
    stop, penalty = tuple(listed(body.stop)), float(body.repetition_penalty)
    if body.beam > 1 and (body.sample or stop or penalty != 1):
        reason = "beam is without sample, stop and repetition_penalty: leave out one or the other"
        raise invalid_request(reason)
    if body.num > max(1, body.beam) and not body.sample:
        reason = f'num is {body.num}: request "sample": true, or a beam of {body.num} or more'
        raise invalid_request(reason)
    if body.beam > 1:
        return GenerationConfig(
            most, beam=body.beam, length_penalty=float(body.length_penalty), num=body.num
        )
    seed = 0
    if body.sample:
        seed = secrets.randbits(32) if body.seed is None else body.seed
    return GenerationConfig(
        most,
        sample=body.sample,
        temperature=float(body.temperature),
        top_k=body.top_k,
        top_p=float(body.top_p),
        repetition_penalty=penalty,
        stop=stop,
        num=body.num,
        seed=seed,
    )


def _way(name: str, beams: bool) -> Way:
    """Return how a model generates the targets of a task: in rows, or by beam search."""
    if beams:
        return Way(f"task {name}, beams", partial(_searches, name))
    return Way(f"task {name}", partial(_rows, name))


def _rows(name: str, runner: ModelRunner) -> RowsInFlight:
    decoder = target_decoder(runner.encoder, runner.learner.objectives[name])
    return RowsInFlight(decoder, *ends_of(runner.tokenizer))


def _searches(name: str, runner: ModelRunner) -> Searches:
    decoder = target_decoder(runner.encoder, runner.learner.objectives[name])
    return Searches(partial(begin_beams, decoder, runner.tokenizer))


@dataclass
class StrippedTexts:
    """Gives the texts of pieces, so that a whole text has no white space at its ends."""

    _held: dict[tuple[int, int], str] = field(default_factory=dict)
    """The white space at the end of each text that has begun, which has not been given."""

    def __call__(self, piece: Piece) -> str:
        """Return the text of a piece."""
        key = piece.prompt, piece.number
        text = self._held[key] + piece.text if key in self._held else piece.text.lstrip()
        shown = text.rstrip()
        if shown or key in self._held:
            self._held[key] = text[len(shown) :]
        return shown
