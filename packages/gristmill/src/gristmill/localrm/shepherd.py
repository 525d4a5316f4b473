"""One job's guardian: starts it, enforces its limits, ends its whole tree, writes how it ended.

It is forked by the supervisor but does not need it: when the supervisor dies the job goes on.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill import patterns
from gristmill.jobs import JobState
from gristmill.localrm import processes
from gristmill.localrm.store import Store
from gristmill.records import Cause

GRACE = 1.0  #: seconds between asking processes to end and killing them
SAMPLE = 0.1  #: seconds between two looks at the memory in use

_WATCHED = (signal.SIGCHLD, signal.SIGTERM)


@dataclass(slots=True)
class _Watch:
    """What the shepherd has seen of its job."""

    started: float
    limit: float | None
    memory: int
    peak: int = 0
    verdict: JobState | None = None  #: why we end it, when we do
    status: int | None = None
    cpu: float = 0.0


def run(place: Path, number: int, index: int, devices: str) -> None:
    """Run one task to its end. The process does nothing else, and exits with it."""
    os.setsid()
    processes.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    store = Store(place)
    mine = store.write(
        "update tasks set shepherd = ?, shepherd_born = ? "
        "where job = ? and idx = ? and state = 'running' and shepherd is null",
        [os.getpid(), processes.born(os.getpid()), number, index],
    )
    if not mine:
        return
    job = store.query(
        "select j.*, t.cancelled from jobs j join tasks t on t.job = j.id "
        "where j.id = ? and t.idx = ?",
        [number, index],
    )[0]
    if job["cancelled"]:
        store.finish(number, index, JobState.CANCELLED, ended=time.time())
        return
    attributes = json.loads(job["attributes"])
    watch = _Watch(time.time(), attributes.get("time"), job["memory"])
    try:
        child = _start(place, job, attributes, index, devices)
    except OSError as error:
        cause = f"{Cause.LAUNCH_FAILURE}: {error.strerror}: {error.filename}"
        store.finish(job["id"], index, JobState.FAILED, cause=cause, ended=time.time())
        return
    store.write(
        "update tasks set pid = ?, started = ?, state = 'running' where job = ? and idx = ?",
        [child.pid, watch.started, job["id"], index],
    )
    _guard(child.pid, watch)
    _end_tree(store, job["id"], index)
    _write_end(store, job["id"], index, watch)


def _start(
    place: Path, job: sqlite3.Row, attributes: dict[str, Any], index: int, devices: str
) -> subprocess.Popen[bytes]:
    spool = place / "spool"
    spool.mkdir(exist_ok=True)
    script = spool / f"{job['id']}.sh"
    if not script.exists():
        new = spool / f".{job['id']}.{os.getpid()}"
        new.write_text(job["script"], encoding="utf-8", errors="surrogateescape")
        new.replace(script)
    directory = attributes["directory"]
    if not Path(directory).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
    stdout = _open(attributes, "stdout", job, index)
    stderr = _open(attributes, "stderr", job, index) if "stderr" in attributes else stdout
    with stdout, stderr:
        return subprocess.Popen(
            ["/bin/sh", str(script)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            env=_environment(job, index, devices),
            start_new_session=True,
            restore_signals=True,
            preexec_fn=_unblock,
        )


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)


def _open(attributes: dict[str, Any], stream: str, job: sqlite3.Row, index: int) -> Any:
    array = str(job["id"])
    element = f"{array}_{index}" if index >= 0 else array
    path = patterns.expand(
        attributes[stream],
        job=element,
        array=array,
        index=index if index >= 0 else None,
        name=job["name"],
    )
    whole = Path(attributes["directory"]) / Path(path).expanduser()
    whole.parent.mkdir(parents=True, exist_ok=True)
    return whole.open("wb")


def _environment(job: sqlite3.Row, index: int, devices: str) -> dict[str, str]:
    own = {"GRISTMILL_LOCAL_JOB": str(job["id"])}
    if index >= 0:
        own["GRISTMILL_LOCAL_INDEX"] = str(index)
    if job["gpus"]:
        own["CUDA_VISIBLE_DEVICES"] = devices
    given = json.loads(job["environment"])
    given.pop("GRISTMILL_LOCAL_INDEX", None)  # when a job submits a job
    return {**given, **own}


def _guard(pid: int, watch: _Watch) -> None:
    """Until the job's first process has ended, of itself or by us."""
    kill_at: float | None = None
    while watch.status is None:
        got = signal.sigtimedwait(_WATCHED, _pause(watch, kill_at))
        now = time.time()
        _reap(pid, watch)
        if watch.status is not None:
            return
        if got is not None and got.si_signo == signal.SIGTERM and watch.verdict is None:
            watch.verdict = JobState.CANCELLED
        _check_limits(watch, now)
        if watch.verdict is not None and kill_at is None:
            processes.send(processes.descendants(os.getpid()), signal.SIGTERM)
            kill_at = now + (0 if watch.verdict is JobState.OUT_OF_MEMORY else GRACE)
        if kill_at is not None and now >= kill_at:
            processes.send(processes.descendants(os.getpid()), signal.SIGKILL)


def _pause(watch: _Watch, kill_at: float | None) -> float:
    if kill_at is not None:
        return 0.05
    longest = SAMPLE if watch.memory else 1.0
    if watch.limit is None:
        return longest
    return max(0.0, min(longest, watch.started + watch.limit - time.time()))


def _check_limits(watch: _Watch, now: float) -> None:
    used = processes.resident(processes.descendants(os.getpid()))
    watch.peak = max(watch.peak, used)
    if watch.verdict is not None:
        return
    if watch.memory and used > watch.memory:
        watch.verdict = JobState.OUT_OF_MEMORY
    elif watch.limit is not None and now >= watch.started + watch.limit:
        watch.verdict = JobState.TIMED_OUT


def _reap(pid: int, watch: _Watch) -> None:
    """Collect every child that has ended; orphans of the job are our children too."""
    while True:
        try:
            gone, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if gone == 0:
            return
        watch.cpu += usage.ru_utime + usage.ru_stime
        watch.peak = max(watch.peak, usage.ru_maxrss * 1024)
        if gone == pid:
            watch.status = status


def _end_tree(store: Store, job: int, index: int) -> None:
    """Nothing that the job left behind outlives it."""
    rest = processes.descendants(os.getpid())
    if not rest:
        return
    store.write("update tasks set state = 'completing' where job = ? and idx = ?", [job, index])
    processes.send(rest, signal.SIGTERM)
    end = time.time() + GRACE
    while rest and time.time() < end:
        signal.sigtimedwait(_WATCHED, 0.05)
        _reap(0, _Watch(0, None, 0))
        rest = processes.descendants(os.getpid())
    processes.send(rest, signal.SIGKILL)


def _write_end(store: Store, job: int, index: int, watch: _Watch) -> None:
    status = watch.status or 0
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else (code - 128 if 128 < code < 160 else None)
    state = watch.verdict or (JobState.DONE if code == 0 else JobState.FAILED)
    store.finish(
        job,
        index,
        state,
        ended=time.time(),
        exit_code=code if code >= 0 else 128 - code,
        signal=number,
        cpu=watch.cpu,
        peak=watch.peak,
    )
