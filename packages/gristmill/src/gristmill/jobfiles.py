"""Jobs and groups as JSON values, and back: for DAG files, the journal and the network.

A group is `{"jobs": [{"key": "a", "name": …, "time": 3600, "after_ok": ["b"]}, …]}`. Attributes
have the names and types of `Spec`; `array` is text. A relation's list holds keys of the same file
or `{"id": "123"}` for a job that the manager already has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from gristmill import arrays
from gristmill.errors import BadGroup, BadValue
from gristmill.jobs import Dependency, Hold, Job, JobGroup, MailEvent, Relation, Spec

ELEMENT_WISE = "each_after_ok"
_ATTRIBUTES = frozenset(item.name for item in fields(Spec))
_RELATIONS = frozenset({*Relation, ELEMENT_WISE})
# attributes that JSON has as a list or text, and what makes the Spec's value of it
_READ: dict[str, Callable[[Any], Any]] = {
    "command": tuple,
    "arguments": tuple,
    "features": tuple,
    "array": arrays.parse,
    "hold": Hold,
    "mail_on": lambda value: frozenset(MailEvent(word) for word in value),
    "stage_in": lambda value: tuple((source, target) for source, target in value),
    "stage_out": lambda value: tuple((source, target) for source, target in value),
    "native": lambda value: {name: tuple(options) for name, options in value.items()},
}


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """The attributes that are set."""
    return {name: _plain(value) for name, value in spec.asked().items()}


def spec_from_json(value: Mapping[str, Any]) -> Spec:
    """Raises BadValue on an attribute that no job has, or a value of the wrong kind."""
    if unknown := set(value) - _ATTRIBUTES:
        raise BadValue(f"no job has the attribute {', '.join(sorted(unknown))}")
    try:
        return Spec(**{name: _READ.get(name, _same)(item) for name, item in value.items()})
    except (TypeError, ValueError) as error:
        raise BadValue(f"job {value.get('name', '?')!r}: {error}") from None


def job_to_json(job: Job, keys: Mapping[int, str] | None = None) -> dict[str, Any]:
    """`keys` are the names that jobs of the same file go by; without it their own names."""
    relations: dict[str, list[Any]] = {}
    for edge in job.dependencies:
        kind = ELEMENT_WISE if edge.element_wise else str(edge.relation)
        relations.setdefault(kind, []).append(_target(edge, keys or {}))
    return {**spec_to_json(job.spec), **relations}


def group_to_json(group: JobGroup) -> dict[str, Any]:
    """Keys are the jobs' names where these differ, else with a number."""
    keys: dict[int, str] = {}
    for job in group:
        key = job.name
        while key in keys.values():
            key = f"{job.name}#{len(keys)}"
        keys[id(job)] = key
    return {"jobs": [{"key": keys[id(job)], **job_to_json(job, keys)} for job in group]}


def group_from_json(value: Mapping[str, Any]) -> JobGroup:
    """Raises BadValue or BadGroup, naming the job, when the file makes no sense."""
    entries = value.get("jobs")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadValue('a group of jobs is {"jobs": [{…}, …]}')
    jobs: dict[str, Job] = {}
    for number, entry in enumerate(entries):
        key = str(entry.get("key", entry.get("name", number)))
        if key in jobs:
            raise BadGroup(f"two jobs of the file have the key {key!r}")
        attributes = {n: v for n, v in entry.items() if n not in _RELATIONS and n != "key"}
        jobs[key] = Job.from_spec(spec_from_json({"name": key, **attributes}))
    for job, entry in zip(jobs.values(), entries, strict=True):
        job.dependencies = tuple(_dependencies(entry, jobs))
    return JobGroup(jobs.values())


def _dependencies(entry: Mapping[str, Any], jobs: Mapping[str, Job]) -> Iterable[Dependency]:
    for kind in sorted(_RELATIONS & set(entry)):
        relation = Relation.AFTER_OK if kind == ELEMENT_WISE else Relation(kind)
        targets = entry[kind] if isinstance(entry[kind], list) else [entry[kind]]
        for target in targets:
            yield Dependency(relation, _find(target, jobs, kind), kind == ELEMENT_WISE)


def _find(target: object, jobs: Mapping[str, Job], kind: str) -> Job | str:
    if isinstance(target, dict) and isinstance(target.get("id"), str):
        return str(target["id"])
    if isinstance(target, str) and target in jobs:
        return jobs[target]
    raise BadGroup(
        f'{kind}: no job of the file has the key {target!r} (a submitted job is {{"id": …}})'
    )


def _target(edge: Dependency, keys: Mapping[int, str]) -> object:
    if isinstance(edge.target, Job):
        return keys.get(id(edge.target), edge.target.name)
    return {"id": edge.target if isinstance(edge.target, str) else edge.target.id}


def _plain(value: Any) -> Any:
    if isinstance(value, arrays.ArraySpec):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, frozenset)):
        items = sorted(value) if isinstance(value, frozenset) else value
        return [_plain(item) for item in items]
    return value


def _same(value: Any) -> Any:
    return value
