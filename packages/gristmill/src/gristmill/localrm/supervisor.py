"""Starts what may start. One process for each folder, by a lock; there while there is work.

All that it knows is in the store: killed and started again it goes on where it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from gristmill.jobs import JobState, Relation, overall
from gristmill.localrm import processes, shepherd
from gristmill.localrm.store import Machine, Store, machine
from gristmill.records import Cause

ADOPTION = 10.0  #: seconds within which a shepherd takes a task on
PATROL = 2.0  #: seconds between looks at shepherds that may have died


def wake(place: Path) -> None:
    """Tell the supervisor that something has changed; start one when there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        try:
            with _near(place):
                sock.sendto(b"!", "wake")
            return
        except BlockingIOError:
            return  # its mailbox is full of calls already
        except OSError:
            pass
    start(place)


def start(place: Path) -> None:
    """Start a supervisor in the background; a second one ends at once."""
    package = Path(__file__).parents[2]
    with (place / "supervisor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "gristmill.localrm.supervisor", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"},
        ).returncode = 0  # it outlives us: nobody waits for it


@contextlib.contextmanager
def _near(place: Path) -> Iterator[None]:
    """Work in the folder: the path of a socket ends at 107 bytes, names in it are short."""
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(place)
        yield
    finally:
        os.fchdir(here)
        os.close(here)


def main(place: Path) -> None:
    """Supervise until there is nothing left to do."""
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # waits for one that is about to end
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # shepherds are not waited for
    os.chdir(place)
    nursery = _open_nursery(place, lock)
    store = Store(place)
    resources = machine(place)
    while True:
        with _mailbox() as box:
            while (pause := one_pass(store, resources, nursery, time.time())) is not None:
                _wait(box, pause)
        # the mailbox is closed: who submits from now on starts another. Anyone before?
        if one_pass(store, resources, nursery, time.time()) is None:
            return


@contextlib.contextmanager
def _mailbox() -> Iterator[socket.socket]:
    with contextlib.suppress(FileNotFoundError):
        Path("wake").unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as box:
        box.setblocking(False)
        box.bind("wake")
        try:
            yield box
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path("wake").unlink()


def _wait(box: socket.socket, pause: float) -> None:
    select.select([box], [], [], pause)
    with contextlib.suppress(BlockingIOError):
        while box.recv(16):
            pass


def one_pass(store: Store, resources: Machine, nursery: int, now: float) -> float | None:
    """Bury the dead, settle dependencies, start what fits.

    Gives the seconds until the next pass is due, None when there is nothing to wait for.
    """
    _bury(store, now)
    _settle(store, now)
    waiting = store.query(
        "select j.id, j.cores, j.memory, j.gpus, j.begin, j.throttle, j.dependencies, t.idx "
        "from tasks t join jobs j on j.id = t.job where t.state = 'queued' "
        "order by j.priority desc, j.id, t.idx"
    )
    begins = [row["begin"] - now for row in waiting if row["begin"] and row["begin"] > now]
    _start_all(store, resources, nursery, [row for row in waiting if (row["begin"] or 0) <= now])
    active = store.query(
        "select count(*) as n from tasks where state in ('queued', 'running', 'completing')"
    )
    if active[0]["n"] == 0:
        return None
    due: float = min([PATROL, *begins])
    return max(0.01, due)


def _bury(store: Store, now: float) -> None:
    """Tasks whose shepherd died without writing their end: a reboot, or a kill.

    One that no shepherd ever took on is queued again.
    """
    store.write(
        "update tasks set state = 'queued', started = null "
        "where state = 'running' and shepherd is null and started < ?",
        [now - ADOPTION],
    )
    for task in store.query(
        "select job, idx, shepherd, shepherd_born, cancelled from tasks "
        "where state in ('running', 'completing') and shepherd is not null"
    ):
        if not processes.alive(task["shepherd"], task["shepherd_born"]):
            end = JobState.CANCELLED if task["cancelled"] else JobState.NODE_FAILURE
            store.finish(task["job"], task["idx"], end, ended=now)


def _settle(store: Store, now: float) -> None:
    """Cancel what waits for something that can no longer happen, to the last dependent."""
    while True:
        closed = [
            (row["job"], row["idx"])
            for row in store.query(
                "select t.job, t.idx, j.dependencies from tasks t join jobs j on j.id = t.job "
                "where t.state in ('queued', 'held') and j.dependencies != '[]'"
            )
            if _verdict(store, row["dependencies"], row["idx"]) is False
        ]
        for job, index in closed:
            store.finish(
                job, index, JobState.CANCELLED, ended=now, cause=Cause.DEPENDENCY_NEVER.value
            )
        if not closed:
            return


def _verdict(store: Store, dependencies: str, index: int) -> bool | None:
    verdicts = []
    for relation, target, element_wise in json.loads(dependencies):
        states = [
            JobState(row["state"])
            for row in store.query("select idx, state from tasks where job = ?", [target])
            if not element_wise or row["idx"] == index
        ]
        verdicts.append(Relation(relation).satisfied_by(overall(states or [JobState.LOST])))
    if False in verdicts:
        return False
    return all(verdicts) or None


def _start_all(store: Store, resources: Machine, nursery: int, waiting: list[sqlite3.Row]) -> None:
    """In order, without overtaking: a large job is not passed by small ones for ever."""
    running = store.query(
        "select j.id, j.cores, j.memory, t.devices from tasks t join jobs j on j.id = t.job "
        "where t.state in ('running', 'completing')"
    )
    cores = resources.slots - sum(row["cores"] for row in running)
    memory = resources.memory - sum(row["memory"] for row in running)
    taken = {device for row in running for device in row["devices"].split(",")}
    gpus = [str(n) for n in range(resources.gpus) if str(n) not in taken]
    elements: dict[int, int] = {}
    for row in running:
        elements[row["id"]] = elements.get(row["id"], 0) + 1
    for row in waiting:
        if cores <= 0:
            return
        if row["throttle"] and elements.get(row["id"], 0) >= row["throttle"]:
            continue
        if row["dependencies"] != "[]" and not _verdict(store, row["dependencies"], row["idx"]):
            continue
        if row["cores"] > cores or row["memory"] > memory or row["gpus"] > len(gpus):
            return
        cores -= row["cores"]
        memory -= row["memory"]
        devices, gpus = gpus[: row["gpus"]], gpus[row["gpus"] :]
        elements[row["id"]] = elements.get(row["id"], 0) + 1
        _hand_over(store, nursery, row["id"], row["idx"], ",".join(devices))


def _hand_over(store: Store, nursery: int, job: int, index: int, devices: str) -> None:
    """Have a shepherd started. The task is running from here on: a pass that follows counts it."""
    changed = store.write(
        "update tasks set state = 'running', started = ?, devices = ? "
        "where job = ? and idx = ? and state = 'queued'",
        [time.time(), devices, job, index],
    )
    if changed:
        os.write(nursery, f"{job} {index} {devices}\n".encode())


def _open_nursery(place: Path, lock: int) -> int:
    """A process that forks shepherds, asked through the pipe whose end this gives.

    It is made before anything here opens the store: SQLite does not survive a fork.
    """
    reading, writing = os.pipe()
    if os.fork() != 0:
        os.close(reading)
        os.set_inheritable(writing, False)
        return writing
    os.close(writing)
    os.close(lock)  # a shepherd must not keep the lock of a supervisor that died
    with os.fdopen(reading, encoding="ascii") as orders:
        for order in orders:
            job, index, devices = order.rstrip("\n").split(" ")
            if os.fork() == 0:
                _become_shepherd(place, int(job), int(index), devices)
    os._exit(0)


def _become_shepherd(place: Path, job: int, index: int, devices: str) -> None:
    code = 1
    try:
        os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 65536))
        shepherd.run(place, job, index, devices)
        wake(place)
        code = 0
    except BaseException:
        traceback.print_exc()  # to supervisor.log; nobody else could hear of it
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
