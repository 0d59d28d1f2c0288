"""The page of the server's routes, from the OpenAPI document of its application."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bertwright.config.serve import ServeConfig
from bertwright.serve.app import make_app
from docs.generator.command_line import KEY_COLUMNS, table

Json = Mapping[str, Any]


def document() -> dict[str, Any]:
    """Return the OpenAPI document of a server; no model is loaded for it."""
    application: Any = make_app(ServeConfig(model=("model=model",), device="cpu")).app
    found: dict[str, Any] = application.openapi()
    return found


def page() -> str:
    """Return the routes with the keys of their requests and replies."""
    whole = document()
    lines: list[str] = []
    for path, methods in whole["paths"].items():
        for method, route in methods.items():
            lines += [f"## {method.upper()} {path}", "", str(route.get("description", "")), ""]
            for each in route.get("parameters", ()):
                lines += [f"`{each['name']}` in the {each['in']}.", ""]
            body = _schema(route.get("requestBody", {}))
            if body:
                lines += ["**Request**", "", *keys_of(whole, body), ""]
            for status, reply in route["responses"].items():
                schema = _schema(reply)
                if status.startswith("2") and schema:
                    lines += ["**Reply**", "", *keys_of(whole, schema, reply=True), ""]
    return "\n".join(lines)


def _schema(content: Json) -> Json:
    """Return the schema of a body of JSON, empty if there is none."""
    found: Json = content.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def keys_of(whole: Json, schema: Json, reply: bool = False) -> list[str]:
    """Return the table of the keys of an object, or a line for a body that has none.

    Keys of a reply have no defaults and, as their names say what they are, no meanings.
    """
    objects = [each for each in _parts(whole, schema) if "properties" in each]
    if not objects:
        return [f"`{type_of(whole, schema)}`"]
    rows = []
    for each in objects:
        for name, of in each["properties"].items():
            default = "" if of.get("default") is None else f"`{json.dumps(of['default'])}`"
            if name in each.get("required", ()):
                default = "required"
            meaning = of.get("description", "")
            rows.append((f"`{name}`", f"`{type_of(whole, of)}`", default, meaning))
    if reply:
        return table(KEY_COLUMNS[:2], [row[:2] for row in rows])
    return table(KEY_COLUMNS, rows)


def _parts(whole: Json, schema: Json) -> Iterator[Json]:
    """Yield the schemas that a schema stands for, with references followed."""
    if reference := schema.get("$ref"):
        yield from _parts(whole, whole["components"]["schemas"][reference.rpartition("/")[2]])
    elif parts := schema.get("anyOf") or schema.get("oneOf"):
        for part in parts:
            yield from _parts(whole, part)
    else:
        yield schema


def type_of(whole: Json, schema: Json) -> str:
    """Return the type of a value in short: `string | string[]`, `{float32, int8}`."""
    found: list[str] = []
    for part in _parts(whole, schema):
        choices = part.get("enum") or [part[key] for key in ("const",) if key in part]
        if choices:
            kind = "{" + ", ".join(map(str, choices)) + "}"
        elif part.get("type") == "array":
            inner = type_of(whole, part.get("items", {}))
            kind = f"({inner})[]" if " | " in inner else f"{inner}[]"
        elif "properties" in part:
            kind = "{" + ", ".join(part["properties"]) + "}"
        else:
            kind = str(part.get("type", "any"))
        if kind not in (*found, "null"):
            found.append(kind)
    return " | ".join(found)
