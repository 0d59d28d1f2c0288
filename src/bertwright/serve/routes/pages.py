"""Pages for people: the page at / for trying a model out, and FastAPI's list of routes at /docs.

Both have their files here or in a package, so that they need no network.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parents[1] / "playground"
NOT_FRAMED = "frame-ancestors 'none'"
"""The part of a page's Content-Security-Policy that its own head cannot have."""
OWN_FILES = f"default-src 'self' 'unsafe-inline'; img-src 'self' data:; {NOT_FRAMED}"
"""The policy of a page that loads nothing from elsewhere."""


@router.head("/")
@router.get("/")
async def try_out() -> FileResponse:
    """Return the page for trying a model out."""
    return FileResponse(FOLDER / "index.html", headers={"content-security-policy": NOT_FRAMED})


@router.head("/docs")
@router.get("/docs")
async def docs() -> Response:
    """Return FastAPI's page that lists the routes."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Bertwright: routes",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="playground/icon.svg",
        swagger_ui_parameters={"validatorUrl": None, "defaultModelsExpandDepth": -1},
    )
    page.headers["content-security-policy"] = OWN_FILES
    return page


def mount_files(app: FastAPI) -> None:
    """Serve the files that the pages load."""
    app.mount("/playground", StaticFiles(directory=FOLDER))
    app.mount("/docs", StaticFiles(packages=[("fastapi_offline", "static")]))
