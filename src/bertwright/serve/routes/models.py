"""Routes that describe the models: GET /v1/models, in the form of OpenAI with keys of our own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request

from bertwright.serve.engine.engine import Engine
from bertwright.serve.errors import HttpError
from bertwright.serve.schemas.replies import DefaultVectors, ServedModel, ServedModels, ServedTask
from bertwright.serve.service import service_of
from bertwright.tasks.texts.options import ClassificationTask

router = APIRouter()


async def loaded_models(request: Request) -> dict[str, Engine]:
    """Return the models by name, or raise `HttpError` while the first ones are being loaded."""
    service = service_of(request)
    service.check_loaded()
    return service.engines


Models = Annotated[dict[str, Engine], Depends(loaded_models)]


@router.head("/v1/models", include_in_schema=False)
@router.get("/v1/models")
async def list_models(models: Models) -> ServedModels:
    """List the models that are served."""
    return ServedModels(object="list", data=[describe(engine) for engine in models.values()])


@router.head("/v1/models/{name:path}", include_in_schema=False)
@router.get("/v1/models/{name:path}")
async def one_model(name: str, models: Models) -> ServedModel:
    """Describe one model."""
    if name not in models:
        raise HttpError(404, "model_not_found", "no such model; GET /v1/models lists them")
    return describe(models[name])


def describe(engine: Engine) -> ServedModel:
    """Return what a model is and what it can do."""
    default = engine.default
    return ServedModel(
        id=engine.name,
        object="model",
        created=engine.loaded,
        owned_by="bertwright",
        sha256=engine.sha256,
        checkpoint=engine.checkpoint,
        damaged=list(engine.damages),
        layers=engine.top,
        attention_heads=engine.attention_heads,
        hidden_size=engine.spec.width,
        max_tokens=engine.longest,
        precision=engine.precision,
        default=DefaultVectors(
            layers=list(default.numbers(engine.top)),
            pooling=default.pooling,
            normalize=default.normalize,
            prompt=default.prompt,
            max_tokens=engine.vector_tokens,
            width=default.width(engine.spec.widths),
        ),
        examples=engine.examples,
        generates=engine.generates,
        vectors=engine.spec.has_vectors,
        words=engine.has_words,
        similarity=engine.model.similarity_function,
        heads=[name for name in engine.model.heads if name not in engine.model.tasks],
        tasks=[
            ServedTask(
                name=name,
                kind=task.kind,
                labels=list(task.labels),
                multi_label=isinstance(task, ClassificationTask) and task.options.multi_label,
                pairs=engine.reads_pairs(name),
            )
            for name, task in engine.model.tasks.items()
        ],
    )
