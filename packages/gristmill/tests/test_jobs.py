"""Jobs, durations, memory, arrays, relations, groups and their JSON form."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill
from gristmill import arrays, patterns, quantities, site
from gristmill.errors import BadGroup, BadValue
from gristmill.jobs import (
    GroupOfJobs,
    Job,
    JobGroup,
    JobState,
    MailEvent,
    Relation,
    create_job,
    overall,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (90, 90),
        ("90", 90),
        ("1h", 3600),
        ("1h30m", 5400),
        ("2 days", 172800),
        ("36:00:00", 129600),
        ("1-12:00:00", 129600),
        ("3-0:00:30", 259230),
        (0.2, 1),
        (timedelta(minutes=2), 120),
        ("1.5h", 5400),
    ],
)
def test_durations(text: object, expected: int) -> None:
    assert quantities.seconds(text) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["01:30", "24:00", "abc", "", "-5", 0, "1h x", "5 parsecs"])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(BadValue):
        quantities.seconds(text)  # type: ignore[arg-type]


@given(st.integers(1, 10**8))
def test_a_clock_is_read_back(value: int) -> None:
    assert quantities.seconds(quantities.clock(value)) == value
    assert quantities.seconds(quantities.clock(value, days="-")) == value


def test_memory_is_read_in_powers_of_1024() -> None:
    assert quantities.bytes_of("4G") == quantities.bytes_of("4GiB") == 4 * 1024**3
    assert quantities.bytes_of("1.5k") == 1536
    for bad in ("four", "-1", "0", "4X"):
        with pytest.raises(BadValue):
            quantities.bytes_of(bad)


def test_a_time_of_day_needs_a_zone() -> None:
    assert quantities.moment("2030-01-01T00:00+01:00") == 1893452400
    assert quantities.moment(datetime(2030, 1, 1, tzinfo=UTC)) == 1893456000
    with pytest.raises(BadValue, match="zone"):
        quantities.moment("2030-01-01T00:00")


@given(st.sets(st.integers(0, 300), min_size=1), st.none() | st.integers(1, 9))
def test_an_array_is_read_back(indices: set[int], throttle: int | None) -> None:
    spec = arrays.ArraySpec(arrays.parse(indices).ranges, throttle)
    again = arrays.parse(str(spec))
    assert again == spec
    assert list(again) == sorted(indices)
    assert len(again) == len(indices)


def test_arrays_in_words() -> None:
    assert str(arrays.parse("0-99:2%10")) == "0-98:2%10"
    assert list(arrays.parse(3)) == [0, 1, 2]
    assert list(arrays.parse("1,3,5-9:2")) == [1, 3, 5, 7, 9]
    assert 7 in arrays.parse("1,3,5-9:2")
    for bad in ("", "5-1", "1,1", "a", "0-3%0", "-1", []):
        with pytest.raises(BadValue):
            arrays.parse(bad)


def test_jobs_take_what_people_write() -> None:
    job = Job("prep.sh", time="1h", nodes=2, gpus="a100:4", memory="4G", partition="gpu",
              mail_on="begin, end", licences=["matlab:2", "ansys"], hold=True)  # fmt: skip
    assert job.name == "prep.sh"
    assert (job.spec.time, job.spec.gpus, job.spec.gpu_type) == (3600, 4, "a100")
    assert job.spec.queue == "gpu"
    assert job.spec.mail_on == {MailEvent.BEGIN, MailEvent.END}
    assert job.spec.licences == {"matlab": 2, "ansys": 1}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "one of script"),
        ({"script": "a", "command": ["b"]}, "one of script"),
        ({"command": "rm -rf"}, "list of words"),
        ({"command": ["a"], "nodes": 0}, "nodes"),
        ({"command": ["a"], "nodes": True}, "nodes"),
        ({"command": ["a"], "time": "01:30"}, "time"),
        ({"command": ["a"], "memory": "1G", "memory_per_core": "1G"}, "exclude"),
        ({"command": ["a"], "environment": {"A-B": "x"}}, "variable"),
        ({"command": ["a"], "name": "a\nb"}, "name"),
        ({"command": ["a"], "queue": "x\n#SBATCH --uid=0"}, "queue"),
        ({"command": ["a"], "stdout": "x\ny"}, "path"),
        ({"command": ["a"], "mail_on": "sometimes"}, "mail_on"),
        ({"command": ["a"], "hold": "forever"}, "hold"),
        ({"command": ["a"], "tasks": 9, "nodes": 2, "tasks_per_node": 4}, "need 3 nodes"),
        ({"command": ["a\0"]}, "NUL"),
        ({"command": ["a"], "join": True, "stderr": "e"}, "join"),
        ({"command": ["a"], "after_ok": [3.5]}, "no job"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(
    options: dict[str, object], word: str
) -> None:
    with pytest.raises(BadValue, match=word):
        Job(**options)  # type: ignore[arg-type]


def test_a_group_is_its_closure_in_an_order_that_can_be_submitted() -> None:
    a = Job(command=["a"])
    b = Job(command=["b"], after_ok=a)
    c = Job(command=["c"], after_any=[a, b])
    assert list(JobGroup(c)) == [a, b, c]
    assert GroupOfJobs is JobGroup
    assert JobGroup([c])["b"] is b


def test_a_circle_is_named() -> None:
    a = Job(command=["a"])
    b = Job(command=["b"], after_ok=a)
    a.depends_on(b)
    with pytest.raises(BadGroup, match=r"a -> b -> a|b -> a -> b"):
        JobGroup(a)


def test_a_group_survives_json() -> None:
    a = Job("x.sh", name="same", time=61, array="1-9:2%3", environment={"A": "ü\n"}, priority=0,
            requeue=False, native={"slurm": ["--x"]}, mail_on="abort", hold="system")  # fmt: skip
    b = Job(command=["b", "c"], name="same", after_not_ok=[a, "77"], each_after_ok=[])
    text = json.dumps(JobGroup(b).to_json())
    again = JobGroup.from_json(json.loads(text))
    assert [job.spec for job in again] == [a.spec, b.spec]
    edges = again.jobs[1].dependencies
    assert [edge.relation for edge in edges] == [Relation.AFTER_NOT_OK] * 2
    assert edges[0].target is again.jobs[0]
    assert edges[1].target == "77"
    assert json.dumps(again.to_json()) == text


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"jobs": [{"key": "a", "command": ["x"], "colour": "red"}]},
        {"jobs": [{"key": "a", "command": ["x"]}, {"key": "a", "command": ["x"]}]},
        {"jobs": [{"key": "a", "command": ["x"], "after_ok": ["b"]}]},
        {"jobs": [{"key": "a"}]},
        {"jobs": [{"key": "a", "command": ["x"], "hold": "maybe"}]},
    ],
)
def test_files_that_make_no_sense(value: dict[str, object]) -> None:
    with pytest.raises((BadValue, BadGroup)):
        JobGroup.from_json(value)


def test_one_state_for_many() -> None:
    assert overall([JobState.DONE, JobState.RUNNING]) is JobState.RUNNING
    assert overall([JobState.DONE, JobState.FAILED]) is JobState.FAILED
    assert overall([JobState.DONE, JobState.DONE]) is JobState.DONE
    assert overall([]) is JobState.NEW
    assert {state for state in JobState if state.final} == {
        JobState.DONE,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMED_OUT,
        JobState.OUT_OF_MEMORY,
        JobState.NODE_FAILURE,
        JobState.LOST,
    }


def test_patterns() -> None:
    text = "100%% of %x-%A_%a %q"
    assert patterns.expand(text, job="7_3", array="7", index=3, name="n") == "100% of n-7_3 %q"
    assert patterns.used(text) == {"x", "A", "a"}


def test_the_site_file() -> None:
    given = {
        "interval": 30,
        "defaults": {"account": "proj", "time": "1h"},
        "node_kinds": {
            "harpertown-gpu": {"partition": "gpu", "features": ["harpertown"], "gpus": 1}
        },
        "native": {"slurm": ["--switches=1"]},
    }
    found = site.parse(given, "here")
    spec = Job(command=["x"], node_kind="harpertown-gpu", features="big").spec
    spec = found.resolve(spec)
    assert (spec.queue, spec.features, spec.gpus) == ("gpu", ("big", "harpertown"), 1)
    assert (spec.account, spec.time, spec.node_kind) == ("proj", 3600, None)
    assert spec.native == {"slurm": ("--switches=1",)}
    with pytest.raises(BadValue, match="the job says"):
        found.resolve(Job(command=["x"], node_kind="harpertown-gpu", queue="cpu").spec)
    for bad in ({"colour": 1}, {"defaults": {"colour": 1}}, {"defaults": {"time": "01:30"}}):
        with pytest.raises(BadValue, match="here"):
            site.parse(bad, "here")


def test_the_public_names_are_there() -> None:
    for name in gristmill.__all__:
        assert getattr(gristmill, name) is not None
    assert create_job("x.sh", {"time": "1h"}).spec.time == 3600
    assert gristmill.get_driver("slurm") is gristmill.Slurm
    with pytest.raises(AttributeError):
        gristmill.nothing_of_this_name  # noqa: B018  # the look-up itself is the test
