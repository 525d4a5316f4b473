"""Hold, release, cancel, signal: many ids in few commands, one outcome for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

from gristmill.commands import Ask
from gristmill.engine.core import Core
from gristmill.engine.flows import Flow, Run, ask
from gristmill.errors import Unsupported
from gristmill.jobs import Hold
from gristmill.records import Outcome

T = TypeVar("T")
Action: TypeAlias = Literal["hold", "release", "cancel"]
WIDEST = 100_000  #: bytes of ids in one command; a single argument may have 128 KiB


def chunks(ids: Iterable[str], most: int) -> Iterator[list[str]]:
    """Ids in groups that fit a command line."""
    group: list[str] = []
    width = 0
    for id in ids:
        if group and (len(group) >= most or width + len(id) + 1 > WIDEST):
            yield group
            group, width = [], 0
        group.append(id)
        width += len(id) + 1
    if group:
        yield group


def act(
    core: Core, action: Action, ids: Sequence[str], kind: Hold = Hold.USER
) -> Flow[dict[str, Outcome]]:
    """Do it to all of them; each may be asked twice without harm."""
    if action == "hold" and kind not in core.dialect.features.holds:
        raise Unsupported(core.dialect.name, f"a {kind} hold")
    found: dict[str, Outcome] = {}
    for group in chunks(ids, core.dialect.features.chunk):
        told = yield from ask(_question(core, action, group, kind), core.policy)
        found |= _all(group, told)
    return found


def _question(
    core: Core, action: Action, ids: Sequence[str], kind: Hold
) -> Ask[Mapping[str, Outcome]]:
    match action:
        case "hold":
            return core.dialect.hold(ids, kind)
        case "release":
            return core.dialect.release(ids, kind)
        case "cancel":
            return core.dialect.cancel(ids)


def send_signal(core: Core, ids: Sequence[str], name: str) -> Flow[dict[str, Outcome]]:
    """Send a signal once: an unclear answer is raised, not tried again."""
    if not core.dialect.features.signals:
        raise Unsupported(core.dialect.name, "sending signals to jobs")
    found: dict[str, Outcome] = {}
    for group in chunks(ids, core.dialect.features.chunk):
        question = core.dialect.signal(group, name.upper().removeprefix("SIG"))
        out = yield Run(question.command)
        found |= _all(group, question.parse(out))
    return found


def _all(ids: Iterable[str], told: Mapping[str, Outcome]) -> dict[str, Outcome]:
    return {id: told.get(id, Outcome.OK) for id in ids}
