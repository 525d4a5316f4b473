"""Torque: qsub, qstat (text and XML), qdel, qhold, qrls, qsig, pbsnodes, tracejob.

Facts: outputs of a real build of Torque's master, recorded in tests/recorded/torque; qsub(1B),
qstat(1B) of Torque 6.1. Same names as OpenPBS, other behaviour: `-x` is XML, `-t` makes arrays,
an ended job is `C` for as long as `keep_completed`, and nothing keeps a history.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import escape

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

USAGE = """
usage: qsub [-a date_time] [-A account_string] [-b secs]
    [-c [ none | { enabled | periodic | shutdown |
    depth=<int> | dir=<path> | interval=<minutes>}... ]
    [-C directive_prefix] [-d path] [-D path]
    [-e path] [-h] [-I] [-j oe|eo|n] [-k {oe}] [-K <kill delay seconds>] 
    [-l resource_list] [-m n|{abe}] [-M user_list] [-N jobname] [-o path] 
    [-p priority] [-P proxy_user [-J <jobid]] [-q queue] [-r y|n] 
    [-S path] [-t number_to_submit] [-T type]  [-u user_list] [-w] path
    [-W additional_attributes] [-v variable_list] [-V ] [-x] [-X] [-z] [script]

"""
VALUED = tuple(f"-{letter}" for letter in "aAbcCdDejkKlLmMNopPqrStTuvwWi")
RESOURCES = [
    "walltime",
    "nodes",
    "ncpus",
    "mem",
    "pmem",
    "vmem",
    "pvmem",
    "cput",
    "pcput",
    "procs",
    "select",
    "software",
    "nice",
    "gpus",
    "gres",
    "prologue",
    "epilogue",
    "depend",
    "advres",
    "naccesspolicy",
    "qos",
    "feature",
    "file",
]
STATUS = {Ending.WALLTIME: -11, Ending.MEMORY: -10, Ending.CANCELLED: 271, Ending.DEPENDENCY: 271}
AWAY = (
    "Error communicating with {0}\n{1}: cannot connect to server farm (errno=15137) "
    "could not connect to trqauthd\n"
)
DEFAULT_WALLTIME = 3600


class Torque(PbsFrontEnd):
    """The server on one host, with a limit of memory that the job itself runs into."""

    kills_for_memory = False
    limits_address_space = True
    lost = Answer("", "qsub: Communication failure (DIS error)\n", 33)
    down: ClassVar[Mapping[str, Answer]] = {
        "*": Answer("", AWAY.format("farm", "qsub"), 33),
        "qstat": Answer("", AWAY.format("farm", "qstat"), 33),
        "pbsnodes": Answer("", AWAY.format("farm", "pbsnodes"), 1),
    }

    # -- submission

    def qsub(self, request: Call) -> Answer:
        if request.words == ["--version"]:
            return Answer("", "Version: master\nCommit: \n")
        try:
            return Answer(f"{self._file(request)}.{request.farm.settings.host}\n")
        except Wrong as wrong:
            return wrong.answer

    def _file(self, request: Call) -> str:
        line = read_options(request.words, _pbs.SUBMIT_FLAGS, VALUED, mixed=False)
        if "-J" in request.words and "-P" not in request.words:
            raise Wrong(f"[The -J option can only be used in conjunction with -P]\n{USAGE}", 2)
        if line.wrong:
            raise Wrong(f"[a single - is not a valid option]\n{USAGE}", 2)
        script = _pbs.script_of(
            request,
            line.rest[-1:],
            "qsub: script file '{}' cannot be loaded - No such file or directory\n",
        )
        options = _pbs.merged(script, request.words, VALUED)
        default = Path(line.rest[-1]).name if line.rest and line.rest[-1] != "-" else "STDIN"
        job = self._job(request, options, default)
        own = _pbs.base_environment(request, _pbs.variables(request, options))
        request.farm.add(job, script, own)
        if job.is_array:
            request.farm.add_elements(job, f"{job.number}[{{}}]")
        return job.key

    def _job(self, request: Call, options: Options, default: str) -> Job:
        name = options.last("-N", default[:15])
        if not re.fullmatch(r"[A-Za-z_]\S*", name):
            raise Wrong(f"[qsub: illegal -N value]\n{USAGE}", 2)
        settings = request.farm.settings
        queue = options.last("-q", settings.queues[0]).partition("@")[0]
        if queue not in settings.queues:
            raise _refused("Unknown queue MSG=requested queue not found", 172)
        found = _pbs.resources(
            options,
            RESOURCES,
            lambda word: _refused(f"Unknown resource type  Resource_List.{word}", 189),
        )
        nodes, cores, memory = _pbs.shape(found)
        if found.get("procs"):
            cores = int(found["procs"])
        if cores > settings.cores:
            raise _refused(
                "Job exceeds queue resource limits MSG=cannot locate feasible nodes (nodes file is "
                "empty, all systems are busy, or no nodes have the requested feature)",
                190,
            )
        members, throttle = self._array(options.last("-t"))
        edges, depend = self._edges(request, options)
        illegal = _refused("Illegal attribute or resource value for Resource_List.walltime", 168)
        limit = _pbs.walltime(found["walltime"], illegal) if "walltime" in found else None
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
            walltime=limit or DEFAULT_WALLTIME,
            begin=_pbs.begin_time(text, request.now) if text else None,
            edges=edges,
            directory=options.last("-d") or request.environment.get("HOME", "/"),
            submitted=request.now,
            native={
                "resources": found,
                "workdir": request.directory,
                "from": request.directory,
                "out": options.last("-o"),
                "err": options.last("-e"),
                "join": options.last("-j", "n"),
                "account": options.last("-A"),
                "priority": options.last("-p", "0"),
                "rerun": options.last("-r", "y") == "y",
                "mail": options.last("-m", "a"),
                "mail_to": options.last("-M"),
                "arguments": " ".join(request.words),
                "variables": _pbs.variables(request, options),
                "depend": depend,
            },
        )

    def _array(self, text: str) -> tuple[list[int], int | None]:
        if not text:
            return [], None
        match = re.fullmatch(r"(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)(?:%(\d+))?", text)
        if not match:
            raise _refused("Bad Job Array Request", 215)
        return indices(match[1]), int(match[2]) if match[2] else None

    def _edges(self, request: Call, options: Options) -> tuple[list[tuple[str, str]], str]:
        edges, written = [], []
        for kind, text in _pbs.dependencies(options):
            key = _pbs.key_of(text)
            target = request.farm.get(key) if key else None
            known = target and _pbs.known(request.farm, target, request.now)
            if (
                kind not in _pbs.RELATIONS
                or not known
                or ("array" in kind) != target_is_array(target)
            ):
                raise _refused("Invalid Job Dependency", 208)
            edges.append((_pbs.RELATIONS[kind], key or ""))
            written.append(f"{kind}:{key}.{request.farm.settings.host}")
        return edges, ",".join(written)

    # -- the job's side

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        found = _pbs.job_environment(farm, job, "PBS_ARRAYID", "")
        if job.index is not None:
            found["PBS_JOBNAME"] = f"{job.name}-{job.index}"
        return found

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        out, err = self.paths(job)
        join = job.native["join"]
        if join == "eo":
            return "/dev/null", err, ""
        return "/dev/null", out, "" if join == "oe" else err

    def paths(self, job: Job) -> tuple[str, str]:
        found = []
        for key, kind in (("out", "o"), ("err", "e")):
            tail = "" if job.index is None else f"-{job.index}"
            given = job.native[key].replace("$PBS_JOBID", f"{job.key}.farm")
            given = given.replace("$PBS_ARRAYID", "" if job.index is None else str(job.index))
            default = f"{job.name}.{kind}{job.number}{tail}"
            path = _pbs.output_path(job.native["from"], given, default)
            found.append(path + (tail if given and tail and str(job.index) not in given else ""))
        return found[0], found[1]

    # -- ids: a short one is given the name of the default server, which here is another

    def lookup(self, farm: Farm, text: str, key: str) -> Job | None:
        return farm.get(key) if text.endswith(f".{farm.settings.host}") else None

    def says_unknown(self, farm: Farm, command: str, text: str) -> str:
        if command == "qdel":
            return f"qdel: nonexistent job id: {text}\n"
        if command in ("qhold", "qrls"):
            return ""  # rc 153, and nothing is said
        full = text if "." in text else f"{text}.localhost"
        return f"{command}: Unknown Job Id Error {full}\n"

    def says_ended(self, farm: Farm, command: str, job: Job) -> tuple[str, int]:
        full = self.full(farm, job)
        text = "Request invalid for state of job MSG=invalid state for job - COMPLETE"
        return f"{command}: {text} {full}\n", 170

    # -- queries

    def qstat(self, request: Call) -> Answer:
        if request.words == ["--version"]:
            return Answer("", "Version: master\nCommit: \n")
        flags = ("-f", "-1", "-x", "-t", "-a", "-Q", "-B", "-q", "-i", "-r", "-e", "-n", "-s", "-R")
        options = read_options(request.words, flags, ("-u", "-W"))
        if options.wrong:
            return Answer("", f"qstat: invalid option -- '{options.wrong[1:2]}'\nusage: \n", 2)
        if "-Q" in options:
            return self._queues(request)
        jobs, said, rc = self._asked(request, options)
        lists = {
            self.full(request.farm, job): list(self._attributes(request.farm, job, request.now))
            for job in jobs
        }
        if "-x" in options:
            return Answer(_xml(lists) if lists else "", said, rc)
        if "-f" in options:
            return Answer(
                "".join(_block(id, p, "-1" in options) for id, p in lists.items()), said, rc
            )
        return Answer(_short(request.farm, jobs, request.now), said, rc)

    def _asked(self, request: Call, options: Options) -> tuple[list[Job], str, int]:
        farm, now = request.farm, request.now
        spread = "-t" in options
        everything = [
            job
            for job in farm.jobs()
            if _pbs.known(farm, job, now) and (not job.is_array if spread else job.index is None)
        ]
        # an array's own id without -t lists everything there is
        whole = [text for text in options.rest if "[]" in text]
        if not options.rest or (whole and not spread):
            return [_pbs.refreshed(farm, job) for job in everything], "", 0
        jobs, said, rc = [], [], 0
        for text in options.rest:
            key = _pbs.key_of(text)
            job = self.lookup(farm, text, key) if key else None
            if key is None:
                said.append(f"qstat: Unknown queue destination {text}\n")
                rc = 172
            elif job is None or not _pbs.known(farm, job, now):
                said.append(self.says_unknown(farm, "qstat", text))
                rc = 153
            elif job.is_array:
                jobs += [m for m in farm.members(job.number) if not m.is_array]
            else:
                jobs.append(job)
        return jobs, "".join(said), rc

    def _attributes(self, farm: Farm, job: Job, now: float) -> Iterator[tuple[str, Any]]:
        host, native = farm.settings.host, job.native
        out, err = self.paths(job)
        name = job.name if job.index is None else f"{job.name}-{job.index}"
        yield "Job_Name", name
        yield "Job_Owner", f"{job.owner}@localhost"
        if job.ended and job.started and not job.is_array:
            yield "resources_used", _used(job)
        yield "job_state", _pbs.letter(job, now, "C", "R")
        yield "queue", job.queue
        yield "server", host
        if native["account"]:
            yield "Account_Name", native["account"]
        yield "Checkpoint", "u"
        yield "ctime", _Moment(job.submitted)
        if native["depend"] and (job.edges or job.ending == Ending.DEPENDENCY or job.never):
            yield "depend", native["depend"]
        yield "Error_Path", f"{host}:{err}"
        if job.started and not job.is_array:
            yield "exec_host", f"{host}/0"
        if job.index is None or job.holds or job.edges:
            hopeless = job.ending == Ending.DEPENDENCY
            yield "Hold_Types", "s" if hopeless else _pbs.hold_types(job)
        yield "Join_Path", native["join"]
        yield "Keep_Files", "n"
        yield "Mail_Points", native["mail"]
        if native["mail_to"]:
            yield "Mail_Users", native["mail_to"]
        yield "mtime", _Moment(job.ended or job.started or job.submitted)
        yield "Output_Path", f"{host}:{out}"
        yield "Priority", native["priority"]
        yield "qtime", _Moment(job.submitted)
        yield "Rerunable", str(native["rerun"])
        yield "Resource_List", _resource_list(job)
        if job.started and job.pid:
            yield "session_id", job.pid
        yield "Variable_List", self._variables(farm, job)
        yield "euser", job.owner
        yield "egroup", job.owner
        yield "queue_type", "E"
        if comment := _comment(farm, job):
            yield "comment", comment
        yield "etime", _Moment(job.submitted)
        if (status := _exit_status(job)) is not None:
            yield "exit_status", status
        yield "submit_args", native["arguments"]
        if job.index is not None:
            yield "job_array_id", job.index
        if job.is_array:
            yield "job_array_request", ",".join(map(str, job.indices))
        if job.started:
            yield "start_time", _Moment(job.started)
        if job.pid and job.walltime:
            yield (
                "Walltime",
                {"Remaining": max(0, int(job.walltime - (now - (job.started or now))))},
            )
        if job.started:
            yield "start_count", 1
        yield "fault_tolerant", "False"
        if job.ended and job.started:
            yield "comp_time", _Moment(job.ended)
        yield "job_radix", 0
        if job.ended and job.started:
            yield "total_runtime", f"{job.ended - job.started:.6f}"
        yield "submit_host", host
        yield "init_work_dir", native["workdir"]
        yield "request_version", 1

    def _variables(self, farm: Farm, job: Job) -> dict[str, str]:
        have = farm.environment(job.number)
        first = {} if job.index is None else {"PBS_ARRAYID": str(job.index)}
        return {
            **first,
            "PBS_O_QUEUE": job.queue,
            **{name: have[name] for name in have if name.startswith("PBS_O_")},
            **job.native["variables"],
            "PBS_O_WORKDIR": job.native["workdir"],
            "PBS_O_HOST": farm.settings.host,
            "PBS_O_SERVER": "localhost",
        }

    def _queues(self, request: Call) -> Answer:
        text = ""
        jobs = [job for job in request.farm.jobs() if not job.is_array]
        for name in request.farm.settings.queues:
            letters = [_pbs.letter(job, request.now, "C") for job in jobs if job.queue == name]
            count = letters.count
            state = (
                f"Transit:0 Queued:{count('Q')} Held:{count('H')} Waiting:{count('W')} "
                f"Running:{count('R')} Exiting:0 Complete:{count('C')} "
            )
            pairs = [
                ("queue_type", "Execution"),
                ("total_jobs", str(len(letters))),
                ("state_count", state),
                ("resources_default.nodes", "1"),
                ("resources_default.walltime", clock(DEFAULT_WALLTIME)),
                ("mtime", "1796022341"),
                ("enabled", "True"),
                ("started", "True"),
            ]
            lines = [_pbs.folded(key, value) for key, value in pairs]
            text += "\n".join([f"Queue: {name}", *lines, "", ""])
        return Answer(text)

    def pbsnodes(self, request: Call) -> Answer:
        farm = request.farm
        settings = farm.settings
        running = [job for job in farm.unfinished() if job.pid is not None]
        used = sum(job.cores for job in running)
        status = (
            f"opsys=linux,ncpus={settings.cores},physmem={settings.memory // 1024}kb,"
            f"totmem={settings.memory // 1024}kb,state=free,"
            f"jobs={' '.join(self.full(farm, job) for job in running)}"
        )
        pairs = {
            "state": "free" if used < settings.cores else "job-exclusive",
            "power_state": "Running",
            "np": str(settings.cores),
            "ntype": "cluster",
        }
        if running:
            pairs["jobs"] = ",".join(
                f"{slot}/{self.full(farm, job)}"
                for slot, job in enumerate(j for job in running for j in [job] * job.cores)
            )
        pairs["status"] = status
        pairs |= {"mom_service_port": "15002", "mom_manager_port": "15003"}
        if "-x" in request.words:
            inner = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in pairs.items())
            return Answer(f"<Data><Node><name>{settings.host}</name>{inner}</Node></Data>\n")
        lines = [f"     {key} = {value}" for key, value in pairs.items()]
        return Answer("\n".join([settings.host, *lines, "", ""]))

    def tracejob(self, request: Call) -> Answer:
        """Reads the server's logs, which only an operator may."""
        words = [word for word in request.words if not word.startswith("-")]
        return Answer("", f"/var/spool/torque/server_logs: Permission denied {words}\n", 1)


def target_is_array(target: Job | None) -> bool:
    return target is not None and target.is_array


class _Moment(float):
    """A time: epoch in XML, words in text."""


def _refused(text: str, rc: int) -> Wrong:
    return Wrong(f"qsub: submit error ({text})\n", rc)


def _exit_status(job: Job) -> int | None:
    """None of a job that was cancelled before it ran."""
    if job.state is not State.ENDED or (job.ending == Ending.CANCELLED and not job.started):
        return None
    return STATUS.get(Ending(job.ending), _pbs.exit_status(job))


def _comment(farm: Farm, job: Job) -> str:
    if job.ending == Ending.DEPENDENCY:
        target = job.native["depend"].partition(":")[2].partition(",")[0]
        return f"Job deleted as result of dependency on job {target}"
    if job.started and not job.is_array:
        return f"Job started on {time.strftime('%a %b %d at %H:%M', time.localtime(job.started))}"
    return ""


def _used(job: Job) -> dict[str, str]:
    return {
        "cput": clock(job.cpu),
        "vmem": f"{kib(job)}kb",
        "walltime": clock((job.ended or 0) - (job.started or 0)),
        "mem": f"{kib(job)}kb",
        "energy_used": "0",
    }


def _resource_list(job: Job) -> dict[str, str]:
    asked = dict(job.native["resources"])
    asked.pop("walltime", None)
    return {
        "nodes": asked.pop("nodes", "1"),
        **asked,
        "walltime": clock(job.walltime),
        "nodect": str(job.nodes),
    }


# -- ways of writing it


def _element(name: str, value: Any) -> str:
    if name == "Variable_List":
        inner = escape(",".join(f"{key}={text}" for key, text in value.items()))
    elif isinstance(value, dict):
        inner = "".join(_element(key, part) for key, part in value.items())
    elif isinstance(value, _Moment):
        inner = str(int(value))
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>"


def _xml(lists: Mapping[str, Iterable[tuple[str, Any]]]) -> str:
    jobs = (
        f"<Job>{_element('Job_Id', id)}{''.join(_element(*pair) for pair in pairs)}</Job>"
        for id, pairs in lists.items()
    )
    return f'<?xml version="1.0"?>\n<Data>{"".join(jobs)}</Data>\n'


def _block(id: str, pairs: Iterable[tuple[str, Any]], wide: bool) -> str:
    lines = []
    for name, value in pairs:
        if name == "Variable_List":
            found = [(name, ",".join(f"{key}={text}" for key, text in value.items()))]
        elif isinstance(value, dict):
            found = [(f"{name}.{key}", str(part)) for key, part in value.items()]
        else:
            found = [(name, ctime(value) if isinstance(value, _Moment) else str(value))]
        lines += [f"    {n} = {v}" if wide else _pbs.folded(n, v) for n, v in found]
    return "\n".join([f"Job Id: {id}", *lines, "", ""])


def _short(farm: Farm, jobs: list[Job], now: float) -> str:
    if not jobs:
        return ""
    lines = [
        "Job ID                    Name             User            Time Use S Queue",
        "------------------------- ---------------- --------------- -------- - -----",
    ]
    for job in jobs:
        used = "0" if not job.ended or job.is_array else clock(job.cpu)
        name = job.name if job.index is None else f"{job.name}-{job.index}"
        letter = _pbs.letter(job, now, "C", "R")
        lines.append(
            f"{job.key + '.' + farm.settings.host:<26} {name[-16:]:<16} {job.owner[:15]:<15} "
            f"{used:>8} {letter} {job.queue:<15}"
        )
    return "\n".join(lines) + "\n"


FRONT_END = Torque()
