"""Endpoints of administrators, and the monitor that everybody may see."""

from __future__ import annotations

from backend.app.admin import schemas, service
from backend.app.audit.service import record
from backend.app.auth.actors import Admin, CurrentUser
from backend.app.cache import service as cache
from backend.app.cache.schemas import CacheClean, CacheCleaned, CacheView
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.routing import api_router
from backend.app.services import TheServices
from backend.scheduler.core.events import CacheLost

router = api_router("admin")
monitor_router = api_router("monitor")


@router.get("/admin/state")
async def get_scheduler_state(
    actor: Admin, session: ReadSession, services: TheServices
) -> schemas.SchedulerState:
    """Return what the scheduler holds now."""
    return await service.state(session, services, actor)


@router.post("/admin/cancel-all")
async def cancel_all_experiments(
    body: schemas.CancelAll, actor: Admin, session: WriteSession, services: TheServices, now: Now
) -> schemas.Cancelled:
    """Stop every experiment that runs or waits."""
    return await service.cancel_all(session, services, actor, now)


@router.get("/admin/cache")
async def get_cache(
    actor: Admin, session: ReadSession, services: TheServices, now: Now
) -> CacheView:
    """Return what the cache holds."""
    return await cache.view(session, services.cache, now)


@router.post("/admin/cache/clean")
async def clean_cache(
    body: CacheClean, actor: Admin, session: WriteSession, services: TheServices, now: Now
) -> CacheCleaned:
    """Remove entries that no live experiment needs; a dry run says what would go."""
    if not body.dry_run:
        record(session, actor, "clean_cache", "cache", now, after=body)
    cleaned, gone = await cache.clean(session, services.cache, body, now)
    if gone:
        await services.scheduler.handle(CacheLost(keys=gone))
    return cleaned


@router.get("/admin/policy")
async def get_policy(actor: Admin, services: TheServices) -> schemas.Policy:
    """Return the scheduling policy in force."""
    return service.policy(services)


@router.put("/admin/policy")
async def set_policy(
    body: schemas.PolicyIn, actor: Admin, session: WriteSession, services: TheServices, now: Now
) -> schemas.Policy:
    """Use another policy, from the scheduler's next pass on."""
    return await service.set_policy(session, services, actor, body.policy, now)


@router.get("/admin/log-levels")
async def get_log_levels(actor: Admin, services: TheServices) -> schemas.LogLevels:
    """Return the loggers of this process and their levels."""
    return service.levels(services)


@router.put("/admin/log-levels")
async def set_log_level(
    body: schemas.LogLevelIn,
    actor: Admin,
    session: WriteSession,
    services: TheServices,
    now: Now,
) -> schemas.LogLevels:
    """Set a logger's level at once; it goes back by itself."""
    return await service.set_level(session, services, actor, body, now)


@monitor_router.get("/monitor")
async def get_monitor(
    actor: CurrentUser, session: ReadSession, services: TheServices
) -> schemas.Monitor:
    """Return queues and workers; others' experiments are not named."""
    return await service.monitor(session, services, actor)
