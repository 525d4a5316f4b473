"""What the client remembers of the jobs it submitted, and how the journal writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from gristmill import jobfiles
from gristmill.jobs import JobState, Relation, Spec
from gristmill.records import Cause, Record, Source, joined

NEW = Record(id="", state=JobState.NEW, source=Source.NONE)


@dataclass(slots=True)
class Part:
    """One submission at the manager: a job, or one element of an array that we emulate."""

    token: str
    index: int | None = None
    id: str | None = None
    submitted: float = 0.0
    seen: float = 0.0  #: when the live listing last had it
    record: Record = NEW
    listed: Record | None = None  #: what the last listing said, from which `record` follows
    gated: bool = False  #: held by us until `Entry.gates` are satisfied
    cancelled: bool = False  #: we asked for its end

    @property
    def settled(self) -> bool:
        """Ended for good; a lost job may yet be found by somebody who looks."""
        return self.record.state.final and self.record.state is not JobState.LOST


@dataclass(frozen=True, slots=True)
class Gate:
    """A dependency that we enforce ourselves: on job `number` of the run, or on a native id."""

    relation: Relation
    number: int | None = None
    id: str | None = None
    element_wise: bool = False


@dataclass(slots=True, eq=False)
class Entry:
    """One job of a run."""

    run: str
    number: int
    spec: Spec
    directory: str
    parts: list[Part]
    gates: tuple[Gate, ...] = ()
    emulates_array: bool = False

    @property
    def id(self) -> str:
        """The native id; of an emulated array, that of its first element."""
        return self.parts[0].id or ""

    @property
    def record(self) -> Record:
        if not self.emulates_array:
            return self.parts[0].record
        elements = [_as_element(part, self.id) for part in self.parts]
        return joined(self.id, elements, len(self.parts))

    @property
    def state(self) -> JobState:
        return self.record.state

    def element_state(self, index: int) -> JobState | None:
        """The state of one element, None when there is none of that index."""
        return next((e.state for e in self.record.elements if e.index == index), None)


def _as_element(part: Part, array_id: str) -> Record:
    values = {item.name: getattr(part.record, item.name) for item in fields(Record)}
    return Record(**{**values, "index": part.index, "array_id": array_id})


@dataclass(slots=True)
class RunEntry:
    """What was submitted together."""

    id: str
    time: float
    entries: list[Entry] = field(default_factory=list)
    released: bool = False  #: every job that we held for the submission has been let go
    undone: bool = False  #: the submission failed and was taken back
    by: str = ""  #: host and pid of the submitter

    def parts(self) -> Iterator[Part]:
        return (part for entry in self.entries for part in entry.parts)


Event: TypeAlias = dict[str, Any]


def intent(run: RunEntry) -> Event:
    """The event that is written before anything is sent."""
    return {
        "event": "run",
        "run": run.id,
        "time": run.time,
        "by": run.by,
        "jobs": [_entry_to_json(entry) for entry in run.entries],
    }


def sent(run: str, parts: Iterable[Part]) -> Event:
    ids = {part.token: [part.id, part.submitted] for part in parts}
    return {"event": "sent", "run": run, "ids": ids}


def ended(run: str, parts: Iterable[Part]) -> Event:
    records = {part.token: record_to_json(part.record) for part in parts}
    return {"event": "ended", "run": run, "records": records}


def marked(kind: str, run: str, tokens: Iterable[str] = ()) -> Event:
    """`released`, `undone`, `opened` (the gate, for tokens) or `cancelled` (tokens)."""
    return {"event": kind, "run": run, "tokens": list(tokens)}


def replay(events: Iterable[Event]) -> dict[str, RunEntry]:
    """The runs of a journal. Events of a run that is not there are passed over."""
    runs: dict[str, RunEntry] = {}
    parts: dict[str, Part] = {}
    for event in events:
        run = runs.get(event.get("run", ""))
        if event.get("event") == "run":
            run = _run_from_json(event)
            runs[run.id] = run
            parts.update((part.token, part) for part in run.parts())
        elif run is not None:
            _apply(event, run, parts)
    return runs


def _apply(event: Event, run: RunEntry, parts: Mapping[str, Part]) -> None:
    match event["event"]:
        case "sent":
            for token, (id, submitted) in event["ids"].items():
                parts[token].id, parts[token].submitted = id, submitted
                parts[token].seen = submitted
        case "ended":
            for token, record in event["records"].items():
                parts[token].record = record_from_json(record)
        case "opened":
            for token in event["tokens"]:
                parts[token].gated = False
        case "cancelled":
            for token in event["tokens"]:
                parts[token].cancelled = True
        case "released":
            run.released = True
        case "undone":
            run.undone = True
        case _:
            pass  # of a newer version


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    value: dict[str, Any] = {
        "spec": jobfiles.spec_to_json(entry.spec),
        "dir": entry.directory,
        "parts": [[part.token, part.index, part.gated] for part in entry.parts],
    }
    if entry.gates:
        value["gates"] = [[g.relation, g.number, g.id, g.element_wise] for g in entry.gates]
    if entry.emulates_array:
        value["emulates_array"] = True
    return value


def _run_from_json(event: Event) -> RunEntry:
    run = RunEntry(event["run"], event["time"], by=event.get("by", ""))
    for number, value in enumerate(event["jobs"]):
        parts = [Part(token, index, gated=gated) for token, index, gated in value["parts"]]
        gates = tuple(Gate(Relation(g[0]), *g[1:]) for g in value.get("gates", ()))
        spec = jobfiles.spec_from_json(value["spec"])
        emulated = value.get("emulates_array", False)
        run.entries.append(Entry(run.id, number, spec, value["dir"], parts, gates, emulated))
    return run


def record_to_json(record: Record) -> dict[str, Any]:
    """The fields that are set; elements within."""
    value: dict[str, Any] = {}
    for item in fields(Record):
        found = getattr(record, item.name)
        if item.name == "elements":
            found = [record_to_json(element) for element in found]
        if found not in (None, "", [], ()):
            value[item.name] = list(found) if isinstance(found, tuple) else found
    return value


def record_from_json(value: Mapping[str, Any]) -> Record:
    return Record(
        **{
            **value,
            "id": value.get("id", ""),
            "state": JobState(value["state"]),
            "cause": Cause(value["cause"]) if "cause" in value else None,
            "source": Source(value.get("source", Source.JOURNAL)),
            "nodes": tuple(value.get("nodes", ())),
            "elements": tuple(record_from_json(e) for e in value.get("elements", ())),
        }
    )
