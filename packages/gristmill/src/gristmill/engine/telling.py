"""Questions about one job or about the cluster: why, accounting, forecasts, queues, nodes, logs."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from gristmill.commands import Command
from gristmill.engine import watching
from gristmill.engine.core import Core
from gristmill.engine.entries import Entry, Part
from gristmill.engine.flows import Flow, Get, Run, ask
from gristmill.errors import CommandFailed, GristmillError, HistoryUnavailable, Unsupported
from gristmill.jobs import JobState
from gristmill.managers import wrapper
from gristmill.records import Accounting, Cause, Node, Queue, Record, Source, Why, cause_of


def why(core: Core, entry: Entry) -> Flow[Why]:
    """Why it waits or how it ended, with the lines that show it."""
    yield from watching.refresh(core, [entry])
    record = entry.record
    cause = cause_of(record)
    evidence = list(_evidence(record))
    question = (
        None if record.state.final or record.state is JobState.NEW else core.dialect.why(entry.id)
    )
    if question is not None:
        try:
            closer = yield from ask(question, core.policy)
        except GristmillError as error:
            evidence.append(str(error))
        else:
            evidence.extend(closer.evidence)
            cause = closer.cause if cause is Cause.UNKNOWN else cause
    if record.state in (JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.TIMED_OUT):
        evidence.extend((yield from _last_words(entry)))
    return Why(record.state, cause, tuple(evidence))


def _evidence(record: Record) -> list[str]:
    reason = f" ({record.reason})" if record.reason not in ("", "None") else ""
    lines = [f"{record.source}: {record.native_state or record.state}{reason}"]
    if record.exit_code is not None:
        lines.append(f"exit code {record.exit_code}")
    if record.signal:
        lines.append(f"signal {record.signal}")
    bad = [e for e in record.elements if e.state.final and e.state is not JobState.DONE]
    lines += [f"element {e.index}: {e.state}, exit code {e.exit_code}" for e in bad[:10]]
    return lines


def _last_words(entry: Entry) -> Flow[list[str]]:
    part = entry.parts[0]
    if not part.token:
        return []
    text = yield from watching.log_tail(entry, part, part.record)
    stream = "stdout" if entry.spec.join else "stderr"
    return [f"{stream}: {line}" for line in (text or "").splitlines()[-3:]]


def accounting(core: Core, entry: Entry, part: Part) -> Flow[Accounting]:
    """What it used: from the manager, and what it does not say from the exit record."""
    question = core.dialect.accounting(part.id or "", part.submitted)
    found = Accounting(id=part.id or "", source=Source.NONE)
    if question is not None:
        with contextlib.suppress(HistoryUnavailable):
            found = yield from ask(question, core.policy)
    yield from watching.refresh(core, [entry])
    record = part.record
    filled = {
        name: getattr(record, name)
        for name in ("exit_code", "signal", "submitted", "started", "ended", "queue")
        if getattr(found, name) is None
    }
    found = replace(found, **filled, nodes=found.nodes or record.nodes)
    if found.wall is None and found.started is not None and found.ended is not None:
        found = replace(found, wall=found.ended - found.started)
    source = record.source if found.source is Source.NONE else found.source
    return replace(found, state=record.state, source=source)


def estimate(core: Core, entry: Entry) -> Flow[float | None]:
    """When the manager expects a waiting job to start, epoch seconds; None when it does not say."""
    question = core.dialect.estimate(entry.id) if core.dialect.features.estimates else None
    if question is None:
        raise Unsupported(core.dialect.name, "a forecast of when a job starts")
    return (yield from ask(question, core.policy))


def queues(core: Core) -> Flow[tuple[Queue, ...]]:
    question = core.dialect.queues()
    if question is None:
        raise Unsupported(core.dialect.name, "a list of its queues")
    return (yield from ask(question, core.policy))


def nodes(core: Core) -> Flow[tuple[Node, ...]]:
    question = core.dialect.nodes()
    if question is None:
        raise Unsupported(core.dialect.name, "a list of its nodes")
    return (yield from ask(question, core.policy))


def log(core: Core, entry: Entry, stream: str, index: int | None) -> Flow[bytes]:
    """What the job, or one element, has written so far. Raises FileNotFoundError."""
    part = next((p for p in entry.parts if index is not None and p.index == index), entry.parts[0])
    if stream == "stderr" and entry.spec.join:
        stream = "stdout"
    data: bytes = yield Get(watching.log_path(entry, part, index, stream))
    return data


def fetch(entry: Entry) -> Flow[dict[str, bytes]]:
    """The files that the job names in `stage_out`, by path here."""
    found: dict[str, bytes] = {}
    for there, here in entry.spec.stage_out:
        found[here] = yield Get(watching.within(entry, there))
    return found


_CLEAN = (
    f'cd "{wrapper.STATE_DIRECTORY}" 2>/dev/null || exit 0; '
    'for d in exits stage; do [ -d "$d" ] && find "$d" -mindepth 1 -mtime +"$1" -delete; done; :'
)


def clean(days: int) -> Flow[None]:
    """Remove exit records and staged files older than so many days."""
    out = yield Run(Command(("sh", "-c", _CLEAN, "sh", str(days))))
    if out.rc != 0:
        raise CommandFailed(f"cleaning: {out.said}", rc=out.rc)
