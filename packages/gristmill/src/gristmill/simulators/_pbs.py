"""What the front ends of OpenPBS and Torque share: qsub's words, ids, states and attributes."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gristmill.simulators.farm import Ending, Farm, Job, State, state_of
from gristmill.simulators.frontend import (
    Answer,
    Call,
    FrontEnd,
    Options,
    cancel,
    each_member,
    kept_environment,
    read_options,
    signal_number,
)

SUBMIT_FLAGS = ("-f", "-h", "-I", "-V", "-X", "-x", "-z", "-n", "-E", "--version")
# depend=TYPE -> what our farm calls it
RELATIONS = {
    "after": "start",
    "afterok": "ok",
    "afternotok": "notok",
    "afterany": "any",
    "afterstartarray": "start",
    "afterokarray": "ok",
    "afternotokarray": "notok",
    "afteranyarray": "any",
}
SIZES = {"": 1, "b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4}
_ID = re.compile(r"(\d+)(\[(?:\d*)\])?(?:\.(\S+))?")


class Wrong(Exception):
    """A command line or request that is refused, with what is printed and the exit status."""

    def __init__(self, text: str, rc: int) -> None:
        super().__init__(text)
        self.answer = Answer("", text, rc)


def directives(script: str, prefix: str = "#PBS") -> Iterator[str]:
    """The words of the directive lines, which end at the first line that is a command."""
    for line in script.splitlines():
        text = line.strip()
        if text.startswith(prefix):
            yield from shlex.split(text[len(prefix) :], comments=True)
        elif text and not text.startswith(("#", ":")):
            return


def merged(script: str, words: list[str], valued: tuple[str, ...]) -> Options:
    """Options of the directives, then of the command line, which come last and so win."""
    header = read_options(list(directives(script)), SUBMIT_FLAGS, valued)
    line = read_options(words, SUBMIT_FLAGS, valued, mixed=False)
    for name, values in line.values.items():
        header.values.setdefault(name, []).extend(values)
    return Options(header.values, line.rest, line.wrong or header.wrong)


def script_of(request: Call, rest: list[str], missing: str) -> str:
    if not rest or rest[0] == "-":
        return request.stdin()
    path = Path(request.directory, rest[0])
    if not path.is_file():
        raise Wrong(missing.format(rest[0]), 1)
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def resources(
    options: Options, known: Iterable[str], unknown: Callable[[str], Wrong]
) -> dict[str, str]:
    """All -l of the command, later ones winning. Commas inside `select` and `nodes` are kept."""
    found: dict[str, str] = {}
    for text in options.all("-l"):
        for part in text.split(","):
            name, _, value = part.partition("=")
            if name not in known and not name.startswith("lic_"):
                raise unknown(name)
            found.pop(name, None)  # the order is that of the last mention
            found[name] = value
    return found


def walltime(text: str, illegal: Wrong) -> int:
    """`[[HH:]MM:]SS`."""
    parts = text.split(":")
    if not all(part.isdigit() for part in parts) or len(parts) > 3:
        raise illegal
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total


def size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmgt]?b?)", text.lower())
    if not match:
        return 0
    unit = match[2]
    return int(match[1]) * SIZES[unit if unit in SIZES else unit + "b"]


def shape(found: Mapping[str, str]) -> tuple[int, int, int | None]:
    """Nodes, cores and bytes of `select=`, `nodes=` or `ncpus=` and `mem=`."""
    nodes, cores, memory = 0, 0, 0
    for chunk in (found.get("select") or found.get("nodes") or "1").split("+"):
        head, *parts = chunk.split(":")
        count = int(head) if head.isdigit() else 1
        values = dict(part.partition("=")[::2] for part in parts)
        nodes += count
        cores += count * int(values.get("ncpus") or values.get("ppn") or 1)
        memory += count * size(values.get("mem", "0"))
    if "ncpus" in found:
        cores = int(found["ncpus"])
    whole = size(found.get("mem", "0")) or memory
    return nodes, cores, whole or None


def variables(request: Call, options: Options) -> dict[str, str]:
    """-v (`A=1,B="'x,y'",NAME`) and -V."""
    found = dict(request.environment) if "-V" in options else {}
    for text in options.all("-v"):
        for part in re.findall(r"""((?:[^,'"]|'[^']*'|"[^"]*")+)""", text):
            name, equals, value = part.partition("=")
            if equals:
                found[name] = value.strip("\"'")
            elif name in request.environment:
                found[name] = request.environment[name]
    return found


def dependencies(options: Options) -> list[tuple[str, str]]:
    """(type, id as written) of every -W depend=."""
    found = []
    for text in options.all("-W"):
        for part in re.findall(r"depend=([^\s]+)", text):
            for term in part.split(","):
                kind, *targets = term.split(":")
                found += [(kind, target) for target in targets]
    return found


def begin_time(text: str, now: float) -> float:
    """-a: `[[[[CC]YY]MM]DD]hhmm[.SS]`, in local time; what is missing is the next such time."""
    digits, _, seconds = text.partition(".")
    digits = digits if len(digits) != 10 else f"20{digits}"
    today = time.strftime("%Y%m%d%H%M", time.localtime(now))
    full = today[: 12 - len(digits)] + digits
    return time.mktime(time.strptime(full + (seconds or "00"), "%Y%m%d%H%M%S"))


def key_of(text: str) -> str | None:
    """`12[3].host` -> `12[3]`; None when it is no job id."""
    match = _ID.fullmatch(text)
    return match[1] + (match[2] or "") if match else None


def job_environment(farm: Farm, job: Job, index_name: str, array_name: str) -> dict[str, str]:
    host = farm.settings.host
    found = {
        "PBS_JOBID": f"{job.key}.{host}",
        "PBS_JOBNAME": job.name,
        "PBS_QUEUE": job.queue,
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_O_HOST": host,
        "PBS_O_WORKDIR": job.native["workdir"],
        "PBS_O_QUEUE": job.queue,
        "PBS_SERVER": host,
        "NCPUS": str(job.cores),
    }
    if job.index is not None:
        found[index_name] = str(job.index)
        if array_name:
            found[array_name] = f"{job.array}.{host}"
    return found


def base_environment(request: Call, own: Mapping[str, str]) -> dict[str, str]:
    have = kept_environment(request)
    listed = {
        f"PBS_O_{name}": have[name] for name in ("HOME", "LOGNAME", "PATH", "SHELL") if name in have
    }
    return {**have, **listed, **own}


def output_path(directory: str, given: str, default: str) -> str:
    """-o and -e: `[host:]path`, from the folder of the submission; a folder takes the default."""
    path = re.sub(r"^[\w.-]+:(?=/)", "", given)
    if not path:
        return str(Path(directory, default))
    full = Path(directory, path)
    return str(full / default) if path.endswith("/") or full.is_dir() else str(full)


def letter(job: Job, now: float, finished: str, begun: str = "B") -> str:
    if job.state is State.ENDED:
        return finished
    if job.is_array and job.native.get("begun"):
        return begun
    if job.state is State.SUSPENDED:
        return "S"
    if job.state is State.RUNNING:
        return "E" if job.kill else "R"
    if job.holds or job.edges or job.never:
        return "H"
    return "W" if (job.begin or 0) > now else "Q"


def hold_types(job: Job) -> str:
    letters = job.holds + ("s" if (job.edges or job.never) and "s" not in job.holds else "")
    return letters or "n"


def refreshed(farm: Farm, job: Job) -> Job:
    """An array as its elements make it look."""
    if job.is_array and job.state is not State.ENDED:
        members = [member for member in farm.members(job.number) if not member.is_array]
        job.native["begun"] = state_of(members) is not State.WAITING
        job.started = min((m.started for m in members if m.started), default=None)
        job.native["counts"] = {
            state: sum(member.state is state for member in members) for state in State
        }
        waiting = [member for member in members if member.state is State.WAITING]
        job.native["remaining"] = [member.index for member in waiting]
        job.edges = waiting[0].edges if waiting else []
    return job


def exit_status(job: Job) -> int:
    """128 + n after a signal that the job's shell saw, 256 + n after one that we sent."""
    if job.signal and job.native.get("signalled"):
        return 256 + job.signal
    return job.exit_code


def known(farm: Farm, job: Job, now: float) -> bool:
    """Whether the server still remembers an ended job."""
    return job.state is not State.ENDED or now - (job.ended or 0) < farm.settings.history


class PbsFrontEnd(FrontEnd):
    """The commands that differ little: qdel, qhold, qrls, qsig, qselect."""

    spools = True
    lost = Answer("", "qsub: Communication failure\n", 183)

    def unknown_server(self, farm: Farm) -> str:
        return farm.settings.host

    def full(self, farm: Farm, job: Job) -> str:
        return f"{job.key}.{farm.settings.host}"

    def chosen(
        self, request: Call, ids: Iterable[str], command: str
    ) -> tuple[list[Job], list[str], int]:
        """The jobs of these ids, what is said of the others, and the exit status."""
        jobs, said, rc = [], [], 0
        for text in ids:
            key = key_of(text)
            if key is None:
                said.append(f"{command}: illegally formed job identifier: {text}\n")
                rc = 1
                continue
            job = self.lookup(request.farm, text, key)
            if job is None or not known(request.farm, job, request.now):
                said.append(self.says_unknown(request.farm, command, text))
                rc = 153
            elif job.state is State.ENDED:
                line, rc = self.says_ended(request.farm, command, job)
                said.append(line)
            else:
                jobs.append(job)
        return jobs, said, rc

    def lookup(self, farm: Farm, text: str, key: str) -> Job | None:
        return farm.get(key)

    def says_unknown(self, farm: Farm, command: str, text: str) -> str:
        raise NotImplementedError

    def says_ended(self, farm: Farm, command: str, job: Job) -> tuple[str, int]:
        raise NotImplementedError

    def qhold(self, request: Call) -> Answer:
        def add(job: Job) -> None:
            job.holds = "".join(sorted({*job.holds, *kinds} - {"n"}))

        options = read_options(request.words, (), ("-h", "-t"))
        kinds = options.last("-h", "u")
        if denied := self._operators_only("qhold", kinds, options.rest):
            return denied
        jobs, said, rc = self.chosen(request, options.rest, "qhold")
        for job in jobs:
            each_member(request.farm, job, add)
        return Answer("", "".join(said), rc)

    def qrls(self, request: Call) -> Answer:
        def drop(job: Job) -> None:
            job.holds = "".join(letter for letter in job.holds if letter not in kinds)

        options = read_options(request.words, (), ("-h", "-t"))
        kinds = options.last("-h", "u")
        if denied := self._operators_only("qrls", kinds, options.rest):
            return denied
        jobs, said, rc = self.chosen(request, options.rest, "qrls")
        for job in jobs:
            each_member(request.farm, job, drop)
        return Answer("", "".join(said), rc)

    def _operators_only(self, command: str, kinds: str, ids: list[str]) -> Answer | None:
        """Users may set and release user holds only."""
        if set(kinds) <= {"u", "n"}:
            return None
        return Answer("", "".join(f"{command}: Unauthorized Request  {id}\n" for id in ids), 159)

    def qdel(self, request: Call) -> Answer:
        options = read_options(request.words, ("-x", "-p"), ("-W", "-t", "-m"))
        if "-p" in options:
            said = [f"qdel: Unauthorized Request  {id}\n" for id in options.rest]
            return Answer("", "".join(said), 159)
        jobs, said, rc = self.chosen(request, options.rest, "qdel")
        for job in jobs:
            if picked := options.last("-t"):
                jobs_of = request.farm.members(job.number)
                targets = [j for j in jobs_of if j.index is not None and str(j.index) in picked]
            else:
                targets = [job]
            for target in targets:
                cancel(request.farm, target, request.now)
        if "-x" in options and rc == 35:
            for id in options.rest:
                if ended := request.farm.get(key_of(id) or ""):
                    request.farm.delete(ended)
            return Answer()
        return Answer("", "".join(said), rc)

    def qsig(self, request: Call) -> Answer:
        options = read_options(request.words, (), ("-s",))
        name = options.last("-s", "TERM").upper().removeprefix("SIG")
        if name in ("SUSPEND", "RESUME", "ADMIN-SUSPEND"):
            said = [f"qsig: Unauthorized Request  {id}\n" for id in options.rest]
            return Answer("", "".join(said), 159)
        number = signal_number(name)
        if not number:
            said = [f"qsig: Unknown Signal {id}\n" for id in options.rest]
            return Answer("", "".join(said), 172)
        jobs, said, rc = self.chosen(request, options.rest, "qsig")
        for job in jobs:
            if job.pid is None and not job.is_array:
                said.append(
                    f"qsig: Request invalid for state of job {self.full(request.farm, job)}\n"
                )
                rc = rc or 170
            each_member(request.farm, job, lambda member: _queue_signal(member, number))
        return Answer("", "".join(said), rc)

    def qselect(self, request: Call) -> Answer:
        options = read_options(request.words, ("-x",), ("-s", "-u", "-N", "-q"))
        lines = [
            self.full(request.farm, job)
            for job in request.farm.jobs()
            if job.index is None
            and known(request.farm, job, request.now)
            and ("-x" in options or job.state is not State.ENDED)
            and ("-u" not in options or job.owner == options.last("-u"))
        ]
        return Answer("".join(f"{line}\n" for line in lines))

    def kill_note(self, job: Job, now: float) -> str:
        used = int(now - (job.started or now))
        if job.kill == Ending.WALLTIME:
            return f"=>> PBS: job killed: walltime {used} exceeded limit {job.walltime}\n"
        if job.kill == Ending.MEMORY:
            have, limit = job.peak // 1024, (job.memory or 0) // 1024
            return f"=>> PBS: job killed: mem {have}kb exceeded limit {limit}kb\n"
        return ""


def _queue_signal(job: Job, number: int) -> None:
    if job.pid is not None:
        job.signals.append(number)
        job.native["signalled"] = True


def folded(name: str, value: str) -> str:
    """`    name = value`, folded at column 80 with a tab, at commas where there are some."""
    lines, line = [], f"    {name} = {value}"
    width = 79
    while len(line) > width:
        cut = line.rfind(",", 0, width) + 1
        if cut <= 12:
            cut = width
        lines.append(line[:cut])
        line, width = line[cut:], 71
    return "\n\t".join([*lines, line])
