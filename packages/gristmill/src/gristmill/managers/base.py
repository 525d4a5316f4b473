"""What a driver is: a pure dialect. Attributes in, script and argv out; output in, records out.

A dialect does no I/O, holds no state and reads no clock. It is one class in one file, with tables
at the top. Subclass `Dialect`, fill the class attributes, write `render` and the `parse_*`
methods; `gristmill.managers.slurm` is the worked example. `gristmill.testing.exercise` runs the
conformance suite on the result.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from gristmill.commands import Ask, Command, Output
from gristmill.errors import CommandFailed, Refused, Unclear, Unsupported
from gristmill.jobs import Hold, Relation, Spec
from gristmill.records import Accounting, Listing, Node, Outcome, Queue, Why

if TYPE_CHECKING:
    from gristmill.transports.base import Transport

STAGE = "@GRISTMILL_STAGE@"  #: in an argv or a file: replaced by the folder of the staged files
SEPARATOR = "\x1f"  #: between fields asked of a manager: no name or path holds it


class Fate(StrEnum):
    """What became of an attribute on its way to the manager."""

    EXACT = "exact"
    ROUNDED = "rounded"
    EMULATED = "emulated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report: the attribute, its fate, what was wanted, given, and why."""

    attribute: str
    fate: Fate
    wanted: str
    given: str = ""
    why: str = ""

    def __str__(self) -> str:
        reason = f" ({self.why})" if self.why else ""
        return f"{self.attribute}: {self.fate}: {self.wanted} -> {self.given or 'nothing'}{reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """The fate of every attribute that was set; nothing that was asked is missing from it."""

    manager: str
    notes: tuple[Note, ...] = ()

    def of(self, fate: Fate) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.fate is fate)

    def __getitem__(self, attribute: str) -> Note:
        return next(note for note in self.notes if note.attribute == attribute)

    def require(self) -> None:
        """Raise Unsupported, naming manager and attributes, when anything was refused."""
        if refused := self.of(Fate.REFUSED):
            text = "; ".join(f"{note.attribute}={note.wanted}: {note.why}" for note in refused)
            raise Unsupported(self.manager, text, refused)


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency whose target the manager already has, by its canonical native id."""

    relation: Relation
    id: str
    element_wise: bool = False
    is_array: bool = False  #: the target is an array


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that a dialect needs to render one submission.

    `token` is unique and made of [0-9a-z]; the rendering must put it where `find` finds it.
    `edges` are only of kinds in `features.relations`. `held` asks for a user hold, whatever
    `spec.hold` says. `index` is set when the engine submits the elements of an array one by one;
    `spec.array` is None then.
    """

    spec: Spec
    token: str
    body: str = ""  #: the text of the script; empty with a command
    edges: tuple[Edge, ...] = ()
    held: bool = False
    index: int | None = None
    now: float = 0.0  #: the client's clock, for `begin`


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that must lie in the staging folder before the command runs."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A submission, ready to be sent."""

    script: str
    argv: tuple[str, ...]
    stdin: bytes | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    files: tuple[StagedFile, ...] = ()
    report: Report

    def command(self, stage: str = "") -> Command:
        """The command, with the staging folder filled in."""
        argv = tuple(word.replace(STAGE, stage) for word in self.argv)
        return Command(argv, self.stdin, self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a manager can do by itself. What it lacks the engine emulates, or refuses.

    `relations`: dependencies it enforces with our meaning; others go through held jobs and the
    gate. `chunk`: most ids in one query or action. `list_all_above`: with more ids than this,
    list all of the user's jobs instead, when the dialect can. `ask_missing_singly`: ids that an
    answer left out are asked one by one. `hold_flickers`: a new job seems held for an instant.
    """

    relations: frozenset[Relation] = frozenset()
    element_wise: bool = False
    arrays: bool = False
    throttle: bool = False
    holds: frozenset[Hold] = frozenset({Hold.USER})
    signals: bool = True
    estimates: bool = False
    chunk: int = 1000
    list_all_above: int | None = None
    ask_missing_singly: bool = False
    hold_flickers: bool = False
    array_lists: bool = True  #: takes arrays of several ranges, not only one
    array_least: int = 0  #: the smallest index that its arrays may have
    interval: float = 10.0  #: seconds between polls that the manager's sites find polite
    grace: float = 90.0  #: seconds after submission or last sight in which absence means nothing


class Dialect(ABC):
    """One manager's language. Every method is pure; every id in and out is canonical."""

    name: ClassVar[str]  #: in URLs and in `native={...}`
    title: ClassVar[str]  #: as its makers write it
    documented: ClassVar[str]  #: versions and manual pages that the facts come from
    features: ClassVar[Features]
    directive: ClassVar[str] = ""  #: what header lines begin with
    commands: ClassVar[tuple[str, ...]] = ()  #: programs whose presence says: installed here
    # (pattern over stderr and stdout, what it means), first match wins
    faults: ClassVar[tuple[tuple[str, type[CommandFailed]], ...]] = ()
    # what the job's own stderr shows when the manager killed it for its memory
    memory_kill: ClassVar[str] = ""

    def transport(self) -> Transport | None:
        """A transport of its own for use on this machine; None for ordinary commands."""
        return None

    # -- submission

    @abstractmethod
    def render(self, request: Request) -> Rendering:
        """Script, argv, stdin and environment for one submission, and the report.

        Never raises for what the manager lacks: that is a note of fate REFUSED.
        """

    @abstractmethod
    def parse_submit(self, out: Output) -> str:
        """The canonical id. Raises Refused, Transient, or Unclear (sent, but no answer)."""

    @abstractmethod
    def find(self, token: str) -> Ask[str | None]:
        """Look a job up by its token; None when the manager surely has no such job."""

    def canonical(self, text: str) -> str:
        """The one spelling of an id that users and outputs write in several."""
        return text.strip()

    def element_id(self, array_id: str, index: int) -> str:
        """The id of one element of an array."""
        raise Unsupported(self.name, f"element {index} of array {array_id}: it has no arrays")

    # -- queries

    @abstractmethod
    def live(self, ids: Sequence[str]) -> Ask[Listing]:
        """The jobs of these ids that the manager still lists (arrays with their elements)."""

    def live_all(self) -> Ask[Listing] | None:
        """All jobs of this user in one question; None when the manager has no such question."""
        return None

    def history(self, ids: Sequence[str], since: float) -> Ask[Listing] | None:
        """The ended jobs of these ids, submitted after `since`; None without a history.

        The parser raises HistoryUnavailable when this site keeps none.
        """
        return None

    def accounting(self, id: str, since: float) -> Ask[Accounting] | None:
        """What one job used; None when only the exit record can say."""
        return None

    def why(self, id: str) -> Ask[Why] | None:
        """A closer look at one job; None when the record says all there is."""
        return None

    def estimate(self, id: str) -> Ask[float | None] | None:
        """When the manager expects a waiting job to start, epoch seconds."""
        return None

    def queues(self) -> Ask[tuple[Queue, ...]] | None:
        return None

    def nodes(self) -> Ask[tuple[Node, ...]] | None:
        return None

    # -- actions. An id that the parser leaves out counts as done.

    @abstractmethod
    def hold(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]: ...

    @abstractmethod
    def release(self, ids: Sequence[str], kind: Hold) -> Ask[Mapping[str, Outcome]]: ...

    @abstractmethod
    def cancel(self, ids: Sequence[str]) -> Ask[Mapping[str, Outcome]]: ...

    def signal(self, ids: Sequence[str], signal: str) -> Ask[Mapping[str, Outcome]]:
        """Send a signal, by its name without SIG."""
        raise Unsupported(self.name, "sending signals to jobs")

    # -- for the parsers

    def fault(self, out: Output, otherwise: type[CommandFailed] = CommandFailed) -> CommandFailed:
        """The error that this output is, by the table `faults`."""
        said = out.said
        kind = otherwise
        if out.timed_out:
            kind, said = Unclear, f"no answer in time; so far: {said}"
        else:
            both = f"{out.error_text}\n{out.text}"
            kind = next((k for pattern, k in self.faults if re.search(pattern, both)), otherwise)
        text = f"{self.name}: {said}"
        return kind(text, rc=out.rc, stdout=out.text, stderr=out.error_text)

    def require_ok(self, out: Output, *also: int) -> None:
        """Raise the fault of this output unless rc is 0 or one of `also`."""
        if out.timed_out or out.rc not in (0, *also):
            raise self.fault(out)

    def submitted_id(self, out: Output, pattern: str) -> str:
        """The id in the last line of stdout that matches `pattern` (its first group) entirely.

        Sites print banners before it. No such line with rc 0 is Unclear; with another rc it is
        the fault of the output, Refused when the table does not know it.
        """
        found = re.findall(pattern, out.text, re.MULTILINE)
        if found and out.rc == 0:
            return self.canonical(found[-1] if isinstance(found[-1], str) else found[-1][0])
        if out.rc == 0:
            text = f"{self.name}: the submission was answered without a job id: {out.said}"
            raise Unclear(text, rc=0, stdout=out.text, stderr=out.error_text)
        raise self.fault(out, Refused)


class Sheet:
    """Collects directive lines and notes while a request is rendered.

    Guarantees that nothing is dropped in silence: whatever attribute the driver did not account
    for is refused by `finish`.
    """

    # the wrapper does these for every manager
    BY_WRAPPER = ("script", "script_text", "command", "arguments", "environment", "stdin")
    BY_ENGINE = ("stage_in", "stage_out", "native")

    def __init__(self, manager: str, request: Request) -> None:
        self.manager = manager
        self.request = request
        self.lines: list[str] = []
        self.notes: list[Note] = []
        self._left = request.spec.asked()
        for attribute in self.BY_ENGINE:
            self._left.pop(attribute, None)
        for attribute in self.BY_WRAPPER:
            if attribute in self._left:
                self.exact(attribute, given="in the script")

    def has(self, attribute: str) -> bool:
        """Whether it is asked for and not yet accounted for."""
        return attribute in self._left

    def _note(self, attribute: str, fate: Fate, given: str, why: str) -> None:
        wanted = _shown(self._left.pop(attribute, getattr(self.request.spec, attribute, None)))
        self.notes.append(Note(attribute, fate, wanted, given, why))

    def exact(self, attribute: str, *lines: str, given: str = "") -> None:
        self._note(attribute, Fate.EXACT, given or " ".join(lines) or "as asked", "")
        self.lines.extend(lines)

    def rounded(self, attribute: str, *lines: str, why: str, given: str = "") -> None:
        self._note(attribute, Fate.ROUNDED, given or " ".join(lines), why)
        self.lines.extend(lines)

    def emulated(self, attribute: str, *lines: str, why: str, given: str = "") -> None:
        self._note(attribute, Fate.EMULATED, given or " ".join(lines) or "by the library", why)
        self.lines.extend(lines)

    def refuse(self, attribute: str, why: str) -> None:
        self._note(attribute, Fate.REFUSED, "", why)

    def refuse_native(self, option: str, why: str) -> None:
        """Refuse one raw option."""
        self.notes.append(Note("native", Fate.REFUSED, option, "", why))

    def native(self, key: str = r"(--?[A-Za-z][\w-]*)") -> None:
        """Add the job's raw options of this manager.

        Refused when an option is also set by an attribute: two values for one thing. `key` is
        the pattern (one group) that gives an option's name at the start of a line.
        """
        options = self.request.spec.native.get(self.manager, ())
        taken = {match[1]: line for line in self.lines if (match := re.match(key, line))}
        for option in options:
            name = match[1] if (match := re.match(key, option)) else option
            if name in taken:
                why = f"{option!r} and {taken[name]!r} (from an attribute) set the same thing"
                self.refuse_native(option, why)
            else:
                self.notes.append(Note("native", Fate.EXACT, option, option))
                self.lines.append(option)

    def finish(self) -> Report:
        """Refuse what is left, and give the report."""
        for attribute in list(self._left):
            self.refuse(attribute, _why_left(self.manager, attribute))
        return Report(self.manager, tuple(self.notes))


def _why_left(manager: str, attribute: str) -> str:
    if attribute == "node_kind":
        return "no site file says what this kind of node is; give one with connect(site=...)"
    return f"{manager} has nothing for it"


def _shown(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, (tuple, frozenset)):
        return ", ".join(
            sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value)
        )
    return str(value)


def rows(text: str, fields: int, separator: str = SEPARATOR) -> Iterable[list[str]]:
    """The lines of a table as lists of fields.

    A line without any separator is a warning or a banner and is passed over; one with another
    number of fields raises ValueError, since every later field would be wrong.
    """
    for line in text.splitlines() if separator != SEPARATOR else text.split("\n"):
        count = line.count(separator) + 1
        if count == 1 and fields > 1:
            continue
        if count != fields:
            raise ValueError(f"{fields} fields expected, {count} found in {line!r}")
        yield line.split(separator)
