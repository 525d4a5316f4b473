"""Problem -> HTTP: the only place with status codes. Every error is RFC 9457 problem+json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from backend.app import problems
from backend.app.problems import Place, RequestProblem
from backend.scheduler.loop import UnavailableError

log = structlog.stdlib.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPES = "https://gristmill.invalid/problems/"  #: documented in docs/reference/http-api.md

STATUS: Mapping[type[RequestProblem], int] = {
    problems.Malformed: 400,
    problems.Unauthenticated: 401,
    problems.Forbidden: 403,
    problems.NotFound: 404,
    problems.Conflict: 409,
    problems.InUse: 409,
    problems.Frozen: 409,
    problems.Stale: 412,
    problems.TooLarge: 413,
    problems.Invalid: 422,
    problems.NoPrecondition: 428,
    problems.TooMany: 429,
    problems.Unavailable: 503,
}
#: What starlette and FastAPI raise by themselves.
FRAMEWORK: Mapping[int, type[RequestProblem]] = {
    400: problems.Malformed,
    401: problems.Unauthenticated,
    403: problems.Forbidden,
    404: problems.NotFound,
    413: problems.TooLarge,
}


class ProblemDocument(BaseModel):
    """The body of every answer that is an error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="for programs; does not change with the wording")
    errors: list[Place] = []
    request_id: str


def problem_response(scope: Mapping[str, Any], problem: RequestProblem) -> Response:
    """Return the answer to a request that is wrong in this way; middleware uses it as well."""
    status = next(STATUS[kind] for kind in type(problem).__mro__ if kind in STATUS)
    return _response(scope, status, problem.title, problem)


def _response(
    scope: Mapping[str, Any], status: int, title: str, problem: RequestProblem
) -> Response:
    document = ProblemDocument(
        type=TYPES + problem.code,
        title=title,
        status=status,
        detail=problem.detail,
        instance=str(scope.get("path", "")).encode("utf-8", "replace").decode(),
        code=problem.code,
        errors=problem.errors,
        request_id=scope.get("state", {}).get("request_id", ""),
    )
    headers = dict(problem.headers)
    if status == HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return JSONResponse(
        document.model_dump(mode="json", exclude_none=True),
        status_code=status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    """Make every error of the application a problem document."""
    app.add_exception_handler(RequestProblem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(UnavailableError, _on_standby)
    app.add_exception_handler(PoolTimeout, _on_busy)
    app.add_exception_handler(OperationalError, _on_busy)
    app.add_exception_handler(DBAPIError, _on_database)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestProblem)
    return problem_response(request.scope, error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = FRAMEWORK.get(error.status_code, RequestProblem)
    phrase = HTTPStatus(error.status_code).phrase
    detail = _framework_detail(request, error)
    problem = kind(detail, headers=error.headers)
    if kind is RequestProblem:
        problem.code = phrase.lower().replace(" ", "_")
    title = phrase if kind is RequestProblem else kind.title
    return _response(request.scope, error.status_code, title, problem)


def _framework_detail(request: Request, error: HTTPException) -> str:
    match error.status_code:
        case 404:
            return f"nothing is at {request.url.path}"
        case 405:
            return f"{request.method} is not possible here; {_allowed(error)} is"
        case _:
            return str(error.detail)


def _allowed(error: HTTPException) -> str:
    return (error.headers or {}).get("Allow", "another method")


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    places = [_place(item) for item in error.errors()]
    if any(place.code == "json_invalid" for place in places):
        problem: RequestProblem = problems.Malformed(
            f"the body is not JSON: {places[0].message}", errors=places
        )
    else:
        problem = problems.Invalid(_summary(places), errors=places)
    return problem_response(request.scope, problem)


def _summary(places: Sequence[Place]) -> str:
    first = f"{places[0].pointer or 'the body'}: {places[0].message}"
    return first if len(places) == 1 else f"{first} (and {len(places) - 1} more)"


def _place(item: Mapping[str, Any]) -> Place:
    """Translate pydantic's error. Its `input` is left out: it may be a password."""
    where, *path = item["loc"]
    if item["type"] == "json_invalid":
        detail = item.get("ctx", {}).get("error", item["msg"])
        return Place(pointer="", message=f"{detail} at character {path[0]}", code=item["type"])
    return Place(pointer=pointer(where, path), message=_message(item), code=item["type"])


def pointer(where: str, path: Sequence[str | int]) -> str:
    """Return a JSON pointer (RFC 6901) for the body, `query.limit` and the like elsewhere."""
    if where != "body":
        return ".".join(str(part) for part in (where, *path))
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _message(item: Mapping[str, Any]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


async def _on_busy(request: Request, error: Exception) -> Response:
    log.warning("database unavailable", error=type(error).__name__)
    return problem_response(
        request.scope,
        problems.Unavailable(
            "the database does not answer in time; try again", headers={"Retry-After": "5"}
        ),
    )


async def _on_standby(request: Request, error: Exception) -> Response:
    """The scheduler starts, stands by or comes back: soon it will take this."""
    return problem_response(
        request.scope,
        problems.Unavailable(str(error), code="scheduler", headers={"Retry-After": "1"}),
    )


async def _on_database(request: Request, error: Exception) -> Response:
    """Text that PostgreSQL cannot hold and numbers out of range are the sender's; the rest ours."""
    assert isinstance(error, DBAPIError)
    state = str(getattr(error.orig, "sqlstate", "") or "")
    if state in {"40001", "40P01", "55P03", "57014"}:  # serialisation, deadlock, lock, cancelled
        return await _on_busy(request, error)
    if state.startswith("22"):  # data exception
        return problem_response(
            request.scope, problems.Invalid("a value cannot be stored: out of range, or NUL in it")
        )
    raise error


def internal(scope: Mapping[str, Any]) -> Response:
    """Return the answer when the fault is ours; the log has the rest under the request id."""
    problem = RequestProblem("something went wrong on our side; the log has it", code="internal")
    return _response(scope, 500, "Internal error", problem)
