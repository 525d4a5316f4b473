"""What the endpoints stand on; made once by main.py and kept in `app.state.services`.

An endpoint names what it needs in its signature: `WriteSession`, `CurrentUser`, `Now`,
`TheServices`, … and never reaches for a global.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol
from uuid import UUID

from fastapi import Depends
from starlette.requests import HTTPConnection

from backend.app.auth.keys import Keys
from backend.app.auth.limits import WrongPasswords
from backend.app.clock import Clock, utc_now
from backend.app.db.engine import Engines
from backend.app.db.sessions import Sessions
from backend.app.settings import Settings
from backend.scheduler.core import events


class Farm(Protocol):
    """The part of the scheduler that configuration is told to; after our commit, never before."""

    async def handle(self, *events: events.Event) -> Sequence[Any]:
        """Take events in; return after the scheduler's own commit."""


@dataclass(slots=True, kw_only=True)
class Services:
    """Everything with a life: pools, scheduler, keys."""

    settings: Settings
    engines: Engines
    sessions: Sessions  #: for requests
    background: Sessions  #: for the scheduler, heartbeats and reports
    scheduler: Farm
    keys: Keys
    wrong_passwords: WrongPasswords
    revoked_credentials: set[UUID]  #: of workers, whose short tokens may still be about
    clock: Clock = field(default=utc_now)


async def services(connection: HTTPConnection) -> Services:
    """Return the services of the running application."""
    found: Services = connection.app.state.services
    return found


TheServices = Annotated[Services, Depends(services)]
