"""LoadLeveler: a staged job command file, `llq -l`, `llsummary -l` for what has ended.

Facts: Using and Administering LoadLeveler 5.1 (SC23-6792: the keywords, llq, llsummary); outputs
published by other projects for the long listings; run on a simulator only. It knows dependencies
only between the steps of one file, and no arrays: the library makes both. llsummary reads a
history file that sites may keep from their users; the exit record speaks then.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from gristmill import patterns, quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import (
    CommandFailed,
    Denied,
    HistoryUnavailable,
    ParseError,
    Transient,
    Unclear,
)
from gristmill.jobs import Hold, JobState, MailEvent
from gristmill.managers import _common, wrapper
from gristmill.managers.base import (
    STAGE,
    Dialect,
    Features,
    Rendering,
    Request,
    Sheet,
    StagedFile,
)
from gristmill.records import (
    Accounting,
    Cause,
    Listing,
    Node,
    Outcome,
    Queue,
    Record,
    Source,
    Why,
    of_wait_status,
)

# llq, Status, by long name
STATES = {
    "Idle": JobState.QUEUED,
    "Deferred": JobState.QUEUED,
    "Not Queued": JobState.QUEUED,
    "Pending": JobState.QUEUED,
    "Starting": JobState.QUEUED,
    "User Hold": JobState.HELD,
    "System Hold": JobState.HELD,
    "User & System Hold": JobState.HELD,
    "Running": JobState.RUNNING,
    "Checkpointing": JobState.RUNNING,
    "Resume Pending": JobState.RUNNING,
    "Preempted": JobState.SUSPENDED,
    "Preempt Pending": JobState.SUSPENDED,
    "Complete Pending": JobState.COMPLETING,
    "Remove Pending": JobState.COMPLETING,
    "Vacate Pending": JobState.COMPLETING,
    "Reject Pending": JobState.COMPLETING,
    "Completed": JobState.DONE,
    "Canceled": JobState.CANCELLED,
    "Removed": JobState.CANCELLED,
    "Terminated": JobState.CANCELLED,
    "Not Run": JobState.CANCELLED,
    "Rejected": JobState.FAILED,
    "Submission Error": JobState.FAILED,
    "Vacated": JobState.NODE_FAILURE,
}
CAUSES = {
    "User Hold": Cause.HELD_BY_USER,
    "System Hold": Cause.HELD_BY_OPERATOR,
    "User & System Hold": Cause.HELD_BY_OPERATOR,
    "Deferred": Cause.BEGIN_TIME,
    "Not Run": Cause.DEPENDENCY_NEVER,
    "Rejected": Cause.LAUNCH_FAILURE,
    "Submission Error": Cause.LAUNCH_FAILURE,
}
MARK = "GRISTMILL_MARK"
FOR_EVER = "12/31/2037"  # a range of dates needs its end
QUERY_ENV = {"TZ": "UTC0", "LC_ALL": "C", "LANG": "C"}
# dates as seen in the listings of several sites: C locale, with a zone, New Zealand
DATES = (
    "%a %b %d %H:%M:%S %Y",
    "%a %d %b %Y %I:%M:%S %p",
    "%a %d %b %Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
)
_ID = re.compile(r"([A-Za-z][\w-]*)(?:\.[\w.-]*?)??\.(\d+)(?:\.(\d+))?")
_HEADS = re.compile(r"^(?:=+ Job Step|-+ Step) (\S+) [=-]+$", re.MULTILINE)
# the step's id with the first word of its host only, as `canonical` writes it
STEP_ID = (
    "$(printf %s \"$LOADL_STEP_ID\" | sed 's/^\\([^.]*\\)\\..*\\.\\([0-9]*\\.[0-9]*\\)$/\\1.\\2/')"
)


class LoadLevelerDialect(Dialect):
    """LoadLeveler 3.5 to 5.1."""

    name = "loadleveler"
    title = "IBM LoadLeveler"
    documented = "Using and Administering LoadLeveler 5.1 (SC23-6792); run on a simulator"
    directive = "# @"
    commands = ("llsubmit", "llq", "llcancel", "llhold")
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"[Tt]imed? ?out|no response", Unclear),
        (r"Cannot connect|[Cc]onnection refused|not available|try again", Transient),
        (r"not authorized|[Pp]ermission", Denied),
    )
    features = Features(
        signals=False,
        chunk=300,
        list_all_above=300,
        interval=20.0,
        grace=90.0,
    )

    def canonical(self, text: str) -> str:
        """`host.domain.12.0` is host.12.0, since llq shortens the domain; `host.12` its step 0."""
        match = _ID.fullmatch(text.strip())
        if not match:
            raise ParseError(f"loadleveler: {text!r} is not a job step id", stdout=text)
        return f"{match[1]}.{match[2]}.{match[3] or 0}"

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        name = _common.plain_name(request.spec.name, 200)
        _common.note_name(sheet, name, f"job_name = {name}")
        for step in (_shape, _memory, _plain, _mail, _times, _others):
            step(sheet, request)
        redirect = _outputs(sheet, request)
        _common.user_hold(sheet, request, "hold = user")
        sheet.native(r"(\w+)\s*=")
        lines = [
            "shell = /bin/sh",
            f"environment = {MARK}=gm.{request.token}",
            *sheet.lines,
            "queue",
        ]
        script = wrapper.build(
            wrapper.Frame(
                header=tuple(f"# @ {line}" for line in lines),
                job_id=STEP_ID,
                array_id=STEP_ID,
                index="" if request.index is None else str(request.index),
                directive="#",  # any comment of the body might look like a keyword
                redirect=redirect,
            ),
            request.spec,
            request.body,
            request.token,
        )
        return Rendering(
            script=script,
            argv=("llsubmit", f"{STAGE}/job.cmd"),
            env={"TZ": "UTC0"} if request.spec.begin is not None else {},
            files=(StagedFile("job.cmd", script.encode(), executable=True),),
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        """Text of the site and of submit filters may come before it."""
        found = r'^llsubmit: The job "([^"]+)"(?: with \d+ job steps)? has been submitted\.\s*$'
        return self.submitted_id(out, found)

    def find(self, token: str) -> Ask[str | None]:
        command = _common.or_exit_record(("llq", "-l"), token, QUERY_ENV)
        return Ask(command, lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        self.require_ok(out)
        for id, values in self._steps(out.text):
            if token in values.get("Env", ""):
                return id
        ended = _common.ended_id(out)
        return None if ended is None else self.canonical(ended)

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_llq(*ids), self.parse_steps)

    def live_all(self) -> Ask[Listing]:
        return Ask(_llq(), self.parse_steps)

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        day = time.strftime("%m/%d/%Y", time.gmtime(max(0.0, since - quantities.DAY)))
        words = ("llsummary", "-l", "-s", day, "to", FOR_EVER)
        command = Command(words, env=QUERY_ENV, timeout=300)
        return Ask(command, self.parse_history)

    def parse_history(self, out: Output) -> Listing:
        if "No records match" in out.error_text:
            return Listing()
        if out.rc != 0:
            raise self.fault(out, HistoryUnavailable)
        return self.parse_steps(out)

    def parse_steps(self, out: Output) -> Listing:
        self.require_ok(out)
        return Listing(tuple(_record(id, values) for id, values in self._steps(out.text)))

    def _steps(self, text: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Blocks of `Key: value` under a head; one that is cut before its status is left out."""
        pieces = _HEADS.split(text)[1:]
        for id, body in zip(pieces[::2], pieces[1::2], strict=True):
            values = dict(re.findall(r"^ *([A-Z][^:\n]*?): ?(.*?)\s*$", body, re.MULTILINE))
            if values.get("Status"):
                yield self.canonical(id), values

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        job = id.rpartition(".")[0]
        command = Command(("llsummary", "-l", "-j", job), env=QUERY_ENV, timeout=300)
        return Ask(command, lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        if out.rc != 0:
            raise self.fault(out, HistoryUnavailable)
        found = dict(self._steps(out.text)).get(id)
        if found is None:
            return Accounting(id=id)
        record = _record(id, found)
        spans = [_common.of_clock(found.get(f"Step {kind} Time")) for kind in ("User", "System")]
        known = [span for span in spans if span is not None]
        memory = _common.whole(found.get("Step maxrss"))
        timed = record.started is not None and record.ended is not None
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=(record.ended or 0) - (record.started or 0) if timed else None,
            cpu=sum(known) if known else None,
            peak_memory=memory * quantities.KIB if memory else None,
            nodes=record.nodes,
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            queue=record.queue,
            account=found.get("Account") or None,
        )

    def why(self, id: str) -> Ask[Why] | None:
        return None  # the record says all that llq -l does; llq -s is prose for people

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(Command(("llclass", "-l"), env=QUERY_ENV), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        pieces = re.split(r"^=+ Class (\S+) =+$", out.text, flags=re.MULTILINE)[1:]
        return tuple(
            _queue(name, dict(re.findall(r"^ *([\w ]+): ?(.*?)\s*$", body, re.MULTILINE)))
            for name, body in zip(pieces[::2], pieces[1::2], strict=True)
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("llstatus", "-l"), env=QUERY_ENV), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        blocks = re.split(r"^=+ \S+ =+$", out.text, flags=re.MULTILINE)[1:]
        return tuple(
            _node(dict(re.findall(r"^(\w+)\s*= ?(.*?)\s*$", body, re.MULTILINE))) for body in blocks
        )

    # -- actions: the commands only say that they were sent

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("llhold", *ids)), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("llhold", "-r", *ids)), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("llcancel", *ids)), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        self.require_ok(out)
        return {}


def _llq(*ids: str) -> Command:
    return Command(("llq", "-l", *ids), env=QUERY_ENV)


# -- rendering


def _shape(sheet: Sheet, request: Request) -> None:
    spec, shape = request.spec, _common.layout(request.spec)
    lines = []
    if shape.spread or shape.all_tasks > 1:
        nodes = shape.chunks if shape.spread else 1
        lines = ["job_type = parallel", f"node = {nodes}"]
        lines.append(
            f"tasks_per_node = {shape.tasks}" if shape.spread else f"total_tasks = {shape.chunks}"
        )
    cpus = shape.cores // shape.tasks
    if cpus > 1 and not spec.memory and not spec.memory_per_core:
        lines.append(f"resources = ConsumableCpus({cpus})")
    sheet.lines.extend(lines)
    _common.shape_notes(sheet, shape, "; ".join(lines) or "a serial job")
    if sheet.has("gpus"):
        sheet.refuse("gpus", "it has no GPUs of its own; a site's consumable goes into licences")


def _memory(sheet: Sheet, request: Request) -> None:
    """ConsumableMemory counts for each task."""
    spec, shape = request.spec, _common.layout(request.spec)
    cpus = shape.cores // shape.tasks
    for attribute, total in (
        ("memory", spec.memory or 0),
        ("memory_per_core", (spec.memory_per_core or 0) * shape.all_cores),
    ):
        if not sheet.has(attribute):
            continue
        size = quantities.up_to(total, quantities.MIB * shape.all_tasks)
        line = f"resources = ConsumableCpus({cpus}) ConsumableMemory({size}mb)"
        if total % (quantities.MIB * shape.all_tasks):
            sheet.rounded(attribute, line, why="whole MiB for each task")
        else:
            sheet.exact(attribute, line)


PLAIN = {
    "queue": "class",
    "reservation": "ll_res_id",
    "directory": "initialdir",
    "account": "account_no",
}


def _plain(sheet: Sheet, request: Request) -> None:
    for attribute, keyword in PLAIN.items():
        if sheet.has(attribute):
            sheet.exact(attribute, f"{keyword} = {getattr(request.spec, attribute)}")
    if not sheet.has("project"):
        return
    if request.spec.account in (None, request.spec.project):
        sheet.exact("project", f"account_no = {request.spec.project}")
    else:
        sheet.refuse("project", f"it has accounts only, and account={request.spec.account}")


def _mail(sheet: Sheet, request: Request) -> None:
    """One word says when."""
    events = request.spec.mail_on
    if sheet.has("mail_to"):
        sheet.exact("mail_to", f"notify_user = {request.spec.mail_to}")
    if not sheet.has("mail_on"):
        return
    exact = {
        frozenset({MailEvent.BEGIN}): "start",
        frozenset({MailEvent.ABORT}): "error",
        frozenset({MailEvent.END, MailEvent.ABORT}): "complete",
        frozenset(MailEvent): "always",
    }
    if events in exact:
        sheet.exact("mail_on", f"notification = {exact[events]}")
    else:
        word = "always" if MailEvent.BEGIN in events else "complete"
        sheet.rounded("mail_on", f"notification = {word}", why="the nearest word that it has")


def _times(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("time"):
        sheet.exact("time", f"wall_clock_limit = {quantities.clock(spec.time or 0)}")
    if sheet.has("begin"):
        moment = quantities.up_to(spec.begin or 0, 60) * 60
        line = f"startdate = {time.strftime('%m/%d/%Y %H:%M', time.gmtime(moment))}"
        if (spec.begin or 0) % 60:
            sheet.rounded("begin", line, why="whole minutes")
        else:
            sheet.exact("begin", line)


def _others(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("exclusive"):
        sheet.exact("exclusive", "node_usage = not_shared")
    if sheet.has("features"):
        rules = " && ".join(f'(Feature == "{feature}")' for feature in spec.features)
        sheet.exact("features", f"requirements = {rules}")
    if sheet.has("licences"):
        wanted = " ".join(f"{name}({count})" for name, count in spec.licences.items())
        sheet.exact("licences", f"node_resources = {wanted}")
    if sheet.has("priority"):
        if 0 <= (spec.priority or 0) <= 100:
            sheet.exact("priority", f"user_priority = {spec.priority}")
        else:
            sheet.refuse("priority", "it goes from 0 to 100")
    if sheet.has("requeue"):
        sheet.exact("requeue", f"restart = {'yes' if spec.requeue else 'no'}")


def _outputs(sheet: Sheet, request: Request) -> tuple[str, ...]:
    """$(jobid) is not the id that others see: with an id in its name the script opens the file."""
    spec = request.spec
    found = patterns.outputs(spec)
    used = frozenset[str]().union(*(patterns.used(path) for path in found.values()))
    simple = all(_common.plain_path(re.sub(r"%[ax]", "", path)) for path in found.values())
    if {"j", "A"} & used or not simple or not _common.plain_path(spec.name):
        sheet.lines.extend(("output = /dev/null", "error = /dev/null"))
        _common.redirected(sheet)
        return _common.redirect(request)
    names = {"a": "" if request.index is None else str(request.index), "x": spec.name}
    out = patterns.translate(found["stdout"], names)
    err = patterns.translate(found.get("stderr", found["stdout"]), names)
    for key, line in (("stdout", f"output = {out}"), ("stderr", f"error = {err}")):
        sheet.exact(key, line) if sheet.has(key) else sheet.lines.append(line)
    if sheet.has("join"):
        sheet.exact("join", given="both in stdout's file")
    return ()


# -- parsing


def _record(id: str, values: Mapping[str, str]) -> Record:
    word = values["Status"]
    if word not in STATES:
        raise ParseError(f"loadleveler: {word!r} is not a job state that this driver knows")
    state, cause, code, signal = _ending(word, values)
    mark = re.search(rf"{MARK}=gm\.(\w+)", values.get("Env", ""))
    return Record(
        id=id,
        state=state,
        native_state=word,
        cause=cause,
        reason=word if cause else "",
        exit_code=code,
        signal=signal,
        submitted=_moment(values.get("Queue Date")),
        started=_moment(values.get("Start Time") or values.get("Dispatch Time")),
        ended=_moment(values.get("Completion Date")) if state.final else None,
        nodes=tuple(values.get("Allocated Host", "").split()),
        queue=values.get("Class") or None,
        token=mark[1] if mark else None,
        source=Source.HISTORY if state.final else Source.LIVE,
    )


def _ending(
    word: str, values: Mapping[str, str]
) -> tuple[JobState, Cause | None, int | None, int | None]:
    """Completion Code is a wait status. A job over its time is Removed, like a cancelled one:
    then the clock tells."""
    state = STATES[word]
    status = _common.whole(values.get("Completion Code"))
    if state is JobState.CANCELLED and word == "Removed" and _used_up(values):
        return JobState.TIMED_OUT, Cause.TIME_LIMIT, None, None
    if word == "Completed":
        if status is None:
            return JobState.FAILED, Cause.UNKNOWN, None, None
        code, signal = of_wait_status(status)
        if signal and _used_up(values):
            return JobState.TIMED_OUT, Cause.TIME_LIMIT, None, None
        if code == 0:
            return state, None, 0, None
        return JobState.FAILED, Cause.SIGNAL if signal else Cause.EXIT_CODE, code, signal
    if word == "Vacated" and values.get("Restart") == "yes":
        return JobState.QUEUED, Cause.PREEMPTED, None, None
    if state is JobState.CANCELLED:
        return state, CAUSES.get(word, Cause.CANCELLED), None, None
    if word == "Not Queued" and values.get("Dependency"):
        return state, Cause.DEPENDENCY, None, None
    return state, CAUSES.get(word), None, None


def _used_up(values: Mapping[str, str]) -> bool:
    """Whether it ran for as long as its hard limit."""
    limit = re.search(r"\((\d+) seconds", values.get("Wall Clk Hard Limit", ""))
    start = _moment(values.get("Start Time") or values.get("Dispatch Time"))
    end = _moment(values.get("Completion Date"))
    return bool(limit and start and end and end - start >= int(limit[1]))


def _moment(text: str | None) -> float | None:
    """A date in one of the forms seen; the zone's name is dropped, since we ask in UTC."""
    found = re.sub(r"\s+(?![AP]M\b)[A-Z]{3,5}(?=\s|$)", "", (text or "").strip())
    for form in DATES:
        try:
            return float(calendar.timegm(time.strptime(found, form)))
        except ValueError:
            continue
    return None


def _queue(name: str, values: Mapping[str, str]) -> Queue:
    limit = re.search(r"\((\d+) seconds", values.get("Wall_clock_limit", ""))
    free, most = (_common.whole(values.get(key)) for key in ("Free_slots", "Maximum_slots"))
    return Queue(
        name=name,
        max_time=int(limit[1]) if limit else None,
        running=None if free is None or most is None else most - free,
    )


def _node(values: Mapping[str, str]) -> Node:
    state = values.get("State", "")
    memory = re.match(r"(\d+) mb", values.get("Memory", ""))
    return Node(
        name=values.get("Name", values.get("Machine", "")),
        state=state,
        up=state not in ("Down", "Drained", "Draining", "None", ""),
        cores=_common.whole(values.get("Cpus")),
        memory=int(memory[1]) * quantities.MIB if memory else None,
        features=tuple(re.findall(r'"([^"]+)"', values.get("Feature", ""))),
    )
