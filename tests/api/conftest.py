"""Fixtures for tests in which experiments run."""

from __future__ import annotations

import pytest

from tests.fake_worker import FakeWorker
from tests.lab import declare, make_lab


@pytest.fixture
async def lab(services, people):
    """Queues, rights, and what the small experiment names; owned by ann."""
    made = await make_lab(services)
    ann = await people.user("ann", groups=["lab"])
    await declare(services, ann)
    return made


@pytest.fixture
async def ann(lab, people):
    """The owner of everything in the lab, signed in (again)."""
    return await people.again("ann")


@pytest.fixture
async def bob(lab, people):
    """Somebody else."""
    return await people.user("bob")


@pytest.fixture
async def root(people):
    """An administrator."""
    return await people.admin("root")


@pytest.fixture
async def make_worker(lab, root, people):
    """Make fake workers with credentials of their own; not yet registered."""

    async def make(name="w1", **more):
        answer = await root.client.post("/worker-credentials", json={"worker_name": name})
        credential = answer.raise_for_status().json()["token"]
        return FakeWorker(people.anonymous(), credential, name=name, **more)

    return make


@pytest.fixture
async def worker(make_worker):
    """A registered worker that shares no cache folder."""
    made = await make_worker()
    answer = await made.register()
    assert answer.status_code == 200, answer.text
    return made
