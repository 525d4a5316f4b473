"""An experiment from submission to its end, on a real database."""

from __future__ import annotations

from uuid import UUID

from backend.app.db import core
from backend.scheduler.core.events import (
    Deleted,
    Finished,
    Outcome,
    RightsSet,
    Stopped,
)
from backend.scheduler.core.model import Failure, FailureKind, Right
from tests.scheduling.farms import World, done, rerun, run_all, started, work

CHAIN = (("data",), ("left", "data"), ("right", "data"), ("score", "left", "right"))


async def test_blocks_run_in_the_order_of_their_inputs_and_the_experiment_ends(
    world: World,
) -> None:
    plan = await world.experiment(*CHAIN)
    scheduler = await world.started()
    assert await scheduler.handle(plan.submitted()) == []
    assert await plan.states() == {
        "data": "assigned",
        "left": "blocked",
        "right": "blocked",
        "score": "blocked",
    }
    assert await run_all(scheduler, *world.workers.values()) == 4
    assert set((await plan.states()).values()) == {"done"}
    row = await plan.row()
    assert row.state == "done"
    assert row.started_at is not None
    assert row.finished_at is not None


async def test_events_are_dense_complete_and_published_as_written(world: World) -> None:
    plan = await world.experiment(*CHAIN)
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    await run_all(scheduler, *world.workers.values())
    written = await plan.events()
    assert [event.seq for event in written] == list(range(1, len(written) + 1))
    assert (await plan.row()).last_seq == len(written)
    heard = [(e.seq, e.kind, e.block, e.details) for e in world.bus.events]
    assert heard == [(e.seq, e.kind, e.block, e.details) for e in written]
    states = [e.details["state"] for e in written if e.block == "score"]
    assert states == ["queued", "assigned", "running", "done"]
    of_the_experiment = [e.details["state"] for e in written if e.kind == "experiment"]
    assert of_the_experiment == ["pending", "running", "done"]


async def test_a_block_that_is_done_is_in_the_cache_with_its_files_and_figures(
    world: World,
) -> None:
    plan = await world.experiment(("analyzer",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (lease,) = await work(scheduler, *world.workers.values())
    results = {"accuracy": {"type": "float32", "value": 0.97}}
    await scheduler.handle(started(lease), done(lease, results=results))
    (entry,) = await world.rows(core.cache_entry)
    assert entry.key == plan.rows[0]["key"]
    assert entry.size == 1000
    assert entry.results == results
    assert entry.statistics["cpu_user_seconds"] == 1.0
    assert str(entry.made_by) == world.users["ann"]
    (part,) = await world.rows(core.cache_part)
    assert (part.output, part.first, part.last, part.rows) == ("out", 0, 99, 100)
    (block,) = await world.rows(core.block)
    assert (block.results, block.statistics) == (results, entry.statistics)
    assert block.progress == 1


async def test_the_second_run_is_all_cached_and_runs_nothing(world: World) -> None:
    scheduler = await world.started()
    keys = {name: name for name, *_ in CHAIN}
    first = await world.experiment(*CHAIN, keys=keys)
    await scheduler.handle(first.submitted())
    await run_all(scheduler, *world.workers.values())
    held = tuple(row.key for row in await world.rows(core.cache_entry))
    second = await world.experiment(*CHAIN, keys=keys, user="ben")
    await scheduler.handle(second.submitted(cached=held))
    assert set((await second.states()).values()) == {"cached"}
    assert (await second.row()).state == "done"
    assert {row.hits for row in await world.rows(core.cache_entry)} == {1}


async def test_two_experiments_that_need_one_key_at_once_run_it_once(world: World) -> None:
    scheduler = await world.started()
    keys = {name: name for name, *_ in CHAIN}
    plans = [await world.experiment(*CHAIN, keys=keys, user=user) for user in ("ann", "ben")]
    await scheduler.handle(*(plan.submitted() for plan in plans))
    assert await run_all(scheduler, *world.workers.values()) == 4
    for plan in plans:
        assert (await plan.row()).state == "done"
        assert set((await plan.states()).values()) <= {"done", "cached"}


async def test_an_entry_that_left_the_cache_meanwhile_is_computed_again(world: World) -> None:
    plan = await world.experiment(("data",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted(cached=(plan.rows[0]["key"],)))
    assert await plan.states() == {"data": "assigned"}
    assert scheduler.tally.rebuilds > 1
    assert await run_all(scheduler, *world.workers.values()) == 1


async def test_a_block_in_three_slots_is_three_jobs_joined_when_all_are_done(
    world: World,
) -> None:
    plan = await world.experiment(("data",), ("train", "data"), slots={"train": 3})
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    assert await run_all(scheduler, *world.workers.values()) == 4
    train = UUID(plan.ids["train"])
    jobs = await world.rows(core.job, block_id=train)
    assert [(j.first, j.last, j.done) for j in jobs] == [
        (0, 32, True),
        (33, 65, True),
        (66, 99, True),
    ]
    parts = await world.rows(core.cache_part, key=plan.rows[1]["key"])
    assert sorted((p.first, p.last) for p in parts) == [(0, 32), (33, 65), (66, 99)]
    (entry,) = await world.rows(core.cache_entry, key=plan.rows[1]["key"])
    assert entry.statistics["jobs"] == 3
    assert entry.statistics["cpu_user_seconds"] == 3.0
    assert entry.size == 1000


async def test_what_fails_takes_along_what_needs_it_and_nothing_else(world: World) -> None:
    plan = await world.experiment(("a",), ("b", "a"), ("c",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    leases = {lease.block: lease for lease in await work(scheduler, *world.workers.values())}
    failure = Failure(kind=FailureKind.ALGORITHM, message="division by zero", trace="line 1")
    bad = leases[plan.ids["a"]]
    failed = Finished(
        attempt=bad.attempt, worker=bad.worker, outcome=Outcome.FAILED, failure=failure
    )
    await scheduler.handle(started(bad), failed)
    assert await plan.states() == {"a": "failed", "b": "skipped", "c": "assigned"}
    good = leases[plan.ids["c"]]
    await scheduler.handle(started(good), done(good))
    assert (await plan.row()).state == "failed"
    (row,) = await world.rows(core.block, id=UUID(plan.ids["a"]))
    assert row.failure == {
        "kind": "algorithm error",
        "message": "division by zero",
        "trace": "line 1",
    }


async def test_a_stop_waits_for_the_process_and_a_restart_uses_what_was_finished(
    world: World,
) -> None:
    plan = await world.experiment(("a",), ("b", "a"))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (a,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(a), done(a))
    (b,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(b))
    await scheduler.handle(Stopped(experiment=plan.id))
    assert (await plan.states())["b"] == "cancelling"
    assert (await scheduler.next_work(b.worker, [b.attempt], 0)).cancel == (b.attempt,)
    await scheduler.handle(done(b, outcome=Outcome.CANCELLED))
    assert (await plan.states()) == {"a": "done", "b": "cancelled"}
    assert (await plan.row()).state == "cancelled"
    await rerun(plan)
    held = (plan.rows[0]["key"],)
    assert await scheduler.handle(plan.submitted(cached=held, before=1)) == []
    assert (await plan.states())["a"] == "cached"


async def test_deleting_what_runs_stops_it_first_and_keeps_the_cache(world: World) -> None:
    plan = await world.experiment(("a",), ("b", "a"))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (a,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(a), done(a))
    (b,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(b), Deleted(experiment=plan.id))
    assert (await plan.row()).state == "deleting"
    await scheduler.handle(done(b, outcome=Outcome.CANCELLED))
    assert await world.rows(core.experiment) == []
    assert await world.rows(core.attempt) == []
    assert len(await world.rows(core.cache_entry)) == 1
    last = world.bus.events[-1]
    assert (last.kind, last.seq) == ("deleted", world.bus.events[-2].seq + 1)


async def test_the_rights_held_are_those_of_the_last_submission_or_edit(world: World) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted(slots=2))
    (held,) = await world.rows(core.held_right)
    assert (held.slots, held.priority) == (2, 1)
    edited = {world.queue: Right(slots=5, priority=0)}
    await scheduler.handle(RightsSet(user=world.users["ann"], rights=edited))
    (held,) = await world.rows(core.held_right)
    assert (held.slots, held.priority) == (5, 0)


async def test_progress_is_written_and_published_while_the_attempt_is_open(world: World) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (a,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(a))
    assert scheduler.progress(a.worker, a.attempt, 0.2, "first")
    assert scheduler.progress(a.worker, a.attempt, 0.4, "half")
    assert not scheduler.progress("another", a.attempt, 0.9)
    while world.bus.events[-1].kind != "progress":
        await scheduler.settled_progress()
    assert world.bus.events[-1].details == {"fraction": 0.4, "message": "half"}
    (row,) = await world.rows(core.block)
    assert row.progress == 0.4
    await scheduler.handle(done(a))
    assert [e.seq for e in world.bus.events] == list(range(1, len(world.bus.events) + 1))


async def test_the_story_of_a_block_is_told_from_rows_and_remarks(world: World) -> None:
    plan = await world.experiment(("a",))
    scheduler = await world.started()
    await scheduler.handle(plan.submitted())
    (a,) = await work(scheduler, *world.workers.values())
    await scheduler.handle(started(a))
    story = " / ".join(line.text for line in await scheduler.story(plan.ids["a"]))
    assert "queued" in story
    assert "attempt 1 of job 0: leased to w" in story
    explanation = scheduler.explain(plan.ids["a"])
    assert explanation is not None
    assert explanation.message.startswith("it is running on w")
