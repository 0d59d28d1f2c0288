"""The application: routes, health, documents of the API, and the page at /."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from bertwright.config.serve import ServeConfig
from bertwright.serve import schemas as shapes
from bertwright.serve.errors import Refusal, bad, unavailable
from bertwright.serve.middleware import OPEN, Door, refusal_body, refusal_headers
from bertwright.serve.requests import Route, dump
from bertwright.serve.routes import heads as head_routes
from bertwright.serve.routes import openai
from bertwright.serve.routes import pairs as relation_routes
from bertwright.serve.routes import vectors as vector_routes
from bertwright.serve.schemas import Key, Shape
from bertwright.serve.service import Service, read_body
from bertwright.version import __version__

ROUTES: tuple[Route, ...] = (
    *openai.ROUTES,
    *vector_routes.ROUTES,
    *head_routes.ROUTES,
    *relation_routes.ROUTES,
)
PLAYGROUND = Path(__file__).with_name("playground")
SWAP = Shape(
    {
        "model": Key(shapes.NAME, "Name of the model; unset: all."),
        "folder": Key(shapes.TEXT, "Folder to load from; unset: where it came from."),
    }
)
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
POLICY = "frame-ancestors 'none'"
"""Of the page at /, beside the one in its head, which cannot say this: no other page shows it."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def make_app(config: ServeConfig, service: Service | None = None) -> Door:
    """The application over the models of a configuration, which load when it starts.

    Raises:
        ConfigError: no model, or keys that cannot be read.
    """
    found = service or Service(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await found.start()
        yield
        await found.stop()

    app = FastAPI(
        title="Bertwright",
        version=__version__,
        description="BERTs behind HTTP: vectors, and every head.",
        docs_url=None,  # FastAPI's own page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would lead to the address that a proxy asked for
        lifespan=lifespan,
    )
    for route in ROUTES:
        _post(app, route.path, _described(route), route.help, route.shape)
    if found.admin_keys is not None:
        _post(app, "/admin/swap", _swap(found), "Load a model anew.", SWAP)
    _health(app, found)
    _errors(app)
    if config.playground and (PLAYGROUND / "index.html").is_file():
        page = (PLAYGROUND / "index.html").read_text(encoding="utf-8")
        _get(app, "/", _page(page), "The page for trying things out.", shown=False)
        app.mount("/playground", StaticFiles(directory=PLAYGROUND))
    _get(app, "/docs", _docs(app), "This list.", shown=False)
    paths = {route.path for route in ROUTES} | OPEN | {"/v1/models", "/admin/swap"}
    answered = {route.path: route for route in ROUTES}
    return Door(app, found, answered, frozenset(paths))


def _post(app: FastAPI, path: str, handler: Handler, text: str, shape: Shape) -> None:
    content = {"application/json": {"schema": shape.schema}}
    no = {"description": "No, and why.", "content": {"application/json": {"schema": ERROR}}}
    app.add_api_route(
        path,
        handler,
        methods=["POST"],
        summary=text,
        response_class=Response,
        responses={
            200: {"description": "The answer.", "content": {"application/json": {}}},
            **dict.fromkeys((400, 401, 404, 408, 413, 429, 503), no),
        },
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )


def _get(
    app: FastAPI, path: str, handler: Handler, text: str, *names: str, shown: bool = True
) -> None:
    """Answer GET and HEAD; `names` are those in the path."""
    string = {"in": "path", "required": True, "schema": {"type": "string"}}
    app.add_api_route(
        path,
        handler,
        methods=["GET"],
        summary=text,
        response_class=Response,
        include_in_schema=shown,
        openapi_extra={"parameters": [{"name": name, **string} for name in names]},
    )
    app.add_route(path, handler, methods=["HEAD"], include_in_schema=False)


def _described(route: Route) -> Handler:
    """For OpenAPI: the door answers."""

    async def handle(request: Request) -> Response:
        raise AssertionError

    handle.__name__ = route.path.strip("/").replace("/", "_").replace("-", "_")
    return handle


def _swap(service: Service) -> Handler:
    async def swap(request: Request) -> Response:
        args = SWAP.read(await read_body(request.receive, 65536, service.config.body_seconds))
        if args["folder"] is not None and args["model"] is None:
            raise bad("folder needs the name of a model")
        refuse_while_loading(service)
        made = await service.swap(args["model"], args["folder"])
        models = [{"model": engine.name, "sha256": engine.sha256} for engine in made]
        return _json({"swapped": models})

    return swap


def refuse_while_loading(service: Service) -> None:
    """Raise `Refusal` while the models of the start are not there."""
    if service.batcher is None:
        raise unavailable("models are being loaded", "loading")


def _health(app: FastAPI, service: Service) -> None:
    async def livez(request: Request) -> Response:
        return _json({"alive": True})

    async def readyz(request: Request) -> Response:
        ready = service.is_ready
        why = "draining" if service.draining else "failing" if service.failing else "loading"
        facts = {"ready": ready, **({} if ready else {"why": why})}
        return _json(facts, 200 if ready else 503)

    async def metrics(request: Request) -> Response:
        service.metrics.ready.set(service.is_ready)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def list_models(request: Request) -> Response:
        refuse_while_loading(service)
        engines = service.engines.values()
        return _json({"object": "list", "data": [openai.describe(engine) for engine in engines]})

    async def one_model(request: Request) -> Response:
        refuse_while_loading(service)
        engine = service.engines.get(request.path_params["name"])
        if engine is None:
            raise Refusal(404, "model_not_found", "no such model")
        return _json(openai.describe(engine))

    _get(app, "/livez", livez, "Whether the process is alive.")
    _get(app, "/readyz", readyz, "Whether it answers.", shown=False)
    _get(app, "/metrics", metrics, "Figures for Prometheus.")
    _get(app, "/v1/models", list_models, "The models that are served.")
    _get(app, "/v1/models/{name:path}", one_model, "One of them.", "name")


def _errors(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        body = refusal_body(error, request.url.path)
        return Response(body, error.status, refusal_headers(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = {404: ("not_found", "no such route"), 405: ("method", "another method is needed")}
        code, message = known.get(error.status_code, ("error", "this cannot be answered"))
        refusal = Refusal(error.status_code, code, message)
        headers = {**refusal_headers(refusal), **(error.headers or {})}
        if headers.get("Allow") == "GET":
            headers["Allow"] = "GET, HEAD"
        return Response(refusal_body(refusal, request.url.path), error.status_code, headers)

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, http)


def _page(content: str) -> Handler:
    async def page(request: Request) -> Response:
        return HTMLResponse(content, headers={"content-security-policy": POLICY})

    return page


def _docs(app: FastAPI) -> Handler:
    async def docs(request: Request) -> Response:
        return HTMLResponse(_listing(app.openapi()))

    return docs


def _listing(described: dict[str, Any]) -> str:
    """The routes on one page, with nothing from elsewhere."""
    parts = []
    for path, methods in sorted(described["paths"].items()):
        for method, facts in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(facts.get('summary', ''))}</p>")
            if "requestBody" in facts:
                parts.append(_keys(facts["requestBody"]["content"]["application/json"]["schema"]))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Bertwright: routes</title>'
        "<style>:root{color-scheme:light dark}"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;"
        "padding:0 1rem}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}"
        "pre{overflow-x:auto}</style><h1>Routes</h1>"
        '<p>All of it for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}</html>"
    )


def _keys(schema: dict[str, Any]) -> str:
    rows = []
    required = schema.get("required", [])
    for name, key in schema["properties"].items():
        needed = "required" if name in required else ""
        known = ", ".join(map(str, key.get("enum", [])))
        told = f"{key.get('description', '')} {known}".strip()
        rows.append(f"<tr><td><code>{name}</code><td>{needed}<td>{html.escape(told)}")
    example = html.escape(dump(schema["example"]).decode()) if "example" in schema else ""
    return f"<table>{''.join(rows)}</table><pre>{example}</pre>"


def _json(value: Any, status: int = 200) -> Response:
    return Response(dump(value), status, media_type="application/json")
