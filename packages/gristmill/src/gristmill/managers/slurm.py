"""Slurm: `sbatch` from stdin, `squeue` with fields by name, `sacct` for what has ended.

Facts: sbatch(1), squeue(1), sacct(1), scontrol(1), scancel(1) of Slurm 22.05 and the source of
26.11; lines marked [run] were seen on a real 22.05.8 (recorded in tests/recorded/slurm).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

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
from gristmill.jobs import Hold, JobState, MailEvent, Relation, overall
from gristmill.managers import wrapper
from gristmill.managers.base import SEPARATOR, Dialect, Features, Rendering, Request, Sheet, rows
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
    joined,
    of_wait_status,
)

T = TypeVar("T", int, float)

# squeue(1), JOB STATE CODES; sacct adds REQUEUED and REVOKED
STATES = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.QUEUED,
    "POWER_UP_NODE": JobState.QUEUED,
    "REQUEUED": JobState.QUEUED,
    "REQUEUE_FED": JobState.QUEUED,
    "REQUEUE_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "RUNNING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "STOPPED": JobState.SUSPENDED,
    "COMPLETING": JobState.COMPLETING,
    "STAGE_OUT": JobState.COMPLETING,
    "COMPLETED": JobState.DONE,
    "FAILED": JobState.FAILED,
    "BOOT_FAIL": JobState.FAILED,
    "LAUNCH_FAILED": JobState.FAILED,
    "RECONFIG_FAIL": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "PREEMPTED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMED_OUT,
    "DEADLINE": JobState.TIMED_OUT,
    "NODE_FAIL": JobState.NODE_FAILURE,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}

# squeue(1), JOB REASON CODES: (beginning of the reason, cause), first match wins
REASONS = (
    ("JobHeldUser", Cause.HELD_BY_USER),
    ("JobHeldAdmin", Cause.HELD_BY_OPERATOR),
    ("DependencyNeverSatisfied", Cause.DEPENDENCY_NEVER),
    ("Dependency", Cause.DEPENDENCY),
    ("Priority", Cause.PRIORITY),
    ("Resources", Cause.RESOURCES),
    ("BeginTime", Cause.BEGIN_TIME),
    ("JobArrayTaskLimit", Cause.THROTTLE),
    ("Reservation", Cause.RESERVATION),
    ("ReqNodeNotAvail", Cause.NODES_AWAY),
    ("NodeDown", Cause.NODES_AWAY),
    ("Licenses", Cause.LICENCES),
    ("PartitionDown", Cause.QUEUE_CLOSED),
    ("PartitionInactive", Cause.QUEUE_CLOSED),
    ("PartitionConfig", Cause.IMPOSSIBLE),  # more than the partition has, or than it allows
    ("PartitionNodeLimit", Cause.IMPOSSIBLE),
    ("PartitionTimeLimit", Cause.IMPOSSIBLE),
    ("BadConstraints", Cause.IMPOSSIBLE),
    ("QOS", Cause.LIMIT),
    ("Assoc", Cause.LIMIT),
    ("Max", Cause.LIMIT),
    ("TimeLimit", Cause.TIME_LIMIT),
    ("OutOfMemory", Cause.MEMORY_LIMIT),
    ("JobLaunchFailure", None),  # [run] also given to a job that kills itself
    ("NonZeroExitCode", Cause.EXIT_CODE),
)

RELATIONS = {
    Relation.AFTER_START: "after",
    Relation.AFTER_OK: "afterok",
    Relation.AFTER_NOT_OK: "afternotok",
    Relation.AFTER_ANY: "afterany",
}

MAIL = {MailEvent.BEGIN: "BEGIN", MailEvent.END: "END", MailEvent.ABORT: "FAIL"}

# one attribute, one option, no change of meaning
PLAIN: Mapping[str, Callable[[Any], str]] = {
    "name": lambda value: _option("job-name", value),
    "directory": lambda value: _option("chdir", value),
    "nodes": lambda value: _option("nodes", value),
    "tasks": lambda value: _option("ntasks", value),
    "tasks_per_node": lambda value: _option("ntasks-per-node", value),
    "cores_per_task": lambda value: _option("cpus-per-task", value),
    "queue": lambda value: _option("partition", value),
    "reservation": lambda value: _option("reservation", value),
    "qos": lambda value: _option("qos", value),
    "priority": lambda value: _option("priority", value),
    "exclusive": lambda value: "--exclusive",
    "features": lambda value: _option("constraint", "&".join(value)),
    "mail_to": lambda value: _option("mail-user", value),
    "mail_on": lambda value: _option("mail-type", ",".join(sorted(MAIL[e] for e in value))),
    "requeue": lambda value: "--requeue" if value else "--no-requeue",
    "licences": lambda value: _option("licenses", ",".join(f"{n}:{c}" for n, c in value.items())),
    "array": lambda value: _option("array", value),
}

LIVE_FIELDS = (
    "JobArrayID",
    "ArrayJobID",
    "ArrayTaskID",
    "State",
    "Reason",
    "exit_code",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "NodeList",
    "Partition",
    "Comment",
)
HISTORY_FIELDS = (
    "JobID",
    "State",
    "ExitCode",
    "Reason",
    "Submit",
    "Start",
    "End",
    "NodeList",
    "Partition",
)
ACCOUNTING_FIELDS = (
    "JobID",
    "State",
    "ExitCode",
    "ElapsedRaw",
    "TotalCPU",
    "MaxRSS",
    "NodeList",
    "AllocCPUS",
    "Submit",
    "Start",
    "End",
    "Partition",
    "Account",
)

# SLURM_TIME_FORMAT: epoch seconds, so no zone and no DST; SLURM_BITSTR_LEN: never cut "1,3,5,..."
QUERY_ENV = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "SQUEUE_*": None, "LC_ALL": "C"}
# SBATCH_* would override the header; the others are of a job that we may be running inside
SUBMIT_ENV = {"SBATCH_*": None, "SLURM_ARRAY_*": None, "SLURM_JOB*": None}
COMMENT = "gristmill:"
_JOB = re.compile(r"(\d+)(?:_(\d+|\[[^\]]*\]))?")


def _option(name: str, value: object) -> str:
    """`--name=value` as an #SBATCH line takes it: quoted where the reader would split it."""
    text = str(value)
    if re.fullmatch(r"[\w@%+=:,./&*\[\]-]*", text, re.ASCII):
        return f"--{name}={text}"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'--{name}="{escaped}"'


class SlurmDialect(Dialect):
    """Slurm, from 20.11 (`squeue --me`)."""

    name = "slurm"
    title = "Slurm"
    documented = "manual pages of 22.05 and 26.11; run on 22.05.8"
    directive = "#SBATCH"
    commands = ("sbatch", "squeue", "scontrol", "scancel")
    features = Features(
        relations=frozenset(RELATIONS),
        element_wise=True,
        arrays=True,
        throttle=True,
        holds=frozenset(Hold),
        estimates=True,
        chunk=5000,
        list_all_above=200,
        interval=10.0,
        grace=60.0,
    )
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"Socket timed out", Unclear),
        (r"Zero Bytes were transmitted", Unclear),
        (r"Connection (?:reset|timed out)", Unclear),
        (r"Unable to contact slurm controller", Transient),
        (r"temporarily unable to accept", Transient),
        (r"Connection refused|Slurm (?:backup|controller) .*standby|in standby mode", Transient),
        (r"Resource temporarily unavailable", Transient),
        (r"accounting storage is disabled|not running a supported accounting", HistoryUnavailable),
        (r"slurm_persist_conn_open|Problem talking to the database", HistoryUnavailable),
        (r"[Pp]ermission denied|Access/permission", Denied),
    )
    memory_kill = r"[Ee]xceeded (?:job |step )?memory limit|oom[-_]kill|Out Of Memory"

    def canonical(self, text: str) -> str:
        """`123;ci`, `123.batch` and `123+0` are 123; `123_4` stays; `123_[5-9%2]` is 123."""
        match = _JOB.match(text.strip())
        if not match:
            raise ParseError(f"slurm: {text!r} is not a job id", stdout=text)
        whole, part = match.groups()
        return f"{whole}_{part}" if part and part.isdigit() else whole

    def element_id(self, array_id: str, index: int) -> str:
        return f"{array_id}_{index}"

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        for attribute, option in PLAIN.items():
            if sheet.has(attribute):
                sheet.exact(attribute, option(getattr(request.spec, attribute)))
        for step in (_time, _cores, _memory, _gpus, _account, _begin, _outputs, _hold):
            step(sheet, request)
        sheet.native()
        sheet.lines.append(f"--comment={COMMENT}{request.token}")
        sheet.lines.extend(_dependency(request))
        script = wrapper.build(_frame(sheet.lines), request.spec, request.body, request.token)
        return Rendering(
            script=script,
            argv=("sbatch", "--parsable"),
            stdin=script.encode(),
            env=SUBMIT_ENV,
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        """The last line that is an id: sites print banners first, wrappers a bare number."""
        return self.submitted_id(out, r"^(?:Submitted batch job )?(\d+)(?:;\S+| on cluster \S+)?$")

    def find(self, token: str) -> Ask[str | None]:
        return Ask(
            _squeue(("ArrayJobID", "Comment"), "--me"), lambda out: self.parse_find(out, token)
        )

    def parse_find(self, out: Output, token: str) -> str | None:
        self.require_ok(out)
        wanted = COMMENT + token
        return next((r[0] for r in self._rows(out, 2) if r[1].strip() == wanted), None)

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_squeue(LIVE_FIELDS, f"--jobs={','.join(ids)}"), self.parse_live)

    def live_all(self) -> Ask[Listing]:
        return Ask(_squeue(LIVE_FIELDS, "--me"), self.parse_live)

    def parse_live(self, out: Output) -> Listing:
        """A single unknown id is rc 1, an unknown one in a list is left out [run]."""
        if out.rc == 1 and "Invalid job id" in out.error_text:
            return Listing()
        self.require_ok(out)
        lines = [line for line in out.text.split("\n") if SEPARATOR in line]
        try:
            return _listing([record for line in lines for record in _live_records(line)])
        except ValueError as error:
            raise ParseError(f"slurm: {error}", stdout=out.text, stderr=out.error_text) from None

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        # -D: every run of a requeued job; the last one counts
        command = _sacct(HISTORY_FIELDS, since, "-X", "-D", f"--jobs={','.join(ids)}")
        return Ask(command, self.parse_history)

    def parse_history(self, out: Output) -> Listing:
        self._require_history(out)
        found = {}
        for row in self._rows(out, len(HISTORY_FIELDS)):
            for record in _history_records(row):
                found[record.id] = record
        return _listing(found.values())

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        command = _sacct(ACCOUNTING_FIELDS, since, "-D", f"--jobs={id}")
        return Ask(command, lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        """The job's own line, and the largest MaxRSS of its steps: the job's line has none.

        Of an array: CPU summed, wall from the first start to the last end, the worst exit.
        """
        self._require_history(out)
        table = [
            dict(zip(ACCOUNTING_FIELDS, row, strict=True))
            for row in self._rows(out, len(ACCOUNTING_FIELDS))
        ]
        # the last run of each job or element counts; `7_[3-9]` has not run
        last = {row["JobID"]: row for row in table if not re.search(r"[.\[]", row["JobID"])}
        if not last:
            return Accounting(id=id)
        whole = list(last.values())
        states = [_state(row["State"], "") for row in whole]
        exits = [
            _exit_pair(row["ExitCode"])
            for row, state in zip(whole, states, strict=True)
            if state.final
        ]
        code, signal = max(exits, key=lambda pair: pair[0] or 0, default=(None, None))
        return Accounting(
            id=id,
            state=overall(states),
            exit_code=code,
            signal=signal,
            wall=_wall(whole),
            cpu=_over(sum, (_cpu_time(row["TotalCPU"]) for row in whole)),
            peak_memory=_over(max, (_size(row["MaxRSS"]) for row in table)),
            nodes=tuple(sorted({n for row in whole for n in _nodes(row["NodeList"])})),
            cores=_over(max, (_whole(row["AllocCPUS"]) for row in whole)),
            submitted=_over(min, (_number(row["Submit"]) for row in whole)),
            started=_over(min, (_number(row["Start"]) for row in whole)),
            ended=_over(max, (_number(row["End"]) for row in whole)),
            queue=whole[0]["Partition"] or None,
            account=whole[0]["Account"] or None,
        )

    def why(self, id: str) -> Ask[Why]:
        command = Command(("scontrol", "show", "job", "-o", id), env=QUERY_ENV)
        return Ask(command, self.parse_why)

    def parse_why(self, out: Output) -> Why:
        self.require_ok(out)
        pairs = dict(re.findall(r"(\w+)=(\S*)", out.text.partition("\n")[0]))
        state = _state(pairs.get("JobState", ""), pairs.get("Reason", ""))
        told = ("JobState", "Reason", "Dependency", "ExitCode", "StartTime", "SchedNodeList")
        evidence = tuple(
            f"scontrol show job: {key}={pairs[key]}"
            for key in told
            if pairs.get(key, "(null)") not in ("(null)", "Unknown")
        )
        return Why(state, _cause(state, pairs.get("Reason", "")) or Cause.UNKNOWN, evidence)

    def estimate(self, id: str) -> Ask[float | None]:
        # of a waiting job StartTime is a forecast; with --start squeue ignores --Format [run]
        return Ask(_squeue(("State", "StartTime"), f"--jobs={id}"), self.parse_estimate)

    def parse_estimate(self, out: Output) -> float | None:
        if out.rc == 1 and "Invalid job id" in out.error_text:
            return None
        self.require_ok(out)
        return next((_number(row[1]) for row in self._rows(out, 2) if row[0] == "PENDING"), None)

    def queues(self) -> Ask[tuple[Queue, ...]]:
        command = Command(("scontrol", "show", "partition", "-o"), env=QUERY_ENV)
        return Ask(command, self.parse_queues)

    def parse_queues(self, out: Output) -> tuple[Queue, ...]:
        self.require_ok(out)
        return tuple(_queue(pairs) for pairs in _one_liners(out.text, "PartitionName"))

    def nodes(self) -> Ask[tuple[Node, ...]]:
        command = Command(("scontrol", "show", "node", "-o"), env=QUERY_ENV)
        return Ask(command, self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        self.require_ok(out)
        return tuple(_node(pairs) for pairs in _one_liners(out.text, "NodeName"))

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        verb = "uhold" if kind is Hold.USER else "hold"  # root's plain hold is an operator's
        return Ask(Command(("scontrol", verb, ",".join(ids))), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("scontrol", "release", ",".join(ids))), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        # -v, because without it a finished or unknown id is rc 0 and silence [run]
        return Ask(Command(("scancel", "-v", *ids)), self.parse_action)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        # to the batch shell only: our wrapper passes it on, once
        return Ask(Command(("scancel", "-v", "--batch", "-s", signal, *ids)), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        """Per-id complaints; without one, a bad rc is an error of the whole command."""
        found = {}
        for line in out.error_text.splitlines():
            match = re.search(r"on job id ([\d_+]+): (.*)|(.*) for job ([\d_+]+)", line)
            if match:
                found[self.canonical(match[1] or match[4])] = _outcome(match[2] or match[3])
        if not found:
            self.require_ok(out)
        return found

    def _rows(self, out: Output, fields: int) -> list[list[str]]:
        """Rows whose every field ends in the separator, so that none is padded or cut."""
        try:
            return [row[:fields] for row in rows(out.text, fields + 1)]
        except ValueError as error:
            raise ParseError(f"slurm: {error}", stdout=out.text, stderr=out.error_text) from None

    def _require_history(self, out: Output) -> None:
        if out.rc != 0:
            raise self.fault(out, HistoryUnavailable)


# -- rendering


def _time(sheet: Sheet, request: Request) -> None:
    """Always D-HH:MM:SS: `01:30` would be 90 seconds. Slurm counts whole minutes."""
    if not sheet.has("time"):
        return
    wanted = request.spec.time or 0
    line = f"--time={quantities.clock(quantities.up_to(wanted, 60) * 60, days='-')}"
    if wanted % 60:
        sheet.rounded("time", line, why="Slurm counts whole minutes")
    else:
        sheet.exact("time", line)


def _cores(sheet: Sheet, request: Request) -> None:
    """Cores of a node, as tasks of the cores each: what `nodes=N:ppn=M` means elsewhere."""
    if not sheet.has("cores_per_node"):
        return
    spec = request.spec
    cores = spec.cores_per_node or 1
    if spec.tasks_per_node and spec.cores_per_task is None and cores % spec.tasks_per_node == 0:
        sheet.exact("cores_per_node", f"--cpus-per-task={cores // spec.tasks_per_node}")
    elif spec.tasks_per_node is None and cores % (spec.cores_per_task or 1) == 0:
        sheet.exact("cores_per_node", f"--ntasks-per-node={cores // (spec.cores_per_task or 1)}")
    elif spec.tasks_per_node and spec.tasks_per_node * (spec.cores_per_task or 1) == cores:
        sheet.exact("cores_per_node", given="what the tasks of a node need")
    else:
        sheet.refuse("cores_per_node", "it does not fit tasks_per_node and cores_per_task")


def _memory(sheet: Sheet, request: Request) -> None:
    """Slurm counts MiB, for each node or each core; a job's total is divided."""
    spec = request.spec
    if sheet.has("memory_per_core"):
        _mebibytes(sheet, "memory_per_core", "mem-per-cpu", spec.memory_per_core or 0, 1, "")
    if not sheet.has("memory"):
        return
    total = spec.memory or 0
    if spec.nodes is None and (spec.tasks or 1) > 1:
        cores = (spec.tasks or 1) * (spec.cores_per_task or 1)
        _mebibytes(sheet, "memory", "mem-per-cpu", total, cores, "Slurm divides it by cores")
    else:
        _mebibytes(sheet, "memory", "mem", total, spec.nodes or 1, "Slurm counts for each node")


def _mebibytes(
    sheet: Sheet, attribute: str, option: str, total: int, parts: int, divided: str
) -> None:
    line = f"--{option}={quantities.up_to(total, quantities.MIB * parts)}M"
    if total % (quantities.MIB * parts):
        sheet.rounded(attribute, line, why=divided if parts > 1 else "Slurm counts whole MiB")
    elif parts > 1:
        sheet.rounded(attribute, line, why=divided)
    else:
        sheet.exact(attribute, line)


def _gpus(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("gpu_type"):
        sheet.exact("gpu_type", given="with the number of GPUs")
    if sheet.has("gpus"):
        kind = f"{spec.gpu_type}:" if spec.gpu_type else ""
        sheet.exact("gpus", _option("gpus", f"{kind}{spec.gpus}"))


def _account(sheet: Sheet, request: Request) -> None:
    """Slurm has one of the two; a project is charged as the account."""
    if sheet.has("account"):
        sheet.exact("account", _option("account", request.spec.account))
    if not sheet.has("project"):
        return
    if request.spec.account in (None, request.spec.project):
        sheet.exact("project", _option("account", request.spec.project))
    else:
        sheet.refuse("project", f"Slurm has accounts only, and account={request.spec.account}")


def _begin(sheet: Sheet, request: Request) -> None:
    """As a delay: a time of day would be read in the cluster's zone, and twice on a DST night."""
    if sheet.has("begin"):
        delay = max(0, math.ceil((request.spec.begin or 0) - request.now))
        sheet.exact("begin", f"--begin=now+{delay}")


def _outputs(sheet: Sheet, request: Request) -> None:
    """In an array our %j, the element's id, is Slurm's %A_%a."""
    spec = request.spec
    element = "%A_%a" if spec.array else "%j"
    array, index = ("%A", "%a") if spec.array else ("%j", "")
    names = {"j": element, "A": array, "a": index, "x": "%x"}
    if sheet.has("join"):
        sheet.exact("join", given="both in stdout's file")
    for attribute, path in patterns.outputs(spec).items():
        if "\\" in path:
            sheet.refuse(attribute, "Slurm replaces no placeholder in a path with a backslash")
            continue
        written = patterns.translate(path, names, lambda text: text.replace("%", "%%"))
        option = _option({"stdout": "output", "stderr": "error"}[attribute], written)
        if sheet.has(attribute):
            sheet.exact(attribute, option)
        else:
            sheet.lines.append(option)


def _hold(sheet: Sheet, request: Request) -> None:
    if request.spec.hold is Hold.SYSTEM:
        sheet.refuse("hold", "only an operator can, once it is submitted; hold='user' is possible")
        return
    if sheet.has("hold"):
        sheet.exact("hold", "--hold")
    elif request.held:
        sheet.lines.append("--hold")


def _dependency(request: Request) -> Iterable[str]:
    """`,` is and. Without kill-on-invalid-dep a job whose dependency failed pends for ever."""
    if not request.edges:
        return ()
    terms = (
        f"{'aftercorr' if edge.element_wise else RELATIONS[edge.relation]}:{edge.id}"
        for edge in request.edges
    )
    return f"--dependency={','.join(terms)}", "--kill-on-invalid-dep=yes"


def _frame(lines: Iterable[str]) -> wrapper.Frame:
    return wrapper.Frame(
        header=tuple(f"#SBATCH {line}" for line in lines),
        job_id="${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}",
        array_id="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}",
        index="${SLURM_ARRAY_TASK_ID:-}",
        directive="#SBATCH",
    )


# -- parsing


def _squeue(fields: Iterable[str], *options: str) -> Command:
    form = ",".join(f"{field}:{SEPARATOR}" for field in fields)
    return Command(
        ("squeue", "--noheader", "--states=all", f"--Format={form}", *options), env=QUERY_ENV
    )


def _sacct(fields: Iterable[str], since: float, *options: str) -> Command:
    """-S is needed: the default is today at 0:00. An hour is taken off for clocks that differ."""
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(0.0, since - 3600)))
    form = ("--parsable", "--noheader", f"--delimiter={SEPARATOR}", f"--format={','.join(fields)}")
    return Command(
        ("sacct", *form, f"--starttime={start}", *options), env={**QUERY_ENV, "TZ": "UTC"}
    )


def _state(text: str, reason: str) -> JobState:
    """`CANCELLED by 1001` and `CANCELLED+` are CANCELLED. Raises ParseError on a new word."""
    word = text.split()[0].rstrip("+") if text.split() else ""
    if word not in STATES:
        raise ParseError(f"slurm: {text!r} is not a job state that this driver knows")
    if word == "PENDING" and reason.startswith("JobHeld"):
        return JobState.HELD
    return STATES[word]


def _cause(state: JobState, reason: str) -> Cause | None:
    """Only of a job that waits or has ended badly: a running one keeps an old reason [run]."""
    if state in (JobState.RUNNING, JobState.COMPLETING, JobState.DONE):
        return None
    return next((cause for start, cause in REASONS if reason.startswith(start)), None)


@lru_cache(maxsize=65536)
def _live_records(line: str) -> tuple[Record, ...]:
    """The records of a line; a line that comes again, poll after poll, gives the same objects."""
    row = line.split(SEPARATOR)
    if len(row) != len(LIVE_FIELDS) + 1:
        raise ValueError(f"{len(LIVE_FIELDS)} fields expected, {len(row) - 1} found in {line!r}")
    _, array_id, task, *rest, comment, _ = row
    token = comment.strip().removeprefix(COMMENT) if comment.startswith(COMMENT) else None
    return tuple(_spread(array_id, task, token=token, **_live_common(*rest)))


@lru_cache(maxsize=4096)
def _live_common(state: str, reason: str, status: str, *rest: str) -> dict[str, Any]:
    """What jobs submitted together share. `rest`: submit, start, end, nodes, partition."""
    names = ("SubmitTime", "StartTime", "EndTime", "NodeList", "Partition")
    values = {"State": state, "Reason": reason, **dict(zip(names, rest, strict=True))}
    code, signal = of_wait_status(_whole(status) or 0)
    return _record_fields(values, _state(state, reason), code, signal)


def _history_records(row: Sequence[str]) -> Iterable[Record]:
    values = dict(zip(HISTORY_FIELDS, row, strict=True))
    values["SubmitTime"], values["StartTime"] = values["Submit"], values["Start"]
    values["EndTime"] = values["End"]
    state = _state(values["State"], values["Reason"])
    common = _record_fields(values, state, *_exit_pair(values["ExitCode"]))
    whole, _, task = values["JobID"].partition("_")
    return _spread(whole, task.strip("[]") or "N/A", source=Source.HISTORY, **common)


def _record_fields(
    values: Mapping[str, str], state: JobState, code: int | None, signal: int | None
) -> dict[str, Any]:
    """A waiting job's StartTime is a forecast, a running one's EndTime its limit: not told."""
    waits = state in (JobState.QUEUED, JobState.HELD)
    if state is JobState.CANCELLED and not code:
        code = None  # Slurm says 0 of a job that never ran or was stopped
    return {
        "state": state,
        "native_state": values["State"],
        "cause": _cause(state, values["Reason"]),
        "reason": values["Reason"],
        "exit_code": code if state.final else None,
        "signal": signal if state.final else None,
        "submitted": _number(values["SubmitTime"]),
        "started": None if waits else _number(values["StartTime"]),
        "ended": _number(values["EndTime"]) if state.final else None,
        "nodes": _nodes(values["NodeList"]),
        "queue": values["Partition"] or None,
    }


def _spread(array_id: str, task: str, **common: Any) -> Iterable[Record]:
    """A row is a job, an element, or the elements that still wait, as `2-9%2`."""
    if task in ("N/A", ""):
        yield Record(id=array_id, **common)
        return
    for part in task.partition("%")[0].split(","):
        first, _, rest = part.partition("-")
        last, _, step = rest.partition(":")
        for index in range(int(first), int(last or first) + 1, int(step or 1)):
            yield Record(id=f"{array_id}_{index}", array_id=array_id, index=index, **common)


def _listing(records: Iterable[Record]) -> Listing:
    """Jobs as they are, the elements of each array under one record."""
    single: list[Record] = []
    arrays: dict[str, list[Record]] = {}
    for record in records:
        if record.array_id is None:
            single.append(record)
        else:
            arrays.setdefault(record.array_id, []).append(record)
    return Listing((*single, *(joined(id, elements) for id, elements in arrays.items())))


def _exit_pair(text: str) -> tuple[int | None, int | None]:
    """sacct's `3:0` and `0:9`."""
    code, _, signal = text.partition(":")
    if not code.isdigit():
        return None, None
    return (int(code), None) if signal in ("", "0") else (128 + int(signal), int(signal))


def _over(how: Callable[[list[T]], T], values: Iterable[T | None]) -> T | None:
    """The sum, least or most of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _wall(rows: Sequence[Mapping[str, str]]) -> float | None:
    if len(rows) == 1:
        return _number(rows[0]["ElapsedRaw"])
    start = _over(min, (_number(row["Start"]) for row in rows))
    end = _over(max, (_number(row["End"]) for row in rows))
    return None if start is None or end is None else end - start


def _number(text: str) -> float | None:
    """Epoch or amount; None, Unknown, N/A, INVALID and nothing are all None."""
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text.strip()) else None


def _whole(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _size(text: str) -> int | None:
    """sacct's `316664K`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text.strip())
    return quantities.bytes_of(text) if match and float(match[1]) > 0 else None


def _cpu_time(text: str) -> float | None:
    """sacct's `1-02:03:04`, `02:03:04` and `03:04.567`."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)", text.strip())
    if not match:
        return None
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + rest


def _nodes(text: str) -> tuple[str, ...]:
    """`n1,m[1-3,07]` as single names; `None assigned` and nothing are none."""
    if not text.strip() or text.startswith(("None", "(null)")):
        return ()
    return tuple(
        name for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text) for name in _hosts(part)
    )


def _hosts(text: str) -> Iterable[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", text.strip())
    if not match:
        yield text.strip()
        return
    head, inner, tail = match.groups()
    for part in inner.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield from (
                f"{head}{number:0{len(first)}d}{rest}" for rest in (_hosts(tail) if tail else ("",))
            )


def _one_liners(text: str, first_key: str) -> Iterable[dict[str, str]]:
    """The lines of `scontrol show … -o` as dictionaries."""
    lines = (line for line in text.splitlines() if line.startswith(f"{first_key}="))
    return (dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines)


def _queue(pairs: Mapping[str, str]) -> Queue:
    return Queue(
        name=pairs["PartitionName"],
        open=pairs.get("State") == "UP",
        default=pairs.get("Default") == "YES",
        max_time=_limit(pairs.get("MaxTime", "")),
        default_time=_limit(pairs.get("DefaultTime", "")),
        nodes=_whole(pairs.get("TotalNodes", "")),
    )


def _limit(text: str) -> int | None:
    """A time limit; UNLIMITED and NONE are none."""
    return quantities.seconds(text) if ":" in text else None


def _node(pairs: Mapping[str, str]) -> Node:
    state = pairs.get("State", "")
    down = re.search(r"DOWN|DRAIN|FAIL|NOT_RESPONDING|POWERED_DOWN|\*", state)
    total = _whole(pairs.get("CPUTot", ""))
    used = _whole(pairs.get("CPUAlloc", ""))
    memory = _whole(pairs.get("RealMemory", ""))
    gpus = re.findall(r"gpu(?::[^:,(]+)?:(\d+)", pairs.get("Gres", ""))
    return Node(
        name=pairs["NodeName"],
        state=state,
        up=not down,
        cores=total,
        free_cores=None if total is None or used is None else total - used,
        memory=None if memory is None else memory * quantities.MIB,
        gpus=sum(map(int, gpus)) if gpus else None,
        features=_list(pairs.get("AvailableFeatures", "")),
        queues=_list(pairs.get("Partitions", "")),
    )


def _list(text: str) -> tuple[str, ...]:
    return () if text in ("", "(null)") else tuple(text.split(","))


def _outcome(text: str) -> Outcome:
    if "already" in text:
        return Outcome.ALREADY_FINAL
    if "Invalid job id" in text:
        return Outcome.UNKNOWN
    if "denied" in text:
        return Outcome.DENIED
    return Outcome.FAILED
