"""What the endpoints stand on; made once by main.py and kept in `app.state.services`.

An endpoint names what it needs in its signature: `WriteSession`, `CurrentUser`, `Now`,
`TheServices`, … and never reaches for a global.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import Depends
from starlette.requests import HTTPConnection

from backend.app.admin.log_levels import LogLevels
from backend.app.auth.keys import Keys
from backend.app.auth.limits import WrongPasswords
from backend.app.cache.store import CacheStore
from backend.app.clock import Clock, utc_now
from backend.app.db.engine import Engines
from backend.app.db.sessions import Sessions
from backend.app.events.hub import Hub
from backend.app.experiments.locks import Locks
from backend.app.settings import Settings
from backend.scheduler.loop import Scheduler

if TYPE_CHECKING:  # it looks at tables, and so stands above us
    from backend.app.events.live import Live


@dataclass(slots=True, kw_only=True)
class Services:
    """Everything with a life: pools, scheduler, keys."""

    settings: Settings
    engines: Engines
    sessions: Sessions  #: for requests
    background: Sessions  #: for the scheduler, heartbeats and reports
    scheduler: Scheduler
    keys: Keys
    wrong_passwords: WrongPasswords
    revoked_credentials: set[UUID]  #: of workers, whose short tokens may still be about
    cache: CacheStore  #: finished outputs
    files: CacheStore  #: what people uploaded, under its hash; cleaning never looks here
    hub: Hub  #: who follows what
    live: Live  #: the hub's tasks
    locks: Locks = field(default_factory=Locks)  #: of experiments that are acted on
    submissions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(8))
    #: ^ experiments are examined by so many requests at once; others wait, without a connection
    log_levels: LogLevels = field(default_factory=LogLevels)  #: changed while running
    clock: Clock = field(default=utc_now)


async def services(connection: HTTPConnection) -> Services:
    """Return the services of the running application."""
    found: Services = connection.app.state.services
    return found


TheServices = Annotated[Services, Depends(services)]
