"""Fixtures for everybody.

- `postgres`: one embedded server for the run; `database_url`: a fresh, migrated database.
- `engines`, `session`: connections to it.
- `app`: the application with its lifespan running; `services`: what it stands on.
- `client`: httpx client of the application in this process (nobody signed in).
- `people`: makes users and clients that are signed in: `await people.admin()`,
  `await people.user("bo", groups=["lab"])` -> `Person(id, username, password, client, token)`.
- `start_server`: starts real server processes (tests/server_process.py), for e2e.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncSession

from backend.app import embedded_postgres, logs
from backend.app.db import engine
from backend.app.db.engine import Engines
from backend.app.db.sessions import sessions
from backend.app.embedded_postgres import EmbeddedPostgres
from backend.app.main import create_app
from backend.app.services import Services
from backend.app.settings import Settings
from tests import postgres as databases
from tests.people import BASE_URL, People
from tests.server_process import ServerProcess, open_folder


@pytest.fixture(scope="session", autouse=True)
def _quiet_logs() -> None:
    logs.configure(level="WARNING", as_json=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The server; not below pytest's own folder, which only root may enter."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-tests-"))
    folder.chmod(0o755)
    server = embedded_postgres.start(folder / "postgres", databases.OPTIONS)
    databases.make_template(server)
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
async def database_url(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    name = await databases.create_database(postgres)
    yield postgres.url(name)
    await databases.drop_database(postgres, name)


@pytest.fixture
async def engines(database_url: str) -> AsyncIterator[Engines]:
    opened = engine.connect(database_url)
    yield opened
    await opened.dispose()


@pytest.fixture
async def session(engines: Engines) -> AsyncIterator[AsyncSession]:
    """A session for looking and preparing; commit what the application shall see."""
    async with sessions(engines.requests)() as opened:
        yield opened


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", database_url=SecretStr(database_url))


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    made = create_app(settings)
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
def services(app: FastAPI) -> Services:
    found: Services = app.state.services
    return found


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as made:
        yield made


@pytest.fixture
async def people(app: FastAPI) -> AsyncIterator[People]:
    made = People(app)
    yield made
    await made.close()


@pytest.fixture
def start_server() -> Iterator[Callable[..., ServerProcess]]:
    """Start a server process; keywords are environment variables (GRISTMILL_ is put before)."""
    started: list[ServerProcess] = []
    with open_folder() as folder:

        def start(**environment: str) -> ServerProcess:
            names = {f"GRISTMILL_{name.upper()}": value for name, value in environment.items()}
            server = ServerProcess(folder / f"data{len(started)}", names)
            started.append(server)
            server.start()
            return server

        yield start
        for server in started:
            server.stop()
