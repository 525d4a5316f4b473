"""Our own gate: dependencies and throttles that the manager lacks, enforced on held jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gristmill.engine import acting, watching
from gristmill.engine.core import Core
from gristmill.engine.entries import Entry, Gate, Part, RunEntry, ended, marked
from gristmill.engine.flows import Flow
from gristmill.jobs import Hold, JobState
from gristmill.records import Cause, Outcome, Record


@dataclass(slots=True)
class _Decision:
    """What a pass of the gate decided."""

    free: list[Part] = field(default_factory=list)
    close: list[Part] = field(default_factory=list)


def tend(core: Core, runs: Iterable[RunEntry]) -> Flow[None]:
    """One pass: release what may run, cancel what never can. The runs were just refreshed.

    Passes on what it decides at once: a cancelled job closes the gates behind it.
    """
    for run in runs:
        outside = yield from _outside(core, run)
        _explain(run, outside)
        while True:
            decision = _decide(run, outside)
            if not (decision.free or decision.close):
                break
            yield from _carry_out(core, run, decision)


def _explain(run: RunEntry, outside: Mapping[str, Record]) -> None:
    """A job that another process's pass has closed looks like any cancelled one."""
    for entry in run.entries:
        for part in entry.parts:
            plain = part.gated and part.record.cause is Cause.CANCELLED and not part.cancelled
            if plain and part.settled and _verdict(run, entry, part, outside) is False:
                part.gated = False
                part.record = replace(part.record, cause=Cause.DEPENDENCY_NEVER)


def has_gated(run: RunEntry) -> bool:
    """Whether something of it still waits for the gate."""
    return not run.undone and any(part.gated and not part.settled for part in run.parts())


def _outside(core: Core, run: RunEntry) -> Flow[Mapping[str, Record]]:
    ids = {
        gate.id
        for entry in run.entries
        if any(part.gated for part in entry.parts)
        for gate in entry.gates
        if gate.id is not None
    }
    return (yield from watching.look_up(core, ids))


def _decide(run: RunEntry, outside: Mapping[str, Record]) -> _Decision:
    decision = _Decision()
    for entry in run.entries:
        waiting = [part for part in entry.parts if part.gated and not part.settled and part.id]
        room = _room(entry)
        for part in waiting:
            verdict = _verdict(run, entry, part, outside)
            if verdict is False:
                decision.close.append(part)
            elif verdict and entry.spec.hold is None and room > 0:
                decision.free.append(part)
                room -= 1
    return decision


def _room(entry: Entry) -> int:
    """How many elements of an emulated array may still be let go."""
    array = entry.spec.array
    if not entry.emulates_array or array is None or array.throttle is None:
        return len(entry.parts)
    active = sum(1 for part in entry.parts if not part.gated and not part.record.state.final)
    return array.throttle - active


def _verdict(run: RunEntry, entry: Entry, part: Part, outside: Mapping[str, Record]) -> bool | None:
    """True when every gate is satisfied, False when one never can be, None while it is open."""
    verdicts = [
        gate.relation.satisfied_by(_state(run, gate, part, outside)) for gate in entry.gates
    ]
    if False in verdicts:
        return False
    return all(verdicts) or None


def _state(run: RunEntry, gate: Gate, part: Part, outside: Mapping[str, Record]) -> JobState:
    if gate.number is None:
        record = outside.get(gate.id or "")
        if record is None:
            return JobState.QUEUED
        wanted = part.index if gate.element_wise else None
        element = next((e for e in record.elements if e.index == wanted), None)
        return (element or record).state
    target = run.entries[gate.number]
    if gate.element_wise and part.index is not None:
        return target.element_state(part.index) or JobState.LOST
    return target.state


def _carry_out(core: Core, run: RunEntry, decision: _Decision) -> Flow[None]:
    if decision.free:
        ids = [part.id for part in decision.free if part.id is not None]
        outcomes = yield from acting.act(core, "release", ids, Hold.USER)
        for part in decision.free:
            part.gated = False
            gone = outcomes.get(part.id or "") in (Outcome.OK, Outcome.ALREADY_FINAL)
            state = JobState.QUEUED if gone else part.record.state
            part.record = replace(part.record, state=state, cause=None)
        core.journal.append(marked("opened", run.id, (part.token for part in decision.free)))
    if decision.close:
        ids = [part.id for part in decision.close if part.id is not None]
        yield from acting.act(core, "cancel", ids)
        for part in decision.close:
            part.gated = False
            part.record = replace(
                part.record,
                id=part.id or "",
                state=JobState.CANCELLED,
                cause=Cause.DEPENDENCY_NEVER,
                ended=core.clock(),
            )
        core.journal.append(ended(run.id, decision.close))
