"""Pilots on the local manager: how many, which, and that a later process goes on with them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from backend.worker.pilots import Options, Pilots, Seen, options_of, parser, wanted
from gristmill.client import Client
from gristmill.connecting import connect
from gristmill.jobs import JobState
from gristmill.service import ResourceManager
from tests.worker.fake_server import CREDENTIAL, FakeServer
from tests.worker.test_agent import server as server

pytestmark = [pytest.mark.timeout(120), pytest.mark.e2e]


def options(folder: Path, **more: Any) -> Options:
    config = folder / "pilot.toml"
    executable = json.dumps([sys.executable, "-m", "gristmill.runtime"])
    config.write_text(
        f'standby = 0\n[[environment]]\nname = "P"\nversion = "1"\nexecutable = {executable}\n'
    )
    words = ["--manager", "local", "--folder", str(folder / "pilots"), "--config", str(config)]
    made = options_of(parser().parse_args([*words, "--max", "3", "--idle-seconds", "600"]))
    made.folder.mkdir(exist_ok=True)
    return replace(made, **more)


@pytest.mark.parametrize(
    ("live", "waiting", "busy", "more"),
    [
        ("", 0, {}, 1),  # the one that is always there
        ("a", 0, {"a": False}, 0),
        ("a", 5, {"a": True}, 3),  # two blocks each, and no more than four
        ("a", 1, {"a": True}, 1),
        ("a", 5, {"a": False}, 0),  # it is free, and gets nothing: more would get nothing, too
        ("ab", 4, {"a": True}, 1),  # one is on its way
        ("abc", 2, {"a": True}, 0),
        ("abcd", 50, dict.fromkeys("abcd", True), 0),
        ("a", 2, {"a": True, "x": False}, 1),  # x is a worker without a job: of another time
    ],
)
def test_how_many_are_started(
    live: str, waiting: int, busy: dict[str, bool], more: int, tmp_path: Path
) -> None:
    given = options(tmp_path, least=1, most=4, blocks=2)
    assert wanted(given, frozenset(live), Seen(waiting, busy)) == more


@dataclass
class Told:
    """What pilots need of a server, told by the one that speaks with the workers."""

    server: FakeServer
    waiting: int = 0

    @property
    def url(self) -> str:
        return self.server.url

    def create_worker_credential(self, worker_name: str) -> str:
        return CREDENTIAL

    def monitor(self) -> dict[str, Any]:
        names = {one["name"] for one in self.server.registrations}
        workers = [{"name": name, "state": "online", "running": [{}]} for name in sorted(names)]
        return {"queues": [{"name": "q", "waiting": self.waiting}], "workers": workers}


@pytest.fixture
def rm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    (tmp_path / "rm").mkdir()
    (tmp_path / "rm/local.toml").write_text("slots = 4\n")
    monkeypatch.setenv("GRISTMILL_LOCAL", str(tmp_path / "rm"))
    monkeypatch.setenv("GRISTMILL_STATE", str(tmp_path / "state"))
    with connect("local", journal=tmp_path / "journal") as made:
        yield made
        for run in made.runs():
            run.cancel()


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def pilots(given: Options, rm: ResourceManager, told: Told) -> Pilots:
    made = Pilots(given, rm, cast(Client, told))
    made.recover()
    return made


def test_another_process_goes_on_with_the_pilots_that_there_are(
    tmp_path: Path, server: FakeServer, rm: ResourceManager
) -> None:
    given, told = options(tmp_path, least=1), Told(server)
    pilots(given, rm, told).look()
    server.wait(lambda: server.registrations)
    told.waiting = 1
    with connect("local", journal=tmp_path / "journal") as later:
        again = pilots(given, later, told)
        again.look()
        server.wait(lambda: len({one["name"] for one in server.registrations}) == 2)
        told.waiting = 0
        again.look()
        assert sorted(one["name"] for one in server.registrations) == ["pilot-1", "pilot-2"]
        assert server.registrations[0]["memory_mb"] == given.memory_mb - 256
        again.end()
        later.wait(*later.runs(), timeout=60)
        assert [run.state for run in later.runs()] == [JobState.DONE] * 2  # drained, not killed


def test_pilots_end_when_idle_and_before_their_walltime(
    tmp_path: Path, server: FakeServer, rm: ResourceManager
) -> None:
    given, told = options(tmp_path, idle_seconds=0.5, seconds=121), Told(server)
    told.waiting = 1
    ours = pilots(given, rm, told)
    ours.look()
    told.waiting = 0
    rm.wait(*rm.runs(), timeout=60)
    ours.look()
    assert [run.state for run in rm.runs()] == [JobState.DONE]
    log = (given.folder / "pilot-1.log").read_text()
    assert '"why": "drained"' in log
    kept = pilots(replace(given, least=1), rm, told)
    kept.look()  # never idle for too long, but its time is over after a second
    rm.wait(*rm.runs(), timeout=60)
    assert [run.state for run in rm.runs()] == [JobState.DONE] * 2


def test_pilots_that_fail_at_once_are_not_started_over_and_over(
    tmp_path: Path, server: FakeServer, rm: ResourceManager
) -> None:
    given = options(tmp_path, least=1, python="/nowhere/python")
    ours = pilots(given, rm, Told(server))
    ours.look()
    rm.wait(*rm.runs(), timeout=60)
    ours.look()
    ours.look()
    assert len(rm.runs()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--min", "3", "--max", "2"], "--min 3 --max 2"),
        (["--time", "soon"], "soon"),
        (["--cores", "0"], "must be above 0"),
        (["--config", "/nowhere.toml"], "/nowhere.toml"),
        (["--manager", "slurmm"], "no manager is called 'slurmm'"),
        (["--native=--x"], "it has no raw options"),
        (["--token-file", "/nowhere"], "/nowhere"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path: Path, words: list[str], says: str) -> None:
    token, config = tmp_path / "token", tmp_path / "pilot.toml"
    token.write_text("t")
    config.write_text("")
    given = ["--manager", "local", "--folder", tmp_path / "p", "--config", config]
    argv = [*given, "--server", "http://127.0.0.1:9", "--token-file", token, *words]
    command = [sys.executable, "-m", "gristmill.cli.main", "pilots", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
