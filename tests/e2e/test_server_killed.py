"""kill -9 of a real server process while experiments run and workers go on."""

import asyncio
import random

import pytest
from sqlalchemy import func, select

from backend.app.db import core
from backend.scheduler.core import blocks
from tests.e2e.conftest import patiently
from tests.experiments.cases import with_block

pytestmark = pytest.mark.e2e


async def test_what_ran_goes_on_and_nothing_runs_twice(house):
    id_ = await house.started("first")
    worker = await house.worker("w1")
    (dataset,) = (await worker.poll())["assignments"]
    await worker.start(dataset)
    log = {"kind": "log", "attempt": dataset["attempt"], "text": "before\n", "start": 0}
    await worker.report(log)
    house.server.kill()
    end = asyncio.create_task(worker.finish(dataset))
    house.server.start()
    assert await end == "taken"
    (block,) = (await worker.poll())["assignments"]
    house.server.kill()
    house.server.start()
    await worker.run(block)
    (analyzer,) = (await worker.poll())["assignments"]
    await worker.run(analyzer)
    found = (await patiently(house.root, "GET", f"/experiments/{id_}")).json()
    assert (found["state"], found["counts"]) == ("done", {"done": 3})
    assert worker.done == ["numbers", "double", "sum"]
    page = (await house.root.get(f"/experiments/{id_}/blocks/numbers/log")).json()
    assert page["pieces"][0]["text"] == "before\n"


async def test_a_lease_whose_answer_was_lost_is_given_again(house):
    await house.started("first")
    worker = await house.worker("w1")
    (lost,) = (await worker.poll())["assignments"]
    worker.running.clear()  # as if the answer had never come
    house.server.kill()
    house.server.start()
    (again,) = (await worker.poll())["assignments"]
    assert again["attempt"] == lost["attempt"]
    assert again["job"] == lost["job"]


async def test_a_stop_survives_the_kill(house):
    id_ = await house.started("first")
    worker = await house.worker("w1")
    (dataset,) = (await worker.poll())["assignments"]
    await worker.start(dataset)
    await house.root.post(f"/experiments/{id_}/stop")
    house.server.kill()
    house.server.start()
    assert (await worker.heartbeat())["cancel"] == [dataset["attempt"]]
    end = {"kind": "finished", "attempt": dataset["attempt"], "outcome": "cancelled"}
    assert await worker.report(end) == ["taken"]
    found = (await patiently(house.root, "GET", f"/experiments/{id_}")).json()
    assert found["state"] == "cancelled"


async def test_kills_at_any_instant_lose_nothing_that_was_acknowledged(house):
    chance = random.Random(7)
    workers = [await house.worker(f"w{number}") for number in range(2)]
    ids = [await house.started(f"e{number}", declaration=varied(number)) for number in range(6)]
    ended = asyncio.Event()

    async def all_ended():
        return ended.is_set()

    async def kill_and_start():
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            house.server.kill()
            await asyncio.to_thread(house.server.start)

    working = [asyncio.create_task(worker.work(all_ended)) for worker in workers]
    await kill_and_start()
    async with asyncio.timeout(120):
        for id_ in ids:
            await rests(house, id_)
    ended.set()
    await asyncio.gather(*working)
    await assert_told_in_full(house, ids)
    await assert_every_job_was_done_once(house)


def varied(number):
    """An experiment like no other, with a block in three parts."""
    return with_block(parameters={"factor": number}, nb_slots=3)


async def rests(house, id_):
    while True:
        found = (await patiently(house.root, "GET", f"/experiments/{id_}")).json()
        if found["state"] not in ("pending", "running"):
            assert found["state"] == "done", found
            return
        await asyncio.sleep(0.1)


async def assert_told_in_full(house, ids):
    for id_ in ids:
        url = f"/experiments/{id_}/events"
        page = (await patiently(house.root, "GET", url, params={"limit": 1000})).json()
        assert [e["seq"] for e in page["events"]] == list(range(1, page["last_seq"] + 1))
        states = {}
        for event in page["events"]:
            if event["kind"] == "block":
                assert states.get(event["block"]) not in blocks.FINAL, event
                states[event["block"]] = event["details"]["state"]
        assert set(states.values()) <= {"done", "cached"}


async def assert_every_job_was_done_once(house):
    attempt = core.attempt.c
    async with house.services.sessions() as session:
        done = await session.execute(
            select(attempt.block_id, attempt.index, func.count())
            .where(attempt.outcome == "done")
            .group_by(attempt.block_id, attempt.index)
        )
        assert {count for _, _, count in done} == {1}
        left = await session.scalar(
            select(func.count()).select_from(core.attempt).where(attempt.ended_at.is_(None))
        )
        assert left == 0
