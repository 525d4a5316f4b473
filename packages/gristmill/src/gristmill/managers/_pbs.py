"""What PBS Pro and Torque share: directives, ids, holds, signals and the meaning of their words."""

from __future__ import annotations

import calendar
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from gristmill import patterns, quantities
from gristmill.commands import Ask, Command, Output
from gristmill.errors import (
    CommandFailed,
    Denied,
    HistoryUnavailable,
    ParseError,
    Transient,
    Unclear,
)
from gristmill.jobs import Hold, JobState, MailEvent, Relation
from gristmill.managers import _common, wrapper
from gristmill.managers.base import Dialect, Edge, Rendering, Request, Sheet
from gristmill.records import Cause, Outcome, Record, Source

# qstat(1B), state; F and X are PBS Pro's, C is Torque's
STATES = {
    "T": JobState.QUEUED,
    "Q": JobState.QUEUED,
    "W": JobState.QUEUED,
    "M": JobState.QUEUED,
    "H": JobState.HELD,
    "R": JobState.RUNNING,
    "B": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
    "E": JobState.COMPLETING,
    "F": JobState.DONE,
    "X": JobState.DONE,
    "C": JobState.DONE,
}
ENDED = frozenset("FXC")
MAIL = {MailEvent.BEGIN: "b", MailEvent.END: "e", MailEvent.ABORT: "a"}
# dependencies that surely have our meaning; what a target deleted before its start does to
# `after` and `afternotok` is not documented
RELATIONS = {Relation.AFTER_OK: "afterok", Relation.AFTER_ANY: "afterany"}
HOLDS = {Hold.USER: "u", Hold.SYSTEM: "s"}
FAULTS: tuple[tuple[str, type[CommandFailed]], ...] = (
    (r"[Cc]ommunication failure|DIS error|End of File|Premature end of message", Unclear),
    (r"[Tt]imed? ?out|Connection reset|batch protocol error", Unclear),
    (r"not configured to maintain job history", HistoryUnavailable),
    (r"Unauthorized Request|[Pp]ermission denied|Not Authorized", Denied),
    (r"cannot connect to server|Couldn't connect|Connection refused|trqauthd", Transient),
    (
        r"cannot connect to host|Server shutting down|Server (?:too )?busy|Resource temporar",
        Transient,
    ),
    (r"Unable to authenticate connection|System error|no free connections", Transient),
)
MARK = "GRISTMILL_MARK"
MARK_PREFIX = "gm."  # a token of digits alone would be written as a number by PBS Pro
_ID = re.compile(r"(\d+)(\[\d*\])?(?:\.(\S+))?")
# not strptime, which reads the names of months in the locale of this process
_CTIME = re.compile(r"\w{3} (\w{3}) +(\d+) (\d+):(\d+):(\d+) (\d{4})")
_MONTHS = dict(
    zip(re.findall("...", "JanFebMarAprMayJunJulAugSepOctNovDec"), range(1, 13), strict=True)
)
QUERY_ENV = {"TZ": "UTC0", "LC_ALL": "C"}  # qstat writes local time without a zone


class PbsFamily(Dialect):
    """The commands that both have."""

    directive = "#PBS"
    commands: ClassVar[tuple[str, ...]] = ("qsub", "qstat", "qdel", "qhold", "qrls")
    faults = FAULTS
    finished: ClassVar[str]  #: what the actions say of a job that has ended
    unknown: ClassVar[str] = r"Unknown Job Id|nonexistent job id"

    def canonical(self, text: str) -> str:
        """`12[3].server` stays; `12[1-5].server` is the array."""
        found = re.sub(r"\[\d+-[^\]]*\]", "[]", text.strip())
        if not _ID.fullmatch(found):
            raise ParseError(f"{self.name}: {text!r} is not a job id", stdout=text)
        return found

    def element_id(self, array_id: str, index: int) -> str:
        return array_id.replace("[]", f"[{index}]", 1)

    def parse_submit(self, out: Output) -> str:
        return self.submitted_id(out, r"^(\d+(?:\[\])?\.[\w.-]+)\s*$")

    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act(("qhold", "-h", HOLDS[kind], *ids), ids)

    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]:
        return self._act(("qrls", "-h", HOLDS[kind], *ids), ids)

    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return self._act(("qdel", *ids), ids)

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        return self._act(("qsig", "-s", f"SIG{signal}", *ids), ids)

    def _act(self, argv: tuple[str, ...], ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]:
        return Ask(Command(argv), lambda out: self.parse_action(out, ids))

    def parse_action(self, out: Output, ids: Sequence[str]) -> Mapping[str, Outcome]:
        """Complaints name the id, mostly; a single id needs no name.

        Torque's qhold says nothing of an unknown id: rc 153 and silence.
        """
        found: dict[str, Outcome] = {}
        for line in out.error_text.splitlines():
            outcome = self._outcome(line)
            named = [id for id in ids if same_job(id, line.replace(":", " ").split())]
            for id in named or (ids if outcome and len(ids) == 1 else ()):
                found[id] = outcome or Outcome.FAILED
        if not found and out.rc == 153 and len(ids) == 1:
            return {ids[0]: Outcome.UNKNOWN}
        if not found:
            self.require_ok(out, 153) if len(ids) > 1 else self.require_ok(out)
        return found

    def _outcome(self, line: str) -> Outcome | None:
        if re.search(self.finished, line):
            return Outcome.ALREADY_FINAL
        if re.search(self.unknown, line):
            return Outcome.UNKNOWN
        if re.search(r"Unauthorized|[Pp]ermission", line):
            return Outcome.DENIED
        return Outcome.FAILED if "invalid for state" in line else None


def same_job(id: str, words: Iterable[str]) -> bool:
    """Whether one of the words is this id, whose server part may be missing or longer."""
    wanted = _ID.fullmatch(id)
    for word in words:
        found = _ID.fullmatch(word)
        if (
            found
            and wanted
            and found.group(1, 2) == wanted.group(1, 2)
            and _one_server(found, wanted)
        ):
            return True
    return False


def _one_server(one: re.Match[str], other: re.Match[str]) -> bool:
    first, second = one[3], other[3]
    if not first or not second:
        return True
    return first.partition(".")[0] == second.partition(".")[0]


def as_asked(id: str, ids: Sequence[str]) -> str:
    """The spelling that was asked for: `12` and `12.server.domain` may both mean `12.server`."""
    return id if id in ids else next((asked for asked in ids if same_job(asked, [id])), id)


# -- rendering


def common(sheet: Sheet, request: Request) -> None:
    """The attributes that both write alike."""
    spec = request.spec
    if sheet.has("time"):
        sheet.exact("time", f"-l walltime={quantities.clock(spec.time or 0)}")
    if sheet.has("account"):
        sheet.exact("account", option("-A", spec.account or ""))
    if sheet.has("priority"):
        if -1024 <= (spec.priority or 0) <= 1023:
            sheet.exact("priority", f"-p {spec.priority}")
        else:
            sheet.refuse("priority", "it goes from -1024 to 1023")
    if sheet.has("mail_on"):
        sheet.exact("mail_on", f"-m {''.join(sorted(MAIL[event] for event in spec.mail_on))}")
    if sheet.has("mail_to"):
        sheet.exact("mail_to", option("-M", spec.mail_to or ""))
    if sheet.has("requeue"):
        sheet.exact("requeue", f"-r {'y' if spec.requeue else 'n'}")
    if sheet.has("begin"):
        stamp = time.strftime("%Y%m%d%H%M.%S", time.gmtime(spec.begin or 0))
        sheet.exact("begin", f"-a {stamp}", given=f"-a {stamp} in UTC")
    _common.user_hold(sheet, request, "-h")


def option(letter: str, value: str) -> str:
    return f"{letter} {value if _common.plain_path(value) else shlex.quote(value)}"


def native_outputs(sheet: Sheet, request: Request, index: str) -> bool:
    """Use -o, -e and -j when the manager can write these names by itself.

    It cannot put the job's id into one. `index` is its word for the element.
    """
    spec = request.spec
    found = patterns.outputs(spec)
    used = frozenset[str]().union(*(patterns.used(path) for path in found.values()))
    if "j" in used or "A" in used or (spec.array is not None and not (index and "a" in used)):
        return False
    names = {"x": spec.name, "a": index if spec.array else ""}
    paths = {key: patterns.translate(path, names) for key, path in found.items()}
    base = spec.directory or ""
    full = {key: path if path.startswith("/") else f"{base}/{path}" for key, path in paths.items()}
    if not all(path.startswith("/") and _common.plain_path(path) for path in full.values()):
        return False
    for key, letter in (("stdout", "-o"), ("stderr", "-e")):
        if key in full:
            line = f"{letter} {full[key]}"
            sheet.exact(key, line) if sheet.has(key) else sheet.lines.append(line)
    line = "-j oe" if spec.join else "-j n"
    sheet.exact("join", line) if sheet.has("join") else sheet.lines.append(line)
    return True


def outputs(sheet: Sheet, request: Request, index: str) -> tuple[str, ...]:
    """Shell lines for the output, none when the manager does it."""
    if native_outputs(sheet, request, index):
        return (_start(request),)
    sheet.lines.extend(("-j oe", "-o /dev/null"))
    _common.redirected(sheet)
    return _common.redirect(request, _start(request))


def _start(request: Request) -> str:
    """Where the job works: jobs of PBS start in the home."""
    path = request.spec.directory or ""
    if path.startswith("/"):
        return f"cd -- {shlex.quote(path)} || exit 125"
    below = f"/{shlex.quote(path)}" if path else ""
    return f'cd -- "$PBS_O_WORKDIR"{below} || exit 125'


def dependency(edges: Iterable[Edge], suffix: str = "") -> Iterable[str]:
    """`suffix`: what the type is called on an array."""
    terms = [
        f"{RELATIONS[edge.relation]}{suffix if edge.is_array else ''}:{edge.id}" for edge in edges
    ]
    return [f"-W depend={','.join(terms)}"] if terms else []


def rendering(
    sheet: Sheet, request: Request, lines: Iterable[str], redirect: tuple[str, ...], frame: Frames
) -> Rendering:
    """The script on qsub's stdin; the token as a variable, which qstat shows again."""
    header = [*sheet.lines, *lines]
    script = wrapper.build(
        wrapper.Frame(
            header=tuple(f"#PBS {line}" for line in header),
            job_id="$PBS_JOBID",
            array_id=frame.array_id if request.spec.array else "$PBS_JOBID",
            index=frame.index if request.spec.array else str(_number(request.index)),
            directive="#PBS",
            redirect=redirect,
            signals_all=True,  # to every process of the session: kill_task() of both MOMs
        ),
        request.spec,
        request.body,
        request.token,
    )
    env = {"TZ": "UTC0"} if request.spec.begin is not None else {}
    argv = ("qsub", "-v", f"{MARK}={MARK_PREFIX}{request.token}")
    return Rendering(
        script=script, argv=argv, stdin=script.encode(), env=env, report=sheet.finish()
    )


def _number(index: int | None) -> int | str:
    return "" if index is None else index


class Frames:
    """The shell expressions for the array and the element."""

    def __init__(self, array_id: str, index: str) -> None:
        self.array_id, self.index = array_id, index


# -- parsing


def of_ctime(text: str | None) -> float | None:
    """`Mon Nov 30 06:51:01 2026` in UTC, or an epoch; None for anything else."""
    found = (text or "").strip()
    if found.isdigit():
        return float(found)
    match = _CTIME.fullmatch(found)
    if not match or match[1] not in _MONTHS:
        return None
    day, hour, minute, second, year = map(int, match.groups()[1:])
    return float(calendar.timegm((year, _MONTHS[match[1]], day, hour, minute, second)))


def state_of(name: str, values: Mapping[str, str], statuses: Mapping[int, JobState]) -> Ending:
    """State and what goes with it, from the attributes of a job (`Exit_status` in any case)."""
    letter = values.get("job_state", "")
    if letter not in STATES:
        raise ParseError(f"{name}: {letter!r} is not a job state that this driver knows")
    if letter not in ENDED:
        return _waiting(letter, values)
    return _ended(values, statuses)


class Ending:
    """State, cause, exit code and signal."""

    def __init__(
        self,
        state: JobState,
        cause: Cause | None = None,
        code: int | None = None,
        signal: int | None = None,
    ) -> None:
        self.state, self.cause, self.code, self.signal = state, cause, code, signal


def _waiting(letter: str, values: Mapping[str, str]) -> Ending:
    """A job that waits for another one looks held by the system."""
    holds = values.get("Hold_Types", "n")
    comment = values.get("comment", "")
    if letter == "H":
        if "u" in holds:
            return Ending(JobState.HELD, Cause.HELD_BY_USER)
        if values.get("depend"):
            return Ending(JobState.QUEUED, Cause.DEPENDENCY)
        return Ending(JobState.HELD, Cause.HELD_BY_OPERATOR)
    if letter == "W":
        return Ending(JobState.QUEUED, Cause.BEGIN_TIME)
    if letter == "Q":
        return Ending(JobState.QUEUED, _cause(comment))
    return Ending(STATES[letter])


# beginning of the scheduler's comment -> cause
COMMENTS = (
    (r"Can Never Run", Cause.IMPOSSIBLE),
    (r"[Ii]nsufficient amount|Not enough|No available resources", Cause.RESOURCES),
    (r"limit|[Mm]ax", Cause.LIMIT),
    (r"ineligible|offline|down", Cause.NODES_AWAY),
    (r"[Qq]ueue not (?:started|running)|not in an executable state", Cause.QUEUE_CLOSED),
    (r"[Rr]eservation", Cause.RESERVATION),
)


def _cause(comment: str) -> Cause | None:
    return next((cause for pattern, cause in COMMENTS if re.search(pattern, comment)), None)


def _ended(values: Mapping[str, str], statuses: Mapping[int, JobState]) -> Ending:
    """Done needs an Exit_status of 0: without one the job never ran."""
    comment = values.get("comment", "")
    status = _common.whole(values.get("Exit_status") or values.get("exit_status"))
    if "result of dependency" in comment:
        return Ending(JobState.CANCELLED, Cause.DEPENDENCY_NEVER)
    if status is None:
        if values.get("substate", "91") == "91":  # Torque has no substate
            return Ending(JobState.CANCELLED, Cause.CANCELLED)
        if values.get("depend"):
            return Ending(JobState.CANCELLED, Cause.DEPENDENCY_NEVER)
        return Ending(JobState.FAILED, Cause.UNKNOWN)
    if status == 0:
        return Ending(JobState.DONE, None, 0)
    if status in statuses:
        return Ending(statuses[status], _LAUNCH.get(statuses[status]), None)
    signal = status - 256 if status > 256 else None
    code = 128 + signal if signal else status
    if values.get("substate") == "91" or "terminated by" in comment or status == 271:
        return Ending(JobState.CANCELLED, Cause.CANCELLED, code, signal)
    return Ending(JobState.FAILED, Cause.SIGNAL if signal else Cause.EXIT_CODE, code, signal)


_LAUNCH = {JobState.FAILED: Cause.LAUNCH_FAILURE}


def record(
    dialect: Dialect, id: str, values: Mapping[str, str], statuses: Mapping[int, JobState]
) -> Record:
    """A job's record from its attributes as text; a job that has ended is history."""
    end = state_of(dialect.name, values, statuses)
    match = re.fullmatch(r"(\d+)\[(\d+)\](.*)", id)
    final = end.state.final
    variables = values.get("Variable_List", "")
    mark = re.search(rf"{MARK}[=\":\t ]+{re.escape(MARK_PREFIX)}(\w+)", variables)
    return Record(
        id=id,
        state=end.state,
        native_state=values.get("job_state", ""),
        cause=end.cause,
        reason=values.get("comment", ""),
        exit_code=end.code,
        signal=end.signal,
        submitted=of_ctime(values.get("ctime")),
        started=of_ctime(values.get("stime") or values.get("start_time")),
        ended=of_ctime(values.get("obittime") or values.get("comp_time")) if final else None,
        nodes=hosts(values.get("exec_host", "")),
        queue=values.get("queue"),
        array_id=f"{match[1]}[]{match[3]}" if match else None,
        index=int(match[2]) if match else None,
        token=mark[1] if mark else None,
        source=Source.HISTORY if final else Source.LIVE,
    )


def hosts(text: str) -> tuple[str, ...]:
    """`n1/0*4+n2/0` as names, each once, in their order."""
    names = (part.partition("/")[0] for part in text.split("+") if part)
    return tuple(dict.fromkeys(names))


def size(text: str | None) -> int | None:
    """`423252kb` in bytes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)[bw]?", (text or "").strip().lower())
    if not match:
        return None
    return int(match[1]) * int(1024 ** " kmgtp".index(match[2] or " "))


def evidence(values: Mapping[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"qstat: {name} = {values[name]}" for name in names if values.get(name))
