"""The farm's state: its jobs, its settings and its faults, in one folder. Runs nothing.

One SQLite file holds it, so that many commands and the supervisor can work at once, and so that
everything survives a restart. A command is one transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

SCHEMA = """
create table if not exists jobs (
  key text primary key, number integer, state text, updated real, data text
);
create index if not exists jobs_state on jobs (state);
create index if not exists jobs_number on jobs (number);
create table if not exists counter (name text primary key, value integer);
"""


class State(StrEnum):
    """Where a job is; holds and dependencies are kept beside it."""

    WAITING = "waiting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDED = "ended"


class Ending(StrEnum):
    """Why a job ended."""

    EXIT = "exit"
    CANCELLED = "cancelled"
    WALLTIME = "walltime"
    MEMORY = "memory"
    DEPENDENCY = "dependency"  #: it can never start
    LAUNCH = "launch"  #: its directory or program is missing
    NODE = "node"  #: its supervisor died with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a farm is. Written once by `install`, may be edited between commands."""

    manager: str
    cores: int = 4
    memory: int = 8 * 1024**3  #: of the whole machine, bytes
    host: str = "farm"
    queues: tuple[str, ...] = ("batch", "long")  #: the first is the default
    history: float = 86400.0  #: seconds for which an ended job can still be asked for
    grace: float = 1.0  #: seconds between the polite and the hard kill
    lag: float = 0.0  #: seconds after a job's end until its output appears


@dataclass(slots=True, kw_only=True)
class Job:
    """A job, an array (which never runs itself) or an element of one. Times are epoch seconds."""

    key: str
    number: int
    name: str = "job"
    owner: str = ""
    queue: str = ""
    index: int | None = None  #: of an element
    array: str = ""  #: of an element: the key of its array
    indices: list[int] = field(default_factory=list)  #: of an array
    throttle: int | None = None
    state: State = State.WAITING
    holds: str = ""  #: letters: u(ser), o(perator), s(ystem)
    cores: int = 1
    nodes: int = 1
    memory: int | None = None
    walltime: int | None = None
    begin: float | None = None
    edges: list[tuple[str, str]] = field(default_factory=list)  #: (start|ok|notok|any, key)
    never: bool = False  #: an edge can no longer be satisfied
    directory: str = "/"
    stdin: str = "/dev/null"
    stdout: str = "/dev/null"
    stderr: str = ""  #: empty: where stdout goes
    append: bool = False
    arguments: list[str] = field(default_factory=list)
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    pid: int | None = None
    kill: str = ""  #: the Ending that was asked for
    signals: list[int] = field(default_factory=list)
    ending: str = ""
    code: int | None = None
    signal: int | None = None
    cpu: float = 0.0
    peak: int = 0  #: bytes
    native: dict[str, Any] = field(default_factory=dict)

    @property
    def is_array(self) -> bool:
        return bool(self.indices)

    @property
    def ok(self) -> bool:
        return self.ending == Ending.EXIT and self.code == 0 and not self.signal

    @property
    def exit_code(self) -> int:
        """As a shell would say it: 128 + n after signal n."""
        return 128 + self.signal if self.signal else self.code or 0


class Farm:
    """A farm in a folder. Use it in a `with farm.transaction():`, which locks it for writing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = read_settings(root)
        self._database = sqlite3.connect(root / "farm.db", timeout=60, isolation_level=None)
        self._database.execute("pragma synchronous=off")
        if not self._database.execute(
            "select 1 from sqlite_master where name='counter'"
        ).fetchone():
            self._database.execute("pragma journal_mode=wal")
            self._database.executescript(SCHEMA)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._database.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")

    @property
    def version(self) -> int:
        """Changes whenever another process has changed the farm."""
        return int(self._database.execute("pragma data_version").fetchone()[0])

    def next_number(self) -> int:
        row = self._database.execute(
            "insert into counter values ('job', 1) "
            "on conflict (name) do update set value = value + 1 returning value"
        ).fetchone()
        return int(row[0])

    def get(self, key: str) -> Job | None:
        rows = self._database.execute("select data from jobs where key = ?", (key,)).fetchall()
        return _job(rows[0][0]) if rows else None

    def jobs(self) -> list[Job]:
        """All of them, oldest first; elements after their array."""
        return self._select("")

    def unfinished(self) -> list[Job]:
        return self._select("where state <> 'ended'")

    def has_unfinished(self) -> bool:
        query = "select 1 from jobs where state <> 'ended' limit 1"
        return self._database.execute(query).fetchone() is not None

    def members(self, number: int) -> list[Job]:
        """The jobs of one submission."""
        return self._select("where number = ?", number)

    def _select(self, condition: str, *values: object) -> list[Job]:
        query = f"select data from jobs {condition} order by number, rowid"  # noqa: S608 - ours
        return [_job(row[0]) for row in self._database.execute(query, values)]

    def save(self, job: Job) -> None:
        self._database.execute(
            "insert into jobs values (?, ?, ?, ?, ?) on conflict (key) do update set "
            "state = excluded.state, updated = excluded.updated, data = excluded.data",
            (job.key, job.number, job.state, job.ended or 0.0, json.dumps(asdict(job))),
        )

    def delete(self, job: Job) -> None:
        self._database.execute("delete from jobs where key = ?", (job.key,))

    def add(self, job: Job, script: str, environment: Mapping[str, str]) -> None:
        """Keep the script and the environment, and file the job."""
        path = self.script(job.number)
        path.parent.mkdir(exist_ok=True)
        body = script if script.startswith("#!") else f"#!/bin/sh\n{script}"
        path.write_text(body, encoding="utf-8", errors="surrogateescape")
        path.chmod(0o700)
        path.with_suffix(".json").write_text(json.dumps(dict(environment)), encoding="utf-8")
        self.save(job)

    def add_elements(self, array: Job, key: str) -> None:
        """File the elements of an array; `key` is a format with `{}` for the index."""
        for index in array.indices:
            element = replace(
                array,
                key=key.format(index),
                index=index,
                array=array.key,
                indices=[],
                edges=[_of_element(edge, index) for edge in array.edges],
                native=dict(array.native),
            )
            self.save(element)

    def script(self, number: int) -> Path:
        return self.root / "scripts" / f"{number}.sh"

    def environment(self, number: int) -> dict[str, str]:
        path = self.script(number).with_suffix(".json")
        found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return found

    # -- faults

    def take_fault(self, command: str) -> dict[str, Any] | None:
        """The next fault that is planned for this command, used up by being taken."""
        planned = read_faults(self.root)
        for fault in planned:
            if fault["command"] in (command, "*") and fault["times"] != 0:
                if fault["times"] > 0:
                    fault["times"] -= 1
                    write_faults(self.root, planned)
                return dict(fault)
        return None


def _of_element(edge: tuple[str, str], index: int) -> tuple[str, str]:
    """`each:ok` on an array is `ok` on its element of the same index."""
    kind, key = edge
    return (kind[5:], key.replace("[]", f"[{index}]")) if kind.startswith("each:") else edge


def _job(text: str) -> Job:
    values = json.loads(text)
    values["state"] = State(values["state"])
    values["edges"] = [(kind, key) for kind, key in values["edges"]]
    return Job(**values)


def read_settings(root: Path) -> Settings:
    values = json.loads((root / "settings.json").read_text(encoding="utf-8"))
    values["queues"] = tuple(values["queues"])
    return Settings(**values)


def write_settings(root: Path, settings: Settings) -> None:
    _write(root / "settings.json", asdict(settings))


def read_faults(root: Path) -> list[dict[str, Any]]:
    path = root / "faults.json"
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_faults(root: Path, faults: Iterable[Mapping[str, Any]]) -> None:
    _write(root / "faults.json", [dict(fault) for fault in faults])


def plan_fault(root: Path, command: str, kind: str, *, times: int = 1, seconds: float = 1) -> None:
    """Let the next `times` calls of `command` (`*`: any) fail in this way; -1 is for ever."""
    fault = {"command": command, "kind": kind, "times": times, "seconds": seconds}
    write_faults(root, [*read_faults(root), fault])


def _write(path: Path, value: object) -> None:
    """By rename, so that nobody reads half a file."""
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=1), encoding="utf-8")
    temporary.replace(path)


# -- what every front end asks of the jobs


def edge_state(kind: str, targets: list[Job]) -> bool | None:
    """Whether an edge on these jobs (one, or the elements of an array) lets its job start.

    None while that is open. False is for ever.
    """
    if not targets:
        return False
    if kind == "start":
        begun = all(t.started is not None or t.state is State.ENDED for t in targets)
        return True if begun else None
    if kind == "ok" and any(t.state is State.ENDED and not t.ok for t in targets):
        return False
    if any(t.state is not State.ENDED for t in targets):
        return None
    if kind == "notok":
        return not all(t.ok for t in targets)
    return True


def state_of(elements: Iterable[Job]) -> State:
    """One state for the elements of an array."""
    states = {element.state for element in elements}
    for state in (State.RUNNING, State.SUSPENDED):
        if state in states:
            return state
    if states == {State.ENDED}:
        return State.ENDED
    return State.RUNNING if State.ENDED in states else State.WAITING


def end_waiting(job: Job, ending: Ending, now: float) -> None:
    """End a job that has never started."""
    job.state, job.ending, job.ended = State.ENDED, ending, now


def source_folder() -> str:
    """Where this package is imported from, for the launchers."""
    return str(Path(sys.modules[__name__].__file__ or "").resolve().parents[2])
