"""A house for tests with real server processes: a lab in a database, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import httpx
import pytest
from sqlalchemy import select

from backend.app.clock import utc_now
from backend.app.db import core
from backend.app.db.sessions import sessions
from tests.fake_worker import FakeWorker
from tests.lab import declare, experiment, make_lab


async def _nobody_listens(*_events):
    return []


async def patiently(client, method, url, **more):
    """Ask until the server is there."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.request(method, url, **more)
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.05)


class House:
    """A server process, its database, an administrator."""

    def __init__(self, server, services, token, stack):
        self.server = server
        self.services = services  #: sessions and clock, enough to look into the database
        self.token = token
        self._stack = stack

    async def client(self, token=None, *, url=None):
        """Return a client of a server (this one), closed at the end."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        made = httpx.AsyncClient(
            base_url=f"{url or self.server.url}/api/v1", headers=headers, timeout=60
        )
        return await self._stack.enter_async_context(made)

    async def worker(self, name):
        """Return a registered worker that bears with a server that is away."""
        answer = await self.root.post("/worker-credentials", json={"worker_name": name})
        credential = answer.raise_for_status().json()["token"]
        made = FakeWorker(await self.client(), credential, name=name, patient=True)
        assert (await made.register()).status_code == 200
        return made

    async def started(self, name, **changes):
        """Make and start an experiment; return its id."""
        made = await self.root.post("/experiments", json=experiment(name, **changes))
        assert made.status_code == 201, made.text
        id_ = made.json()["id"]
        answer = await self.root.post(f"/experiments/{id_}/start")
        assert answer.status_code == 200, answer.text
        return id_


@pytest.fixture
async def house(start_server, database_url, engines):
    """A server process on a database with a lab in it."""
    server = start_server(database_url=database_url, lease_seconds="60")
    token = server.create_admin()
    server.kill()
    services = SimpleNamespace(
        sessions=sessions(engines.requests),
        clock=utc_now,
        scheduler=SimpleNamespace(handle=_nobody_listens),
    )
    await make_lab(services, slots=8, right=8)
    async with services.sessions() as session:
        root = await session.scalar(select(core.user_account.c.id))
    await declare(services, SimpleNamespace(id=root))
    server.start()
    async with contextlib.AsyncExitStack() as stack:
        made = House(server, services, token, stack)
        made.root = await made.client(token)
        yield made
