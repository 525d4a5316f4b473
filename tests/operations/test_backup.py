"""The guide to backups, carried out: its commands, as they stand on the page, on real servers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from backend.app.clock import utc_now
from backend.app.db import core, engine
from backend.app.db.sessions import sessions
from backend.app.embedded_postgres import EmbeddedPostgres
from tests import postgres as databases
from tests.e2e.conftest import House, patiently
from tests.experiments.cases import EXPERIMENT
from tests.lab import declare, experiment, make_lab
from tests.server_process import ServerProcess

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/back-up-and-restore.md").read_text()
FILE = b"a file that somebody uploaded"
Start = Callable[..., ServerProcess]


def blocks() -> list[str]:
    """Return the shell commands of the page, in its order."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


PROGRAMS, BACK_UP, RESTORE, COPY, COPY_BACK = blocks()


def run(*commands: str, **variables: object) -> None:
    """Run commands of the page in one shell; what fails, fails the test."""
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    script = "set -euo pipefail\n" + "\n".join(commands)
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def plain(url: str) -> str:
    """Return the address of a database as PostgreSQL's programs take it."""
    return url.replace("postgresql+asyncpg:", "postgresql:")


# ---- a server with something worth keeping ------------------------------------------------


async def nobody_listens(*_events: Any) -> list[Any]:
    return []


@pytest.fixture
async def house(start_server: Start) -> AsyncIterator[House]:
    """A server with an embedded database, a lab, an uploaded file and a finished experiment."""
    server = start_server(lease_seconds="60")
    token = server.create_admin()
    url = f"postgresql+asyncpg://gristmill@/gristmill?host={server.data}/postgres/socket"
    engines = engine.connect(url)
    services: Any = SimpleNamespace(
        sessions=sessions(engines.requests),
        clock=utc_now,
        scheduler=SimpleNamespace(handle=nobody_listens),
    )
    await make_lab(services, slots=8, right=8)
    async with services.sessions() as session:
        root = await session.scalar(select(core.user_account.c.id))
    await declare(services, SimpleNamespace(id=root))
    await engines.dispose()
    server.stop()
    server.start()  # it reads the lab
    async with AsyncExitStack() as stack:
        made = House(server, services, token, stack)
        made.root = await made.client(token)
        await fill(made)
        yield made


async def fill(house: House) -> None:
    upload = {"sha256": hashlib.sha256(FILE).hexdigest()}
    url = "/databases/numbers/1/files/kept.bin"
    answer = await house.root.put(url, content=FILE, params=upload)
    assert answer.is_success, answer.text
    house.worker_1 = await house.worker("w1")
    house.first = await house.started("first")
    await ends(house, house.root, house.worker_1, house.first)


async def ends(house: House, root: Any, worker: Any, id_: str) -> None:
    async def is_done() -> bool:
        found = (await patiently(root, "GET", f"/experiments/{id_}")).json()
        assert found["state"] in ("pending", "running", "done"), found
        return bool(found["state"] == "done")

    async with asyncio.timeout(60):
        await worker.work(is_done)


async def picture(root: Any, id_: str) -> dict[str, Any]:
    """Return what a person sees of the server and its experiment."""
    paths = {
        "experiments": "/experiments",
        "experiment": f"/experiments/{id_}",
        "results": f"/experiments/{id_}/results",
        "events": f"/experiments/{id_}/events?limit=1000",
        "files": "/databases/numbers/1/files",
        "queues": "/queues",
        "rights": "/rights",
        "users": "/users",
    }
    found = {}
    for name, path in paths.items():
        answer = await patiently(root, "GET", path)
        assert answer.status_code == 200, answer.text
        found[name] = answer.json()
    return found


def stored(data: Path) -> dict[str, str]:
    """Return the hash of every finished file of files/ and cache/."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("files", "cache")
        for path in sorted((data / folder).rglob("*"))
        if path.is_file() and not {"incoming", "proof"} & set(path.parts)
    }


async def assert_it_goes_on(house: House, server: ServerProcess) -> None:
    """The restored server takes all from the cache; new work reads what was restored."""
    root = await house.client(house.token, url=server.url)
    answer = await patiently(root, "POST", f"/experiments/{house.first}/start")
    assert answer.status_code == 200, answer.text
    found = (await root.get(f"/experiments/{house.first}")).json()  # no worker has come yet
    assert (found["state"], found["counts"]) == ("done", {"cached": 3})

    house.worker_1.client = await house.client(url=server.url)
    assert (await house.worker_1.register()).status_code == 200  # its credential holds
    blocks = {"double": EXPERIMENT["blocks"]["double"] | {"parameters": {"factor": 5}}}
    other = experiment("other", declaration=EXPERIMENT | {"blocks": blocks})
    made = (await root.post("/experiments", json=other)).json()
    await root.post(f"/experiments/{made['id']}/start")
    await ends(house, root, house.worker_1, made["id"])
    found = (await root.get(f"/experiments/{made['id']}")).json()
    assert found["counts"] == {"cached": 1, "done": 2}


# ---- the three ways -----------------------------------------------------------------------


async def test_a_running_server_is_backed_up_and_restored_elsewhere(
    house: House, start_server: Start, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    before, files = await picture(house.root, house.first), stored(house.server.data)
    assert any(name.startswith("files/") for name in files)
    assert any(name.startswith("cache/") for name in files)
    run(PROGRAMS, BACK_UP, DATA=house.server.data, BACKUP=tmp_path)
    house.server.kill()

    name = await databases.create_database(postgres, template="template0")
    try:
        data = house.server.data.parent / "restored"
        data.mkdir()
        url = plain(postgres.url(name))
        set_up = PROGRAMS.partition("DATABASE=")[0]  # the programs, not the embedded database
        run(set_up, RESTORE, DATA=data, BACKUP=tmp_path, DATABASE=url)
        assert stored(data) == files
        restored = ServerProcess(data, {"GRISTMILL_DATABASE_URL": postgres.url(name)})
        restored.start()
        try:
            root = await house.client(house.token, url=restored.url)
            assert await picture(root, house.first) == before
            await assert_it_goes_on(house, restored)
        finally:
            restored.stop()
    finally:
        await databases.drop_database(postgres, name)


async def test_the_folder_of_a_stopped_server_is_all_there_is(house: House, tmp_path: Path) -> None:
    before, files = await picture(house.root, house.first), stored(house.server.data)
    house.server.stop()
    run(COPY, DATA=house.server.data, BACKUP=tmp_path)
    data = house.server.data.parent / "copied"
    data.mkdir()
    run(COPY_BACK, DATA=data, BACKUP=tmp_path)
    assert stored(data) == files
    copied = ServerProcess(data)
    copied.start()
    try:
        root = await house.client(house.token, url=copied.url)
        assert await picture(root, house.first) == before
        await assert_it_goes_on(house, copied)
    finally:
        copied.stop()


async def test_the_nightly_script_keeps_seven_whole_backups(house: House, tmp_path: Path) -> None:
    (tmp_path / "of-somebody-else").mkdir()
    for day in range(1, 9):
        (tmp_path / f"2026-01-0{day}T033000").mkdir()
    script = str(ROOT / "deploy" / "backup.sh")
    run(PROGRAMS, "export DATABASE", script, DATA=house.server.data, BACKUPS=tmp_path)
    *old, new, other = sorted(path.name for path in tmp_path.iterdir())
    assert (other, old) == ("of-somebody-else", [f"2026-01-0{day}T033000" for day in range(3, 9)])
    kept = {path.name for path in (tmp_path / new).iterdir()}
    assert kept == {"database.dump", "data.tar", "contents.txt"}
    assert " experiment " in (tmp_path / new / "contents.txt").read_text()
    assert (tmp_path / new).stat().st_mode & 0o077 == 0


def test_the_nightly_script_carries_out_the_page() -> None:
    def words(text: str) -> list[str]:
        return text.replace("$unfinished", "$BACKUP").split()

    script = (ROOT / "deploy" / "backup.sh").read_text()
    page = " ".join(words(BACK_UP))
    assert page in " ".join(words(script))
