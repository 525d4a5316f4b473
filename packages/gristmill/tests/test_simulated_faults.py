"""Faults of managers, made by the simulators: the library stands every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gristmill
from gristmill import Job
from gristmill.jobs import JobState
from gristmill.service import ResourceManager
from gristmill.simulators import supervisor
from gristmill.simulators.__main__ import install
from gristmill.simulators.farm import Farm, Settings, plan_fault

# driver -> simulator, how it submits, how it lists
pytestmark = pytest.mark.conformance

MANAGERS = {
    "pbspro": ("openpbs", "qsub", "qstat"),
    "torque": ("torque", "qsub", "qstat"),
    "moab": ("moab", "msub", "showq"),
    "loadleveler": ("loadleveler", "llsubmit", "llq"),
    "lsf": ("lsf", "bsub", "bjobs"),
    "htcondor": ("htcondor", "condor_submit", "condor_q"),
}
Setup = Callable[..., tuple[ResourceManager, Path]]
every_manager = pytest.mark.parametrize("name", MANAGERS)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    root = tmp_path / "farm"
    clients = []

    def make(name: str, **settings: object) -> tuple[ResourceManager, Path]:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        folder = install(root, Settings(manager=MANAGERS[name][0], **settings))  # type: ignore[arg-type]
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        clients.append(gristmill.connect(name, journal=tmp_path / "journal", interval=0.2))
        return clients[-1], root

    yield make
    for client in clients:
        client.close()
    supervisor.stop(root)


def jobs_in(root: Path) -> int:
    farm = Farm(root)
    try:
        return len(farm.jobs())
    finally:
        farm.close()


def quick(name: str = "quick", text: str = "echo done") -> Job:
    return Job(script_text=f"#!/bin/sh\n{text}\n", name=name)


@every_manager
@pytest.mark.parametrize("fault", ["lost_answer", "empty"])
def test_a_submission_without_an_answer_is_found_again(name: str, fault: str, setup: Setup) -> None:
    rm, root = setup(name)
    plan_fault(root, MANAGERS[name][1], fault)
    run = rm.submit(quick())
    assert run.wait(60) is JobState.DONE
    assert jobs_in(root) == 1


@every_manager
def test_a_job_that_ended_before_it_was_looked_for_is_not_sent_twice(
    name: str, setup: Setup
) -> None:
    """The listing comes late: by then the manager may have forgotten the job."""
    rm, root = setup(name)
    plan_fault(root, MANAGERS[name][1], "lost_answer")
    plan_fault(root, MANAGERS[name][2], "slow", seconds=1.5)
    run = rm.submit(quick())
    assert run.wait(60) is JobState.DONE
    assert jobs_in(root) == 1


@every_manager
def test_a_daemon_that_is_away_is_asked_again(name: str, setup: Setup) -> None:
    rm, root = setup(name)
    plan_fault(root, MANAGERS[name][1], "down", times=2)
    plan_fault(root, MANAGERS[name][2], "down", times=2)
    run = rm.submit(quick())
    assert run.wait(60) is JobState.DONE
    assert jobs_in(root) == 1


@every_manager
def test_banners_and_warnings_are_passed_over(name: str, setup: Setup) -> None:
    rm, root = setup(name)
    for command in MANAGERS[name][1:]:
        plan_fault(root, command, "banner", times=-1)
    job = quick(text="exit 3")
    run = rm.submit(job)
    assert run.wait(60) is JobState.FAILED
    assert run[job].record.exit_code == 3


@every_manager
@pytest.mark.parametrize("fault", ["truncated", "empty"])
def test_a_listing_that_lost_jobs_ends_none_of_them(name: str, fault: str, setup: Setup) -> None:
    rm, root = setup(name)
    jobs = [quick(f"sleeper-{number}", "sleep 30") for number in range(4)]
    run = rm.submit(jobs)
    plan_fault(root, MANAGERS[name][2], fault, times=3)
    for _ in range(3):
        run.status()
        assert not any(handle.state.final for handle in run)
    rm.cancel(run)
    assert run.wait(60) is JobState.CANCELLED


@every_manager
def test_a_manager_without_history_leaves_it_to_the_exit_record(name: str, setup: Setup) -> None:
    rm, _ = setup(name, history=0.0)
    good, bad = quick("good"), quick("bad", "exit 7")
    run = rm.submit([good, bad])
    run.wait(60)
    assert (run[good].state, run[bad].state) == (JobState.DONE, JobState.FAILED)
    assert run[bad].record.exit_code == 7


def test_output_that_comes_late_is_still_read(setup: Setup) -> None:
    rm, _ = setup("pbspro", lag=1.0)
    job = quick("late", "echo hello")
    run = rm.submit(job)
    assert run.wait(60) is JobState.DONE
    assert run[job].log() == b"hello\n"
