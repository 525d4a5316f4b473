"""How a job ended, in the words of the protocol: from its exit, the reason we noted, result.json.

Nothing that the job folder holds is trusted: user code could write there. Outputs must be plain
files that job.json asked for; whatever result.json says beyond that is read, bounded and checked.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.worker.executors.base import Ended, Reason
from backend.worker.texts import storable
from gristmill.protocol import JobFailure

RESULT_LIMIT = 8 * 2**20  #: bytes of result.json; read, it takes up to thirty times as much
DEEPEST = 40  #: levels of results, as in every document
DONE, USER_FAILED, WRONG_CALL = 0, 1, 2

#: the core's FailureKind of each reason to end a job, and the sentence for the user
KILLED = {
    Reason.TIME: ("time limit", "the block ran longer than its queue allows"),
    Reason.MEMORY: ("memory limit", "the block used more memory than its queue allows"),
    Reason.DISK: ("algorithm error", "the block wrote more to disk than a job may"),
    Reason.PROCESSES: ("algorithm error", "the block started more processes than a job may"),
    Reason.NO_SPACE: ("worker error", "the worker's disk is full"),
    Reason.LOST: ("worker error", "the resource manager did not run the block to its end"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOutput:
    """An output that the job left, before it is hashed and stored."""

    name: str
    path: Path
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What to report."""

    outcome: str  #: "done", "failed", "cancelled", "returned"
    failure: JobFailure | None = None
    outputs: tuple[WrittenOutput, ...] = ()
    results: dict[str, Any] | None = None
    statistics: dict[str, int] = field(default_factory=dict)


class BadResult(Exception):
    """result.json, or an output, is not what the API asks for."""


def judge(ended: Ended, folder: Path, job: Mapping[str, Any], started: bool, said: str) -> Outcome:
    """Return what became of a job. `started`: its executable said so; `said`: end of its stderr."""
    if ended.reason is Reason.CANCELLED or ended.reason is Reason.FENCED:
        return Outcome(outcome="cancelled")
    if ended.reason is Reason.RETURNED:
        return Outcome(outcome="returned")
    if ended.reason is not None:
        kind, sentence = KILLED[ended.reason]
        return _failed(kind, f"{sentence} ({ended.detail})" if ended.detail else sentence)
    try:
        result = _read_result(folder / "result.json")
    except FileNotFoundError:
        return _without_result(ended.exit_code, started, said)
    except BadResult as error:
        return _failed("bad output", str(error))
    if ended.exit_code == USER_FAILED and result.get("status") == "failed":
        return _user_failed(result)
    if ended.exit_code != DONE:
        return _without_result(ended.exit_code, started, said)
    try:
        return _done(result, folder, job)
    except BadResult as error:
        return _failed("bad output", str(error))


def _failed(kind: str, message: str, trace: str | None = None) -> Outcome:
    return Outcome(outcome="failed", failure=JobFailure(kind=kind, message=message, trace=trace))


def _without_result(code: int | None, started: bool, said: str) -> Outcome:
    if not started:  # later, status 2 may come from user code: nothing that speaks against us
        return _failed(
            "worker error", f"the environment's executable ended with status {code}: {said.strip()}"
        )
    if code == DONE:
        return _failed("bad output", "the block ended without saying that it was done")
    if code is not None and code > 128:
        return _failed("crashed", f"the block was ended by signal {code - 128}")
    why = f": {said.strip()}" if code == WRONG_CALL and said.strip() else " without saying why"
    return _failed("crashed", f"the block ended with status {code}{why}")


def _user_failed(result: Mapping[str, Any]) -> Outcome:
    error = result.get("error")
    error = error if isinstance(error, dict) else {}
    message = f"{error.get('type', 'Error')}: {error.get('message', '')}"
    trace = error.get("trace")
    return _failed(
        "algorithm error", storable(message, 10_500), storable(trace or "", 61_000) or None
    )


def _read_result(path: Path) -> dict[str, Any]:
    found = open_plain(path)
    with os.fdopen(found, "rb") as file:
        data = file.read(RESULT_LIMIT + 1)
    if len(data) > RESULT_LIMIT:
        raise BadResult(f"result.json is larger than {RESULT_LIMIT // 2**20} MiB")
    try:
        result = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadResult(f"result.json is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise BadResult("result.json is not an object")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def open_plain(path: Path) -> int:
    """Open a plain file, never a link, pipe or device. Raises BadResult otherwise."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadResult(f"{path.name} is not a plain file ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadResult(f"{path.name} is not a plain file")
    return descriptor


def _check_folder(folder: Path) -> None:
    """User code can rename what is in its folder: `outputs` must not lead to another place."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        raise BadResult("the folder `outputs` is gone") from error
    if not stat.S_ISDIR(found.st_mode):
        raise BadResult("`outputs` is no folder any more")


def _done(result: Mapping[str, Any], folder: Path, job: Mapping[str, Any]) -> Outcome:
    told = result.get("outputs")
    told = told if isinstance(told, dict) else {}
    _check_folder(folder / "outputs")
    outputs = tuple(_output(port["name"], told, folder) for port in job.get("outputs") or ())
    results = result.get("results")
    if job.get("kind") == "analyzer" and not isinstance(results, dict):
        raise BadResult("the analyzer wrote no results")
    statistics = result.get("statistics")
    return Outcome(
        outcome="done",
        outputs=outputs,
        results=_clean(results, 0) if job.get("kind") == "analyzer" else None,
        statistics=_counts(statistics if isinstance(statistics, dict) else {}),
    )


def _clean(value: Any, depth: int) -> Any:
    """Return results with storable texts. Raises BadResult where JSON or the server has no room."""
    if depth > DEEPEST:
        raise BadResult(f"the results are nested deeper than {DEEPEST} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadResult("the results hold a number that is too large for 64 bits")
    if isinstance(value, str):
        return storable(value, RESULT_LIMIT)
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {storable(name, 1000): _clean(item, depth + 1) for name, item in value.items()}
    return value


def _counts(statistics: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: value
        for name, value in statistics.items()
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62
    }


def _output(name: str, told: Mapping[str, Any], folder: Path) -> WrittenOutput:
    entry = told.get(name)
    if not isinstance(entry, dict):
        raise BadResult(f"the output {name!r} was not written")
    numbers = [entry.get(key) for key in ("first", "last", "rows")]
    if not all(isinstance(n, int) and not isinstance(n, bool) and abs(n) < 2**62 for n in numbers):
        raise BadResult(f"result.json does not say which data units the output {name!r} covers")
    first, last, rows = numbers
    assert isinstance(first, int)
    assert isinstance(last, int)
    assert isinstance(rows, int)
    if rows < 1 or first < 0 or last < first:
        raise BadResult(f"the output {name!r} holds no data: its inputs were empty")
    path = folder / "outputs" / f"{name}.arrow"
    return WrittenOutput(name=name, path=path, first=first, last=last, rows=rows)
