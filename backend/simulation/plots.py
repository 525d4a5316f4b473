"""The runs as pictures: Vega-Lite specifications with their data, one JSON file each.

The page draws such files, and so does https://vega.github.io/editor. Specification:
https://vega.github.io/vega-lite/docs/spec.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from backend.simulation.measures import bounded_slowdown, slowdown_by_user
from backend.simulation.replay import Run

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
POINTS = 400  #: of each line at most
Rows = list[dict[str, Any]]
T = TypeVar("T")


def write(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write every plot into a folder, which is made; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "waits": _waits(runs),
        "slowdowns": _slowdowns(runs),
        "users": _users(runs),
        "busy-slots": _levels(runs, 1, "Slots that are busy"),
        "waiting-slots": _levels(runs, 2, "Parts of jobs that wait for a slot"),
    }
    return [_written(folder / f"{name}.vl.json", spec) for name, spec in made.items()]


def _written(path: Path, spec: dict[str, Any]) -> Path:
    path.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
    return path


def _waits(runs: Sequence[Run]) -> dict[str, Any]:
    rows = [
        {"policy": run.policy, "hours": round(value / 3600, 4), "part": part}
        for run in runs
        for part, value in _distribution([trip.wait for trip in run.trips])
    ]
    x = _axis("hours", "hours of waiting", scale={"type": "symlog", "constant": 0.01})
    return _line("How long jobs wait: the part of all jobs up to a time", rows, x, _part())


def _slowdowns(runs: Sequence[Run]) -> dict[str, Any]:
    rows = [
        {"policy": run.policy, "slowdown": round(value, 3), "part": part}
        for run in runs
        for part, value in _distribution([bounded_slowdown(trip) for trip in run.trips])
    ]
    x = _axis("slowdown", "bounded slowdown", scale={"type": "log"})
    return _line("Bounded slowdown: the part of all jobs up to a value", rows, x, _part())


def _users(runs: Sequence[Run]) -> dict[str, Any]:
    rows = [
        {"policy": run.policy, "user": user, "slowdown": round(value, 3)}
        for run in runs
        for user, value in slowdown_by_user(run).items()
    ]
    x = {"field": "policy", "type": "nominal", "title": None, "axis": {"labelAngle": 0}}
    y = _axis("slowdown", "mean bounded slowdown", scale={"type": "log"})
    spec = _spec("What each user gets: a tick a user", rows, {"type": "tick"}, x, y)
    spec["encoding"]["tooltip"] = [{"field": "user"}, {"field": "slowdown"}]
    return spec


def _levels(runs: Sequence[Run], column: int, title: str) -> dict[str, Any]:
    rows = [
        {"policy": run.policy, "hours": round(level[0] / 3600, 4), "slots": level[column]}
        for run in runs
        for level in _thinned(run.levels)
    ]
    y = _axis("slots", title.lower())
    return _line(title, rows, _axis("hours", "hours"), y, interpolate="step-after")


def _distribution(values: Iterable[float]) -> list[tuple[float, float]]:
    """Return (part of all, value) pairs, rising."""
    ordered = sorted(values)
    pairs = [(round(rank / len(ordered), 4), value) for rank, value in enumerate(ordered, 1)]
    return _thinned(pairs)


def _thinned(points: Sequence[T]) -> list[T]:
    """Return at most POINTS of the points, evenly chosen, the first and the last among them."""
    if len(points) <= POINTS:
        return list(points)
    step = (len(points) - 1) / (POINTS - 1)
    return [points[round(number * step)] for number in range(POINTS)]


def _part() -> dict[str, Any]:
    return _axis("part", "part of all jobs", axis={"format": "%"})


def _axis(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _line(
    title: str, rows: Rows, x: dict[str, Any], y: dict[str, Any], **mark: Any
) -> dict[str, Any]:
    return _spec(title, rows, {"type": "line", **mark}, x, y)


def _spec(
    title: str, rows: Rows, mark: dict[str, Any], x: dict[str, Any], y: dict[str, Any]
) -> dict[str, Any]:
    colour = {"field": "policy", "type": "nominal", "title": "policy"}
    return {
        "$schema": SCHEMA,
        "title": title,
        "width": 640,
        "height": 320,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {"x": x, "y": y, "color": colour},
    }
