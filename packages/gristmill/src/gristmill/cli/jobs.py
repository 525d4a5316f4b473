"""The command's part for jobs: `submit`, `status`, `watch`, … on any resource manager.

Exit status: 0 done; 1 refused by the manager; 2 called wrongly; 3 a job that was waited for did
not end in `done`; 4 no such job or run; 5 the manager cannot do it, nothing was sent; 6 the
manager could not be reached, or gave no clear answer; 7 the time to wait is over; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill import headers, quantities, registry
from gristmill.cli import attributes, completion, dagfiles, output
from gristmill.connecting import connect
from gristmill.errors import (
    BadGroup,
    BadValue,
    DependencyNeverSatisfied,
    GristmillError,
    Transient,
    TransportError,
    Unclear,
    UnknownJob,
    UnknownManager,
    Unsupported,
    WaitTimeout,
)
from gristmill.jobs import Hold, Job, JobGroup, JobState
from gristmill.managers.base import Fate, Report
from gristmill.records import Outcome, Record, cause_of
from gristmill.service import JobHandle, ResourceManager, Run

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

Action = Callable[[ResourceManager, argparse.Namespace], int]

# the first class that an error is says the exit status
STATUSES: tuple[tuple[type[GristmillError], int], ...] = (
    (BadValue, 2),
    (BadGroup, 2),
    (UnknownManager, 2),
    (UnknownJob, 4),
    (Unsupported, 5),
    (DependencyNeverSatisfied, 5),
    (Transient, 6),
    (Unclear, 6),
    (TransportError, 6),
    (WaitTimeout, 7),
    (GristmillError, 1),
)
NOT_DONE = 3


def add_parsers(subparsers: Subparsers) -> None:
    """Add the subcommands; each sets `run`, a function of the arguments."""
    _add_submission(subparsers)
    _add_looking(subparsers)
    _add_acting(subparsers)
    _add_cluster(subparsers)


def exit_status(error: GristmillError) -> int:
    """The documented status of an error."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def _add_submission(subparsers: Subparsers) -> None:
    submit = _command(subparsers, "submit", _submit, "submit a job, an array or a file of jobs")
    attributes.add_options(submit)
    submit.add_argument("--wait", action="store_true", help="wait for the end, and say how it was")
    submit.add_argument("--dry-run", action="store_true", help="show what would be sent, only")
    render = _command(subparsers, "render", _render, "show the script that would be sent")
    attributes.add_options(render)
    render.add_argument("--to", metavar="MANAGER", help="for this manager")
    convert = _command(
        subparsers, "convert", _convert, "write a script with a header for another manager"
    )
    convert.add_argument("script", help="with #SBATCH, #PBS, #$, #OAR, # @, #MSUB or #BSUB lines")
    convert.add_argument("--to", metavar="MANAGER", required=True, help="slurm, pbspro, …")
    convert.add_argument("--from", dest="source", metavar="MANAGER", help="whose header counts")
    convert.add_argument("--output", type=Path, metavar="FILE", help="write it there")


def _add_looking(subparsers: Subparsers) -> None:
    status = _command(subparsers, "status", _status, "show jobs (default: all that have not ended)")
    _targets(status, "*")
    watch = _command(subparsers, "watch", _watch, "show changes until the jobs have ended")
    _targets(watch, "*")
    watch.add_argument("--timeout", type=_seconds, metavar="TIME", help="give up after")
    logs = _command(subparsers, "logs", _logs, "print what a job wrote")
    _targets(logs, None)
    logs.add_argument("--stderr", action="store_true", help="its errors, where they are apart")
    logs.add_argument("--index", type=int, help="of this element of an array")
    logs.add_argument("--follow", action="store_true", help="go on until it has ended")
    for name, run, text in (
        ("why", _why, "say why a job waits, or how it ended, and how that is known"),
        ("accounting", _accounting, "say what a job used"),
        ("attach", _attach, "look at a job by the manager's own id, whoever submitted it"),
    ):
        _targets(_command(subparsers, name, run, text), None)
    runs = _command(subparsers, "runs", _runs, "list what was submitted from here")
    runs.add_argument("--last", type=int, default=20, metavar="N", help="this many (default 20)")


def _add_acting(subparsers: Subparsers) -> None:
    _targets(_command(subparsers, "cancel", _cancel, "cancel jobs or runs"), "+")
    for name, run, text in (
        ("hold", _hold, "keep jobs from starting"),
        ("release", _release, "let held jobs start"),
    ):
        parser = _command(subparsers, name, run, text)
        _targets(parser, "+")
        parser.add_argument("--system", action="store_true", help="an operator's hold")
    signal = _command(subparsers, "signal", _signal, "send a signal to running jobs")
    signal.add_argument("name", help="USR1, TERM, …")
    _targets(signal, "+")


def _add_cluster(subparsers: Subparsers) -> None:
    _command(subparsers, "queues", _queues, "list queues")
    _command(subparsers, "nodes", _nodes, "list machines")
    managers = subparsers.add_parser("managers", help="list resource managers, and what is here")
    managers.add_argument("--json", action="store_true", help="print JSON")
    managers.set_defaults(run=_managers)
    shell = subparsers.add_parser("completion", help="print a completion script for a shell")
    shell.add_argument("shell", choices=("bash", "zsh", "fish"))
    shell.set_defaults(run=completion.run)


def _command(
    subparsers: Subparsers, name: str, action: Action, text: str
) -> argparse.ArgumentParser:
    """A subcommand that talks to a manager."""
    parser = subparsers.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument(
        "-m", "--manager", metavar="URL",
        default=os.environ.get("GRISTMILL_MANAGER") or None,
        help="slurm, ssh://user@host/slurm, … (default: $GRISTMILL_MANAGER, else what is here)",
    )  # fmt: skip
    parser.add_argument(
        "--site", type=Path, metavar="FILE", default=os.environ.get("GRISTMILL_SITE") or None,
        help="site file (default: $GRISTMILL_SITE)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=lambda given: _guarded(action, given))
    return parser


def _guarded(action: Action, given: argparse.Namespace) -> int:
    """Every error of the library in one sentence, with its status."""
    try:
        with connect(_url(given), site=given.site) as rm:
            return action(rm, given)
    except GristmillError as error:
        output.warn(" ".join(str(error).split()))
        return exit_status(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _url(given: argparse.Namespace) -> str | None:
    """`--to` names the manager that a script is written for; nothing is asked of it."""
    found: str | None = getattr(given, "to", None) or given.manager
    return found


def _targets(parser: argparse.ArgumentParser, many: str | None) -> None:
    text = "id of a job, or the beginning of a run's id"
    if many is None:
        parser.add_argument("targets", metavar="JOB", nargs=1, help="id of a job")
    else:
        parser.add_argument("targets", metavar="JOB", nargs=many, help=text)


def _seconds(text: str) -> float:
    try:
        return quantities.seconds(text)
    except BadValue as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _looked_up(rm: ResourceManager, names: Iterable[str]) -> list[JobHandle]:
    """Handles of jobs by id, and of all jobs of a run by the beginning of its id."""
    found: list[JobHandle] = []
    for name in names:
        is_run = re.fullmatch(r"(?=.*[a-f])[0-9a-f]{4,16}|[0-9a-f]{16}", name)
        found.extend(rm.resume(name).handles if is_run else [rm.attach(name)])
    return found


def _unfinished(rm: ResourceManager) -> list[JobHandle]:
    return [handle for run in rm.runs() for handle in run if not handle.state.final]


# -- submission


def _jobs_of(given: argparse.Namespace) -> JobGroup:
    if given.dag is None:
        return JobGroup(attributes.job_of(given))
    if given.script is not None:
        raise BadValue("give a script or --dag FILE, not both")
    return dagfiles.load(given.dag)


def _submit(rm: ResourceManager, given: argparse.Namespace) -> int:
    jobs = _jobs_of(given)
    if given.dry_run:
        return _show_plan(rm, jobs, given)
    run = rm.submit(jobs)
    if given.json and not given.wait:
        output.as_json(run.to_json())
    elif not given.json:
        print(f"run {run.id}")
        for handle in run:
            print(f"{handle.id}  {handle.name}")
    return _until_done(rm, list(run), None, given.json) if given.wait else 0


def _show_plan(rm: ResourceManager, jobs: JobGroup, given: argparse.Namespace) -> int:
    plan = rm.plan(jobs)
    if given.json:
        output.as_json(
            [_planned(item.job, item.rendering.script, item.report) for item in plan.jobs]
        )
    else:
        print(plan)
    plan.require()
    return 0


def _render(rm: ResourceManager, given: argparse.Namespace) -> int:
    jobs = _jobs_of(given)
    renderings = [(job, rm.render(job)) for job in jobs]
    if given.json:
        output.as_json([_planned(job, r.script, r.report) for job, r in renderings])
    else:
        for _, rendering in renderings:
            sys.stdout.write(rendering.script)
            _tell_report(rendering.report)
    for _, rendering in renderings:
        rendering.report.require()
    return 0


def _convert(rm: ResourceManager, given: argparse.Namespace) -> int:
    header = headers.read_file(given.script, given.source)
    if header is None:
        raise BadValue(f"{given.script} has no header lines of a manager before its first command")
    for line in header.not_understood:
        output.warn(f"{given.script}: {line}")
    rendering = rm.render(header.job(keep=header.manager == rm.name))
    rendering.report.require()
    if given.output is not None:
        _write(given.output, rendering.script)
    elif given.json:
        told = {"from": header.manager, "to": rm.name, "script": rendering.script}
        output.as_json({**told, "not_understood": list(header.not_understood),
                        "report": _plain(rendering.report.notes)})  # fmt: skip
    else:
        sys.stdout.write(rendering.script)
    _tell_report(rendering.report)
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BadValue(f"{path} cannot be written: {error.strerror}") from None


def _tell_report(report: Report) -> None:
    """What is not exact, on stderr."""
    for note in report.notes:
        if note.fate is not Fate.EXACT:
            output.warn(str(note))


def _planned(job: Job, script: str, report: Report) -> dict[str, Any]:
    return {"job": job.name, "script": script, "report": _plain(report.notes)}


# -- looking


def _status(rm: ResourceManager, given: argparse.Namespace) -> int:
    handles = _looked_up(rm, given.targets) if given.targets else _unfinished(rm)
    rm.status(*handles)
    _show(handles, given.json)
    return 0


def _show(handles: Sequence[JobHandle], as_json: bool) -> None:
    if as_json:
        output.as_json([_told(handle) for handle in handles])
        return
    now = time.time()
    rows = [_row(h.id, h.name, h.record, now) for h in handles]
    for handle in handles:
        rows += [_row(e.id, f"[{e.index}]", e, now) for e in handle.record.elements]
    output.table(("ID", "NAME", "STATE", "WHY", "QUEUE", "RAN", "EXIT"), rows)


def _row(id: str, name: str, record: Record, now: float) -> tuple[object, ...]:
    waits = record.state in (JobState.HELD, JobState.QUEUED) or record.state.final
    why = cause_of(record) if waits and record.state is not JobState.DONE else None
    ran = None
    if record.started is not None:
        ran = quantities.clock(max(0, round((record.ended or now) - record.started)))
    return id, name, record.state, why, record.queue, ran, record.exit_code


def _told(handle: JobHandle) -> dict[str, Any]:
    return {**handle.to_json(), "record": _plain(handle.record)}


def _watch(rm: ResourceManager, given: argparse.Namespace) -> int:
    handles = _looked_up(rm, given.targets) if given.targets else _unfinished(rm)
    return _until_done(rm, handles, given.timeout, given.json)


def _until_done(
    rm: ResourceManager, handles: Sequence[JobHandle], timeout: float | None, as_json: bool
) -> int:
    """Show changes until all have ended; how they ended is the status."""
    ended = {handle.id for handle in handles if handle.state.final}
    if as_json:
        rm.wait(*handles, timeout=timeout)
        output.as_json([_told(handle) for handle in handles])
    else:
        with output.Progress(len(handles)) as progress:
            for change in rm.watch(*handles, timeout=timeout):
                ended |= {change.handle.id} if change.after.state.final else set()
                text = f"{change.handle.id}  {change.handle.name}  {change.after.state}"
                progress.show(text, len(ended))
    return 0 if all(handle.state is JobState.DONE for handle in handles) else NOT_DONE


def _logs(rm: ResourceManager, given: argparse.Namespace) -> int:
    (handle,) = _looked_up(rm, given.targets)
    stream = "stderr" if given.stderr else "stdout"
    shown = 0
    while True:
        ended = not given.follow or handle.status().state.final
        data = _log(handle, stream, given.index, missing_is_empty=given.follow and not ended)
        sys.stdout.buffer.write(data[shown:])
        sys.stdout.buffer.flush()
        shown = len(data)
        if ended:
            return 0
        time.sleep(rm.core.poll_interval)


def _log(handle: JobHandle, stream: str, index: int | None, *, missing_is_empty: bool) -> bytes:
    try:
        return handle.log(stream, index)
    except FileNotFoundError:
        if missing_is_empty:
            return b""
        raise UnknownJob(f"job {handle.id} has written no {stream} yet") from None
    except KeyError:
        raise BadValue(f"the {stream} of job {handle.id} goes with its output") from None


def _why(rm: ResourceManager, given: argparse.Namespace) -> int:
    (handle,) = _looked_up(rm, given.targets)
    found = rm.why(handle)
    output.as_json(_plain(found)) if given.json else print(found)
    return 0


def _accounting(rm: ResourceManager, given: argparse.Namespace) -> int:
    (handle,) = _looked_up(rm, given.targets)
    found = rm.accounting(handle)
    if given.json:
        output.as_json(_plain(found))
        return 0
    rows = [(item.name.replace("_", " "), getattr(found, item.name)) for item in fields(found)]
    output.table(("WHAT", "VALUE"), [(n, _readable(n, v)) for n, v in rows if v not in (None, ())])
    return 0


def _readable(name: str, value: Any) -> str:
    if name == "peak memory":
        return quantities.human(value)
    if name in ("submitted", "started", "ended"):
        return time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(value))
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _attach(rm: ResourceManager, given: argparse.Namespace) -> int:
    handle = rm.attach(given.targets[0])
    handle.status()
    _show([handle], given.json)
    return 0


def _runs(rm: ResourceManager, given: argparse.Namespace) -> int:
    found = rm.runs()[-given.last :]
    if given.json:
        output.as_json([run.to_json() for run in found])
        return 0
    rows = [(run.id, len(run), run.state, _names(run)) for run in found]
    output.table(("RUN", "JOBS", "LAST SEEN", "NAMES"), rows)
    return 0


def _names(run: Run) -> str:
    names = [handle.name for handle in run]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


# -- acting


def _acted(
    outcomes: Mapping[str, Outcome], given: argparse.Namespace, fine: Iterable[Outcome] = ()
) -> int:
    """0 when all went well, or needed nothing."""
    if given.json:
        output.as_json({id: str(outcome) for id, outcome in outcomes.items()})
    else:
        output.table(("ID", "OUTCOME"), list(outcomes.items()))
    good = {Outcome.OK, *fine}
    return 0 if good.issuperset(outcomes.values()) else 1


def _cancel(rm: ResourceManager, given: argparse.Namespace) -> int:
    outcomes = rm.cancel(*_looked_up(rm, given.targets))
    return _acted(outcomes, given, [Outcome.ALREADY_FINAL])


def _hold(rm: ResourceManager, given: argparse.Namespace) -> int:
    return _acted(rm.hold(*_looked_up(rm, given.targets), kind=_kind(given)), given)


def _release(rm: ResourceManager, given: argparse.Namespace) -> int:
    return _acted(rm.release(*_looked_up(rm, given.targets), kind=_kind(given)), given)


def _kind(given: argparse.Namespace) -> Hold:
    return Hold.SYSTEM if given.system else Hold.USER


def _signal(rm: ResourceManager, given: argparse.Namespace) -> int:
    return _acted(rm.signal(*_looked_up(rm, given.targets), name=given.name), given)


# -- the cluster


def _queues(rm: ResourceManager, given: argparse.Namespace) -> int:
    found = rm.queues()
    if given.json:
        output.as_json(_plain(found))
        return 0
    rows = [
        (
            q.name + ("*" if q.default else ""),
            "open" if q.open else "closed",
            None if q.max_time is None else quantities.clock(q.max_time),
            q.nodes,
            q.running,
            q.waiting,
        )
        for q in found
    ]
    output.table(("QUEUE", "STATE", "LONGEST", "NODES", "RUNNING", "WAITING"), rows)
    return 0


def _nodes(rm: ResourceManager, given: argparse.Namespace) -> int:
    found = rm.nodes()
    if given.json:
        output.as_json(_plain(found))
        return 0
    rows = [
        (n.name, n.state, n.cores, n.free_cores,
         None if n.memory is None else quantities.human(n.memory), n.gpus, ",".join(n.features))
        for n in found
    ]  # fmt: skip
    output.table(("NODE", "STATE", "CORES", "FREE", "MEMORY", "GPUS", "FEATURES"), rows)
    return 0


def _managers(given: argparse.Namespace) -> int:
    from gristmill.transports.local import LocalTransport

    here = LocalTransport()
    found = [registry.dialect(name) for name in registry.names()]
    rows = [(d.name, d.title, all(map(here.has, d.commands)), d.documented) for d in found]
    if given.json:
        names = ("name", "title", "installed", "documented")
        output.as_json([dict(zip(names, row, strict=True)) for row in rows])
        return 0
    texts = [(name, title, "yes" if is_here else "no", text) for name, title, is_here, text in rows]
    output.table(("NAME", "MANAGER", "HERE", "FACTS FROM"), texts)
    return 0


def _plain(value: Any) -> Any:
    """Records as JSON values; what is not known is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item not in (None, (), "")}
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Enum) else value
