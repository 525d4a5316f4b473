"""PBS Professional and OpenPBS: `qsub` from stdin, `qstat` as JSON, history with -x.

Facts: qsub(1B), qstat(1B), pbs_job_attributes(7B) of 23.06; job.h for the exit statuses; lines
marked [run] were seen on a real OpenPBS 23.06.06 (recorded in tests/recorded/openpbs).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gristmill import quantities
from gristmill.commands import Ask, Command, Output
from gristmill.jobs import JobState
from gristmill.managers import _common, _pbs
from gristmill.managers.base import Features, Rendering, Request, Sheet
from gristmill.records import Accounting, Cause, Listing, Node, Queue, Record, Why

# Exit_status below zero: JOB_EXEC_* of job.h
STATUSES = {
    -1: JobState.FAILED,
    -2: JobState.FAILED,
    -3: JobState.NODE_FAILURE,
    -10: JobState.FAILED,
    -24: JobState.FAILED,
    -25: JobState.FAILED,
    -26: JobState.OUT_OF_MEMORY,
    -27: JobState.OUT_OF_MEMORY,
    -28: JobState.TIMED_OUT,
    -29: JobState.TIMED_OUT,
}
UNKNOWN, ENDED, NO_QUEUE = 153, 35, 170  # exit statuses of qstat: PBSE numbers & 255 [run]
NAME_LIMIT = 230  # PBS_MAXJOBNAME
FRAMES = _pbs.Frames("$PBS_ARRAY_ID", "$PBS_ARRAY_INDEX")
_ENTRY = re.compile(r'^\t\t"(\d+(?:\[\d*\])?\.[^"]+)":\t\{\n(.*?)^\t\t\}', re.MULTILINE | re.DOTALL)
_VALUE = re.compile(r'^\t\t\t"([^"]+)":\t"?(.*?)"?,?$', re.MULTILINE)


class PbsProDialect(_pbs.PbsFamily):
    """PBS Pro from 18.1, where qstat learned JSON."""

    name = "pbspro"
    title = "PBS Professional / OpenPBS"
    documented = "manual pages of OpenPBS 23.06; outputs of a real 23.06.06; run on a simulator"
    commands = ("qsub", "qstat", "qdel", "qhold", "qrls", "pbs_hostn")
    finished = r"Job has finished"
    features = Features(
        relations=frozenset(_pbs.RELATIONS),
        arrays=True,
        throttle=True,
        array_lists=False,  # -J X-Y[:Z]
        estimates=True,
        chunk=500,
        list_all_above=500,
        ask_missing_singly=True,  # openpbs issue 2672: only the first of several is answered
        interval=10.0,
        grace=60.0,
    )

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        _common.note_name(sheet, given := _name(request), f"-N {given}")
        _pbs.common(sheet, request)
        for step in (_select, _queue, _array, _licences):
            step(sheet, request)
        if sheet.has("project"):
            sheet.exact("project", _pbs.option("-P", request.spec.project or ""))
        if sheet.has("directory"):
            sheet.emulated("directory", given="cd in the script", why="PBS starts jobs in the home")
        redirect = _pbs.outputs(sheet, request, "^array_index^")
        sheet.native(r"(-(?:l\s*\w+|W\s*\w+|\w))")
        return _pbs.rendering(sheet, request, _pbs.dependency(request.edges), redirect, FRAMES)

    def find(self, token: str) -> Ask[str | None]:
        # with history: the job may have ended before we look
        command = _qstat("-x", "-f", "-F", "json")
        return Ask(command, lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        self.require_ok(out)
        jobs, complete = _jobs(out.text)
        for id, values in jobs:
            if f"{_pbs.MARK_PREFIX}{token}" in values.get("Variable_List", ""):
                return self.canonical(id)
        if not complete:
            raise self.fault(Output(out.stdout, b"Communication failure: the answer was cut", 1))
        return None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        command = _qstat("-t", "-f", "-F", "json", *ids)
        return Ask(command, lambda out: self.parse_jobs(out, ids))

    def live_all(self) -> Ask[Listing]:
        return Ask(_qstat("-t", "-f", "-F", "json"), lambda out: self.parse_jobs(out, ()))

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        command = _qstat("-x", "-t", "-f", "-F", "json", *ids)
        return Ask(command, lambda out: self.parse_jobs(out, ids))

    def parse_jobs(self, out: Output, ids: Sequence[str]) -> Listing:
        """Unreachable servers print a skeleton without jobs, too: only the rc tells [run]."""
        if "not configured to maintain job history" in out.error_text:
            raise self.fault(out)
        self.require_ok(out, UNKNOWN, ENDED)
        jobs, complete = _jobs(out.text)
        unknown = [
            _pbs.as_asked(text, ids)
            for (text,) in _common.complaints(out.error_text, r"Unknown Job Id (\S+)")
        ]
        return _common.listing(self._records(jobs, ids), unknown, complete=complete)

    def _records(
        self, jobs: Sequence[tuple[str, Mapping[str, str]]], ids: Sequence[str]
    ) -> Iterator[Record]:
        """The parent of an array says less than its elements, unless it comes alone.

        An element that expired may be listed without its exit status: then the history tells.
        """
        spread = {id.partition("[")[0] for id, _ in jobs if re.search(r"\[\d+\]", id)}
        for id, values in jobs:
            if "[]" in id and id.partition("[")[0] in spread:
                continue
            if values.get("job_state") == "X" and "Exit_status" not in values:
                continue
            asked = _pbs.as_asked(self.canonical(id), ids)
            yield _pbs.record(self, asked, values, STATUSES)

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        command = _qstat("-x", "-f", "-F", "json", id)
        return Ask(command, lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        self.require_ok(out, UNKNOWN)
        jobs, _ = _jobs(out.text)
        if not jobs:
            return Accounting(id=id)
        values = jobs[0][1]
        record = _pbs.record(self, id, values, STATUSES)
        memory = _pbs.size(values.get("resources_used.mem"))
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=_common.of_clock(values.get("resources_used.walltime")),
            cpu=_common.of_clock(values.get("resources_used.cput")),
            peak_memory=memory or None,
            nodes=record.nodes,
            cores=_common.whole(values.get("Resource_List.ncpus")),
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            queue=record.queue,
            account=values.get("Account_Name"),
        )

    def why(self, id: str) -> Ask[Why]:
        return Ask(_qstat("-x", "-f", "-F", "json", id), lambda out: self.parse_why(out, id))

    def parse_why(self, out: Output, id: str) -> Why:
        self.require_ok(out)
        jobs, _ = _jobs(out.text)
        if not jobs:
            raise self.fault(Output(out.stdout, b"qstat showed no such job", out.rc))
        values = jobs[0][1]
        record = _pbs.record(self, id, values, STATUSES)
        names = (
            "job_state",
            "substate",
            "comment",
            "Hold_Types",
            "depend",
            "Exit_status",
            "exec_host",
        )
        cause = record.cause or (Cause.SUCCESS if record.state is JobState.DONE else Cause.UNKNOWN)
        return Why(record.state, cause, _pbs.evidence(values, names))

    def estimate(self, id: str) -> Ask[float | None]:
        return Ask(_qstat("-f", "-F", "json", id), self.parse_estimate)

    def parse_estimate(self, out: Output) -> float | None:
        """Only where the site lets the scheduler estimate."""
        self.require_ok(out, UNKNOWN, ENDED)
        jobs, _ = _jobs(out.text)
        return _pbs.of_ctime(jobs[0][1].get("estimated.start_time")) if jobs else None

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(_qstat("-Q", "-f", "-F", "json"), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        found = _load(out.text).get("Queue", {})
        return tuple(_queue_of(name, values) for name, values in found.items())

    def nodes(self) -> Ask[tuple[Node, ...]]:
        command = Command(("pbsnodes", "-a", "-F", "json"), env=_pbs.QUERY_ENV)
        return Ask(command, self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        found = _load(out.text).get("nodes", {})
        return tuple(_node_of(name, values) for name, values in found.items())


# -- rendering


def _name(request: Request) -> str:
    return _common.plain_name(request.spec.name, NAME_LIMIT, first="A-Za-z0-9_")


def _select(sheet: Sheet, request: Request) -> None:
    """One -l select with everything that belongs to a chunk, and where the chunks go."""
    spec, shape = request.spec, _common.layout(request.spec)
    parts = [f"{shape.chunks}:ncpus={shape.cores}"]
    if shape.tasks > 1 or spec.tasks:
        parts.append(f"mpiprocs={shape.tasks}")
    if spec.cores_per_task:
        parts.append(f"ompthreads={spec.cores_per_task}")
    if (memory := _common.memory_per_chunk(spec, shape)) is not None:
        parts.append(f"mem={memory // quantities.KIB}kb")
    if spec.gpus is not None:
        parts.append(f"ngpus={quantities.up_to(spec.gpus, shape.chunks)}")
    parts += [text if "=" in text else f"{text}=True" for text in spec.features]
    select = f"-l select={':'.join(parts)}"
    asked = any(sheet.has(a) for a in (*_common.SHAPE, "memory", "memory_per_core", "gpus"))
    if asked or sheet.has("features"):
        sheet.lines.append(select)
    _common.shape_notes(sheet, shape, select)
    _memory_notes(sheet, request, shape, select)
    if sheet.has("gpus"):
        if (spec.gpus or 0) % shape.chunks:
            sheet.rounded("gpus", given=select, why="PBS counts them for each chunk")
        else:
            sheet.exact("gpus", given=select)
    if sheet.has("gpu_type"):
        sheet.refuse(
            "gpu_type", "sites name it differently; give it as a feature, 'gpu_model=a100'"
        )
    if sheet.has("features"):
        sheet.exact("features", given=select)
    _place(sheet, shape)


def _memory_notes(sheet: Sheet, request: Request, shape: _common.Layout, select: str) -> None:
    spec = request.spec
    if sheet.has("memory"):
        if (spec.memory or 0) % (shape.chunks * quantities.KIB):
            sheet.rounded("memory", given=select, why="whole KiB for each chunk")
        else:
            sheet.exact("memory", given=select)
    if sheet.has("memory_per_core"):
        sheet.exact("memory_per_core", given=select)


def _place(sheet: Sheet, shape: _common.Layout) -> None:
    words = ["scatter"] if shape.spread and shape.chunks > 1 else []
    if sheet.has("exclusive"):
        words = [*(words or ["free"]), "exclhost"]
        sheet.exact("exclusive", f"-l place={':'.join(words)}")
    elif words:
        sheet.lines.append(f"-l place={words[0]}")


def _queue(sheet: Sheet, request: Request) -> None:
    """A reservation is a queue: there cannot be both."""
    spec = request.spec
    if sheet.has("queue"):
        sheet.exact("queue", _pbs.option("-q", spec.queue or ""))
        if sheet.has("reservation"):
            sheet.refuse("reservation", f"it is a queue itself, and queue={spec.queue}")
    elif sheet.has("reservation"):
        sheet.exact("reservation", _pbs.option("-q", spec.reservation or ""))


def _array(sheet: Sheet, request: Request) -> None:
    """-J takes one range of at least two indices."""
    array = request.spec.array
    if array is None:
        return
    span = array.single_range
    if span is None or len(array) < 2:
        sheet.refuse("array", "PBS takes one range of two or more indices, as in '0-9:2'")
        return
    first, last, step = span
    text = f"-J {first}-{last}" + (f":{step}" if step > 1 else "")
    sheet.exact("array", text + (f"%{array.throttle}" if array.throttle else ""))


def _licences(sheet: Sheet, request: Request) -> None:
    """Sites make them resources of the server."""
    if sheet.has("licences"):
        lines = [f"-l {name}={count}" for name, count in request.spec.licences.items()]
        sheet.exact("licences", *lines)


# -- parsing


def _qstat(*words: str) -> Command:
    return Command(("qstat", *words), env=_pbs.QUERY_ENV)


def _repaired(text: str) -> str:
    """PBS writes `\\'` and `\\,`, and bare words and numbers with leading zeros."""
    text = re.sub(r'\\(?!["\\/bfnrtu])', r"\\\\", text)
    return re.sub(
        r'(:\t)(?!-?(?:0|[1-9]\d*)(?:\.\d+)?,?$)([^"\s\[{][^\n]*?)(,?)$',
        r'\1"\2"\3',
        text,
        flags=re.MULTILINE,
    )


def _load(text: str) -> dict[str, Any]:
    """The JSON from its first brace on; {} when it cannot be read. Numbers stay text."""
    start = text.find("{")
    for attempt in (text[start:], _repaired(text[start:])):
        try:
            found, _ = json.JSONDecoder(
                strict=False, parse_int=str, parse_float=str, parse_constant=str
            ).raw_decode(attempt)
        except ValueError:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _jobs(text: str) -> tuple[list[tuple[str, dict[str, str]]], bool]:
    """(id, attributes) of each job, and whether the answer was whole.

    An answer that is cut or still broken is read job by job: whole entries count.
    """
    if "{" not in text:
        return [], False
    if whole := _load(text):
        jobs = whole.get("Jobs", {})
        return [(id, _flat(values)) for id, values in jobs.items()], True
    found = _ENTRY.findall(text)
    return [
        (id, {**dict(_VALUE.findall(body)), "Variable_List": body}) for id, body in found
    ], False


def _flat(values: Mapping[str, Any]) -> dict[str, str]:
    """`{"Resource_List": {"ncpus": 1}}` as `Resource_List.ncpus`."""
    found = {}
    for name, value in values.items():
        if name == "Variable_List" and isinstance(value, dict):
            found[name] = ",".join(f"{key}={part}" for key, part in value.items())
        elif isinstance(value, dict):
            found |= {f"{name}.{key}": str(part) for key, part in value.items()}
        else:
            found[name] = str(value)
    return found


def _queue_of(name: str, values: Mapping[str, Any]) -> Queue:
    counts = dict(re.findall(r"(\w+):(\d+)", str(values.get("state_count", ""))))
    most = values.get("resources_max", {})
    usual = values.get("resources_default", {})
    return Queue(
        name=name,
        open=values.get("enabled") == "True" and values.get("started") == "True",
        max_time=_common.of_clock(most.get("walltime")),
        default_time=_common.of_clock(usual.get("walltime")),
        running=int(counts.get("Running", 0)),
        waiting=int(counts.get("Queued", 0)) + int(counts.get("Held", 0)),
    )


def _node_of(name: str, values: Mapping[str, Any]) -> Node:
    have = values.get("resources_available", {})
    used = values.get("resources_assigned", {})
    state = str(values.get("state", ""))
    cores = _common.whole(str(have.get("ncpus", "")))
    taken = _common.whole(str(used.get("ncpus", "0"))) or 0
    features = tuple(key for key, value in have.items() if str(value) == "True")
    return Node(
        name=name,
        state=state,
        up=not re.search(r"down|offline|unknown|stale", state),
        cores=cores,
        free_cores=None if cores is None else cores - taken,
        memory=_pbs.size(str(have.get("mem", ""))),
        gpus=_common.whole(str(have.get("ngpus", ""))),
        features=features,
        queues=tuple(str(values["queue"]).split(",")) if "queue" in values else (),
    )
