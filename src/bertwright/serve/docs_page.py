"""The page at /docs, made from the OpenAPI document.

FastAPI's own page loads scripts from elsewhere; this one works without a network.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from jinja2 import Template

FOLDER = Path(__file__).with_name("playground")
ADDRESS = "http://address-of-this-server"
"""Stands for the server's own address until a page is sent."""
Schema = Mapping[str, Any]


def docs_page(app: FastAPI, address: str) -> str:
    """Return the page of an application that is reached at an address."""
    return _page_of(app).replace(ADDRESS, escape(address))


@lru_cache(maxsize=1)
def _page_of(app: FastAPI) -> str:
    """Return the page with `ADDRESS`; making it takes 20 ms, in which nobody else is served."""
    return list_routes(app.openapi())


def list_routes(document: Schema) -> str:
    """Return a page that lists the routes of an OpenAPI document."""
    routes, schemas = [], document["components"]["schemas"]
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            route = {
                "path": path,
                "method": method.upper(),
                "summary": operation.get("description", operation["summary"]),
            }
            if "requestBody" in operation:
                schema = _resolved(_json_schema(operation["requestBody"]), schemas)
                body = shlex.quote(json.dumps(schema.get("example", {}), separators=(",", ":")))
                curl = f"curl {ADDRESS}{path} -H 'Content-Type: application/json' -d {body}"
                route |= {"body": schema, "curl": curl}
            if reply := _json_schema(operation["responses"]["200"]):
                route["reply"] = json.dumps(_example(reply, schemas), indent=1)
            routes.append(route)
    template = (FOLDER / "routes.html.j2").read_text(encoding="utf-8")
    page: str = Template(template, autoescape=True, trim_blocks=True).render(routes=routes)
    return page


def _json_schema(message: Schema) -> Schema:
    """Return the schema of a body or a reply that is JSON, else an empty one."""
    schema: Schema = message["content"].get("application/json", {}).get("schema", {})
    return schema


def _resolved(schema: Schema, schemas: Schema) -> Schema:
    """Return a schema, or the one that it refers to."""
    found: Schema = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return found


def _example(schema: Schema, schemas: Schema) -> object:
    """Return a value of a schema, with the names of types in it."""
    schema = _resolved(schema, schemas)
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("const") or " | ".join(map(str, schema["enum"]))
    if "prefixItems" in schema:
        return [_example(item, schemas) for item in schema["prefixItems"]]
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), schemas)]
    if schema.get("type") == "object":
        properties: Schema = schema.get("properties", {})
        return {name: _example(value, schemas) for name, value in properties.items()}
    return schema.get("type", "any")
