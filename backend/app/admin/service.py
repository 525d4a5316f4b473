"""What administrators see and do, and what everybody sees of the farm."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from backend.app.admin import log_levels, queries, schemas
from backend.app.audit.service import record
from backend.app.auth.actors import Actor
from backend.app.experiments.access import viewer
from backend.app.problems import invalid
from backend.app.services import Services
from backend.scheduler.core.events import PolicySet, Stopped
from backend.scheduler.loop import UnavailableError

STOPS_AT_ONCE = 500


async def state(session: AsyncSession, services: Services, actor: Actor) -> schemas.SchedulerState:
    """Return what the scheduler holds, with names."""
    held = services.scheduler.state()
    if not held["ready"]:
        raise UnavailableError
    jobs = await queries.jobs(session, viewer(actor))
    names = await queries.usernames(session, {UUID(user["user"]) for user in held["users"]})
    queues = await queries.queue_names(session)
    return schemas.SchedulerState(
        **{name: held[name] for name in ("ready", "policy", "policies", "tally")},
        **{name: held[name] for name in ("experiments", "waiting", "running", "queues")},
        users=[_user_load(user, names, queues) for user in held["users"]],
        workers=[_worker_load(worker, jobs) for worker in held["workers"]],
    )


def _user_load(held: Any, names: dict[str, str], queues: dict[str, str]) -> schemas.UserLoad:
    return schemas.UserLoad(
        user_id=UUID(held["user"]),
        username=names.get(held["user"], ""),
        queue_id=UUID(held["queue"]),
        queue=queues.get(held["queue"], ""),
        **{name: held[name] for name in ("slots", "priority", "held", "waiting")},
    )


def _worker_load(held: Any, jobs: dict[str, Any]) -> schemas.WorkerLoad:
    running = [_job(jobs.get(attempt)) for attempt in held["running"]]
    return schemas.WorkerLoad(**{**held, "running": running})


def _job(row: Any) -> schemas.WorkerJob:
    """Return a job; without names when it is not for the reader to know."""
    if row is None:
        return schemas.WorkerJob()
    return schemas.WorkerJob.model_validate(row, from_attributes=True)


async def monitor(session: AsyncSession, services: Services, actor: Actor) -> schemas.Monitor:
    """Return queues and workers; others' experiments are counted, not named."""
    jobs = await queries.jobs(session, viewer(actor))
    opened = await queries.open_attempts(session)
    environments = await queries.worker_environments(session)
    return schemas.Monitor(
        queues=services.scheduler.state().get("queues", []),
        workers=[
            schemas.MonitoredWorker(
                **{
                    name: getattr(row, name)
                    for name in schemas.MonitoredWorker.model_fields
                    if name not in ("environments", "running")
                },
                environments=[
                    schemas.FoundEnvironment.model_validate(one, from_attributes=True)
                    for one in environments.get(row.id, ())
                ],
                running=[_job(jobs.get(attempt)) for attempt in opened.get(row.id, ())],
            )
            for row in await queries.workers(session)
        ],
    )


async def cancel_all(
    session: AsyncSession, services: Services, actor: Actor, now: datetime
) -> schemas.Cancelled:
    """Stop every experiment that runs or waits."""
    found = await queries.stoppable(session)
    record(
        session,
        actor,
        "cancel_all_experiments",
        "all experiments",
        now,
        after={"experiments": len(found)},
    )
    await session.commit()
    for start in range(0, len(found), STOPS_AT_ONCE):
        some = found[start : start + STOPS_AT_ONCE]
        await services.scheduler.handle(*(Stopped(experiment=str(one)) for one in some))
    return schemas.Cancelled(experiments=len(found))


def policy(services: Services) -> schemas.Policy:
    """Return the policy in force."""
    held = services.scheduler.state()
    if not held["ready"]:
        raise UnavailableError
    return schemas.Policy(policy=held["policy"], available=held["policies"])


async def set_policy(
    session: AsyncSession, services: Services, actor: Actor, wanted: str, now: datetime
) -> schemas.Policy:
    """Have the scheduler use another policy, from its next pass on."""
    before = policy(services)
    if wanted not in before.available:
        offered = ", ".join(before.available)
        raise invalid("/policy", f"there is no policy of that name; there are {offered}", "unknown")
    record(
        session,
        actor,
        "set_policy",
        "scheduler",
        now,
        before={"policy": before.policy},
        after={"policy": wanted},
    )
    await session.commit()
    await services.scheduler.handle(PolicySet(policy=wanted))
    return policy(services)


def levels(services: Services) -> schemas.LogLevels:
    """Return the loggers, those changed with when they go back."""
    changes = services.log_levels.changes
    names = dict.fromkeys([*log_levels.known(), *changes])
    return schemas.LogLevels(
        items=[
            schemas.LogLevel(
                logger=name,
                level=log_levels.effective(name),
                until=changes[name].until if name in changes else None,
            )
            for name in names
        ]
    )


async def set_level(
    session: AsyncSession,
    services: Services,
    actor: Actor,
    asked: schemas.LogLevelIn,
    now: datetime,
) -> schemas.LogLevels:
    """Set a logger's level for a time, at once; or put it back."""
    record(
        session,
        actor,
        "set_log_level",
        f"logger {asked.logger or 'root'}",
        now,
        before={"level": log_levels.effective(asked.logger)},
        after={"level": asked.level, "seconds": asked.seconds},
    )
    await session.commit()
    if asked.level is None:
        services.log_levels.revert(asked.logger)
    else:
        services.log_levels.set(asked.logger, asked.level, asked.seconds, now)
    return levels(services)
