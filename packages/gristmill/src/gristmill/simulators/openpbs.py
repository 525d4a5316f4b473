"""OpenPBS 23.06: qsub, qstat (text, JSON, history), qdel, qhold, qrls, qsig, pbsnodes, tracejob.

Facts: outputs of a real 23.06.06, recorded in tests/recorded/openpbs; qsub(1B), qstat(1B) and
the numbers of its pbs_error.h and job.h.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gristmill.simulators import _pbs
from gristmill.simulators._pbs import PbsFrontEnd, Wrong
from gristmill.simulators.farm import Ending, Farm, Job, State
from gristmill.simulators.frontend import (
    Answer,
    Call,
    Options,
    clock,
    ctime,
    indices,
    kib,
    read_options,
)

VERSION = "23.06.06"
USAGE = """usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version
"""
VALUED = tuple(f"-{letter}" for letter in "aAcCejJklmMNopPqrRSuWv")
RESOURCES = [
    "walltime",
    "ncpus",
    "mem",
    "vmem",
    "pmem",
    "pvmem",
    "cput",
    "pcput",
    "place",
    "select",
    "nodes",
    "software",
    "nice",
    "ngpus",
    "arch",
    "host",
    "file",
    "naccelerators",
]
NO_SERVER = "Connection refused\nqsub: cannot connect to server {host} (errno=15010)\n"
ENDED_WORDS = {
    Ending.WALLTIME: "exceeded resource walltime",
    Ending.MEMORY: "exceeded resource mem",
}
STATUS = {Ending.WALLTIME: -29, Ending.MEMORY: -27, Ending.LAUNCH: -1, Ending.NODE: -3}


class OpenPbs(PbsFrontEnd):
    """The server `pbs` on one host."""

    down: ClassVar[Mapping[str, Answer]] = {
        "*": Answer("", "Connection refused\nCouldn't connect to cluster: farm\n", 162),
        "qsub": Answer("", NO_SERVER.format(host="farm"), 162),
        "qstat": Answer(
            '{\n\t"timestamp":\t0,\n\t"pbs_version":\t"23.06.06",\n\t"pbs_server":\t"farm"\n}\n',
            "Connection refused\nqstat: cannot connect to server farm (errno=15010)\n",
            255,
        ),
        "pbsnodes": Answer(
            "", "Connection refused\npbsnodes: cannot connect to server farm, error=15010\n", 1
        ),
    }

    # -- submission

    def qsub(self, request: Call) -> Answer:
        if request.words == ["--version"]:
            return Answer(f"pbs_version = {VERSION}\n")
        try:
            return Answer(f"{self._file(request)}.{request.farm.settings.host}\n")
        except Wrong as wrong:
            return wrong.answer

    def _file(self, request: Call) -> str:
        line = read_options(request.words, _pbs.SUBMIT_FLAGS, VALUED, mixed=False)
        if "--" in request.words:
            program = request.words[request.words.index("--") + 1 :]
            script, default = '#!/bin/sh\nexec "$@"\n', "STDIN"
        else:
            program = []
            missing = "qsub: script file:: No such file or directory\n"
            script = _pbs.script_of(request, line.rest, missing)
            default = Path(line.rest[0]).name if line.rest and line.rest[0] != "-" else "STDIN"
        options = _pbs.merged(script, request.words, VALUED)
        if options.wrong:
            raise Wrong(f"qsub: invalid option -- '{options.wrong[1:2]}'\n{USAGE}", 2)
        job = self._job(request, options, default)
        job.arguments = program
        own = _pbs.base_environment(request, _pbs.variables(request, options))
        self._check_dependencies(request, options, job)
        request.farm.add(job, script, own)
        if job.is_array:
            request.farm.add_elements(job, f"{job.number}[{{}}]")
        return job.key

    def _job(self, request: Call, options: Options, default: str) -> Job:
        name = options.last("-N", default)
        if len(name) > 230:
            raise Wrong("qsub: Job name is too long \n", 2)
        if not re.fullmatch(r"[A-Za-z0-9+_.-]+", name):
            raise Wrong(f"qsub: illegal -N value\n{USAGE}", 2)
        settings = request.farm.settings
        queue = options.last("-q", settings.queues[0]).partition("@")[0]
        if queue not in settings.queues:
            raise Wrong("qsub: Unknown queue\n", 170)
        found = _pbs.resources(
            options,
            RESOURCES,
            lambda word: Wrong(f"qsub: Unknown resource Resource_List.{word}\n", 187),
        )
        illegal = Wrong("qsub: Illegal attribute or resource value Resource_List.walltime\n", 166)
        nodes, cores, memory = _pbs.shape(found)
        members, throttle = self._array(options.last("-J"))
        number = request.farm.next_number()
        text = options.last("-a")
        return Job(
            key=f"{number}[]" if members else str(number),
            number=number,
            name=name,
            owner=request.user,
            queue=queue,
            indices=members,
            throttle=throttle,
            holds="u" if "-h" in options else "",
            cores=cores,
            nodes=nodes,
            memory=memory,
            walltime=_pbs.walltime(found["walltime"], illegal) if "walltime" in found else None,
            begin=_pbs.begin_time(text, request.now) if text else None,
            directory=request.environment.get("HOME", "/"),
            submitted=request.now,
            native={
                "resources": found,
                "workdir": request.directory,
                "out": options.last("-o"),
                "err": options.last("-e"),
                "join": options.last("-j", "n"),
                "account": options.last("-A"),
                "project": options.last("-P", "_pbs_project_default"),
                "priority": options.last("-p", "0"),
                "rerun": options.last("-r", "y") == "y",
                "mail": options.last("-m", "a"),
                "mail_to": options.last("-M"),
                "arguments": " ".join(request.words),
                "variables": _pbs.variables(request, options),
                "range": options.last("-J").partition("%")[0],
            },
        )

    def _array(self, text: str) -> tuple[list[int], int | None]:
        if not text:
            return [], None
        match = re.fullmatch(r"(\d+-\d+(?::\d+)?)(?:%(\d+))?", text)
        found = indices(match[1]) if match else []
        if not match or len(found) < 2:
            raise Wrong(f"qsub: illegal -J value\n{USAGE}", 2)
        return found, int(match[2]) if match[2] else None

    def _check_dependencies(self, request: Call, options: Options, job: Job) -> None:
        """An unknown target is found out after the job has its id: it is dropped then."""
        host = request.farm.settings.host
        written = []
        for kind, text in _pbs.dependencies(options):
            key = _pbs.key_of(text)
            if kind not in _pbs.RELATIONS or "array" in kind or key is None:
                raise Wrong(f"qsub: illegal -W value\n{USAGE}", 2)
            job.edges.append((_pbs.RELATIONS[kind], key))
            written.append(f"{kind}:{key}.{host}@{host}")
        job.native["depend"] = ",".join(written)

    # -- the job's side

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        return _pbs.job_environment(farm, job, "PBS_ARRAY_INDEX", "PBS_ARRAY_ID")

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        out, err = self.paths(farm, job)
        join = job.native["join"]
        if join.startswith("e"):
            return "/dev/null", err, ""
        return "/dev/null", out, "" if join == "oe" else err

    def paths(self, farm: Farm, job: Job) -> tuple[str, str]:
        found = []
        for key, kind in (("out", "o"), ("err", "e")):
            default = f"{job.name}.{kind}{job.number}"
            if job.is_array or job.index is not None:
                default += ".^array_index^"
            path = _pbs.output_path(job.native["workdir"], job.native[key], default)
            index = "^array_index^" if job.index is None else str(job.index)
            found.append(path.replace("^array_index^", index))
        return found[0], found[1]

    def says_unknown(self, farm: Farm, command: str, text: str) -> str:
        full = text if "." in text else f"{text}.{farm.settings.host}"
        return f"{command}: Unknown Job Id {full}\n"

    def says_ended(self, farm: Farm, command: str, job: Job) -> tuple[str, int]:
        tail = f" {self.full(farm, job)}" if command == "qdel" else ""
        return f"{command}: Job has finished{tail}\n", 35

    # -- queries

    def qstat(self, request: Call) -> Answer:
        if request.words == ["--version"]:
            return Answer(f"pbs_version = {VERSION}\n")
        flags = ("-f", "-x", "-t", "-a", "-w", "-H", "-Q", "-B", "-Qf", "-Bf", "-n", "-s", "-1")
        options = read_options(request.words, flags, ("-F", "-u", "-D"))
        if options.wrong:
            return Answer("", f"qstat: invalid option -- '{options.wrong[1:2]}'\n", 2)
        if {"-Q", "-Qf"} & set(options.values):
            return self._queues(request, options)
        return self._jobs(request, options)

    def _jobs(self, request: Call, options: Options) -> Answer:
        jobs, said, rc = self._asked(request, options)
        if "-f" not in options:
            return Answer(_short(request.farm, jobs, request.now), said, rc)
        shown = {self.full(request.farm, job): job for job in jobs}
        lists = {id: list(self._attributes(request, job)) for id, job in shown.items()}
        if options.last("-F") == "json":
            return Answer(_json(request, "Jobs", lists), said, rc)
        if options.last("-F") == "dsv":
            mark = options.last("-D", "|")
            lines = (_dsv(id, pairs, mark) for id, pairs in lists.items())
            return Answer("".join(lines), said, rc)
        blocks = (_block(id, pairs, "-w" in options) for id, pairs in lists.items())
        return Answer("".join(blocks), said, rc)

    def _asked(self, request: Call, options: Options) -> tuple[list[Job], str, int]:
        """The jobs to show, complaints, and the exit status: that of the last complaint."""
        farm, now = request.farm, request.now
        history = bool({"-x", "-H"} & set(options.values))
        if not options.rest:
            jobs = [
                job
                for job in farm.jobs()
                if (job.index is None or "-t" in options)
                and _pbs.known(farm, job, now)
                and (history or self._living(farm, job))
            ]
            return [_pbs.refreshed(farm, job) for job in jobs], "", 0
        jobs, said, rc = [], [], 0
        for text in options.rest:
            key = _pbs.key_of(text)
            if key is None:
                said.append(f"qstat: Unknown queue destination {text}\n")
                rc = 170
                continue
            job = farm.get(key)
            if job is None or not _pbs.known(farm, job, now):
                if history and not farm.settings.history:
                    full = text if "." in text else f"{text}.{farm.settings.host}"
                    said.append(f"qstat: PBS is not configured to maintain job history {full}\n")
                else:
                    said.append(self.says_unknown(farm, "qstat", text))
                rc = 153
            elif not history and not self._living(farm, job):
                said.append(
                    f"qstat: {self.full(farm, job)} Job has finished, "
                    "use -x or -H to obtain historical job information\n"
                )
                rc = 35
            else:
                jobs.append(_pbs.refreshed(farm, job))
                if "-t" in options and job.is_array:
                    jobs += [m for m in farm.members(job.number) if not m.is_array]
        return jobs, "".join(said), rc

    def _living(self, farm: Farm, job: Job) -> bool:
        """Listed without -x: what has not ended, and ended elements of an array that has not."""
        if job.state is not State.ENDED:
            return True
        array = farm.get(job.array) if job.array else None
        return array is not None and array.state is not State.ENDED

    def _attributes(self, request: Call, job: Job) -> Iterator[tuple[str, Any]]:
        farm, now = request.farm, request.now
        host, native = farm.settings.host, job.native
        letter = _pbs.letter(job, now, "F")
        if letter == "F" and job.index is not None and self._living(farm, job):
            letter = "X"
        out, err = self.paths(farm, job)
        yield "Job_Name", job.name
        yield "Job_Owner", f"{job.owner}@{host}"
        if job.started and not job.is_array:
            yield "resources_used", _used(job, now)
        yield "job_state", letter
        yield "queue", job.queue
        yield "server", host
        if native["account"]:
            yield "Account_Name", native["account"]
        yield "Checkpoint", "u"
        yield "ctime", ctime(job.submitted)
        if native.get("depend") and (job.edges or job.ending == Ending.DEPENDENCY or job.never):
            yield "depend", native["depend"]
        yield "Error_Path", f"{host}:{err}"
        if job.started and not job.is_array:
            yield "exec_host", f"{host}/0"
            yield "exec_vnode", _vnode(farm, job)
        if job.index is None:
            ended_hopeless = job.ending == Ending.DEPENDENCY
            yield "Hold_Types", "s" if ended_hopeless else _pbs.hold_types(job)
        yield "Join_Path", native["join"]
        yield "Keep_Files", "n"
        yield "Mail_Points", native["mail"]
        if native["mail_to"]:
            yield "Mail_Users", native["mail_to"]
        yield "mtime", ctime(job.ended or job.started or job.submitted)
        yield "Output_Path", f"{host}:{out}"
        yield "Priority", int(native["priority"])
        yield "qtime", ctime(job.submitted)
        yield "Rerunable", str(native["rerun"])
        yield "Resource_List", _resource_list(job)
        if job.started:
            yield "stime", ctime(job.started)
            if job.ended:
                yield "obittime", ctime(job.ended)
            if job.pid:
                yield "session_id", job.pid
            if not job.is_array:
                yield "jobdir", job.directory
        yield "substate", _substate(job, now)
        yield "Variable_List", self._variables(request, job)
        if comment := _comment(farm, job):
            yield "comment", comment
        if not job.holds and not job.edges:
            yield "etime", ctime(job.begin or job.submitted)
        if job.started and not job.is_array:
            yield "run_count", 1
        if job.state is State.ENDED and job.started:
            yield "Stageout_status", 1
            yield "Exit_status", STATUS.get(Ending(job.ending), _pbs.exit_status(job))
        if job.index is None:
            yield "Submit_arguments", native["arguments"]
        if job.is_array:
            yield from _array_attributes(job)
        if job.index is not None:
            yield "array_id", f"{job.array}.{host}"
            yield "array_index", job.index
        if job.state is State.ENDED:
            yield "history_timestamp", int(job.ended or 0)
        yield "project", native["project"]
        yield "Submit_Host", host

    def _variables(self, request: Call, job: Job) -> dict[str, str]:
        own = job.native["variables"]
        have = request.farm.environment(job.number)
        names = [name for name in have if name.startswith("PBS_O_")]
        return {
            **{name: have[name] for name in names},
            **own,
            "PBS_O_WORKDIR": job.native["workdir"],
            "PBS_O_SYSTEM": "Linux",
            "PBS_O_QUEUE": job.queue,
            "PBS_O_HOST": request.farm.settings.host,
        }

    def _queues(self, request: Call, options: Options) -> Answer:
        unfinished = [job for job in request.farm.unfinished() if not job.is_array]
        lists = {}
        for name in request.farm.settings.queues:
            jobs = [job for job in unfinished if job.queue == name]
            count = [_pbs.letter(job, request.now, "F") for job in jobs].count
            lists[name] = [
                ("queue_type", "Execution"),
                ("total_jobs", len(jobs)),
                (
                    "state_count",
                    f"Transit:0 Queued:{count('Q')} Held:{count('H')} Waiting:{count('W')} "
                    f"Running:{count('R')} Exiting:{count('E')} Begun:0 ",
                ),
                ("resources_assigned", {"mem": "0mb", "ncpus": count("R"), "nodect": count("R")}),
                ("enabled", "True"),
                ("started", "True"),
            ]
        if options.last("-F") == "json":
            return Answer(_json(request, "Queue", lists))
        return Answer("".join(_block(n, pairs, False, "Queue: ") for n, pairs in lists.items()))

    def pbsnodes(self, request: Call) -> Answer:
        farm = request.farm
        host, settings = farm.settings.host, farm.settings
        running = [job for job in farm.unfinished() if job.pid is not None]
        used = sum(job.cores for job in running)
        pairs = [
            ("Mom", host),
            ("ntype", "PBS"),
            ("state", "free" if used < settings.cores else "job-busy"),
            ("pcpus", settings.cores),
            ("jobs", [self.full(farm, job) for job in running]),
            (
                "resources_available",
                {
                    "arch": "linux",
                    "host": host,
                    "mem": f"{settings.memory // 1024}kb",
                    "ncpus": settings.cores,
                    "vnode": host,
                },
            ),
            ("resources_assigned", {"ncpus": used} if used else {}),
            ("resv_enable", "True"),
            ("sharing", "default_shared"),
            ("license", "l"),
        ]
        if "json" in request.words:
            return Answer(_json(request, "nodes", {host: pairs}))
        lines = [f"{host}"]
        for name, value in pairs:
            if isinstance(value, dict):
                lines += [f"     {name}.{key} = {part}" for key, part in value.items()]
            else:
                text = ", ".join(value) if isinstance(value, list) else value
                lines.append(f"     {name} = {text}")
        return Answer("\n".join(lines) + "\n\n")

    def pbs_hostn(self, request: Call) -> Answer:
        return Answer(f"primary name: {request.farm.settings.host}\n")

    def tracejob(self, request: Call) -> Answer:
        options = read_options(request.words, ("-v", "-a", "-s", "-l", "-m"), ("-n", "-p", "-c"))
        said, found = "", ""
        for text in options.rest:
            job = request.farm.get(_pbs.key_of(text) or "")
            if job is None:
                said += f"tracejob: Couldn't find Job Id {text} in logs of the past 1 day\n"
                continue
            found += "\n".join(["", f"Job: {self.full(request.farm, job)}", ""])
            for moment, what in _trace(job):
                stamp = time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(moment))
                found += f"\n{stamp}  S    {what}"
            found += "\n"
        return Answer(found, said, 0)


def _used(job: Job, now: float) -> dict[str, Any]:
    return {
        "cpupercent": 0,
        "cput": clock(job.cpu),
        "mem": f"{kib(job)}kb",
        "ncpus": job.cores,
        "vmem": f"{kib(job)}kb",
        "walltime": clock((job.ended or now) - (job.started or now)),
    }


def _resource_list(job: Job) -> dict[str, Any]:
    asked = dict(job.native["resources"])
    found: dict[str, Any] = {}
    if job.memory:
        found["mem"] = asked.pop("mem", f"{job.memory // 1024}kb")
    asked.pop("ncpus", None)
    found["ncpus"] = job.cores
    found["nodect"] = job.nodes
    found["place"] = asked.pop("place", "pack")
    found["select"] = asked.pop("select", f"{job.nodes}:ncpus={job.cores // job.nodes or 1}")
    if job.walltime:
        found["walltime"] = clock(job.walltime)
    asked.pop("walltime", None)
    return {**found, **asked}


def _vnode(farm: Farm, job: Job) -> str:
    memory = f":mem={job.memory // 1024}kb" if job.memory else ""
    return f"({farm.settings.host}:ncpus={job.cores}{memory})"


def _substate(job: Job, now: float) -> int:
    if job.state is State.ENDED:
        if job.ending == Ending.CANCELLED:
            return 91
        return 92 if job.ok or job.ending == Ending.DEPENDENCY else 93
    if job.is_array and job.native.get("begun"):
        return 70
    if job.state is State.SUSPENDED:
        return 43
    if job.pid is not None:
        return 42
    if job.holds:
        return 20
    if job.edges or job.never:
        return 22
    return 30 if (job.begin or 0) > now else 10


def _comment(farm: Farm, job: Job) -> str:
    if not job.started:
        if job.cores > farm.settings.cores and job.state is State.WAITING:
            return "Can Never Run: Insufficient amount of resource: ncpus"
        return ""
    day = time.strftime("%a %b %d at %H:%M", time.localtime(job.started))
    start = (
        f"Job Array Began at {day}" if job.is_array else f"Job run at {day} on {_vnode(farm, job)}"
    )
    if job.state is not State.ENDED:
        return start
    if job.ending == Ending.CANCELLED:
        return f"{start} and terminated by {job.owner}@{farm.settings.host}"
    ended = ENDED_WORDS.get(Ending(job.ending), "finished" if job.ok else "failed")
    return f"{start} and {ended}"


def _array_attributes(job: Job) -> Iterator[tuple[str, Any]]:
    counts = job.native.get("counts", {})
    yield "array", "True"
    yield (
        "array_state_count",
        f"Queued:{counts.get(State.WAITING, 0)} Running:{counts.get(State.RUNNING, 0)} "
        "Exiting:0 Expired:0",
    )
    yield "array_indices_submitted", job.native["range"]
    left = job.native.get("remaining", [])
    yield "array_indices_remaining", ",".join(map(str, left)) or "-"
    if job.throttle:
        yield "max_run_subjobs", job.throttle


def _trace(job: Job) -> Iterator[tuple[float, str]]:
    yield job.submitted, f"Job Queued at request of {job.owner}@farm, job name = {job.name}"
    if job.started:
        yield job.started, "Job Run at request of Scheduler@farm on exec_vnode (farm:ncpus=1)"
    if job.ended and job.started:
        status = STATUS.get(Ending(job.ending), _pbs.exit_status(job))
        yield (
            job.ended,
            f"Exit_status={status} resources_used.cput={clock(job.cpu)} "
            f"resources_used.mem={kib(job)}kb "
            f"resources_used.walltime={clock(job.ended - job.started)}",
        )


# -- ways of writing it

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def _guessed(value: Any) -> Any:
    """PBS writes the value of a variable that looks like a number as one: "007" becomes 7."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = float(value)
        return int(number) if number.is_integer() else number
    return value


def _json(request: Call, what: str, lists: Mapping[str, Iterable[tuple[str, Any]]]) -> str:
    """cJSON's layout: tabs, and a tab after each colon. Without anything the key is missing."""
    whole: dict[str, Any] = {
        "timestamp": int(request.now),
        "pbs_version": VERSION,
        "pbs_server": request.farm.settings.host,
    }
    if lists:
        whole[what] = {id: dict(pairs) for id, pairs in lists.items()}
        for entry in whole[what].values():
            if "Variable_List" in entry:
                own = entry["Variable_List"]
                entry["Variable_List"] = {key: _guessed(value) for key, value in own.items()}
    text = json.dumps(whole, indent="\t", separators=(",", ":\t"), ensure_ascii=False)
    return re.sub(r"\[\s*(\"[^\]]*?\")\s*\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def _flat(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in pairs:
        if name == "Variable_List":
            yield name, ",".join(f"{key}={text}" for key, text in value.items())
        elif isinstance(value, dict):
            yield from ((f"{name}.{key}", str(part)) for key, part in value.items())
        else:
            yield name, str(value)


def _block(id: str, pairs: Iterable[tuple[str, Any]], wide: bool, head: str = "Job Id: ") -> str:
    lines = [
        f"    {name} = {value}" if wide else _pbs.folded(name, value)
        for name, value in _flat(pairs)
    ]
    return "\n".join([f"{head}{id}", *lines, "", ""])


def _dsv(id: str, pairs: Iterable[tuple[str, Any]], mark: str) -> str:
    return mark.join([f"Job Id: {id}", *(f"{name}={value}" for name, value in _flat(pairs))]) + "\n"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "*"


def _short(farm: Farm, jobs: list[Job], now: float) -> str:
    """The listing that cuts ids and names."""
    if not jobs:
        return ""
    lines = [
        "Job id            Name             User              Time Use S Queue",
        "----------------  ---------------- ----------------  -------- - -----",
    ]
    for job in jobs:
        used = "0" if not job.started or job.is_array else clock(job.cpu)
        id = f"{job.key}.{farm.settings.host}"[:17]
        letter = _pbs.letter(job, now, "F")
        lines.append(
            f"{id:<17} {_cut(job.name, 16):<16} {job.owner[:16]:<16} {used:>9} {letter} "
            f"{job.queue:<16}"
        )
    return "\n".join(lines) + "\n"


FRONT_END = OpenPbs()
