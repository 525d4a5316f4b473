"""What workers report: taken in order, in as few transactions as possible, each answered.

Log lines and progress may be lost in a crash of the machine, so they wait for no disk. What
started and finished goes to the scheduler, which commits before we answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy.exc import IntegrityError

from backend.app.cache.store import StoreError
from backend.app.services import Services
from backend.app.worker_api import queries
from backend.app.worker_api.schemas import OutputFile, Report, Usage
from backend.scheduler.core.events import Event, Finished, Outcome, Started
from backend.scheduler.core.model import Failure, FailureKind
from gristmill import protocol
from gristmill.formats.documents import check_document

log = structlog.stdlib.get_logger(__name__)

TAKEN = "taken"
LONGEST_MESSAGE = 2_000  #: characters kept of a failure's sentence
LONGEST_TRACE = 100_000
LONGEST_PIECE = 65_536  #: characters in one row of a log
LARGEST_RESULTS = 4 * 1024 * 1024  #: bytes of an analyzer's results as JSON


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Reports on their way in."""

    services: Services
    worker: str
    answers: list[str]
    logs: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    events: list[tuple[int, Event]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)  #: by a report of this batch


async def take(services: Services, worker: UUID, reports: Sequence[Report]) -> tuple[str, ...]:
    """Take reports; return for each "taken" or why not."""
    batch = _Batch(services=services, worker=str(worker), answers=[TAKEN] * len(reports))
    jobs = await _jobs(services, reports)
    for index, report in enumerate(reports):
        await _take_one(batch, index, report, jobs)
    await _write_logs(batch)
    await _tell_scheduler(batch)
    return tuple(batch.answers)


async def _jobs(services: Services, reports: Sequence[Report]) -> dict[str, dict[str, Any]]:
    """Return the jobs of those blocks that reports say are done."""
    ids = set()
    for report in reports:
        if report.kind == "finished" and report.outcome is Outcome.DONE:
            ids |= _block_id(report.attempt)
    if not ids:
        return {}
    async with services.background() as session:
        return await queries.jobs(session, ids)


def _block_id(attempt: str) -> set[UUID]:
    try:
        return {UUID(attempt.split(".")[0])}
    except ValueError:
        return set()


async def _take_one(
    batch: _Batch, index: int, report: Report, jobs: dict[str, dict[str, Any]]
) -> None:
    held = batch.services.scheduler.holds(report.attempt, batch.worker)
    if not held or report.attempt in batch.ended:
        batch.answers[index] = "stale: this attempt is over, or not this worker's"
        return
    match report.kind:
        case "log":
            batch.logs += [(index, row) for row in log_rows(report, _limit(batch))]
        case "progress":
            batch.services.scheduler.progress(
                batch.worker,
                report.attempt,
                report.fraction or 0.0,
                (report.message or "")[:LONGEST_MESSAGE],
            )
        case "started":
            started = Started(attempt=report.attempt, worker=batch.worker)
            batch.events.append((index, started))
        case "finished":
            job = jobs.get(report.attempt.split(".")[0])
            finished = await _finished(batch.services, batch.worker, report, job)
            batch.events.append((index, finished))
            batch.ended.add(report.attempt)


def _limit(batch: _Batch) -> int:
    return batch.services.settings.log_limit


def log_rows(report: Report, limit: int) -> list[dict[str, Any]]:
    """Return the rows of a piece of log; beyond `limit` characters, one that says so instead."""
    start = report.start or 0
    text = storable(report.text or "")
    kept = text[: max(0, limit - start)]
    rows = [
        _log_row(report, start + at, report.stream or "stdout", kept[at : at + LONGEST_PIECE])
        for at in range(0, len(kept), LONGEST_PIECE)
    ]
    if len(kept) < len(text):
        notice = f"\n[the log is longer than {limit:,} characters; the rest is not kept]\n"
        rows.append(_log_row(report, limit, "system", notice))
    return rows


def _log_row(report: Report, start: int, stream: str, text: str) -> dict[str, Any]:
    return {"attempt_id": report.attempt, "start": start, "stream": stream, "text": text}


def storable(text: str) -> str:
    """Return text that PostgreSQL holds, of the same length: no NUL, no half a surrogate."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if clean.isascii():
        return clean
    return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= c <= "\udfff" else c for c in clean)


async def _write_logs(batch: _Batch) -> None:
    if not batch.logs:
        return
    try:
        async with batch.services.background() as session:
            await queries.commit_lightly(session)
            await queries.add_log(session, [row for _, row in batch.logs])
            await session.commit()
    except IntegrityError:  # an attempt went with its experiment between the check and now
        for index, _ in batch.logs:
            batch.answers[index] = "stale: the experiment was deleted"
        return
    for attempt in {row["attempt_id"] for _, row in batch.logs}:
        batch.services.hub.log_written(attempt)


async def _tell_scheduler(batch: _Batch) -> None:
    if not batch.events:
        return
    refusals = await batch.services.scheduler.handle(*(event for _, event in batch.events))
    why = {id(refusal.event): refusal.why for refusal in refusals}
    for index, event in batch.events:
        if id(event) in why:
            batch.answers[index] = f"stale: {why[id(event)]}"
    for attempt in batch.ended:
        batch.services.hub.log_written(attempt)
        await asyncio.to_thread(batch.services.cache.forget, attempt)


# ---- the end of an attempt ----


async def _finished(
    services: Services, worker: str, report: Report, job: dict[str, Any] | None
) -> Finished:
    """Return the end of an attempt; when it is done, its files are in their places by then."""
    outcome = report.outcome or Outcome.FAILED
    failure = _failure(report, outcome)
    details: dict[str, object] = {
        "usage": asdict(protocol.Usage(**(report.usage or Usage()).model_dump())),
        "exit_code": report.exit_code,
    }
    if outcome is Outcome.DONE:
        failure = _untrue(report, job)
        if failure is None:
            outputs, failure = await _accept(services, report)
            details |= {"outputs": outputs, "results": report.results}
        if failure is not None:
            outcome = Outcome.FAILED
    return Finished(
        attempt=report.attempt, worker=worker, outcome=outcome, failure=failure, details=details
    )


def _failure(report: Report, outcome: Outcome) -> Failure | None:
    if outcome is not Outcome.FAILED:
        return None
    if report.failure is None:
        return Failure(kind=FailureKind.CRASHED, message="the worker gave no reason")
    trace = report.failure.trace
    return Failure(
        kind=report.failure.kind,
        message=storable(report.failure.message)[:LONGEST_MESSAGE],
        trace=storable(trace)[-LONGEST_TRACE:] if trace else None,
    )


def _untrue(report: Report, job: dict[str, Any] | None) -> Failure | None:
    """Return what is wrong with the outputs that a report names, if anything."""
    expected = {port["name"] for port in job["job"]["outputs"]} if job else set()
    named = {file.output for file in report.outputs}
    if named != expected:
        lacking = ", ".join(sorted(expected - named)) or "none"
        extra = ", ".join(sorted(named - expected))[:200] or "none"
        return _bad_output(f"outputs missing: {lacking}; outputs that nobody asked for: {extra}")
    if any(file.first > file.last for file in report.outputs):
        return _bad_output("an output's range of data units is empty")
    if job and job["job"]["kind"] == "analyzer":
        return _untrue_results(report.results)
    return None


def _untrue_results(results: dict[str, Any] | None) -> Failure | None:
    if results is None:
        return _bad_output("the analyzer wrote no results")
    if len(json.dumps(results)) > LARGEST_RESULTS:
        return _bad_output(f"the results are larger than {LARGEST_RESULTS:,} bytes")
    for problem in check_document(results):
        return _bad_output(f"the results cannot be stored: {problem.message} at {problem.pointer}")
    for name, result in results.items():
        if not isinstance(result, dict) or not isinstance(result.get("type"), str):
            return _bad_output(f"the result {name[:100]!r} has no type")
        if "value" not in result:
            return _bad_output(f"the result {name[:100]!r} has no value")
    return None


def _bad_output(message: str) -> Failure:
    return Failure(kind=FailureKind.BAD_OUTPUT, message=message)


async def _accept(
    services: Services, report: Report
) -> tuple[list[dict[str, Any]], Failure | None]:
    """Put the files of an attempt into their places."""
    accepted = []
    try:
        for file in report.outputs:
            path = await asyncio.to_thread(
                services.cache.accept,
                report.attempt,
                file.path,
                size=file.size,
                sha256=file.sha256,
            )
            accepted.append(_stored(file, path))
    except (StoreError, OSError) as error:
        log.warning("an output was not accepted", attempt=report.attempt, error=str(error))
        message = f"the outputs did not arrive whole: {error}"
        return [], Failure(kind=FailureKind.WORKER, message=message[:LONGEST_MESSAGE])
    return accepted, None


def _stored(file: OutputFile, path: str) -> dict[str, Any]:
    return {
        "output": file.output,
        "first": file.first,
        "last": file.last,
        "rows": file.rows,
        "size": file.size,
        "sha256": file.sha256,
        "path": path,
    }
