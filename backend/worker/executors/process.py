"""Runs jobs as processes of this machine, each in its own sandbox, and holds them to limits.

Why a job was ended is noted before it is killed; an exit status alone proves nothing. A job is over
when nothing of it is left: inside bubblewrap that is when the first process of its PID namespace is
gone, since the kernel lets that one go last.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import IO, Any

from backend.worker import processes, trees
from backend.worker.executors.base import (
    CannotStart,
    Ended,
    Environment,
    Listener,
    Measured,
    PreparedJob,
    Quotas,
    Reason,
)
from backend.worker.executors.launch import MARK, Request, Sandbox, Started
from backend.worker.executors.standby import FOLDERS, Standby
from backend.worker.logs import LogKeeper
from backend.worker.sandbox.cgroups import Group, Groups
from backend.worker.texts import storable
from gristmill.protocol import Usage

MIB = 2**20
LOOK = 0.05  #: seconds between two looks at memory and processes
LOOK_DISK = 0.5  #: seconds between two looks at the job folder
GRACE = 1.0  #: seconds between SIGTERM and SIGKILL
CHUNK = 2**20
GENTLE = frozenset({Reason.CANCELLED, Reason.RETURNED, Reason.TIME})  #: SIGTERM first
CHILD = re.compile(rb'"child-pid": *(\d+)[^\d]')
NOT_WRITTEN = frozenset({"inputs", "data"})  #: folders of a job that are not its own doing
MESSAGE_LIMIT = 64 * 1024  #: bytes of one message line


class ProcessExecutor:
    """Starts jobs on this machine."""

    name = "process"
    durable = False

    def __init__(
        self, work: Path, sandbox: Sandbox, groups: Groups, quotas: Quotas, standby: int = 0
    ) -> None:
        self.sandbox = sandbox.name
        self.limits = groups.limits
        self._sandbox, self._groups, self._quotas = sandbox, groups, quotas
        ahead = standby if sandbox.job is not None else 0
        self.standby = Standby(work / "standby", ahead, self._start_ahead)
        processes.adopt_orphans()

    def survivors(self) -> tuple[PreparedJob, ...]:
        """Return nothing: our jobs die with us."""
        return ()

    def pick_up(self, job: PreparedJob, listener: Listener) -> ProcessHandle:
        """Refuse: there is nothing to pick up."""
        raise CannotStart(f"{job.attempt} died with the process that started it")

    def forget(self, attempt: str) -> None:
        """Nothing is kept of a job."""

    def close(self, *, leave: bool = False) -> None:
        """End what waits for jobs."""
        self.standby.close()

    def start(self, job: PreparedJob, listener: Listener) -> ProcessHandle:
        """Start a job; the calling thread must stay alive until it has ended."""
        linked = self._sandbox.job is not None and _link(job)
        ready = None
        if linked and job.root is None:
            ready = self.standby.take(job.environment, job.limits.cores)
        if ready is None:
            started, group = self._start_cold(job, () if linked else job.inputs)
            return ProcessHandle(job, listener, started, group, self._quotas, job.attempt)
        _move_in(job.folder, ready.folder)
        ready.group.limit(job.limits.memory_mb, self._quotas.processes)
        _write_job(job, ready.started.messages_fd)
        _tell(ready.started)
        return ProcessHandle(job, listener, ready.started, ready.group, self._quotas, ready.mark)

    def _start_cold(
        self, job: PreparedJob, inputs: tuple[tuple[Path, str], ...]
    ) -> tuple[Started, Group]:
        # what is to be mounted over must be there first
        for path in (job.folder / "job.json", *(job.folder / place for _, place in inputs)):
            if self._sandbox.job is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        group = self._group(job.attempt)
        group.limit(job.limits.memory_mb, self._quotas.processes)
        return self._start(
            Request(
                call="run",
                folder=job.folder,
                environment=job.environment,
                cores=job.limits.cores,
                mark=job.attempt,
                quotas=self._quotas,
                groups=group.joins(),
                before=lambda descriptor: _write_job(job, descriptor),
                inputs=inputs,
                root=job.root,
            ),
            group,
        )

    def _start_ahead(
        self, environment: Environment, cores: int, folder: Path, mark: str
    ) -> tuple[Started, Group]:
        group = self._group(mark)
        return self._start(
            Request(
                call="standby",
                folder=folder,
                environment=environment,
                cores=cores,
                mark=mark,
                quotas=self._quotas,
                groups=group.joins(),
            ),
            group,
        )

    def _group(self, mark: str) -> Group:
        try:
            return self._groups.make(f"gristmill-{os.getpid()}-{mark}")
        except OSError as error:
            raise CannotStart(f"no control group can be made: {error}") from error

    def _start(self, request: Request, group: Group) -> tuple[Started, Group]:
        try:
            return self._sandbox.start(request), group
        except OSError as error:
            group.remove()
            raise CannotStart(f"the job cannot be started: {error}") from error
        except BaseException:
            group.remove()
            raise


def _write_job(job: PreparedJob, descriptor: int) -> None:
    """Write job.json in place: a sandbox may have that very file mounted already."""
    with (job.folder / "job.json").open("w", encoding="utf-8") as file:
        json.dump({**job.job, "messages_fd": descriptor}, file)


def _tell(started: Started) -> None:
    """Let a process that waits go on; should it be gone, its status will say so."""
    assert started.process.stdin is not None
    with contextlib.suppress(OSError):
        started.process.stdin.write(b"run\n")
        started.process.stdin.close()


def _link(job: PreparedJob) -> bool:
    """Bring inputs into the job folder as hard links; False where that cannot be done."""
    made: list[Path] = []
    for source, place in job.inputs:
        target = job.folder / place
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(source.resolve())
        except OSError:
            for path in made:
                path.unlink()
            return False
        made.append(target)
    return True


def _move_in(prepared: Path, waiting: Path) -> None:
    """Give a process that waits its job: the folder it sees takes over what was prepared."""
    for name in FOLDERS:
        if (prepared / name).is_dir():
            for entry in (prepared / name).iterdir():
                entry.rename(waiting / name / entry.name)
    shutil.rmtree(prepared)
    waiting.rename(prepared)


class ProcessHandle:
    """A job that runs on this machine."""

    def __init__(
        self,
        job: PreparedJob,
        listener: Listener,
        started: Started,
        group: Group,
        quotas: Quotas,
        mark: str,
    ) -> None:
        self._job, self._listener, self._started = job, listener, started
        self._group, self._quotas, self._mark = group, quotas, mark
        self._begun = time.monotonic()
        self._deadline = self._begun + job.limits.time_seconds
        self._measured = Measured()
        self._log = LogKeeper(listener.log, quotas.log_bytes)
        self._messages = b""
        self._told_started = False
        self._reason: Reason | None = None
        self._detail = ""
        self._kill_at: float | None = None
        self._lock = threading.Lock()
        self._wake_out, self._wake_in = os.pipe()
        self._pid = started.process.pid
        self._first: int | None = None  #: process 1 of the job's PID namespace, as we number it
        self._first_fd: int | None = None
        self._info = b""
        self._doomed: list[tuple[int, int]] = []  #: what we killed, to be waited for
        self._next_look = self._begun
        self._next_disk = self._begun + LOOK_DISK
        self._wall = 0.0

    # ---- what others call

    def kill(self, reason: Reason) -> None:
        """Have the job ended; the first reason given holds."""
        self._end(reason, "")
        with contextlib.suppress(OSError):
            os.write(self._wake_in, b".")

    def usage(self) -> Usage:
        """What the job has taken so far."""
        measured = self._measured
        return Usage(
            wall_seconds=round(self._wall or time.monotonic() - self._begun, 6),
            cpu_user_seconds=round(measured.user_seconds, 6),
            cpu_system_seconds=round(measured.system_seconds, 6),
            peak_memory_mb=round(max(measured.memory_bytes / MIB, self._group.peak_mb()), 3),
        )

    def wait(self) -> Ended:
        """Follow the job until nothing is left of it."""
        try:
            with os.fdopen(os.pidfd_open(self._pid), "rb", closefd=True) as over:
                self._follow(over)
            code = self._reap()
            self._finish_log()
            return self._ended(code)
        finally:
            self._started.close()
            self._group.remove()
            with self._lock:
                os.close(self._wake_in)
                os.close(self._wake_out)
                self._wake_in = -1

    # ---- the loop

    def _follow(self, over: IO[bytes]) -> None:
        with selectors.DefaultSelector() as selector:
            self._watch(selector)
            selector.register(over, selectors.EVENT_READ, "over")
            selector.register(self._wake_out, selectors.EVENT_READ, "wake")
            while True:
                ready = {key.data: key.fileobj for key, _ in selector.select(LOOK)}
                for name in ("info", "messages", "stdout", "stderr"):
                    if name in ready:
                        self._read(name, selector)
                if "wake" in ready:
                    os.read(self._wake_out, 64)
                if "over" in ready:
                    return
                self._look(time.monotonic())

    def _watch(self, selector: selectors.BaseSelector) -> None:
        for name in ("info", "messages", "stdout", "stderr"):
            pipe: IO[bytes] | None = getattr(self._started, name)
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, name)

    def _read(self, name: str, selector: selectors.BaseSelector | None) -> bool:
        """Read what a pipe holds now; False once it is empty or at its end."""
        pipe: IO[bytes] = getattr(self._started, name)
        try:
            data = os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if not data:
            if selector is not None:
                selector.unregister(pipe)
            return False
        if name == "messages":
            self._hear(data)
        elif name == "info":
            self._learn(data)
        else:
            self._log.feed(name, data)
        return True

    def _learn(self, data: bytes) -> None:
        """Bubblewrap says, piece by piece, which process is the first of the namespace."""
        self._info += data
        found = CHILD.search(self._info)
        if found is not None and self._first is None:
            self._first = int(found[1])
            with contextlib.suppress(ProcessLookupError):
                self._first_fd = os.pidfd_open(self._first)

    def _hear(self, data: bytes) -> None:
        *lines, self._messages = (self._messages + data).split(b"\n")
        if len(self._messages) > MESSAGE_LIMIT:
            self._messages = b""
        for line in lines:
            message = _parse(line)
            if message.get("kind") == "started":
                self._begun_at_last()
            elif message.get("kind") == "progress":
                self._progress(message)

    def _begun_at_last(self) -> None:
        if not self._told_started:
            self._told_started = True
            self._listener.started()

    def _progress(self, message: dict[str, Any]) -> None:
        fraction, text = message.get("fraction"), message.get("message")
        if isinstance(fraction, int | float) and 0 <= fraction <= 1:
            self._listener.progress(float(fraction), None if text is None else storable(text, 1000))

    # ---- limits

    def _look(self, now: float) -> None:
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._destroy()
            return
        if now >= self._deadline:
            self._end(Reason.TIME, f"{self._job.limits.time_seconds} s")
        if now < self._next_look:  # a flood of output must not make us look without end
            return
        self._next_look = now + LOOK
        self._look_at_processes()
        if now >= self._next_disk:
            self._next_disk = now + LOOK_DISK
            self._look_at_disk()

    def _look_at_processes(self) -> None:
        pids = self._tree()
        load = processes.load(pids[: self._quotas.processes + 8])
        memory = load.memory_bytes
        if self._first is not None:
            memory += processes.temporary_bytes(self._first, self._quotas.temporary_bytes)
        measured = self._measured
        measured.memory_bytes = max(measured.memory_bytes, memory)
        measured.user_seconds = max(measured.user_seconds, load.user_seconds)
        measured.system_seconds = max(measured.system_seconds, load.system_seconds)
        # a fork bomb is over both limits: the number of processes is what is wrong with it
        if len(pids) > self._quotas.processes:
            self._end(Reason.PROCESSES, f"more than {self._quotas.processes} processes")
        elif memory > self._job.limits.memory_mb * MIB or self._group.out_of_memory():
            self._end(Reason.MEMORY, f"{memory // MIB} MB of {self._job.limits.memory_mb} MB")

    def _look_at_disk(self) -> None:
        reason = self._disk_reason()
        if reason is not None:
            self._end(*reason)
        elif self._lacks_space():
            self._end(Reason.NO_SPACE, f"less than {self._quotas.free_bytes // MIB} MB free")

    def _disk_reason(self) -> tuple[Reason, str] | None:
        """Return why the job's folder is too much, if it is."""
        size, files = trees.use(self._job.folder, self._quotas.files, NOT_WRITTEN)
        if files > self._quotas.files:
            return Reason.DISK, f"over {self._quotas.files} files, or folders nested too deep"
        if size > self._quotas.disk_bytes:
            return Reason.DISK, f"{size // MIB} MB in {files} files"
        return None

    def _tree(self) -> list[int]:
        found = processes.descendants(self._pid)
        if self._started.info is None:
            found = [self._pid, *found, *processes.marked(f"{MARK}={self._mark}")]
        return list(dict.fromkeys(found))

    def _end(self, reason: Reason, detail: str) -> None:
        """Note why, then send the first signal."""
        with self._lock:
            if self._reason is not None or self._wake_in < 0:
                return
            self._reason, self._detail = reason, detail
            gentle = reason in GENTLE
            self._kill_at = time.monotonic() + (GRACE if gentle else 0.0)
        if gentle:
            # the sandbox's own first process takes no part: it ends with the last of the others
            processes.send([p for p in self._tree() if p != self._first], signal.SIGTERM)
        else:
            self._destroy()

    def _destroy(self) -> None:
        """Kill everything. Bubblewrap's end is the end of its PID namespace."""
        if self._started.info is None:
            processes.send(self._tree(), signal.SIGKILL)
        self._doomed += processes.destroy(self._pid)

    # ---- the end

    def _reap(self) -> int:
        """Wait until the last process is gone; return the status as a shell would."""
        _, status, used = os.wait4(self._pid, 0)
        self._wall = time.monotonic() - self._begun
        self._started.process.returncode = os.waitstatus_to_exitcode(status)
        measured = self._measured
        measured.user_seconds = max(measured.user_seconds, used.ru_utime)
        measured.system_seconds = max(measured.system_seconds, used.ru_stime)
        if not measured.memory_bytes:  # it ended before the first look
            measured.memory_bytes = used.ru_maxrss * 1024
        processes.wait_gone(self._doomed)
        if self._started.info is not None:
            self._wait_for_namespace()
        else:
            self._clear_marked()
        code = self._started.process.returncode
        return code if code >= 0 else 128 - code

    def _wait_for_namespace(self) -> None:
        """Bubblewrap is gone; make sure that what it started is, too."""
        if self._first is None or self._first_fd is None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first_fd, signal.SIGKILL)
        processes.wait_over(self._first_fd)
        os.close(self._first_fd)
        processes.reap(self._first)

    def _clear_marked(self) -> None:
        """Without a sandbox, what a job left running is found by the mark in its environment."""
        while left := processes.marked(f"{MARK}={self._mark}"):
            processes.send(left, signal.SIGKILL)
            for pid in left:
                processes.reap(pid)

    def _finish_log(self) -> None:
        for name in ("messages", "stdout", "stderr"):
            while self._read(name, None):
                continue
        self._log.close()

    def _ended(self, code: int) -> Ended:
        if self._reason is None and self._group.out_of_memory():
            self._reason = Reason.MEMORY
            self._detail = f"the kernel ended it at {self._job.limits.memory_mb} MB"
        if self._reason is None:  # it may have written much since the last look
            self._reason, self._detail = self._disk_reason() or (None, "")
        if self._reason is None and code != 0 and self._lacks_space():
            # whatever error the job made of it, it is not the job's
            self._reason, self._detail = Reason.NO_SPACE, "it is nearly full"
        return Ended(exit_code=code, reason=self._reason, usage=self.usage(), detail=self._detail)

    def _lacks_space(self) -> bool:
        return shutil.disk_usage(self._job.folder).free < self._quotas.free_bytes


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
