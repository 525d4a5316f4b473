"""The client's calls for administrators, on the real application."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from gristmill.client import ApiError, AsyncClient, Invalid, NotFound, NotSignedIn
from tests.people import BASE_URL, PASSWORD, People


@pytest.fixture
async def admin(app: FastAPI, people: People) -> AsyncIterator[AsyncClient]:
    person = await people.admin()
    async with AsyncClient(BASE_URL, transport=httpx.ASGITransport(app)) as client:
        await client.sign_in(person.username, PASSWORD)
        yield client


async def test_a_farm_is_set_up_twice_without_harm(admin: AsyncClient, app: FastAPI) -> None:
    for _ in range(2):
        environment = await admin.ensure(
            "/environments", {"name": "Python", "version": "1"}, by=("name", "version")
        )
        declared = {
            "name": "default",
            "memory_mb": 512,
            "time_limit_seconds": 60,
            "slots_per_worker": 2,
            "environment_ids": [environment["id"]],
        }
        queue = await admin.ensure("/queues", declared)
        group = await admin.ensure("/groups", {"name": "lab"})
        await admin.set_right(group["id"], queue["id"], slots=2, priority=1)
        body = {"username": "bo", "password": PASSWORD}
        user = await admin.ensure("/users", body, by=("username",))
        await admin.add_member(group["id"], user["id"])
    assert len(await admin.items("/queues")) == 1
    async with AsyncClient(BASE_URL, transport=httpx.ASGITransport(app)) as bo:
        await bo.sign_in("bo", PASSWORD)
        [usable] = await bo.my_queues()
        assert (usable.name, usable.priority) == ("default", 1)
        token = await bo.create_personal_token("tests")
    async with AsyncClient(BASE_URL, token.token, transport=httpx.ASGITransport(app)) as bo:
        assert (await bo.me()).username == "bo"
        with pytest.raises(ApiError) as caught:
            await bo.scheduler_state()
        assert caught.value.status == 403


async def test_the_scheduler_and_the_cache_are_looked_after(admin: AsyncClient) -> None:
    state = await admin.scheduler_state()
    other = next(name for name in state["policies"] if name != state["policy"])
    assert (await admin.set_policy(other))["policy"] == other
    assert (await admin.policy())["policy"] == other
    with pytest.raises(Invalid):
        await admin.set_policy("whoever shouts loudest")
    assert (await admin.cache())["entries"] == 0
    assert (await admin.clean_cache(dry_run=False))["entries"] == 0
    assert await admin.cancel_all() == {"experiments": 0}
    assert (await admin.monitor())["workers"] == []
    assert (await admin.create_worker_credential("w1")).startswith("gristmill_")
    with pytest.raises(NotFound):
        await admin.drain_worker("00000000-0000-0000-0000-000000000000")


async def test_a_wrong_password_and_a_wrong_token_are_told(
    app: FastAPI, admin: AsyncClient
) -> None:
    async with AsyncClient(BASE_URL, "nonsense", transport=httpx.ASGITransport(app)) as client:
        with pytest.raises(NotSignedIn):
            await client.me()
        with pytest.raises(NotSignedIn):
            await client.sign_in("admin", "wrong")
