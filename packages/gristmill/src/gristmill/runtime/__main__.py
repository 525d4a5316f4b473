"""The executable: `python -m gristmill.runtime run JOB_DIR | standby JOB_DIR | describe`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

USAGE = "usage: python -m gristmill.runtime run JOB_DIR | standby JOB_DIR | describe"
DONE, USER_FAILED, WRONG_CALL = 0, 1, 2


def main(argv: Sequence[str]) -> int:
    """Do what is asked; the return value is the exit status."""
    match list(argv):
        case ["describe"]:
            from gristmill.runtime.describe import describe

            sys.stdout.write(json.dumps(describe()) + "\n")
            return DONE
        case ["run", folder]:
            return run(Path(folder))
        case ["standby", folder]:
            return standby(Path(folder))
        case _:
            sys.stderr.write(USAGE + "\n")
            return WRONG_CALL


def standby(folder: Path) -> int:
    """Load all that a job needs, then wait for the line that says that job.json is written.

    The end of standard input instead means that there will be no job.
    """
    from gristmill.runtime import algorithm, messages, results, views  # noqa: F401

    if not sys.stdin.readline():
        return DONE
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return run(folder)


def run(folder: Path) -> int:
    """Run the job in `folder` and write its result.json."""
    from gristmill.runtime import job as jobs
    from gristmill.runtime.errors import JobError

    try:
        job = jobs.load(folder)
        result = execute(job)
    except JobError as error:
        sys.stderr.write(f"gristmill.runtime: {error}\n")
        return WRONG_CALL
    _write(folder / "result.json", result)
    return DONE if result["status"] == "done" else USER_FAILED


def execute(job: Any) -> dict[str, Any]:
    """Run a job; what user code raises becomes a failed result."""
    from gristmill.runtime import algorithm, messages, views
    from gristmill.runtime.errors import JobError

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    messages.listen(job.messages_fd).started()
    try:
        written = (views if job.kind == "dataset" else algorithm).run(job)
    except JobError:
        raise
    except BaseException as error:
        from gristmill.runtime import failures

        failure = failures.describe(error, job.folder)
        sys.stderr.write(failure["trace"])
        return _result("failed", {}, None, {}, failure)
    return _result("done", written.outputs, written.results, written.statistics, None)


def _result(
    status: str,
    outputs: dict[str, Any],
    results: dict[str, Any] | None,
    statistics: dict[str, int],
    error: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "status": status,
        "outputs": outputs,
        "results": results,
        "statistics": statistics,
        "error": error,
    }


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write by rename: whoever finds the file finds all of it."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(result, allow_nan=False), encoding="utf-8")
    partial.replace(path)


def leave(status: int) -> NoReturn:
    """End at once: threads that user code left behind must not keep the job open."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(status)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
