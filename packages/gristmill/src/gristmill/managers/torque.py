"""Torque: `qsub` from stdin, `qstat -x` (XML). It keeps no history but its own logs.

Facts: qsub(1B), qstat(1B), pbs_job_attributes(7B) of Torque 6.1; its pbs_job.h for the exit
statuses; lines marked [run] were seen on a real build of its master (recorded in
tests/recorded/torque). `keep_completed` of the server says for how long an ended job is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gristmill import quantities
from gristmill.commands import Ask, Command, Output
from gristmill.jobs import JobState
from gristmill.managers import _common, _pbs, _xml
from gristmill.managers.base import Features, Rendering, Request, Sheet
from gristmill.records import Accounting, Cause, Listing, Node, Queue, Record, Why

# exit_status below zero: JOB_EXEC_* of pbs_job.h
STATUSES = {
    -1: JobState.FAILED,
    -2: JobState.FAILED,
    -3: JobState.NODE_FAILURE,
    -8: JobState.FAILED,
    -9: JobState.FAILED,
    -10: JobState.OUT_OF_MEMORY,
    -11: JobState.TIMED_OUT,
    -12: JobState.TIMED_OUT,
    -13: JobState.FAILED,
}
UNKNOWN = 153  # exit status: PBSE_UNKJOBID & 255 [run]
NAME_LIMIT = 15
FRAMES = _pbs.Frames(
    '$(printf %s "$PBS_JOBID" | sed "s/\\[[0-9]*\\]/[]/")', "$PBS_ARRAYID"
)  # no variable holds the id of the array


class TorqueDialect(_pbs.PbsFamily):
    """Torque from 4.2."""

    name = "torque"
    title = "Torque"
    documented = "manual pages of Torque 6.1; outputs of a real master build; run on a simulator"
    finished = r"invalid state for job - COMPLETE"
    features = Features(
        relations=frozenset(_pbs.RELATIONS),
        arrays=True,
        throttle=True,
        chunk=500,
        list_all_above=500,
        interval=15.0,
        grace=90.0,
    )

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        given = _common.plain_name(request.spec.name, NAME_LIMIT, first="A-Za-z")
        _common.note_name(sheet, given, f"-N {given}")
        _pbs.common(sheet, request)
        for step in (_nodes_line, _memory, _rest, _directory):
            step(sheet, request)
        redirect = _pbs.outputs(sheet, request, "")
        sheet.native(r"(-(?:l\s*\w+|W\s*\w+|\w))")
        lines = _pbs.dependency(request.edges, "array")
        return _pbs.rendering(sheet, request, lines, redirect, FRAMES)

    def find(self, token: str) -> Ask[str | None]:
        command = _common.or_exit_record(("qstat", "-x", "-t"), token, _pbs.QUERY_ENV)
        return Ask(command, lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        """With -t, since arrays alone are not told with their variables everywhere."""
        self.require_ok(out)
        for block in _xml.blocks(out.text, "Job"):
            values = _xml.flat(block)
            if f"{_pbs.MARK_PREFIX}{token}" in values.get("Variable_List", ""):
                return re.sub(r"\[\d+\]", "[]", self.canonical(values["Job_Id"]))
        if (ended := _common.ended_id(out)) is not None:
            return re.sub(r"\[\d+\]", "[]", self.canonical(ended))
        if out.text.strip() and "</Data>" not in out.text:
            raise self.fault(Output(out.stdout, b"Communication failure: the answer was cut", 1))
        return None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_qstat("-x", "-t", *ids), lambda out: self.parse_jobs(out, ids))

    def live_all(self) -> Ask[Listing]:
        return Ask(_qstat("-x", "-t"), lambda out: self.parse_jobs(out, ()))

    def parse_jobs(self, out: Output, ids: Sequence[str]) -> Listing:
        """Nothing at all with rc 0 is an empty list; so it is, with rc 153, for unknown ids.

        An array's id may be answered with all jobs there are [run]: others are left out.
        """
        self.require_ok(out, UNKNOWN)
        unknown = [
            _pbs.as_asked(text, ids)
            for (text,) in _common.complaints(out.error_text, r"Unknown Job Id(?: Error)? (\S+)")
        ]
        complete = not out.text.strip() or "</Data>" in out.text
        return _common.listing(self._records(out.text, ids), unknown, complete=complete)

    def _records(self, text: str, ids: Sequence[str]) -> Iterator[Record]:
        asked = {number for id in ids if (number := _number(id))}
        for block in _xml.blocks(text, "Job"):
            values = _xml.flat(block)
            id = self.canonical(values["Job_Id"])
            if "[]" in id or (asked and _number(id) not in asked):
                continue
            record = _pbs.record(self, _pbs.as_asked(id, ids), values, STATUSES)
            yield record

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_qstat("-x", "-t", id), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        self.require_ok(out, UNKNOWN)
        block = next(_xml.blocks(out.text, "Job"), None)
        if block is None:
            return Accounting(id=id)
        values = _xml.flat(block)
        record = _pbs.record(self, id, values, STATUSES)
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=_common.of_clock(values.get("resources_used.walltime")),
            cpu=_common.of_clock(values.get("resources_used.cput")),
            peak_memory=_pbs.size(values.get("resources_used.mem")) or None,
            nodes=record.nodes,
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            queue=record.queue,
            account=values.get("Account_Name"),
        )

    def why(self, id: str) -> Ask[Why]:
        return Ask(_qstat("-x", "-t", id), lambda out: self.parse_why(out, id))

    def parse_why(self, out: Output, id: str) -> Why:
        self.require_ok(out)
        block = next(_xml.blocks(out.text, "Job"), None)
        if block is None:
            raise self.fault(Output(out.stdout, b"qstat showed no such job", out.rc))
        values = _xml.flat(block)
        record = _pbs.record(self, id, values, STATUSES)
        names = ["job_state", "comment", "Hold_Types", "depend", "exit_status", "exec_host"]
        cause = record.cause or (Cause.SUCCESS if record.state is JobState.DONE else Cause.UNKNOWN)
        return Why(record.state, cause, _pbs.evidence(values, names))

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(_qstat("-Q", "-f"), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        unfolded = out.text.replace("\n\t", "")
        pieces = re.split(r"^Queue: (\S+)$", unfolded, flags=re.MULTILINE)[1:]
        return tuple(
            _queue(name, dict(re.findall(r"^    (\S+) = (.*)$", body, re.MULTILINE)))
            for name, body in zip(pieces[::2], pieces[1::2], strict=True)
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("pbsnodes", "-a", "-x"), env=_pbs.QUERY_ENV), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        return tuple(_node(_xml.flat(block)) for block in _xml.blocks(out.text, "Node"))


def _number(id: str) -> str:
    return re.split(r"[\[.]", id)[0]


# -- rendering


def _nodes_line(sheet: Sheet, request: Request) -> None:
    """-l nodes=N:ppn=P:property:gpus=G. Torque has cores only: tasks are the script's affair."""
    spec, shape = request.spec, _common.layout(request.spec)
    chunks, cores = (shape.chunks, shape.cores) if shape.spread else (1, shape.all_cores)
    parts = [f"{chunks}:ppn={cores}", *spec.features]
    if spec.gpus is not None:
        parts.append(f"gpus={quantities.up_to(spec.gpus, chunks)}")
    line = f"-l nodes={':'.join(parts)}"
    wanted = (*_common.SHAPE, "features", "gpus")
    if any(sheet.has(attribute) for attribute in wanted):
        sheet.lines.append(line)
    if sheet.has("tasks") and not shape.spread and shape.chunks > 1:
        why = "on one node: nodes=1 keeps them together; give nodes or tasks_per_node to spread"
        sheet.rounded("tasks", given=line, why=why)
    _common.shape_notes(sheet, shape, line)
    if sheet.has("features"):
        sheet.exact("features", given=line)
    if sheet.has("gpus"):
        if (spec.gpus or 0) % chunks:
            sheet.rounded("gpus", given=line, why="Torque counts them for each node")
        else:
            sheet.exact("gpus", given=line)


def _memory(sheet: Sheet, request: Request) -> None:
    """-l mem is for the whole job."""
    spec, shape = request.spec, _common.layout(request.spec)
    for attribute, total in (
        ("memory", spec.memory or 0),
        ("memory_per_core", (spec.memory_per_core or 0) * shape.all_cores),
    ):
        if not sheet.has(attribute):
            continue
        line = f"-l mem={quantities.up_to(total, quantities.KIB)}kb"
        if total % quantities.KIB:
            sheet.rounded(attribute, line, why="whole KiB")
        else:
            sheet.exact(attribute, line)


def _rest(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("queue"):
        sheet.exact("queue", _pbs.option("-q", spec.queue or ""))
    if sheet.has("exclusive"):
        sheet.exact("exclusive", "-n")
    if spec.array is not None:
        sheet.exact("array", f"-t {_indices(request)}")


def _indices(request: Request) -> str:
    """`0-9,12%3`; a step is written out, since -t has none."""
    array = request.spec.array
    assert array is not None
    parts = []
    for first, last, step in array.ranges:
        if step > 1:
            parts += [str(index) for index in range(first, last + 1, step)]
        else:
            parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts) + (f"%{array.throttle}" if array.throttle else "")


def _directory(sheet: Sheet, request: Request) -> None:
    if not sheet.has("directory"):
        return
    path = request.spec.directory or ""
    if path.startswith("/") and _common.plain_path(path):
        sheet.exact("directory", f"-d {path}")
    else:
        why = "-d takes it from the home, and no spaces"
        sheet.emulated("directory", given="cd in the script", why=why)


# -- parsing


def _qstat(*words: str) -> Command:
    return Command(("qstat", *words), env=_pbs.QUERY_ENV)


def _queue(name: str, values: dict[str, str]) -> Queue:
    counts = dict(re.findall(r"(\w+):(\d+)", values.get("state_count", "")))
    return Queue(
        name=name,
        open=values.get("enabled") == "True" and values.get("started") == "True",
        max_time=_common.of_clock(values.get("resources_max.walltime")),
        default_time=_common.of_clock(values.get("resources_default.walltime")),
        running=int(counts.get("Running", 0)),
        waiting=int(counts.get("Queued", 0)) + int(counts.get("Held", 0)),
    )


def _node(values: dict[str, str]) -> Node:
    status = dict(re.findall(r"(\w+)=([^,]*)", values.get("status", "")))
    state = values.get("state", "")
    cores = _common.whole(values.get("np"))
    used = len(re.findall(r"\d+/", values.get("jobs", "")))
    return Node(
        name=values.get("name", ""),
        state=state,
        up=not re.search(r"down|offline|unknown", state),
        cores=cores,
        free_cores=None if cores is None else cores - used,
        memory=_pbs.size(status.get("physmem")),
        gpus=_common.whole(values.get("gpus")),
        features=tuple(filter(None, values.get("properties", "").split(","))),
    )
