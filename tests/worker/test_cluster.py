"""A worker that hands its jobs to a resource manager: the local one here, the same code for all."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.worker.config import read
from backend.worker.executors.cluster import ClusterExecutor
from gristmill import registry
from gristmill.drivers import Local
from gristmill.jobs import JobState
from gristmill.journal import Journal, MemoryJournal
from gristmill.protocol import Limits
from gristmill.service import ResourceManager
from tests.worker.fake_server import FakeServer
from tests.worker.test_agent import Start, Worker, python_job, shell_job
from tests.worker.test_agent import server as server
from tests.worker.test_agent import start as start

pytestmark = [pytest.mark.timeout(180), pytest.mark.e2e]


@pytest.fixture(autouse=True)
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Local]:
    """The local manager with a place of its own, empty again at the end."""
    place = tmp_path / "rm"
    place.mkdir()
    (place / "local.toml").write_text("slots = 2\n")
    monkeypatch.setenv("GRISTMILL_LOCAL", str(place))
    monkeypatch.setenv("GRISTMILL_STATE", str(tmp_path / "state"))
    with Local(journal=Journal(tmp_path / "journal")) as rm:
        yield rm


Make = Callable[..., Worker]


@pytest.fixture
def worker(start: Start) -> Make:
    def one(**manager: Any) -> Worker:
        return start("--executor", "local", manager={"interval": 1.0, **manager})

    return one


def state_of(manager: Local, server: FakeServer, attempt: str) -> JobState:
    native = server.wait_for(attempt, "started")["native_id"]
    return manager.attach(native).status().state


def spooled(worker: Worker) -> list[Path]:
    return list((worker.work / "cluster").iterdir())


def wait_until(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_block_runs_as_a_job_of_the_manager(
    server: FakeServer, worker: Make, tmp_path: Path, manager: Local
) -> None:
    made = worker()
    server.give(python_job("a.0.1", tmp_path / "cache"))
    end = server.wait_for("a.0.1")
    assert end["outcome"] == "done", end
    assert server.registrations[0]["executor"] == "local"
    assert server.registrations[0]["limits"] == "manager"
    assert server.log("a.0.1") == "at 0\nat 1\nat 2\n"
    assert end["usage"]["peak_memory_mb"] > 1
    assert state_of(manager, server, "a.0.1") is JobState.DONE
    wait_until(lambda: not spooled(made))
    assert not list((made.work / "jobs").iterdir())


def test_it_has_not_started_while_it_waits_in_the_managers_queue(
    server: FakeServer, worker: Make, manager: Local
) -> None:
    made = worker()
    waits = "while ! [ -e go ]; do sleep 0.1; done; finish"
    for number in range(2):  # there are two slots
        server.give(shell_job(f"{number}.0.1", waits))
        server.wait_for(f"{number}.0.1", "started")
    server.give(shell_job("2.0.1", waits))
    wait_until(lambda: made.said().count('"event": "submitted"') == 3)
    assert manager.attach("3").status().state is JobState.QUEUED
    server.cancel.add("2.0.1")
    end = server.wait_for("2.0.1")
    assert end["outcome"] == "cancelled"
    assert not server.of("2.0.1", "started")
    server.cancel |= {"0.0.1", "1.0.1"}
    for attempt in ("0.0.1", "1.0.1"):
        assert server.wait_for(attempt)["outcome"] == "cancelled"


def test_cancelling_ends_the_managers_job(server: FakeServer, worker: Make, manager: Local) -> None:
    worker()
    server.give(shell_job("a.0.1", "echo here; sleep 4711"))
    assert state_of(manager, server, "a.0.1") is JobState.RUNNING
    server.cancel.add("a.0.1")
    assert server.wait_for("a.0.1")["outcome"] == "cancelled"
    assert server.log("a.0.1") == "here\n"
    manager.wait(server.of("a.0.1", "started")[0]["native_id"], timeout=60)


def test_limits_have_their_names(server: FakeServer, worker: Make) -> None:
    worker()
    limits = Limits(memory_mb=60, time_seconds=60, cores=1)
    hog = "exec /usr/bin/python3 -c 'x = bytearray(300_000_000); input()' </dev/zero"
    server.give(shell_job("time.0.1", "sleep 60", seconds=1))
    server.give(shell_job("memory.0.1", hog, limits=limits))
    assert server.wait_for("time.0.1")["failure"]["kind"] == "time limit"
    assert server.wait_for("memory.0.1")["failure"]["kind"] == "memory limit"


def test_the_managers_own_limit_holds_when_ours_does_not(
    server: FakeServer, worker: Make, manager: Local
) -> None:
    """What watches the job on the node hangs: the manager ends it, and says why."""
    made = worker(time_margin_seconds=1, seen_within_seconds=1)
    server.give(shell_job("a.0.1", "sleep 60", seconds=3))
    server.wait_for("a.0.1", "started")
    (spool,) = spooled(made)
    told = json.loads((spool / "events.jsonl").read_text().splitlines()[0])
    os.kill(told["pid"], signal.SIGSTOP)
    end = server.wait_for("a.0.1")
    assert end["failure"]["kind"] == "time limit", end
    assert state_of(manager, server, "a.0.1") is JobState.TIMED_OUT
    assert end["usage"]["wall_seconds"] >= 3  # from the manager's accounting


def test_a_job_that_others_cancel_is_the_farms_fault(
    server: FakeServer, worker: Make, manager: Local
) -> None:
    worker()
    server.give(shell_job("a.0.1", "sleep 60"))
    manager.cancel(server.wait_for("a.0.1", "started")["native_id"])
    end = server.wait_for("a.0.1")
    assert (end["outcome"], end["failure"]["kind"]) == ("failed", "worker error")


def test_a_node_that_lacks_our_software_is_the_farms_fault(
    server: FakeServer, worker: Make
) -> None:
    worker(python="/nowhere/python", seen_within_seconds=0.5)
    server.give(shell_job("a.0.1", "finish"))
    end = server.wait_for("a.0.1")
    assert end["failure"]["kind"] == "worker error"
    assert "/nowhere/python" in end["failure"]["message"]


TALK = """
for i in 1 2 3; do echo "before $i"; done
touch said; while ! [ -e outputs/go ]; do sleep 0.1; done
echo after; finish
"""


def test_a_killed_worker_picks_up_what_runs_and_what_ended_meanwhile(
    server: FakeServer, worker: Make, manager: Local
) -> None:
    first = worker()
    server.give(shell_job("runs.0.1", TALK), shell_job("ends.0.1", TALK))
    natives = {a: server.wait_for(a, "started")["native_id"] for a in ("runs.0.1", "ends.0.1")}
    server.wait(lambda: "before 3" in server.log("runs.0.1"))
    first.process.kill()
    first.process.wait()
    (first.work / "jobs/ends.0.1/outputs/go").touch()
    manager.wait(natives["ends.0.1"], timeout=60)
    worker()
    server.wait(lambda: len(server.registrations) == 2)
    assert set(server.registrations[1]["running"]) == {"runs.0.1", "ends.0.1"}
    assert server.wait_for("ends.0.1")["outcome"] == "done"
    (first.work / "jobs/runs.0.1/outputs/go").touch()
    end = server.wait_for("runs.0.1")
    assert end["outcome"] == "done"
    for attempt in natives:
        assert len(server.of(attempt, "finished")) == 1
        assert server.log(attempt) == "before 1\nbefore 2\nbefore 3\nafter\n"
    wait_until(lambda: not spooled(first))
    with Local(journal=Journal(first.work / "cluster.jsonl")) as ours:
        assert len(ours.runs()) == 2  # nothing was submitted again


def test_jobs_that_the_server_gave_to_others_meanwhile_are_cancelled(
    server: FakeServer, worker: Make, manager: Local
) -> None:
    first = worker()
    server.give(shell_job("a.0.1", "sleep 60"))
    native = server.wait_for("a.0.1", "started")["native_id"]
    first.process.kill()
    first.process.wait()
    server.forget = ("a.0.1",)
    second = worker()
    manager.wait(native, timeout=60)
    assert manager.attach(native).state is not JobState.DONE
    wait_until(lambda: not spooled(second))
    assert not server.of("a.0.1", "finished")


def test_a_worker_killed_between_the_end_and_the_report_does_not_blame_the_block(
    server: FakeServer, worker: Make
) -> None:
    first = worker()
    server.give(shell_job("a.0.1", TALK))
    server.wait_for("a.0.1", "started")
    first.process.kill()
    first.process.wait()
    (first.work / "cluster/a.0.1/heard").touch()  # as if it had begun to store
    (first.work / "jobs/a.0.1/outputs/go").touch()
    worker()
    assert server.wait_for("a.0.1")["failure"]["kind"] == "worker error"


def test_drained_it_leaves_its_jobs_to_the_next_process_if_so_configured(
    server: FakeServer, worker: Make
) -> None:
    first = worker(on_drain="leave")
    server.give(shell_job("a.0.1", TALK))
    server.wait_for("a.0.1", "started")
    assert first.stop() == 0
    assert not server.of("a.0.1", "finished")
    (first.work / "jobs/a.0.1/outputs/go").touch()
    worker()
    assert server.wait_for("a.0.1")["outcome"] == "done"


def test_drained_it_waits_otherwise(server: FakeServer, worker: Make) -> None:
    made = worker()
    server.give(shell_job("a.0.1", "touch said; sleep 1; finish"))
    server.wait_for("a.0.1", "started")
    assert made.stop() == 0
    assert server.wait_for("a.0.1")["outcome"] == "done"


def test_without_a_job_for_long_it_stops_itself(server: FakeServer, start: Start) -> None:
    made = start("--idle-seconds", "0.5")
    assert made.process.wait(60) == 0
    assert "drained" in made.said()


@pytest.mark.parametrize(
    ("executor", "table", "says"),
    [
        ("slurmm", {}, "no manager is called 'slurmm'"),
        ("local", {"native": ["--x"]}, "it has no raw options"),
        ("local", {"native": "--x"}, "must be a list"),
        ("local", {"on_drain": "stay"}, "not wait or leave"),
        ("local", {"quees": {}}, "nothing is called 'quees'"),
        ("local", {"python": "python3"}, "absolute"),
    ],
)
def test_what_the_manager_cannot_do_is_said_at_the_start(
    start: Start, executor: str, table: dict[str, Any], says: str
) -> None:
    made = start("--executor", executor, manager=table)
    assert made.process.wait(60) == 2
    assert says in made.said()


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_manager_takes_jobs_such_as_ours(name: str, tmp_path: Path) -> None:
    """With what it cannot hold left out; only memory and cores may be."""
    variables = {"GRISTMILL_WORKER_SERVER": "http://127.0.0.1:9", "GRISTMILL_WORKER_TOKEN": "t"}
    config = read(["--work", str(tmp_path), "--executor", name], variables, sys.executable)
    with ResourceManager(name, journal=MemoryJournal()) as rm:
        executor = ClusterExecutor(rm, config, ())
        try:
            executor.try_out()
        finally:
            executor.close()
