"""The jobs of the local manager, in one SQLite file that all its processes share."""

from __future__ import annotations

import json
import os
import sqlite3
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.errors import BadValue
from gristmill.jobs import FINAL_STATES, JobState

FINAL = tuple(sorted(state.value for state in FINAL_STATES))

_SCHEMA = """
create table if not exists jobs (
    id integer primary key autoincrement,
    token text unique,
    name text not null,
    attributes text not null,
    script text not null,
    environment text not null,
    dependencies text not null,
    priority integer not null,
    begin integer,
    cores integer not null,
    memory integer not null,
    gpus integer not null,
    throttle integer,
    is_array integer not null,
    submitted real not null
);
create table if not exists tasks (
    job integer not null references jobs,
    idx integer not null,
    state text not null,
    hold text,
    cause text,
    shepherd integer,
    shepherd_born integer,
    pid integer,
    started real,
    ended real,
    exit_code integer,
    signal integer,
    cpu real,
    peak integer,
    devices text not null default '',
    cancelled integer not null default 0,
    primary key (job, idx)
) without rowid;
create index if not exists open_tasks on tasks (state)
    where state in ('held', 'queued', 'running', 'completing');
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """What jobs may use here: cores, bytes of memory, GPUs."""

    slots: int
    memory: int
    gpus: int


def folder() -> Path:
    """Where this user's manager lives; GRISTMILL_LOCAL names another place."""
    if named := os.environ.get("GRISTMILL_LOCAL"):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "gristmill" / "local"


def machine(place: Path) -> Machine:
    """From `local.toml` (slots, memory, gpus) in the folder, else what the machine has.

    Raises BadValue when the file cannot be read.
    """
    from gristmill.quantities import bytes_of

    given: dict[str, Any] = {}
    path = place / "local.toml"
    if path.exists():
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise BadValue(f"{path}: {error}") from None
    slots = int(given.get("slots") or len(os.sched_getaffinity(0)))
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = bytes_of(given["memory"]) if "memory" in given else installed
    return Machine(slots, memory, int(given.get("gpus", 0)))


class Store:
    """One connection to the file. Times are epoch seconds, memory is bytes."""

    def __init__(self, place: Path | None = None) -> None:
        self.folder = place or folder()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db = sqlite3.connect(
            self.folder / "jobs.sqlite", timeout=60, isolation_level=None, check_same_thread=False
        )
        self._db.row_factory = sqlite3.Row
        if self.query("select count(*) as n from sqlite_master where name = 'open_tasks'")[0]["n"]:
            self._db.execute("pragma synchronous=normal")
            return
        self._db.executescript(f"pragma journal_mode=wal; pragma synchronous=normal; {_SCHEMA}")

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        return self._db.execute(sql, tuple(values)).fetchall()

    def write(self, sql: str, values: Iterable[Any] = ()) -> int:
        """One statement on its own; the number of rows changed."""
        return self._db.execute(sql, tuple(values)).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and nobody else writes in between."""
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def add(self, job: Mapping[str, Any], indices: Iterable[int | None], hold: str | None) -> int:
        """A job and its tasks; the id. A token that is there already gives the id it has."""
        with self.transaction():
            known = self.query("select id from jobs where token = ?", [job["token"]])
            if known:
                return int(known[0]["id"])
            columns = ", ".join(job)
            marks = ", ".join("?" * len(job))
            sql = f"insert into jobs ({columns}) values ({marks})"  # noqa: S608  # our own names
            number = self._db.execute(sql, tuple(job.values())).lastrowid
            state = JobState.HELD if hold else JobState.QUEUED
            self._db.executemany(
                "insert into tasks (job, idx, state, hold) values (?, ?, ?, ?)",
                [(number, -1 if index is None else index, state, hold) for index in indices],
            )
        return int(number or 0)

    def tasks(self, ids: Iterable[int] | None = None) -> list[sqlite3.Row]:
        """Tasks with what belongs to their job; of all jobs when `ids` is None."""
        sql = (
            "select t.*, j.token, j.name, j.submitted, j.is_array from tasks t "
            "join jobs j on j.id = t.job"
        )
        if ids is None:
            return self.query(f"{sql} order by job, idx")
        wanted = json.dumps(list(ids))
        sql += " where job in (select value from json_each(?)) order by job, idx"
        return self.query(sql, [wanted])

    def finish(self, job: int, index: int, state: JobState, **values: Any) -> None:
        """Write the end of a task, unless it has one."""
        values = {"state": state.value, **values}
        changes = ", ".join(f"{name} = ?" for name in values)
        marks = ", ".join("?" * len(FINAL))
        self.write(
            f"update tasks set {changes} where job = ? and idx = ? "  # noqa: S608  # our own names
            f"and state not in ({marks})",
            [*values.values(), job, index, *FINAL],
        )

    def close(self) -> None:
        self._db.close()
