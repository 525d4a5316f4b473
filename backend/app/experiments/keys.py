"""Keys of the cache, and nothing else: the same key means the same outputs. Pure.

A key is the SHA-256 of canonical JSON over everything that outputs depend on. Names, queues,
slots, limits, users and descriptions are left out on purpose: changing them is a hit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

Declaration = Mapping[str, Any]

SCHEMA = 1  #: of what goes into a key; raised when the meaning of stored outputs changes


def canonical(value: Any) -> bytes:
    """Return the one spelling of a JSON value: sorted keys, no spaces, UTF-8.

    Raises ValueError for what JSON cannot say (NaN, infinity).
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def algorithm_hash(declaration: Declaration, source: str) -> str:
    """Return the hash of what an algorithm does: its declaration without prose, its source."""
    meaning = {k: v for k, v in declaration.items() if k not in _PROSE}
    meaning["groups"] = [_without_port_prose(group) for group in declaration.get("groups", ())]
    for section in ("parameters", "results"):
        if section in declaration:
            meaning[section] = _without_prose_inside(declaration[section])
    meaning.pop("uses", None)  # aliases matter, the names behind them do not: see block_key
    return digest({"declaration": meaning, "source": source})


def library_hash(declaration: Declaration, files: Mapping[str, str]) -> str:
    """Return the hash of a library's own content, without those that it uses."""
    return digest({"language": declaration.get("language"), "files": dict(files)})


def format_hash(ref: str, formats: Mapping[str, Declaration]) -> str:
    """Return the hash of a data format with all that it extends or refers to."""
    closure = format_closure([ref], formats)
    return digest([ref, {r: _without_format_prose(formats[r]) for r in closure}])


def database_hash(declaration: Declaration, source: str, files: Mapping[str, str]) -> str:
    """Return the hash of a database: declaration, views, and files (path -> SHA-256)."""
    meaning = {k: v for k, v in declaration.items() if k not in _PROSE}
    return digest({"declaration": meaning, "source": source, "files": dict(files)})


def dataset_key(
    *, database: str, protocol: str, set_name: str, environment: tuple[str, str], formats: list[str]
) -> str:
    """Return the key of a dataset's outputs; `database` and `formats` are hashes."""
    return digest(
        {
            "schema": SCHEMA,
            "kind": "dataset",
            "database": database,
            "protocol": protocol,
            "set": set_name,
            "environment": environment,
            "formats": sorted(formats),
        }
    )


def block_key(
    *,
    kind: str,
    algorithm: str,
    libraries: Mapping[str, Any],
    parameters: Mapping[str, Any],
    environment: tuple[str, str],
    inputs: Mapping[str, tuple[str, str]],
    formats: list[str],
) -> str:
    """Return the key of a block's outputs.

    `algorithm` and `formats` are hashes, `libraries` is a `library_tree`, `parameters` are
    complete (defaults filled in), `inputs` name for each port the producer's key and output.
    """
    return digest(
        {
            "schema": SCHEMA,
            "kind": kind,
            "algorithm": algorithm,
            "libraries": libraries,
            "parameters": dict(parameters),
            "environment": environment,
            "inputs": {port: list(source) for port, source in inputs.items()},
            "formats": sorted(formats),
        }
    )


def library_tree(
    uses: Mapping[str, str], hashes: Mapping[str, str], uses_of: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return alias -> [hash, tree of what that library uses], for a closure without cycles."""
    return {
        alias: [hashes[ref], library_tree(uses_of.get(ref, {}), hashes, uses_of)]
        for alias, ref in uses.items()
    }


def format_closure(refs: Iterable[str], formats: Mapping[str, Declaration]) -> list[str]:
    """Return the formats reached from `refs`, these included, in sorted order."""
    seen: set[str] = set()
    todo = list(refs)
    while todo:
        ref = todo.pop()
        if ref not in seen and ref in formats:
            seen.add(ref)
            todo += _mentioned(formats[ref])
    return sorted(seen)


_PROSE = frozenset({"description", "schema_version", "documentation"})


def _mentioned(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.count("/") == 2 else []
    if isinstance(value, Mapping):
        parts: Iterable[Any] = (v for k, v in value.items() if k != "#description")
    elif isinstance(value, list | tuple):
        parts = value
    else:
        return []
    return [ref for part in parts for ref in _mentioned(part)]


def _without_prose_inside(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {k: v for k, v in entry.items() if k != "description"}
        if isinstance(entry, Mapping)
        else entry
        for name, entry in section.items()
    }


def _without_port_prose(group: Mapping[str, Any]) -> dict[str, Any]:
    sides = {s: _without_prose_inside(group[s]) for s in ("inputs", "outputs") if s in group}
    rest = {k: v for k, v in group.items() if k not in ("inputs", "outputs", "name")}
    return rest | sides


def _without_format_prose(value: Any) -> Any:
    if isinstance(value, Mapping):
        prose = ("#description", "#schema_version")
        return {k: _without_format_prose(v) for k, v in value.items() if k not in prose}
    return value
