"""Traces: the fields of the Standard Workload Format, and what is no trace."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.simulation import swf
from backend.simulation.load import BadLoadError, Job

HEADER = "; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 8\n;\n; Note: a colon: inside\n"
RAN = "1 100 5 60 4 -1 -1 8 3600 -1 1 7 2 -1 1 -1 -1 -1"


def trace(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "t.swf"
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def changed(**changes: int) -> str:
    words = RAN.split()
    for name, value in changes.items():
        words[swf.FIELDS.index(name.replace("_", " "))] = str(value)
    return " ".join(words)


def test_a_job_is_read_from_its_fields(tmp_path: Path) -> None:
    load = swf.read(trace(tmp_path, RAN))
    assert load.jobs == (Job(number=1, user="user7", submitted=100, seconds=60, slots=4),)
    assert (load.name, load.processors, load.left_out) == ("t.swf", 8, 0)


def test_headers_and_comments() -> None:
    headers, records = swf.parse([*HEADER.splitlines(), "", RAN + " ; a remark", "; Late: no"])
    assert headers == {
        "Version": "2.2",
        "MaxNodes": "4",
        "MaxProcs": "8",
        "Note": "a colon: inside",
    }
    assert [(r.line, r["run time"], r["queue"], r["think time"]) for r in records] == [
        (7, 60, 1, -1)
    ]


def test_missing_values(tmp_path: Path) -> None:
    load = swf.read(
        trace(
            tmp_path,
            changed(allocated_processors=-1),  # then what was requested counts
            changed(job_number=2, user=-1),
            changed(job_number=3, run_time=-1),
            changed(job_number=4, run_time=0),
            changed(job_number=5, allocated_processors=-1, requested_processors=-1),
            changed(job_number=6, status=3),  # a piece of a job that is there as a whole
            changed(job_number=7, submit_time=-1),
            changed(job_number=8, status=5),  # cancelled while it ran: it took its time
        )
    )
    assert [(j.number, j.user, j.slots) for j in load.jobs] == [
        (1, "user7", 8),
        (2, "unknown", 4),
        (8, "user7", 4),
    ]
    assert load.left_out == 5


def test_processors_in_slots_and_a_limit(tmp_path: Path) -> None:
    path = trace(tmp_path, changed(submit_time=200), changed(job_number=2, allocated_processors=5))
    load = swf.read(path, processors_per_slot=4, limit=1)
    assert [(j.number, j.slots) for j in load.jobs] == [(2, 2)]  # by time; rounded up


def test_compressed_traces_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress((HEADER + RAN).encode()))
    assert len(swf.read(path).jobs) == 1


def test_only_nodes_are_named(tmp_path: Path) -> None:
    assert swf.read(trace(tmp_path, RAN, header="; MaxNodes: 3\n")).processors == 3
    assert swf.read(trace(tmp_path, RAN, header="; MaxProcs: many\n")).processors is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 2 3", "line 6 has 3 fields, a job of the Standard Workload Format has 18"),
        (RAN.replace("60", "1m"), "line 6: run time is '1m', not a number"),
        (RAN.replace("60", "nan"), "line 6: run time is 'nan', not a number"),
        (changed(run_time=-1), "holds no job that ran"),
        ("", "holds no job that ran"),
    ],
)
def test_what_is_no_trace_is_told(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(BadLoadError, match=why):
        swf.read(trace(tmp_path, line))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadLoadError, match="cannot read"):
        swf.read(tmp_path / "nothing.swf")
    broken = tmp_path / "t.gz"
    broken.write_bytes(b"\x1f\x8bbroken")
    with pytest.raises(BadLoadError, match="cannot read"):
        swf.read(broken)


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    try:
        _, records = swf.parse(text.splitlines())
    except BadLoadError:
        return
    assert all(len(record.values) == 18 for record in records)
