"""LSF 10.1: bsub, bjobs (text, -o, -json), bkill, bstop, bresume, bhist, bacct, bqueues, bhosts.

Facts: the Command Reference of LSF 10.1.0 (bsub, bjobs -o, bkill, bhist) and outputs published by
other projects; no real LSF was at hand.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from gristmill.simulators.farm import Ending, Farm, Job, State
from gristmill.simulators.frontend import (
    Answer,
    Call,
    FrontEnd,
    Options,
    cancel,
    each_member,
    indices,
    read_options,
    signal_number,
)

FLAGS = ("-H", "-x", "-B", "-N", "-r", "-rn", "-ti", "-K", "-I", "-Ip")
VALUED = frozenset(
    [
        "-J",
        "-Jd",
        "-o",
        "-oo",
        "-e",
        "-eo",
        "-i",
        "-n",
        "-W",
        "-We",
        "-M",
        "-R",
        "-q",
        "-P",
        "-G",
        "-u",
        "-w",
        "-b",
        "-sp",
        "-env",
        "-cwd",
        "-outdir",
        "-m",
        "-gpu",
        "-U",
        "-sla",
        "-app",
        "-L",
        "-nnodes",
        "-g",
        "-t",
        "-v",
        "-C",
        "-c",
    ]
)
TERM = {
    Ending.CANCELLED: ("TERM_OWNER: job killed by owner", 130),
    Ending.WALLTIME: ("TERM_RUNLIMIT: job killed after reaching LSF run time limit", 140),
    Ending.MEMORY: ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", 137),
    Ending.NODE: ("TERM_UNKNOWN: unknown reason", 1),
    Ending.DEPENDENCY: ("TERM_ORPHAN_SYSTEM: orphaned job terminated by LSF", 1),
}
EDGES = {"done": "ok", "exit": "notok", "ended": "any", "started": "start"}
RULE = "-" * 78


class Lsf(FrontEnd):
    """mbatchd and its commands."""

    lost = Answer("", "A connect sys call failed: Connection timed out. Job not submitted\n", 255)
    down: ClassVar[Mapping[str, Answer]] = {
        "*": Answer("", "LSF daemon not responding ... still trying\nbatch system daemon not "
                    "responding\n", 255),
    }  # fmt: skip

    # -- submission

    def bsub(self, request: Call) -> Answer:
        line = read_options(request.words, FLAGS, VALUED, mixed=False)
        script = "" if line.rest else request.stdin()
        header = read_options(list(_directives(script)), FLAGS, VALUED)
        for name, values in line.values.items():
            header.values.setdefault(name, []).extend(values)
        options = Options(header.values, line.rest, line.wrong or header.wrong)
        if options.wrong:
            return Answer("", f"{options.wrong}: Illegal option. Job not submitted.\n", 255)
        if not script.strip() and not options.rest:
            return Answer("", "No command is specified. Job not submitted.\n", 255)
        queue = options.last("-q", request.farm.settings.queues[0])
        if queue not in request.farm.settings.queues:
            return Answer("", f"{queue}: No such queue. Job not submitted.\n", 255)
        try:
            job = self._job(request, options, queue)
        except ValueError as error:
            return Answer("", f"{error}. Job not submitted.\n", 255)
        words = " ".join(options.rest)
        environment = self._environment(request, options)
        request.farm.add(job, script or f"#!/bin/sh\n{words}\n", environment)
        if job.is_array:
            request.farm.add_elements(job, f"{job.number}[{{}}]")
        default = "" if "-q" in options else "default "
        return Answer(f"Job <{job.number}> is submitted to {default}queue <{queue}>.\n")

    def _environment(self, request: Call, options: Options) -> dict[str, str]:
        """All of the submitter's, unless -env none."""
        first, *rest = options.last("-env", "all").split(",")
        found = dict(request.environment) if first.strip() == "all" else {}
        pairs = (part.partition("=") for part in rest)
        return {**found, **{name.strip(): value for name, sign, value in pairs if sign}}

    def _job(self, request: Call, options: Options, queue: str) -> Job:
        name, members, throttle = _array(options.last("-J"))
        edges = self._edges(request, options.last("-w"), bool(members))
        number = request.farm.next_number()
        out = options.last("-oo") or options.last("-o")
        err = options.last("-eo") or options.last("-e")
        return Job(
            key=f"{number}[]" if members else str(number),
            number=number,
            name=name,
            owner=request.user,
            queue=queue,
            indices=members,
            throttle=throttle,
            holds="u" if "-H" in options else "",
            cores=int(options.last("-n", "1").split(",")[0]),
            memory=_memory(options.last("-M")),
            walltime=_minutes(options.last("-W")),
            begin=_begin(options.last("-b"), request.now),
            edges=edges,
            directory=options.last("-cwd") or request.directory,
            stdin=options.last("-i") or "/dev/null",
            append="-oo" not in options,
            submitted=request.now,
            native={
                "out": out,
                "err": err,
                "description": options.last("-Jd"),
                "project": options.last("-P", "default"),
                "orphan": "-ti" in options,
                "from": request.directory,
            },
        )

    def _edges(self, request: Call, text: str, is_array: bool) -> list[tuple[str, str]]:
        """`done(1) && ended(2)`; numexit(1,>0) beside ended(1) is notok of an array."""
        found: list[tuple[str, str]] = []
        for kind, inside in re.findall(r"(\w+)\(([^)]*)\)", text):
            key = re.sub(r"\[\*\]$", "", inside.split(",")[0].strip().strip('"'))
            number = key if request.farm.get(key) else f"{key}[]"
            if request.farm.get(number) is None:
                raise ValueError(f"{key}: No matching job found. Dependency condition invalid")
            if kind == "numexit":
                found = [edge for edge in found if edge != ("any", number)]
                found.append(("notok", number))
            elif "[*]" in inside:
                found.append((f"each:{EDGES[kind]}", number))
            else:
                found.append((EDGES[kind], number))
        return found

    # -- the job's side

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        return {
            "LSB_JOBID": str(job.number),
            "LSB_JOBINDEX": str(job.index or 0),
            "LSB_JOBNAME": job.name if job.index is None else f"{job.name}[{job.index}]",
            "LSB_QUEUE": job.queue,
            "LSB_HOSTS": " ".join([farm.settings.host] * job.cores),
            "LS_SUBCWD": job.native["from"],
            "LSB_BATCH_JID": job.key,
        }

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        def path(text: str) -> str:
            text = text.replace("%J", str(job.number)).replace("%I", str(job.index or 0))
            return text if text.startswith("/") else f"{job.directory}/{text}"

        native = job.native
        out = path(native["out"]) if native["out"] else "/dev/null"
        return job.stdin, out, path(native["err"]) if native["err"] else ""

    def ends_hopeless(self, job: Job) -> bool:
        """Only with -ti; else it pends for ever."""
        return bool(job.native["orphan"])

    # -- actions

    def _chosen(self, request: Call, ids: list[str]) -> tuple[list[tuple[str, Job]], list[str]]:
        """(id as written, job), and what is said of the others."""
        found, said = [], []
        for text in ids:
            job = self._find(request.farm, text)
            if job is None:
                said.append(f"Job <{text}>: No matching job found\n")
            elif job.state is State.ENDED:
                said.append(f"Job <{text}>: Job has already finished\n")
            else:
                found.append((text, job))
        return found, said

    def _find(self, farm: Farm, text: str) -> Job | None:
        return farm.get(text) or farm.get(f"{text}[]")

    def bkill(self, request: Call) -> Answer:
        options = read_options(request.words, ("-r", "-b"), ("-s",))
        jobs, said = self._chosen(request, options.rest)
        number = signal_number(options.last("-s")) if "-s" in options else 0
        for _, job in jobs:
            if number and number not in (9, 15):
                each_member(request.farm, job, lambda member: _signalled(member, number))
            else:
                cancel(request.farm, job, request.now)
        verb = "signaled" if number else "terminated"
        lines = [f"Job <{text}> is being {verb}\n" for text, _ in jobs]
        return Answer("".join(lines), "".join(said), 255 if said else 0)

    def bstop(self, request: Call) -> Answer:
        def stop(job: Job) -> None:
            if job.pid is None:
                job.holds = "u"
            else:
                job.state = State.SUSPENDED
                job.signals.append(19)

        jobs, said = self._chosen(request, request.words)
        for _, job in jobs:
            each_member(request.farm, job, stop)
        lines = [f"Job <{text}> is being stopped\n" for text, _ in jobs]
        return Answer("".join(lines), "".join(said), 255 if said else 0)

    def bresume(self, request: Call) -> Answer:
        def resume(job: Job) -> None:
            job.holds = ""
            if job.state is State.SUSPENDED:
                job.state = State.RUNNING
                job.signals.append(18)

        jobs, said = self._chosen(request, request.words)
        for _, job in jobs:
            each_member(request.farm, job, resume)
        lines = [f"Job <{text}> is being resumed\n" for text, _ in jobs]
        return Answer("".join(lines), "".join(said), 255 if said else 0)

    # -- queries

    def bjobs(self, request: Call) -> Answer:
        options = read_options(
            request.words,
            ("-a", "-json", "-noheader", "-w", "-l", "-p", "-X", "-r", "-d", "-UF"),
            ("-o", "-u", "-q", "-J", "-Jd", "-delimiter"),
        )
        wanted, missing = self._listed(request, options)
        said = "".join(f"Job <{id}> is not found\n" for id in missing)
        fields = options.last("-o").split() or ["jobid", "user", "stat", "queue", "job_name"]
        mark = next((f.partition("=")[2].strip("'\"") for f in fields if "delimiter" in f), "|")
        fields = [field for field in fields if "delimiter" not in field]
        rows = [_row(request, job, fields) for job in wanted]
        if "-json" in options:
            records: list[dict[str, str]] = [*rows]
            records += [{"JOBID": id, "ERROR": f"Job <{id}> is not found"} for id in missing]
            whole = {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}
            text = json.dumps(whole, indent=2, ensure_ascii=False, separators=(",", ":"))
            return Answer(text + "\n", "", 255 if missing and not wanted else 0)
        if not wanted:
            return Answer("", said or "No unfinished job found\n", 255 if said else 0)
        lines = [mark.join(row.values()) for row in rows]
        if "-noheader" not in options:
            lines.insert(0, mark.join(field.upper() for field in fields))
        return Answer("\n".join(lines) + "\n", said, 255 if said else 0)

    def _listed(self, request: Call, options: Options) -> tuple[list[Job], list[str]]:
        farm, now = request.farm, request.now
        if not options.rest:
            jobs = [job for job in farm.jobs() if not job.is_array and _kept(farm, job, now)]
            return [job for job in jobs if "-a" in options or job.state is not State.ENDED], []
        found, missing = [], []
        for text in options.rest:
            job = self._find(farm, text)
            members = farm.members(job.number) if job and job.is_array else [job] if job else []
            kept = [m for m in members if not m.is_array and _kept(farm, m, now)]
            found += kept
            if not kept:
                missing.append(text)
        return found, missing

    def bhist(self, request: Call) -> Answer:
        options = read_options(request.words, ("-l", "-a", "-w"), ("-n", "-S", "-C", "-u"))
        text, said = "", ""
        for id in options.rest:
            job = self._find(request.farm, id)
            members = request.farm.members(job.number) if job and job.is_array else [job]
            found = [member for member in members if member and not member.is_array]
            text += "".join(_history(request, member) for member in found)
            said += "" if found else f"No matching job found: <{id}>\n"
        if not text:
            return Answer("", "No matching job found\n", 255)
        return Answer(text, said, 0)

    def bacct(self, request: Call) -> Answer:
        return self.bhist(request)

    def bqueues(self, request: Call) -> Answer:
        jobs = [job for job in request.farm.unfinished() if not job.is_array]
        head = (
            "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP  RSV"
        )
        lines = [head]
        for name in request.farm.settings.queues:
            states = [_stat(job) for job in jobs if job.queue == name]
            pend = states.count("PEND") + states.count("PSUSP")
            susp = states.count("USUSP")
            lines.append(
                f"{name:<15} {30:>4} {'Open:Active':<15} {'-':>3} {'-':>4} {'-':>4} {'-':>4} "
                f"{len(states):>5} {pend:>5} {states.count('RUN'):>5} {susp:>5} {0:>4}"
            )
        return Answer("\n".join(lines) + "\n")

    def bhosts(self, request: Call) -> Answer:
        settings = request.farm.settings
        running = [job for job in request.farm.unfinished() if job.pid is not None]
        used = sum(job.cores for job in running)
        head = "HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV"
        status = "ok" if used < settings.cores else "closed_Full"
        line = (
            f"{settings.host:<18} {status:<14} {'-':>5} {settings.cores:>6} {used:>6} {used:>6} "
            f"{0:>6} {0:>6} {0:>6}"
        )
        return Answer(f"{head}\n{line}\n")


def _directives(script: str) -> Iterator[str]:
    for line in script.splitlines():
        if line.startswith("#BSUB"):
            yield from shlex.split(line[5:], comments=True)


def _array(text: str) -> tuple[str, list[int], int | None]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]+)\](?:%(\d+))?", text)
    if not match:
        return text or "job", [], None
    found = indices(match[2])
    if min(found) < 1:
        raise ValueError("Bad job array index")
    return match[1], found, int(match[3]) if match[3] else None


def _memory(text: str) -> int | None:
    """With a unit; KB without one."""
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    return int(match[1]) * 1024 ** ("KMGT".index(match[2] or "K") + 1) if match else None


def _minutes(text: str) -> int | None:
    """`[H:]M`."""
    if not text:
        return None
    hours, _, minutes = text.partition("/")[0].rpartition(":")
    return (int(hours or 0) * 60 + int(minutes)) * 60


def _begin(text: str, now: float) -> float | None:
    """`[[[YYYY:]MM:]DD:]hh:mm`, local time."""
    if not text:
        return None
    today = time.strftime("%Y:%m:%d", time.localtime(now)).split(":")
    parts = text.split(":")
    return time.mktime(
        time.strptime(":".join([*today[: 5 - len(parts)], *parts]), "%Y:%m:%d:%H:%M")
    )


def _signalled(job: Job, number: int) -> None:
    if job.pid is not None:
        job.signals.append(number)


def _kept(farm: Farm, job: Job, now: float) -> bool:
    return job.state is not State.ENDED or now - (job.ended or 0) < farm.settings.history


def _stat(job: Job) -> str:
    if job.state is State.ENDED:
        return "DONE" if job.ok else "EXIT"
    if job.state is State.SUSPENDED:
        return "USUSP"
    if job.pid is not None:
        return "RUN"
    return "PSUSP" if job.holds else "PEND"


def _short_time(value: float | None, mark: str = "") -> str:
    return time.strftime("%b %e %H:%M", time.localtime(value)) + mark if value else ""


def _exit_code(job: Job) -> str:
    if job.state is not State.ENDED or job.ok:
        return ""
    known = TERM.get(Ending(job.ending))
    return str(known[1] if known and not job.exit_code else job.exit_code or (known or ("", 1))[1])


def _pending(job: Job, now: float) -> str:
    if job.holds:
        return " The job was suspended by the user while pending: 1 host;"
    if job.never:
        return " Dependency condition invalid or never satisfied;"
    if job.edges:
        return " Job dependency condition not satisfied;"
    if (job.begin or 0) > now:
        return " The job has a specified start time;"
    return " New job is waiting for scheduling;" if job.state is State.WAITING else ""


def _row(request: Call, job: Job, fields: list[str]) -> dict[str, str]:
    now, host = request.now, request.farm.settings.host
    run = ((job.ended or now) - job.started) if job.started else 0
    reason = TERM.get(Ending(job.ending)) if job.ending else None
    values = {
        "jobid": str(job.number),
        "jobindex": str(job.index or 0),
        "stat": _stat(job),
        "user": job.owner,
        "queue": job.queue,
        "job_name": job.name if job.index is None else f"{job.name}[{job.index}]",
        "job_description": job.native["description"],
        "proj_name": job.native["project"],
        "exit_code": _exit_code(job),
        "exit_reason": f"{reason[0]};" if reason else "",
        "pend_reason": _pending(job, now) if job.pid is None else "",
        "exec_host": ":".join([host] * job.cores) if job.started else "",
        "from_host": host,
        "submit_time": _short_time(job.submitted),
        "start_time": _short_time(job.started),
        "finish_time": _short_time(job.ended, " L"),
        "run_time": f"{int(run)} second(s)",
        "cpu_used": f"{job.cpu:.1f} second(s)",
        "max_mem": f"{job.peak / 1024**2:.1f} Mbytes" if job.peak else "-",
        "slots": str(job.cores),
    }
    return {field.upper(): values.get(field.partition(":")[0], "-") for field in fields}


def _history(request: Call, job: Job) -> str:
    host = request.farm.settings.host

    def line(moment: float, text: str) -> str:
        return f"{time.strftime('%a %b %e %H:%M:%S', time.localtime(moment))}: {text};"

    name = job.name if job.index is None else f"{job.name}[{job.index}]"
    described = f", Job Description <{job.native['description']}>"
    lines = [
        RULE,
        "",
        f"Job <{job.key}>, Job Name <{name}>{described}, User <{job.owner}>, "
        f"Project <{job.native['project']}>, Command <script>",
        line(job.submitted, f"Submitted from host <{host}>, to Queue <{job.queue}>"),
    ]
    if job.started:
        task = f"Dispatched {job.cores} Task(s) on Host(s) <{host}>"
        lines += [line(job.started, task), line(job.started, "Starting (Pid 4711)")]
    if job.ended:
        used = f"The CPU time used is {job.cpu:.1f} seconds"
        if job.ok:
            lines.append(line(job.ended, f"Done successfully. {used}"))
        elif job.started:
            lines.append(line(job.ended, f"Exited with exit code {_exit_code(job)}. {used}"))
        else:
            lines.append(line(job.ended, "Exited"))
        reason = TERM.get(Ending(job.ending))
        done = "Completed <done>" if job.ok else "Completed <exit>"
        lines.append(line(job.ended, f"{done}; {reason[0]}" if reason else done))
    folded: list[str] = []
    for text in lines:
        while len(text) > 79:
            folded.append(text[:79])
            text = " " * 21 + text[79:]
        folded.append(text)
    return "\n".join([*folded, "", "Summary of time in seconds spent in various states", ""])


FRONT_END = Lsf()
