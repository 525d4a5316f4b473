"""HTCondor 23: condor_submit, condor_q, condor_history, condor_rm, _hold, _release, _status.

Facts: the manual of HTCondor 23.0 (command reference, job ClassAd attributes); no real HTCondor
was at hand. A queue of one schedd; no DAGMan; every machine is one.
"""

from __future__ import annotations

import fnmatch
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gristmill.simulators.farm import Ending, Farm, Job, State
from gristmill.simulators.frontend import (
    Answer,
    Call,
    FrontEnd,
    cancel,
    each_member,
    read_options,
)

HELD_AT_SUBMIT, HELD_BY_USER = 15, 1  # HoldReasonCode
MEMORY, DURATION = 34, 47
AWAY = "-- Failed to fetch ads from: <127.0.0.1:9618> : farm\nSECMAN:2007:Failed to end classad\n"


class HtCondor(FrontEnd):
    """One schedd and one startd."""

    lost = Answer("", "\nERROR: Failed to commit job submission into the queue.\n", 1)
    down: ClassVar[Mapping[str, Answer]] = {
        "*": Answer("", AWAY, 1),
        "condor_submit": Answer("", "\nERROR: Can't find address of local schedd\n", 1),
    }

    # -- submission

    def condor_submit(self, request: Call) -> Answer:
        options = read_options(
            request.words, ("-terse", "-verbose"), ("-append", "-a", "-name", "-batch-name")
        )
        if not options.rest or options.rest[0] == "-":
            text = request.stdin()
        else:
            path = Path(request.directory, options.rest[0])
            if not path.is_file():
                said = f"\nERROR: Failed to open command file {path}\n"
                return Answer("", said, 1)
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        values, items = _read(text)
        for extra in options.all("-append") + options.all("-a"):
            name, _, value = extra.partition("=")
            values[name.strip().lower()] = value.strip()
        if "executable" not in values:
            return Answer("", "\nERROR: No 'executable' parameter was provided\n", 1)
        program = Path(request.directory, values["executable"])
        if not program.is_file():
            return Answer("", f"\nERROR: Executable file {program} does not exist\n", 1)
        number = request.farm.next_number()
        script = program.read_text(encoding="utf-8", errors="surrogateescape")
        for proc, item in enumerate(items):
            job = self._job(request, number, proc, dict(values), item)
            request.farm.add(job, script, _environment(request, values.get("getenv", "")))
        last = len(items) - 1
        if "-terse" in options:
            return Answer(f"{number}.0 - {number}.{last}\n")
        return Answer(f"Submitting job(s).\n{last + 1} job(s) submitted to cluster {number}.\n")

    def _job(
        self, request: Call, number: int, proc: int, values: dict[str, str], item: Mapping[str, str]
    ) -> Job:
        macros = {"cluster": number, "clusterid": number, "process": proc, "procid": proc, **item}

        def expanded(name: str, default: str = "") -> str:
            return re.sub(
                r"\$\((\w+)\)",
                lambda match: str(macros.get(match[1].lower(), values.get(match[1].lower(), ""))),
                values.get(name, default),
            )

        held = expanded("hold").lower() == "true"
        deferred = expanded("deferral_time")
        memory = _megabytes(expanded("request_memory"))
        duration = expanded("allowed_execute_duration") or expanded("allowed_job_duration")
        own = {key[1:]: expanded(key).strip('"') for key in values if key.startswith("+")}
        own |= {key[3:]: expanded(key).strip('"') for key in values if key.startswith("my.")}
        return Job(
            key=f"{number}.{proc}",
            number=number,
            name=expanded("batch_name") or Path(expanded("executable")).name,
            owner=request.user,
            queue="vanilla",
            holds="u" if held else "",
            cores=int(expanded("request_cpus", "1")),
            memory=memory,
            walltime=int(duration) if duration else None,
            begin=float(deferred) if deferred else None,
            directory=expanded("initialdir") or request.directory,
            stdin=expanded("input") or "/dev/null",
            stdout=expanded("output") or "/dev/null",
            stderr=expanded("error") or "/dev/null",
            arguments=expanded("arguments").split(),
            submitted=request.now,
            native={
                "own": own,
                "proc": proc,
                "hold_code": HELD_AT_SUBMIT if held else 0,
                "hold_reason": "submitted on hold at user's request" if held else "",
                "priority": int(expanded("priority", "0")),
                "group": expanded("accounting_group"),
            },
        )

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        return {
            "_CONDOR_SLOT": "slot1",
            "_CONDOR_SCRATCH_DIR": job.directory,
            "_CONDOR_JOB_AD": str(self._ad_file(farm, job)),
        }

    def _ad_file(self, farm: Farm, job: Job) -> Path:
        """The job's own ad, which a running job may read."""
        folder = farm.root / "ads"
        folder.mkdir(exist_ok=True)
        path = folder / f"{job.key}.ad"
        pairs = {**job.native["own"], "ClusterId": job.number, "ProcId": job.native["proc"]}
        lines = (
            f"{key} = {value}"
            if isinstance(value, int) or str(value).isdigit()
            else f'{key} = "{value}"'
            for key, value in pairs.items()
        )
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        def path(text: str) -> str:
            return text if text.startswith("/") else f"{job.directory}/{text}"

        out, err = path(job.stdout), path(job.stderr)
        return path(job.stdin), out, "" if err == out else err

    # -- actions

    def condor_rm(self, request: Call) -> Answer:
        return self._act(request, "removed", "marked for removal", cancel_it)

    def condor_hold(self, request: Call) -> Answer:
        def hold(job: Job) -> None:
            job.holds = "u"
            job.native |= {
                "hold_code": HELD_BY_USER,
                "hold_reason": f"via condor_hold (by user {request.user})",
            }

        return self._act(request, "held", "held", lambda r, job: each_member(r.farm, job, hold))

    def condor_release(self, request: Call) -> Answer:
        def release(job: Job) -> None:
            job.holds = ""

        return self._act(
            request, "released", "released", lambda r, job: each_member(r.farm, job, release)
        )

    def _act(self, request: Call, verb: str, done: str, change: Any) -> Answer:
        """By id or by -constraint; an id that is not in the queue is an error."""
        options = read_options(request.words, ("-all",), ("-constraint", "-reason", "-subcode"))
        out, err = "", ""
        plain = {"removed": "remove", "held": "hold", "released": "release"}[verb]
        for text in options.rest:
            jobs = [job for job in _cluster(request.farm, text) if job.state is not State.ENDED]
            if verb == "released":
                jobs = [job for job in jobs if job.holds]
            for job in jobs:
                change(request, job)
            what = f"Job {text}" if "." in text else f"All jobs in cluster {text}"
            if jobs:
                out += f"{what} {'has' if '.' in text else 'have'} been {done}\n"
            else:
                err += f"Couldn't find/{plain} all jobs in cluster {text}\n"
        for rule in options.all("-constraint"):
            jobs = [job for job in request.farm.unfinished() if _matches(job, rule)]
            for job in jobs:
                change(request, job)
            if jobs:
                out += f"Jobs matching constraint {rule} have been {done}\n"
            else:
                err += f"Couldn't find/{plain} all jobs matching constraint {rule}\n"
        return Answer(out, err, 1 if err else 0)

    # -- queries

    def condor_q(self, request: Call) -> Answer:
        jobs = self._chosen(request, request.farm.unfinished())
        return self._listing(request, jobs)

    def condor_history(self, request: Call) -> Answer:
        kept = request.farm.settings.history
        ended = [
            job
            for job in request.farm.jobs()
            if job.state is State.ENDED and request.now - (job.ended or 0) < kept
        ]
        return self._listing(request, list(reversed(self._chosen(request, ended))))

    def _chosen(self, request: Call, jobs: list[Job]) -> list[Job]:
        options = self._options(request)
        rules = options.all("-constraint")
        return [
            job
            for job in jobs
            if (not options.rest or {job.key, str(job.number)} & set(options.rest))
            and all(_matches(job, rule) for rule in rules)
        ]

    def _options(self, request: Call) -> Any:
        return read_options(
            request.words,
            ("-json", "-nobatch", "-allusers", "-long"),
            ("-constraint", "-attributes", "-af", "-limit", "-since", "-match"),
        )

    def _listing(self, request: Call, jobs: list[Job]) -> Answer:
        options = self._options(request)
        if options.wrong:
            return Answer("", f"Error: unknown option {options.wrong}\n", 1)
        names = [name for name in options.last("-attributes").split(",") if name]
        ads = [dict(_ad(request, job)) for job in jobs]
        if names:
            ads = [{key: ad[key] for key in names if key in ad} for ad in ads]
        if "-json" not in options:
            lines = [f"{job.key:<10} {job.owner:<12} {_status(job)}" for job in jobs]
            return Answer("\n".join([" ID        OWNER        ST", *lines, ""]))
        if not ads:
            return Answer("")  # nothing at all, not an empty list
        return Answer("[\n" + ",\n".join(json.dumps(ad, indent=2) for ad in ads) + "\n]\n")

    def condor_status(self, request: Call) -> Answer:
        settings = request.farm.settings
        used = sum(job.cores for job in request.farm.unfinished() if job.pid is not None)
        ad = {
            "Machine": settings.host,
            "Name": f"slot1@{settings.host}",
            "SlotType": "Partitionable",
            "State": "Unclaimed",
            "Activity": "Idle",
            "TotalCpus": settings.cores,
            "Cpus": settings.cores - used,
            "TotalMemory": settings.memory // 1024**2,
            "Memory": settings.memory // 1024**2,
            "Arch": "X86_64",
        }
        return Answer(f"[\n{json.dumps(ad, indent=2)}\n]\n")


def _environment(request: Call, getenv: str) -> dict[str, str]:
    """`getenv`: true, or names with wildcards; without it a job gets nothing."""
    if getenv.lower() == "true":
        return dict(request.environment)
    names = [name.strip() for name in getenv.split(",") if name.strip()]
    return {
        name: value
        for name, value in request.environment.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
    }


def cancel_it(request: Call, job: Job) -> None:
    cancel(request.farm, job, request.now)


def _read(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The commands, and the items of `queue`, `queue N` and `queue NAME in (a b)`."""
    values: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = line.strip()
        if re.match(r"queue\b", words, re.IGNORECASE):
            found = re.fullmatch(r"queue\s+(\w+)\s+in\s+\((.*)\)", words, re.IGNORECASE)
            if found:
                items = found[2].replace(",", " ").split()
                return values, [{found[1].lower(): item} for item in items]
            count = words[5:].strip()
            return values, [{} for _ in range(int(count or 1))]
        if words and not words.startswith("#"):
            name, _, value = words.partition("=")
            values[name.strip().lower() if name[0] != "+" else name.strip()] = value.strip()
    return values, []


def _megabytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)\s*([KMG]?)B?", text.strip().upper())
    return int(match[1]) * 1024 ** ("KMG".index(match[2] or "M") + 1) if match else None


def _cluster(farm: Farm, text: str) -> list[Job]:
    if "." in text:
        job = farm.get(text)
        return [job] if job else []
    return farm.members(int(text)) if text.isdigit() else []


def _matches(job: Job, rule: str) -> bool:
    """ClusterId == 1 && GristmillIndex == 2, in any order, joined by `||`."""
    values = {"ClusterId": str(job.number), "ProcId": str(job.native["proc"]), **job.native["own"]}
    return any(
        all(
            values.get(name) == value
            for name, value in re.findall(r"(\w+)\s*==\s*\"?(\w+)\"?", alternative)
        )
        for alternative in rule.split("||")
    )


def _status(job: Job) -> int:
    """JobStatus: idle, running, removed, completed, held, -, suspended."""
    if job.state is State.ENDED:
        removed = job.ending not in (Ending.EXIT, "")
        return 3 if removed else 4
    if job.pid is not None:
        return 2
    return 5 if job.holds else 1


def _ad(request: Call, job: Job) -> Iterator[tuple[str, Any]]:
    yield "ClusterId", job.number
    yield "ProcId", job.native["proc"]
    yield "Owner", job.owner
    yield "JobStatus", _status(job)
    yield "JobBatchName", job.name
    yield "QDate", int(job.submitted)
    yield "EnteredCurrentStatus", int(job.ended or job.started or job.submitted)
    yield "RequestCpus", job.cores
    yield "JobPrio", job.native["priority"]
    if job.native["group"]:
        yield "AccountingGroup", job.native["group"]
    for name, value in job.native["own"].items():
        yield name, int(value) if value.isdigit() and name.endswith("Index") else value
    if job.holds:
        yield "HoldReasonCode", job.native["hold_code"]
        yield "HoldReason", job.native["hold_reason"]
    if job.started:
        yield "JobCurrentStartDate", int(job.started)
        yield "JobStartDate", int(job.started)
        yield "NumJobStarts", 1
        host = f"slot1@{request.farm.settings.host}"
        yield ("LastRemoteHost" if job.ended else "RemoteHost"), host
        yield "RemoteUserCpu", round(job.cpu, 3)
        yield "RemoteSysCpu", 0.0
        yield "ResidentSetSize", job.peak // 1024
        yield "RemoteWallClockTime", round((job.ended or time.time()) - job.started, 3)
    if job.state is State.ENDED:
        yield from _end(job)


def _end(job: Job) -> Iterator[tuple[str, Any]]:
    """A job over a limit is held, and then removed when its submit file says so."""
    if job.ending == Ending.EXIT:
        yield "CompletionDate", int(job.ended or 0)
        yield "ExitBySignal", bool(job.signal)
        yield ("ExitSignal", job.signal) if job.signal else ("ExitCode", job.code or 0)
        return
    yield "CompletionDate", 0
    if job.ending == Ending.CANCELLED:
        yield "RemoveReason", f"via condor_rm (by user {job.owner})"
        return
    yield "RemoveReason", "The job attribute PeriodicRemove expression evaluated to TRUE"
    code = {Ending.MEMORY: MEMORY, Ending.WALLTIME: DURATION}.get(Ending(job.ending), 6)
    words = {
        MEMORY: "Job has gone over cgroup memory limit",
        DURATION: "The job exceeded allowed execute duration",
    }
    yield "LastHoldReasonCode", code
    yield "LastHoldReason", words.get(code, "Failed to execute")


FRONT_END = HtCondor()
