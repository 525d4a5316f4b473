"""The routers of /api/v1, one line each."""

from __future__ import annotations

from fastapi import APIRouter

from backend.app.admin import routes as admin
from backend.app.audit import routes as audit
from backend.app.auth import routes as auth
from backend.app.declarations import routes as declarations
from backend.app.environments import routes as environments
from backend.app.events import rechecks, socket
from backend.app.experiments import routes as experiments
from backend.app.queues import routes as queues
from backend.app.users import routes as users
from backend.app.worker_api import routes as worker_api
from backend.app.workers import routes as workers

PREFIX = "/api/v1"

NOUNS: tuple[APIRouter, ...] = (
    auth.router,
    users.router,
    environments.router,
    queues.router,
    workers.router,
    *declarations.routers,
    experiments.router,
    socket.router,
    worker_api.router,
    admin.router,
    audit.router,
    admin.monitor_router,
)


def router() -> APIRouter:
    """Return everything under /api/v1."""
    api = APIRouter(prefix=PREFIX)
    for noun in NOUNS:
        changes_access = noun in (auth.router, users.router)
        api.include_router(noun, dependencies=[rechecks.AFTERWARDS] if changes_access else [])
    return api
