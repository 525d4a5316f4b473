"""Users for tests: made in the database, signed in over the API."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI
from sqlalchemy import select
from sqlmodel import col

from backend.app.db.tables import Group, GroupMember, User
from backend.app.services import Services

BASE_URL = "http://localhost"
API = f"{BASE_URL}/api/v1"
PASSWORD = "a password of tests"
_FAST = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody signed in: `client` sends their token and is based at /api/v1."""

    id: UUID
    username: str
    password: str
    token: str
    client: httpx.AsyncClient


class People:
    """Makes users of one application."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._clients: list[httpx.AsyncClient] = []

    @property
    def _services(self) -> Services:
        found: Services = self._app.state.services
        return found

    async def admin(self, username: str = "admin") -> Person:
        """Return an administrator."""
        return await self.user(username, admin=True)

    async def user(
        self,
        username: str,
        *,
        groups: tuple[str, ...] | list[str] = (),
        admin: bool = False,
        reputation: int = 100,
    ) -> Person:
        """Return a user in `default` and the other groups, which are made when missing."""
        now = self._services.clock()
        async with self._services.sessions() as session:
            user = User(
                username=username,
                email=f"{username}@example.org",
                password_hash=_FAST,
                admin=admin,
                reputation=reputation,
                created_at=now,
            )
            session.add(user)
            await session.flush()
            for name in ("default", *groups):
                group = await session.scalar(select(Group).where(col(Group.name) == name))
                if group is None:
                    group = Group(name=name, created_at=now)
                    session.add(group)
                    await session.flush()
                session.add(GroupMember(group_id=group.id, user_id=user.id))
            await session.commit()
        return await self._signed_in(user)

    async def again(self, username: str) -> Person:
        """Sign an existing user in."""
        async with self._services.sessions() as session:
            user = await session.scalar(select(User).where(col(User.username) == username))
        assert user is not None
        return await self._signed_in(user)

    async def _signed_in(self, user: User) -> Person:
        async with self.anonymous() as client:
            form = {"username": user.username, "password": PASSWORD}
            answer = await client.post("/auth/token", data=form)
            token: str = answer.raise_for_status().json()["access_token"]
        client = self.bearer(token)
        return Person(user.id, user.username, PASSWORD, token, client)

    def anonymous(self) -> httpx.AsyncClient:
        """Return a client of /api/v1 without credentials."""
        return self._client({})

    def bearer(self, token: str) -> httpx.AsyncClient:
        """Return a client of /api/v1 that sends this token."""
        return self._client({"Authorization": f"Bearer {token}"})

    def _client(self, headers: dict[str, str]) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=True)
        client = httpx.AsyncClient(transport=transport, base_url=API, headers=headers)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients:
            await client.aclose()
