"""The story of a block, as far as rows tell it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from backend.scheduler.core.story import Line

Row = Mapping[str, Any]


def lines_of_events(rows: Iterable[Row]) -> Iterator[Line]:
    """Tell the states that a block went through."""
    for row in rows:
        details = row["details"]
        failure = details.get("failure")
        because = failure["message"] if failure else details.get("reason")
        text = str(details["state"]) + (f": {because}" if because else "")
        yield Line(row["time"].timestamp(), text)


def lines_of_attempts(rows: Iterable[Row]) -> Iterator[Line]:
    """Tell what became of the attempts."""
    for row in rows:
        name = f"attempt {row['number']} of job {row['index']}"
        yield Line(row["leased_at"].timestamp(), f"{name}: leased to {row['worker']}")
        if row["started_at"]:
            yield Line(row["started_at"].timestamp(), f"{name}: its process started")
        if row["revoked_at"]:
            yield Line(row["revoked_at"].timestamp(), f"{name}: the worker is asked to kill it")
        if row["ended_at"]:
            yield Line(row["ended_at"].timestamp(), f"{name}: {_ending(row)}")


def _ending(row: Row) -> str:
    outcome = row["outcome"] or "fenced: its reports are refused from now on"
    failure = row["failure"]
    return f"{outcome} ({failure['kind']}: {failure['message']})" if failure else str(outcome)
