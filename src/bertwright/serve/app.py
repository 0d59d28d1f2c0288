"""The FastAPI application: its routes, its error handler, and the middleware around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from bertwright.config.serve import ServeConfig
from bertwright.errors import ConfigError, DataError
from bertwright.serve.errors import HttpError
from bertwright.serve.http.error_replies import handle_error
from bertwright.serve.http.middleware import Middleware
from bertwright.serve.routes import (
    generation,
    heads,
    health,
    models,
    openai,
    pages,
    rerank,
    text2text,
    vectors,
)
from bertwright.serve.service import Service
from bertwright.version import __version__

ROUTERS = (
    openai.router,
    vectors.router,
    heads.router,
    rerank.router,
    generation.router,
    text2text.router,
)
"""The routes of models; those that are used most come first, as they are matched in order."""
ERRORS = (HttpError, ConfigError, DataError, HTTPException, Exception)
"""What becomes a reply with an error."""
MODEL_PATHS = frozenset(
    route.path for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)
)


def make_app(config: ServeConfig) -> Middleware:
    """Return the application over the models of a configuration, which load when it starts.

    Raises:
        ConfigError: there is no model, or the keys cannot be read.
    """
    service = Service(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="Bertwright",
        version=__version__,
        description="Encoders behind HTTP: vectors, every head, and generation.",
        docs_url=None,  # its scripts are from elsewhere: `pages` has the same page with ours
        redoc_url=None,
        redirect_slashes=False,  # it would lead to the address that a proxy requested
        lifespan=lifespan,
    )
    app.state.service = service
    for error in ERRORS:
        app.add_exception_handler(error, handle_error)
    for router in (*ROUTERS, health.router, models.router, pages.router):
        app.include_router(router)
    pages.mount_files(app)
    return Middleware(app, service, MODEL_PATHS)
