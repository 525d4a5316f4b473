"""Moab: `msub` from stdin, `showq --xml` for what lives, `showq -c --xml` for what has ended.

Facts: the Moab Workload Manager 9.1 command reference (msub, showq, mjobctl, mdiag); outputs
published by other projects; run on a simulator only. What happens to a job whose dependency failed
is a setting of the site (DEPENDFAILUREPOLICY), so that only `afterany` is left to Moab; its arrays
have names that sites configure, so that the library submits the elements one by one.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from gristmill import quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Denied, ParseError, Transient, Unclear
from gristmill.jobs import Hold, JobState, MailEvent, Relation
from gristmill.managers import _common, _xml, wrapper
from gristmill.managers.base import Dialect, Features, Rendering, Request, Sheet
from gristmill.records import Accounting, Cause, Listing, Node, Outcome, Queue, Record, Source

# showq and checkjob, State; the last ones are the words of a Slurm below
STATES = {
    "Idle": JobState.QUEUED,
    "Migrated": JobState.QUEUED,
    "Staging": JobState.QUEUED,
    "Vacated": JobState.QUEUED,
    "Deferred": JobState.HELD,
    "Hold": JobState.HELD,
    "UserHold": JobState.HELD,
    "SystemHold": JobState.HELD,
    "BatchHold": JobState.HELD,
    "Starting": JobState.RUNNING,
    "Running": JobState.RUNNING,
    "Suspended": JobState.SUSPENDED,
    "Canceling": JobState.COMPLETING,
    "Completed": JobState.DONE,
    "Removed": JobState.CANCELLED,
    "COMPLETED": JobState.DONE,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.TIMED_OUT,
    "CANCELLED": JobState.CANCELLED,
    "NODE_FAIL": JobState.NODE_FAILURE,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}
CAUSES = {
    "UserHold": Cause.HELD_BY_USER,
    "SystemHold": Cause.HELD_BY_OPERATOR,
    "BatchHold": Cause.HELD_BY_OPERATOR,
    "Deferred": Cause.RESOURCES,
}
BLOCKED = (
    ("Dependency", Cause.DEPENDENCY),
    ("StartDate", Cause.BEGIN_TIME),
    ("UserHold", Cause.HELD_BY_USER),
    ("SystemHold", Cause.HELD_BY_OPERATOR),
    ("BatchHold", Cause.HELD_BY_OPERATOR),
    ("ActivePolicy", Cause.LIMIT),
    ("IdlePolicy", Cause.LIMIT),
)
# CompletionCode below zero: that of the Torque below
CODES = {
    -10: (JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT),
    -11: (JobState.TIMED_OUT, Cause.TIME_LIMIT),
    -12: (JobState.TIMED_OUT, Cause.TIME_LIMIT),
}
MAIL = {MailEvent.BEGIN: "b", MailEvent.END: "e", MailEvent.ABORT: "a"}
HOLDS = {Hold.USER: "User", Hold.SYSTEM: "System"}
QUERY_ENV = {"LC_ALL": "C"}
NAME_LIMIT = 24  #: characters of the job's name before the token


class MoabDialect(Dialect):
    """Moab from 7, over Torque or Slurm."""

    name = "moab"
    title = "Moab"
    documented = "Moab Workload Manager 9.1 command reference; run on a simulator"
    directive = "#MSUB"
    commands = ("msub", "showq", "mjobctl")
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"client timed out|lost connection", Unclear),
        (r"communication error|cannot connect|Connection refused", Transient),
        (r"not authorized|[Pp]ermission denied", Denied),
    )
    features = Features(
        relations=frozenset({Relation.AFTER_ANY}),
        chunk=200,
        interval=20.0,
        grace=120.0,
    )

    def canonical(self, text: str) -> str:
        """`Moab.12`, `12.server` and showq's `12*` are 12."""
        match = re.fullmatch(r"(?:[A-Za-z][\w-]*\.)?(\d+)(?:\.[\w.-]+)?[_*+-]?", text.strip())
        if not match:
            raise ParseError(f"moab: {text!r} is not a job id", stdout=text)
        return match[1]

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        spec = request.spec
        name = f"{_common.plain_name(spec.name, NAME_LIMIT)}.{request.token}"
        sheet.rounded("name", f"-N {name}", why="it carries our mark, which showq shows")
        for step in (_resources, _memory, _plain, _mail):
            step(sheet, request)
        start = _start(request)
        sheet.lines.extend(("-E", "-j oe", "-o /dev/null"))
        _common.redirected(sheet)
        _common.user_hold(sheet, request, "-h")
        sheet.native(r"(-(?:l\s*\w+|\w))")
        if request.edges:
            terms = ",".join(f"afterany:{edge.id}" for edge in request.edges)
            sheet.lines.append(f"-l depend={terms}")
        script = wrapper.build(
            wrapper.Frame(
                header=tuple(f"#MSUB {line}" for line in sheet.lines),
                job_id="${MOAB_JOBID:-${PBS_JOBID%%.*}}",
                array_id="${MOAB_JOBID:-${PBS_JOBID%%.*}}",
                index="" if request.index is None else str(request.index),
                directive="#",  # it reads #PBS and LoadLeveler's lines, too
                redirect=_common.redirect(request, start),
                signals_all=True,  # by Torque's MOM
            ),
            spec,
            request.body,
            request.token,
        )
        return Rendering(
            script=script,
            argv=("msub",),
            stdin=script.encode(),
            env={"TZ": "UTC0"} if spec.begin is not None else {},
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        return self.submitted_id(out, r"^((?:[A-Za-z][\w-]*\.)?\d+)\s*$")

    def find(self, token: str) -> Ask[str | None]:
        """What has ended is in another listing: both are asked for."""
        both = "showq --xml && showq -c --xml"
        command = _common.or_exit_record(("sh", "-c", both), token, QUERY_ENV)
        return Ask(command, lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        self.require_ok(out)
        for values in _xml.attributes(out.text, "job"):
            if values.get("JobName", "").endswith(f".{token}"):
                return self.canonical(values["JobID"])
        if (ended := _common.ended_id(out)) is not None:
            return self.canonical(ended)
        if out.text.count("</Data>") < 2:
            raise self.fault(Output(out.stdout, b"client timed out: the answer was cut", 1))
        return None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_showq(), lambda out: self.parse_queue(out, ids))

    def live_all(self) -> Ask[Listing]:
        return Ask(_showq(), lambda out: self.parse_queue(out, ()))

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        return Ask(_showq("-c"), lambda out: self.parse_queue(out, ids))

    def parse_queue(self, out: Output, ids: Sequence[str]) -> Listing:
        """showq answers with all jobs there are; an answer without its end was cut."""
        self.require_ok(out)
        wanted = set(ids)
        records = (self._record(values) for values in _xml.attributes(out.text, "job"))
        chosen = tuple(record for record in records if not wanted or record.id in wanted)
        return Listing(chosen, complete="</Data>" in out.text)

    def _record(self, values: Mapping[str, str]) -> Record:
        word = values.get("State", "")
        if word not in STATES:
            raise ParseError(f"moab: {word!r} is not a job state that this driver knows")
        state, cause, code, signal = _ending(word, values)
        host = values.get("MasterHost", "")
        return Record(
            id=self.canonical(values["JobID"]),
            state=state,
            native_state=word,
            cause=cause,
            reason=values.get("BlockReason", ""),
            exit_code=code,
            signal=signal,
            submitted=_time(values.get("SubmissionTime")),
            started=_time(values.get("StartTime")),
            ended=_time(values.get("CompletionTime")) if state.final else None,
            nodes=(host,) if host else (),
            queue=values.get("Class"),
            token=values.get("JobName", "").rpartition(".")[2] or None,
            source=Source.HISTORY if state.final else Source.LIVE,
        )

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_showq("-c"), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        """Moab does not keep the memory used."""
        self.require_ok(out)
        rows = (values for values in _xml.attributes(out.text, "job"))
        values = next((row for row in rows if self.canonical(row["JobID"]) == id), None)
        if values is None:
            return Accounting(id=id)
        record = self._record(values)
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=_number(values.get("AWDuration")),
            cpu=_number(values.get("StatPSUtl")),
            nodes=record.nodes,
            cores=_common.whole(values.get("ReqProcs")),
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            queue=record.queue,
            account=values.get("Account"),
        )

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(Command(("mdiag", "-c", "--xml"), env=QUERY_ENV), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        return tuple(
            Queue(
                name=row.get("NAME") or row.get("ID", ""),
                open=row.get("STATE", "Active") == "Active",
                max_time=_common.whole(row.get("MAXWCLIMIT")),
            )
            for row in _xml.attributes(out.text, "class")
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("mdiag", "-n", "--xml"), env=QUERY_ENV), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        return tuple(_node(row) for row in _xml.attributes(out.text, "node"))

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act(("mjobctl", "-h", HOLDS[kind], ",".join(ids)), ids)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act(("mjobctl", "-u", HOLDS[kind], ",".join(ids)), ids)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return self._act(("mjobctl", "-c", ",".join(ids)), ids)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        return self._act(("mjobctl", "-N", f"signal={signal}", ",".join(ids)), ids)

    def _act(self, argv: tuple[str, ...], ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(argv), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        """A job that has ended is as unknown as one that never was."""
        both = f"{out.error_text}\n{out.text}"
        said = _common.complaints(both, r"invalid job specified(?:: | \()([^)\s]+)")
        if not said:
            self.require_ok(out)
        return {self.canonical(id): Outcome.UNKNOWN for (id,) in said}


def _showq(*words: str) -> Command:
    return Command(("showq", *words, "--xml"), env=QUERY_ENV)


# -- rendering


def _start(request: Request) -> str:
    path = request.spec.directory or ""
    if path.startswith("/"):
        return f"cd -- {shlex.quote(path)} || exit 125"
    below = f"/{shlex.quote(path)}" if path else ""
    return f'cd -- "$PBS_O_WORKDIR"{below} || exit 125'


def _resources(sheet: Sheet, request: Request) -> None:
    """-l nodes=N:ppn=P, as Torque reads it."""
    spec, shape = request.spec, _common.layout(request.spec)
    chunks, cores = (shape.chunks, shape.cores) if shape.spread else (1, shape.all_cores)
    line = f"-l nodes={chunks}:ppn={cores}"
    if spec.gpus is not None:
        line += f":gpus={quantities.up_to(spec.gpus, chunks)}"
    if any(sheet.has(attribute) for attribute in (*_common.SHAPE, "gpus")):
        sheet.lines.append(line)
    if sheet.has("tasks") and not shape.spread and shape.chunks > 1:
        why = "on one node: nodes=1 keeps them together; give nodes or tasks_per_node to spread"
        sheet.rounded("tasks", given=line, why=why)
    _common.shape_notes(sheet, shape, line)
    if sheet.has("gpus"):
        if (spec.gpus or 0) % chunks:
            sheet.rounded("gpus", given=line, why="it counts them for each node")
        else:
            sheet.exact("gpus", given=line)
    if sheet.has("time"):
        sheet.exact("time", f"-l walltime={quantities.clock(spec.time or 0)}")


def _memory(sheet: Sheet, request: Request) -> None:
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


PLAIN = {
    "queue": "-q {}",
    "account": "-A {}",
    "qos": "-l qos={}",
    "reservation": "-l advres={}",
    "priority": "-p {}",
}


def _plain(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    for attribute, form in PLAIN.items():
        if sheet.has(attribute):
            value = str(getattr(spec, attribute))
            plain = value if _common.plain_path(value) else shlex.quote(value)
            sheet.exact(attribute, form.format(plain))
    if sheet.has("features"):
        sheet.exact("features", f"-l feature={':'.join(spec.features)}")
    if sheet.has("exclusive"):
        sheet.exact("exclusive", "-l naccesspolicy=singlejob")
    if sheet.has("licences"):
        wanted = "%".join(f"{name}:{count}" for name, count in spec.licences.items())
        sheet.exact("licences", f"-l gres={wanted}")
    if sheet.has("requeue"):
        sheet.exact("requeue", f"-r {'y' if spec.requeue else 'n'}")
    if sheet.has("directory"):
        sheet.emulated("directory", given="cd in the script", why="-d is the site's to interpret")
    if sheet.has("begin"):
        stamp = time.strftime("%Y%m%d%H%M.%S", time.gmtime(spec.begin or 0))
        sheet.exact("begin", f"-a {stamp}", given=f"-a {stamp} in UTC")


def _mail(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("mail_on"):
        sheet.exact("mail_on", f"-m {''.join(sorted(MAIL[event] for event in spec.mail_on))}")
    if sheet.has("mail_to"):
        sheet.exact("mail_to", f"-M {spec.mail_to}")


# -- parsing


def _ending(
    word: str, values: Mapping[str, str]
) -> tuple[JobState, Cause | None, int | None, int | None]:
    """Completed says nothing yet, the code does. `CNCLD` and 271 (SIGTERM) are cancelled."""
    state = STATES[word]
    text = values.get("CompletionCode", "")
    if state is JobState.HELD:
        return state, CAUSES.get(word, Cause.HELD_BY_OPERATOR), None, None
    if state is JobState.QUEUED:
        reason = values.get("BlockReason", "")
        return (
            state,
            next((c for start, c in BLOCKED if reason.startswith(start)), None),
            None,
            None,
        )
    if text.startswith("CNCLD") or (state is JobState.CANCELLED):
        return JobState.CANCELLED, Cause.CANCELLED, None, None
    if word != "Completed":
        return state, None, _common.whole(text), None
    code = _common.whole(text)
    if code is None:
        return JobState.FAILED, Cause.UNKNOWN, None, None
    if code in CODES:
        return (*CODES[code], None, None)
    if code == 271:
        return JobState.CANCELLED, Cause.CANCELLED, None, None
    signal = code - 256 if code > 256 else None
    if code == 0:
        return state, None, 0, None
    if code < 0:
        return JobState.FAILED, Cause.LAUNCH_FAILURE, None, None
    return (
        JobState.FAILED,
        Cause.SIGNAL if signal else Cause.EXIT_CODE,
        128 + signal if signal else code,
        signal,
    )


def _time(text: str | None) -> float | None:
    """0 is none."""
    return float(text) if text and text.isdigit() and int(text) else None


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d+(\.\d+)?", text) else None


def _node(row: Mapping[str, str]) -> Node:
    state = row.get("NODESTATE", "")
    memory = _common.whole(row.get("RCMEM"))
    return Node(
        name=row.get("NODEID", ""),
        state=state,
        up=state not in ("Down", "Drained", "Draining", "Unknown", "None"),
        cores=_common.whole(row.get("RCPROC")),
        free_cores=_common.whole(row.get("RAPROC")),
        memory=None if memory is None else memory * quantities.MIB,
        features=tuple(filter(None, re.split(r"[,:]", row.get("FEATURES", "")))),
    )
