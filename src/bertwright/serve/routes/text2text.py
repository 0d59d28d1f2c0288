"""The route of models of `finetune generation`, which write the target of a source.

A target is what the head was trained to write: a summary, an answer, a correction. It is generated
greedily, by sampling or by beam search, as `bertwright predict` does.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from starlette.responses import Response

from bertwright.config.generation import GenerationConfig
from bertwright.config.serve import ServeConfig
from bertwright.decoding.search import RowsInFlight
from bertwright.decoding.texts import begin_beams, ends_of
from bertwright.inference.encode import ModelRunner
from bertwright.serve.bodies import make_router
from bertwright.serve.calls import Call
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.generation.flight import Piece, PromptTexts, Searches, Text
from bertwright.serve.engine.generation.stream import PreparedGeneration, Way, respond
from bertwright.serve.errors import invalid_request
from bertwright.serve.preparing import Json
from bertwright.serve.routes.generation import check_new, check_sampling, texts_of
from bertwright.serve.routes.heads import task_items, task_name
from bertwright.serve.schemas.replies import About, TextToTextReply
from bertwright.serve.schemas.requests import TextToTextRequest, listed
from bertwright.tasks.generation.kind import target_decoder
from bertwright.tasks.generation.options import GenerationTask

router = make_router()


@router.post("/text2text", response_model=TextToTextReply)
async def text2text(body: TextToTextRequest, call: Call) -> Response:
    """Write the targets of texts, by a model of `finetune generation`."""
    return await respond(call, prepare_text2text, body)


def prepare_text2text(
    engine: Engine, body: TextToTextRequest, config: ServeConfig
) -> PreparedGeneration:
    """Tokenize the sources of `/text2text`."""
    name = task_name(engine, body.task, ("generation",))
    most = cast(GenerationTask, engine.model.tasks[name]).most_target_tokens
    settings = _settings(body, min(body.max_new_tokens or most, most))
    items, truncated = task_items(engine, name, listed(body.input), body.truncate, config)
    prompts = []
    for number, item in enumerate(items):
        (instance,) = item.data.instances
        ids = list(instance.ids[0][: instance.label])
        more: Json = {"tokenizer": engine.tokenizer, "streams": body.stream}
        limit = settings.max_new_tokens
        texts = [Text(settings, limit, number=n, **more) for n in range(body.num)]
        prompts.append(PromptTexts(number, ids, texts))
    check_new(prompts, config)

    def finish(pieces: list[Piece], about: About) -> TextToTextReply:
        return TextToTextReply(
            **about,
            task=name,
            results=texts_of(pieces, len(prompts), lambda piece: piece.text.strip()),
            tokens_generated=sum(len(piece.ids) for piece in pieces),
        )

    prepared = PreparedGeneration(
        engine, [], finish, truncated=truncated, prompts=prompts, way=_way(name, body.beam > 1)
    )
    if body.stream:
        about = {**prepared.about, "task": name}
        prepared.event = StrippedEvents()
        prepared.last = lambda generated: {**about, "tokens_generated": generated}
    return prepared


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
class StrippedEvents:
    """Makes events from pieces, so that a text has no white space at its ends, as in a reply."""

    _held: dict[tuple[int, int], str] = field(default_factory=dict)
    """The white space at the end of each text that has begun, which has not been sent."""

    def __call__(self, piece: Piece) -> Json:
        """Return the event of a piece."""
        key = piece.prompt, piece.number
        text = self._held[key] + piece.text if key in self._held else piece.text.lstrip()
        shown = text.rstrip()
        if shown or key in self._held:
            self._held[key] = text[len(shown) :]
        own = {"prompt": piece.prompt, "number": piece.number, "text": shown}
        return {**own, "reason": piece.reason, "score": piece.score}
