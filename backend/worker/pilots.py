"""Pilots: workers that run as jobs of a resource manager, as many as what waits asks for.

`gristmill pilots` looks at the server's queues and at its own jobs, and submits a worker where
blocks wait and no pilot is free. A pilot stops by itself: when it was idle for long, and before its
walltime is over. What was submitted stands in a journal in the folder, so that another process
goes on where this one ended; pilots have numbered names, and of each name there is one job.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import structlog

from gristmill import quantities
from gristmill.cli import credentials
from gristmill.client import Client
from gristmill.connecting import connect
from gristmill.errors import GristmillError
from gristmill.jobs import Job, JobState
from gristmill.service import JobHandle, ResourceManager

log = structlog.get_logger()
MIB = 2**20
PRESENT = frozenset({"online", "draining"})  #: states of a worker that is there
SPARE = 120  #: seconds between a pilot's drain and its walltime: 60 of grace, 60 to spare
QUICK = 30.0  #: a pilot that fails sooner than this is not started again at once
LONGEST_PAUSE = 600.0
WRONG = 2  #: exit status when we cannot start as asked


class BadOptions(GristmillError):
    """The command line asks for what makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    manager: str
    least: int
    most: int
    folder: Path  #: that nodes see too
    config: Path  #: of the workers: environments and the like
    name: str
    queues: frozenset[str]  #: the platform's queues that count; none: all
    cores: int
    memory_mb: int
    blocks: int  #: that a pilot runs side by side
    seconds: int  #: walltime
    idle_seconds: float
    interval: float
    partition: str | None
    native: tuple[str, ...]
    site: Path | None
    python: str
    stop: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look shows."""

    waiting: int  #: blocks that no worker has
    busy: Mapping[str, bool]  #: of those pilots whose workers are there: whether they run anything


def wanted(options: Options, live: frozenset[str], seen: Seen) -> int:
    """Return how many pilots to start now.

    While one is free none is started for what waits: it would have got it, so what waits is kept
    back by something else (a user's right, an environment that pilots lack).
    """
    there = live & seen.busy.keys()
    free = any(not seen.busy[name] for name in there)
    starting = len(live) - len(there)
    useful = 0 if free else -(-seen.waiting // options.blocks) - starting
    return max(0, min(max(useful, options.least - len(live)), options.most - len(live)))


@dataclass(slots=True)
class Pilots:
    """The pilots of one folder."""

    options: Options
    rm: ResourceManager
    client: Client
    stop: threading.Event = field(default_factory=threading.Event)
    _jobs: dict[str, JobHandle] = field(default_factory=dict)
    _quick: int = 0  #: pilots in a row that failed at once
    _not_before: float = 0.0

    def recover(self) -> None:
        """Find the jobs that an earlier process submitted."""
        for run in self.rm.runs():
            for handle in self.rm.resume(run.id).handles:
                if handle.id:
                    self._jobs[handle.name] = handle

    def run(self) -> None:
        """Look, over and over, until stopped. The pilots go on."""
        while not self.stop.is_set():
            try:
                self.look()
            except GristmillError as error:
                log.warning("cannot look after the pilots now", why=str(error))
            self.stop.wait(self.options.interval)

    def look(self) -> None:
        """See what there is and what waits; start what is wanted."""
        self._refresh()
        live = frozenset(self._jobs)
        number = wanted(self.options, live, self._see())
        if number and time.monotonic() < self._not_before:
            return
        free = [name for name in self._names() if name not in live]
        for name in free[:number]:
            self._start(name)

    def end(self) -> None:
        """Have all pilots finish what they run, and end; those that have not started are gone."""
        self._refresh()
        for name, handle in self._jobs.items():
            if handle.state in (JobState.RUNNING, JobState.SUSPENDED):
                outcome = handle.signal("TERM")
            else:
                outcome = handle.cancel()
            log.info("told to end", pilot=name, job=handle.id, outcome=str(outcome))

    # ---- the steps

    def _refresh(self) -> None:
        """Ask the manager about all jobs at once, and forget those that ended."""
        if not self._jobs:
            return
        self.rm.status(*self._jobs.values())
        for name, handle in list(self._jobs.items()):
            if handle.state.final:
                del self._jobs[name]
                self._ended(name, handle)

    def _ended(self, name: str, handle: JobHandle) -> None:
        record = handle.record
        log.info("pilot ended", pilot=name, job=handle.id, state=str(record.state))
        began, ended = record.started, record.ended
        quick = began is None or ended is None or ended - began < QUICK
        if record.state is not JobState.FAILED or not quick:
            self._quick = 0
            return
        self._quick += 1
        pause = min(LONGEST_PAUSE, QUICK * 2.0 ** (self._quick - 1))
        self._not_before = time.monotonic() + pause
        log.error("a pilot failed at once; see its output", output=str(self._output(name)),
                  pause=pause)  # fmt: skip

    def _see(self) -> Seen:
        told = self.client.monitor()
        counted = self.options.queues
        waiting = sum(
            queue["waiting"] for queue in told["queues"] if not counted or queue["name"] in counted
        )
        ours = set(self._names())
        busy = {
            worker["name"]: bool(worker["running"])
            for worker in told["workers"]
            if worker["name"] in ours and worker["state"] in PRESENT
        }
        return Seen(waiting, busy)

    def _names(self) -> list[str]:
        return [f"{self.options.name}-{number + 1}" for number in range(self.options.most)]

    def _output(self, name: str) -> Path:
        return self.options.folder / f"{name}.log"

    def _start(self, name: str) -> None:
        self._make_credential(name)
        (handle,) = self.rm.submit(self.job(name)).handles
        self._jobs[name] = handle
        log.info("pilot submitted", pilot=name, job=handle.id)

    def job(self, name: str) -> Job:
        """Return the manager's job that is this pilot."""
        options = self.options
        return Job(
            command=[options.python, "-m", "backend.worker", *self._arguments(name)],
            name=name,
            directory=options.folder,
            stdout=self._output(name),
            time=options.seconds,
            memory=options.memory_mb * MIB,
            nodes=1,
            cores_per_node=options.cores,
            queue=options.partition,
            requeue=False,
            native={self.rm.name: options.native} if options.native else None,
        )

    def _arguments(self, name: str) -> list[str]:
        options = self.options
        keeps = self._names().index(name) < options.least  # these are never idle for too long
        given = {
            "--server": self.client.url,
            "--name": name,
            "--token-file": self._token_file(name),
            "--config": options.config,
            "--work": options.folder / f"worker-{name}",
            "--cores": options.cores,
            "--memory": max(1, options.memory_mb - 256),  # the worker itself takes some
            "--life-seconds": max(1, options.seconds - SPARE),
            **({} if keeps else {"--idle-seconds": options.idle_seconds}),
        }
        return [str(word) for pair in given.items() for word in pair]

    def _token_file(self, name: str) -> Path:
        return self.options.folder / f"{name}.token"

    def _make_credential(self, name: str) -> None:
        """Have the server make the worker's credential, at its first use."""
        path = self._token_file(name)
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.client.create_worker_credential(name))
            partial.replace(path)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    made = argparse.ArgumentParser(
        prog="gristmill pilots",
        description="Keep workers running as jobs of a resource manager, as many as needed.",
    )
    made.add_argument("--server", help="address of the server (default: the last login's)")
    made.add_argument("--token-file", type=Path, help="file with an administrator's token")
    made.add_argument("--manager", required=True, help="slurm, oar, gridengine, ssh://host/slurm …")
    made.add_argument("--min", type=int, default=0, help="pilots that are always there")
    made.add_argument("--max", type=int, default=1, help="pilots at most")
    made.add_argument("--folder", type=Path, required=True, help="for pilots; all nodes see it")
    made.add_argument("--config", type=Path, required=True, help="the workers' TOML file")
    made.add_argument("--name", default="pilot", help="workers are called NAME-1, NAME-2 …")
    made.add_argument("--queue", action="append", default=[], help="count only what waits in it")
    made.add_argument("--cores", type=int, default=1, help="of one pilot")
    made.add_argument("--memory", type=int, default=2048, metavar="MB", help="of one pilot")
    made.add_argument("--blocks", type=int, help="that a pilot runs side by side (default: cores)")
    made.add_argument("--time", default="8:00:00", help="walltime of a pilot")
    made.add_argument("--idle-seconds", type=float, default=300, help="then a pilot stops")
    made.add_argument("--interval", type=float, default=15, help="seconds between two looks")
    made.add_argument("--partition", help="the manager's queue")
    made.add_argument("--native", action="append", default=[], help="an option of the manager")
    made.add_argument("--site", type=Path, help="a site file")
    made.add_argument("--python", default=sys.executable, help="the interpreter on the nodes")
    made.add_argument("--stop", action="store_true", help="drain all pilots, and end")
    return made


def options_of(given: argparse.Namespace) -> Options:
    """Return the options. Raises BadOptions, or BadValue for a walltime that cannot be read."""
    if not 0 <= given.min <= given.max:
        raise BadOptions(f"--min {given.min} --max {given.max}: from 0 up to --max, please")
    sizes = (given.cores, given.memory, given.blocks or 1, given.interval)
    if min(sizes) <= 0:
        raise BadOptions("--cores, --memory, --blocks and --interval must be above 0")
    if not given.config.is_file():
        raise BadOptions(f"there is no file {given.config}: --config names the workers' TOML file")
    return Options(
        manager=given.manager,
        least=given.min,
        most=given.max,
        folder=given.folder.resolve(),
        config=given.config.resolve(),
        name=given.name,
        queues=frozenset(given.queue),
        cores=given.cores,
        memory_mb=given.memory,
        blocks=given.blocks or given.cores,
        seconds=quantities.seconds(given.time),
        idle_seconds=given.idle_seconds,
        interval=given.interval,
        partition=given.partition,
        native=tuple(given.native),
        site=given.site,
        python=given.python,
        stop=given.stop,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Look after pilots until told to stop; return the exit status."""
    from backend.worker.main import log_to_stderr

    log_to_stderr()
    given = parser().parse_args(argv)
    try:
        options = options_of(given)
        login = _login(given.server, given.token_file)
        with _locked(options.folder), Client(login.url, login.token) as client:
            return _run(options, client)
    except GristmillError as error:
        sys.stderr.write(f"gristmill pilots: {error}\n")
        return WRONG


def _run(options: Options, client: Client) -> int:
    journal = options.folder / "pilots.jsonl"
    with connect(options.manager, site=options.site, journal=journal) as rm:
        pilots = Pilots(options, rm, client)
        pilots.recover()
        if options.stop:
            pilots.end()
            return 0
        rm.plan(pilots.job(f"{options.name}-1")).require()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pilots.stop.set())
        pilots.run()
    return 0


def _login(server: str | None, file: Path | None) -> credentials.Login:
    if file is None:
        return credentials.login(server)
    if server is None:
        raise BadOptions("--token-file is for a server: give --server, too")
    try:
        return credentials.Login(server.rstrip("/"), file.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise BadOptions(f"the token file {file} cannot be read: {error.strerror}") from error


def _locked(folder: Path) -> IO[Any]:
    """Take the folder for us alone; it is let go when the file is closed."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise BadOptions(f"another `gristmill pilots` looks after {folder}") from error
    return file
