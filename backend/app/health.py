"""Is the process alive, can it work, what does it count: exact paths outside /api/v1."""

from __future__ import annotations

import secrets
from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, Response

from backend.app import problems
from backend.app.db import migrations
from backend.app.routing import PROBLEM_RESPONSE, operation_id
from backend.app.services import TheServices
from backend.app.settings import is_local

WORST_LAG = 5.0  #: seconds of the event loop, above which we are not ready

router = APIRouter(
    tags=["health"], responses=PROBLEM_RESPONSE, generate_unique_id_function=operation_id
)


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The server can take work."""

    status: Literal["ready"] = "ready"
    revision: str  #: of the database's schema


@router.get("/healthz")
async def get_health() -> Health:
    """Say that the process is alive; looks at nothing else."""
    return Health()


@router.get("/readyz")
async def get_readiness(request: Request, services: TheServices) -> Readiness:
    """Say whether work can be taken: database, schema, scheduler, event loop."""
    _require_scheduler(services)
    if request.app.state.metrics.last_lag._value.get() > WORST_LAG:
        raise problems.Unavailable("the event loop is late by seconds", code="loop_lag")
    try:
        await migrations.require_head(services.engines.background)
    except (migrations.WrongRevision, OSError) as error:
        raise problems.Unavailable(str(error), code="database") from None
    return Readiness(revision=migrations.head())


def _require_scheduler(services: TheServices) -> None:
    if not services.scheduler.ready:
        raise problems.Unavailable("the scheduler does not run", code="scheduler")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(request: Request, services: TheServices) -> Response:
    """Give Prometheus its numbers: to this machine, or to who has the token."""
    if not _may_scrape(request, services):
        raise problems.Unauthenticated(
            "metrics are for this machine, or for the bearer of GRISTMILL_METRICS_TOKEN"
        )
    registry = request.app.state.metrics.registry
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _may_scrape(request: Request, services: TheServices) -> bool:
    token = services.settings.metrics_token
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token is not None:
        return secrets.compare_digest(given.encode(), token.get_secret_value().encode())
    forwarded = "x-forwarded-for" in request.headers or "forwarded" in request.headers
    return request.client is not None and is_local(request.client.host) and not forwarded
