"""Moab 9 over Torque: msub, showq, checkjob, mjobctl, canceljob, showstart, mdiag.

Facts: the Moab Workload Manager 9.1 command reference and outputs published by other projects; no
real Moab was at hand. Its own id and Torque's are the same here. Ended jobs are in `showq -c`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar
from xml.sax.saxutils import quoteattr

from gristmill.simulators import _pbs
from gristmill.simulators._pbs import Wrong
from gristmill.simulators.farm import Ending, Farm, Job, State
from gristmill.simulators.frontend import (
    Answer,
    Call,
    FrontEnd,
    Options,
    cancel,
    clock,
    read_options,
    signal_number,
)

VALUED = tuple(f"-{letter}" for letter in "aAcCdeFhjklmMNopqrSuvwWt")
FLAGS = ("-E", "-h", "-V", "-x", "-z", "-n", "-K", "--xml", "-I")
CODES = {Ending.WALLTIME: "-11", Ending.MEMORY: "-10", Ending.CANCELLED: "CNCLD"}
TIMED_OUT = "ERROR:  client timed out after 30 seconds (hostname:port=farm:42559)\n"
AWAY = "ERROR:    communication error farm:42559 (cannot connect to server: Connection refused)\n"
HOLDS = {"user": "u", "system": "s", "batch": "o", "all": "uos"}


class Moab(FrontEnd):
    """The scheduler and the Torque below it."""

    spools = True
    lost = Answer("", f"\n{TIMED_OUT}", 1)
    down: ClassVar[Mapping[str, Answer]] = {"*": Answer("", f"\n{AWAY}", 1)}

    # -- submission

    def msub(self, request: Call) -> Answer:
        try:
            number = self._file(request)
        except Wrong as wrong:
            return wrong.answer
        if "--xml" in request.words:
            return Answer(f'<Data><job JobID="{number}"/></Data>\n')
        return Answer(f"\n{number}\n")

    def _file(self, request: Call) -> int:
        line = read_options(request.words, FLAGS, VALUED, mixed=False)
        script = _pbs.script_of(request, line.rest, "ERROR:    cannot open script file '{}'\n")
        words = [*_pbs.directives(script, "#MSUB"), *_pbs.directives(script)]
        header = read_options(words, FLAGS, tuple(v for v in VALUED if v != "-h"))
        for name, values in line.values.items():
            header.values.setdefault(name, []).extend(values)
        options = Options(header.values, line.rest, line.wrong or header.wrong)
        if options.wrong:
            raise Wrong(f"ERROR:    invalid option: {options.wrong}\n", 1)
        job = self._job(request, options, Path(line.rest[0]).name if line.rest else "STDIN")
        environment = _pbs.base_environment(request, _pbs.variables(request, options))
        request.farm.add(job, script, environment)
        return job.number

    def _job(self, request: Call, options: Options, default: str) -> Job:
        settings = request.farm.settings
        queue = options.last("-q", settings.queues[0])
        if queue not in settings.queues:
            raise Wrong(f"\nERROR:    cannot submit job - unknown class '{queue}'\n", 1)
        found = dict(
            part.partition("=")[::2] for text in options.all("-l") for part in text.split(",")
        )
        nodes, cores, memory = _pbs.shape(found)
        number = request.farm.next_number()
        begin = options.last("-a")
        return Job(
            key=str(number),
            number=number,
            name=options.last("-N", default),
            owner=request.user,
            queue=queue,
            holds="u" if "-h" in options else "",
            cores=int(found.get("procs") or cores),
            nodes=nodes,
            memory=memory,
            walltime=_walltime(found.get("walltime", "")),
            begin=time.mktime(time.strptime(begin, "%Y%m%d%H%M.%S")) if begin else None,
            edges=list(self._edges(request, found.get("depend", ""))),
            directory=options.last("-d") or request.environment.get("HOME", "/"),
            submitted=request.now,
            native={
                "workdir": request.directory,
                "out": options.last("-o"),
                "err": options.last("-e"),
                "join": options.last("-j", "n"),
                "account": options.last("-A"),
                "moab": "-E" in options,
            },
        )

    def _edges(self, request: Call, text: str) -> Iterator[tuple[str, str]]:
        for term in filter(None, text.split(",")):
            kind, *targets = term.split(":")
            for target in targets:
                key = target.removeprefix("Moab.")
                if request.farm.get(key) is None or kind not in _pbs.RELATIONS:
                    raise Wrong(f"\nERROR:    invalid dependency '{term}'\n", 1)
                yield _pbs.RELATIONS[kind], key

    # -- the job's side

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        found = _pbs.job_environment(farm, job, "PBS_ARRAYID", "")
        if job.native["moab"]:
            found |= {"MOAB_JOBID": job.key, "MOAB_JOBNAME": job.name, "MOAB_CLASS": job.queue}
        return found

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        base, native = job.native["workdir"], job.native
        out = _pbs.output_path(base, native["out"], f"{job.name}.o{job.number}")
        err = _pbs.output_path(base, native["err"], f"{job.name}.e{job.number}")
        return "/dev/null", out, "" if native["join"] == "oe" else err

    def ends_hopeless(self, job: Job) -> bool:
        """DEPENDFAILUREPOLICY is HOLD by default: it stays, and is blocked."""
        return False

    # -- actions

    def canceljob(self, request: Call) -> Answer:
        return self._cancel(request, request.words)

    def _cancel(self, request: Call, ids: Iterable[str]) -> Answer:
        jobs, said = self._chosen(request, ids)
        for job in jobs:
            cancel(request.farm, job, request.now)
        lines = "".join(f"\njob '{job.key}' cancelled\n" for job in jobs)
        return Answer(f"{lines}\n" if lines else "", said, 1 if said else 0)

    def mjobctl(self, request: Call) -> Answer:
        options = read_options(
            request.words, ("-c", "-R", "-s", "-r", "-F"), ("-N", "-h", "-u", "-w")
        )
        words = [word for text in options.rest for word in text.split(",")]
        if "-c" in options:
            return self._cancel(request, words)
        jobs, said = self._chosen(request, words)
        done = ""
        for job in jobs:
            done += self._change(job, options)
            request.farm.save(job)
        return Answer(done, said, 1 if said else 0)

    def _change(self, job: Job, options: Options) -> str:
        if "-N" in options:
            number = signal_number(options.last("-N").partition("=")[2])
            if job.pid is not None:
                job.signals.append(number)
                job.native["signalled"] = True
            return f"signal successfully sent to job {job.key}\n"
        if "-h" in options:
            kinds = HOLDS.get(options.last("-h").lower(), "u")
            job.holds = "".join(sorted({*job.holds, *kinds}))
            return f"holds modified for job {job.key}\n"
        kinds = HOLDS.get(options.last("-u").lower(), "u")
        job.holds = "".join(kind for kind in job.holds if kind not in kinds)
        return f"holds modified for job {job.key}\n"

    def _chosen(self, request: Call, ids: Iterable[str]) -> tuple[list[Job], str]:
        jobs, said = [], ""
        for text in ids:
            job = request.farm.get(re.sub(r"^Moab\.", "", text))
            if job is None or job.state is State.ENDED:
                said += f"\nERROR:  invalid job specified ({text})\n"
            else:
                jobs.append(job)
        return jobs, said

    # -- queries

    def showq(self, request: Call) -> Answer:
        options = read_options(request.words, ("-c", "-r", "-i", "-b", "-v", "--xml"), ("-w", "-u"))
        everything = request.farm.jobs()
        if "-c" in options:
            kept = request.farm.settings.history
            ended = [
                job
                for job in everything
                if job.state is State.ENDED and request.now - (job.ended or 0) < kept
            ]
            groups = {"completed": ended}
        else:
            groups = _groups(everything)
        if "--xml" in options:
            return Answer(_xml(request, groups))
        return Answer(_table(request, groups))

    def checkjob(self, request: Call) -> Answer:
        options = read_options(request.words, ("--xml", "-v", "-A"), ())
        text, said = "", ""
        for word in options.rest:
            job = request.farm.get(re.sub(r"^Moab\.", "", word))
            if job is None:
                said += f"\nERROR:  invalid job specified: {word}\n"
            elif "--xml" in options:
                text += f"<Data>\n{_job_xml(request, job)}</Data>\n"
            else:
                text += _words(request, job)
        return Answer(text, said, 1 if said else 0)

    def showstart(self, request: Call) -> Answer:
        jobs, said = self._chosen(request, [w for w in request.words if not w.startswith("-")])
        text = "".join(
            f"\njob {job.key} requires {job.cores} proc for {clock(job.walltime)}\n\n"
            f"Estimated Rsv based start in                00:00:00 on "
            f"{time.strftime('%a %b %d %H:%M:%S', time.localtime(request.now))}\n\n"
            for job in jobs
        )
        return Answer(text, said, 1 if said else 0)

    def mdiag(self, request: Call) -> Answer:
        """-n: nodes, -c: classes, -j: jobs; as XML."""
        settings = request.farm.settings
        running = [job for job in request.farm.unfinished() if job.pid is not None]
        used = sum(job.cores for job in running)
        if "-n" in request.words:
            memory = settings.memory // 1024**2
            lines = (
                f'<node NODEID="{settings.host}" NODESTATE="{"Busy" if used else "Idle"}" '
                f'RCPROC="{settings.cores}" RAPROC="{settings.cores - used}" RCMEM="{memory}" '
                f'RAMEM="{memory}" FEATURES=""/>\n'
            )
        elif "-c" in request.words:
            lines = "".join(
                f'<class NAME="{name}" STATE="Active" MAXWCLIMIT="86400"/>\n'
                for name in settings.queues
            )
        else:
            lines = "".join(_job_xml(request, job) for job in request.farm.unfinished())
        return Answer(f"<Data>\n{lines}</Data>\n")


def _walltime(text: str) -> int | None:
    """`[[[DD:]HH:]MM:]SS`."""
    if not text:
        return None
    *days, seconds = text.split(":")
    total, units = int(seconds), (60, 3600, 86400)
    for value, unit in zip(reversed(days), units, strict=False):
        total += int(value) * unit
    return total


def _groups(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {"active": [], "eligible": [], "blocked": []}
    for job in jobs:
        if job.state is State.ENDED:
            continue
        if job.pid is not None:
            found["active"].append(job)
        elif job.holds or job.edges or job.never or (job.begin or 0) > time.time():
            found["blocked"].append(job)
        else:
            found["eligible"].append(job)
    return found


def _state(job: Job) -> str:
    if job.state is State.ENDED:
        return "Completed" if job.ending != Ending.CANCELLED or job.started else "Removed"
    if job.pid is not None:
        return "Canceling" if job.kill == Ending.CANCELLED else "Running"
    if job.holds:
        return {"u": "UserHold", "s": "SystemHold"}.get(job.holds, "BatchHold")
    return "Idle"


def _code(job: Job) -> str:
    return CODES.get(Ending(job.ending), str(_pbs.exit_status(job)))


def _job_xml(request: Call, job: Job) -> str:
    host, started = request.farm.settings.host, int(job.started or 0)
    values = {
        "AWDuration": str(int((job.ended or request.now) - job.started)) if job.started else None,
        "Account": job.native["account"] or None,
        "Class": job.queue,
        "DRMJID": f"{job.key}.{host}",
        "EEDuration": "0",
        "GJID": job.key,
        "Group": job.owner,
        "JobID": job.key,
        "JobName": job.name,
        "MasterHost": host if job.started else None,
        "ReqAWDuration": str(job.walltime or 8640000),
        "ReqProcs": str(job.cores),
        "StartTime": str(started),
        "State": _state(job),
        "SubmissionTime": str(int(job.submitted)),
        "SuspendDuration": "0",
        "User": job.owner,
    }
    if job.state is State.ENDED:
        values |= {"CompletionCode": _code(job), "CompletionTime": str(int(job.ended or 0))}
        values["StatPSUtl"] = f"{job.cpu:.6f}"
    elif job.pid is None and (job.edges or job.never):
        values["BlockReason"] = "Dependency"
    elif job.pid is None and (job.begin or 0) > request.now:
        values["BlockReason"] = "StartDate"
    text = " ".join(f"{k}={quoteattr(v)}" for k, v in sorted(values.items()) if v is not None)
    return f"  <job {text}/>\n"


def _xml(request: Call, groups: Mapping[str, list[Job]]) -> str:
    settings = request.farm.settings
    lines = [
        "",
        "<Data>",
        " <Object>queue</Object>",
        f' <cluster LocalActiveNodes="1" LocalConfigNodes="1" LocalUpProcs="{settings.cores}" '
        f'time="{int(request.now)}"/>',
    ]
    for option, jobs in groups.items():
        purge = ' purgetime="86400"' if option == "completed" else ""
        head = f' <queue count="{len(jobs)}" option="{option}"{purge}'
        if jobs:
            inner = "".join(_job_xml(request, job) for job in jobs).rstrip("\n")
            lines += [f"{head}>", inner, " </queue>"]
        else:
            lines.append(f"{head}/>")
    return "\n".join([*lines, "</Data>", ""])


def _table(request: Call, groups: Mapping[str, list[Job]]) -> str:
    text = ""
    for option, jobs in groups.items():
        text += f"\n{option} jobs------------------------\n"
        text += "JOBID              USERNAME      STATE PROCS     WCLIMIT            QUEUETIME\n\n"
        for job in jobs:
            stamp = time.strftime("%a %b %d %H:%M:%S", time.localtime(job.submitted))
            mark = "*" if option == "active" else ""
            text += (
                f"{job.key + mark:<18} {job.owner[:8]:>8} {_state(job):>10} {job.cores:>5} "
                f"{clock(job.walltime):>11} {stamp:>20}\n"
            )
        text += f"\n{len(jobs)} {option} job(s)\n"
    return text


def _words(request: Call, job: Job) -> str:
    stamp = time.strftime("%a %b %d %H:%M:%S", time.localtime(job.submitted))
    code = f"Completion Code: {_code(job)}\n" if job.state is State.ENDED else ""
    return (
        f"job {job.key}\n\nAName: {job.name}\nState: {_state(job)}\n{code}"
        f"Creds:  user:{job.owner}  group:{job.owner}  class:{job.queue}\n"
        f"WallTime:   00:00:00 of {clock(job.walltime)}\nSubmitTime: {stamp}\n\n"
    )


FRONT_END = Moab()
