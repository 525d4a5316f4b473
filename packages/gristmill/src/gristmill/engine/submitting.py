"""Submission: exactly once, in order, all or nothing.

Intent in the journal; roots held, targets before dependents; ids in the journal; then release.
An answer that does not say whether the job was made is never guessed: the job is looked up by its
token first.
"""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gristmill.commands import Command, Output
from gristmill.engine import acting, planning, watching
from gristmill.engine.core import Core
from gristmill.engine.entries import Entry, Gate, Part, RunEntry, intent, marked, sent
from gristmill.engine.flows import Flow, Put, Run, RunMany, Sleep, ask
from gristmill.engine.planning import Plan, PlannedJob
from gristmill.errors import (
    ConnectionLost,
    DependencyNeverSatisfied,
    GristmillError,
    SubmitFailed,
    Transient,
    Unclear,
    UnknownJob,
    Unsupported,
)
from gristmill.jobs import Dependency, Hold, Job, JobState, Relation
from gristmill.managers.base import Edge, Rendering, Request
from gristmill.records import Outcome

STAGE_FOLDER = "~/.gristmill/stage"


@dataclass(frozen=True, slots=True)
class _Sending:
    """One submission to be made."""

    entry: Entry
    part: Part
    planned: PlannedJob


def submit(core: Core, jobs: Sequence[Job], given: Mapping[Job, Entry]) -> Flow[RunEntry]:
    """Submit jobs, targets first. `given` are targets of them that were submitted earlier.

    Raises Unsupported, BadValue or DependencyNeverSatisfied before anything is sent; SubmitFailed
    (or, for a single job, the manager's own error) after taking back what was sent.
    """
    dropped = yield from _resolve(core, jobs, given)
    plan = planning.plan(core, jobs, given, dropped, core.token)
    plan.require()
    run = _intend(core, plan, given)
    core.journal.append(intent(run))
    yield from _stage_in(plan, run)
    try:
        yield from _send_all(core, run, plan, given)
        yield from _release(core, run, plan)
    except (GristmillError, KeyboardInterrupt) as error:
        yield from _take_back(core, run, error)
    return run


def _resolve(
    core: Core, jobs: Sequence[Job], given: Mapping[Job, Entry]
) -> Flow[dict[Job, set[Dependency]]]:
    """Look at targets that the manager has already: satisfied edges are dropped.

    Managers disagree about a target that has ended: rejected, satisfied or held for ever.
    """
    outside = [
        (job, edge, id)
        for job in jobs
        for edge in job.dependencies
        if (id := planning.outside_id(core, edge, given)) is not None
    ]
    dropped: dict[Job, set[Dependency]] = {}
    if not outside:
        return dropped
    yield from watching.refresh(core, list(given.values()))
    states = {entry.id: entry.state for entry in given.values()}
    strangers = {id for _, _, id in outside} - set(states)
    states |= {
        id: record.state for id, record in (yield from watching.look_up(core, strangers)).items()
    }
    for job, edge, id in outside:
        if _already_met(job, edge, id, states.get(id, JobState.LOST)):
            dropped.setdefault(job, set()).add(edge)
    return dropped


def _already_met(job: Job, edge: Dependency, id: str, state: JobState) -> bool:
    if state is JobState.LOST:
        raise UnknownJob(f"{job.name!r} waits for job {id}, which is not known")
    met = edge.relation.satisfied_by(state)
    if met is False:
        raise DependencyNeverSatisfied(
            f"{job.name!r} would wait {edge.relation} for job {id}, which is {state} already"
        )
    return bool(met)


def _intend(core: Core, plan: Plan, given: Mapping[Job, Entry]) -> RunEntry:
    now = core.clock()
    run = RunEntry(core.token(), now, by=f"{platform.node()} {os.getpid()}")
    numbers = {planned.job: number for number, planned in enumerate(plan.jobs)}
    for planned in plan.jobs:
        indices: Sequence[int | None] = planned.indices or (None,)
        gated = bool(planned.gated) or _throttled(planned)
        parts = [Part(core.token(), index, gated=gated) for index in indices]
        parts[0].token = planned.token
        gates = tuple(g for edge in planned.gated for g in _gates(core, edge, numbers, given))
        directory = planned.spec.directory or core.directory
        run.entries.append(
            Entry(
                run.id,
                numbers[planned.job],
                planned.spec,
                directory,
                parts,
                gates,
                planned.indices is not None,
            )
        )
    return run


def _throttled(planned: PlannedJob) -> bool:
    array = planned.spec.array
    return planned.indices is not None and array is not None and array.throttle is not None


def _gates(
    core: Core, edge: Dependency, numbers: Mapping[Job, int], given: Mapping[Job, Entry]
) -> Iterator[Gate]:
    target = edge.target
    if isinstance(target, Job) and target not in given:
        yield Gate(edge.relation, number=numbers[target], element_wise=edge.element_wise)
        return
    if isinstance(target, Job) and given[target].emulates_array:
        if edge.relation is Relation.AFTER_NOT_OK:
            raise Unsupported(
                core.dialect.name, f"{edge.relation} on an array submitted earlier, {target.name!r}"
            )
        yield from (Gate(edge.relation, id=part.id) for part in given[target].parts)
        return
    id = planning.outside_id(core, edge, given)
    yield Gate(edge.relation, id=id, element_wise=edge.element_wise)


def _stage_in(plan: Plan, run: RunEntry) -> Flow[None]:
    for planned, entry in zip(plan.jobs, run.entries, strict=True):
        for here, there in planned.spec.stage_in:
            yield Put(watching.within(entry, there), Path(here).read_bytes())


def _send_all(core: Core, run: RunEntry, plan: Plan, given: Mapping[Job, Entry]) -> Flow[None]:
    entries = dict(zip((planned.job for planned in plan.jobs), run.entries, strict=True))
    waiting = deque(
        _Sending(entry, part, planned)
        for planned, entry in zip(plan.jobs, run.entries, strict=True)
        for part in entry.parts
    )
    known = {**given, **entries}
    while waiting:
        batch = list(islice(_ready(waiting, known), core.policy.parallel))
        for _ in batch:
            waiting.popleft()
        yield from _send_batch(core, batch, known)
        core.journal.append(sent(run.id, (sending.part for sending in batch)))


def _ready(waiting: deque[_Sending], known: Mapping[Job, Entry]) -> Iterator[_Sending]:
    """Those at the front whose targets all have an id."""
    for sending in waiting:
        targets = (edge.target for edge in sending.planned.native)
        if not all(known[target].id for target in targets if isinstance(target, Job)):
            return
        yield sending


def _send_batch(core: Core, batch: Sequence[_Sending], known: Mapping[Job, Entry]) -> Flow[None]:
    renderings = [_render(core, sending, known) for sending in batch]
    commands = []
    for sending, rendering in zip(batch, renderings, strict=True):
        commands.append((yield from _stage(sending.part, rendering)))
    if len(commands) == 1:
        answers = [(yield from _try(commands[0]))]
    else:
        answers = yield RunMany(tuple(commands))
    failures = []
    for sending, command, answer in zip(batch, commands, answers, strict=True):
        try:
            yield from _settle(core, sending.part, command, answer)
        except GristmillError as error:  # the others' ids are needed to take them back
            failures.append(error)
    if failures:
        raise failures[0]


def _try(command: Command) -> Flow[Output | GristmillError]:
    try:
        out: Output = yield Run(command)
    except GristmillError as error:
        return error
    return out


def _render(core: Core, sending: _Sending, known: Mapping[Job, Entry]) -> Rendering:
    planned, part = sending.planned, sending.part
    if part.token == planned.token and not planned.native:
        return planned.rendering  # it was made with this token, and has no ids to fill in
    edges = tuple(_edge(core, edge, known) for edge in planned.native)
    return core.dialect.render(
        Request(
            spec=planned.element_spec(),
            token=part.token,
            body=planned.body,
            edges=edges,
            held=planned.held and planned.spec.hold is None,
            index=part.index,
            now=core.clock(),
        )
    )


def _edge(core: Core, edge: Dependency, known: Mapping[Job, Entry]) -> Edge:
    if isinstance(edge.target, Job):
        entry = known[edge.target]
        return Edge(edge.relation, entry.id, edge.element_wise, entry.spec.array is not None)
    return Edge(edge.relation, planning.outside_id(core, edge, known) or "", edge.element_wise)


def _stage(part: Part, rendering: Rendering) -> Flow[Command]:
    """Write the files that the command needs, and give the command."""
    folder = f"{STAGE_FOLDER}/{part.token}"
    for file in rendering.files:
        yield Put(f"{folder}/{file.name}", file.content, file.executable)
    if not rendering.files:
        return rendering.command()
    home = yield Run(Command(("sh", "-c", 'printf %s "$HOME"')))
    return rendering.command(f"{home.text.strip()}/.gristmill/stage/{part.token}")


def _settle(
    core: Core, part: Part, command: Command, answer: Output | GristmillError
) -> Flow[None]:
    """From the answer to an id; unclear answers are looked up, busy managers asked again."""
    for attempt in range(core.policy.attempts):
        try:
            if isinstance(answer, GristmillError):
                raise answer
            part.id = core.dialect.parse_submit(answer)
            part.submitted = part.seen = core.clock()
            return
        except Transient:
            if attempt + 1 == core.policy.attempts:
                raise
        except (Unclear, ConnectionLost) as error:
            yield from _find(core, part, error, answer)
            if part.id is not None:
                return
            if attempt + 1 == core.policy.attempts:
                raise
        yield Sleep(core.policy.delay(attempt))
        answer = yield from _try(command)


def _find(
    core: Core, part: Part, error: GristmillError, answer: Output | GristmillError
) -> Flow[None]:
    """Look the job up by its token, with patience: it may be listed late.

    A command that was given up on may still run and submit, so not finding it proves nothing:
    the error is raised, rather than to send the job twice.
    """
    for delay in core.policy.lookups:
        yield Sleep(delay)
        found = yield from ask(core.dialect.find(part.token), core.policy)
        if found is not None:
            part.id = core.dialect.canonical(found)
            part.submitted = part.seen = core.clock()
            return
    if isinstance(answer, Output) and answer.timed_out:
        raise Unclear(
            f"{error}; no job with the token {part.token} is listed, but it may still appear"
        )


def _release(core: Core, run: RunEntry, plan: Plan) -> Flow[None]:
    """Let go what was held for the submission alone."""
    ids = [
        part.id
        for planned, entry in zip(plan.jobs, run.entries, strict=True)
        if planned.held and planned.spec.hold is None
        for part in entry.parts
        if not part.gated and part.id is not None
    ]
    if ids:
        outcomes = yield from acting.act(core, "release", ids, Hold.USER)
        if bad := [id for id, outcome in outcomes.items() if outcome is not Outcome.OK]:
            raise GristmillError(f"{core.dialect.name} did not release {', '.join(bad)}")
    run.released = True
    if len(run.entries) > 1 or ids:
        core.journal.append(marked("released", run.id))


def _take_back(core: Core, run: RunEntry, error: BaseException) -> Flow[None]:
    """Cancel what was sent, and raise."""
    ids = [part.id for part in run.parts() if part.id is not None]
    left: list[str] = []
    if ids:
        try:
            outcomes = yield from acting.act(core, "cancel", ids)
        except GristmillError:
            left = ids
        else:
            good = (Outcome.OK, Outcome.ALREADY_FINAL)
            left = [id for id, outcome in outcomes.items() if outcome not in good]
    run.undone = True
    core.journal.append(marked("undone", run.id))
    if not ids or not isinstance(error, GristmillError):
        raise error
    taken = [id for id in ids if id not in left]
    text = f"the group was not submitted: {error}; {len(taken)} jobs sent before were taken back"
    if left:
        text += f"; could not be taken back, cancel them by hand: {', '.join(left)}"
    raise SubmitFailed(text, taken, left) from error


def recover(core: Core, run: RunEntry) -> Flow[None]:
    """Mend a run whose submitter died: find its jobs by token, then release or take back.

    All jobs found: the run goes on. Some missing: those that are there were held, and are
    cancelled, so that the group is submitted whole or not at all.
    """
    if run.released or run.undone or _is_submitting(run):
        return
    found = yield from _find_all(core, [p.token for p in run.parts() if p.id is None])
    for part in run.parts():
        if part.token in found:
            part.id, part.submitted = core.dialect.canonical(found[part.token]), run.time
            part.seen = core.clock()
    have = [part for part in run.parts() if part.id is not None]
    core.journal.append(sent(run.id, have))
    ids = [part.id for part in have if not part.gated and part.id is not None]
    if len(have) < sum(1 for _ in run.parts()):
        if have:
            yield from acting.act(core, "cancel", [part.id for part in have if part.id])
        run.undone = True
        core.journal.append(marked("undone", run.id))
        return
    held = [id for id in ids if _was_held(run, id)]
    if held:
        yield from acting.act(core, "release", held, Hold.USER)
    run.released = True
    core.journal.append(marked("released", run.id))


def _find_all(core: Core, tokens: Sequence[str]) -> Flow[dict[str, str]]:
    """Ids by token: from one listing of everything, where the manager has one."""
    everything = core.dialect.live_all() if len(tokens) > 1 else None
    if everything is not None:
        listing = yield from ask(everything, core.policy)
        listed = {record.token or "": record.id for record in listing.records}
        return {token: listed[token] for token in tokens if token in listed}
    found = {}
    for token in tokens:
        id = yield from ask(core.dialect.find(token), core.policy)
        if id is not None:
            found[token] = id
    return found


def _is_submitting(run: RunEntry) -> bool:
    """Whether its submitter is another process of this machine that still lives."""
    host, _, pid = run.by.partition(" ")
    if host != platform.node() or not pid.isdigit() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _was_held(run: RunEntry, id: str) -> bool:
    """A single job is sent free; in a group a job may have been held, unless its user wants it."""
    size = sum(len(entry.parts) for entry in run.entries)
    entry = next(e for e in run.entries for part in e.parts if part.id == id)
    return size > 1 and entry.spec.hold is None
