"""Grid Engine: `qsub -terse` from stdin, `qstat -r -xml`, `qacct` for what has ended.

Facts: qsub(1), qstat(1), qacct(1), qdel(1), qhold(1), accounting(5), queue_conf(5) of Son of Grid
Engine 8.1.9; lines marked [run] were seen on a real 8.1.9 (recorded in tests/recorded/gridengine).

What the tables cannot say: `-hold_jid` is released by any end of its target, so after_ok and
after_not_ok are our gate's; a job in error (`Eqw`) counts as failed here but stays in the queue,
and what waits for it by -hold_jid waits until it is deleted. The exit codes 99 (run again) and
100 (error state) are orders to Grid Engine; our script sends 249 and 250 in their place, told as
99 and 100 again. A kill by `qdel` looks like any SIGKILL, so the client remembers its own. What
uses more than one slot needs a parallel environment, and these have no common names: `smp` is
asked for on one node, `mpi` across nodes; `native={"gridengine": ["-pe NAME N"]}` says another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC as ZONE
from datetime import datetime
from typing import ClassVar

from gristmill import quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Denied, ParseError, Transient, Unclear
from gristmill.jobs import Hold, JobState, MailEvent, Relation
from gristmill.managers import _common, _xml, wrapper
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
    Why,
    cause_of,
    of_exit_code,
)

# letters of qstat(1)'s column `state`, first match wins: they combine, as in hqw, Rr, dhr, Eqw
STATES = (
    ("E", JobState.FAILED),
    ("d", JobState.COMPLETING),
    ("s", JobState.SUSPENDED),
    ("S", JobState.SUSPENDED),
    ("T", JobState.SUSPENDED),
    ("N", JobState.SUSPENDED),
    ("r", JobState.RUNNING),
    ("t", JobState.RUNNING),
    ("h", JobState.HELD),
    ("q", JobState.QUEUED),
    ("w", JobState.QUEUED),
    ("z", JobState.COMPLETING),
)
LETTERS = frozenset("EdsSTNrthqwzRP")

# accounting(5), `failed`: what the number says when it is not 0
RESCHEDULED = frozenset({24, 25, 99})  # a later record of the same job follows
LIMIT = 37  # [run] "qmaster enforced h_rt, h_cpu, or h_vmem limit"
AFTER_JOB = 100  # [run] "assumedly after job": the job was killed by a signal

HOLDS = {Hold.USER: "u", Hold.SYSTEM: "s"}
MAIL = {MailEvent.BEGIN: "b", MailEvent.END: "e", MailEvent.ABORT: "a"}
CONTEXT = "gristmill"
# 99 and 100 would be orders: what is sent in their place
DISGUISED = {249: 99, 250: 100}
UTC: Mapping[str, str | None] = {"TZ": "UTC", "LC_ALL": "C"}
_ID = re.compile(r"(\d+)(?:\.(\d+)(-\d+(?::\d+)?)?)?")
_RULER = re.compile(r"^=+$", re.MULTILINE)

# `scheduling info` of a waiting job: (part of it, cause), first match wins
REASONS = (
    ("job dependencies", Cause.DEPENDENCY),
    ("Job is in hold state", Cause.HELD_BY_USER),
    ("error state", Cause.LAUNCH_FAILURE),
    ("only offers 0 slots", Cause.RESOURCES),
    ("dropped because it is full", Cause.RESOURCES),
    ("because job requests unknown", Cause.IMPOSSIBLE),
    ("quota", Cause.LIMIT),
    ("execution time", Cause.BEGIN_TIME),
    ("disabled", Cause.QUEUE_CLOSED),
    ("concurrent", Cause.THROTTLE),
)


class GridEngineDialect(Dialect):
    """Son of Grid Engine, Univa and Open Grid Scheduler with the commands of 6.2."""

    name = "gridengine"
    title = "Grid Engine"
    documented = "manual pages of Son of Grid Engine 8.1.9; run on 8.1.9"
    directive = "#$"
    commands = ("qsub", "qstat", "qacct", "qconf")
    features = Features(
        relations=frozenset({Relation.AFTER_ANY}),
        arrays=True,
        throttle=True,
        array_lists=False,
        array_least=1,
        holds=frozenset(Hold),
        signals=False,
        chunk=1000,
        list_all_above=0,
        interval=10.0,
        grace=60.0,
    )
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"failed receiving gdi request|got read error|timeout was reached", Unclear),
        (r"unable to send message to qmaster|can't connect to|commlib error", Transient),
        (r"unable to contact qmaster|cannot register event client", Transient),
        (r"no write access|not allowed|must be (?:manager|operator)|do not have", Denied),
    )
    memory_kill = r"[Mm]emory exhausted|[Oo]ut of memory|[Cc]annot allocate memory|MemoryError"

    def canonical(self, text: str) -> str:
        """`123.1-10:2`, as qsub -terse prints an array, is 123; `123.4` is an element."""
        match = _ID.fullmatch(text.strip())
        if not match:
            raise ParseError(f"gridengine: {text!r} is not a job id", stdout=text)
        return match[1] if match[3] or not match[2] else f"{match[1]}.{match[2]}"

    def element_id(self, array_id: str, index: int) -> str:
        return f"{array_id}.{index}"

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        name = _common.plain_name(request.spec.name, 200)
        _common.note_name(sheet, name, f"-N {name}")
        for step in (_slots, _limits, _place, _sizes, _mail, _rest, _array):
            step(sheet, request)
        _common.user_hold(sheet, request, "-h")
        _common.redirected(sheet)
        sheet.lines += ["-S /bin/sh", "-cwd", "-j y", "-o /dev/null"]
        sheet.native()
        sheet.lines.append(f"-ac {CONTEXT}={request.token}")
        if request.edges:
            sheet.lines.append(f"-hold_jid {','.join(edge.id for edge in request.edges)}")
        frame = _frame(sheet.lines, request)
        script = wrapper.build(frame, request.spec, request.body, request.token)
        return Rendering(
            script=script,
            argv=("qsub", "-terse"),
            stdin=script.encode(errors="surrogateescape"),
            env=UTC,
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        """The last line that is an id: sites' checks (JSV) and warnings print lines before it."""
        plain = r"(\d+(?:\.\d+-\d+:\d+)?)"
        return self.submitted_id(out, rf"^(?:Your job(?:-array)? )?{plain}(?: \(.*)?$")

    def find(self, token: str) -> Ask[str | None]:
        """In the job's context; of a job that has ended already, in its exit record."""
        record = f'cat "{wrapper.EXIT_DIRECTORY}/{token}"* 2>/dev/null'
        script = f"qstat -j '*'; rc=$?; {record}; exit $rc"
        return Ask(Command(("sh", "-c", script), env=UTC), lambda out: self.parse_find(out, token))

    def parse_find(self, out: Output, token: str) -> str | None:
        """With no job at all, `*` is told not to exist, rc 1 [run]."""
        if not (out.rc == 1 and "do not exist" in out.error_text):
            self.require_ok(out)
        for block in _RULER.split(out.text):
            job = re.search(r"^job_number:\s+(\d+)$", block, re.MULTILINE)
            if job and re.search(rf"^context:.*\b{CONTEXT}={token}\b", block, re.MULTILINE):
                return job[1]
        ended = _common.ended_id(out)
        return ended.partition(".")[0] if ended else None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return self.live_all()

    def live_all(self) -> Ask[Listing]:
        """All of ours: Grid Engine tells no states of single jobs (`qstat -j`)."""
        return Ask(_for_me('exec qstat -u "$(id -un)" -r -xml'), self.parse_live)

    def parse_live(self, out: Output) -> Listing:
        self.require_ok(out)
        complete = "</job_info>" in out.text
        if not complete and not out.text.strip():
            return Listing()
        jobs = re.findall(r"<job_list[^>]*>(.*?)</job_list>", out.text, re.DOTALL)
        records = [record for inside in jobs for record in _live_records(inside)]
        return _common.listing(records, complete=complete)

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        return Ask(_qacct(ids, since), lambda out: self.parse_history(out, since))

    def parse_history(self, out: Output, since: float = 0.0) -> Listing:
        """Ids come again after some millions: older records are of other jobs."""
        found: dict[str, Record] = {}
        for values in self._accounts(out):
            record = _ended_record(values)
            if record is not None and (record.submitted or 0) >= since - 3600:
                found[record.id] = record
        return _common.listing(found.values())

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_qacct([id], since), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        """Of an array the sums over its elements, and the largest peak."""
        pairs = [(values, _ended_record(values)) for values in self._accounts(out)]
        known = [
            (v, record) for v, record in pairs if record and id in (record.id, record.array_id)
        ]
        if not known:
            return Accounting(id=id)
        values, last = known[-1]
        whole = _common.listing([record for _, record in known]).records[0]
        cpu = [amount for v, _ in known if (amount := _amount(v.get("cpu"))) is not None]
        return Accounting(
            id=id,
            state=whole.state,
            exit_code=whole.exit_code,
            signal=whole.signal,
            wall=sum(_amount(v.get("ru_wallclock")) or 0 for v, _ in known),
            cpu=sum(cpu) if cpu else None,
            peak_memory=max((_size(v.get("maxvmem")) or 0 for v, _ in known), default=0) or None,
            nodes=whole.nodes,
            cores=_common.whole(values.get("slots")),
            submitted=last.submitted,
            started=whole.started,
            ended=whole.ended,
            queue=last.queue,
            account=values.get("account"),
        )

    def why(self, id: str) -> Ask[Why]:
        number = id.partition(".")[0]
        script = f'qstat -j {number}; echo {"=" * 8}; exec qstat -u "$(id -un)" -r -xml'
        return Ask(_for_me(script), lambda out: self.parse_why(out, id))

    def parse_why(self, out: Output, id: str) -> Why:
        self.require_ok(out)
        record = next(
            (r for r in self.parse_live(out).records if r.id == id.partition(".")[0]), None
        )
        if record is None:
            raise self.fault(out)
        told = _told(out.text)
        evidence = tuple(f"qstat -j: {line}" for line in told)
        if record.state is not JobState.QUEUED:
            return Why(record.state, cause_of(record), evidence)
        text = "\n".join(told)
        cause = next((cause for part, cause in REASONS if part in text), Cause.UNKNOWN)
        return Why(record.state, cause, evidence)

    def queues(self) -> Ask[tuple[Queue, ...]]:
        return Ask(Command(("qstat", "-g", "c", "-xml"), env=UTC), self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        rows = (_xml.flat(inside) for inside in _xml.blocks(out.text, "cluster_queue_summary"))
        return tuple(
            Queue(
                name=row["name"],
                open=int(row["available"]) + int(row["used"]) > 0,
                running=int(row["used"]),
            )
            for row in rows
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("qhost", "-q", "-xml"), env=UTC), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        hosts = re.findall(r"<host name='([^']*)'>(.*?)</host>", out.text, re.DOTALL)
        return tuple(_node(name, inside) for name, inside in hosts if name != "global")

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("qhold", "-h", HOLDS[kind], *ids), env=UTC), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("qrls", "-h", HOLDS[kind], *ids), env=UTC), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("qdel", *ids), env=UTC), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        """Complaints are on stdout [run]. A job that the queue does not know has ended, or was
        never: Grid Engine does not tell which."""
        said = f"{out.text}\n{out.error_text}"
        found: dict[str, Outcome] = {}
        for gone, denied in _common.complaints(
            said, r'denied: job "([\d.]+)" does not exist|(?:no|not|denied).*job "?([\d.]+)'
        ):
            found[gone or denied] = Outcome.ALREADY_FINAL if gone else Outcome.DENIED
        done = "registered the job" in said or "already in deletion" in said
        if not found and not done:
            self.require_ok(out)
        return found

    def _accounts(self, out: Output) -> Iterator[dict[str, str]]:
        """The records of qacct; `job id N not found` is none, and may only mean: not yet."""
        if out.rc == 1 and "not found" in out.error_text:
            return
        self.require_ok(out)
        for block in _RULER.split(out.text):
            values = dict(re.findall(r"^(\w+) +(\S.*?) *$", block, re.MULTILINE))
            if "jobnumber" in values:
                yield values


# -- rendering


def _frame(lines: Iterable[str], request: Request) -> wrapper.Frame:
    array = request.spec.array is not None
    index = "" if request.index is None else str(request.index)
    return wrapper.Frame(
        header=tuple(f"#$ {line}" for line in lines),
        job_id="$JOB_ID.$SGE_TASK_ID" if array else "$JOB_ID",
        array_id="$JOB_ID",
        index="$SGE_TASK_ID" if array else index,
        directive="#$",
        redirect=_common.redirect(request),
        chdir=True,
        before_exit=tuple(
            f'[ "$gm_rc" != {order} ] || gm_rc={code}' for code, order in DISGUISED.items()
        ),
    )


def _slots(sheet: Sheet, request: Request) -> None:
    """One slot is one core. More need a parallel environment, whose rule spreads the slots."""
    spec, shape = request.spec, _common.layout(request.spec)
    native = any(option.startswith("-pe") for option in spec.native.get("gridengine", ()))
    many = shape.chunks if shape.spread else 1
    if many > 1:
        why = "a parallel environment of the site says how slots spread: give tasks, or native -pe"
        sheet.refuse("nodes" if sheet.has("nodes") else "tasks", why)
    if not shape.spread and shape.chunks > 1 and shape.cores > 1:
        sheet.refuse("cores_per_task", "slots of one task may lie on two nodes: set nodes=1")
    name = "mpi" if not shape.spread and shape.chunks > 1 else "smp"
    line = f"-pe {name} {shape.all_cores}" if shape.all_cores > 1 else "one slot"
    _common.shape_notes(sheet, shape, line)
    if shape.all_cores > 1 and native:
        sheet.refuse_native("-pe", f"the attributes ask for {line}")
    elif shape.all_cores > 1:
        sheet.lines.append(line)


def _limits(sheet: Sheet, request: Request) -> None:
    """h_vmem is for each slot and counts address space; h_rt is whole seconds."""
    spec, shape = request.spec, _common.layout(request.spec)
    if sheet.has("time"):
        sheet.exact("time", f"-l h_rt={spec.time}")
    slots = shape.all_cores
    for attribute, total in (
        ("memory", quantities.up_to(spec.memory or 0, slots)),
        ("memory_per_core", spec.memory_per_core or 0),
    ):
        if sheet.has(attribute):
            why = "h_vmem limits the address space, for each slot, in KiB"
            line = f"-l h_vmem={quantities.up_to(total, quantities.KIB)}K"
            sheet.rounded(attribute, line, why=why)


def _place(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    for attribute, option in (
        ("queue", "-q"), ("project", "-P"), ("account", "-A"),
        ("reservation", "-ar"), ("priority", "-p"),
    ):  # fmt: skip
        if sheet.has(attribute):
            sheet.exact(attribute, f"{option} {getattr(spec, attribute)}")
    if sheet.has("directory"):
        why = "Grid Engine would keep a job in error whose directory is missing; the script goes"
        sheet.emulated("directory", given="cd in the script", why=why)


def _sizes(sheet: Sheet, request: Request) -> None:
    """Complexes of the site by their usual names; qsub refuses a name that the site has not."""
    spec, slots = request.spec, _common.layout(request.spec).all_cores
    if sheet.has("features"):
        bad = [feature for feature in spec.features if not re.fullmatch(r"[\w.=*-]+", feature)]
        if bad:
            sheet.refuse("features", f"{bad[0]!r} is not the name of a complex")
        else:
            terms = (feature if "=" in feature else f"{feature}=true" for feature in spec.features)
            sheet.exact("features", *(f"-l {term}" for term in terms))
    counts = {f"gpu={spec.gpus}": spec.gpus} if spec.gpus else {}
    if sheet.has("gpus") and spec.gpus and spec.gpus % slots == 0:
        sheet.exact("gpus", *(f"-l gpu={spec.gpus // slots}" for _ in counts))
    elif sheet.has("gpus"):
        sheet.refuse("gpus", f"complexes are counted for each of the {slots} slots")
    if sheet.has("gpu_type"):
        sheet.refuse("gpu_type", "sites name it differently: native -l")
    if sheet.has("licences") and all(count % slots == 0 for count in spec.licences.values()):
        lines = (f"-l {name}={count // slots}" for name, count in spec.licences.items())
        sheet.exact("licences", *lines)
    elif sheet.has("licences"):
        sheet.refuse("licences", f"complexes are counted for each of the {slots} slots")
    if sheet.has("exclusive"):
        sheet.exact("exclusive", "-l exclusive=true")


def _mail(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("mail_on"):
        sheet.exact("mail_on", f"-m {''.join(MAIL[e] for e in MailEvent if e in spec.mail_on)}")
    if sheet.has("mail_to"):
        sheet.exact("mail_to", f"-M {spec.mail_to}")


def _rest(sheet: Sheet, request: Request) -> None:
    """-a is read in the zone of qsub, which is run in UTC."""
    spec = request.spec
    if sheet.has("requeue"):
        sheet.exact("requeue", f"-r {'y' if spec.requeue else 'n'}")
    if sheet.has("begin"):
        moment = time.strftime("%Y%m%d%H%M.%S", time.gmtime(spec.begin or 0))
        sheet.exact("begin", f"-a {moment}")


def _array(sheet: Sheet, request: Request) -> None:
    """One range from 1 up; the engine sends others as single jobs."""
    array = request.spec.array
    if array is None:
        return
    span = array.single_range
    if span is None or span[0] < 1:
        sheet.refuse("array", "Grid Engine takes one range that begins at 1 or above")
        return
    first, last, step = span
    lines = [f"-t {first}-{last}" + (f":{step}" if step > 1 else "")]
    if array.throttle:
        lines.append(f"-tc {array.throttle}")
    sheet.exact("array", *lines)


# -- parsing


def _for_me(script: str) -> Command:
    return Command(("sh", "-c", script), env=UTC)


def _qacct(ids: Sequence[str], since: float) -> Command:
    """Each call reads the whole accounting file: one id by -j, more by their owner, once."""
    jobs = sorted({id.partition(".")[0] for id in ids}, key=int)
    if len(jobs) == 1:
        return Command(("qacct", "-j", jobs[0]), env=UTC)
    begin = time.strftime("%Y%m%d%H%M", time.gmtime(max(0.0, since - 3600)))
    return _for_me(f'exec qacct -o "$(id -un)" -b {begin} -j')


def _state(letters: str) -> JobState:
    """Raises ParseError on a letter that is not known."""
    if not letters or not LETTERS.issuperset(letters):
        raise ParseError(f"gridengine: {letters!r} is not a job state that this driver knows")
    return next((state for letter, state in STATES if letter in letters), JobState.QUEUED)


def _live_records(inside: str) -> Iterator[Record]:
    values = _xml.flat(re.sub(r"<(\w+) [^>]*>", r"<\1>", inside))
    letters, id = values["state"], values["JB_job_number"]
    state, cause, waits = _state(letters), None, "predecessor_jobs" in values
    if state is JobState.HELD:
        # [run] a wait for another job shows as a hold
        state, cause = (JobState.QUEUED, Cause.DEPENDENCY) if waits else (state, Cause.HELD_BY_USER)
    elif state is JobState.FAILED:
        cause = Cause.LAUNCH_FAILURE
    queue, _, host = values.get("queue_name", "").partition("@")
    for index in _tasks(values.get("tasks", "")):
        yield Record(
            id=id if index is None else f"{id}.{index}",
            state=state,
            native_state=letters,
            cause=cause,
            submitted=_moment(values.get("JB_submission_time")),
            started=_moment(values.get("JAT_start_time")),
            nodes=(host,) if host else (),
            queue=queue or None,
            array_id=None if index is None else id,
            index=index,
        )


def _tasks(text: str) -> Iterator[int | None]:
    """`5`, `1-9:2`, `1,3,7-9:1`; nothing is a job that is no array."""
    for part in text.split(",") if text else ():
        first, _, rest = part.partition("-")
        last, _, step = rest.partition(":")
        yield from range(int(first), int(last or first) + 1, int(step or 1))
    if not text:
        yield None


def _moment(text: str | None) -> float | None:
    """qstat's `2026-11-30T05:44:02`, in UTC since it is run so."""
    if not text:
        return None
    return datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()


def _date(text: str | None) -> float | None:
    """qacct's `Mon Nov 30 05:44:04 2026`; `-/-` is never."""
    try:
        return datetime.strptime(f"{text} +0000", "%a %b %d %H:%M:%S %Y %z").timestamp()
    except ValueError:
        return None


def _ended_record(values: Mapping[str, str]) -> Record | None:
    """None of a record that says: it will run again."""
    failed = _leading(values.get("failed"))
    if failed in RESCHEDULED:
        return None
    code = _leading(values.get("exit_status"))
    code = DISGUISED.get(code, code)
    signal = of_exit_code(code)
    state, cause = _ending(values, failed, code)
    id, index = values["jobnumber"], _common.whole(values.get("taskid"))
    ran = state is not JobState.FAILED or cause is not Cause.LAUNCH_FAILURE
    return Record(
        id=id if index is None else f"{id}.{index}",
        state=state,
        native_state=f"failed={failed} exit_status={code}",
        cause=cause,
        reason=values.get("failed", "") if failed else "",
        exit_code=code if ran else None,
        signal=signal if ran else None,
        submitted=_date(values.get("qsub_time")),
        started=_date(values.get("start_time")),
        ended=_date(values.get("end_time")),
        nodes=(values["hostname"],) if values.get("hostname", "unknown") != "unknown" else (),
        queue=values.get("qname"),
        array_id=None if index is None else id,
        index=index,
        source=Source.HISTORY,
    )


def _ending(values: Mapping[str, str], failed: int, code: int) -> tuple[JobState, Cause | None]:
    if failed == 0:
        return (JobState.DONE if code == 0 else JobState.FAILED), None
    if _over_memory(values):
        return JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT
    if failed == LIMIT:
        return JobState.TIMED_OUT, Cause.TIME_LIMIT
    if failed == AFTER_JOB:
        return JobState.FAILED, None
    return JobState.FAILED, Cause.LAUNCH_FAILURE


def _over_memory(values: Mapping[str, str]) -> bool:
    """Whether a killed job had more than its h_vmem, which `category` repeats."""
    asked = re.search(r"\bh_vmem=([\d.]+[KMGTkmgt]?)", values.get("category", ""))
    peak = _size(values.get("maxvmem"))
    if not asked or peak is None:
        return False
    slots = _common.whole(values.get("slots")) or 1
    return peak > quantities.bytes_of(asked[1]) * slots


def _leading(text: str | None) -> int:
    """`137   (Killed)` is 137."""
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else 0


def _amount(text: str | None) -> float | None:
    """`0.010s`, and `0.01` of older versions."""
    match = re.fullmatch(r"([\d.]+)s?", text or "")
    return float(match[1]) if match else None


def _size(text: str | None) -> int | None:
    """`3.449MB`, `1.7G` and `0.000B`."""
    match = re.fullmatch(r"([\d.]+)([KMGT]?)B?", text or "")
    return round(float(match[1]) * 1024 ** " KMGT".index(match[2] or " ")) if match else None


def _told(text: str) -> list[str]:
    """The reasons in `qstat -j`: the values of two keys, with the lines that go on."""
    found, wanted = [], False
    for line in text.splitlines():
        key = re.match(r"([\w ()]+?)\s*\d*:\s+(.*)", line)
        if key and not line.startswith(" "):
            wanted = key[1].startswith(("scheduling info", "error reason"))
            found += [key[2]] if wanted else []
        elif wanted and line.startswith(" "):
            found.append(line.strip())
        else:
            wanted = False
    return found


def _node(name: str, inside: str) -> Node:
    values = dict(re.findall(r"<hostvalue name='(\w+)'>([^<]*)</hostvalue>", inside))
    queues = re.findall(r"<queue name='([^']*)'>(.*?)</queue>", inside, re.DOTALL)
    states = re.findall(r"name='state_string'>([^<]*)<", inside)
    down = values.get("load_avg") == "-" or (states and all(set("uEd") & set(s) for s in states))
    used = sum(int(n) for n in re.findall(r"name='slots_used'>(\d+)<", inside))
    cores = _common.whole(values.get("num_proc"))
    return Node(
        name=name,
        state="down" if down else "up",
        up=not down,
        cores=cores,
        free_cores=None if cores is None else max(0, cores - used),
        memory=_size(values.get("mem_total")),
        queues=tuple(queue for queue, _ in queues),
    )
