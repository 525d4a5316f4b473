"""The worker: registers, polls, runs jobs, reports. This file is the story; the steps are beside.

Threads: one polls, one beats (so that a busy worker is not taken for dead), one sends reports, one
for each job (it is the parent of the job's processes, which die with it). The main thread waits for
a reason to stop.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from backend.worker import __version__, messages
from backend.worker.config import Config
from backend.worker.connection import Connection, Fenced, Pauses, Refused, Unauthorised, Unreachable
from backend.worker.executors.base import Environment, Executor, Reason
from backend.worker.folders import Folders
from backend.worker.inputs import Inputs
from backend.worker.jobs import Assigned, Job, Means, PickedUp
from backend.worker.outbox import Outbox
from backend.worker.outputs import Outputs
from gristmill import protocol
from gristmill.protocol import Assignment, FoundEnvironment, Registered, Report

log = structlog.get_logger()
POLL = 25.0  #: seconds that a poll may wait at the server
PROOF_PATIENCE = 5.0  #: seconds in which the server's file must be seen in a shared folder
LAST_WORDS = 10.0  #: seconds to get the last reports out before stopping

STOPPED, FENCED, REFUSED = 0, 3, 4  #: exit statuses


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the worker stops, and with which exit status."""

    status: int
    why: str


class Agent:
    """One worker process, from registration to its end."""

    def __init__(
        self,
        config: Config,
        host: str,
        environments: tuple[Environment, ...],
        executor: Executor,
        folders: Folders,
        connection: Connection,
    ) -> None:
        self._config, self._host, self._executor = config, host, executor
        self._connection, self._folders = connection, folders
        self._born = time.monotonic()
        self._stop = threading.Event()
        self._drain = threading.Event()
        self._ending: Ending | None = None
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._registered: Registered | None = None
        self._hurry = threading.Event()
        self._drained_there = False
        self._outbox = Outbox(folders.work / "outbox", join=not executor.durable)
        self._environments = environments
        self._leaves = executor.durable and config.manager.on_drain == "leave"
        inputs = Inputs(folders.work / "fetched", connection, config.fetched_bytes, self._pause)
        self._means = Means(
            environments={(e.name, e.version): e for e in environments},
            executor=executor,
            folders=folders,
            inputs=inputs,
            outputs=Outputs(connection, self._pause),
            data_folders=config.data_folders,
            report=self._report,
            now=connection.now,
        )

    # ---- the story

    def run(self) -> int:
        """Work until told to stop; return the exit status."""
        waiting = self._outbox.recover()
        picked_up = self._pick_up(waiting)
        self._register((*(job.attempt for job in picked_up), *waiting))
        for job in picked_up:
            job.cache = self._shared_cache()
            job.start()
        threads = [
            threading.Thread(target=self._guarded, args=(duty,), name=duty.__name__, daemon=True)
            for duty in (self._beat, self._send, self._poll)
        ]
        for thread in threads:
            thread.start()
        self._wait()
        return self._leave()

    def _pick_up(self, waiting: tuple[str, ...]) -> list[PickedUp]:
        """Make jobs of what went on while we were down, but for those whose end is known."""
        for attempt in waiting:
            self._executor.forget(attempt)
        found = [PickedUp(job, self._means) for job in self._executor.survivors()]
        with self._lock:
            self._jobs |= {job.attempt: job for job in found}
        if found:
            log.info("picking up", jobs=[job.attempt for job in found])
        return found

    def _look_idle(self, since: float | None) -> float | None:
        """Drain when our time is over, or there was no job for long; return since when."""
        life, limit = self._config.life_seconds, self._config.idle_seconds
        if life is not None and time.monotonic() >= self._born + life and not self._drain.is_set():
            self.drain()
        if limit is None or self._all_jobs():
            return None
        since = since or time.monotonic()
        if time.monotonic() - since >= limit and not self._drain.is_set():
            self.drain()
        return since

    def drain(self) -> None:
        """Take nothing new; stop once what runs is over. Asked again: hand back what runs."""
        if self._drain.is_set():
            self._hurry.set()
        else:
            log.info("draining: no new jobs; the running ones may finish", running=self.running())
        self._drain.set()

    def running(self) -> tuple[str, ...]:
        """Return the attempts that this worker holds, as far as the server can know.

        One that is over stays until its end was heard: the server would else take it for one
        that never arrived, and give it again.
        """
        with self._lock:
            return tuple(dict.fromkeys((*self._jobs, *sorted(self._outbox.unheard()))))

    def _wait(self) -> None:
        """Until drained (and nothing runs), fenced, or refused."""
        deadline: float | None = None
        idle: float | None = None
        while not self._stop.is_set():
            self._stop.wait(0.1)
            idle = self._look_idle(idle)
            if not self._drain.is_set():
                continue
            if self._leaves and not self._hurry.is_set() and self._all_jobs():
                self._executor.close(leave=True)
                for job in self._all_jobs():
                    job.join()
                self._outbox.empty(LAST_WORDS)
                self._end(Ending(STOPPED, "drained; jobs go on for the next process to pick up"))
                return
            deadline = deadline or time.monotonic() + self._config.grace_seconds
            if self._hurry.is_set() or time.monotonic() >= deadline:
                self._end_jobs(Reason.RETURNED)
            if not self._all_jobs():
                # while the thread that sends still runs; what stays is sent by the next process
                self._outbox.empty(LAST_WORDS)
                self._end(Ending(STOPPED, "drained"))

    def _leave(self) -> int:
        """Say the last words and clean up."""
        ending = self._ending or Ending(STOPPED, "stopped")
        log.info("stopping", why=ending.why)
        for job in self._all_jobs():
            job.join()
        if ending.status == STOPPED:
            with contextlib.suppress(Exception):
                self._heartbeat()
        self._outbox.close()
        self._executor.close()
        return ending.status

    def _end(self, ending: Ending) -> None:
        with self._lock:
            if self._ending is None:
                self._ending = ending
        self._stop.set()

    # ---- registration

    def _register(self, running: tuple[str, ...] = ()) -> None:
        """Register, trying until the server answers. Raises Refused where it will not have us."""
        pauses = Pauses()
        while not self._stop.is_set():
            try:
                told = self._ask_to_register(running)
            except Unreachable as error:
                log.warning("the server does not answer; trying again", why=str(error))
                self._pause(pauses.next())
                continue
            except Unauthorised as error:
                raise Refused(f"the credential is not taken ({error})") from error
            except Fenced as error:
                raise Refused(str(error)) from error
            self._connection.use_token(told.token)
            with self._lock:
                self._registered = told
            for attempt in told.forget:
                self._outbox.forget(attempt)
                self._kill(attempt, Reason.FENCED)
            log.info(
                "registered",
                name=self._config.name,
                shared_cache=told.shared_cache,
                sandbox=self._executor.sandbox,
                memory_limit=self._executor.limits,
            )
            return

    def _ask_to_register(self, running: tuple[str, ...]) -> Registered:
        nonce = None if self._config.cache is None else _write_proof(self._config.cache)
        try:
            message = protocol.Register(
                protocol=protocol.VERSION,
                name=self._config.name,
                host=self._host,
                cores=self._config.cores,
                memory_mb=self._config.memory_mb,
                executor=self._executor.name,
                sandbox=self._executor.sandbox,
                limits=self._executor.limits,
                version=__version__,
                environments=tuple(_found(e) for e in self._environments),
                running=running,
                cache_nonce=nonce,
            )
            told = self._connection.post("register", message, token=self._config.token)
            reply = messages.registered(told)
            shared = reply.shared_cache and self._answered(nonce)
            return replace(reply, shared_cache=shared)
        finally:
            if nonce is not None and self._config.cache is not None:
                for name in (nonce, f"{nonce}.server"):
                    (self._config.cache / "proof" / name).unlink(missing_ok=True)

    def _answered(self, nonce: str | None) -> bool:
        """Whether the server's own file is where we read; it may take a moment to be seen."""
        if nonce is None or self._config.cache is None:
            return False
        path = self._config.cache / "proof" / f"{nonce}.server"
        end = time.monotonic() + PROOF_PATIENCE
        while not path.exists():
            if time.monotonic() >= end:
                log.warning("the server's proof is not in our cache folder; using HTTP")
                return False
            self._pause(0.1)
        return True

    def _session(self) -> Registered:
        with self._lock:
            assert self._registered is not None
            return self._registered

    # ---- the duties, a thread each

    def _guarded(self, duty: Callable[[], None]) -> None:
        """Run a duty over and over; what the server says wrong is mended here, once for all."""
        pauses = Pauses()
        while not self._stop.is_set():
            session = self._session().session
            try:
                duty()
                pauses.reset()
            except Unreachable as error:
                log.warning("the server does not answer", duty=duty.__name__, why=str(error))
                self._pause(pauses.next())
            except Unauthorised:
                self._renew(session)
            except Fenced as error:
                self._fenced(session, str(error))
            except (Refused, messages.BadAnswer) as error:
                log.error("the server does not take this", duty=duty.__name__, why=str(error))
                self._pause(pauses.next())
            except Exception:  # a duty that ends would leave a worker that only seems to live
                log.exception("the worker failed at a duty", duty=duty.__name__)
                self._pause(pauses.next())

    def _beat(self) -> None:
        self._pause(self._session().heartbeat_seconds)
        if not self._stop.is_set():
            self._heartbeat()

    def _heartbeat(self) -> None:
        told = messages.heartbeat_reply(
            self._connection.post(
                "heartbeat",
                protocol.Heartbeat(
                    session=self._session().session,
                    running=self.running(),
                    draining=self._drain.is_set(),
                ),
            )
        )
        self._connection.use_token(told.token)
        self._obey(told.cancel, told.drain)

    def _poll(self) -> None:
        if self._drain.is_set():
            self._pause(0.2)
            return
        told = messages.poll_reply(
            self._connection.post(
                "poll",
                protocol.Poll(session=self._session().session, wait=POLL, running=self.running()),
                wait=POLL,
            )
        )
        for assignment in told.assignments:
            self._take(assignment)
        self._obey(told.cancel, told.drain)

    def _send(self) -> None:
        batch = self._outbox.take()
        if not batch:
            return
        try:
            reply = self._say(batch)
        except Refused as error:
            log.error("reports refused", why=str(error), reports=len(batch))
            self._say_singly(batch)
        else:
            for report, answer in zip(batch, reply.answers, strict=False):
                if answer != "taken":
                    log.warning("not taken", attempt=report.attempt, kind=report.kind, why=answer)
            self._obey(reply.cancel)
        self._outbox.sent()

    def _say(self, batch: tuple[Report, ...]) -> protocol.ReportsReply:
        message = protocol.Reports(session=self._session().session, reports=batch)
        return messages.reports_reply(self._connection.post("reports", message))

    def _say_singly(self, batch: tuple[Report, ...]) -> None:
        """One report that the server cannot read must not hold up, or take along, the others."""
        for report in batch:
            with contextlib.suppress(Refused):
                self._say((report,))
                continue
            if report.kind == "finished":
                why = "the server could not read the worker's report of the end"
                failure = protocol.JobFailure(kind="bad output", message=why)
                with contextlib.suppress(Refused):
                    self._say((replace(report, outcome="failed", failure=failure, usage=None,
                                       outputs=(), results=None),))  # fmt: skip

    # ---- jobs

    def _take(self, assignment: Assignment) -> None:
        """Start a job in a thread of its own; hand it back at once when draining."""
        with self._lock:
            if assignment.attempt in self._jobs:
                return
            job = Assigned(assignment, self._means, self._shared_cache())
            self._jobs[assignment.attempt] = job
        if self._drain.is_set():
            job.kill(Reason.RETURNED)
        log.info("job taken", attempt=assignment.attempt, block=assignment.block)
        job.start()

    def _shared_cache(self) -> Path | None:
        return self._config.cache if self._session().shared_cache else None

    def _report(self, report: Report) -> None:
        """Queue a report; after the last one of an attempt, the worker no longer holds it."""
        with self._lock:
            job = self._jobs.get(report.attempt)
            if job is not None and job.reason is Reason.FENCED:
                self._jobs.pop(report.attempt if report.kind == "finished" else "", None)
                return
        self._outbox.add(report)
        if report.kind == "finished":
            log.info("job over", attempt=report.attempt, outcome=report.outcome,
                     failure=report.failure and report.failure.kind)  # fmt: skip
            with self._lock:
                self._jobs.pop(report.attempt, None)

    def _obey(self, cancel: tuple[str, ...], drain: bool | None = None) -> None:
        for attempt in cancel:
            self._kill(attempt, Reason.CANCELLED)
        if drain is not None and drain != self._drained_there:
            # the server gives us nothing while it drains us; we go on asking, so it can resume us
            self._drained_there = drain
            log.info("drained by an administrator" if drain else "resumed by an administrator")

    def _kill(self, attempt: str, reason: Reason) -> None:
        with self._lock:
            job = self._jobs.get(attempt)
        if job is not None:
            job.kill(reason)

    def _end_jobs(self, reason: Reason) -> None:
        for job in self._all_jobs():
            job.kill(reason)

    def _all_jobs(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    # ---- when the server says no

    def _renew(self, session: str) -> None:
        """Our token is not taken any more: register again, with what runs."""
        with self._lock:
            if self._session().session != session or self._stop.is_set():
                return
            log.info("registering again")
            try:
                self._register(self.running())
            except Refused as error:
                self._fenced(session, str(error))

    def _fenced(self, session: str, why: str) -> None:
        """Somebody else is this worker now: our jobs are not ours, and nobody asks for them."""
        with self._lock:
            if self._session().session != session:
                return
        log.error("this worker is no longer wanted; ending its jobs", why=why)
        self._end(Ending(FENCED, why))
        self._end_jobs(Reason.FENCED)

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)


def _found(environment: Environment) -> FoundEnvironment:
    return FoundEnvironment(
        name=environment.name,
        version=environment.version,
        os=environment.os,
        packages=environment.packages,
    )


def _write_proof(cache: Path) -> str | None:
    """Write a file that the server can only find if it sees the same folder; return its name."""
    nonce = secrets.token_hex(16)
    try:
        (cache / "proof").mkdir(parents=True, exist_ok=True)
        (cache / "proof" / nonce).write_text(nonce)
    except OSError as error:
        log.warning(
            "the cache folder cannot be written; files will travel over HTTP", why=str(error)
        )
        return None
    return nonce
