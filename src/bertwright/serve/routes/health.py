"""Routes about the process: whether it lives, whether it is ready, and its metrics."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from bertwright.serve.service import service_of

router = APIRouter()


class Alive(BaseModel):
    """The process replies."""

    alive: Literal[True] = True


@router.head("/livez", include_in_schema=False)
@router.get("/livez")
async def livez() -> Alive:
    """Tell that the process is alive."""
    return Alive()


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", include_in_schema=False)
async def readyz(request: Request) -> Response:
    """Tell whether requests are served, and if not, why."""
    service = service_of(request)
    if service.is_ready:
        return JSONResponse({"ready": True})
    why = "draining" if service.draining else "failing" if service.failing else "loading"
    return JSONResponse({"ready": False, "why": why}, 503)


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the metrics, for Prometheus."""
    service = service_of(request)
    service.metrics.ready.set(service.is_ready)
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")
