"""The one exception handler of the application: every error becomes the same JSON envelope. No
message repeats what the client sent."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bertwright.errors import ConfigError, DataError
from bertwright.serve.engine.engine import Engine
from bertwright.serve.errors import HttpError, NoHead, invalid_request
from bertwright.serve.service import service_of
from bertwright.text.tokenizer.apart import TooSlow


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
