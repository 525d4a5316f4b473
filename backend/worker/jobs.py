"""One job, from assignment to its last report.

Whatever goes wrong before or after the user's code runs is the worker's fault and said so: a full
disk, an input that does not come, an environment that does not start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from backend.worker.executors.base import (
    CannotStart,
    Ended,
    Environment,
    Executor,
    Handle,
    Left,
    PreparedJob,
    Reason,
)
from backend.worker.folders import BadAssignment, Folders, inside
from backend.worker.inputs import FetchFailed, Inputs, released
from backend.worker.outcome import BadResult, Outcome, judge
from backend.worker.outputs import Outputs, StoreFailed
from gristmill.protocol import Assignment, JobFailure, OutputFile, Report, StoredFile, Usage

log = structlog.get_logger()
SAID = 2000  #: characters of stderr kept for a sentence about a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What jobs are run with."""

    environments: Mapping[tuple[str, str], Environment]
    executor: Executor
    folders: Folders
    inputs: Inputs
    outputs: Outputs
    data_folders: tuple[Path, ...]
    report: Callable[[Report], None]
    now: Callable[[float | None], str]  #: that time, or now, by the server's clock


class GivenUp(Exception):
    """The job was ended before its process started."""


class Job:
    """A job in a thread of its own; `_work` is what kinds of them differ in."""

    def __init__(
        self, attempt: str, job: Mapping[str, Any], means: Means, cache: Path | None
    ) -> None:
        self.attempt, self.cache = attempt, cache
        self.reason: Reason | None = None
        self._job, self._means = job, means
        self._handle: Handle | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=self.attempt, daemon=True)
        self._voice = Voice(self.attempt, means)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the job is over."""
        self._thread.join()

    def kill(self, reason: Reason) -> None:
        """Have the job ended; the first reason holds."""
        with self._lock:
            if self.reason is None:
                self.reason = reason
            if self._handle is not None:
                self._handle.kill(self.reason)

    def _run(self) -> None:
        try:
            report = self._work()
        except Left:
            return
        except Exception as error:  # whatever happens, the server must hear of the end
            log.exception("the worker failed on a job", attempt=self.attempt)
            report = self._failed("worker error", f"{type(error).__name__}: {error}")
        self._means.folders.remove(self.attempt)
        self._means.report(report)
        self._means.executor.forget(self.attempt)

    def _work(self) -> Report:
        """Run it; the answer is the last report."""
        raise NotImplementedError

    # ---- after

    def _after(self, ended: Ended) -> Report:
        folder = self._means.folders.jobs / self.attempt
        outcome = judge(ended, folder, self._job, self._voice.heard_start, self._voice.said)
        try:
            stored = self._means.outputs.store(self.attempt, outcome.outputs, self.cache)
        except (BadResult, FileNotFoundError) as error:
            stored = ()
            outcome = _turned("bad output", _sentence(error))
        except StoreFailed as error:
            stored = ()
            outcome = _turned("worker error", str(error))
        return self._finished(outcome, ended, stored)

    def _finished(self, outcome: Outcome, ended: Ended, stored: tuple[OutputFile, ...]) -> Report:
        if outcome.outcome in ("done", "failed"):
            self._voice.started()  # should its executable not have said so
        usage = replace(
            ended.usage,
            bytes_read=outcome.statistics.get("bytes_read", 0),
            bytes_written=outcome.statistics.get("bytes_written", 0),
        )
        return self._last(
            outcome.outcome,
            failure=outcome.failure,
            exit_code=ended.exit_code,
            usage=usage,
            outputs=stored,
            results=outcome.results,
            at=ended.at,
        )

    def _given_up(self) -> Report:
        return self._last("returned" if self.reason is Reason.RETURNED else "cancelled")

    def _failed(self, kind: str, message: str) -> Report:
        if self.reason is not None:
            return self._given_up()
        return self._last("failed", failure=JobFailure(kind=kind, message=message))

    def _last(
        self,
        outcome: str,
        *,
        failure: JobFailure | None = None,
        exit_code: int | None = None,
        usage: Usage | None = None,
        outputs: tuple[OutputFile, ...] = (),
        results: dict[str, object] | None = None,
        at: float | None = None,
    ) -> Report:
        return Report(
            kind="finished",
            attempt=self.attempt,
            time=self._means.now(at),
            outcome=outcome,
            failure=failure,
            exit_code=exit_code,
            usage=usage,
            outputs=outputs,
            results=results,
        )


class Assigned(Job):
    """A job that the server has just given."""

    def __init__(self, assignment: Assignment, means: Means, cache: Path | None) -> None:
        super().__init__(assignment.attempt, assignment.job, means, cache)
        self.assignment = assignment

    def _work(self) -> Report:
        """Fetch, run, judge, store."""
        taken: list[StoredFile] = []
        with released(self._means.inputs, taken):
            try:
                prepared = self._prepare(taken)
                handle = self._start(prepared)
            except GivenUp:
                return self._given_up()
            except UnknownEnvironment as error:
                return self._failed("environment unavailable", str(error))
            except UnknownFolder as error:  # chosen by the database's author: not our fault
                return self._failed("algorithm error", str(error))
            except (FetchFailed, BadAssignment, CannotStart, OSError) as error:
                return self._failed("worker error", _sentence(error))
            ended = handle.wait()
            return self._after(ended)

    def _prepare(self, taken: list[StoredFile]) -> PreparedJob:
        environment = self._means.environments.get(self.assignment.environment)
        if environment is None:
            name, version = self.assignment.environment
            raise UnknownEnvironment(f"this worker has no environment {name} ({version})")
        folder = self._means.folders.lay_out(self.assignment)
        inputs = tuple(self._input(n, folder, taken) for n in range(len(self.assignment.inputs)))
        job, root = self._root()
        return PreparedJob(
            attempt=self.attempt,
            folder=folder,
            job=job,
            environment=environment,
            limits=self.assignment.limits,
            inputs=inputs,
            root=root,
            block=self.assignment.block,
            queue=self.assignment.queue,
        )

    def _input(self, number: int, folder: Path, taken: list[StoredFile]) -> tuple[Path, str]:
        if self.reason is not None:
            raise GivenUp
        given = self.assignment.inputs[number]
        inside(folder, given.path)
        if self.cache is not None:
            path = self._means.inputs.find_shared(self.cache, given.stored)
            if path is not None:
                return path, given.path
        taken.append(given.stored)
        return self._means.inputs.fetch(self.attempt, number, given.stored), given.path

    def _root(self) -> tuple[dict[str, object], Path | None]:
        """A database may live in a folder of this machine, if the configuration allows it."""
        job = dict(self.assignment.job)
        root = job.get("root")
        if not isinstance(root, str) or not root.startswith("/"):
            return job, None
        path = Path(root).resolve()
        if not any(path.is_relative_to(folder) for folder in self._means.data_folders):
            raise UnknownFolder(
                f"the database's folder {root[:200]} is not among this worker's data_folders: "
                "upload the files, or ask the administrator"
            )
        return {**job, "root": str(path)}, path

    def _start(self, prepared: PreparedJob) -> Handle:
        with self._lock:
            if self.reason is not None:
                raise GivenUp
            self._handle = self._means.executor.start(prepared, self._voice)
            return self._handle


class PickedUp(Job):
    """A job that an earlier process of this worker started."""

    def __init__(self, prepared: PreparedJob, means: Means) -> None:
        super().__init__(prepared.attempt, prepared.job, means, None)
        self._prepared = prepared

    def _work(self) -> Report:
        with self._lock:
            handle = self._handle = self._means.executor.pick_up(self._prepared, self._voice)
            if self.reason is not None:
                handle.kill(self.reason)
        return self._after(handle.wait())


class UnknownEnvironment(Exception):
    """The assignment asks for an environment that this worker did not find."""


class UnknownFolder(Exception):
    """A database names a folder that this worker may not show to jobs."""


def _turned(kind: str, message: str) -> Outcome:
    return Outcome(outcome="failed", failure=JobFailure(kind=kind, message=message))


def _sentence(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    if isinstance(error, OSError):
        return f"the worker cannot prepare the job: {error.strerror or error}"
    return str(error)


class Voice:
    """Turns what a running job says into reports; pieces of its log are numbered here."""

    def __init__(self, attempt: str, means: Means) -> None:
        self._attempt, self._means = attempt, means
        self._characters = 0
        self._told = False
        self.heard_start = False
        self.said = ""  #: end of stderr

    def started(self, native_id: str | None = None, at: float | None = None) -> None:
        """The job runs."""
        self.heard_start = True
        if not self._told:
            self._told = True
            self._say(kind="started", native_id=native_id, at=at)

    def progress(self, fraction: float, message: str | None) -> None:
        """So much is done."""
        self._say(kind="progress", fraction=fraction, message=message)

    def log(self, stream: str, text: str) -> None:
        """The job printed something."""
        if stream == "stderr":
            self.said = (self.said + text)[-SAID:]
        self._say(kind="log", stream=stream, text=text, start=self._characters)
        self._characters += len(text)

    def _say(
        self,
        *,
        kind: str,
        fraction: float | None = None,
        message: str | None = None,
        stream: str | None = None,
        text: str | None = None,
        start: int | None = None,
        native_id: str | None = None,
        at: float | None = None,
    ) -> None:
        self._means.report(
            Report(
                kind=kind,
                attempt=self._attempt,
                time=self._means.now(at),
                fraction=fraction,
                message=message,
                stream=stream,
                text=text,
                start=start,
                native_id=native_id,
            )
        )
