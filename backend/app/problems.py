"""What can be wrong with a request, in the words of the domain; errors.py knows HTTP's numbers.

Raise one of these anywhere in a service. `detail` says what is wrong, where, and what to do;
`code` is for programs and stays the same when the wording changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field


class Place(BaseModel):
    """One wrong place of a request."""

    pointer: str = Field(
        description="JSON pointer into the body (`/blocks/a/queue`), or `query.limit`, `path.id`, "
        "`header.if-match` outside it"
    )
    message: str
    code: str
    expected: Any = None
    found: Any = None


class RequestProblem(Exception):
    """Something is wrong with a request."""

    code = "bad_request"
    title = "The request cannot be done"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[Place] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.code
        self.errors = list(errors)
        self.headers = dict(headers or {})


class Malformed(RequestProblem):
    """The body is not what it says it is: not JSON, not UTF-8, broken upload."""

    code = "malformed"
    title = "The request cannot be read"


class Unauthenticated(RequestProblem):
    """We do not know who is asking."""

    code = "unauthenticated"
    title = "Sign in first"


class Forbidden(RequestProblem):
    """We know who is asking, and that is not theirs to do."""

    code = "forbidden"
    title = "You may not do this"


class NotFound(RequestProblem):
    """It is not there, or the one who asks may not know that it is."""

    code = "not_found"
    title = "There is no such thing"


class Conflict(RequestProblem):
    """It does not go together with what is there."""

    code = "conflict"
    title = "The state of things does not allow this"


class InUse(Conflict):
    """Something is used by others; `errors` lists by whom."""

    code = "in_use"
    title = "This is in use"


class Frozen(Conflict):
    """A version that an experiment has used never changes."""

    code = "frozen"
    title = "This version is fixed"


class Stale(RequestProblem):
    """If-Match names an older revision than the present one."""

    code = "stale"
    title = "Somebody changed this in the meantime"


class NoPrecondition(RequestProblem):
    """An edit must say which revision it is of."""

    code = "precondition_required"
    title = "Say which revision you edit"


class TooLarge(RequestProblem):
    """More bytes than we take."""

    code = "too_large"
    title = "This is too large"


class Invalid(RequestProblem):
    """Understood, and wrong; `errors` says where."""

    code = "invalid"
    title = "The request is not valid"


class TooMany(RequestProblem):
    """Too often; `Retry-After` says when again."""

    code = "too_many_requests"
    title = "Too many attempts"


class Unavailable(RequestProblem):
    """Ours to mend: a part of the server is not there at the moment."""

    code = "unavailable"
    title = "The server cannot do this at the moment"


def invalid(pointer: str, message: str, code: str = "invalid", **more: Any) -> Invalid:
    """Return the error of one wrong place."""
    place = Place(pointer=pointer, message=message, code=code, **more)
    return Invalid(f"{pointer}: {message}", errors=[place])
