"""OAR: `oarsub -S` of a staged script, `oarstat -J` with a line of SQL for whatever is asked.

Facts: oarsub(1), oarstat(1), oardel(1), oarhold(1), oarresume(1), oarnodes(1) of OAR 2.5.9 and its
source; lines marked [run] were seen on a real 2.5.9 (recorded in tests/recorded/oar).

What the tables cannot say: `-a` is released by any end of its target, however it ended; after_ok
and after_not_ok are our gate's. Ended jobs stay in OAR's database, which is the history. Arrays
are sent as single jobs: OAR numbers the elements from 1 without steps or throttle, and gives each
an id of its own. `oarsub` is set-uid and waits for a database that is down: it cannot be killed,
so a submission that was given up is looked up by the token in the name of its script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from gristmill import quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Denied, ParseError, Transient, Unclear
from gristmill.jobs import Hold, JobState, MailEvent, Relation
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
    Record,
    Source,
    Why,
    cause_of,
    of_wait_status,
)

# the states of OAR's table `jobs`; Terminated is done or failed by the exit code
STATES = {
    "Waiting": JobState.QUEUED,
    "toAckReservation": JobState.QUEUED,
    "Hold": JobState.HELD,
    "toLaunch": JobState.QUEUED,
    "Launching": JobState.QUEUED,
    "Running": JobState.RUNNING,
    "Suspended": JobState.SUSPENDED,
    "Resuming": JobState.SUSPENDED,
    "Finishing": JobState.COMPLETING,
    "toError": JobState.COMPLETING,
    "Terminated": JobState.DONE,
    "Error": JobState.FAILED,
}
ENDED = "state IN ('Terminated','Error')"

# events of a job that ended in Error: (beginning of the type, state, cause), first match wins.
# Every kill has FRAG_JOB_REQUEST, the one at the time limit has WALLTIME as well [run]
ENDS = (
    ("WALLTIME", JobState.TIMED_OUT, Cause.TIME_LIMIT),
    ("PING_CHECKER_NODE_SUSPECTED", JobState.NODE_FAILURE, Cause.NODE_FAILURE),
    ("BESTEFFORT_KILL", JobState.CANCELLED, Cause.PREEMPTED),
    ("FRAG_JOB_REQUEST", JobState.CANCELLED, Cause.CANCELLED),
    ("WORKING_DIRECTORY", JobState.FAILED, Cause.LAUNCH_FAILURE),
    ("OUTPUT_FILES", JobState.FAILED, Cause.LAUNCH_FAILURE),
    ("LAUNCHING_OAREXEC", JobState.FAILED, Cause.LAUNCH_FAILURE),
    ("CPUSET", JobState.FAILED, Cause.LAUNCH_FAILURE),
    ("PROLOGUE", JobState.FAILED, Cause.LAUNCH_FAILURE),
)

# what the message of a waiting job says: (part of it, cause), first match wins
REASONS = (
    ("due to dependency", Cause.DEPENDENCY),
    ("not enough resources", Cause.RESOURCES),
    ("no enough", Cause.RESOURCES),
    ("quota", None),  # `quota_ok` and the like is in every message
    ("container", Cause.RESERVATION),
)

MAIL = {MailEvent.BEGIN: "RUNNING", MailEvent.END: "END", MailEvent.ABORT: "ERROR"}
SCRIPT = "job.sh"
# [run] oarsub takes the environment's PWD for its directory; a shell puts the true one there
SUBMIT = 'export PWD && exec oarsub -S "$1"'
ENVIRONMENT: Mapping[str, str | None] = {"LC_ALL": "C", "OAR_OARSTAT_OUTPUT_FORMAT": None}


class OarDialect(Dialect):
    """OAR 2.5."""

    name = "oar"
    title = "OAR"
    documented = "manual pages and source of 2.5; run on 2.5.9"
    directive = "#OAR"
    commands = ("oarsub", "oarstat", "oardel")
    features = Features(
        relations=frozenset({Relation.AFTER_ANY}),
        estimates=True,
        chunk=500,
        list_all_above=200,
        hold_flickers=True,
        interval=10.0,
        grace=30.0,
    )
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        # [run] the id that is printed with it is real, and the job waits
        (r"Cannot connect to executor", Unclear),
        (r"DB connection error|[Cc]annot connect to (?:the )?database", Transient),
        (r"not the right user|[Pp]ermission denied|not allowed", Denied),
    )

    def canonical(self, text: str) -> str:
        if not text.strip().isdigit():
            raise ParseError(f"oar: {text!r} is not a job id", stdout=text)
        return text.strip()

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        name = _common.plain_name(request.spec.name, 100)
        _common.note_name(sheet, name, f"-n {name}")
        for step in (_resources, _place, _features, _mail, _times, _requeue):
            step(sheet, request)
        _common.user_hold(sheet, request, "--hold")
        _common.redirected(sheet)
        sheet.lines += ["-O /dev/null", "-E /dev/null"]
        sheet.native()
        sheet.lines += [f"-a {edge.id}" for edge in request.edges]
        script = wrapper.build(
            _frame(sheet.lines, request), request.spec, request.body, request.token
        )
        return Rendering(
            script=script,
            argv=("sh", "-c", SUBMIT, "oarsub", f"{STAGE}/{SCRIPT}"),
            env=ENVIRONMENT,
            files=(StagedFile(SCRIPT, script.encode(errors="surrogateescape"), executable=True),),
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        """A refusal prints `OAR_JOB_ID=-5` [run]; admission rules talk on stdout before the id."""
        return self.submitted_id(out, r"^OAR_JOB_ID=(\d+)$")

    def find(self, token: str) -> Ask[str | None]:
        """By the path of the script, which lies in a folder of that name."""
        return Ask(_oarstat(f"command LIKE '%{token}/{SCRIPT}%'"), self.parse_find)

    def parse_find(self, out: Output) -> str | None:
        return next(iter(self._jobs(out)), None)

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_oarstat(f"{_among(ids)} AND NOT {ENDED}"), self.parse_jobs)

    def live_all(self) -> Ask[Listing]:
        return Ask(Command(("oarstat", "-u", "-J"), env=ENVIRONMENT), self.parse_jobs)

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        # exit codes and events are told with -f alone
        return Ask(_oarstat(f"{_among(ids)} AND {ENDED}", "-f"), self.parse_jobs)

    def parse_jobs(self, out: Output) -> Listing:
        return Listing(tuple(_record(job) for job in self._jobs(out).values()))

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_oarstat(_among([id]), "-f"), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        """OAR measures neither CPU time nor memory of a job."""
        job = self._jobs(out).get(id)
        if job is None:
            return Accounting(id=id)
        record = _record(job)
        ran = record.started is not None and record.ended is not None
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=(record.ended or 0) - (record.started or 0) if ran else None,
            nodes=record.nodes,
            cores=len(job["assigned_resources"]) or None,
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            queue=record.queue,
            account=job.get("project"),
        )

    def why(self, id: str) -> Ask[Why]:
        return Ask(_oarstat(_among([id]), "-f"), lambda out: self.parse_why(out, id))

    def parse_why(self, out: Output, id: str) -> Why:
        job = self._jobs(out).get(id)
        if job is None:
            raise self.fault(out)
        record = _record(job)
        evidence = [f"oarstat: state={job['state']}", f"oarstat: message={job['message']}"]
        evidence += [f"{event['type']}: {event['description']}" for event in job["events"]]
        waits = record.state is JobState.QUEUED and record.cause is None
        return Why(record.state, Cause.RESOURCES if waits else cause_of(record), tuple(evidence))

    def estimate(self, id: str) -> Ask[float | None]:
        return Ask(_oarstat(_among([id]), "-f"), lambda out: self.parse_estimate(out, id))

    def parse_estimate(self, out: Output, id: str) -> float | None:
        """The scheduler's own plan, which it makes again and again."""
        job = self._jobs(out).get(id, {})
        return _time(job.get("scheduledStart")) if job.get("state") == "Waiting" else None

    def nodes(self) -> Ask[tuple[Node, ...]]:
        return Ask(Command(("oarnodes", "-J"), env=ENVIRONMENT), self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        """Resources are cores, as a rule; those of one address are a node."""
        hosts: dict[str, list[dict[str, Any]]] = {}
        for resource in self._jobs(out).values():
            hosts.setdefault(resource["network_address"], []).append(resource)
        return tuple(_node(name, parts) for name, parts in sorted(hosts.items()))

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("oarhold", *ids), env=ENVIRONMENT), self.parse_action)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("oarresume", *ids), env=ENVIRONMENT), self.parse_action)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(("oardel", *ids), env=ENVIRONMENT), self.parse_action)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        # [run] without cpusets it reaches the script alone: our wrapper passes it on
        return Ask(Command(("oardel", "-s", signal, *ids), env=ENVIRONMENT), self.parse_action)

    def parse_action(self, out: Output) -> Mapping[str, Outcome]:
        """rc is not 0 as soon as one id is refused; the others are done all the same [run]."""
        said = f"{out.error_text}\n{out.text}"
        found = {
            id: _outcome(text)
            for id, text in _common.complaints(said, r"Cannot \w+ (?:the job )?(\d+) ?[;:] (.*)")
        }
        if not found:
            self.require_ok(out)
        return found

    def _jobs(self, out: Output) -> dict[str, dict[str, Any]]:
        """The JSON object keyed by id, newest last; no output at all is none of them [run]."""
        self.require_ok(out)
        start = re.search(r"^\{", out.text, re.MULTILINE)
        if start is None:
            return {}
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(out.text, start.start())
        except ValueError as error:
            raise ParseError(f"oar: {error}", stdout=out.text, stderr=out.error_text) from None
        return dict(sorted(found.items(), key=lambda item: int(item[0])))


# -- rendering


def _frame(lines: Iterable[str], request: Request) -> wrapper.Frame:
    return wrapper.Frame(
        header=tuple(f"#OAR {line}" for line in lines),
        job_id="$OAR_JOB_ID",
        array_id="$OAR_JOB_ID",
        index="" if request.index is None else str(request.index),
        directive="#OAR",
        redirect=_common.redirect(request),
        chdir=True,
    )


def _resources(sheet: Sheet, request: Request) -> None:
    """`/nodes=2/core=4,walltime=1:30:0`; whole nodes are asked for by naming no cores."""
    spec, shape = request.spec, _common.layout(request.spec)
    if spec.exclusive:
        asked = f"/nodes={shape.chunks if shape.spread else 1}"
        sheet.exact("exclusive", given=asked)
    elif shape.spread:
        asked = f"/nodes={shape.chunks}/core={shape.cores}"
    elif shape.cores > 1:
        asked = f"/nodes=1/core={shape.cores}" if shape.chunks == 1 else f"/core={shape.all_cores}"
    else:
        asked = f"/core={shape.all_cores}"
    _common.shape_notes(sheet, shape, asked)
    if sheet.has("time"):
        asked += f",walltime={quantities.clock(spec.time or 0)}"
        sheet.exact("time", given=asked)
    if not any(option.startswith("-l") for option in spec.native.get("oar", ())):
        sheet.lines.append(f"-l {asked}")
    elif asked != "/core=1":
        sheet.refuse_native("-l", f"the attributes ask for {asked}: OAR would take either")


def _place(sheet: Sheet, request: Request) -> None:
    """Projects are all that is charged."""
    spec = request.spec
    if sheet.has("queue"):
        sheet.exact("queue", f"-q {spec.queue}")
    if sheet.has("project"):
        sheet.exact("project", f"--project {spec.project}")
    if sheet.has("account") and spec.project in (None, spec.account):
        lines = () if spec.project else (f"--project {spec.account}",)
        sheet.exact("account", *lines, given=f"--project {spec.account}")
    elif sheet.has("account"):
        sheet.refuse("account", f"OAR has projects only, and project={spec.project}")
    if sheet.has("reservation"):
        sheet.exact("reservation", f"-t inner={spec.reservation}")
    if sheet.has("directory"):
        why = "OAR would put a job into error whose directory is missing; the script goes there"
        sheet.emulated("directory", given="cd in the script", why=why)


def _features(sheet: Sheet, request: Request) -> None:
    """`gpu` asks for the property gpu='YES', `cluster=graphene` for that value."""
    features = request.spec.features
    if not features:
        return
    pairs = [feature.partition("=") for feature in features]
    if any(not _common.plain_path(name + value) for name, _, value in pairs):
        sheet.refuse("features", "write 'property' or 'property=value'; for SQL use native -p")
        return
    terms = " AND ".join(f"{name}='{value or 'YES'}'" for name, _, value in pairs)
    sheet.exact("features", f'-p "{terms}"')


def _mail(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if spec.mail_to is None:
        if sheet.has("mail_on"):
            sheet.refuse("mail_on", "OAR needs the address: set mail_to")
        return
    events = spec.mail_on or frozenset({MailEvent.END, MailEvent.ABORT})
    tags = ",".join(MAIL[event] for event in MailEvent if event in events)
    line = f'--notify "[{tags}]mail:{spec.mail_to}"'
    sheet.exact("mail_to", line)
    if sheet.has("mail_on"):
        sheet.exact("mail_on", given=line)


def _times(sheet: Sheet, request: Request) -> None:
    if sheet.has("begin"):
        why = "OAR has advance reservations only, which start then or not at all: native -r"
        sheet.refuse("begin", why)
    for attribute in ("memory", "memory_per_core"):
        if sheet.has(attribute):
            why = "OAR asks for no memory; choose nodes by a property of the site: native -p"
            sheet.refuse(attribute, why)
    for attribute in ("gpus", "gpu_type"):
        if sheet.has(attribute):
            sheet.refuse(attribute, "sites name the property differently: native -l or -p")


def _requeue(sheet: Sheet, request: Request) -> None:
    """By itself OAR sends no job twice; idempotent is its word for those that it may."""
    if not sheet.has("requeue"):
        return
    if request.spec.requeue:
        why = "after a kill by the system, and after exit code 99"
        sheet.rounded("requeue", "-t idempotent", why=why)
    else:
        sheet.exact("requeue", given="what OAR does by itself")


# -- parsing


def _oarstat(rule: str, *options: str) -> Command:
    return Command(("oarstat", "-J", *options, "--sql", rule), env=ENVIRONMENT)


def _among(ids: Iterable[str]) -> str:
    return f"job_id IN ({','.join(ids)})"


def _record(job: Mapping[str, Any]) -> Record:
    word = job["state"]
    if word not in STATES:
        raise ParseError(f"oar: {word!r} is not a job state that this driver knows")
    state, cause, code, signal = _ending(job) if word in ("Terminated", "Error") else (
        STATES[word], _cause(job), None, None
    )  # fmt: skip
    return Record(
        id=str(job["Job_Id"]),
        state=state,
        native_state=word,
        cause=cause,
        reason=job.get("message") or "",
        exit_code=code,
        signal=signal,
        submitted=_time(job.get("submissionTime")),
        started=_time(job.get("startTime")),
        ended=_time(job.get("stopTime")),
        nodes=tuple(job.get("assigned_network_address") or ()),
        queue=job.get("queue"),
        source=Source.HISTORY if state.final else Source.LIVE,
    )


def _ending(job: Mapping[str, Any]) -> tuple[JobState, Cause | None, int | None, int | None]:
    """Terminated is not success: exit 3 is Terminated, too, with the raw wait status [run].

    Without -f the exit code is not told: then the job is still being looked at.
    """
    if "exit_code" not in job:
        return JobState.COMPLETING, None, None, None
    if job["state"] == "Error":
        types = [event["type"] for event in job.get("events", ())]
        found = [end for end in ENDS if any(type.startswith(end[0]) for type in types)]
        state, cause = found[0][1:] if found else (JobState.FAILED, None)
        if not found and job["exit_code"] is None:
            cause = Cause.LAUNCH_FAILURE
        return state, cause, None, None
    code, signal = of_wait_status(job["exit_code"] or 0)
    return JobState.DONE if code == 0 else JobState.FAILED, None, code, signal


def _cause(job: Mapping[str, Any]) -> Cause | None:
    if job["state"] == "Hold":
        return Cause.HELD_BY_USER
    if job["state"] != "Waiting":
        return None
    if job.get("dependencies"):
        return Cause.DEPENDENCY
    message = (job.get("message") or "").lower()
    return next((cause for part, cause in REASONS if part in message), None)


def _time(value: int | None) -> float | None:
    """OAR writes 0 for what has not happened yet."""
    return float(value) if value else None


def _outcome(text: str) -> Outcome:
    if "already killed" in text:
        return Outcome.ALREADY_FINAL
    if "does not exist" in text:
        return Outcome.UNKNOWN
    if "not the right user" in text:  # [run] also said of a job that there is not
        return Outcome.DENIED
    return Outcome.ALREADY_FINAL if "right state" in text else Outcome.FAILED


def _node(name: str, parts: Sequence[Mapping[str, Any]]) -> Node:
    cores = [part for part in parts if part["type"] == "default"]
    alive = [part for part in cores if part["state"] == "Alive" and part.get("drain") != "YES"]
    states = sorted({str(part["state"]) for part in parts})
    return Node(
        name=name,
        state=",".join(states),
        up=bool(alive),
        cores=len(cores),
        free_cores=sum(not part.get("jobs") for part in alive),
    )
