"""LoadLeveler 5.1: llsubmit, llq, llcancel, llhold, llstatus, llclass, llsummary.

Facts: Using and Administering (SC23-6792) for 5.1 and outputs published by other projects for the
long listings; no real LoadLeveler was at hand. An ended job leaves llq at once; llsummary knows it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from gristmill.simulators.farm import Ending, Farm, Job, State
from gristmill.simulators.frontend import (
    Answer,
    Call,
    FrontEnd,
    cancel,
    clock,
    ctime,
    each_member,
    kept_environment,
    read_options,
)

KEYWORDS = frozenset(
    (
        *(
            "job_name",
            "step_name",
            "job_type",
            "class",
            "account_no",
            "group",
            "node",
            "tasks_per_node",
        ),
        *(
            "total_tasks",
            "wall_clock_limit",
            "resources",
            "node_resources",
            "requirements",
            "comment",
        ),
        *("preferences", "node_usage", "notification", "notify_user", "environment", "input"),
        *(
            "output",
            "error",
            "initialdir",
            "startdate",
            "user_priority",
            "restart",
            "hold",
            "shell",
        ),
        *("dependency", "executable", "arguments", "ll_res_id", "parallel_threads", "blocking"),
        *("network.mpi", "queue", "job_cpu_limit", "image_size"),
    )
)
NOTHING = "llq: There is currently no job status to report.\n"
EXIT_CHECKS = {"== 0": "ok", "!= 0": "notok", "> 0": "notok", ">= 0": "any"}
AWAY = "2539-862 Cannot connect to the schedd on host farm: connection refused\n"


class LoadLeveler(FrontEnd):
    """One schedd, one startd."""

    kills_for_memory = False
    lost = Answer("", "llsubmit: 2512-051 This job has not been submitted: timed out waiting\n", 1)
    down: ClassVar[Mapping[str, Answer]] = {
        "*": Answer("", AWAY, 1),
        "llq": Answer("", f"llq: {AWAY}", 1),
        "llsubmit": Answer("", f"llsubmit: {AWAY}", 1),
    }

    # -- submission

    def llsubmit(self, request: Call) -> Answer:
        words = [word for word in request.words if not word.startswith("-")]
        path = Path(request.directory, words[0]) if words else None
        if path is None or not path.is_file():
            return _refused(f"2512-010 Unable to find or open the command file {words}")
        script = path.read_text(encoding="utf-8", errors="surrogateescape")
        steps = list(_steps(script))
        if not steps:
            return _refused('2512-057 No "queue" statement in the job command file')
        for step in steps:
            for keyword in step:
                if keyword not in KEYWORDS:
                    return _refused(f'2512-060 The keyword "{keyword}" is not valid')
            if step.get("class", "") not in ("", *request.farm.settings.queues):
                return _refused(f'2512-059 Class "{step["class"]}" is not valid')
        number = request.farm.next_number()
        names: dict[str, str] = {}
        for place, step in enumerate(steps):
            job = self._job(request, number, place, step, names)
            names[step.get("step_name", str(place))] = job.key
            request.farm.add(job, script, self._environment(request, step))
        host = request.farm.settings.host
        tail = f" with {len(steps)} job steps" if len(steps) > 1 else ""
        return Answer(f'llsubmit: The job "{host}.{number}"{tail} has been submitted.\n')

    def _environment(self, request: Call, step: Mapping[str, str]) -> dict[str, str]:
        found = kept_environment(request)
        for part in step.get("environment", "").split(";"):
            name, equals, value = part.strip().strip('"').partition("=")
            if name == "COPY_ALL":
                found |= request.environment
            elif equals:
                found[name] = value
        return found

    def _job(
        self, request: Call, number: int, place: int, step: Mapping[str, str], names: dict[str, str]
    ) -> Job:
        host = request.farm.settings.host
        hold = step.get("hold", "")
        nodes = int(step.get("node", "1").split(",")[0])
        tasks = int(step.get("tasks_per_node", "1")) * nodes
        tasks = int(step.get("total_tasks", tasks))
        cpus = re.search(r"ConsumableCpus\((\d+)\)", step.get("resources", ""))
        return Job(
            key=f"{number}.{place}",
            number=number,
            name=step.get("job_name", f"{host}.{number}"),
            owner=request.user,
            queue=step.get("class") or request.farm.settings.queues[0],
            holds=("u" if hold.startswith("user") else "") + ("s" if "sys" in hold else ""),
            cores=tasks * int(cpus[1] if cpus else 1),
            nodes=nodes,
            walltime=_limit(step.get("wall_clock_limit", "")),
            begin=_start(step.get("startdate", "")),
            edges=_edges(step.get("dependency", ""), names),
            directory=step.get("initialdir") or request.directory,
            stdin=step.get("input", "/dev/null"),
            stdout=step.get("output", "/dev/null"),
            stderr=step.get("error", "/dev/null"),
            submitted=request.now,
            native={
                "step": step.get("step_name", str(place)),
                "environment": step.get("environment", ""),
                "notification": step.get("notification", "complete"),
                "dependency": step.get("dependency", ""),
                "restart": step.get("restart", "yes"),
                "usage": step.get("node_usage", "shared"),
                "priority": step.get("user_priority", "50"),
                "account": step.get("account_no", ""),
            },
        )

    # -- the job's side

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        return {
            "LOADL_STEP_ID": f"{farm.settings.host}.{job.key}",
            "LOADL_JOB_NAME": job.name,
            "LOADL_STEP_NAME": job.native["step"],
            "LOADL_STEP_CLASS": job.queue,
            "LOADL_STEP_INITDIR": job.directory,
            "LOADL_ACTIVE": "5.1.0.0",
            "LOADLBATCH": "yes",
        }

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        def path(text: str) -> str:
            for name, value in (
                ("jobid", str(job.number)),
                ("stepid", job.key.partition(".")[2]),
                ("job_name", job.name),
                ("host", farm.settings.host),
            ):
                text = text.replace(f"$({name})", value)
            return text if text.startswith("/") else f"{job.directory}/{text}"

        out, err = path(job.stdout), path(job.stderr)
        return path(job.stdin), out, "" if err == out else err

    # -- actions: they are sent, and nothing more is said

    def llcancel(self, request: Call) -> Answer:
        for job in self._named(request, request.words):
            cancel(request.farm, job, request.now)
        return _sent("llcancel", "Cancel")

    def llhold(self, request: Call) -> Answer:
        def change(job: Job) -> None:
            kind = "s" if "-s" in options else "u"
            left = job.holds.replace(kind, "")
            job.holds = left if "-r" in options else left + kind

        options = read_options(request.words, ("-r", "-s"), ("-u", "-h"))
        for job in self._named(request, options.rest):
            if job.pid is None:
                each_member(request.farm, job, change)
        return _sent("llhold", "Hold")

    def _named(self, request: Call, ids: list[str]) -> list[Job]:
        found = []
        for text in ids:
            match = re.search(r"(\d+)(?:\.(\d+))?$", text)
            if match and match[2] is not None:
                job = request.farm.get(f"{match[1]}.{match[2]}")
                found += [job] if job else []
            elif match:
                found += request.farm.members(int(match[1]))
        return [job for job in found if job.state is not State.ENDED]

    # -- queries

    def llq(self, request: Call) -> Answer:
        options = read_options(request.words, ("-l", "-x", "-s"), ("-u", "-c", "-h", "-r", "-f"))
        jobs = (
            self._named(request, options.rest) if options.rest else list(request.farm.unfinished())
        )
        if not jobs:
            return Answer(NOTHING)
        if "-l" in options:
            return Answer("\n".join(_long(request, job) for job in jobs) + "\n")
        lines = [
            "Id                       Owner      Submitted   ST PRI Class        Running On ",
            "------------------------ ---------- ----------- -- --- ------------ -----------",
        ]
        for job in jobs:
            stamp = time.strftime("%-m/%d %H:%M", time.localtime(job.submitted))
            host = request.farm.settings.host if job.pid else ""
            lines.append(
                f"{request.farm.settings.host + '.' + job.key:<24} {job.owner[:10]:<10} "
                f"{stamp:>11} {_code(job, request.now):<2} {job.native['priority']:<3} "
                f"{job.queue:<12} {host:<11}"
            )
        count = [_code(job, request.now) for job in jobs].count
        lines += [
            "",
            f"{len(jobs)} job step(s) in query, {count('I') + count('D')} waiting, 0 pending, "
            f"{count('R')} running, {count('H')} held, 0 preempted",
        ]
        return Answer("\n".join(lines) + "\n")

    def llsummary(self, request: Call) -> Answer:
        options = read_options(request.words, ("-l", "-x"), ("-s", "-e", "-u", "-j", "-c"))
        wanted = options.last("-j")
        jobs = [
            job
            for job in request.farm.jobs()
            if job.state is State.ENDED
            and request.now - (job.ended or 0) < request.farm.settings.history
            and (not wanted or wanted.endswith(f".{job.number}"))
        ]
        if not jobs:
            return Answer("", "llsummary: 2512-301 No records match the selection\n", 1)
        return Answer("\n".join(_summary(request, job) for job in jobs) + "\n")

    def llclass(self, request: Call) -> Answer:
        blocks = []
        running = [job for job in request.farm.unfinished() if job.pid is not None]
        for name in request.farm.settings.queues:
            used = sum(job.cores for job in running if job.queue == name)
            pairs = [
                ("Name", name),
                ("Priority", "0"),
                ("Class_comment", ""),
                ("Wall_clock_limit", "1+00:00:10, 1+00:00:00 (86410 seconds, 86400 seconds)"),
                ("Free_slots", str(request.farm.settings.cores - used)),
                ("Maximum_slots", str(request.farm.settings.cores)),
            ]
            head = f"=============== Class {name} ==============="
            blocks.append("\n".join([head, *(f"{key:>24}: {value}" for key, value in pairs)]))
        return Answer("\n".join(blocks) + "\n")

    def llstatus(self, request: Call) -> Answer:
        settings = request.farm.settings
        running = [job for job in request.farm.unfinished() if job.pid is not None]
        used = sum(job.cores for job in running)
        pairs = [
            ("Name", settings.host),
            ("Machine", settings.host),
            ("Arch", "x86_64"),
            ("OpSys", "Linux2"),
            ("Memory", f"{settings.memory // 1024**2} mb"),
            ("Feature", "{ }"),
            ("State", "Busy" if used >= settings.cores else "Running" if used else "Idle"),
            ("Cpus", str(settings.cores)),
            ("RunningSteps", str(len(running))),
        ]
        head = f"=============================== {settings.host} ==============================="
        return Answer("\n".join([head, *(f"{key:<15} = {value}" for key, value in pairs)]) + "\n")


def _refused(text: str) -> Answer:
    return Answer("", f"llsubmit: {text}\nllsubmit: 2512-051 This job has not been submitted.\n", 1)


def _sent(command: str, what: str) -> Answer:
    return Answer(f"{command}: {what} command has been sent to the central manager.\n")


def _steps(script: str) -> Iterator[dict[str, str]]:
    """Each step's keywords; a step inherits those of the steps before it."""
    found: dict[str, str] = {}
    text = re.sub(r"\\\n#?\s*", "", script)
    for line in text.splitlines():
        match = re.match(r"#\s*@\s*(.*)", line)
        if not match:
            continue
        name, _, value = match[1].partition("=")
        keyword = name.strip().lower()
        if keyword == "queue":
            yield dict(found)
            for own in ("step_name", "dependency"):
                found.pop(own, None)
        else:
            found[keyword] = value.strip()


def _limit(text: str) -> int | None:
    """`[[HH:]MM:]SS`, hard limit first."""
    parts = text.partition(",")[0].strip().strip('"')
    if not parts:
        return None
    total = 0
    for part in parts.split(":"):
        total = total * 60 + int(part)
    return total


def _start(text: str) -> float | None:
    """`MM/DD/YYYY HH:MM[:SS]`."""
    if not text:
        return None
    form = "%m/%d/%Y %H:%M:%S" if text.count(":") == 2 else "%m/%d/%Y %H:%M"
    return time.mktime(time.strptime(text, form))


def _edges(text: str, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """`(a == 0) && (b >= 0)`: only between steps of one file."""
    found = []
    for name, check in re.findall(r"\((\w+)\s*([=!<>]+\s*\d+)\)", text):
        kind = EXIT_CHECKS.get(" ".join(re.findall(r"[=!<>]+|\d+", check)))
        if kind and name in names:
            found.append((kind, names[name]))
    return found


def _status(job: Job, now: float) -> tuple[str, str]:
    """Code and long name."""
    if job.state is State.ENDED:
        if job.ending == Ending.DEPENDENCY:
            return "NR", "Not Run"
        if job.ending in (Ending.CANCELLED, Ending.WALLTIME):
            return "RM", "Removed"
        return "C", "Completed"
    if job.pid is not None:
        return ("RP", "Remove Pending") if job.kill else ("R", "Running")
    if job.holds:
        return {"u": ("H", "User Hold"), "s": ("S", "System Hold")}.get(
            job.holds, ("HS", "User & System Hold")
        )
    if job.edges:
        return "NQ", "Not Queued"
    return ("D", "Deferred") if (job.begin or 0) > now else ("I", "Idle")


def _code(job: Job, now: float) -> str:
    return _status(job, now)[0]


def _wait_status(job: Job) -> str:
    """The completion code is a wait status: 768 is exit 3, 9 is signal 9."""
    if job.state is not State.ENDED or not job.started:
        return ""
    return str(job.signal or (job.code or 0) << 8)


def _long(request: Call, job: Job) -> str:
    host, native = request.farm.settings.host, job.native
    limit = f"{clock(job.walltime)} ({job.walltime} seconds)" if job.walltime else "undefined"
    pairs = [
        ("Job Step Id", f"{host}.{job.key}"),
        ("Job Name", job.name),
        ("Step Name", native["step"]),
        ("Structure Version", "10"),
        ("Owner", job.owner),
        ("Queue Date", ctime(job.submitted)),
        ("Status", _status(job, request.now)[1]),
        ("Reservation ID", ""),
        ("Dispatch Time", ctime(job.started) if job.started else ""),
        ("Completion Date", ""),
        ("Completion Code", ""),
        ("User Priority", native["priority"]),
        ("Notifications", native["notification"].capitalize()),
        ("Restart", native["restart"]),
        ("Hold Job Until", ctime(job.begin) if job.begin else ""),
        ("Env", native["environment"]),
        ("In", job.stdin),
        ("Out", job.stdout),
        ("Err", job.stderr),
        ("Initial Working Dir", job.directory),
        ("Dependency", native["dependency"] if job.edges else ""),
        ("Step Type", "Serial" if job.cores == 1 else "General Parallel"),
        ("Allocated Host", host if job.pid else ""),
        ("Node Usage", native["usage"]),
        ("Submitting Host", host),
        ("Schedd Host", host),
        ("Notify User", f"{job.owner}@{host}"),
        ("LoadLeveler Group", "No_Group"),
        ("Class", job.queue),
        ("Wall Clk Hard Limit", limit),
        ("Account", native["account"]),
    ]
    head = f"===== Job Step {host}.{job.key} ====="
    return "\n".join([head, *(f"{key:>19}: {value}" for key, value in pairs), ""])


def _summary(request: Call, job: Job) -> str:
    host = request.farm.settings.host
    limit = f"{clock(job.walltime)} ({job.walltime} seconds)" if job.walltime else "undefined"
    pairs = [
        ("Job Step Id", f"{host}.{job.key}"),
        ("Job Name", job.name),
        ("Step Name", job.native["step"]),
        ("Owner", job.owner),
        ("Queue Date", ctime(job.submitted)),
        ("Status", _status(job, request.now)[1]),
        ("Dispatch Time", ctime(job.started) if job.started else ""),
        ("Start Time", ctime(job.started) if job.started else ""),
        ("Completion Date", ctime(job.ended) if job.ended else ""),
        ("Completion Code", _wait_status(job)),
        ("Env", job.native["environment"]),
        ("Class", job.queue),
        ("Account", job.native["account"]),
        ("Wall Clk Hard Limit", limit),
        ("Allocated Host", host if job.started else ""),
        ("Step User Time", f"{clock(job.cpu)}.{int(job.cpu % 1 * 1e6):06d}"),
        ("Step System Time", "00:00:00.000000"),
        ("Step maxrss", str(job.peak // 1024)),
    ]
    return "\n".join(
        [
            f"================== Job {host}.{job.number} ==================",
            f"{'Job Id':>19}: {host}.{job.number}",
            f"--------------- Step {host}.{job.key} ---------------",
            *(f"{key:>19}: {value}" for key, value in pairs),
            "",
        ]
    )


FRONT_END = LoadLeveler()
