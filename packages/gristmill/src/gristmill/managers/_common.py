"""What several drivers need and none owns: the shape of a job, names, output, ids."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gristmill import patterns, quantities
from gristmill.commands import Command, Output
from gristmill.jobs import Hold, Spec
from gristmill.managers import wrapper
from gristmill.managers.base import Request, Sheet
from gristmill.records import Listing, Record, joined


@dataclass(frozen=True, slots=True)
class Layout:
    """A job as equal chunks: `chunks` times `tasks` tasks on `cores` cores.

    `spread`: each chunk is a node of its own. `exact`: the tasks divide evenly.
    """

    chunks: int
    tasks: int
    cores: int
    spread: bool
    exact: bool = True

    @property
    def all_tasks(self) -> int:
        return self.chunks * self.tasks

    @property
    def all_cores(self) -> int:
        return self.chunks * self.cores


def layout(spec: Spec) -> Layout:
    """The shape that nodes, tasks and cores ask for together."""
    each = spec.cores_per_task or 1
    if not (spec.nodes or spec.tasks_per_node or spec.cores_per_node):
        return Layout(spec.tasks or 1, 1, each, spread=False)
    tasks = spec.tasks_per_node or (
        quantities.up_to(spec.tasks, spec.nodes) if spec.tasks and spec.nodes else None
    )
    if tasks is None:
        tasks = (
            max(1, (spec.cores_per_node or 1) // each) if spec.nodes or spec.tasks is None else 1
        )
        if spec.cores_per_node and spec.tasks and not spec.nodes:
            tasks = max(1, spec.cores_per_node // each)
    nodes = spec.nodes or (quantities.up_to(spec.tasks, tasks) if spec.tasks else 1)
    exact = spec.tasks is None or spec.tasks == nodes * tasks
    return Layout(nodes, tasks, spec.cores_per_node or tasks * each, spread=True, exact=exact)


SHAPE = ("nodes", "tasks", "tasks_per_node", "cores_per_task", "cores_per_node")


def shape_notes(sheet: Sheet, shape: Layout, given: str) -> None:
    """Account for the attributes that a layout is made of."""
    for attribute in SHAPE:
        if not sheet.has(attribute):
            continue
        if attribute == "tasks" and not shape.exact:
            why = f"{sheet.manager} takes the same number on every node"
            sheet.rounded(attribute, given=f"{shape.all_tasks} in {given}", why=why)
        elif attribute == "cores_per_node" and shape.cores < shape.tasks:
            sheet.refuse(attribute, f"fewer cores than the {shape.tasks} tasks of a node")
        else:
            sheet.exact(attribute, given=given)


def memory_per_chunk(spec: Spec, shape: Layout) -> int | None:
    """Bytes for each chunk, rounded up to whole KiB."""
    if spec.memory is not None:
        return quantities.up_to(spec.memory, shape.chunks * quantities.KIB) * quantities.KIB
    if spec.memory_per_core is not None:
        return quantities.up_to(spec.memory_per_core * shape.cores, quantities.KIB) * quantities.KIB
    return None


def plain_name(name: str, limit: int, *, first: str = "A-Za-z_") -> str:
    """The name with what managers refuse replaced, and cut: `1 ä/b` is `j1_b`."""
    text = re.sub(r"[^A-Za-z0-9_.+-]+", "_", name).strip("_") or "job"
    if not re.match(f"[{first}]", text):
        text = f"j{text}"
    return text[:limit]


def note_name(sheet: Sheet, given: str, line: str) -> None:
    """Exact, or rounded when the manager's rules changed it. Jobs are never matched by name."""
    if given == sheet.request.spec.name:
        sheet.exact("name", line)
    else:
        why = "the manager allows fewer characters; the full name is kept by the library"
        sheet.rounded("name", line, why=why)


def redirect(request: Request, start: str = "") -> tuple[str, ...]:
    """Shell lines that send the output where it shall go; `start`: a line before them."""
    spec = request.spec
    element = '"$GRISTMILL_ARRAY_ID"_"$GRISTMILL_ARRAY_INDEX"' if spec.array else None
    names = {
        "j": element or '"$GRISTMILL_JOB_ID"',
        "A": '"$GRISTMILL_ARRAY_ID"' if spec.array else '"$GRISTMILL_JOB_ID"',
        "a": '"$GRISTMILL_ARRAY_INDEX"',
        "x": shlex.quote(spec.name.replace("/", "_")) if spec.name else "",
    }
    lines = [start] if start else []
    paths = {key: _shell_path(path, names) for key, path in patterns.outputs(spec).items()}
    err = f"2> {paths['stderr']}" if "stderr" in paths else "2>&1"
    return (*lines, f"exec > {paths['stdout']} {err}")


def _shell_path(pattern: str, names: dict[str, str]) -> str:
    if pattern.startswith("~/"):
        return '"$HOME"/' + patterns.translate(pattern[2:], names, shlex.quote)
    return patterns.translate(pattern, names, shlex.quote)


def redirected(sheet: Sheet) -> None:
    """Account for the output attributes when the script redirects."""
    for attribute in ("stdout", "stderr", "join"):
        if sheet.has(attribute):
            why = "the job's own shell opens the file, which has the ids in its name"
            sheet.emulated(attribute, given="exec > in the script", why=why)


def user_hold(sheet: Sheet, request: Request, line: str) -> None:
    """A user hold at submission; a system hold is an operator's."""
    if request.spec.hold is Hold.SYSTEM:
        sheet.refuse("hold", "only an operator can set one; hold='user' is possible")
    elif sheet.has("hold"):
        sheet.exact("hold", line)
    elif request.held:
        sheet.lines.append(line)


def plain_path(text: str) -> bool:
    """Whether a path can stand in any directive as it is."""
    return re.fullmatch(r"[\w./+=@^-]+", text, re.ASCII) is not None


def or_exit_record(argv: Sequence[str], token: str, env: Mapping[str, str | None]) -> Command:
    """A listing, and after it the exit record of the token's job, which may have ended already.

    For managers that forget a job at its end; `ended_id` reads the id from it.
    """
    record = f'cat "{wrapper.EXIT_DIRECTORY}/{token}"* 2>/dev/null'
    return Command(("sh", "-c", f"{shlex.join(argv)} && {{ {record}; true; }}"), env=env)


def ended_id(out: Output) -> str | None:
    """The id in an exit record that `or_exit_record` found."""
    found = re.search(r"^exit=\d+\n(?:\w+=.*\n)*?id=(\S+)$", out.text, re.MULTILINE)
    return found[1] if found else None


def gathered(records: Iterable[Record], **more: object) -> Iterator[Record]:
    """Jobs as they are, the elements of each array under one record."""
    arrays: dict[str, list[Record]] = {}
    for record in records:
        if record.array_id is None:
            yield record
        else:
            arrays.setdefault(record.array_id, []).append(record)
    for id, elements in arrays.items():
        yield joined(id, elements)


def listing(
    records: Iterable[Record], unknown: Iterable[str] = (), *, complete: bool = True
) -> Listing:
    return Listing(tuple(gathered(records)), frozenset(unknown), complete)


def whole(text: str | None) -> int | None:
    """A whole number, or None for whatever else a manager writes there."""
    found = (text or "").strip()
    return int(found) if re.fullmatch(r"-?\d+", found) else None


def of_clock(text: str | None) -> int | None:
    """Seconds of `[D:]HH:MM:SS`, `D+HH:MM:SS` or `D-HH:MM:SS`; None for anything else."""
    if not text or not re.fullmatch(r"(?:\d+[:+-])?\d+:\d+:\d+(?:\.\d+)?", text.strip()):
        return None
    *days, hours, minutes, rest = re.split(r"[:+-]", text.strip())
    total = int(hours) * 3600 + int(minutes) * 60 + int(float(rest))
    return total + (int(days[0]) * quantities.DAY if days else 0)


def complaints(text: str, pattern: str) -> Sequence[tuple[str, ...]]:
    """The groups of each line that matches."""
    return [m.groups() for line in text.splitlines() if (m := re.search(pattern, line))]
