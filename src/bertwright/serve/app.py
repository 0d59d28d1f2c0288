"""The application: the routes, health, the OpenAPI document, and the page at /."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from jinja2 import Template
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from bertwright.config.serve import ServeConfig
from bertwright.serve.errors import HttpError
from bertwright.serve.middleware import Middleware
from bertwright.serve.requests import dump
from bertwright.serve.routes import generation, heads, openai, text2text, vectors
from bertwright.serve.routes.router import JsonRoute
from bertwright.serve.service import Service
from bertwright.version import __version__

ROUTERS = (openai.router, vectors.router, heads.router, generation.router, text2text.router)
PLAYGROUND = Path(__file__).with_name("playground")
POLICY = "frame-ancestors 'none'"
"""Of the page at /, beside the one in its head, which cannot have this: no other page shows it."""
ADDRESS = "http://address-of-this-server"
"""Stands for the server's own address in the page at /docs."""
Handler = Callable[..., Coroutine[Any, Any, Response]]


def make_app(config: ServeConfig) -> Middleware:
    """The application over the models of a configuration, which load when it starts.

    Raises:
        ConfigError: no model, or keys that cannot be read.
    """
    served = Service(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await served.start()
        yield
        await served.stop()

    app = FastAPI(
        title="Bertwright",
        version=__version__,
        description="Encoders behind HTTP: vectors, every head, and generation.",
        docs_url=None,  # FastAPI's own page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would lead to the address that a proxy requested
        lifespan=lifespan,
    )
    app.router.route_class = JsonRoute
    models = [route for router in ROUTERS for route in router.routes]
    app.router.routes += models
    _add_health(app, served)
    _add_get(app, "/", _page, "The page for trying things out.", shown=False)
    app.mount("/playground", StaticFiles(directory=PLAYGROUND))
    _add_get(app, "/docs", _docs(app), "This list.", shown=False)
    direct = {route.path: route.app for route in models if isinstance(route, JsonRoute)}
    return Middleware(app.router, served, direct)


def _add_get(app: FastAPI, path: str, handler: Handler, text: str, shown: bool = True) -> None:
    """A route of GET and HEAD."""
    app.add_api_route(path, handler, summary=text, response_model=None, include_in_schema=shown)
    app.add_api_route(path, handler, methods=["HEAD"], response_model=None, include_in_schema=False)


def _add_health(app: FastAPI, service: Service) -> None:
    async def livez(_: Request) -> Response:
        return _json({"alive": True})

    async def readyz(_: Request) -> Response:
        if service.is_ready:
            return _json({"ready": True})
        why = "draining" if service.draining else "failing" if service.failing else "loading"
        return _json({"ready": False, "why": why}, 503)

    async def metrics(_: Request) -> Response:
        service.metrics.ready.set(service.is_ready)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def list_models(_: Request) -> Response:
        service.check_loaded()
        engines = service.engines.values()
        return _json({"object": "list", "data": [openai.describe(engine) for engine in engines]})

    async def one_model(_: Request, name: str) -> Response:
        service.check_loaded()
        engine = service.engines.get(name)
        if engine is None:
            raise HttpError(404, "model_not_found", "no such model")
        return _json(openai.describe(engine))

    _add_get(app, "/livez", livez, "Whether the process is alive.")
    _add_get(app, "/readyz", readyz, "Whether requests are served.", shown=False)
    _add_get(app, "/metrics", metrics, "Metrics for Prometheus.")
    _add_get(app, "/v1/models", list_models, "The models that are served.")
    _add_get(app, "/v1/models/{name:path}", one_model, "One of them.")


async def _page(_: Request) -> Response:
    return FileResponse(PLAYGROUND / "index.html", headers={"content-security-policy": POLICY})


def _docs(app: FastAPI) -> Handler:
    @cache  # making it takes 20 ms, in which the event loop serves nobody
    def page() -> str:
        return _listing(app.openapi())

    async def docs(request: Request) -> Response:
        url = str(request.base_url).rstrip("/")
        return HTMLResponse(page().replace(ADDRESS, escape(url)))

    return docs


def _listing(document: dict[str, Any]) -> str:
    """The routes on one page, with nothing from elsewhere; the server is at `ADDRESS`."""
    routes, schemas = [], document["components"]["schemas"]
    for path, methods in sorted(document["paths"].items()):
        for method, facts in methods.items():
            route = {"path": path, "method": method.upper(), "summary": facts.get("summary", "")}
            if "requestBody" in facts:
                schema = _resolved(_json_schema(facts["requestBody"]), schemas)
                body = shlex.quote(dump(schema.get("example", {})).decode())
                curl = f"curl {ADDRESS}{path} -H 'Content-Type: application/json' -d {body}"
                route |= {"body": schema, "curl": curl}
            if reply := _json_schema(facts["responses"]["200"]):
                route["reply"] = json.dumps(_example(reply, schemas), indent=1)
            routes.append(route)
    template = (PLAYGROUND / "routes.html.j2").read_text(encoding="utf-8")
    page: str = Template(template, autoescape=True, trim_blocks=True).render(routes=routes)
    return page


def _json_schema(content: dict[str, Any]) -> Any:
    return content["content"]["application/json"].get("schema", {})


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A schema, or the one that it refers to."""
    return schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)


def _example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value of a schema, with the names of types in it."""
    schema = _resolved(schema, schemas)
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("const") or " | ".join(map(str, schema["enum"]))
    if "prefixItems" in schema:
        return [_example(each, schemas) for each in schema["prefixItems"]]
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), schemas)]
    if schema.get("type") == "object":
        return {k: _example(v, schemas) for k, v in schema.get("properties", {}).items()}
    return schema.get("type", "any")


def _json(value: Any, status: int = 200) -> Response:
    return Response(dump(value), status, media_type="application/json")
