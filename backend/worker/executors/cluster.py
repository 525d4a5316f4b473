"""Runs jobs through a resource manager: each becomes a job of Slurm, Grid Engine, OAR, …

The manager starts `backend.worker.on_node`, which runs the job as a worker on that machine would
and writes what happens into a folder that we see (`spool`). So start, log, progress, usage and end
come from the job itself; the manager is asked, for all jobs at once, whether one of them ended
without a word, and then its word counts. What was submitted stands in the library's journal, where
the next process of this worker finds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from backend.worker.config import BadConfig, Config
from backend.worker.executors.base import (
    Ended,
    Left,
    Listener,
    PreparedJob,
    Reason,
)
from backend.worker.executors.spool import FOLDER, Spool, Task, attempts
from gristmill.connecting import connect
from gristmill.errors import ConnectionLost, GristmillError, Transient
from gristmill.jobs import Job, JobState
from gristmill.protocol import Usage
from gristmill.records import Accounting, Record
from gristmill.service import JobHandle, ResourceManager

log = structlog.get_logger()
MIB = 2**20
LOOK = 0.1  #: seconds between two looks into a job's folder
LOOK_WAITING = 0.5  #: the same, while the job waits in the manager's queue
LOOK_EACH = 0.002  #: and no more looks in all than one in so many seconds
SUBMIT_AGAIN = 5.0  #: seconds after which a manager that was away is asked again
SOON = 0.5  #: seconds between two questions to the manager while a job is being cancelled
INTERVAL = 5.0  #: otherwise, unless configured
CANCEL_AGAIN = 10.0  #: seconds after which a cancel that has not worked is sent again
OPTIONAL = frozenset({"memory", "cores_per_node"})  #: left out where a manager cannot hold them

#: the manager's word on a job that said nothing itself
ENDED_BY = {JobState.TIMED_OUT: Reason.TIME, JobState.OUT_OF_MEMORY: Reason.MEMORY}


def connected(config: Config) -> ClusterExecutor:
    """Connect to the manager of the configuration, and try what our jobs ask of it.

    Raises BadConfig, or the library's own errors.
    """
    from backend.worker.main import hidden  # it imports us

    manager = config.manager
    (config.work / FOLDER).mkdir(parents=True, exist_ok=True)
    rm = connect(
        config.executor,
        site=manager.site,
        journal=config.work / "cluster.jsonl",
        interval=manager.interval,
    )
    rm.core.journal.shorten()
    executor = ClusterExecutor(rm, config, hidden(config))
    try:
        executor.try_out()
    except BaseException:
        executor.close()
        raise
    return executor


class ClusterExecutor:
    """Starts jobs through a manager, and watches all of them with one question at a time."""

    limits = "manager"
    durable = True

    def __init__(self, rm: ResourceManager, config: Config, hidden: Iterable[Path]) -> None:
        self.name, self.sandbox = rm.name, config.sandbox
        self._rm, self._config, self._hidden = rm, config, tuple(hidden)
        self._manager = config.manager
        self._place = config.work / FOLDER
        self._lock = threading.RLock()  #: the client is not made for several threads
        self._without: frozenset[str] = frozenset()
        self._open: set[ClusterHandle] = set()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.left = False
        self._thread = threading.Thread(target=self._watch, name="manager", daemon=True)
        self._thread.start()

    # ---- what the worker calls

    def try_out(self) -> None:
        """See what the manager makes of a job such as ours. Raises BadConfig."""
        for path in (self._manager.python, self._config.work):
            if not Path(path).is_absolute():
                raise BadConfig(f"[manager]: {path} must be an absolute path: nodes need it")
        trial = self._place / "trial"
        refused = self._rm.plan(self._shaped(trial, "trial", "", 1, 100, 60)).refused
        self._without = frozenset(note.attribute for note in refused) & OPTIONAL
        if others := [note for note in refused if note.attribute not in OPTIONAL]:
            said = "; ".join(f"{note.attribute}={note.wanted}: {note.why}" for note in others)
            raise BadConfig(f"{self.name} cannot take our jobs: {said}")
        if self._without:
            log.warning(
                "the manager cannot hold these; the node does", limits=sorted(self._without)
            )

    def start(self, job: PreparedJob, listener: Listener) -> ClusterHandle:
        """Return at once; `wait` submits the job and follows it."""
        spool = Spool(self._place / job.attempt)
        ready = self._with_links(job)
        spool.begin(
            Task(
                job=ready,
                sandbox=self.sandbox,
                hidden=self._hidden,
                quotas=self._config.quotas,
                cgroup=self._config.cgroup,
            )
        )
        return self._handle(ready, spool, listener, None)

    def survivors(self) -> tuple[PreparedJob, ...]:
        """Return the jobs of which an earlier process of this worker left the folder."""
        found = []
        for attempt in sorted(attempts(self._config.work)):
            spool = Spool(self._place / attempt)
            try:
                found.append(spool.task().job)
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                spool.remove()
        return tuple(found)

    def pick_up(self, job: PreparedJob, listener: Listener) -> ClusterHandle:
        """Follow a job from its beginning, whoever submitted it."""
        spool = Spool(self._place / job.attempt)
        native = None
        with self._lock, suppress(GristmillError):
            native = self._submitted(spool)
        handle = self._handle(job, spool, listener, native)
        handle.picked_up = True
        return handle

    def forget(self, attempt: str) -> None:
        """Keep nothing of a job whose last report is on disk."""
        Spool(self._place / attempt).remove()

    def close(self, *, leave: bool = False) -> None:
        """Follow no job any more; they go on. Without `leave` there are none."""
        self.left = leave
        self._stop.set()
        self._wake.set()
        if not leave:
            self._thread.join()
            self._rm.close()

    # ---- what handles call

    def submit(self, job: PreparedJob, spool: Spool) -> JobHandle:
        """Hand a job to the manager. Raises the library's errors."""
        limits = job.limits
        native = self._shaped(
            spool.folder, job.block, job.queue, limits.cores, limits.memory_mb, limits.time_seconds
        )
        with self._lock:
            return self._rm.submit(native).handles[0]

    def cancel(self, native: JobHandle) -> None:
        """Have the manager end a job."""
        with self._lock:
            native.cancel()
        self._wake.set()

    def accounting(self, native: JobHandle) -> Accounting | None:
        """Return what the manager says that a job used, if it says anything."""
        with self._lock, suppress(GristmillError):
            return native.accounting()
        return None

    def pause(self, seconds: float) -> float:
        """Return how long to wait between two looks; longer where many look."""
        return max(seconds, LOOK_EACH * len(self._open))

    def done(self, handle: ClusterHandle) -> None:
        """Look after this job no more."""
        with self._lock:
            self._open.discard(handle)

    # ---- ours

    def _handle(
        self, job: PreparedJob, spool: Spool, listener: Listener, native: JobHandle | None
    ) -> ClusterHandle:
        seen_within = self._manager.seen_within_seconds
        made = ClusterHandle(self, job, spool, listener, native, seen_within)
        with self._lock:
            self._open.add(made)
        return made

    def _shaped(
        self, folder: Path, block: str, queue: str, cores: int, memory_mb: int, seconds: int
    ) -> Job:
        """The manager's job: our limits and a margin, so that ours are reached first."""
        manager = self._manager
        memory = (memory_mb + manager.memory_margin_mb) * MIB
        return Job(
            command=[manager.python, "-m", "backend.worker.on_node", str(folder)],
            name=_plain(f"gristmill-{block}"),
            directory=folder.parent,
            stdout=folder / "output",
            time=seconds + manager.time_margin_seconds,
            nodes=1,
            queue=manager.queues.get(queue),
            requeue=False,
            native={self.name: manager.native} if manager.native else None,
            memory=None if "memory" in self._without else memory,
            cores_per_node=None if "cores_per_node" in self._without else cores,
        )

    def _submitted(self, spool: Spool) -> JobHandle | None:
        """Find a job in the journal; a submission that was cut short is mended first."""
        for run in self._rm.runs():
            for handle in run.handles:
                if handle.spec.command[-1:] == (str(spool.folder),):
                    (mended,) = self._rm.resume(run.id).handles
                    return mended if mended.id else None
        return None

    def _with_links(self, job: PreparedJob) -> PreparedJob:
        """Bring inputs into the job folder now, if it can be: they may be gone when it starts."""
        kept = []
        for source, place in job.inputs:
            target = job.folder / place
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(source.resolve())
            except OSError:
                kept.append((source, place))
        return replace(job, inputs=tuple(kept))

    def _watch(self) -> None:
        """Ask about all jobs at once, over and over."""
        pause = self._manager.interval or INTERVAL
        while not self._stop.is_set():
            with self._lock:
                open_ = [handle for handle in self._open if handle.native is not None]
            hurry = any(handle.wants_answer for handle in open_)
            self._wake.wait(SOON if hurry else pause)
            self._wake.clear()
            if self._stop.is_set() or not open_:
                continue
            with self._lock:
                try:
                    self._rm.status(*(handle.native for handle in open_))
                except GristmillError as error:
                    log.warning("the manager does not answer", manager=self.name, why=str(error))

    def nudge(self) -> None:
        """Ask the manager soon."""
        self._wake.set()


class ClusterHandle:
    """A job that is handed to the manager."""

    def __init__(
        self,
        executor: ClusterExecutor,
        job: PreparedJob,
        spool: Spool,
        listener: Listener,
        native: JobHandle | None,
        seen_within: float,
    ) -> None:
        self.native = native
        self.picked_up = False
        self.wants_answer = False  #: somebody waits for the manager's word
        self._executor, self._job, self._spool = executor, job, spool
        self._listener, self._seen_within = listener, seen_within
        self._reason: Reason | None = None
        self._cancelled_at: float | None = None
        self._offset = 0
        self._begun: float | None = None  #: epoch seconds
        self._change = threading.Event()

    def kill(self, reason: Reason) -> None:
        """Have the job ended; the first reason given holds."""
        if self._reason is None:
            self._reason = reason
        self._change.set()

    def usage(self) -> Usage:
        """How long it has run; the rest is known at its end."""
        return Usage(wall_seconds=0.0 if self._begun is None else time.time() - self._begun)

    def wait(self) -> Ended:
        """Submit the job if that was not done, and follow it to its end."""
        try:
            ended = self._submit() or self._follow()
        finally:
            self._executor.done(self)
        if self._spool.heard():
            return Ended(
                exit_code=None, reason=self._reason or Reason.LOST, usage=ended.usage,
                detail="the worker was killed while it stored what the block wrote",
            )  # fmt: skip
        return ended if self._reason is None else replace(ended, reason=self._reason, detail="")

    # ---- the beginning

    def _submit(self) -> Ended | None:
        """Hand the job over; an answer is its end already."""
        if self._executor.left:
            raise Left
        if self._reason is not None and self.native is None:
            return self._without_end("")
        if self.native is None and not (self.picked_up and self._spool.end()):
            if self.picked_up:
                return self._without_end(f"{self._executor.name} never got it")
            return self._hand_over()
        return None

    def _hand_over(self) -> Ended | None:
        """Submit, however long the manager is away; what it refuses it will refuse again."""
        while self._reason is None:
            if self._executor.left:
                raise Left
            try:
                self.native = self._executor.submit(self._job, self._spool)
            except (Transient, ConnectionLost) as error:  # surely not submitted
                log.warning("cannot submit yet", attempt=self._job.attempt, why=str(error))
                self._change.wait(SUBMIT_AGAIN)
            except GristmillError as error:
                return self._without_end(f"{self._executor.name} does not take it: {error}")
            else:
                log.info("submitted", attempt=self._job.attempt, job=self.native.id)
                return None
        return self._without_end("")

    # ---- on the way

    def _follow(self) -> Ended:
        while True:
            self._listen()
            if (ended := self._spool.end()) is not None:
                self._listen()  # what came between
                return self._judged(ended)
            if self.native is not None and self.native.state.final:
                return self._ended_without_a_word(self.native)
            if self._executor.left:
                raise Left
            self._cancel()
            self._change.wait(self._executor.pause(LOOK_WAITING if self._begun is None else LOOK))
            self._change.clear()

    def _listen(self) -> None:
        events, self._offset = self._spool.events(self._offset)
        for event in events:
            if event["kind"] == "started":
                self._begun = event["at"]
                native = None if self.native is None else self.native.id
                self._listener.started(native, event["at"])
            elif event["kind"] == "progress":
                self._listener.progress(event["fraction"], event["message"])
            elif event["kind"] == "log":
                self._listener.log(event["stream"], event["text"])

    def _cancel(self) -> None:
        """Once, and again where that did not help."""
        if self._reason is None or self.native is None:
            return
        now = time.monotonic()
        if self._cancelled_at is not None and now < self._cancelled_at + CANCEL_AGAIN:
            return
        self._cancelled_at, self.wants_answer = now, True
        try:
            self._executor.cancel(self.native)
        except GristmillError as error:
            log.warning("cannot cancel yet", job=self.native.id, why=str(error))
            self._cancelled_at = now - CANCEL_AGAIN + 1

    # ---- the end

    def _judged(self, ended: Ended) -> Ended:
        """The node's word, unless a signal ended the job: then the manager knows why."""
        by_signal = ended.reason is None and (ended.exit_code or 0) > 128
        if self.native is None or self._reason or not (by_signal or ended.reason is Reason.LOST):
            return ended
        self._wait_for(lambda: self.native is None or self.native.state.final)
        reason = ENDED_BY.get(self.native.state)
        if reason is not None:
            return replace(ended, reason=reason, detail=self._words(self.native.record))
        if ended.reason is Reason.LOST or self.native.state is JobState.CANCELLED:
            detail = ended.detail or self._words(self.native.record)
            return replace(ended, reason=Reason.LOST, detail=detail)
        return ended

    def _ended_without_a_word(self, native: JobHandle) -> Ended:
        """The manager says that it is over; the node's files may still be on their way to us."""
        if self._reason is None:
            self._wait_for(lambda: self._spool.end() is not None)
        self._listen()
        if (ended := self._spool.end()) is not None:
            return self._judged(ended)
        record = native.record
        detail = self._words(record)
        if record.state in (JobState.DONE, JobState.FAILED, JobState.NODE_FAILURE):
            detail = ": ".join(filter(None, (detail, self._spool.last_words())))
        reason = ENDED_BY.get(record.state, Reason.LOST)
        usage, at = self._accounted(native, record)
        return Ended(exit_code=record.exit_code, reason=reason, usage=usage, detail=detail, at=at)

    def _accounted(self, native: JobHandle, record: Record) -> tuple[Usage, float | None]:
        """The job could not say what it took, but the manager may."""
        found = self._executor.accounting(native) or Accounting(id=native.id)
        usage = Usage(
            wall_seconds=found.wall or 0.0,
            cpu_user_seconds=found.cpu or 0.0,
            peak_memory_mb=round((found.peak_memory or 0) / MIB, 3),
        )
        return usage, found.ended or record.ended

    def _without_end(self, detail: str) -> Ended:
        reason = self._reason or Reason.LOST
        return Ended(exit_code=None, reason=reason, usage=Usage(), detail=detail)

    def _words(self, record: Record) -> str:
        said = record.native_state or str(record.state)
        reason = f" ({record.reason})" if record.reason not in ("", "None") else ""
        return f"{self._executor.name} job {record.id}: {said}{reason}"

    def _wait_for(self, true: Callable[[], bool]) -> None:
        """Wait a little for what must come; at the end of patience, go on with what there is."""
        self.wants_answer = True
        self._executor.nudge()
        end = time.monotonic() + self._seen_within
        while not true() and time.monotonic() < end and not self._executor.left:
            time.sleep(LOOK)


def _plain(name: str) -> str:
    """A job name that every manager takes."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)[:60]
