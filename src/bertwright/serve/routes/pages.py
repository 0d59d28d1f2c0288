"""Pages for people: the page at / for trying a model out, and the list of routes at /docs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse

from bertwright.serve.docs_page import FOLDER, docs_page

router = APIRouter(include_in_schema=False)
POLICY = "frame-ancestors 'none'"
"""The part of the page's Content-Security-Policy that its own head cannot have."""


@router.head("/")
@router.get("/")
async def playground() -> FileResponse:
    """Return the page for trying a model out."""
    return FileResponse(FOLDER / "index.html", headers={"content-security-policy": POLICY})


@router.head("/docs")
@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Return the page that lists the routes."""
    return HTMLResponse(docs_page(request.app, str(request.base_url).rstrip("/")))
