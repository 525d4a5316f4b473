"""Datasets: a database's view is asked for everything it has, and that is written down.

A view has `index(root_folder, parameters)`, a list of named tuples, and `get(output, index)`. The
column that an output names cuts the rows into data units: equal neighbours are one unit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gristmill.runtime import code, messages, parameters
from gristmill.runtime.algorithm import Ports, Written
from gristmill.runtime.errors import AlgorithmError
from gristmill.runtime.job import Job


class View:
    """What BEAT gives a view to derive from; `self.objs` are the rows of the index."""

    def __init__(self) -> None:
        self.root_folder: str | None = None
        self.parameters: dict[str, Any] | None = None
        self.outputs: Any = None
        self.objs: list[Any] = []

    def index(self, root_folder: str, parameters: dict[str, Any]) -> list[Any]:
        """Return the rows; the view itself must say."""
        raise NotImplementedError(f"{type(self).__name__} has no index()")

    def setup(self, root_folder: str, outputs: Any, parameters: dict[str, Any], *_: Any) -> bool:
        """Remember where the data are."""
        self.root_folder, self.outputs, self.parameters = root_folder, outputs, parameters
        return True

    def get(self, output: str, index: int) -> dict[str, Any]:
        """Return the value of an output at a row; the view itself must say."""
        raise NotImplementedError(f"{type(self).__name__} has no get()")

    def get_output_mapping(self, output: str) -> str:
        """Return the name of the column that cuts `output` into data units."""
        return output


def offer_beat_name() -> None:
    """Let views import `View` from where BEAT has it."""
    name = "beat.backend.python.database"
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.setdefault(".".join(parts[:end]), ModuleType(".".join(parts[:end])))
        module.__path__ = []
        if end > 1:
            setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
    sys.modules[name].View = View  # type: ignore[attr-defined]


def run(job: Job) -> Written:
    """Write all outputs of a dataset. The view's exceptions go through as they are."""
    offer_beat_name()
    ports = Ports(job)
    view = code.load(job)()
    given = parameters.typed(job.parameters, {})
    rows = list(view.index(str(job.root), given))
    ports.first, ports.last = 0, len(rows) - 1
    _open(view, job, given, rows)
    done, total = 0, max(1, len(rows) * len(job.outputs))
    for port in job.outputs:
        writer = ports.writer(port.name, port.format)
        for start, end in units(rows, _column(view, port.name)):
            writer.write(view.get(port.name, start), start, end, f"output {port.name!r}")
            messages.current.progress((done + end + 1) / total)
        done += len(rows)
    ends = {port.name: ports.last for port in job.outputs}
    return Written(ports.close(ends), None, ports.statistics(len(rows)))


def _open(view: Any, job: Job, given: dict[str, Any], rows: list[Any]) -> None:
    if hasattr(view, "setup"):
        names = {port.name: port.format for port in job.outputs}
        # BEAT's own views answer setup() with True or with nothing
        if view.setup(str(job.root), names, given) is False:
            raise AlgorithmError("the view's setup() returned False")
    view.objs = rows


def _column(view: Any, output: str) -> str:
    return view.get_output_mapping(output) if hasattr(view, "get_output_mapping") else output


def units(rows: list[Any], column: str) -> Iterator[tuple[int, int]]:
    """Cut the rows where the value of `column` changes; first and last row of each piece."""
    if rows and not hasattr(rows[0], column):
        has = ", ".join(getattr(rows[0], "_fields", ()))
        raise AlgorithmError(f"the index has no column {column!r}; it has {has}")
    start = 0
    for row in range(1, len(rows) + 1):
        if row == len(rows) or getattr(rows[row], column) != getattr(rows[start], column):
            yield start, row - 1
            start = row
