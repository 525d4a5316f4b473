"""HTCondor: a staged script and submit file, `condor_q -json`, `condor_history -json`.

Facts: the manual of HTCondor 23.0 (condor_submit, condor_q, condor_history, job ClassAd attributes,
HoldReasonCode); run on a simulator only. A job that goes over a limit is held by HTCondor; ours
asks to be removed then, so that it ends. Dependencies, which HTCondor leaves to DAGMan, are made
by the library. One machine runs the whole job: the parallel universe is not used.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from gristmill import patterns, quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Denied, ParseError, Transient, Unclear
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
from gristmill.records import Accounting, Cause, Listing, Node, Outcome, Record, Source

# Job ClassAd attributes, JobStatus
STATES = {
    1: JobState.QUEUED,
    2: JobState.RUNNING,
    3: JobState.CANCELLED,
    4: JobState.DONE,
    5: JobState.HELD,
    6: JobState.COMPLETING,
    7: JobState.SUSPENDED,
}
BY_OWNER = (1, 15)  # HoldReasonCode: condor_hold, and held at submission
# HoldReasonCode -> how such a job has failed
HOLDS = {
    34: (JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT),
    46: (JobState.TIMED_OUT, Cause.TIME_LIMIT),
    47: (JobState.TIMED_OUT, Cause.TIME_LIMIT),
    6: (JobState.FAILED, Cause.LAUNCH_FAILURE),
    7: (JobState.FAILED, Cause.LAUNCH_FAILURE),
    14: (JobState.FAILED, Cause.LAUNCH_FAILURE),
}
ATTRIBUTES = ",".join(
    (
        *("ClusterId", "ProcId", "JobStatus", "HoldReason", "HoldReasonCode", "LastHoldReason"),
        *("LastHoldReasonCode", "RemoveReason", "QDate", "JobCurrentStartDate", "CompletionDate"),
        *("EnteredCurrentStatus", "ExitCode", "ExitBySignal", "ExitSignal", "RemoteHost"),
        *("LastRemoteHost", "RemoteUserCpu", "RemoteSysCpu", "RemoteWallClockTime"),
        *("ResidentSetSize", "RequestCpus", "AccountingGroup", "GristmillToken"),
        "GristmillIndex",
    )
)
FAIL_RULE = "(JobStatus == 5) && (HoldReasonCode =!= 1) && (HoldReasonCode =!= 15)"
_ID = re.compile(r"(\d+)(?:\[(\d+)\]|\.(\d+))?")


class HtCondorDialect(Dialect):
    """HTCondor from 9.4, which has allowed_execute_duration."""

    name = "htcondor"
    title = "HTCondor"
    documented = "manual of HTCondor 23.0; run on a simulator"
    commands = ("condor_submit", "condor_q", "condor_rm")
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = (
        (r"Failed to commit|[Tt]imed? ?out|Connection (?:reset|closed)", Unclear),
        (r"Can't find address|Failed to fetch ads|Unable to connect|Failed to connect", Transient),
        (r"Permission denied|not authorized|DENIED", Denied),
    )
    features = Features(
        arrays=True,
        signals=False,
        chunk=300,
        list_all_above=200,
        interval=10.0,
        grace=60.0,
    )

    def canonical(self, text: str) -> str:
        """A cluster is a job or an array: `123.0` is 123. Elements are `123[4]`, by our index."""
        match = _ID.fullmatch(text.strip())
        if not match:
            raise ParseError(f"htcondor: {text!r} is not a job id", stdout=text)
        return f"{match[1]}[{match[2]}]" if match[2] else match[1]

    def element_id(self, array_id: str, index: int) -> str:
        return f"{array_id}[{index}]"

    # -- submission

    def render(self, request: Request) -> Rendering:
        sheet = Sheet(self.name, request)
        spec = request.spec
        name = _common.plain_name(spec.name, 200)
        _common.note_name(sheet, name, f"batch_name = {name}")
        for step in (_shape, _limits, _plain, _mail, _directory):
            step(sheet, request)
        redirect = _outputs(sheet, request)
        _common.user_hold(sheet, request, "hold = true")
        sheet.native(r"([+\w.]+)\s*=")
        script = wrapper.build(
            wrapper.Frame(
                job_id=_ID_SHELL,
                array_id=_ID_SHELL,
                index="$1" if spec.array else _number(request),
                redirect=redirect,
                # where files are transferred, jobs start in a scratch directory
                chdir=(spec.directory or "").startswith("/"),
            ),
            spec,
            request.body,
            request.token,
        )
        submit = "\n".join(_submit_lines(sheet, request))
        return Rendering(
            script=script,
            argv=(
                "condor_submit",
                "-terse",
                "-append",
                f"executable={STAGE}/job.sh",
                f"{STAGE}/job.sub",
            ),
            files=(
                StagedFile("job.sh", script.encode(), executable=True),
                StagedFile("job.sub", submit.encode()),
            ),
            report=sheet.finish(),
        )

    def parse_submit(self, out: Output) -> str:
        return self.submitted_id(out, r"^(\d+)\.\d+ - \d+\.\d+\s*$")

    def find(self, token: str) -> Ask[str | None]:
        # the queue first says all; a job that has ended already is in the history
        rule = f'GristmillToken == "{token}"'
        words = f"condor_q -json -constraint {shlex.quote(rule)} -attributes ClusterId"
        past = (
            f"condor_history -json -limit 1 -constraint {shlex.quote(rule)} -attributes ClusterId"
        )
        return Ask(Command(("sh", "-c", f"{words} && {past}")), self.parse_find)

    def parse_find(self, out: Output) -> str | None:
        self.require_ok(out)
        ids = re.findall(r'"ClusterId":\s*(\d+)', out.text)
        return str(ids[0]) if ids else None

    # -- queries

    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        return Ask(_query("condor_q", ids), self.parse_jobs)

    def live_all(self) -> Ask[Listing]:
        return Ask(_query("condor_q", ()), self.parse_jobs)

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing]:
        return Ask(_query("condor_history", ids), self.parse_jobs)

    def parse_jobs(self, out: Output) -> Listing:
        """Nothing at all with rc 0 is an empty list."""
        self.require_ok(out)
        ads, complete = self._ads(out)
        return _common.listing((_record(ad) for ad in ads), complete=complete)

    def _ads(self, out: Output) -> tuple[list[dict[str, Any]], bool]:
        """The ads one by one, so that a cut answer gives those before the cut."""
        found = []
        for piece in re.findall(r"^\{\n.*?^\}", out.text, re.MULTILINE | re.DOTALL):
            try:
                found.append(json.loads(piece, strict=False))
            except ValueError as error:
                raise ParseError(f"htcondor: {error} in {piece!r}", stdout=out.text) from None
        return found, not out.text.strip() or out.text.rstrip().endswith("]")

    def accounting(self, id: str, since: float) -> Ask[Accounting]:
        return Ask(_query("condor_history", [id]), lambda out: self.parse_accounting(out, id))

    def parse_accounting(self, out: Output, id: str) -> Accounting:
        self.require_ok(out)
        ads, _ = self._ads(out)
        if not ads:
            return Accounting(id=id)
        ad, record = ads[0], _record(ads[0])
        memory = ad.get("ResidentSetSize")
        return Accounting(
            id=id,
            state=record.state,
            exit_code=record.exit_code,
            signal=record.signal,
            wall=ad.get("RemoteWallClockTime"),
            cpu=ad.get("RemoteUserCpu", 0) + ad.get("RemoteSysCpu", 0),
            peak_memory=memory * quantities.KIB if memory else None,
            nodes=record.nodes,
            cores=ad.get("RequestCpus"),
            submitted=record.submitted,
            started=record.started,
            ended=record.ended,
            account=ad.get("AccountingGroup"),
        )

    def nodes(self) -> Ask[tuple[Node, ...]]:
        names = "Machine,SlotType,State,TotalCpus,Cpus,TotalMemory,TotalGpus"
        command = Command(("condor_status", "-json", "-attributes", names))
        return Ask(command, self.parse_nodes)

    def parse_nodes(self, out: Output) -> tuple[Node, ...]:
        """Dynamic slots are parts of a partitionable one: a machine counts once."""
        self.require_ok(out)
        ads, _ = self._ads(out)
        machines = {ad["Machine"]: ad for ad in ads if ad.get("SlotType") != "Dynamic"}
        return tuple(_node(ad) for ad in machines.values())

    # -- actions

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act("condor_hold", ids)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act("condor_release", ids)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return self._act("condor_rm", ids)

    def _act(self, program: str, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        """Clusters by id, elements by a constraint on our own attribute."""
        plain = [id for id in ids if "[" not in id]
        rules = [word for id in ids if "[" in id for word in ("-constraint", _rule(id))]
        return Ask(Command((program, *plain, *rules)), lambda out: self.parse_action(out, ids))

    def parse_action(self, out: Output, ids: Sequence[str]) -> Mapping[str, Outcome]:
        """A job that is not in the queue has ended, or never was: the queue does not tell."""
        both = f"{out.error_text}\n{out.text}"
        said = _common.complaints(
            both, r"Couldn't find/\w+ all jobs (?:in cluster|matching[^(]*) (.*)"
        )
        found = {}
        for (text,) in said:
            for id in ids:
                if id == text.strip() or ("[" in id and _rule(id) in both):
                    found[id] = Outcome.ALREADY_FINAL
        if not found:
            self.require_ok(out)
        return found


def _rule(id: str) -> str:
    cluster, _, index = id.rstrip("]").partition("[")
    return f"(ClusterId == {cluster} && GristmillIndex == {index})"


def _query(program: str, ids: Sequence[str]) -> Command:
    clusters = tuple(dict.fromkeys(id.partition("[")[0] for id in ids))
    return Command((program, *clusters, "-json", "-attributes", ATTRIBUTES))


# -- rendering

# inside a job its own ad tells the ids
_ID_SHELL = "$(sed -n 's/^ClusterId = //p' < $_CONDOR_JOB_AD)"


def _number(request: Request) -> str:
    return "" if request.index is None else str(request.index)


def _submit_lines(sheet: Sheet, request: Request) -> Iterator[str]:
    spec = request.spec
    yield "universe = vanilla"
    # a job gets nothing of its submitter's environment otherwise, not even HOME
    yield "getenv = HOME,PATH,USER,LOGNAME,LANG,SHELL"
    yield from sheet.lines
    yield f'+GristmillToken = "{request.token}"'
    yield f"periodic_remove = {FAIL_RULE}"
    if spec.array:
        yield "arguments = $(gm_index)"
        yield "+GristmillIndex = $(gm_index)"
        yield f"queue gm_index in ({' '.join(map(str, spec.array))})"
    else:
        yield "queue"
    yield ""


def _shape(sheet: Sheet, request: Request) -> None:
    spec, shape = request.spec, _common.layout(request.spec)
    if (spec.nodes or 1) > 1:
        sheet.refuse("nodes", "a job of HTCondor's vanilla universe runs on one machine")
    line = f"request_cpus = {shape.all_cores}"
    if any(sheet.has(attribute) for attribute in _common.SHAPE):
        sheet.lines.append(line)
    _common.shape_notes(sheet, shape, line)
    if sheet.has("array"):
        sheet.exact("array", given="queue … in (…)")
    if sheet.has("gpus"):
        sheet.exact("gpus", f"request_gpus = {spec.gpus}")
    if sheet.has("gpu_type"):
        sheet.refuse("gpu_type", "pools name it differently; use native require_gpus")


def _limits(sheet: Sheet, request: Request) -> None:
    spec, shape = request.spec, _common.layout(request.spec)
    if sheet.has("time"):
        sheet.exact("time", f"allowed_execute_duration = {spec.time}")
    for attribute, total in (
        ("memory", spec.memory or 0),
        ("memory_per_core", (spec.memory_per_core or 0) * shape.all_cores),
    ):
        if not sheet.has(attribute):
            continue
        line = f"request_memory = {quantities.up_to(total, quantities.MIB)}"
        if total % quantities.MIB:
            sheet.rounded(attribute, line, why="HTCondor counts whole MiB")
        else:
            sheet.exact(attribute, line)


def _plain(sheet: Sheet, request: Request) -> None:
    spec = request.spec
    if sheet.has("account"):
        sheet.exact("account", f"accounting_group = {spec.account}")
    if sheet.has("priority"):
        sheet.exact("priority", f"priority = {spec.priority}")
    if sheet.has("features"):
        rules = " && ".join(f"({feature} =?= True)" for feature in spec.features)
        sheet.exact("features", f"requirements = {rules}")
    if sheet.has("licences"):
        wanted = ", ".join(f"{name}:{count}" for name, count in spec.licences.items())
        sheet.exact("licences", f"concurrency_limits = {wanted}")
    if sheet.has("begin"):
        why = "the job takes its slot first and waits there"
        sheet.emulated("begin", f"deferral_time = {spec.begin}", why=why)
    if sheet.has("requeue"):
        if spec.requeue:
            sheet.exact("requeue", given="what HTCondor does anyway")
        else:
            sheet.emulated("requeue", "max_retries = 0", why="evicted jobs are started again still")


def _mail(sheet: Sheet, request: Request) -> None:
    events = request.spec.mail_on
    if sheet.has("mail_to"):
        sheet.exact("mail_to", f"notify_user = {request.spec.mail_to}")
    if not sheet.has("mail_on"):
        return
    if MailEvent.BEGIN in events:
        sheet.refuse("mail_on", "HTCondor does not write when a job begins")
    elif events == {MailEvent.ABORT}:
        sheet.exact("mail_on", "notification = Error")
    elif MailEvent.ABORT in events:
        sheet.exact("mail_on", "notification = Complete")
    else:
        sheet.rounded("mail_on", "notification = Complete", why="also when the job failed")


def _directory(sheet: Sheet, request: Request) -> None:
    path = request.spec.directory
    if path is None:
        return
    sheet.exact("directory", f"initialdir = {path}")


def _outputs(sheet: Sheet, request: Request) -> tuple[str, ...]:
    """Where HTCondor can write the name, it does."""
    spec = request.spec
    found = patterns.outputs(spec)
    simple = all(_common.plain_path(re.sub(r"%[jAax]", "", path)) for path in found.values())
    if not simple or not _common.plain_path(spec.name):
        _common.redirected(sheet)
        return _common.redirect(request)
    index = "$(gm_index)" if spec.array else _number(request)
    element = "$(ClusterId)_$(gm_index)" if spec.array else "$(ClusterId)"
    names = {"j": element, "A": "$(ClusterId)", "a": index, "x": spec.name}
    out = patterns.translate(found["stdout"], names)
    err = patterns.translate(found.get("stderr", found["stdout"]), names)
    for key, line in (("stdout", f"output = {out}"), ("stderr", f"error = {err}")):
        sheet.exact(key, line) if sheet.has(key) else sheet.lines.append(line)
    if sheet.has("join"):
        sheet.exact("join", given="both in stdout's file")
    return ()


# -- parsing


def _record(ad: Mapping[str, Any]) -> Record:
    number = ad.get("JobStatus")
    if number not in STATES:
        raise ParseError(f"htcondor: JobStatus {number!r} is not one that this driver knows")
    state, cause, code, signal = _ending(ad, STATES[number])
    index = ad.get("GristmillIndex")
    cluster = str(ad["ClusterId"])
    host = ad.get("RemoteHost") or ad.get("LastRemoteHost") or ""
    ended = ad.get("CompletionDate") or ad.get("EnteredCurrentStatus")
    return Record(
        id=cluster if index is None else f"{cluster}[{index}]",
        state=state,
        native_state=str(number),
        cause=cause,
        reason=str(
            ad.get("HoldReason") or ad.get("LastHoldReason") or ad.get("RemoveReason") or ""
        ),
        exit_code=code,
        signal=signal,
        submitted=ad.get("QDate"),
        started=ad.get("JobCurrentStartDate"),
        ended=ended if state.final else None,
        nodes=(str(host).rpartition("@")[2],) if host else (),
        array_id=None if index is None else cluster,
        index=index,
        token=ad.get("GristmillToken"),
        source=Source.HISTORY if number in (3, 4) else Source.LIVE,
    )


def _ending(
    ad: Mapping[str, Any], state: JobState
) -> tuple[JobState, Cause | None, int | None, int | None]:
    """A held job has failed, unless somebody held it on purpose."""
    if state is JobState.DONE:
        if ad.get("ExitBySignal"):
            signal = int(ad.get("ExitSignal") or 0)
            return JobState.FAILED, Cause.SIGNAL, 128 + signal, signal
        code = ad.get("ExitCode")
        if code is None:
            return JobState.FAILED, Cause.UNKNOWN, None, None
        return (
            (state, None, 0, None)
            if code == 0
            else (
                JobState.FAILED,
                Cause.EXIT_CODE,
                int(code),
                None,
            )
        )
    if state is JobState.HELD:
        code = ad.get("HoldReasonCode")
        if code in BY_OWNER:
            return state, Cause.HELD_BY_USER, None, None
        return (*HOLDS.get(code or 0, (JobState.FAILED, Cause.UNKNOWN)), None, None)
    if state is JobState.CANCELLED:
        code = ad.get("LastHoldReasonCode") or ad.get("HoldReasonCode")
        if "PeriodicRemove" in str(ad.get("RemoveReason")) and code not in BY_OWNER:
            return (*HOLDS.get(code or 0, (JobState.FAILED, Cause.UNKNOWN)), None, None)
        return state, Cause.CANCELLED, None, None
    return state, None, None, None


def _node(ad: Mapping[str, Any]) -> Node:
    memory = ad.get("TotalMemory")
    state = str(ad.get("State", ""))
    return Node(
        name=str(ad["Machine"]),
        state=state,
        up=state not in ("Owner", "Drained", "Delete"),
        cores=ad.get("TotalCpus"),
        free_cores=ad.get("Cpus"),
        memory=memory * quantities.MIB if memory else None,
        gpus=ad.get("TotalGpus"),
    )
