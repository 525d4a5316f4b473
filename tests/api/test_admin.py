"""What administrators see and do, and the monitor of everybody."""

import asyncio
import logging
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from backend.app.cache import service as cache_service
from backend.app.db import core
from backend.app.db.tables import metadata
from tests.experiments.cases import with_block
from tests.fake_worker import wait_for
from tests.lab import experiment


async def started(person, name="first", **changes):
    made = await person.client.post("/experiments", json=experiment(name, **changes))
    assert made.status_code == 201, made.text
    id_ = made.json()["id"]
    answer = await person.client.post(f"/experiments/{id_}/start")
    assert answer.status_code == 200, answer.text
    return id_


async def run(worker, person, name="first", **changes):
    id_ = await started(person, name, **changes)

    async def ended():
        found = await person.client.get(f"/experiments/{id_}")
        return found.json()["state"] == "done"

    await worker.work(ended)
    return id_


ADMIN = [
    ("GET", "/admin/state", None),
    ("POST", "/admin/cancel-all", {"confirm": "cancel all"}),
    ("GET", "/admin/cache", None),
    ("POST", "/admin/cache/clean", {"dry_run": False}),
    ("GET", "/admin/policy", None),
    ("PUT", "/admin/policy", {"policy": "priority"}),
    ("GET", "/admin/log-levels", None),
    ("PUT", "/admin/log-levels", {"level": "DEBUG"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ADMIN)
async def test_administrators_alone(ann, people, method, path, body):
    assert (await ann.client.request(method, path, json=body)).status_code == 403
    anonymous = people.anonymous()
    assert (await anonymous.request(method, path, json=body)).status_code == 401


async def test_the_state_names_users_and_jobs(worker, ann, root):
    await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    await worker.start(assignment)
    state = (await root.client.get("/admin/state")).json()
    assert (state["ready"], state["policy"], state["running"]) == (True, "fifo", 1)
    assert [(u["username"], u["queue"], u["held"]) for u in state["users"]] == [("ann", "short", 1)]
    (found,) = state["workers"]
    (job,) = found["running"]
    assert (found["name"], job["owner"], job["experiment"], job["block"]) == (
        "w1",
        "ann",
        "first",
        "numbers",
    )
    queue = next(one for one in state["queues"] if one["name"] == "short")
    assert (queue["slots_used"], queue["slots_total"], queue["running"]) == (1, 4, 1)


async def test_the_monitor_hides_the_names_of_others(worker, ann, bob):
    await started(ann)
    await worker.poll()
    mine = (await ann.client.get("/monitor")).json()
    theirs = (await bob.client.get("/monitor")).json()
    assert mine["workers"][0]["running"][0]["experiment"] == "first"
    assert theirs["workers"][0]["running"] == [
        {"experiment_id": None, "experiment": None, "owner": None, "block": None}
    ]
    assert "first" not in str(theirs)
    assert theirs["workers"][0]["environments"][0]["name"] == "Python"
    assert theirs["workers"][0]["sandbox"] == "none"
    assert {queue["name"] for queue in theirs["queues"]} == {"short", "long"}


async def test_cancel_all_needs_the_words_and_is_written_down(worker, ann, root, services):
    first, second = await started(ann, "first"), await started(ann, "second")
    (assignment,) = (await worker.poll())["assignments"]
    for words in ({}, {"confirm": "yes"}, {"confirm": "cancel all", "more": 1}):
        refused = await root.client.post("/admin/cancel-all", json=words)
        assert refused.status_code == 422
    body = {"confirm": "cancel all"}
    assert (await root.client.post("/admin/cancel-all", json=body)).json() == {"experiments": 2}
    await worker.report(
        {"kind": "finished", "attempt": assignment["attempt"], "outcome": "cancelled"}
    )
    for id_ in (first, second):
        await wait_for(ann, id_, "cancelled")
    async with services.sessions() as session:
        actions = (await session.scalars(select(metadata.tables["audit"].c.action))).all()
    assert "cancel_all_experiments" in actions


async def test_the_policy_changes_at_once_and_stays(ann, root, services):
    found = (await root.client.get("/admin/policy")).json()
    assert found["policy"] == "fifo"
    assert {"fifo", "priority", "fair-share"} <= set(found["available"])
    set_ = await root.client.put("/admin/policy", json={"policy": "fair-share"})
    assert set_.json()["policy"] == "fair-share"
    assert (await root.client.put("/admin/policy", json={"policy": "luck"})).status_code == 422
    assert services.scheduler.state()["policy"] == "fair-share"


async def test_a_log_level_changes_at_once_and_goes_back(ann, root, services):
    name = "backend.app.worker_api"
    before = logging.getLogger(name).getEffectiveLevel()
    body = {"logger": name, "level": "DEBUG", "seconds": 1}
    found = (await root.client.put("/admin/log-levels", json=body)).json()["items"]
    mine = next(one for one in found if one["logger"] == name)
    assert mine["level"] == "DEBUG"
    assert mine["until"] is not None
    assert logging.getLogger(name).getEffectiveLevel() == logging.DEBUG
    await root.client.put("/admin/log-levels", json={**body, "level": "ERROR"})
    assert logging.getLogger(name).getEffectiveLevel() == logging.ERROR
    while services.log_levels.changes:
        await asyncio.sleep(0.05)
    assert logging.getLogger(name).getEffectiveLevel() == before
    await root.client.put("/admin/log-levels", json={**body, "seconds": 900})
    await root.client.put("/admin/log-levels", json={"logger": name, "level": None})
    assert logging.getLogger(name).getEffectiveLevel() == before
    for bad in ({"level": "LOUD"}, {"logger": "../x", "level": "INFO"}, {"seconds": 0}):
        assert (await root.client.put("/admin/log-levels", json=bad)).status_code == 422


# ---- the cache ----


async def age(services, hours=1):
    """Let the entries be older, and experiments that are over be of yesterday."""
    async with services.sessions() as session:
        past = services.clock() - timedelta(hours=hours)
        await session.execute(update(core.cache_entry).values(used_at=past))
        await session.commit()


async def test_cleaning_is_dry_first_and_then_everything_runs_again(worker, ann, root, services):
    await run(worker, ann)
    view = (await root.client.get("/admin/cache")).json()
    assert (view["entries"], view["files"]) == (3, 2)
    assert view["needed_bytes"] == 0
    assert view["bytes"] == view["files_bytes"] > 0
    dry = (await root.client.post("/admin/cache/clean", json={})).json()
    assert dry == {"dry_run": True, "entries": 3, "bytes": view["bytes"], "freed_bytes": 0}
    assert (await root.client.get("/admin/cache")).json()["entries"] == 3
    done = await root.client.post("/admin/cache/clean", json={"dry_run": False})
    assert done.json()["freed_bytes"] == view["bytes"]
    assert list(services.cache.stored()) == []
    before = list(worker.done)
    await run(worker, ann, "second")
    assert worker.done == [*before, "numbers", "double", "sum"]


async def test_what_a_live_experiment_needs_is_never_cleaned(worker, ann, root):
    await run(worker, ann)
    id_ = await started(ann, "second", declaration=with_block(parameters={"factor": 9}))
    (block,) = (await worker.poll())["assignments"]
    assert block["block"] == "double"
    cleaned = await root.client.post("/admin/cache/clean", json={"dry_run": False})
    assert cleaned.json()["entries"] == 2  # the dataset's stays
    assert (await root.client.get("/admin/cache")).json()["needed_bytes"] > 0
    await worker.run(block)
    await worker.run((await worker.poll())["assignments"][0])
    await wait_for(ann, id_, "done")


async def test_cleaning_by_age_and_by_size(worker, ann, root, services):
    await run(worker, ann)
    await age(services)
    await run(worker, ann, "second", declaration=with_block(parameters={"factor": 9}))
    by_age = {"older_than_seconds": 600}
    assert (await root.client.post("/admin/cache/clean", json=by_age)).json()["entries"] == 2
    view = (await root.client.get("/admin/cache")).json()
    by_size = {"max_bytes": view["bytes"] - 1, "dry_run": False}
    cleaned = (await root.client.post("/admin/cache/clean", json=by_size)).json()
    assert 1 <= cleaned["entries"] < view["entries"]
    left = (await root.client.get("/admin/cache")).json()
    assert left["bytes"] <= by_size["max_bytes"]
    for bad in ({"max_bytes": -1}, {"older_than_seconds": "x"}, {"dry": True}):
        refused = await root.client.post("/admin/cache/clean", json=bad)
        assert refused.status_code == 422


async def test_tidying_takes_orphans_and_leaves_what_is_referred_to(worker, ann, services):
    await run(worker, ann)
    sha256, _ = services.cache.put([b"nobody's"])
    later = services.clock() + timedelta(days=2)
    freed = await cache_service.tidy(services.background, services.cache, later)
    assert freed == len(b"nobody's")
    assert not services.cache.path(sha256).exists()
    assert len(list(services.cache.stored())) == 2
