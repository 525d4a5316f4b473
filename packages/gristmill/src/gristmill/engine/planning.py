"""From jobs to what would be sent: nothing is asked of the manager here, nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from gristmill.engine.core import Core
from gristmill.engine.entries import Entry
from gristmill.errors import BadValue, Unsupported
from gristmill.jobs import Dependency, Hold, Job, Spec, Submitted
from gristmill.managers.base import Edge, Fate, Features, Note, Rendering, Report, Request

NO_TOKEN = "0" * 16  #: in what is only shown


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job of a plan.

    `rendering` shows targets of the same group as `<name>`; `native` are the dependencies that
    the manager enforces, `gated` those that we do; `held` says that it is submitted held.
    `indices` are set when the elements of its array are submitted one by one.
    """

    job: Job
    spec: Spec
    token: str  #: of its first submission
    body: str
    native: tuple[Dependency, ...]
    gated: tuple[Dependency, ...]
    held: bool
    indices: tuple[int, ...] | None
    rendering: Rendering
    report: Report

    def element_spec(self) -> Spec:
        """What one submission of it asks for."""
        return self.spec if self.indices is None else replace(self.spec, array=None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `submit` would send, in this order."""

    manager: str
    jobs: tuple[PlannedJob, ...]

    @property
    def refused(self) -> tuple[Note, ...]:
        """What the manager cannot do; not empty: `submit` would raise Unsupported."""
        return tuple(note for planned in self.jobs for note in planned.report.of(Fate.REFUSED))

    def require(self) -> None:
        """Raise Unsupported, naming jobs and attributes, when anything was refused."""
        bad = [planned for planned in self.jobs if planned.report.of(Fate.REFUSED)]
        if bad:
            lines = (
                f"job {planned.job.name!r}: {note.attribute}={note.wanted}: {note.why}"
                for planned in bad
                for note in planned.report.of(Fate.REFUSED)
            )
            raise Unsupported(self.manager, "; ".join(lines), self.refused)

    def __str__(self) -> str:
        return "\n\n".join(_show(planned) for planned in self.jobs)


def _show(planned: PlannedJob) -> str:
    count = "" if planned.indices is None else f", {len(planned.indices)} times"
    held = ", held until the whole group is in" if planned.held else ""
    return "\n".join(
        [
            f"== {planned.job.name}: {' '.join(planned.rendering.argv)}{count}{held}",
            *(f"   {note}" for note in planned.report.notes),
            planned.rendering.script.rstrip("\n"),
        ]
    )


def plan(
    core: Core,
    jobs: Sequence[Job],
    given: Mapping[Job, Entry],
    dropped: Mapping[Job, set[Dependency]] = MappingProxyType({}),
    token: Callable[[], str] = lambda: NO_TOKEN,
) -> Plan:
    """Plan jobs in an order that can be submitted.

    `given` are jobs that the manager has already; `dropped` the edges that are satisfied already.
    Raises BadValue.
    """
    return Plan(
        core.dialect.name,
        tuple(_plan(core, job, jobs, given, dropped.get(job, set()), token()) for job in jobs),
    )


def _plan(
    core: Core,
    job: Job,
    jobs: Sequence[Job],
    given: Mapping[Job, Entry],
    dropped: set[Dependency],
    token: str,
) -> PlannedJob:
    spec = core.site.resolve(job.spec)
    features = core.dialect.features
    edges = [edge for edge in job.dependencies if edge not in dropped]
    for edge in edges:
        _check_elements(job, edge)
    emulates = _emulates_array(spec, edges, features)
    native, gated = _divide(edges, features, emulates)
    indices = tuple(spec.array) if emulates and spec.array else None
    throttled = indices is not None and spec.array is not None and spec.array.throttle is not None
    inner = any(outside_id(core, edge, given) is None for edge in native)
    several = len(jobs) > 1 or indices is not None
    held = bool(gated) or throttled or (not inner and several)
    body = read_body(spec)
    request = Request(
        spec=spec if indices is None else replace(spec, array=None),
        token=token,
        body=body,
        edges=tuple(_edge(edge, outside_id(core, edge, given) or _shown(edge)) for edge in native),
        held=held and spec.hold is None,
        index=None if indices is None else indices[0],
        now=core.clock(),
    )
    rendering = core.dialect.render(request)
    notes = [
        *_header_notes(core, body),
        *_array_notes(core, spec, indices),
        *_edge_notes(core, native, gated, held),
    ]
    report = Report(rendering.report.manager, (*rendering.report.notes, *notes))
    return PlannedJob(
        job=job,
        spec=spec,
        token=token,
        body=body,
        native=native,
        gated=gated,
        held=held,
        indices=indices,
        rendering=rendering,
        report=report,
    )


def read_body(spec: Spec) -> str:
    """The text of the script. Raises BadValue when it cannot be read."""
    if spec.script is None:
        return spec.script_text or ""
    try:
        return Path(spec.script).expanduser().read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BadValue(
            f"job {spec.name!r}: script {spec.script} cannot be read: {error.strerror}"
        ) from None


def _check_elements(job: Job, edge: Dependency) -> None:
    """Element i waits for element i: both must be arrays of the same indices."""
    if not edge.element_wise:
        return
    if job.spec.array is None:
        raise BadValue(f"job {job.name!r}: each_after_ok needs an array; it has none")
    if isinstance(edge.target, Job):
        target = edge.target.spec.array
        if target is None or set(target) != set(job.spec.array):
            raise BadValue(
                f"job {job.name!r}: each_after_ok needs the same indices in {edge.target.name!r}"
            )


def _emulates_array(spec: Spec, edges: Sequence[Dependency], features: Features) -> bool:
    if spec.array is None:
        return False
    if not features.arrays or (spec.array.throttle is not None and not features.throttle):
        return True
    if min(spec.array) < features.array_least:
        return True
    if not features.array_lists and spec.array.single_range is None:
        return True
    return not features.element_wise and any(edge.element_wise for edge in edges)


def _divide(
    edges: Iterable[Dependency], features: Features, emulates: bool
) -> tuple[tuple[Dependency, ...], tuple[Dependency, ...]]:
    """What the manager enforces, and what we do."""
    native, gated = [], []
    for edge in edges:
        expanded = isinstance(edge.target, Job) and _emulates_array(edge.target.spec, (), features)
        able = edge.relation in features.relations and not emulates and not expanded
        if able and (features.element_wise or not edge.element_wise):
            native.append(edge)
        else:
            gated.append(edge)
    return tuple(native), tuple(gated)


def _edge(edge: Dependency, id: str) -> Edge:
    is_array = isinstance(edge.target, Job) and edge.target.spec.array is not None
    return Edge(edge.relation, id, edge.element_wise, is_array)


def _shown(edge: Dependency) -> str:
    if isinstance(edge.target, Job):
        return f"<{edge.target.name}>"
    return edge.target if isinstance(edge.target, str) else edge.target.id


def _header_notes(core: Core, body: str) -> Iterable[Note]:
    """A script's own header is not read here, which must not go unsaid."""
    directive = core.dialect.directive
    lines = [line for line in body.splitlines() if directive and line.startswith(directive)]
    if lines:
        why = "the attributes of the job count, not the lines of its script"
        yield Note("header", Fate.ROUNDED, f"{len(lines)} lines of {directive}", "", why)


def _array_notes(core: Core, spec: Spec, indices: tuple[int, ...] | None) -> Iterable[Note]:
    if indices is not None:
        why = f"{core.dialect.name} has no array like this"
        yield Note("array", Fate.EMULATED, str(spec.array), f"{len(indices)} single jobs", why)


def _edge_notes(
    core: Core, native: Iterable[Dependency], gated: Iterable[Dependency], held: bool
) -> Iterable[Note]:
    name, features = core.dialect.name, core.dialect.features
    for edge in native:
        yield Note(_label(edge), Fate.EXACT, _shown(edge), "a dependency of the manager")
    for edge in gated:
        why = f"{name} has no {_label(edge)}"
        if Hold.USER in features.holds:
            yield Note(_label(edge), Fate.EMULATED, _shown(edge), "held, released by our gate", why)
        else:
            yield Note(_label(edge), Fate.REFUSED, _shown(edge), "", f"{why} and no user hold")


def _label(edge: Dependency) -> str:
    return "each_after_ok" if edge.element_wise else str(edge.relation)


def outside_id(core: Core, edge: Dependency, given: Mapping[Job, Entry]) -> str | None:
    """The native id of a target that the manager has already; None for one of this submission."""
    if isinstance(edge.target, Job):
        return given[edge.target].id if edge.target in given else None
    text = edge.target.id if isinstance(edge.target, Submitted) else edge.target
    return core.dialect.canonical(text)
