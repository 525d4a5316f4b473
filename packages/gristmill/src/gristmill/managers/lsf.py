"""IBM Spectrum LSF: `bsub` from stdin, `bjobs -json`, `bhist -l` for what bjobs has forgotten.

Facts: the Command Reference of LSF 10.1.0 (bsub, bjobs with -o and -json, bkill, bstop, bhist,
bqueues, bhosts); run on a simulator only. Two things of its own: an array counts from 1, so that
our index 0 is its 1 and `$LSB_JOBINDEX` is one more than `$GRISTMILL_ARRAY_INDEX`; and its times
have no year, so only `accounting`, which knows when the job was submitted, tells times.
"""

from __future__ import annotations

import calendar
import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from gristmill import patterns, quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Denied, ParseError, Transient, Unclear
from gristmill.jobs import Hold, JobState, MailEvent, Relation
from gristmill.managers import _common, wrapper
from gristmill.managers.base import Dialect, Edge, Features, Rendering, Request, Sheet
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
)

# bjobs(1), STAT
STATES = {
    "PEND": JobState.QUEUED,
    "WAIT": JobState.QUEUED,
    "PROV": JobState.QUEUED,
    "PSUSP": JobState.HELD,
    "RUN": JobState.RUNNING,
    "USUSP": JobState.SUSPENDED,
    "SSUSP": JobState.SUSPENDED,
    "UNKWN": JobState.RUNNING,  # its host does not answer; it may come back
    "ZOMBI": JobState.COMPLETING,  # killed, but its host does not answer
    "DONE": JobState.DONE,
    "EXIT": JobState.FAILED,
}
# bhist(1), Termination reasons: (beginning, state, cause)
REASONS = (
    ("TERM_OWNER", JobState.CANCELLED, Cause.CANCELLED),
    ("TERM_ADMIN", JobState.CANCELLED, Cause.CANCELLED),
    ("TERM_FORCE_", JobState.CANCELLED, Cause.CANCELLED),
    ("TERM_REMOVE_HUNG_JOB", JobState.CANCELLED, Cause.CANCELLED),
    ("TERM_ORPHAN_SYSTEM", JobState.CANCELLED, Cause.DEPENDENCY_NEVER),
    ("TERM_PREEMPT", JobState.CANCELLED, Cause.PREEMPTED),
    ("TERM_RUNLIMIT", JobState.TIMED_OUT, Cause.TIME_LIMIT),
    ("TERM_CPULIMIT", JobState.TIMED_OUT, Cause.TIME_LIMIT),
    ("TERM_DEADLINE", JobState.TIMED_OUT, Cause.TIME_LIMIT),
    ("TERM_WINDOW", JobState.TIMED_OUT, Cause.TIME_LIMIT),
    ("TERM_MEMLIMIT", JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT),
    ("TERM_SWAP", JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT),
    ("TERM_ZOMBIE", JobState.NODE_FAILURE, Cause.NODE_FAILURE),
)
PENDING = (
    (r"suspended by the (?:user|owner)", Cause.HELD_BY_USER),
    (r"suspended by LSF admin", Cause.HELD_BY_OPERATOR),
    (r"ependency condition invalid|never satisfied", Cause.DEPENDENCY_NEVER),
    (r"ependency condition not satisfied", Cause.DEPENDENCY),
    (r"specified start time", Cause.BEGIN_TIME),
    (r"array has reached its running (?:element|slot) limit", Cause.THROTTLE),
    (r"limit", Cause.LIMIT),
    (r"closed|inactive", Cause.QUEUE_CLOSED),
    (r"reservation", Cause.RESERVATION),
    (r"[Nn]ot enough|requirements for reserving|slots", Cause.RESOURCES),
)
RELATIONS = {
    Relation.AFTER_START: "started",
    Relation.AFTER_OK: "done",
    Relation.AFTER_NOT_OK: "exit",
    Relation.AFTER_ANY: "ended",
}
FIELDS = (
    "jobid jobindex stat exit_code exit_reason pend_reason exec_host queue job_description "
    "submit_time start_time finish_time run_time cpu_used max_mem slots proj_name"
)
QUERY_ENV = {"TZ": "UTC0", "LC_ALL": "C", "LSB_DISPLAY_YEAR": "Y"}
COMMENT = "gristmill:"
NAME_LIMIT = 255  # bsub -J, with the indices
SHIFT = 1  # LSF's index of our element 0
_ID = re.compile(r"(\d+)(?:\[(\d+)\])?")


class LsfDialect(Dialect):
    """LSF from 10.1, where bjobs learned JSON."""

    name = "lsf"
    title = "IBM Spectrum LSF"
    documented = "Command Reference of LSF 10.1.0; run on a simulator"
    directive = "#BSUB"
    commands = ("bsub", "bjobs", "bkill", "bqueues")
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"A connect sys call failed|[Tt]imed? ?out|Communication time out", Unclear),
        (r"daemon not responding|Cannot connect to LSF|LSF is down|try(?:ing)? later", Transient),
        (r"[Pp]ermission denied|User permission|not authorized", Denied),
    )
    features = Features(
        relations=frozenset(RELATIONS),
        element_wise=True,
        arrays=True,
        throttle=True,
        chunk=500,
        list_all_above=200,
        interval=10.0,
        grace=60.0,
    )

    def canonical(self, text: str) -> str:
        """`123`, `123[4]`; `123[1-5]` and `<123>` are 123."""
        match = _ID.match(text.strip().lstrip("<"))
        if not match:
            raise ParseError(f"lsf: {text!r} is not a job id", stdout=text)
        return f"{match[1]}[{match[2]}]" if match[2] else match[1]

    def element_id(self, array_id: str, index: int) -> str:
        return f"{array_id}[{index + SHIFT}]"

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        for step in (_name, _time, _slots, _memory, _plain, _mail, _others):
            step(sheet, request)
        redirect = _outputs(sheet, request)
        _common.user_hold(sheet, request, "-H")
        sheet.native()
        sheet.lines.append(f"-Jd {COMMENT}{request.token}")
        sheet.lines.extend(_dependency(request.edges))
        script = wrapper.build(
            wrapper.Frame(
                header=tuple(f"#BSUB {line}" for line in sheet.lines),
                job_id="$LSB_JOBID" + ("[$LSB_JOBINDEX]" if request.spec.array else ""),
                array_id="$LSB_JOBID",
                index=_index(request),
                directive="#BSUB",
                redirect=redirect,
                signals_all=True,  # bkill(1): to the process groups of the job
            ),
            request.spec,
            request.body,
            request.token,
        )
        env = {"TZ": "UTC0"} if request.spec.begin is not None else {}
        return Rendering(
            script=script,
            argv=("bsub",),
            stdin=script.encode(),
            env=env,
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        return self.submitted_id(out, r"^Job <(\d+)> is submitted to ")

    def find(self, token: str) -> Ask[str | None]:
        return Ask(_bjobs(), lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        for row in self._rows(out, whole=True):
            if row.get("JOB_DESCRIPTION", "").strip() == COMMENT + token:
                return row["JOBID"].strip()
        return None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_bjobs(*ids), self.parse_live)

    def live_all(self) -> Ask[Listing]:
        return Ask(_bjobs(), self.parse_live)

    def parse_live(self, out: Output) -> Listing:
        """One unknown id is an entry with an ERROR, or a line on stderr and rc 255."""
        rows = self._rows(out)
        unknown = {row["JOBID"] for row in rows if "ERROR" in row}
        said = _common.complaints(out.error_text, r"Job <([^>]+)> is not found")
        unknown |= {id for (id,) in said}
        records = [_record(row) for row in rows if "ERROR" not in row]
        return _common.listing(records, unknown, complete=_is_whole(out.text))

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        command = Command(("bhist", "-l", "-n", "0", *ids), env=QUERY_ENV, timeout=300)
        return Ask(command, lambda out: self.parse_history(out, since))

    def parse_history(self, out: Output, since: float) -> Listing:
        if re.search(r"No matching job found", out.error_text):
            return Listing()
        self.require_ok(out)
        return _common.listing(_past(out.text, since))

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_bjobs(id), lambda out: self.parse_accounting(out, id, since))

    def parse_accounting(self, out: Output, id: str, since: float) -> Accounting:
        rows = [row for row in self._rows(out) if "ERROR" not in row]
        if not rows:
            return Accounting(id=id)
        row, record = rows[0], _record(rows[0])
        wall = _amount(row.get("RUN_TIME"))
        started = _moment(row.get("START_TIME"), since)
        ended = _moment(row.get("FINISH_TIME"), since)
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=wall,
            cpu=_amount(row.get("CPU_USED")),
            peak_memory=_size(row.get("MAX_MEM")),
            nodes=record.nodes,
            cores=_common.whole(row.get("SLOTS")),
            submitted=_moment(row.get("SUBMIT_TIME"), since),
            started=started,
            ended=ended,
            queue=record.queue,
            account=row.get("PROJ_NAME"),
        )

    def why(self, id: str) -> Ask[Why]:
        return Ask(_bjobs(id), lambda out: self.parse_why(out, id))

    def parse_why(self, out: Output, id: str) -> Why:
        rows = [row for row in self._rows(out) if "ERROR" not in row]
        if not rows:
            raise self.fault(Output(out.stdout, f"Job <{id}> is not found".encode(), out.rc or 1))
        row, record = rows[0], _record(rows[0])
        names = ("STAT", "PEND_REASON", "EXIT_REASON", "EXIT_CODE", "EXEC_HOST")
        evidence = tuple(f"bjobs: {name} = {row[name]}" for name in names if row.get(name))
        cause = record.cause or (Cause.SUCCESS if record.state is JobState.DONE else Cause.UNKNOWN)
        return Why(record.state, cause, evidence)

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(Command(("bqueues", "-w"), env=QUERY_ENV), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        return tuple(
            Queue(
                name=row["QUEUE_NAME"],
                open=row.get("STATUS", "").startswith("Open:Active"),
                running=_common.whole(row.get("RUN")),
                waiting=_common.whole(row.get("PEND")),
            )
            for row in _columns(out.text, "QUEUE_NAME")
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("bhosts", "-w"), env=QUERY_ENV), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        return tuple(_node(row) for row in _columns(out.text, "HOST_NAME"))

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("bstop", *ids)), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("bresume", *ids)), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("bkill", *ids)), self.parse_action)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("bkill", "-s", signal, *ids)), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        said = _common.complaints(f"{out.error_text}\n{out.text}", r"Job <([^>]+)>: (.*)")
        if not said:
            self.require_ok(out)
        return {self.canonical(id): _outcome(text) for id, text in said}

    # -- helpers

    def _rows(self, out: Output, *, whole: bool = False) -> list[dict[str, str]]:
        """The records of bjobs' JSON, one by one, so that a cut answer gives those before the cut.

        `whole`: nothing less than all of them will do.
        """
        nothing = re.search(r"No (?:unfinished )?job found", f"{out.error_text}{out.text}")
        unknown = "is not found" in f"{out.error_text}{out.text}"
        if not (nothing or unknown):
            self.require_ok(out)
        if whole and not nothing and not _is_whole(out.text):
            raise self.fault(Output(out.stdout, b"Communication time out: the answer was cut", 1))
        return list(_records(out.text.partition('"RECORDS"')[2]))


def _records(text: str) -> Iterator[dict[str, str]]:
    """The objects of a list, until one that is cut."""
    decoder, place = json.JSONDecoder(strict=False), text.find("{")
    while place >= 0:
        try:
            row, end = decoder.raw_decode(text, place)
        except ValueError:
            return
        yield {key: str(value) for key, value in row.items()}
        place = text.find("{", end)


def _is_whole(text: str) -> bool:
    return text.rstrip().endswith("}") and '"RECORDS"' in text


def _bjobs(*ids: str) -> Command:
    """-a: also those that ended within CLEAN_PERIOD."""
    return Command(("bjobs", "-a", "-json", "-o", FIELDS, *ids), env=QUERY_ENV)


# -- rendering


def _index(request: Request) -> str:
    if request.spec.array:
        return f"$((LSB_JOBINDEX - {SHIFT}))"
    return "" if request.index is None else str(request.index)


def _name(sheet: Sheet, request: Request) -> None:
    """An array is part of the name."""
    spec, array = request.spec, request.spec.array
    name = _common.plain_name(spec.name, 60).replace("+", "_")
    if array is None:
        _common.note_name(sheet, name, f"-J {name}")
        return
    parts = []
    for first, last, step in array.ranges:
        span = f"{first + SHIFT}" if first == last else f"{first + SHIFT}-{last + SHIFT}"
        parts.append(span + (f":{step}" if step > 1 else ""))
    text = f'-J "{name}[{",".join(parts)}]' + (f'%{array.throttle}"' if array.throttle else '"')
    _common.note_name(sheet, name, text)
    if len(text) > NAME_LIMIT:
        sheet.refuse("array", f"its list of indices is longer than LSF's {NAME_LIMIT} characters")
        return
    why = "LSF counts from 1: $LSB_JOBINDEX is one more than $GRISTMILL_ARRAY_INDEX"
    sheet.emulated("array", given=text, why=why)


def _time(sheet: Sheet, request: Request) -> None:
    """-W [hours:]minutes."""
    if not sheet.has("time"):
        return
    wanted = request.spec.time or 0
    line = f"-W {quantities.up_to(wanted, 60)}"
    if wanted % 60:
        sheet.rounded("time", line, why="LSF counts whole minutes")
    else:
        sheet.exact("time", line)


def _slots(sheet: Sheet, request: Request) -> None:
    """-n slots and how many on each host; a slot is a core."""
    spec, shape = request.spec, _common.layout(request.spec)
    lines = [f"-n {shape.all_cores}"]
    if shape.spread or (spec.cores_per_task or 1) > 1:
        lines.append(f'-R "span[ptile={shape.cores}]"')
    if any(sheet.has(attribute) for attribute in _common.SHAPE):
        sheet.lines.extend(lines)
    _common.shape_notes(sheet, shape, " ".join(lines))
    if sheet.has("gpus"):
        hosts = shape.chunks if shape.spread else 1
        line = f'-gpu "num={quantities.up_to(spec.gpus or 1, hosts)}'
        line += f':gmodel={spec.gpu_type}"' if spec.gpu_type else '"'
        if (spec.gpus or 0) % hosts:
            sheet.rounded("gpus", line, why="LSF counts them for each host")
        else:
            sheet.exact("gpus", line)
    if sheet.has("gpu_type"):
        sheet.exact("gpu_type", given="gmodel= of -gpu")


def _memory(sheet: Sheet, request: Request) -> None:
    """A limit and a reservation, each with its unit, since sites set different default units."""
    spec, shape = request.spec, _common.layout(request.spec)
    for attribute, total in (
        ("memory", spec.memory or 0),
        ("memory_per_core", (spec.memory_per_core or 0) * shape.all_cores),
    ):
        if not sheet.has(attribute):
            continue
        size = quantities.up_to(total, quantities.MIB)
        slot = quantities.up_to(total, quantities.MIB * shape.all_cores)
        why = (
            "whole MB; what is reserved counts for each slot, or by the site's setting for each job"
        )
        lines = (f"-M {size}MB", f'-R "rusage[mem={slot}MB]"')
        if total % quantities.MIB or shape.all_cores > 1:
            sheet.rounded(attribute, *lines, why=why)
        else:
            sheet.exact(attribute, *lines)


PLAIN = {
    "queue": "-q",
    "account": "-G",
    "project": "-P",
    "reservation": "-U",
    "qos": "-sla",
    "directory": "-cwd",
}


def _plain(sheet: Sheet, request: Request) -> None:
    for attribute, letter in PLAIN.items():
        if sheet.has(attribute):
            value = str(getattr(request.spec, attribute))
            sheet.exact(attribute, f"{letter} {_quoted(value)}")


def _quoted(value: str) -> str:
    return value if _common.plain_path(value) else shlex.quote(value)


def _mail(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("mail_to"):
        sheet.exact("mail_to", f"-u {_quoted(spec.mail_to or '')}")
    if not sheet.has("mail_on"):
        return
    lines = ["-B"] if MailEvent.BEGIN in spec.mail_on else []
    ends = spec.mail_on & {MailEvent.END, MailEvent.ABORT}
    if ends:
        lines.append("-N")
    if len(ends) == 1:
        sheet.rounded("mail_on", *lines, why="LSF writes at any end, or at none")
    else:
        sheet.exact("mail_on", *lines)


def _others(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("exclusive"):
        sheet.exact("exclusive", "-x")
    if sheet.has("features"):
        sheet.exact("features", f'-R "select[{" && ".join(spec.features)}]"')
    if sheet.has("licences"):
        wanted = ":".join(f"{name}={count}" for name, count in spec.licences.items())
        sheet.exact("licences", f'-R "rusage[{wanted}]"')
    if sheet.has("priority"):
        if (spec.priority or 0) > 0:
            sheet.exact("priority", f"-sp {spec.priority}")
        else:
            sheet.refuse("priority", "it starts at 1")
    if sheet.has("requeue"):
        sheet.exact("requeue", "-r" if spec.requeue else "-rn")
    if sheet.has("begin"):
        moment = quantities.up_to(spec.begin or 0, 60) * 60
        line = f"-b {time.strftime('%Y:%m:%d:%H:%M', time.gmtime(moment))}"
        if (spec.begin or 0) % 60:
            sheet.rounded("begin", line, why="LSF counts whole minutes")
        else:
            sheet.exact("begin", line)


def _outputs(sheet: Sheet, request: Request) -> tuple[str, ...]:
    """-oo, -eo where LSF can write the name: it truncates, as everywhere else."""
    spec = request.spec
    found = patterns.outputs(spec)
    simple = all(_common.plain_path(re.sub(r"%[jAax]", "", path)) for path in found.values())
    indexed = {"a", "j"} & frozenset[str]().union(*(patterns.used(p) for p in found.values()))
    if not simple or "%" in spec.name or (spec.array is not None and indexed):
        sheet.lines.append("-oo /dev/null")
        _common.redirected(sheet)
        return _common.redirect(request)
    if spec.array is not None or not _common.plain_path(spec.name):
        sheet.lines.append("-oo /dev/null")
        _common.redirected(sheet)
        return _common.redirect(request)
    number = "" if request.index is None else str(request.index)
    names = {"j": "%J", "A": "%J", "a": number, "x": spec.name}
    for key, letter in (("stdout", "-oo"), ("stderr", "-eo")):
        if key in found:
            line = f"{letter} {patterns.translate(found[key], names)}"
            sheet.exact(key, line) if sheet.has(key) else sheet.lines.append(line)
    if sheet.has("join"):
        sheet.exact("join", given="both in stdout's file")
    return ()


def _dependency(edges: Iterable[Edge]) -> Iterable[str]:
    """-ti: a job whose condition can no longer be met ends, instead of pending for ever."""
    terms = []
    for edge in edges:
        word = RELATIONS[edge.relation]
        if edge.element_wise:
            terms.append(f'{word}("{edge.id}[*]")')
        elif edge.is_array and edge.relation is Relation.AFTER_NOT_OK:
            terms += [f"ended({edge.id})", f"numexit({edge.id}, > 0)"]
        else:
            terms.append(f"{word}({edge.id})")
    return [f"-w '{' && '.join(terms)}'", "-ti"] if terms else []


# -- parsing


def _record(row: Mapping[str, str]) -> Record:
    number, index = row["JOBID"].strip(), _common.whole(row.get("JOBINDEX")) or 0
    word = row.get("STAT", "").strip()
    if word not in STATES:
        raise ParseError(f"lsf: {word!r} is not a job state that this driver knows")
    reason = row.get("EXIT_REASON", "").strip() or row.get("PEND_REASON", "").strip()
    state, cause = _state(word, reason)
    described = row.get("JOB_DESCRIPTION", "").strip()
    token = described.removeprefix(COMMENT) if described.startswith(COMMENT) else None
    code = _common.whole(row.get("EXIT_CODE"))
    ended = state in (JobState.DONE, JobState.FAILED)
    return Record(
        id=f"{number}[{index}]" if index else number,
        state=state,
        native_state=word,
        cause=cause,
        reason=reason.rstrip("; "),
        exit_code=(code or 0) if ended else code,
        nodes=_hosts(row.get("EXEC_HOST", "")),
        queue=row.get("QUEUE"),
        array_id=number if index else None,
        index=(index - SHIFT if token else index) if index else None,
        token=token,
        source=Source.HISTORY if state.final else Source.LIVE,
    )


def _state(word: str, reason: str) -> tuple[JobState, Cause | None]:
    state = STATES[word]
    if state is JobState.FAILED:
        found = next(((s, c) for start, s, c in REASONS if reason.startswith(start)), None)
        return found or (state, Cause.EXIT_CODE)
    if state in (JobState.QUEUED, JobState.HELD):
        cause = next((c for pattern, c in PENDING if re.search(pattern, reason)), None)
        if state is JobState.HELD:
            return state, Cause.HELD_BY_OPERATOR if cause is Cause.HELD_BY_OPERATOR else (
                Cause.HELD_BY_USER
            )
        return state, cause
    return state, None


def _hosts(text: str) -> tuple[str, ...]:
    """`2*n1:n2` as names."""
    names = (re.sub(r"^\d+\*", "", part) for part in text.split(":"))
    return tuple(dict.fromkeys(name for name in names if name not in ("", "-")))


def _past(text: str, since: float) -> Iterator[Record]:
    """The jobs of `bhist -l`, whose lines are folded with 21 blanks."""
    unfolded = re.sub(r"\n {21}", "", text)
    pieces = re.split(r"^Job <(\d+(?:\[\d+\])?)>, ", unfolded, flags=re.MULTILINE)[1:]
    for id, body in zip(pieces[::2], pieces[1::2], strict=True):
        if record := _past_one(id, body, since):
            yield record


def _past_one(id: str, body: str, since: float) -> Record | None:
    """Only of a job that has ended: bhist says more of the past than of the present."""
    events = re.findall(
        r"^(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?): (.*)$", body, re.MULTILINE
    )
    end = next(
        (e for e in reversed(events) if e[1].startswith(("Done", "Exited", "Completed"))), None
    )
    if end is None:
        return None
    last = " ".join(text for _, text in events)
    done = "Done successfully" in last or "Completed <done>" in last
    reason = next(iter(re.findall(r"TERM_\w+[^;]*", last)), "")
    code = next(iter(re.findall(r"Exited with exit code (\d+)", last)), None)
    state, cause = _state("DONE" if done else "EXIT", reason)
    start = next((when for when, text in events if text.startswith("Starting")), None)
    if not done and start is None and not reason:
        state, cause = JobState.CANCELLED, Cause.CANCELLED
    number, bracket, index = id.rstrip("]").partition("[")
    described = re.search(rf"<{COMMENT}(\w+)>", body)
    own = int(index) - (SHIFT if described else 0) if bracket else None
    return Record(
        id=id,
        state=state,
        native_state="DONE" if done else "EXIT",
        cause=cause,
        reason=reason,
        exit_code=0 if done else _common.whole(code),
        submitted=_moment(events[0][0], since),
        started=_moment(start, since),
        ended=_moment(end[0], since),
        array_id=number if bracket else None,
        index=own,
        token=described[1] if described else None,
        source=Source.HISTORY,
    )


_FORMS = ("%b %d %H:%M", "%a %b %d %H:%M:%S", "%b %d %H:%M:%S")


def _moment(text: str | None, since: float) -> float | None:
    """`Feb  2 00:46 L` and `Mon Nov 30 23:13:02`, whose year is that of the first such time after
    `since` (less a minute, since bjobs shows no seconds)."""
    found = re.sub(r"\s+[LEX]$", "", " ".join((text or "").split()))
    for form in _FORMS:
        for pattern, value in ((f"{form} %Y", found), (form, found)):
            full, shape = (
                (value, pattern) if "%Y" in pattern else (f"{value} 2000", f"{pattern} %Y")
            )
            try:
                parsed = time.strptime(full, shape)
            except ValueError:
                continue
            if "%Y" in pattern:
                return float(calendar.timegm(parsed))
            year = time.gmtime(since - 60).tm_year
            moments = [float(calendar.timegm((year + more, *parsed[1:6]))) for more in (0, 1)]
            return next((m for m in moments if m >= since - 120), moments[0])
    return None


def _amount(text: str | None) -> float | None:
    """`12.0 second(s)`."""
    match = re.match(r"(\d+(?:\.\d+)?) second", (text or "").strip())
    return float(match[1]) if match else None


def _size(text: str | None) -> int | None:
    """`5.2 Gbytes`."""
    match = re.match(r"(\d+(?:\.\d+)?) ([KMGT])bytes", (text or "").strip())
    return int(float(match[1]) * 1024 ** (" KMGT".index(match[2]))) if match else None


def _columns(text: str, first: str) -> Iterator[dict[str, str]]:
    """A table of words under its header; lines before the header are banners."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(first)), len(lines))
    head = lines[start].split() if start < len(lines) else []
    for line in lines[start + 1 :]:
        words = line.split()
        if len(words) == len(head):
            yield dict(zip(head, words, strict=True))


def _node(row: Mapping[str, Any]) -> Node:
    cores, used = _common.whole(row.get("MAX")), _common.whole(row.get("NJOBS"))
    state = row.get("STATUS", "")
    return Node(
        name=row["HOST_NAME"],
        state=state,
        up=state.startswith(("ok", "closed_Full", "closed_Busy", "closed_Excl")),
        cores=cores,
        free_cores=None if cores is None or used is None else cores - used,
    )


def _outcome(text: str) -> Outcome:
    if "already finished" in text:
        return Outcome.ALREADY_FINAL
    if "No matching job" in text or "not found" in text:
        return Outcome.UNKNOWN
    return Outcome.DENIED if "ermission" in text else Outcome.FAILED
