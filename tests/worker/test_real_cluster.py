"""Workers and pilots on a real Slurm, with the real server and the example's experiment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gristmill.client import Client, Experiment
from gristmill.drivers import Slurm
from gristmill.jobs import JobState
from gristmill.journal import MemoryJournal
from gristmill.prefixes import owned_by, read_prefix
from tests.examples.farm import ROOT, Farm
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.e2e, pytest.mark.real_rm, pytest.mark.timeout(400)]

CLUSTERS = ROOT / "packages/gristmill/tests/clusters"
DIGITS = ROOT / "examples/digits"
SLOW = "    def setup(self, parameters):\n        import time; time.sleep({seconds})\n"
MANAGER: dict[str, Any] = {"interval": 1.0, "queues": {"default": "long", "long": "long"}}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """A client of the cluster, which is started if need be."""
    if os.geteuid() != 0:
        pytest.fail("the cluster's start scripts install packages and daemons: run as root")
    ping = ["sh", "-c", "scontrol ping | grep -q 'is UP'"]
    was_there = subprocess.run(ping, capture_output=True, check=False).returncode == 0
    subprocess.run([CLUSTERS / "start_slurm.sh"], check=True, stdout=subprocess.DEVNULL)
    with Slurm(journal=MemoryJournal(), interval=0.5) as rm:
        yield rm
    if not was_there:
        subprocess.run([CLUSTERS / "stop_slurm.sh"], check=True, stdout=subprocess.DEVNULL)


def listed(*names: str) -> dict[str, str]:
    """What Slurm lists of jobs in this folder of names: id -> name."""
    argv = ["squeue", "--me", "-h", "-o", "%i %j"]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    pairs = (line.split(maxsplit=1) for line in out.splitlines())
    return {id: name for id, name in pairs if name in names}


def until(true: Callable[[], Any], seconds: float = 120) -> Any:
    """Return what is true in the end."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@dataclass
class ClusterFarm:
    """A server; workers and pilots come as tests start them."""

    farm: Farm
    processes: list[subprocess.Popen[bytes]]

    @property
    def data(self) -> Path:
        return self.farm.data

    def worker(self, **manager: Any) -> subprocess.Popen[bytes]:
        """Start the worker `local`, which runs its jobs on Slurm."""
        text = (self.data / "worker.toml").read_text()
        tables = MANAGER | manager
        queues = tables.pop("queues")
        lines = [f"{name} = {json.dumps(value)}" for name, value in tables.items()]
        lines += [f"queues.{name} = {json.dumps(value)}" for name, value in queues.items()]
        config = self.data / "cluster.toml"
        config.write_text(f"{text}\n[manager]\n" + "\n".join(lines))
        own = ["--executor", "slurm", "--cores", "8", "--memory", "8000"]
        return self._start(
            "backend.worker", "--config", config, "--cache", self.data / "cache", *own
        )

    def pilots(self, *options: str) -> subprocess.Popen[bytes]:
        """Start `gristmill pilots` in this farm's folder."""
        token = self.data / "admin.token"
        if not token.exists():
            with self.farm.client("admin") as client:
                scopes = ("read", "write", "admin")
                token.write_text(client.create_personal_token("pilots", scopes).token)
            text = (self.data / "worker.toml").read_text().splitlines()
            kept = [line for line in text if not line.startswith(("name", "token_file"))]
            kept = [f"cache = {json.dumps(str(self.data / 'cache'))}", "standby = 0", *kept]
            named = "\n".join(kept).replace("[[environment]]", '[[environment]]\nname = "Python"')
            (self.data / "pilot.toml").write_text(named)
        place = ["--folder", self.data / "pilots", "--config", self.data / "pilot.toml"]
        sizes = ["--cores", "2", "--memory", "1500", "--partition", "long", "--interval", "1"]
        return self._start(
            "gristmill.cli.main", "pilots", "--token-file", token, "--manager", "slurm",
            *place, *sizes, *options,
        )  # fmt: skip

    def _start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        words = [str(word) for word in arguments]
        before = [words.pop(0)] if module.startswith("gristmill") else []
        argv = [sys.executable, "-m", module, *before, "--server", self.farm.url, *words]
        with (self.data / f"{module}.log").open("ab") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def slow_down(self, algorithm: str, seconds: float, tmp: Path) -> None:
        """Have an algorithm of the example take its time."""
        shutil.copytree(DIGITS, tmp / "digits")
        source = tmp / f"digits/algorithms/user/{algorithm}/1.py"
        text = source.read_text()
        slow = SLOW.format(seconds=seconds)
        source.write_text(text.replace("    def setup(self, parameters):\n", slow))
        with self.farm.client() as client:
            client.publish(tmp / "digits", update=True)

    def experiment(self) -> Experiment:
        """Make the example's experiment, once there are slots for it."""
        with self.farm.client() as client:
            [one] = owned_by(read_prefix(DIGITS), "demo").experiments
            until(lambda: any(queue.slots >= 2 for queue in client.my_queues()))
            return client.create_experiment(
                one.name, toolchain=one.toolchain, declaration=one.declaration
            )


@pytest.fixture
def farm(slurm: Slurm) -> Iterator[ClusterFarm]:
    folder = Path(tempfile.mkdtemp(prefix="gristmill-cluster-"))
    folder.chmod(0o755)
    bare = Farm(ServerProcess(folder / "data"))
    made = ClusterFarm(bare, [])
    try:
        bare.server.start()
        bare.server.run("create-admin", "admin", stdin="a password of tests\n")
        bare.bootstrap()
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()
        cancel_in(folder)
        bare.close()


def cancel_in(folder: Path) -> None:
    """Take what a test left back from Slurm."""
    argv = ["squeue", "--me", "-h", "-o", "%i %Z"]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    left = [line.split()[0] for line in out.splitlines() if str(folder) in line]
    if left:
        subprocess.run(["scancel", *left], check=True)
        ids = ",".join(left)
        command = ["squeue", "-h", "-j", ids, "-t", "PD,R,CG"]
        until(lambda: not subprocess.run(command, capture_output=True, check=False).stdout)


def block_states(client: Client, experiment: Experiment) -> dict[str, str]:
    return {block.name: block.state for block in client.snapshot(experiment.id).blocks}


def running_job(slurm: Slurm, farm: ClusterFarm, block: str) -> str:
    """The native id of the job that runs a block, once it does."""
    name = f"gristmill-{block}"
    return str(until(lambda: next(iter(listed(name)), None)))


def test_an_experiment_runs_as_jobs_of_slurm(slurm: Slurm, farm: ClusterFarm) -> None:
    farm.worker()
    experiment = farm.experiment()
    with farm.farm.client() as client:
        client.start_experiment(experiment.id)
        ended = client.wait(experiment.id)
        failures = {b.name: b.failure for b in client.snapshot(experiment.id).blocks if b.failure}
        assert ended.state == "done", failures
        [analyzer] = client.results(experiment.id)
        assert analyzer.results["accuracy"].value == pytest.approx(0.98666, abs=1e-4)
        (worker,) = client.monitor()["workers"]
        assert (worker["executor"], worker["limits"]) == ("slurm", "manager")
    journal = farm.data / "worker-local/cluster.jsonl"
    submitted = journal.read_text().count("on_node")
    assert submitted == 11  # nine blocks, two of them in two parts


def test_stopping_an_experiment_cancels_its_jobs_within_seconds(
    slurm: Slurm, farm: ClusterFarm, tmp_path: Path
) -> None:
    farm.slow_down("gradients", 3600, tmp_path)
    farm.worker()
    experiment = farm.experiment()
    with farm.farm.client() as client:
        client.start_experiment(experiment.id)
        job = running_job(slurm, farm, "gradients")
        until(lambda: block_states(client, experiment)["gradients"] == "running")
        client.stop_experiment(experiment.id)
        begun = time.monotonic()
        until(lambda: slurm.attach(job).status().state is JobState.CANCELLED, 20)
        assert time.monotonic() - begun < 20
        until(lambda: client.experiment(experiment.id).state == "cancelled", 20)


def test_a_killed_worker_picks_its_jobs_up_again(
    slurm: Slurm, farm: ClusterFarm, tmp_path: Path
) -> None:
    farm.slow_down("gradients", 20, tmp_path)
    worker = farm.worker()
    experiment = farm.experiment()
    with farm.farm.client() as client:
        client.start_experiment(experiment.id)
        until(lambda: block_states(client, experiment)["gradients"] == "running")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        farm.worker()
        assert client.wait(experiment.id).state == "done"
        attempts = [
            attempt
            for block in client.snapshot(experiment.id).blocks
            for attempt in client.block(experiment.id, block.name)["attempts"]
        ]
        assert len(attempts) == 11  # nine blocks, two of them in two parts: each once


def test_limits_of_the_queue_hold(slurm: Slurm, farm: ClusterFarm, tmp_path: Path) -> None:
    farm.slow_down("gradients", 3600, tmp_path)
    with farm.farm.client("admin") as client:
        queue = next(q for q in client.items("/queues") if q["name"] == "default")
        client._edit("PATCH", f"/queues/{queue['id']}", {"time_limit_seconds": 15})
    farm.worker()
    experiment = farm.experiment()
    with farm.farm.client() as client:
        client.start_experiment(experiment.id)
        assert client.wait(experiment.id).state == "failed"
        block = client.block(experiment.id, "gradients")
        assert block["failure"]["kind"] == "time limit", block["failure"]


def pilots_of() -> dict[str, str]:
    return listed("pilot-1", "pilot-2", "pilot-3")


def test_pilots_come_with_work_and_go_without(
    slurm: Slurm, farm: ClusterFarm, tmp_path: Path
) -> None:
    farm.slow_down("gradients", 10, tmp_path)
    options = ("--min", "1", "--max", "3", "--idle-seconds", "5")
    first = farm.pilots(*options)
    until(lambda: len(pilots_of()) == 1)
    experiment = farm.experiment()
    with farm.farm.client() as client:
        client.start_experiment(experiment.id)
        until(lambda: len(pilots_of()) >= 2)
        before = pilots_of()
        first.kill()
        first.wait()
        farm.pilots(*options)  # goes on with those that there are
        assert client.wait(experiment.id).state == "done"
        assert len(set(pilots_of().values())) == len(pilots_of())
        assert set(pilots_of().values()) <= {"pilot-1", "pilot-2", "pilot-3"}
        until(lambda: len(pilots_of()) == 1)
        assert set(pilots_of()) <= set(before)  # the first has been there all the time
    assert farm.processes[-1].poll() is None
