"""A worker on a real Grid Engine and a real OAR, as a user who may submit there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fake_server import CREDENTIAL, FakeServer
from tests.worker.test_agent import SHELL, shell_job
from tests.worker.test_agent import server as server

pytestmark = [pytest.mark.real_rm, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "packages/gristmill/tests/clusters"
USER = "tester"
IS_UP = {
    "gridengine": ("grid_engine", "timeout 10 qstat -f | grep -q all.q"),
    "oar": ("oar", "timeout 20 oarnodes -s | grep -q Alive"),
}
AS_USER = ("runuser", "-u", USER, "--")


@pytest.fixture(scope="module", params=sorted(IS_UP))
def manager(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster, started unless it runs; then it is left as it was found."""
    if os.geteuid() != 0:
        pytest.fail("the cluster's start scripts install packages and daemons: run as root")
    name, is_up = IS_UP[request.param]
    was_there = subprocess.run(["sh", "-c", is_up], capture_output=True, check=False)
    if was_there.returncode != 0:
        subprocess.run([CLUSTERS / f"start_{name}.sh"], check=True, stdout=subprocess.DEVNULL)
    yield request.param
    if was_there.returncode != 0:
        subprocess.run([CLUSTERS / f"stop_{name}.sh"], check=True, stdout=subprocess.DEVNULL)


def interpreter(place: Path) -> Path:
    """A Python with our software that the user may run; root's own may be out of reach."""
    inner = sys.executable
    reached = subprocess.run([*AS_USER, inner, "-V"], capture_output=True, check=False)
    if reached.returncode != 0:
        inner = "/usr/bin/python3"
    paths = [str(ROOT), str(ROOT / "packages/gristmill/src"), *filter(None, sys.path)]
    script = place / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(paths)} exec {inner} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the user's, seen by all nodes."""
    made = Path(f"~{USER}").expanduser() / f"worker-{os.getpid()}"
    made.mkdir()
    yield made
    shutil.rmtree(made)


Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def start(manager: str, place: Path, server: FakeServer) -> Iterator[Start]:
    shell = place / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o755)
    python = interpreter(place)
    (place / "token").write_text(CREDENTIAL)
    config = place / "worker.toml"
    config.write_text(
        f'executor = "{manager}"\n[manager]\ninterval = 1.0\npython = "{python}"\n'
        f"[[environment]]\nexecutable = {json.dumps([str(shell)])}\n"
        f"bind = {json.dumps([str(place)])}\n"
    )
    shutil.chown(place, USER)
    made: list[subprocess.Popen[bytes]] = []

    def one() -> subprocess.Popen[bytes]:
        argv: list[Any] = ["--server", server.url, "--name", "w1", "--config", config]
        argv += [
            "--cores",
            "2",
            "--memory",
            "2000",
            "--token-file",
            place / "token",
            "--work",
            place / "work",
        ]
        words: list[Any] = [*AS_USER, "env", f"HOME={place.parent}", python]
        with (place / "log").open("ab") as log:
            process = subprocess.Popen(
                [*words, "-m", "backend.worker", *argv], stdout=log, stderr=log, cwd=place,
                start_new_session=True,
            )  # fmt: skip
        made.append(process)
        return process

    yield one
    for process in made:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the worker and the runuser before it, at this instant."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_blocks_run_are_cancelled_and_picked_up(start: Start, server: FakeServer) -> None:
    first = start()
    server.give(shell_job("done.0.1", "echo hello; finish"))
    assert server.wait_for("done.0.1")["outcome"] == "done", server.reports
    assert server.log("done.0.1") == "hello\n"
    server.give(shell_job("stopped.0.1", "sleep 4711"))
    server.wait_for("stopped.0.1", "started")
    server.cancel.add("stopped.0.1")
    assert server.wait_for("stopped.0.1")["outcome"] == "cancelled"
    server.give(shell_job("late.0.1", "echo begun; sleep 8; finish"))
    server.wait_for("late.0.1", "started")
    kill(first)
    start()
    assert server.wait_for("late.0.1")["outcome"] == "done"
    assert server.log("late.0.1") == "begun\n"
    assert len(server.of("late.0.1", "finished")) == 1
