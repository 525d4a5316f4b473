"""How every router of /api/v1 is made: `router = api_router("queues")`.

Bodies are read strictly (no key twice, no NaN, no NUL, bounded depth), operation ids are the names
of the functions, and every operation declares that its errors are problem documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from backend.app import problems
from backend.app.errors import MEDIA_TYPE
from gristmill.formats.documents import parse_json
from gristmill.formats.problems import BadDocument

_UNREADABLE = frozenset({"syntax", "encoding"})
_LONG = 64 * 1024  #: bytes; longer bodies are parsed beside the event loop

#: For `responses=` of every operation: whatever is not listed is a problem document.
PROBLEM_RESPONSE: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What is wrong (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
}


class StrictRequest(Request):
    """A request whose JSON body keeps to what declarations keep to."""

    async def json(self) -> Any:
        """Return the body's value; raises Malformed or Invalid."""
        if not hasattr(self, "_strict"):
            self._strict = await _parsed(await self.body())
        return self._strict


async def _parsed(body: bytes) -> Any:
    try:
        if len(body) > _LONG:
            return await asyncio.to_thread(parse_json, body)
        return parse_json(body)
    except BadDocument as error:
        raise not_valid(error) from None


def not_valid(error: BadDocument, prefix: str = "") -> problems.RequestProblem:
    """Translate what a document is refused for; `prefix` is where in the body it stands."""
    places = [
        problems.Place(
            pointer=prefix + item.pointer,
            message=item.message,
            code=item.code,
            expected=item.expected,
            found=item.found,
        )
        for item in error.problems
    ]
    unreadable = any(place.code in _UNREADABLE for place in places)
    kind = problems.Malformed if unreadable else problems.Invalid
    return kind(str(error), errors=places)


class StrictRoute(APIRoute):
    """A route that reads its body by StrictRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, behind the strict reader."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            try:
                return await handle(StrictRequest(request.scope, request.receive))
            except problems.RequestProblem:
                raise
            except Exception as error:
                if isinstance(error.__cause__, problems.RequestProblem):
                    raise error.__cause__ from None  # FastAPI hides what the reader raised
                raise

        return strictly


def operation_id(route: APIRoute) -> str:
    """Return the operation's id: the name of its function, unique in the application."""
    return route.name


def api_router(*tags: str, prefix: str = "") -> APIRouter:
    """Return an empty router for the endpoints of one noun."""
    return APIRouter(
        prefix=prefix,
        tags=list(tags),
        route_class=StrictRoute,
        responses=PROBLEM_RESPONSE,
        generate_unique_id_function=operation_id,
    )
