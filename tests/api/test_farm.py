"""Users, groups, rights, environments, queues, slot shares, workers: what administrators do.

The scheduler is the real one; what it holds is asked of it where that matters.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from backend.app import farm
from backend.app.auth.actors import issue_worker_token
from backend.app.db.tables import (
    Attempt,
    Audit,
    Block,
    Experiment,
    HeldRight,
    Worker,
    WorkerCredential,
    WorkerEnvironment,
)
from backend.app.services import Services
from backend.scheduler.core.model import WorkerState
from tests.people import PASSWORD, People, Person


@pytest.fixture
async def admin(people: People) -> Person:
    return await people.admin()


async def _created(person: Person, path: str, **body: Any) -> dict[str, Any]:
    answer = await person.client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def _environment(admin: Person, version: str = "1") -> str:
    made = await _created(admin, "/environments", name="Python", version=version)
    return str(made["id"])


async def _queue(admin: Person, name: str, slots: int = 8, **more: Any) -> dict[str, Any]:
    environment = await _environment(admin, version=f"of-{name.encode().hex()[:20]}")
    body = {
        "name": name,
        "memory_mb": 1024,
        "time_limit_seconds": 3600,
        "slots_per_worker": slots,
        "environment_ids": [environment],
    }
    return await _created(admin, "/queues", **body | more)


async def _group(admin: Person, name: str) -> str:
    return str((await _created(admin, "/groups", name=name))["id"])


async def _default(admin: Person) -> str:
    items = (await admin.client.get("/groups")).json()["items"]
    return str(next(group["id"] for group in items if group["name"] == "default"))


async def _right(admin: Person, group: str, queue: str, slots: int, priority: int) -> None:
    body = {"slots": slots, "priority": priority}
    answer = await admin.client.put(f"/rights/{group}/{queue}", json=body)
    assert answer.status_code == 200, answer.text


async def _worker(session: AsyncSession, services: Services, name: str = "w1") -> UUID:
    """A worker as its registration leaves it, known to the scheduler."""
    worker = Worker(
        name=name,
        cores=8,
        memory_mb=16_000,
        state="online",
        session=uuid4(),
        created_at=services.clock(),
        last_seen=services.clock(),
    )
    session.add(worker)
    await session.flush()
    found = WorkerEnvironment(worker_id=worker.id, name="Python", version="1", packages={})
    session.add(found)
    await session.commit()
    await farm.tell(services, await farm.workers_set(session, [worker.id]))
    return worker.id


async def _etag(person: Person, path: str) -> dict[str, str]:
    return {"If-Match": (await person.client.get(path)).headers["ETag"]}


async def _audit(session: AsyncSession) -> list[tuple[str, str]]:
    rows = await session.execute(
        select(col(Audit.actor), col(Audit.action)).order_by(col(Audit.id))
    )
    return [(actor, action) for actor, action in rows]


# ---- users --------------------------------------------------------------------------------


async def test_a_user_is_made_changed_and_deleted(
    admin: Person, people: People, session: AsyncSession
) -> None:
    made = await _created(admin, "/users", username="bo", password="a long password")
    assert [group["name"] for group in made["groups"]] == ["default"]
    path = f"/users/{made['id']}"
    headers = {"If-Match": '"1"'}
    answer = await admin.client.patch(path, json={"email": "bo@example.org"}, headers=headers)
    assert answer.json()["email"] == "bo@example.org"
    assert (await admin.client.delete(path, headers={"If-Match": '"2"'})).status_code == 204
    assert (await admin.client.get(path)).status_code == 404
    assert await _audit(session) == [
        ("admin", "create_user"),
        ("admin", "update_user"),
        ("admin", "delete_user"),
    ]


async def test_the_audit_log_is_read_the_newest_first(admin: Person, people: People) -> None:
    await _group(admin, "a")
    await _group(admin, "b")
    await _queue(admin, "Q")
    lines = (await admin.client.get("/admin/audit")).json()["items"]
    assert [line["thing"] for line in lines[:1] + lines[-2:]] == ["queue Q", "group b", "group a"]
    assert lines[-1]["before"] is None
    assert lines[-1]["after"]["name"] == "a"
    params = {"action": "create_group", "limit": "1"}
    page = (await admin.client.get("/admin/audit", params=params)).json()
    rest = await admin.client.get("/admin/audit", params=params | {"cursor": page["next"]})
    assert [line["thing"] for line in page["items"] + rest.json()["items"]] == [
        "group b",
        "group a",
    ]


async def test_the_audit_log_holds_no_password(admin: Person, session: AsyncSession) -> None:
    made = await _created(admin, "/users", username="bo", password="a long password")
    change = {"password": "another long password"}
    await admin.client.patch(f"/users/{made['id']}", json=change, headers={"If-Match": '"1"'})
    for line in await session.scalars(select(Audit)):
        assert "long password" not in str(line.before) + str(line.after)
        assert "argon2" not in str(line.before) + str(line.after)


BAD_NAMES = [
    "",
    " ",
    "../x",
    "a/b",
    "<b>bo</b>",
    "😀",
    "x" * 65,
    "x" * 10_000,
    "a\u0000",
    "1 2",
    "é",
]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_names_that_are_no_names(admin: Person, name: str) -> None:
    for path, field, more in (
        ("/users", "username", {"password": "a long password"}),
        ("/groups", "name", {}),
        ("/worker-credentials", "worker_name", {}),
    ):
        answer = await admin.client.post(path, json={field: name, **more})
        assert answer.status_code == 422, (path, name)
        assert answer.json()["errors"][0]["pointer"] == f"/{field}"
        assert len(answer.text) < 3000


@pytest.mark.parametrize(
    "name", ["../x", "<b>", "😀", "x" * 101, "x" * 10_000, "a\u0000", " a", ""]
)
async def test_display_names_that_are_no_names(admin: Person, name: str) -> None:
    body: dict[str, Any] = {"name": name, "version": "1"}
    answer = await admin.client.post("/environments", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/name"


async def test_a_taken_name_is_told(admin: Person, people: People) -> None:
    await people.user("bo")
    body = {"username": "bo", "password": "a long password"}
    answer = await admin.client.post("/users", json=body)
    assert answer.status_code == 409
    assert answer.json()["errors"][0] == {
        "pointer": "/username",
        "message": "there is a user 'bo' already",
        "code": "taken",
    }


async def test_the_last_administrator_stays(admin: Person) -> None:
    path = f"/users/{admin.id}"
    for change in ({"admin": False}, {"active": False}):
        headers = await _etag(admin, path)
        answer = await admin.client.patch(path, json=change, headers=headers)
        assert answer.status_code == 409
        assert answer.json()["code"] == "last_admin"
    assert (await admin.client.delete(path, headers=await _etag(admin, path))).status_code == 409


async def test_a_user_who_owns_things_is_not_deleted(admin: Person, people: People) -> None:
    bo = await people.user("bo")
    await _created(bo, "/dataformats", name="x", declaration={"x": "int8"})
    path = f"/users/{bo.id}"
    answer = await admin.client.delete(path, headers=await _etag(admin, path))
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == "data_format bo/x/1"


async def test_a_new_password_by_an_administrator_signs_the_user_out(
    admin: Person, people: People
) -> None:
    bo = await people.user("bo")
    path = f"/users/{bo.id}"
    change = {"password": "another password"}
    answer = await admin.client.patch(path, json=change, headers=await _etag(admin, path))
    assert answer.is_success
    assert (await bo.client.get("/me")).status_code == 401


@pytest.mark.parametrize("value", [-1, None, 1e9, 1.5, "three", [], 2**63])
async def test_bad_numbers_are_refused(admin: Person, value: Any) -> None:
    queue, group = await _queue(admin, "Q"), await _group(admin, "g")
    path = f"/rights/{group}/{queue['id']}"
    answer = await admin.client.put(path, json={"slots": value})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/slots"
    answer = await admin.client.patch(
        f"/queues/{queue['id']}", json={"slots_per_worker": value}, headers={"If-Match": '"1"'}
    )
    assert answer.status_code == 422


# ---- groups -------------------------------------------------------------------------------


async def test_groups_and_members(admin: Person, people: People) -> None:
    bo, group = await people.user("bo"), await _group(admin, "lab")
    member = f"/groups/{group}/members/{bo.id}"
    for _ in range(2):
        assert (await admin.client.put(member)).status_code == 204
    listed = (await admin.client.get(f"/groups/{group}/members")).json()["items"]
    assert listed == [{"id": str(bo.id), "username": "bo"}]
    assert (await admin.client.get(f"/groups/{group}")).json()["members"] == 1
    assert [g["name"] for g in (await bo.client.get("/me")).json()["groups"]] == ["default", "lab"]
    assert (await admin.client.delete(member)).status_code == 204
    assert (await admin.client.delete(member)).status_code == 404


async def test_nobody_leaves_the_default_group_and_it_stays(admin: Person, people: People) -> None:
    default = await _default(admin)
    path = f"/groups/{default}"
    answers = [
        await admin.client.delete(f"{path}/members/{admin.id}"),
        await admin.client.delete(path, headers={"If-Match": '"1"'}),
        await admin.client.patch(path, json={"name": "all"}, headers={"If-Match": '"1"'}),
    ]
    assert [answer.json()["code"] for answer in answers] == ["default_group"] * 3


# ---- rights: the table of the first request -----------------------------------------------


@pytest.fixture
async def q1(admin: Person, session: AsyncSession, services: Services) -> str:
    """Q1 of 8 slots in all: default 2/0, special 1/1, super 3/1."""
    queue = str((await _queue(admin, "Q1"))["id"])
    await _worker(session, services)
    await _right(admin, await _default(admin), queue, 2, 0)
    for name, slots in (("special", 1), ("super", 3)):
        await _right(admin, await _group(admin, name), queue, slots, 1)
    return queue


@pytest.mark.parametrize(
    ("groups", "reputation", "slots", "priority", "slots_from", "priority_from"),
    [
        ([], 100, 2, 0, "default", "default"),
        (["super"], 100, 3, 1, "super", "super"),
        (["special"], 100, 2, 1, "default", "special"),
        ([], 200, 4, 0, "default", "default"),
        ([], 1000, 8, 0, "default", "default"),
        (["super"], 50, 1, 1, "super", "super"),
        ([], 0, 1, 0, "default", "default"),
    ],
)
async def test_a_right_is_the_maximum_over_groups_times_reputation(
    q1: str,
    people: People,
    groups: list[str],
    reputation: int,
    slots: int,
    priority: int,
    slots_from: str,
    priority_from: str,
) -> None:
    user = await people.user("u", groups=groups, reputation=reputation)
    (queue,) = (await user.client.get("/me/queues")).json()
    assert (queue["slots"], queue["priority"]) == (slots, priority)
    assert (queue["slots_from"], queue["priority_from"]) == (slots_from, priority_from)
    assert queue["total_slots"] == 8
    assert queue["reputation"] == reputation
    assert queue["default_environment"] == queue["environments"][0]["id"]


async def test_a_queue_without_a_right_is_not_offered(
    q1: str, admin: Person, people: People
) -> None:
    user = await people.user("u")
    await _queue(admin, "Q2")
    assert [q["name"] for q in (await user.client.get("/me/queues")).json()] == ["Q1"]
    await _right(admin, await _default(admin), q1, 0, 5)
    assert (await user.client.get("/me/queues")).json() == []
    assert (await admin.client.delete(f"/rights/{await _default(admin)}/{q1}")).status_code == 204
    assert (await admin.client.delete(f"/rights/{await _default(admin)}/{q1}")).status_code == 404
    rights = (await admin.client.get("/rights", params={"queue_id": q1})).json()["items"]
    assert sorted(right["group"] for right in rights) == ["special", "super"]


async def test_the_scheduler_hears_of_new_rights_of_those_it_knows(
    q1: str, admin: Person, people: People, session: AsyncSession
) -> None:
    known, other = await people.user("known"), await people.user("other")
    session.add(HeldRight(user_id=known.id, queue_id=UUID(q1), slots=2, priority=0))
    await session.commit()
    await _right(admin, await _default(admin), q1, 5, 3)
    session.expire_all()
    held = {h.user_id: (h.slots, h.priority) for h in await session.scalars(select(HeldRight))}
    assert held == {known.id: (5, 3)}
    path = f"/users/{known.id}"
    headers = await _etag(admin, path)
    assert (await admin.client.patch(path, json={"reputation": 1000}, headers=headers)).is_success
    session.expire_all()
    held = {h.user_id: (h.slots, h.priority) for h in await session.scalars(select(HeldRight))}
    assert held == {known.id: (8, 3)}
    assert other.id not in held


# ---- environments and queues --------------------------------------------------------------


async def test_an_environment_in_a_queue_is_not_deleted(admin: Person) -> None:
    queue = await _queue(admin, "3 hours/4G on Python (GPU)")
    environment = queue["environments"][0]["id"]
    path = f"/environments/{environment}"
    answer = await admin.client.delete(path, headers={"If-Match": '"1"'})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == f"queue {queue['name']}"
    deleted = await admin.client.delete(f"/queues/{queue['id']}", headers={"If-Match": '"1"'})
    assert deleted.status_code == 204
    assert (await admin.client.delete(path, headers={"If-Match": '"1"'})).status_code == 204


async def test_a_queue_needs_environments_that_are_there(admin: Person) -> None:
    body = {
        "name": "Q",
        "memory_mb": 1,
        "time_limit_seconds": 1,
        "slots_per_worker": 1,
        "environment_ids": [str(uuid4())],
    }
    answer = await admin.client.post("/queues", json=body)
    assert answer.json()["errors"][0]["pointer"] == "/environment_ids/0"
    body["environment_ids"] = [await _environment(admin)]
    body["default_environment_id"] = await _environment(admin, "2")
    answer = await admin.client.post("/queues", json=body)
    assert answer.json()["errors"][0]["pointer"] == "/default_environment_id"
    assert (await admin.client.get("/queues")).json()["items"] == []


async def test_a_queue_is_changed_and_every_user_sees_it(
    admin: Person, people: People, services: Services
) -> None:
    bo, queue = await people.user("bo"), await _queue(admin, "Q", slots=2)
    path = f"/queues/{queue['id']}"
    more = await _environment(admin, "2")
    change = {"slots_per_worker": 5, "environment_ids": [more], "default_environment_id": more}
    answer = await admin.client.patch(path, json=change, headers={"If-Match": '"1"'})
    assert answer.is_success, answer.text
    seen = (await bo.client.get(path)).json()
    assert seen["slots_per_worker"] == 5
    assert [environment["id"] for environment in seen["environments"]] == [more]
    unfit = {"environment_ids": [queue["environments"][0]["id"]]}
    answer = await admin.client.patch(path, json=unfit, headers={"If-Match": '"2"'})
    assert answer.json()["errors"][0]["pointer"] == "/default_environment_id"


async def _experiment_on(
    session: AsyncSession, services: Services, owner: Person, queue: dict[str, Any], state: str
) -> None:
    experiment = Experiment(
        owner_id=owner.id,
        owner=owner.username,
        name="x",
        toolchain="o/x/1",
        toolchain_declaration={},
        declaration={},
        state=state,
        created_at=services.clock(),
    )
    session.add(experiment)
    await session.flush()
    environment = queue["environments"][0]
    session.add(
        Block(
            experiment_id=experiment.id,
            name="b",
            kind="block",
            position=0,
            inputs=[],
            parameters={},
            job={},
            queue_id=UUID(queue["id"]),
            environment_name=environment["name"],
            environment_version=environment["version"],
            key="0" * 64,
        )
    )
    await session.commit()


async def test_what_experiments_use_is_not_deleted(
    admin: Person, session: AsyncSession, services: Services
) -> None:
    queue = await _queue(admin, "Q")
    await _experiment_on(session, services, admin, queue, "pending")
    path = f"/queues/{queue['id']}"
    answer = await admin.client.delete(path, headers={"If-Match": '"1"'})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == "experiment admin/x (pending)"
    assert "drain" in answer.json()["detail"]
    other = await _environment(admin, "other")
    change = {"environment_ids": [other], "default_environment_id": other}
    answer = await admin.client.patch(path, json=change, headers={"If-Match": '"1"'})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == "experiment admin/x"


# ---- workers ------------------------------------------------------------------------------


async def test_a_worker_is_drained_and_resumed_by_the_scheduler(
    admin: Person, session: AsyncSession, services: Services
) -> None:
    worker = await _worker(session, services)
    for action, state in (("drain", "draining"), ("drain", "draining"), ("resume", "online")):
        answer = await admin.client.post(f"/workers/{worker}/{action}")
        assert answer.json()["state"] == state
    assert (await _audit(session)) == [("admin", "drain_worker"), ("admin", "resume_worker")]


async def test_a_worker_that_is_gone_cannot_be_drained_but_deleted(
    admin: Person, session: AsyncSession, services: Services
) -> None:
    worker = await _worker(session, services)
    path = f"/workers/{worker}"
    answer = await admin.client.delete(path, headers={"If-Match": '"1"'})
    assert answer.status_code == 409
    assert "drain it" in answer.json()["detail"]
    offline = await farm.workers_set(session, [worker], state=WorkerState.OFFLINE)
    await farm.tell(services, offline)
    assert (await admin.client.post(f"{path}/drain")).json()["code"] == "worker_gone"
    assert (await admin.client.delete(path, headers={"If-Match": '"1"'})).status_code == 204
    assert (await admin.client.get("/workers")).json()["items"] == []


async def test_a_worker_with_jobs_is_not_deleted_and_says_which(
    admin: Person, session: AsyncSession, services: Services
) -> None:
    worker = await _worker(session, services)
    await _experiment_on(session, services, admin, await _queue(admin, "Q"), "running")
    block = (await session.scalars(select(Block))).one()
    session.add(
        Attempt(
            id=f"{block.id}.0.1",
            block_id=block.id,
            experiment_id=block.experiment_id,
            index=0,
            number=1,
            run=1,
            worker_id=worker,
            worker="w1",
            leased_at=services.clock(),
        )
    )
    await session.commit()
    answer = await admin.client.delete(f"/workers/{worker}", headers={"If-Match": '"1"'})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["message"] == "block b of experiment admin/x"
    assert (await admin.client.get(f"/workers/{worker}")).json()["running"] == 1


async def test_slot_shares(
    admin: Person, people: People, session: AsyncSession, services: Services
) -> None:
    worker, queue = await _worker(session, services), await _queue(admin, "Q", slots=2)
    bo = await people.user("bo")
    await _right(admin, await _default(admin), str(queue["id"]), 9, 0)
    path = f"/slot-shares/{queue['id']}/{worker}"
    answer = await admin.client.put(path, json={"slots": 6})
    assert answer.json()["worker"] == "w1"
    assert (await bo.client.get("/me/queues")).json()[0]["total_slots"] == 6
    assert len((await admin.client.get("/slot-shares")).json()["items"]) == 1
    assert (await admin.client.delete(path)).status_code == 204
    assert (await admin.client.delete(path)).status_code == 404
    assert (await bo.client.get("/me/queues")).json()[0]["total_slots"] == 2
    nowhere = f"/slot-shares/{queue['id']}/{uuid4()}"
    assert (await admin.client.put(nowhere, json={"slots": 6})).status_code == 404


# ---- workers' credentials -----------------------------------------------------------------


async def test_a_credential_is_shown_once_and_kept_hashed(
    admin: Person, session: AsyncSession
) -> None:
    made = await _created(admin, "/worker-credentials", worker_name="w1")
    assert made["token"].startswith("gristmill_wrk_")
    listed = (await admin.client.get("/worker-credentials")).json()["items"]
    assert [credential["worker_name"] for credential in listed] == ["w1"]
    assert "token" not in listed[0]
    stored = (await session.scalars(select(WorkerCredential))).one()
    assert made["token"].encode() not in stored.secret_hash


async def test_a_revoked_credential_ends_its_tokens_and_the_worker_is_lost(
    admin: Person, people: People, session: AsyncSession, services: Services
) -> None:
    worker = await _worker(session, services)
    made = await _created(admin, "/worker-credentials", worker_name="w1")
    token, _ = issue_worker_token(
        services,
        worker=worker,
        name="w1",
        session=uuid4(),
        credential=UUID(made["id"]),
        now=services.clock(),
    )
    path = f"/worker-credentials/{made['id']}"
    assert (await admin.client.delete(path)).status_code == 204
    assert (await admin.client.delete(path)).status_code == 204  # again changes nothing
    answer = await people.bearer(token).post("/worker/heartbeat", json={})
    assert answer.status_code == 401
    assert answer.json()["code"] == "revoked"
    answer = await people.bearer(made["token"]).post("/worker/register", json={})
    assert answer.status_code == 401
    assert (await admin.client.get(f"/workers/{worker}")).json()["state"] == "lost"


async def test_an_expired_credential_registers_nobody(
    admin: Person, people: People, services: Services
) -> None:
    expires = services.clock() + timedelta(hours=1)
    made = await _created(
        admin, "/worker-credentials", worker_name="w1", expires_at=expires.isoformat()
    )
    worker = people.bearer(made["token"])
    assert (await worker.post("/worker/register", json={})).status_code == 422
    services.clock = lambda: expires
    assert (await worker.post("/worker/register", json={})).status_code == 401
    form = {"username": "admin", "password": PASSWORD}
    fresh = (await people.anonymous().post("/auth/token", data=form)).json()["access_token"]
    past = {"worker_name": "w1", "expires_at": "2020-01-01T00:00:00Z"}
    answer = await people.bearer(fresh).post("/worker-credentials", json=past)
    assert answer.json()["errors"][0]["pointer"] == "/expires_at"
    naive = {"worker_name": "w1", "expires_at": "2099-01-01T00:00:00"}
    answer = await people.bearer(fresh).post("/worker-credentials", json=naive)
    assert answer.status_code == 422
