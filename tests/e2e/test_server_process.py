"""The server as a process: killed, started again, stopped, started twice."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

pytestmark = pytest.mark.e2e
Start = Callable[..., ServerProcess]


def _postgres_of(server: ServerProcess) -> int:
    home = server.data / "postgres" / "data" / "postmaster.pid"
    return int(home.read_text().splitlines()[0])


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and not _is_zombie(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_kill_9_leaves_no_database_behind_and_the_next_start_works(start_server: Start) -> None:
    server = start_server()
    token = server.create_admin()
    with server.client(token) as client:
        body = {"name": "kept", "declaration": {"x": "int8"}}
        assert client.post("/dataformats", json=body).status_code == 201
    for _ in range(2):
        postgres = _postgres_of(server)
        server.kill()
        _wait_until_gone(postgres)
        server.start()
        with server.client(token) as client:  # what was acknowledged is there, the token is good
            assert client.get("/dataformats/root/kept/1").status_code == 200


def test_a_start_right_after_kill_9_waits_for_the_old_database(start_server: Start) -> None:
    server = start_server()
    server.kill()
    server.start()
    with server.client() as client:
        assert client.get("/me").status_code == 401


def test_a_second_server_on_the_same_data_is_refused_in_a_sentence(start_server: Start) -> None:
    server = start_server()
    second = subprocess.run(
        server.argv("serve", "--port", "0"), capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert "another Gristmill server uses" in second.stderr
    assert "Traceback" not in second.stderr
    busy = subprocess.run(
        [*server.argv("serve", "--port", str(server.port))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert busy.returncode == 1
    assert "cannot listen on" in busy.stderr


def test_an_administrator_is_made_while_the_server_runs(start_server: Start) -> None:
    server = start_server()
    printed = server.run("create-admin", "ann")
    password = printed.rpartition("password (shown once): ")[2].strip()
    with server.client() as client:
        form = {"username": "ann", "password": password}
        assert client.post("/auth/token", data=form).status_code == 200
    assert server.run("create-admin", "ann", "--if-missing") == ""
    assert "at revision" in server.run("migrate")


def test_stopping_is_clean(start_server: Start) -> None:
    server = start_server()
    postgres = _postgres_of(server)
    server.stop()
    assert not Path(f"/proc/{postgres}").exists()
    log = (server.data / "postgres" / "postgres.log").read_text()
    assert "database system is shut down" in log
    assert "Traceback" not in server.log.read_text()


def test_settings_that_are_wrong_are_told_in_a_sentence(tmp_path: Path) -> None:
    for name, value in (("GRISTMILL_PORT", "many"), ("DATABASE_URL", "mysql://x/y")):
        server = ServerProcess(tmp_path, {name: value})
        done = subprocess.run(
            server.argv("migrate"),
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin", name: value},
        )
        assert done.returncode == 1, name
        assert done.stderr.startswith("gristmill: ")
        assert "Traceback" not in done.stderr
