"""The local manager of `gristmill.localrm`: processes of this user on one machine.

Its commands take and give JSON, so there is little to parse. Exact to the second and the byte:
wall time, memory of the whole process tree, slots, GPUs, holds, arrays, all four dependencies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gristmill import patterns
from gristmill.commands import Ask, Command, Output
from gristmill.errors import ParseError
from gristmill.jobs import Hold, JobState, Relation, Spec
from gristmill.managers import wrapper
from gristmill.managers.base import Dialect, Features, Rendering, Request, Sheet
from gristmill.records import (
    Accounting,
    Cause,
    Listing,
    Node,
    Outcome,
    Queue,
    Record,
    Source,
    joined,
)

if TYPE_CHECKING:
    from gristmill.transports.base import Transport

PROGRAM = "gristmill-local"
QUEUE = "local"

HOLD_CAUSES = {"user": Cause.HELD_BY_USER, "system": Cause.HELD_BY_OPERATOR}


class LocalDialect(Dialect):
    """Processes on this machine."""

    name = "local"
    title = "local processes"
    documented = "gristmill.localrm of this version"
    commands = (PROGRAM,)
    features = Features(
        relations=frozenset(Relation),
        element_wise=True,
        arrays=True,
        throttle=True,
        holds=frozenset(Hold),
        chunk=1_000_000,
        interval=1.0,
        grace=10.0,
    )

    def transport(self) -> Transport:
        from gristmill.localrm.commands import InProcess

        return InProcess()

    def canonical(self, text: str) -> str:
        number, sign, index = text.strip().partition("_")
        if not number.isdigit() or (sign and not index.isdigit()):
            raise ParseError(f"local: {text!r} is not a job id")
        return text.strip()

    def element_id(self, array_id: str, index: int) -> str:
        return f"{array_id}_{index}"

    def render(self, request: Request) -> Rendering:
        spec = request.spec
        sheet = Sheet(self.name, request)
        for attribute in ("name", "stdout", "stderr", "join", "priority", "begin", "array"):
            if sheet.has(attribute):
                sheet.exact(attribute)
        for step in (_sizes, _place, _flags):
            step(sheet, spec)
        for option in spec.native.get(self.name, ()):
            sheet.refuse_native(option, "it has no raw options")
        frame = wrapper.Frame(
            job_id="${GRISTMILL_LOCAL_JOB}${GRISTMILL_LOCAL_INDEX:+_$GRISTMILL_LOCAL_INDEX}",
            array_id="${GRISTMILL_LOCAL_JOB}",
            index=str(request.index) if request.index is not None else "${GRISTMILL_LOCAL_INDEX:-}",
        )
        script = wrapper.build(frame, spec, request.body, request.token)
        return Rendering(
            script=script,
            argv=(PROGRAM, "submit"),
            stdin=json.dumps(_job(request, script)).encode(),
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        return self.submitted_id(out, r'^\{"id": "(\d+)"\}$')

    def find(self, token: str) -> Ask[str | None]:
        return Ask(_command("find", token=token), self.parse_find)

    def parse_find(self, out: Output) -> str | None:
        found: str | None = self._json(out)["id"]
        return found

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_command("status", ids=list(ids)), self.parse_live)

    def parse_live(self, out: Output) -> Listing:
        return listing_of(self._json(out))

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_command("status", ids=[id]), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        """Sums over the elements of an array, and the largest peak."""
        tasks = [task for task in self._json(out) if id in (str(task["job"]), _id(task))]
        cpu = [task["cpu"] for task in tasks if task["cpu"] is not None]
        peak = [task["peak"] for task in tasks if task["peak"] is not None]
        return Accounting(
            id=id, cpu=sum(cpu) if cpu else None, peak_memory=max(peak, default=None), queue=QUEUE
        )

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(_command("hold", ids=list(ids), kind=kind), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(_command("release", ids=list(ids), kind=kind), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(_command("cancel", ids=list(ids)), self.parse_action)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        return Ask(_command("signal", ids=list(ids), signal=signal), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        return {id: Outcome(text) for id, text in self._json(out).items()}

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(_command("machine"), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        told = self._json(out)
        running, waiting = told["running"], told["waiting"]
        return (Queue(name=QUEUE, default=True, nodes=1, running=running, waiting=waiting),)

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(_command("machine"), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        told = self._json(out)
        return (
            Node(
                name=told["name"],
                state="up",
                up=True,
                cores=told["slots"],
                free_cores=told["free"],
                memory=told["memory"],
                gpus=told["gpus"] or None,
                queues=(QUEUE,),
            ),
        )

    def _json(self, out: Output) -> Any:
        self.require_ok(out)
        return json.loads(out.stdout)


def _command(verb: str, **given: Any) -> Command:
    return Command((PROGRAM, verb), json.dumps(given).encode())


def _sizes(sheet: Sheet, spec: Spec) -> None:
    """One machine: nodes is 1, and cores are slots."""
    for attribute in ("tasks", "tasks_per_node", "cores_per_task", "cores_per_node"):
        if sheet.has(attribute):
            sheet.exact(attribute, given=f"{_cores(spec)} slots in all")
    for attribute in ("time", "memory", "gpus"):
        if sheet.has(attribute):
            sheet.exact(attribute)
    if sheet.has("memory_per_core"):
        sheet.exact("memory_per_core", given=f"{_memory(spec)} bytes for the job")
    if sheet.has("nodes") and spec.nodes == 1:
        sheet.exact("nodes")
    elif sheet.has("nodes"):
        sheet.refuse("nodes", "there is one machine")
    if sheet.has("gpu_type"):
        sheet.refuse("gpu_type", "its GPUs have numbers only")


def _place(sheet: Sheet, spec: Spec) -> None:
    if sheet.has("directory"):
        sheet.exact("directory")
    if sheet.has("queue") and spec.queue == QUEUE:
        sheet.exact("queue")
    elif sheet.has("queue"):
        sheet.refuse("queue", f"its only queue is {QUEUE!r}")


def _flags(sheet: Sheet, spec: Spec) -> None:
    if sheet.has("hold"):
        sheet.exact("hold")
    if sheet.has("exclusive"):
        sheet.refuse("exclusive", "ask for all its cores instead")
    if sheet.has("requeue") and spec.requeue:
        sheet.refuse("requeue", "a job never runs twice")
    elif sheet.has("requeue"):
        sheet.exact("requeue")


def _cores(spec: Spec) -> int:
    tasks = spec.tasks or spec.tasks_per_node or 1
    return max(tasks * (spec.cores_per_task or 1), spec.cores_per_node or 1)


def _memory(spec: Spec) -> int | None:
    if spec.memory_per_core is not None:
        return spec.memory_per_core * _cores(spec)
    return spec.memory


def _job(request: Request, script: str) -> dict[str, Any]:
    spec = request.spec
    attributes = {"directory": spec.directory or "", "time": spec.time, **patterns.outputs(spec)}
    hold = spec.hold or (Hold.USER if request.held else None)
    return {
        "token": request.token,
        "name": spec.name,
        "attributes": attributes,
        "script": script,
        "dependencies": [[e.relation, e.id, e.element_wise] for e in request.edges],
        "priority": spec.priority,
        "begin": spec.begin,
        "cores": _cores(spec),
        "memory": _memory(spec),
        "gpus": spec.gpus,
        "array": str(spec.array) if spec.array else None,
        "hold": hold,
    }


def _id(task: Mapping[str, Any]) -> str:
    return f"{task['job']}_{task['idx']}" if task["is_array"] else str(task["job"])


def _record(task: Mapping[str, Any]) -> Record:
    state = JobState(task["state"])
    array = bool(task["is_array"])
    cause = HOLD_CAUSES.get(task["hold"] or "") if state is JobState.HELD else None
    told = task["cause"]
    if told is not None:
        cause = next((known for known in Cause if told.startswith(known)), Cause.UNKNOWN)
    return Record(
        id=_id(task),
        state=state,
        native_state=task["state"],
        cause=cause,
        reason=told or "",
        exit_code=task["exit_code"],
        signal=task["signal"],
        submitted=task["submitted"],
        started=task["started"],
        ended=task["ended"],
        queue=QUEUE,
        array_id=str(task["job"]) if array else None,
        index=task["idx"] if array else None,
        token=task["token"],
        source=Source.LIVE,
    )


def listing_of(tasks: Iterable[Mapping[str, Any]]) -> Listing:
    """Tasks as jobs, the elements of an array under one record."""
    singles: list[Record] = []
    arrays: dict[str, list[Record]] = {}
    for task in tasks:
        record = _record(task)
        if record.array_id is None:
            singles.append(record)
        else:
            arrays.setdefault(record.array_id, []).append(record)
    return Listing((*singles, *(joined(id, elements) for id, elements in arrays.items())))
