"""Traces in the Standard Workload Format of the Parallel Workloads Archive.

One job a line, 18 numbers with blanks between them; `;` begins a comment, and those before the
first job are headers, `; Label: value`. -1 stands for what is not known. Source: D. Feitelson,
"The Standard Workload Format", version 2.2,
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html; the format is due to Chapin et al.,
"Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.simulation.load import BadLoadError, Job, Load

FIELDS = (
    "job number",
    "submit time",  # seconds from the start of the log
    "wait time",  # what the recorded scheduler made of it: not ours
    "run time",  # seconds, wall clock
    "allocated processors",
    "average CPU time used",
    "used memory",  # KB per processor
    "requested processors",
    "requested time",
    "requested memory",  # KB per processor
    "status",  # 0 failed, 1 completed, 5 cancelled; 2 to 4: pieces of a checkpointed job
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
PIECES = frozenset({2, 3, 4})  #: status of lines that repeat parts of a job given as a whole
UNKNOWN = -1.0


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a trace; `values` are named by FIELDS, UNKNOWN where the trace has -1."""

    line: int
    values: tuple[float, ...]

    def __getitem__(self, name: str) -> float:
        return self.values[FIELDS.index(name)]


def read(path: Path, *, processors_per_slot: int = 1, limit: int | None = None) -> Load:
    """Return the load of a trace file (also .gz): its first `limit` jobs, or all.

    Raises BadLoadError for what is no trace.
    """
    try:
        text = _text(path)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadLoadError(f"cannot read {path}: {error}") from None
    try:
        headers, records = parse(text.splitlines())
    except BadLoadError as error:
        raise BadLoadError(f"{path}: {error}") from None
    return _load(path.name, headers, records, processors_per_slot, limit)


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


def parse(lines: Iterable[str]) -> tuple[dict[str, str], list[Record]]:
    """Return headers and records; BadLoadError names the line that is none."""
    headers: dict[str, str] = {}
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        text, _, comment = line.partition(";")
        if text.strip():
            records.append(Record(number, _values(number, text)))
        elif ":" in comment and not records:
            label, _, value = comment.partition(":")
            headers[label.strip()] = value.strip()
    return headers, records


def _values(number: int, text: str) -> tuple[float, ...]:
    words = text.split()
    if len(words) != len(FIELDS):
        raise BadLoadError(
            f"line {number} has {len(words)} fields, a job of the Standard Workload Format has "
            f"{len(FIELDS)}"
        )
    return tuple(_number(number, name, word) for name, word in zip(FIELDS, words, strict=True))


def _number(line: int, name: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadLoadError(f"line {line}: {name} is {word!r}, not a number")
    return value


def job_of(record: Record, processors_per_slot: int = 1) -> Job | None:
    """Return the job of a record; None if it has no run time, no size or no submit time.

    The size is what was allocated, or else what was requested.
    """
    allocated, requested = record["allocated processors"], record["requested processors"]
    processors = allocated if allocated > 0 else requested
    seconds, submitted = record["run time"], record["submit time"]
    if record["status"] in PIECES or processors <= 0 or seconds <= 0 or submitted < 0:
        return None
    user = record["user"]
    return Job(
        number=int(record["job number"]),
        user="unknown" if user == UNKNOWN else f"user{user:.0f}",
        submitted=submitted,
        seconds=seconds,
        slots=math.ceil(processors / processors_per_slot),
    )


def _load(
    name: str,
    headers: Mapping[str, str],
    records: list[Record],
    processors_per_slot: int,
    limit: int | None,
) -> Load:
    found = [job_of(record, processors_per_slot) for record in records]
    jobs = sorted(
        (job for job in found if job is not None), key=lambda job: (job.submitted, job.number)
    )
    if not jobs:
        raise BadLoadError(f"{name} holds no job that ran: nothing to replay")
    return Load(
        name=name,
        jobs=tuple(jobs[:limit]),
        left_out=len(records) - len(jobs),
        processors=_processors(headers),
    )


def _processors(headers: Mapping[str, str]) -> int | None:
    """The size of the machine: `MaxProcs`, or `MaxNodes` where each node counts as one."""
    for label in ("MaxProcs", "MaxNodes"):
        words = headers.get(label, "").split()
        if words and words[0].isdecimal() and int(words[0]) > 0:
            return int(words[0])
    return None
