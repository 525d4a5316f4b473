"""What job.json says, checked: the Sandboxing API's own form (docs/reference/sandboxing-api.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.runtime.errors import JobError

SCHEMA = 1
KINDS = ("block", "analyzer", "dataset")


@dataclass(frozen=True, slots=True)
class InputPort:
    """An input of the algorithm, by the algorithm's own name."""

    name: str
    group: int  #: index of its group in the declaration; 0 is synchronised
    channel: str
    format: str
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class OutputPort:
    """An output to write."""

    name: str
    format: str


@dataclass(frozen=True, slots=True)
class Library:
    """A library of the closure, and the names under which it imports others."""

    folder: Path
    uses: Mapping[str, str]  #: alias -> reference


@dataclass(frozen=True, slots=True)
class Job:
    """One job."""

    folder: Path
    kind: str
    entry_file: Path
    entry_name: str
    declaration: Mapping[str, Any]
    parameters: Mapping[str, Any]
    libraries: Mapping[str, Library]
    uses: Mapping[str, str]
    formats: Mapping[str, Any]
    channel: str
    inputs: tuple[InputPort, ...]
    outputs: tuple[OutputPort, ...]
    range: tuple[int, int] | None
    root: Path
    messages_fd: int | None


def load(folder: Path) -> Job:
    """Read `folder`/job.json. Raises JobError with a sentence that says what is wrong."""
    path = folder / "job.json"
    try:
        given = json.loads(path.read_bytes())
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise JobError(f"{path} is not JSON: {error}") from error
    if not isinstance(given, dict) or given.get("schema") != SCHEMA:
        raise JobError(f"{path} is not of schema {SCHEMA}, the one this runtime knows")
    try:
        return _job(folder, given)
    except KeyError as error:
        raise JobError(f"{path} lacks {error}") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise JobError(f"{path} is malformed: {error}") from error


def _job(folder: Path, given: dict[str, Any]) -> Job:
    if given["kind"] not in KINDS:
        raise JobError(f"kind is {given['kind']!r}, not one of {', '.join(KINDS)}")
    between = given.get("range")
    return Job(
        folder=folder,
        kind=given["kind"],
        entry_file=folder / given["entry"]["file"],
        entry_name=given["entry"]["name"],
        declaration=given.get("declaration") or {},
        parameters=given.get("parameters") or {},
        libraries={
            reference: Library(folder / library["folder"], library.get("uses") or {})
            for reference, library in (given.get("libraries") or {}).items()
        },
        uses=given.get("uses") or {},
        formats=given.get("formats") or {},
        channel=given.get("channel") or "",
        inputs=tuple(_input(folder, port) for port in given.get("inputs") or ()),
        outputs=tuple(
            OutputPort(port["name"], port["format"]) for port in given.get("outputs") or ()
        ),
        range=None if between is None else (int(between[0]), int(between[1])),
        root=folder / (given.get("root") or "data"),
        messages_fd=given.get("messages_fd"),
    )


def _input(folder: Path, port: dict[str, Any]) -> InputPort:
    return InputPort(
        name=port["name"],
        group=int(port["group"]),
        channel=port["channel"],
        format=port["format"],
        files=tuple(folder / file["path"] for file in port["files"]),
    )
