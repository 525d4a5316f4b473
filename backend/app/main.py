"""The composition root: settings -> pools -> scheduler -> FastAPI. The lifespan starts and stops.

`create_app(settings)` needs `settings.database_url`, and a database at our revision by the time
the lifespan starts. `app.state.services` exists only while it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from importlib.metadata import version
from uuid import UUID

from fastapi import FastAPI

from backend.app import api, errors, health, housekeeping, middleware, static
from backend.app.auth import keys, queries
from backend.app.auth.limits import WrongPasswords
from backend.app.cache import upkeep
from backend.app.cache.plans import CacheSplitter
from backend.app.cache.store import CacheStore
from backend.app.clock import utc_now
from backend.app.db import engine, migrations
from backend.app.db.engine import Engines
from backend.app.db.sessions import Sessions, sessions
from backend.app.events.hub import Hub
from backend.app.events.lists import ListFeed
from backend.app.events.live import Live
from backend.app.metrics import Metrics
from backend.app.openapi import describe
from backend.app.routing import operation_id
from backend.app.scheduling import figures
from backend.app.scheduling.leadership import PostgresLeadership
from backend.app.scheduling.store import PostgresStore
from backend.app.services import Services
from backend.app.settings import Settings
from backend.scheduler.loop import Scheduler
from backend.scheduler.ports import Bus

STANDBY_AFTER = 5.0  #: seconds in which a process that may schedule is ready


async def _lately_revoked(background: Sessions, settings: Settings) -> set[UUID]:
    """Tokens of workers live on for a while; those of revoked credentials must not."""
    since = utc_now() - timedelta(seconds=settings.worker_token_seconds)
    async with background() as session:
        return await queries.credentials_revoked_since(session, since)


def _scheduler(
    settings: Settings, engines: Engines, bus: Bus, splitter: CacheSplitter
) -> Scheduler:
    leadership = PostgresLeadership(engines.background)
    return Scheduler(
        PostgresStore(engines.background, leadership),
        bus,
        splitter,
        leadership=leadership,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
    )


@asynccontextmanager
async def _scheduling(scheduler: Scheduler) -> AsyncIterator[None]:
    """Schedule meanwhile; where another process does, stand by: /readyz says so."""
    with suppress(TimeoutError):
        await asyncio.wait_for(scheduler.start(), STANDBY_AFTER)
    try:
        yield
    finally:
        await scheduler.stop()


@asynccontextmanager
async def running(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Open everything that lives, and close it in the reverse order."""
    assert settings.database_url is not None
    engines = engine.connect(settings.database_url.get_secret_value())
    try:
        await migrations.require_head(engines.background)
        background = sessions(engines.background)
        hub, cache = Hub(), CacheStore(settings.cache)
        bus = figures.MeasuredBus(hub, metrics)
        scheduler = _scheduler(settings, engines, bus, CacheSplitter(background, cache))
        metrics.registry.register(figures.SchedulerFigures(scheduler))
        live = Live(
            hub=hub,
            lists=ListFeed(hub, background),
            engine=engines.background,
            sessions=background,
        )
        made = Services(
            settings=settings,
            engines=engines,
            sessions=sessions(engines.requests),
            background=background,
            scheduler=scheduler,
            cache=cache,
            files=CacheStore(settings.files),
            hub=hub,
            live=live,
            keys=await keys.load(background),
            wrong_passwords=WrongPasswords(
                attempts=settings.login_attempts, window_seconds=settings.login_window_seconds
            ),
            revoked_credentials=await _lately_revoked(background, settings),
        )
        duties = housekeeping.running(made), upkeep.running(made)
        async with live.running(), _scheduling(scheduler), duties[0], duties[1]:
            yield made
        made.log_levels.revert_all()
    finally:
        await engines.dispose()


def create_app(settings: Settings) -> FastAPI:
    """Return the application; nothing is opened before its lifespan starts."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(settings, metrics) as services, metrics.watching():
            app.state.services = services
            yield

    app = FastAPI(
        title="Gristmill",
        version=version("gristmill-server"),
        lifespan=lifespan,
        docs_url=None,  # their page loads scripts from elsewhere, which our policy forbids
        redoc_url=None,
        redirect_slashes=False,  # a path is what it is, or is not there
        openapi_url=f"{api.PREFIX}/openapi.json",
        generate_unique_id_function=operation_id,
    )
    app.state.metrics = metrics
    errors.install(app)
    app.include_router(health.router)
    app.include_router(api.router())
    static.install(app, static.folder())
    describe(app)
    _wrap(app, settings, metrics)
    return app


def _wrap(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Add the middleware from the inside to the outside."""
    limits = middleware.body_limits(settings)
    app.add_middleware(
        middleware.BodyLimits,
        default=settings.body_limit,
        exceptions=limits,
    )
    app.add_middleware(middleware.SameOrigin, origins=settings.allowed_origins)
    app.add_middleware(middleware.AllowedHosts, hosts=settings.hosts)
    app.add_middleware(middleware.SecurityHeaders)
    app.add_middleware(middleware.RequestContext, metrics=metrics)
