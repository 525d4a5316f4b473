"""What state jobs are in: live listing, history, exit record, grace, and only then lost.

Absence from a listing is never a state: managers answer with half of their jobs, with none, or
forget a job before their history knows it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gristmill import patterns
from gristmill.commands import Command, Output
from gristmill.engine.acting import chunks
from gristmill.engine.core import Core
from gristmill.engine.entries import Entry, Part, ended
from gristmill.engine.flows import Flow, Get, Run, ask
from gristmill.errors import GristmillError, HistoryUnavailable, TransportError
from gristmill.jobs import JobState, Spec
from gristmill.managers import wrapper
from gristmill.records import Cause, Listing, Record, Source, joined, of_exit_code

FLICKER = 10.0  #: seconds in which a new job may seem held (OAR)
SINGLY = 20  #: most ids asked one by one in one poll
LOG_TAIL = 8192  #: bytes of a job's stderr that are searched for a memory kill
_PATIENCE = 10  #: times the grace, while a history exists but does not answer


@dataclass(frozen=True, slots=True)
class Change:
    """A job whose state has changed."""

    entry: Entry
    before: Record
    after: Record


@dataclass(slots=True)
class _Evidence:
    """What the queries gave, by native id, and exit records by token."""

    live: dict[str, Record]
    history: dict[str, Record]
    exits: dict[str, Record]
    history_failed: bool = False


def refresh(core: Core, entries: Iterable[Entry]) -> Flow[list[Change]]:
    """Look at all jobs that have not ended, in as few questions as can be.

    What a listing says in the very words of the last one is not thought about again: of ten
    thousand jobs most are.
    """
    parts = [
        (entry, part)
        for entry in entries
        for part in entry.parts
        if part.id is not None and not part.settled
    ]
    if not parts:
        return []
    live = yield from _live(core, list(dict.fromkeys([part.id or "" for _, part in parts])))
    fresh = _sort_out(parts, live, core.clock())
    if not fresh:
        return []
    before = {entry: entry.record for entry, _ in fresh}
    evidence = yield from _gather(core, fresh, live)
    for entry, part in fresh:
        yield from _conclude(core, entry, part, evidence)
    _journal_ends(core, fresh)
    return [
        Change(entry, old, entry.record)
        for entry, old in before.items()
        if differs(old, entry.record)
    ]


def _sort_out(
    parts: Iterable[tuple[Entry, Part]], live: Mapping[str, Record], now: float
) -> list[tuple[Entry, Part]]:
    """Those of which the listing says something new, or nothing."""
    fresh = []
    for entry, part in parts:
        record = live.get(part.id or "")
        if record is not None:
            part.seen = now
        if record is None or record is not part.listed:
            part.listed = record
            fresh.append((entry, part))
    return fresh


def differs(old: Record, new: Record) -> bool:
    """Whether the state of the job or of an element is another."""
    if old.state is not new.state or len(old.elements) != len(new.elements):
        return True
    return any(a.state is not b.state for a, b in zip(old.elements, new.elements, strict=True))


def _journal_ends(core: Core, parts: Iterable[tuple[Entry, Part]]) -> None:
    by_run: dict[str, list[Part]] = {}
    for entry, part in parts:
        if part.settled:
            by_run.setdefault(entry.run, []).append(part)
    if by_run:
        core.journal.append(*(ended(run, gone) for run, gone in by_run.items() if run))


def _gather(
    core: Core, parts: list[tuple[Entry, Part]], live: dict[str, Record]
) -> Flow[_Evidence]:
    evidence = _Evidence(live, {}, {})
    absent = [(entry, part) for entry, part in parts if _missing(entry, part, evidence)]
    if not absent:
        return evidence
    yield from _ask_history(core, absent, evidence)
    absent = [(entry, part) for entry, part in absent if _missing(entry, part, evidence)]
    if absent:
        evidence.exits = yield from _exit_records(absent, evidence)
    return evidence


def _missing(entry: Entry, part: Part, evidence: _Evidence) -> set[int | None]:
    """The elements (None: the job itself) of which nothing sure is known."""
    id = part.id or ""
    found = [record for record in (evidence.live.get(id), evidence.history.get(id)) if record]
    if not _is_array(entry, part):
        sure = id in evidence.live or any(record.state.final for record in found)
        return set() if sure else {None}
    known = {element.index for element in part.record.elements if element.state.final}
    for record in found:
        live = record.source is Source.LIVE
        known |= {e.index for e in record.elements if live or e.state.final}
    return {index for index in entry.spec.array or () if index not in known}


def _is_array(entry: Entry, part: Part) -> bool:
    return entry.spec.array is not None and part.index is None


def _live(core: Core, ids: list[str]) -> Flow[dict[str, Record]]:
    features = core.dialect.features
    everything = core.dialect.live_all()
    above = features.list_all_above
    if everything is not None and above is not None and len(ids) > above:
        listing = yield from ask(everything, core.policy)
        return _by_id(listing)
    found: dict[str, Record] = {}
    for group in chunks(ids, features.chunk):
        listing = yield from ask(core.dialect.live(group), core.policy)
        found |= _by_id(listing)
        missing = [id for id in group if id not in found]
        if features.ask_missing_singly and len(group) > 1 and len(missing) <= SINGLY:
            for id in missing:
                found |= _by_id((yield from ask(core.dialect.live([id]), core.policy)))
    return found


def _by_id(listing: Listing) -> dict[str, Record]:
    """Jobs and elements alike, each under its own id."""
    found = {record.id: record for record in listing.records}
    for record in listing.records:
        if record.elements:
            found |= {element.id: element for element in record.elements}
    return found


def _ask_history(core: Core, absent: list[tuple[Entry, Part]], evidence: _Evidence) -> Flow[None]:
    """Never fatal: a history that is away or does not exist is one source less."""
    since = min(part.submitted for _, part in absent)
    ids = list(dict.fromkeys(part.id for _, part in absent if part.id is not None))
    for group in chunks(ids, core.dialect.features.chunk):
        question = core.dialect.history(group, since)
        if question is None:
            return
        try:
            evidence.history |= _by_id((yield from ask(question, core.policy)))
        except HistoryUnavailable:
            return
        except (TransportError, GristmillError):
            evidence.history_failed = True
            return


_READ_EXITS = (
    f'cd "{wrapper.EXIT_DIRECTORY}" 2>/dev/null || exit 0; ls >/dev/null; '
    'while read -r name; do [ -f "$name" ] && { echo "== $name"; cat "$name"; }; done; exit 0'
)


def _exit_records(absent: list[tuple[Entry, Part]], evidence: _Evidence) -> Flow[dict[str, Record]]:
    """What the wrappers wrote, by token (and index): `ls` first, for file systems that lag."""
    names = [
        _exit_name(part, index)
        for entry, part in absent
        if part.token
        for index in _missing(entry, part, evidence)
    ]
    if not names:
        return {}
    text = "\n".join(names) + "\n"
    out: Output = yield Run(Command(("sh", "-c", _READ_EXITS), text.encode()))
    pieces = re.split(r"^== (\S+)\n", out.text, flags=re.MULTILINE)[1:]
    return {
        name: _from_exit(wrapper.read_exit_record(body))
        for name, body in zip(pieces[::2], pieces[1::2], strict=True)
        if "exit=" in body
    }


def _exit_name(part: Part, index: int | None) -> str:
    index = part.index if index is None else index
    return part.token if index is None else f"{part.token}.{index}"


def _from_exit(values: Mapping[str, str]) -> Record:
    code = int(values.get("exit") or 1)
    return Record(
        id=values.get("id", ""),
        state=JobState.DONE if code == 0 else JobState.FAILED,
        native_state=f"exit record {code}",
        exit_code=code,
        signal=of_exit_code(code),
        started=float(values["start"]) if values.get("start") else None,
        ended=float(values["end"]) if values.get("end") else None,
        nodes=(values["host"],) if values.get("host") else (),
        source=Source.EXIT_FILE,
    )


def _conclude(core: Core, entry: Entry, part: Part, evidence: _Evidence) -> Flow[None]:
    if _is_array(entry, part):
        record = _array_record(core, entry, part, evidence)
    else:
        record = _one_record(core, part, evidence, None, part.record)
    record = _adjusted(core, entry, part, record)
    if _may_be_memory(core, entry, record):
        record = yield from _memory_checked(core, entry, part, record)
    part.record = record


def _array_record(core: Core, entry: Entry, part: Part, evidence: _Evidence) -> Record:
    old = {element.index: element for element in part.record.elements}
    members = []
    for index in entry.spec.array or ():
        last = old.get(index)
        if last is None or not last.state.final or last.state is JobState.LOST:
            last = _one_record(core, part, evidence, index, last)
            last = replace(last, index=index, array_id=part.id)
        members.append(last)
    return joined(part.id or "", members)


def _one_record(
    core: Core, part: Part, evidence: _Evidence, index: int | None, last: Record | None
) -> Record:
    """The strongest evidence there is, of a job or of one element."""
    id = part.id or ""
    live = _element(evidence.live.get(id), index)
    past = _element(evidence.history.get(id), index)
    if live is not None:
        return live
    if past is not None and past.state.final:
        return past
    if (told := evidence.exits.get(_exit_name(part, index))) is not None:
        return replace(told, id=id if index is None else core.dialect.element_id(id, index))
    return _absent(core, part, evidence, index, past or last)


def _element(record: Record | None, index: int | None) -> Record | None:
    if record is None or index is None:
        return record
    return next((element for element in record.elements if element.index == index), None)


def _absent(
    core: Core, part: Part, evidence: _Evidence, index: int | None, last: Record | None
) -> Record:
    """Known to nobody: what we cancelled is cancelled, the rest waits out its grace."""
    id = part.id or ""
    if index is not None:
        id = core.dialect.element_id(id, index)
    old = last if last is not None and last.state is not JobState.NEW else None
    base = replace(old, source=Source.GRACE) if old else Record(id=id, state=JobState.QUEUED)
    quiet = core.clock() - max(part.submitted, part.seen)
    if part.cancelled and quiet > min(5.0, core.dialect.features.grace):
        return replace(base, id=id, state=JobState.CANCELLED, cause=Cause.CANCELLED)
    grace = core.dialect.features.grace * (_PATIENCE if evidence.history_failed else 1)
    if quiet < grace:
        return replace(base, id=id, source=Source.GRACE)
    return replace(
        base, id=id, state=JobState.LOST, cause=Cause.VANISHED, reason="", source=Source.NONE
    )


def _adjusted(core: Core, entry: Entry, part: Part, record: Record) -> Record:
    """What only we know: our gate, our own cancel, a hold that nobody asked for."""
    if record.state is JobState.HELD and part.gated:
        return replace(record, cause=Cause.GATE)
    young = core.clock() - part.submitted < FLICKER
    flickers = core.dialect.features.hold_flickers and young
    if record.state is JobState.HELD and flickers and entry.spec.hold is None:
        return replace(record, state=JobState.QUEUED, cause=None)
    killed = record.state is JobState.FAILED and (record.signal in (9, 15) or not record.exit_code)
    if part.cancelled and killed:
        return replace(record, state=JobState.CANCELLED, cause=Cause.CANCELLED)
    return record


def _may_be_memory(core: Core, entry: Entry, record: Record) -> bool:
    asked = entry.spec.memory or entry.spec.memory_per_core
    killed = record.state is JobState.FAILED and record.signal in (9, 15)
    return bool(core.dialect.memory_kill and asked and killed and not record.elements)


def _memory_checked(core: Core, entry: Entry, part: Part, record: Record) -> Flow[Record]:
    """Some managers tell a memory kill to the job's stderr only."""
    text = yield from log_tail(entry, part, record)
    if text is not None and re.search(core.dialect.memory_kill, text):
        return replace(record, state=JobState.OUT_OF_MEMORY, cause=Cause.MEMORY_LIMIT)
    return record


def log_tail(entry: Entry, part: Part, record: Record) -> Flow[str | None]:
    """The end of the job's stderr; None when it cannot be read."""
    stream = "stdout" if entry.spec.join else "stderr"
    try:
        data: bytes = yield Get(log_path(entry, part, record.index, stream))
    except (OSError, GristmillError):
        return None
    return data[-LOG_TAIL:].decode("utf-8", "backslashreplace")


def log_path(entry: Entry, part: Part, index: int | None, stream: str) -> str:
    """Where a stream of the job, or of one element, is written on the cluster.

    Raises KeyError when there is no such stream (stderr joined to stdout).
    """
    pattern = patterns.outputs(_as_sent(entry, part))[stream]
    id = part.id or ""
    element = id if index is None or part.index is not None else f"{id}_{index}"
    index = part.index if index is None else index
    name = entry.spec.name
    return within(entry, patterns.expand(pattern, job=element, array=id, index=index, name=name))


def _as_sent(entry: Entry, part: Part) -> Spec:
    return entry.spec if part.index is None else replace(entry.spec, array=None)


def within(entry: Entry, path: str) -> str:
    """A path of the job as seen from where commands start."""
    if path.startswith("~/"):
        return path
    return posixpath.join(entry.directory, path)


def look_up(core: Core, ids: Collection[str]) -> Flow[dict[str, Record]]:
    """The records of jobs of which only the id is known; those not found are left out."""
    if not ids:
        return {}
    found = yield from _live(core, list(ids))
    entries = [_stranger(id) for id in ids if id not in found]
    evidence = _Evidence(found, {}, {})
    if entries:
        yield from _ask_history(core, [(entry, entry.parts[0]) for entry in entries], evidence)
    return {
        id: record
        for id in ids
        if (record := found.get(id) or evidence.history.get(id)) is not None
    }


def _stranger(id: str) -> Entry:
    return Entry("", 0, Spec(name=id), "", [Part("", id=id)])


def strangers(ids: Iterable[str]) -> Iterator[Entry]:
    """Entries for jobs that somebody else submitted."""
    return (_stranger(id) for id in ids)
