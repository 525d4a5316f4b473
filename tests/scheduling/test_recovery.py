"""The scheduler may go at any instant; the next one goes on where the database stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from backend.app.db import core
from backend.app.scheduling.leadership import driver_of
from backend.app.scheduling.store import PostgresStore
from backend.scheduler.core.events import Outcome, Planned, Stopped, WorkerLost
from backend.scheduler.core.instructions import Instruction, Lease
from backend.scheduler.loop import Scheduler, UnavailableError
from backend.scheduler.ports import PublishedEvent, SystemClock
from tests.core.test_any_history import picture
from tests.scheduling.farms import World, done, run_all, started, work, worker_set

CHAIN = (("data",), ("left", "data"), ("right", "data"), ("score", "left", "right"))


async def test_a_new_scheduler_takes_over_in_the_middle_with_the_same_state(
    world: World,
) -> None:
    plans = [
        await world.experiment(*CHAIN, slots={"left": 3, "right": 2}, user=user)
        for user in ("ann", "ben")
    ]
    first = await world.started()
    await first.handle(*(plan.submitted(slots=2) for plan in plans))
    for _ in range(3):
        await first.settled()
        for lease in (await work(first, *world.workers.values()))[:3]:
            await first.handle(started(lease), done(lease))
    before = picture(first._the_farm())
    await first.stop()
    second = await world.started()
    await second.settled()
    assert picture(second._the_farm()) == before
    await run_all(second, *world.workers.values())
    for plan in plans:
        assert (await plan.row()).state == "done"
        events = await plan.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_what_runs_over_a_restart_goes_on_and_its_report_is_taken(world: World) -> None:
    plan = await world.experiment(("a",))
    first = await world.started()
    await first.handle(plan.submitted())
    (lease,) = await work(first, *world.workers.values())
    await first.handle(started(lease))
    await first.stop()
    second = await world.started()
    assert second.leases(lease.worker) == (lease,)
    assert await work(second, lease.worker) == [lease], "the answer may have been lost"
    assert (await second.next_work(lease.worker, [lease.attempt], 0)).leases == ()
    assert await second.handle(done(lease)) == []
    assert (await plan.row()).state == "done"


class BreakingStore(PostgresStore):
    """A store that writes, and then does not commit, when it is told to."""

    breaks = 0

    async def commit(self, instructions: Sequence[Instruction], now: float) -> list[PublishedEvent]:
        if self.breaks and any(isinstance(i, Lease) for i in instructions):
            self.breaks -= 1
            async with self._writing():
                raise OSError("the disk is on fire")
        return await super().commit(instructions, now)


async def test_after_a_failed_commit_the_farm_is_restored_and_the_event_tried_again(
    world: World,
) -> None:
    plan = await world.experiment(("a",))
    leadership = world.leadership()
    store = BreakingStore(world.engines.background, leadership)
    scheduler = await world.started(store=store, leadership=leadership)
    store.breaks = 1
    assert await scheduler.handle(plan.submitted()) == []
    assert scheduler.tally.rebuilds == 2
    assert await plan.states() == {"a": "assigned"}
    assert [event.kind for event in world.bus.events].count("experiment") == 1


async def test_a_commit_that_never_succeeds_is_told_to_its_caller_alone(world: World) -> None:
    bad, good = await world.experiment(("a",)), await world.experiment(("b",))
    scheduler = await world.started()
    await world.run(f"DELETE FROM block WHERE experiment_id = '{bad.id}'")
    answers = await asyncio.gather(
        scheduler.handle(bad.submitted()),
        scheduler.handle(good.submitted()),
        return_exceptions=True,
    )
    assert isinstance(answers[0], Exception)
    assert answers[1] == []
    assert await good.states() == {"b": "assigned"}
    assert (await bad.row()).state == "draft"


async def test_reports_that_come_twice_or_late_are_refused_and_change_nothing(
    world: World,
) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (lease,) = await work(scheduler, *world.workers.values())
    refused = await scheduler.handle(started(lease), started(lease), done(lease), done(lease))
    assert [(type(r.event).__name__, bool(r.why)) for r in refused] == [
        ("Started", True),
        ("Finished", True),
    ]
    before = await plan.events()
    (late,) = await scheduler.handle(done(lease, outcome=Outcome.CANCELLED))
    assert "over" in late.why
    assert await plan.events() == before
    assert (await plan.row()).state == "done"


async def test_a_lost_workers_job_runs_elsewhere_and_its_late_result_is_refused(
    world: World,
) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (first,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(first), WorkerLost(worker=first.worker))
    (second,) = await work(scheduler, *world.workers.values())
    assert second.worker != first.worker
    assert second.attempt.endswith(".0.2")
    (refusal,) = await scheduler.handle(done(first))
    assert refusal.why
    assert scheduler.cancels(first.worker, [first.attempt]) == (first.attempt,)
    await scheduler.handle(started(second), done(second))
    assert (await plan.row()).state == "done"
    assert len(await world.rows(core.cache_part)) == 1


class HandClock(SystemClock):
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


async def test_only_a_worker_that_is_silent_for_longer_than_its_lease_is_lost(
    world: World,
) -> None:
    clock = HandClock()
    scheduler = await world.started(clock=clock, lease_seconds=30)
    w1, w2 = world.workers["w1"], world.workers["w2"]
    clock.seconds += 20
    scheduler.heard(w1)
    clock.seconds += 20
    assert scheduler.silent_workers() == [w2]
    await scheduler.tick()
    await scheduler.settled()
    (row,) = await world.rows(core.worker, name="w2")
    assert row.state == "lost"
    (row,) = await world.rows(core.worker, name="w1")
    assert row.state == "online"
    assert row.last_seen is not None
    scheduler.heard(w2)
    await scheduler.settled()
    (row,) = await world.rows(core.worker, name="w2")
    assert row.state == "online"


async def test_a_worker_that_registers_again_loses_what_it_does_not_run_any_more(
    world: World,
) -> None:
    plan = await world.experiment(("a",), ("b",))
    scheduler = await world.started()
    await scheduler.handle(worker_set(world, "w2", running=frozenset()))
    await scheduler.handle(WorkerLost(worker=world.workers["w2"]), plan.submitted())
    kept, gone = await work(scheduler, world.workers["w1"])
    await scheduler.handle(worker_set(world, "w1", running=frozenset({kept.attempt})))
    attempts = {lease.attempt for lease in scheduler.leases(world.workers["w1"])}
    assert kept.attempt in attempts
    assert gone.attempt not in attempts
    assert gone.attempt.replace(".0.1", ".0.2") in attempts


async def test_cancel_and_finish_race_to_one_end(world: World) -> None:
    scheduler = await world.started()
    for round_ in range(50):
        plan = await world.experiment(("a",))
        await scheduler.handle(plan.submitted())
        (lease,) = await work(scheduler, *world.workers.values())
        await scheduler.handle(started(lease))
        calls = [scheduler.handle(Stopped(experiment=plan.id)), scheduler.handle(done(lease))]
        await asyncio.gather(*(calls if round_ % 2 else reversed(calls)))
        row = await plan.row()
        assert row.state in ("done", "cancelled")
        assert await plan.states() == {"a": row.state}
        assert scheduler.leases(lease.worker) == ()
    assert all(row.ended_at is not None for row in await world.rows(core.attempt))


async def test_a_revoked_lease_that_its_worker_never_got_ends_at_the_next_poll(
    world: World,
) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    await scheduler.handle(Stopped(experiment=plan.id))
    assert await plan.states() == {"a": "cancelling"}
    for worker in world.workers.values():
        assert not await scheduler.next_work(worker, (), 0)
    assert await plan.states() == {"a": "cancelled"}
    assert (await plan.row()).state == "cancelled"


async def test_a_poll_waits_and_wakes_for_its_own_work_only(world: World) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    polls = {
        asyncio.create_task(scheduler.next_work(worker, (), 60)): worker
        for worker in world.workers.values()
    }
    await asyncio.sleep(0)
    await scheduler.handle(plan.submitted())
    finished, waiting = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    (poll,), (other,) = finished, waiting
    (lease,) = poll.result().leases
    assert lease.worker == polls[poll]
    other.cancel()


async def test_many_writers_and_the_numbers_stay_dense(world: World) -> None:
    plans = [await world.experiment(*CHAIN) for _ in range(8)]
    scheduler = await world.started()
    await asyncio.gather(*(scheduler.handle(plan.submitted()) for plan in plans))

    async def worker(name: str) -> None:
        while True:
            work_ = await scheduler.next_work(name, (), 60)
            for lease in work_.leases:
                await scheduler.handle(started(lease))
                scheduler.progress(name, lease.attempt, 0.5)
                await scheduler.handle(done(lease))

    tasks = [asyncio.create_task(worker(name)) for name in world.workers.values()]
    ended: set[str] = set()
    while len(ended) < len(plans):
        await scheduler.settled()
        await asyncio.sleep(0)
        ended = {
            event.experiment
            for event in world.bus.events
            if event.kind == "experiment" and event.details["state"] == "done"
        }
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for plan in plans:
        events = await plan.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        heard = [event.seq for event in world.bus.events if event.experiment == plan.id]
        assert heard == [event.seq for event in events]


async def test_a_plan_that_was_under_way_at_the_end_is_made_again(world: World) -> None:
    class Never:
        async def plan(self, block: str, slots: int) -> Any:
            await asyncio.Event().wait()

    plan = await world.experiment(("a",), slots={"a": 2})
    first = await world.started(splitter=Never())
    await first.handle(plan.submitted())
    await first.stop()
    second = await world.started()
    await second.settled()
    assert len(await work(second, *world.workers.values())) == 2
    assert await second.handle(Planned(block=plan.ids["a"], ranges=())) == []


async def test_one_of_two_processes_schedules_and_the_other_takes_over(world: World) -> None:
    plan = await world.experiment(("a",))
    first = await world.started()
    second = world.scheduler()
    await second.start(wait=False)
    with pytest.raises(UnavailableError):
        await second.handle(plan.submitted())
    assert await first.handle(plan.submitted()) == []
    await kill_connection_of(first)
    await second._ready.wait()
    assert second.ready
    (lease,) = await work(second, *world.workers.values())
    with pytest.raises(Exception):  # noqa: B017, PT011  (whatever the dead connection says)
        await first.handle(started(lease))
    assert await second.handle(started(lease), done(lease)) == []
    assert (await plan.row()).state == "done"


async def kill_connection_of(scheduler: Scheduler) -> None:
    """End the scheduler's connection as a crash of its process would."""
    leadership: Any = scheduler._leadership
    pid = leadership.connection().get_server_pid()
    async with leadership._engine.connect() as connection:
        driver = await driver_of(connection)
        await driver.fetchval("SELECT pg_terminate_backend($1)", pid)
