"""What a front end is: the commands of one manager, as functions from words to an answer.

A command gets a `Call` and gives an `Answer`; `answer` wraps it in one transaction and applies
the planned fault. The supervisor asks a front end for the environment and files of a job.
"""

from __future__ import annotations

import importlib
import os
import pwd
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gristmill.simulators.farm import Ending, Farm, Job, State, end_waiting

NOISE = (
    b"************************************************\n"
    b"*  Maintenance on Tuesday. Bonne journ\xe9e.        *\n"  # Latin-1, as sites do
    b"************************************************\n"
)

# manager -> (module, commands)
MANAGERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "openpbs": (
        "openpbs",
        (
            *("qsub", "qstat", "qdel", "qhold", "qrls", "qsig", "qselect", "pbsnodes", "tracejob"),
            "pbs_hostn",
        ),
    ),
    "torque": (
        "torque",
        ("qsub", "qstat", "qdel", "qhold", "qrls", "qsig", "qselect", "pbsnodes", "tracejob"),
    ),
    "moab": (
        "moab",
        ("msub", "showq", "checkjob", "mjobctl", "canceljob", "showstart", "mdiag"),
    ),
    "loadleveler": (
        "loadleveler",
        ("llsubmit", "llq", "llcancel", "llhold", "llstatus", "llclass", "llsummary"),
    ),
    "lsf": (
        "lsf",
        ("bsub", "bjobs", "bkill", "bstop", "bresume", "bhist", "bacct", "bqueues", "bhosts"),
    ),
    "htcondor": (
        "htcondor",
        (
            "condor_submit",
            "condor_q",
            "condor_history",
            "condor_rm",
            "condor_hold",
            "condor_release",
            "condor_status",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints, and its exit status."""

    stdout: str = ""
    stderr: str = ""
    rc: int = 0


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of a command: who, where, when and with what words."""

    farm: Farm
    words: list[str]
    stdin: Callable[[], str]
    environment: Mapping[str, str]
    directory: str
    user: str
    now: float


class FrontEnd:
    """One manager. Subclass it, and name the commands' methods like the commands."""

    spools = False  #: output appears when the job ends
    kills_for_memory = True
    limits_address_space = False
    # what the commands print, by command (`*`: any), when the daemon is down
    down: ClassVar[Mapping[str, Answer]] = {"*": Answer("", "connection refused\n", 1)}
    # what a command prints when it had its effect but its answer was lost
    lost: Answer = Answer("", "timed out\n", 1)

    def command(self, name: str) -> Callable[[Call], Answer]:
        found: Callable[[Call], Answer] = getattr(self, name)
        return found

    def environment(self, farm: Farm, job: Job) -> dict[str, str]:
        """What the manager adds to a job's environment."""
        return {}

    def files(self, farm: Farm, job: Job, environment: Mapping[str, str]) -> tuple[str, str, str]:
        """stdin, stdout and stderr (empty: with stdout) as paths, at the job's start."""
        return job.stdin, job.stdout, job.stderr

    def kill_note(self, job: Job, now: float) -> str:
        """What the manager writes into the output of a job that it kills."""
        return ""

    def ends_hopeless(self, job: Job) -> bool:
        """Whether a job ends when its dependency can no longer be satisfied."""
        return True


def load(manager: str) -> FrontEnd:
    module = importlib.import_module(f"gristmill.simulators.{MANAGERS[manager][0]}")
    found: FrontEnd = module.FRONT_END
    return found


def call(farm: Farm, words: Sequence[str], stdin: Callable[[], str]) -> Call:
    """A call as this process makes it."""
    return Call(
        farm=farm,
        words=list(words),
        stdin=stdin,
        environment=dict(os.environ),
        directory=str(Path.cwd()),
        user=pwd.getpwuid(os.getuid()).pw_name,
        now=time.time(),
    )


def answer(front: FrontEnd, name: str, request: Call) -> tuple[bytes, bytes, int]:
    """Run a command, and spoil its answer when a fault is planned for it."""
    with request.farm.transaction():
        fault = request.farm.take_fault(name)
        kind = fault["kind"] if fault else ""
        if kind == "down":
            return _bytes(front.down.get(name, front.down["*"]))
        said = front.command(name)(request)
    if fault and kind in ("slow", "hang"):
        time.sleep(fault["seconds"])
    spoil = _SPOIL.get(kind)
    return spoil(front, said) if spoil else _bytes(said)


def _bytes(said: Answer) -> tuple[bytes, bytes, int]:
    return (
        said.stdout.encode("utf-8", "surrogateescape"),
        said.stderr.encode("utf-8", "surrogateescape"),
        said.rc,
    )


def _banner(_: FrontEnd, said: Answer) -> tuple[bytes, bytes, int]:
    out, err, rc = _bytes(said)
    return NOISE + out, err, rc


def _truncated(_: FrontEnd, said: Answer) -> tuple[bytes, bytes, int]:
    out, err, rc = _bytes(said)
    return out[: len(out) // 2], err, rc


# kinds of fault -> what they make of an answer; `down`, `slow` and `hang` are handled above
_SPOIL: Mapping[str, Callable[[FrontEnd, Answer], tuple[bytes, bytes, int]]] = {
    "lost_answer": lambda front, _: _bytes(front.lost),
    "empty": lambda _, said: (b"", b"", 0),
    "truncated": _truncated,
    "banner": _banner,
    "warning": lambda _, said: _bytes(replace(said, stderr=f"warning: clock skew\n{said.stderr}")),
}
FAULTS = ("down", "slow", "hang", *_SPOIL)


# -- steps that several front ends share


@dataclass(slots=True)
class Options:
    """Words read as by getopt: letters with and without a value, then the rest."""

    values: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)
    wrong: str = ""  #: the first option that is not known, or lacks its value

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def last(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[-1]

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])


def read_options(
    words: Sequence[str], flags: Collection[str], valued: Collection[str], *, mixed: bool = True
) -> Options:
    """Options by name, `-x value`, `-xvalue` (one letter), `--name=value`.

    `mixed`: options may follow other words. `--` ends them.
    """
    found, waiting = Options(), list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            found.rest += waiting
            break
        if not word.startswith("-") or word == "-":
            found.rest.append(word)
            if not mixed:
                found.rest += waiting
                break
        elif word in flags:
            found.values.setdefault(word, []).append("")
        elif word in valued:
            if not waiting:
                found.wrong = found.wrong or word
                break
            found.values.setdefault(word, []).append(waiting.pop(0))
        elif equals and name in valued and name.startswith("--"):
            found.values.setdefault(name, []).append(value)
        elif word[:2] in valued and not word.startswith("--"):
            found.values.setdefault(word[:2], []).append(word[2:])
        else:
            found.wrong = found.wrong or word
    return found


def kept_environment(request: Call, *names: str) -> dict[str, str]:
    """What every manager's job gets of its submitter's environment, and the names asked for."""
    always = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TZ", "TMPDIR")
    have = request.environment
    return {name: have[name] for name in (*always, *names) if name in have}


def cancel(farm: Farm, job: Job, now: float) -> None:
    """Cancel a job or all elements of an array. What runs is left to the supervisor."""
    for member in farm.members(job.number) if job.is_array else [job]:
        if member.state is State.ENDED:
            continue
        if member.pid is None:
            end_waiting(member, Ending.CANCELLED, now)
        else:
            member.kill = Ending.CANCELLED
        farm.save(member)


def each_member(farm: Farm, job: Job, change: Callable[[Job], Any]) -> None:
    """Apply a change to a job, or to an array and its elements that have not ended."""
    for member in farm.members(job.number) if job.is_array else [job]:
        if member.state is not State.ENDED:
            change(member)
            farm.save(member)


def clock(value: float | None) -> str:
    """HH:MM:SS."""
    whole = int(value or 0)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def ctime(value: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(value))


def indices(text: str) -> list[int]:
    """`0-9:2,12` as numbers. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        found.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def signal_number(name: str) -> int:
    """`USR1`, `SIGUSR1` and `10` are 10; 0 when there is no such signal."""
    if name.isdigit():
        return int(name)
    word = f"SIG{name.upper().removeprefix('SIG')}"
    return int(signal.Signals[word]) if word in signal.Signals.__members__ else 0


def kib(job: Job) -> int:
    return job.peak // 1024
