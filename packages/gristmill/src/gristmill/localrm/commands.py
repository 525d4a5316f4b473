"""The commands of the local manager: `gristmill-local VERB`, JSON on stdin, JSON on stdout.

submit, status, find, hold, release, cancel, signal, machine. Exit status 0, or 1 with a sentence
on stderr. In the same process they are called without starting one (`InProcess`).
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gristmill import arrays
from gristmill.commands import Command, Output
from gristmill.errors import GristmillError, Refused
from gristmill.jobs import JobState
from gristmill.localrm import processes, supervisor
from gristmill.localrm.store import FINAL, Machine, Store, folder, machine
from gristmill.records import Outcome
from gristmill.transports.local import LocalTransport, environment

PROGRAM = "gristmill-local"


class InProcess(LocalTransport):
    """The local transport, for which `gristmill-local` is a function call."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._store: Store | None = None

    def run(self, command: Command) -> Output:
        if command.argv[0] != PROGRAM:
            return super().run(command)
        environ = environment(command.env)
        with self._lock:
            if self._store is None or self._store.folder != folder():
                self._store = Store()
            return call(self._store, command.argv[1:], command.stdin or b"{}", environ)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = None

    def has(self, command: str) -> bool:
        return command == PROGRAM or super().has(command)


def call(
    store: Store, argv: tuple[str, ...] | list[str], stdin: bytes, environ: Mapping[str, str]
) -> Output:
    """Run one command."""
    verb = _VERBS.get(argv[0] if argv else "")
    if verb is None:
        return Output(stderr=f"{PROGRAM}: choose among {', '.join(_VERBS)}\n".encode(), rc=2)
    try:
        answer = verb(store, json.loads(stdin), environ)
    except (GristmillError, OSError, sqlite3.Error) as error:
        return Output(stderr=f"{PROGRAM}: {error}\n".encode(), rc=1)
    return Output(json.dumps(answer).encode())


def _submit(store: Store, given: dict[str, Any], environ: Mapping[str, str]) -> Any:
    here = machine(store.folder)
    _fits(given, here)
    attributes = given["attributes"]
    attributes["directory"] = str(Path(attributes["directory"] or ".").expanduser().absolute())
    array = given.get("array")
    indices: Iterable[int | None] = arrays.parse(array) if array else [None]
    number = store.add(
        {
            "token": given["token"],
            "name": given["name"],
            "attributes": json.dumps(attributes),
            "script": given["script"],
            "environment": json.dumps(dict(environ)),
            "dependencies": json.dumps(
                [[kind, int(id), each] for kind, id, each in given.get("dependencies", [])]
            ),
            "priority": given.get("priority") or 0,
            "begin": given.get("begin"),
            "cores": given["cores"],
            "memory": given.get("memory") or 0,
            "gpus": given.get("gpus") or 0,
            "throttle": arrays.parse(array).throttle if array else None,
            "is_array": int(bool(array)),
            "submitted": time.time(),
        },
        indices,
        given.get("hold"),
    )
    if not given.get("hold"):
        supervisor.wake(store.folder)
    return {"id": str(number)}


def _fits(given: dict[str, Any], here: Machine) -> None:
    for what, asked, there in (
        ("cores", given["cores"], here.slots),
        ("bytes of memory", given.get("memory") or 0, here.memory),
        ("GPUs", given.get("gpus") or 0, here.gpus),
    ):
        if asked > there:
            raise Refused(f"the job asks for {asked} {what}; this machine gives jobs {there}")


def _status(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    """Tasks of the jobs asked for, or of all that have not ended."""
    rows = store.tasks(_numbers(given["ids"])) if given.get("ids") is not None else store.tasks()
    if any(row["state"] not in (*FINAL, JobState.HELD) for row in rows):
        supervisor.wake(store.folder)  # it may have been killed
    return [dict(row) for row in rows]


def _numbers(ids: Iterable[str]) -> set[int]:
    return {int(id.partition("_")[0]) for id in ids if id.partition("_")[0].isdigit()}


def _find(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    rows = store.query("select id from jobs where token = ?", [given["token"]])
    return {"id": str(rows[0]["id"]) if rows else None}


def _each(
    store: Store, given: dict[str, Any], act: Callable[[Store, sqlite3.Row], Outcome]
) -> dict[str, Outcome]:
    """Do it to every task of every id; the first bad outcome of a job speaks for it."""
    found: dict[str, Outcome] = {}
    for id in given["ids"]:
        number, _, index = id.partition("_")
        tasks = store.tasks(_numbers([number]))
        tasks = [task for task in tasks if not index or task["idx"] == int(index)]
        outcomes = {act(store, task) for task in tasks} or {Outcome.UNKNOWN}
        found[id] = Outcome.OK if Outcome.OK in outcomes else min(outcomes)
    supervisor.wake(store.folder)
    return found


def _hold(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    def act(store: Store, task: sqlite3.Row) -> Outcome:
        if task["state"] in FINAL:
            return Outcome.ALREADY_FINAL
        return _changed(store, task, "state = 'held', hold = ?", [given["kind"]], "'queued','held'")

    return _each(store, given, act)


def _release(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    def act(store: Store, task: sqlite3.Row) -> Outcome:
        if task["state"] in FINAL:
            return Outcome.ALREADY_FINAL
        if task["state"] != JobState.HELD:
            return Outcome.OK
        if task["hold"] != given["kind"]:
            return Outcome.DENIED
        return _changed(store, task, "state = 'queued', hold = null", [], "'held'")

    return _each(store, given, act)


def _changed(
    store: Store, task: sqlite3.Row, changes: str, values: list[Any], states: str
) -> Outcome:
    done = store.write(
        f"update tasks set {changes} where job = ? and idx = ? and state in ({states})",  # noqa: S608
        [*values, task["job"], task["idx"]],
    )
    return Outcome.OK if done else Outcome.FAILED


def _cancel(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    def act(store: Store, task: sqlite3.Row) -> Outcome:
        if task["state"] in FINAL:
            return Outcome.ALREADY_FINAL
        store.write(
            "update tasks set cancelled = 1 where job = ? and idx = ?", [task["job"], task["idx"]]
        )
        end = [time.time()]
        waits = "'held','queued'"
        if _changed(store, task, "state = 'cancelled', ended = ?", end, waits) is Outcome.OK:
            return Outcome.OK
        now = store.query(
            "select shepherd, shepherd_born from tasks where job = ? and idx = ?",
            [task["job"], task["idx"]],
        )[0]
        if processes.alive(now["shepherd"], now["shepherd_born"]):
            processes.send([now["shepherd"]], signal.SIGTERM)
        return Outcome.OK

    return _each(store, given, act)


def _signal(store: Store, given: dict[str, Any], _: Mapping[str, str]) -> Any:
    try:
        number = signal.Signals[f"SIG{given['signal']}"]
    except KeyError:
        raise Refused(f"{given['signal']!r} is not the name of a signal") from None

    def act(store: Store, task: sqlite3.Row) -> Outcome:
        if task["state"] in FINAL:
            return Outcome.ALREADY_FINAL
        if task["pid"] is None or not processes.alive(task["shepherd"], task["shepherd_born"]):
            return Outcome.FAILED
        processes.send([task["pid"]], number)
        return Outcome.OK

    return _each(store, given, act)


def _machine(store: Store, _: dict[str, Any], __: Mapping[str, str]) -> Any:
    here = machine(store.folder)
    counted = store.query(
        "select sum(t.state = 'running') as running, sum(t.state = 'queued') as waiting, "
        "sum((t.state = 'running') * j.cores) as cores "
        "from tasks t join jobs j on j.id = t.job where t.state in ('running', 'queued')"
    )[0]
    return {
        "name": platform.node(),
        "slots": here.slots,
        "memory": here.memory,
        "gpus": here.gpus,
        "running": counted["running"] or 0,
        "waiting": counted["waiting"] or 0,
        "free": here.slots - (counted["cores"] or 0),
    }


_VERBS: dict[str, Callable[[Store, dict[str, Any], Mapping[str, str]], Any]] = {
    "submit": _submit,
    "status": _status,
    "find": _find,
    "hold": _hold,
    "release": _release,
    "cancel": _cancel,
    "signal": _signal,
    "machine": _machine,
}


def main() -> int:
    """The program `gristmill-local`."""
    stdin = b"{}" if sys.stdin.isatty() else sys.stdin.buffer.read() or b"{}"
    out = call(Store(), sys.argv[1:], stdin, dict(os.environ))
    sys.stdout.buffer.write(out.stdout)
    sys.stderr.buffer.write(out.stderr)
    return out.rc
