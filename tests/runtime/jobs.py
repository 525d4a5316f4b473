"""Makes job folders for the runtime, runs them, and reads what they wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from gristmill.runtime.files import DataFile, FileWriter
from gristmill.runtime.types import resolve

FORMATS: dict[str, Any] = {
    "user/integer/1": {"value": "int32"},
    "user/float/1": {"value": "float64"},
    "user/text/1": {"value": "string"},
    "user/vector/1": {"value": [0, "float64"]},
}

Row = tuple[int, int, Any]  #: first and last data unit, fields


def integers(values: list[int], width: int = 1, first: int = 0) -> list[Row]:
    """Rows of user/integer/1, each covering `width` data units."""
    return [
        (first + i * width, first + (i + 1) * width - 1, {"value": value})
        for i, value in enumerate(values)
    ]


def write_file(path: Path, reference: str, rows: list[Row], formats: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = FileWriter(path, reference, resolve(reference, formats))
    for start, end, value in rows:
        writer.write(value, start, end, "row")
    writer.close()


def read_file(path: Path, reference: str, formats: dict[str, Any]) -> list[Row]:
    data = DataFile(path, reference, resolve(reference, formats))
    return [
        (int(start), int(end), data.value(row).as_dict())
        for row, (start, end) in enumerate(zip(data.starts, data.ends, strict=True))
    ]


@dataclass
class Ran:
    """How a job ended."""

    folder: Path
    status: int
    stdout: str
    stderr: str
    messages: list[dict[str, Any]]
    result: dict[str, Any] | None

    def rows(self, output: str, reference: str = "user/integer/1") -> list[Row]:
        return read_file(self.folder / f"outputs/{output}.arrow", reference, FORMATS)

    @property
    def error(self) -> str:
        assert self.result is not None, self.stderr
        return f"{self.result['error']['type']}: {self.result['error']['message']}"


@dataclass
class JobFolder:
    """A job folder under construction; the defaults are a block with one input and output."""

    folder: Path
    source: str
    kind: str = "block"
    declaration: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, list[Row]] = field(default_factory=dict)  #: synchronised
    others: dict[str, list[Row]] = field(default_factory=dict)  #: of a second group
    outputs: tuple[str, ...] = ("out",)
    parameters: dict[str, Any] = field(default_factory=dict)
    libraries: dict[str, dict[str, Any]] = field(default_factory=dict)  #: ref -> {files, uses}
    uses: dict[str, str] = field(default_factory=dict)
    format: str = "user/integer/1"
    range: tuple[int, int] | None = None
    parts: int = 1  #: into how many files the first input is cut

    def write(self) -> dict[str, Any]:
        (self.folder / "algorithm").mkdir(parents=True)
        name = "view.py" if self.kind == "dataset" else "algorithm.py"
        (self.folder / "algorithm" / name).write_text(dedent(self.source))
        job = {
            "schema": 1,
            "kind": self.kind,
            "entry": {
                "file": f"algorithm/{name}",
                "name": "View" if self.kind == "dataset" else "Algorithm",
            },
            "declaration": self.declaration,
            "parameters": self.parameters,
            "libraries": {ref: self._library(ref, lib) for ref, lib in self.libraries.items()},
            "uses": self.uses,
            "formats": FORMATS,
            "channel": "main",
            "inputs": [
                *(self._input(name, 0, rows) for name, rows in self.inputs.items()),
                *(self._input(name, 1, rows) for name, rows in self.others.items()),
            ],
            "outputs": [
                {"name": name, "channel": "main", "format": self.format} for name in self.outputs
            ],
            "range": self.range,
            "limits": {"memory_mb": 1000, "time_seconds": 60, "cores": 1},
            "messages_fd": None,
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        return job

    def _library(self, reference: str, library: dict[str, Any]) -> dict[str, Any]:
        folder = Path("libraries") / reference
        for name, text in library["files"].items():
            path = self.folder / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return {"folder": str(folder), "uses": library.get("uses", {})}

    def _input(self, name: str, group: int, rows: list[Row]) -> dict[str, Any]:
        size = -(-len(rows) // self.parts) if rows else 1
        pieces = [rows[i : i + size] for i in range(0, len(rows), size)] or [[]]
        files = []
        for number, piece in enumerate(pieces):
            path = f"inputs/{name}.{number}.arrow"
            write_file(self.folder / path, self.format, piece, FORMATS)
            first, last = (piece[0][0], piece[-1][1]) if piece else (0, -1)
            files.append({"path": path, "first": first, "last": last})
        return {
            "name": name,
            "group": group,
            "channel": "main" if group == 0 else "other",
            "format": self.format,
            "files": files,
        }

    def run(self) -> Ran:
        job = self.write()
        messages = self.folder / "messages"
        with messages.open("wb") as sink:
            job["messages_fd"] = sink.fileno()
            (self.folder / "job.json").write_text(json.dumps(job))
            ended = subprocess.run(
                [sys.executable, "-m", "gristmill.runtime", "run", str(self.folder)],
                capture_output=True,
                text=True,
                pass_fds=[sink.fileno()],
                stdin=subprocess.DEVNULL,
                check=False,
            )
        result = self.folder / "result.json"
        return Ran(
            folder=self.folder,
            status=ended.returncode,
            stdout=ended.stdout,
            stderr=ended.stderr,
            messages=[json.loads(line) for line in messages.read_text().splitlines()],
            result=json.loads(result.read_text()) if result.is_file() else None,
        )
