"""What the worker and a job on a node say to each other: files in a folder that both see.

`<work>/cluster/<attempt>/` holds `task.json` (what to run; the worker writes it), `events.jsonl`
(what the job said, a line each), `end.json` (how it ended, put in place by rename) and `output`
(what the manager caught of the script around it). `heard` says that the worker has read the end and
begins to judge and store. Without `task.json` nothing is run: who takes the folder away takes the
job back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend.worker.executors.base import Ended, Environment, PreparedJob, Quotas, Reason
from gristmill.protocol import Limits, Usage

FOLDER = "cluster"
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job, and how it is to be shut in."""

    job: PreparedJob
    sandbox: str  #: "bubblewrap" or "none"
    hidden: tuple[Path, ...]
    quotas: Quotas
    cgroup: Path | None = None


def attempts(work: Path) -> frozenset[str]:
    """Return the attempts of which there is a folder."""
    place = work / FOLDER
    if not place.is_dir():
        return frozenset()
    return frozenset(path.name for path in place.iterdir() if path.is_dir())


class Spool:
    """The folder of one attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output"
        self._events = folder / "events.jsonl"
        self._end = folder / "end.json"

    # ---- the worker's side

    def begin(self, task: Task) -> None:
        """Write what to run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _put(self.folder / "task.json", _task_to_json(task))

    def heard(self) -> bool:
        """Note that the end was read; return whether it had been before."""
        try:
            (self.folder / "heard").touch(exist_ok=False)
        except FileExistsError:
            return True
        return False

    def last_words(self) -> str:
        """Return the end of what the script around the job printed."""
        with contextlib.suppress(OSError):
            lines = self.output.read_text(errors="replace").strip().splitlines()
            return " / ".join(lines[-3:])[-500:]
        return ""

    def remove(self) -> None:
        """Take the folder away; `task.json` first, so that nothing starts from half of it."""
        (self.folder / "task.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def events(self, offset: int) -> tuple[list[dict[str, Any]], int]:
        """Return what the job has said since `offset`, whole lines only, and the next offset."""
        try:
            with self._events.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except FileNotFoundError:
            return [], offset
        whole = data[: data.rfind(b"\n") + 1]
        return list(_lines(whole)), offset + len(whole)

    def end(self) -> Ended | None:
        """Return how the job ended, if it has."""
        if not any(path == self._end for path in self.folder.iterdir()):
            return None  # listed, since network file systems look again then
        told = json.loads(self._end.read_bytes())
        reason = told["reason"]
        return Ended(
            exit_code=told["exit_code"],
            reason=None if reason is None else Reason(reason),
            usage=Usage(**told["usage"]),
            detail=told["detail"],
            at=told["at"],
        )

    # ---- both sides

    def task(self) -> Task:
        """Read what to run. Raises FileNotFoundError where it was taken back."""
        return _task_from_json(json.loads((self.folder / "task.json").read_bytes()))

    # ---- the job's side

    def claim(self) -> bool:
        """Whether we are the first to run this; a manager might start a job twice."""
        try:
            self._events.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def say(self, event: Mapping[str, Any]) -> None:
        """Write something that the job said, in one piece."""
        with self._events.open("ab", buffering=0) as file:
            file.write(json.dumps(event).encode() + b"\n")

    def finish(self, ended: Ended) -> None:
        """Write how the job ended."""
        _put(self._end, asdict(ended))


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _put(path: Path, value: Mapping[str, Any]) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _task_to_json(task: Task) -> dict[str, Any]:
    job = task.job
    return {
        "schema": SCHEMA,
        "attempt": job.attempt,
        "folder": str(job.folder),
        "job": job.job,
        "environment": asdict(job.environment),
        "limits": asdict(job.limits),
        "inputs": [[str(path), place] for path, place in job.inputs],
        "root": None if job.root is None else str(job.root),
        "block": job.block,
        "queue": job.queue,
        "sandbox": task.sandbox,
        "hidden": [str(path) for path in task.hidden],
        "quotas": asdict(task.quotas),
        "cgroup": None if task.cgroup is None else str(task.cgroup),
    }


def _task_from_json(told: Mapping[str, Any]) -> Task:
    environment = told["environment"]
    words = {name: tuple(environment[name]) for name in ("executable", "binds")}
    job = PreparedJob(
        attempt=told["attempt"],
        folder=Path(told["folder"]),
        job=told["job"],
        environment=Environment(**{**environment, **words}),
        limits=Limits(**told["limits"]),
        inputs=tuple((Path(path), place) for path, place in told["inputs"]),
        root=None if told["root"] is None else Path(told["root"]),
        block=told["block"],
        queue=told["queue"],
    )
    return Task(
        job=job,
        sandbox=told["sandbox"],
        hidden=tuple(map(Path, told["hidden"])),
        quotas=Quotas(**told["quotas"]),
        cgroup=None if told["cgroup"] is None else Path(told["cgroup"]),
    )
