"""The embedded server: ends with us however we end, and starts again."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.app import embedded_postgres
from backend.app.embedded_postgres import Busy, CannotStart, EmbeddedPostgres
from tests import postgres as databases

STARTER = """
import signal, sys
from pathlib import Path
from backend.app import embedded_postgres
server = embedded_postgres.start(Path(sys.argv[1]))
print(server.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="gristmill-pg-"))
    made.chmod(0o755)
    yield made / "postgres"
    shutil.rmtree(made)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not _gone(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.01)


async def test_start_use_stop_start(folder: Path) -> None:
    server = embedded_postgres.start(folder)
    await databases.execute(server, "CREATE TABLE kept (a int)")
    server.stop()
    assert _gone(server.pid)
    again = embedded_postgres.start(folder)
    await databases.execute(again, "INSERT INTO kept VALUES (1)")
    again.stop()


async def test_kill_9_of_the_parent_leaves_no_server_and_the_next_start_works(
    folder: Path,
) -> None:
    for _ in range(2):
        argv = [sys.executable, "-c", STARTER, str(folder)]
        parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
        server = embedded_postgres.start(folder)  # at once: it waits for the old one to end
        assert _gone(pid)
        await databases.execute(server, "SELECT 1")
        server.stop()
        _wait_until_gone(server.pid)


def test_a_second_start_is_refused_and_told_how_to_reach_the_first(folder: Path) -> None:
    server = embedded_postgres.start(folder)
    with pytest.raises(Busy) as refused:
        embedded_postgres.start(folder)
    assert refused.value.url == server.url()
    server.stop()


async def test_a_pid_file_naming_an_innocent_process_does_not_matter(folder: Path) -> None:
    server = embedded_postgres.start(folder)
    server.stop()
    pid_file = folder / "data" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{folder / 'data'}\n")
    again = embedded_postgres.start(folder)
    await databases.execute(again, "SELECT 1")
    again.stop()


def test_nobody_else_reaches_it(folder: Path, postgres: EmbeddedPostgres) -> None:
    server = embedded_postgres.start(folder)
    socket = folder / "socket"
    assert socket.stat().st_mode & 0o777 == 0o700
    assert not _listens_on_a_network(server.pid)
    server.stop()


def _listens_on_a_network(pid: int) -> bool:
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        inodes.add(str(descriptor.readlink()))
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return any(f"socket:[{row[9]}]" in inodes for row in rows)


def test_it_runs_as_ourselves_or_for_root_as_somebody_else(folder: Path) -> None:
    server = embedded_postgres.start(folder)
    owner = pwd.getpwuid(Path(f"/proc/{server.pid}").stat().st_uid)
    if os.geteuid() == 0:
        assert owner.pw_name in {"gristmill", "postgres", "nobody"}
    else:
        assert owner.pw_uid == os.geteuid()
    server.stop()


async def test_a_deep_folder_gets_a_short_socket_path(folder: Path) -> None:
    deep = folder.joinpath(*["a long name of a folder"] * 6)
    deep.parent.mkdir(parents=True)
    server = embedded_postgres.start(deep)
    await databases.execute(server, "SELECT 1")
    server.stop()


def test_somebody_elses_folder_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / "socket").symlink_to("/tmp")
    with pytest.raises(CannotStart, match="belongs to somebody else"):
        embedded_postgres.start(folder)
