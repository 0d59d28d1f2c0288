"""The one exception handler of the application: every error becomes the same JSON envelope.

What pydantic reports is turned into a message that names the key and what was expected. No message
repeats what the client sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bertwright.errors import ConfigError, DataError
from bertwright.serve.engine.engine import Engine
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.service import service_of
from bertwright.text.tokenizer.apart import TooSlow

Problem = Mapping[str, Any]
"""What pydantic reports: `type`, `loc` and `msg`."""


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the reply to a request that raised an error."""
    refused = refusal(request, error)
    return Response(refused.body, refused.status, refused.headers)


def refusal(request: Request, error: Exception) -> HttpError:
    """Return the error that is sent to the client."""
    match error:
        case NoHead():
            return _with_others(error, service_of(request).engines.values())
        case HttpError():
            return error
        case ConfigError():
            return invalid_request(str(error))
        case TooSlow():
            return invalid_request(str(error), "too_slow")
        case DataError():  # its message may hold the text
            return invalid_request("this model cannot read these texts", "not_readable")
        case RequestValidationError():
            return invalid(error.errors(), request.scope.get("route"))
        case HTTPException():
            code = "method" if error.status_code == 405 else "not_found"
            message = "no such route, or one of another method; /docs lists them"
            return HttpError(error.status_code, code, message, headers=error.headers)
        case _:
            return HttpError(500, "unexpected", "unexpected failure")


def _with_others(error: NoHead, engines: Iterable[Engine]) -> NoHead:
    """Return the error that a model lacks a head, with the names of models that have one."""
    others = [each.name for each in engines if each.head_kinds & {*error.wanted}]
    more = f"; request a model that has one: {', '.join(others)}" if others else ""
    return NoHead(error.message + more, error.wanted)


def body_schema(route: object) -> type[BaseModel] | None:
    """Return the model of a route's body, if it has one."""
    field = route.body_field if isinstance(route, APIRoute) else None
    schema = None if field is None else field.field_info.annotation
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


def invalid(problems: Sequence[Problem], route: object) -> HttpError:
    """Return the error of a request that FastAPI's validation refused."""
    worst = max(problems, key=_weight)
    if worst["type"] == "json_invalid":
        expected = "UTF-8, not compressed, no lone surrogates"
        return invalid_request(f"the body is not valid JSON ({expected})")
    schema = body_schema(route)
    keys = {} if schema is None else schema.model_fields
    _, *location = worst["loc"]
    return invalid_request(_message(worst, location, keys, is_one_of_many=len(problems) > 1))


def _weight(problem: Problem) -> tuple[bool, int, bool]:
    """Return how well a problem describes what is wrong, as a key to sort by.

    Where several types are allowed, the problem that lies deepest is of the type that was meant.
    """
    kind = problem["type"]
    return kind == "extra_forbidden", len(problem["loc"]), not kind.endswith("_type")


def _message(
    problem: Problem,
    location: Sequence[int | str],
    keys: Mapping[str, FieldInfo],
    is_one_of_many: bool,
) -> str:
    """Return a sentence about a problem with a body."""
    kind, message = problem["type"], problem["msg"]
    if not location:
        is_no_object = kind in ("missing", "model_type", "model_attributes_type")
        return "the body must be a JSON object" if is_no_object else message
    name, *path = location
    takes = keys[str(name)].description if name in keys else None
    if kind == "extra_forbidden" and not path:
        return f"an unknown key; known keys are: {', '.join(keys)}"
    if kind == "missing":
        return f"{name}: {path[-1]} is missing" if path else f"{name} is missing: {takes}"
    where = "".join(f", item {part}" for part in path if isinstance(part, int))
    if is_one_of_many and not where and kind.endswith("_type") and takes:
        message += f" ({takes})"  # none of several types was meant
    return f"{name}{where}: {message}"
