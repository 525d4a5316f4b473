"""The site file: what the abstract names of a job mean on one cluster.

```toml
interval = 30                # seconds between polls that the site allows
[defaults]
queue = "batch"
account = "proj1"
[node_kinds.harpertown-gpu]
queue = "gpu_harpertown"
features = ["harpertown", "gpu"]
gpus = 1
[native]
slurm = ["--switches=1"]     # added to every job
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gristmill import jobfiles
from gristmill.errors import BadValue
from gristmill.jobs import Job, Spec

_LISTS = ("features", "licences", "environment", "native")


@dataclass(frozen=True, slots=True)
class Site:
    """A site file, read. `kinds` and `defaults` are attributes of `Spec`."""

    name: str = ""
    interval: float | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    native: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve(self, spec: Spec) -> Spec:
        """The spec with its node kind explained and defaults filled in; what a job says wins.

        Raises BadValue when the kind is not in the file, or when kind and job contradict.
        """
        if spec.node_kind is not None:
            spec = self._explain(spec, spec.node_kind)
        changes = {
            name: value
            for name, value in self.defaults.items()
            if getattr(spec, name) in (None, (), {})
        }
        native = {
            name: (*spec.native.get(name, ()), *self.native.get(name, ()))
            for name in {**spec.native, **self.native}
        }
        return replace(spec, **changes, native=native) if changes or self.native else spec

    def _explain(self, spec: Spec, kind: str) -> Spec:
        if kind not in self.kinds:
            known = ", ".join(sorted(self.kinds)) or "none"
            raise BadValue(f"node_kind: site {self.name!r} has no {kind!r}; it has {known}")
        changes: dict[str, Any] = {"node_kind": None}
        for name, value in self.kinds[kind].items():
            own = getattr(spec, name)
            if name == "features":
                changes[name] = (*own, *(item for item in value if item not in own))
            elif name in _LISTS:
                changes[name] = {**value, **own}
            elif own in (None, False) or own == value:
                changes[name] = value
            else:
                raise BadValue(
                    f"node_kind {kind!r} means {name}={value!r} here, but the job says {own!r}"
                )
        return replace(spec, **changes)


def load(path: str | Path) -> Site:
    """Read a site file. Raises BadValue, naming file and key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        value = tomllib.loads(text)
    except OSError as error:
        raise BadValue(f"site file {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"site file {path}: {error}") from None
    return parse(value, str(path))


def parse(value: Mapping[str, Any], name: str = "") -> Site:
    """The site of a dictionary such as tomllib gives. Raises BadValue, naming the key."""
    unknown = set(value) - {"interval", "defaults", "node_kinds", "native", "manager"}
    if unknown:
        raise BadValue(f"site file {name}: unknown key {', '.join(sorted(unknown))}")
    kinds = {
        kind: _attributes(given, f"{name}: node_kinds.{kind}")
        for kind, given in value.get("node_kinds", {}).items()
    }
    interval = value.get("interval")
    return Site(
        name=name,
        interval=None if interval is None else float(interval),
        defaults=_attributes(value.get("defaults", {}), f"{name}: defaults"),
        kinds=kinds,
        native={key: tuple(options) for key, options in value.get("native", {}).items()},
    )


def _attributes(given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """In the forms that people write (`time = "1h"`), as the values that a Spec holds."""
    try:
        spec = Job(**{"name": "site", "command": ("true",), **given}).spec
    except (BadValue, TypeError) as error:
        raise BadValue(f"site file {place}: {error}") from None
    asked = {**jobfiles.spec_to_json(spec), "name": "site"}
    names = {"queue" if name == "partition" else name for name in given}
    return {name: getattr(spec, name) for name in names if name in asked} | (
        {"gpu_type": spec.gpu_type} if spec.gpu_type else {}
    )
