"""Files of jobs, in JSON or TOML.

```toml
[jobs.prep]
script = "prep.sh"
time = "1h"

[jobs.solve]
command = ["solve", "--all"]
after_ok = ["prep"]
array = "0-9%3"
```

Attributes are those of `Job`; what a job waits for is named by keys of the same file, or as
`{id = "123"}` for a job that the manager has already. Paths of scripts are seen from the file.
The form that `JobGroup.to_json` writes (`jobs` is a list) is read as well.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill.errors import BadGroup, BadValue
from gristmill.jobs import Dependency, Job, JobGroup, Relation

RELATIONS = {
    **{str(relation): (relation, False) for relation in Relation},
    "each_after_ok": (Relation.AFTER_OK, True),
}


def load(path: Path) -> JobGroup:
    """Read a file of jobs. Raises BadValue or BadGroup, naming the file and the job."""
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise BadValue(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadValue(f"{path}: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("jobs"), (dict, list)):
        raise BadValue(f"{path}: a file of jobs has 'jobs', a table of jobs by their names")
    try:
        if isinstance(value["jobs"], list):
            return JobGroup.from_json(value)
        return _group(value["jobs"], path.parent)
    except (BadValue, BadGroup) as error:
        raise type(error)(f"{path}: {error}") from None


def _group(entries: Mapping[str, Any], folder: Path) -> JobGroup:
    jobs = {key: _job(key, entry, folder) for key, entry in entries.items()}
    for key, entry in entries.items():
        jobs[key].dependencies = tuple(_edges(key, entry, jobs))
    return JobGroup(jobs.values())


def _job(key: str, entry: Any, folder: Path) -> Job:
    if not isinstance(entry, dict):
        raise BadValue(f"job {key!r} must be a table of attributes")
    given = {name: value for name, value in entry.items() if name not in RELATIONS}
    if isinstance(given.get("script"), str):
        given["script"] = folder / given["script"]
    try:
        return Job(**{"name": key, **given})
    except TypeError as error:
        word = str(error).rpartition(" ")[2] if "unexpected keyword" in str(error) else str(error)
        raise BadValue(f"job {key!r} has an attribute that no job has: {word}") from None
    except BadValue as error:
        raise BadValue(f"job {key!r}: {error}") from None


def _edges(key: str, entry: Mapping[str, Any], jobs: Mapping[str, Job]) -> Iterator[Dependency]:
    for name, (relation, element_wise) in RELATIONS.items():
        targets = entry.get(name, [])
        for target in targets if isinstance(targets, list) else [targets]:
            yield Dependency(relation, _target(key, name, target, jobs), element_wise)


def _target(key: str, name: str, target: Any, jobs: Mapping[str, Job]) -> Job | str:
    if isinstance(target, dict) and isinstance(target.get("id"), (str, int)):
        return str(target["id"])
    if isinstance(target, str) and target in jobs:
        return jobs[target]
    raise BadGroup(f"job {key!r}: {name}: no job of the file is called {target!r}")
