"""What the client raises: the server's refusals (problem+json), and the network's failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.errors import GristmillError


@dataclass(frozen=True, slots=True)
class Place:
    """One wrong place of what was sent."""

    pointer: str  #: JSON pointer into the body, or `query.…`, `path.…`, `header.…`
    message: str
    code: str = ""
    expected: Any = None
    found: Any = None

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class ApiError(GristmillError):
    """The server refused; the text is its sentence, followed by one line for each place."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        title: str = "",
        places: tuple[Place, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__("\n".join([detail, *(f"  {place}" for place in places)]))
        self.status = status  #: of HTTP
        self.code = code  #: for programs: stays the same when the wording changes
        self.title = title
        self.detail = detail
        self.places = places
        self.request_id = request_id  #: to look for in the server's log


class NotSignedIn(ApiError):
    """The token is missing, wrong or expired."""


class NotFound(ApiError):
    """It is not there, or not for this user to see."""


class Conflict(ApiError):
    """It does not go together with what is there, or somebody changed it meanwhile."""


class Invalid(ApiError):
    """What was sent is wrong; `places` say where."""


class ServerFailed(ApiError):
    """The server made a mistake or is not ready."""


class Unreachable(GristmillError):
    """The server did not answer."""


_KINDS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: NotSignedIn,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def of_answer(status: int, content: bytes, request_id: str | None) -> ApiError:
    """Return what an answer of status 400 or above says."""
    kind = ServerFailed if status >= 500 else _KINDS.get(status, ApiError)
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, Mapping):
        return kind(status, f"The server answered with status {status}", request_id=request_id)
    errors = told.get("errors")
    return kind(
        status,
        str(told.get("detail") or told.get("title") or f"status {status}"),
        code=str(told.get("code", "")),
        title=str(told.get("title", "")),
        places=tuple(map(_place, errors)) if isinstance(errors, list) else (),
        request_id=str(told.get("request_id") or request_id or "") or None,
    )


def _place(told: Any) -> Place:
    if not isinstance(told, Mapping):
        return Place("", str(told))
    return Place(
        str(told.get("pointer", "")),
        str(told.get("message", "")),
        str(told.get("code", "")),
        told.get("expected"),
        told.get("found"),
    )
