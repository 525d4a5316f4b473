"""After a change of users, groups or sign-ins: sockets look again whether they may be here."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Depends, Request

from backend.app.middleware import SAFE_METHODS
from backend.app.services import TheServices

SIGNING_IN = ("/auth/session", "/auth/token", "/auth/refresh")  #: takes nothing from anybody


async def _afterwards(request: Request, services: TheServices) -> AsyncIterator[None]:
    """Run after the endpoint, when it has not failed."""
    yield
    signing_in = request.method == "POST" and request.url.path.endswith(SIGNING_IN)
    if request.method not in SAFE_METHODS and not signing_in:
        services.hub.access_changed()


AFTERWARDS = Depends(_afterwards)
