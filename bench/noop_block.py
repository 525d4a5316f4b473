"""What a block costs that does nothing: `python -m bench.noop_block`.

Three ways, in turn, in one run:
- by hand: the same interpreter (`-c pass`) in the same sandbox, started as a shell would start it;
- cold: a block with one input and one output of one data unit, through the worker's own path
  (job folder, sandbox, limits, runtime, messages, result), from the assignment to its last report;
- ready: the same, with a sandbox that the worker started ahead of need (its default).

Prints a table and a JSON line with the ratios. The aim: a no-op block costs at most three times the
start by hand. The server is not part of it: reports are counted as they leave the worker.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from backend.worker import environments
from backend.worker.config import EnvironmentConfig
from backend.worker.connection import Connection
from backend.worker.executors.base import Environment, Quotas
from backend.worker.executors.launch import Bubblewrap, variables
from backend.worker.executors.process import ProcessExecutor
from backend.worker.folders import Folders
from backend.worker.inputs import Inputs
from backend.worker.jobs import Job, Means
from backend.worker.outputs import Outputs
from backend.worker.sandbox import bubblewrap, cgroups, seccomp
from gristmill.protocol import Assignment, InputFile, Limits, Report, StoredFile
from gristmill.runtime.files import FileWriter
from gristmill.runtime.types import resolve

ROUNDS = 30
TARGET = 3.0
FORMAT = "bench/integer/1"
FORMATS = {FORMAT: {"value": "int32"}}
NOOP = """
class Algorithm:
    def process(self, inputs, outputs):
        outputs["out"].write({"value": 0})
        return True
"""


def by_hand(environment: Environment, folder: Path) -> float:
    """Start the interpreter in the worker's own sandbox, with nothing of the worker around it."""
    (folder / "outputs").mkdir(parents=True, exist_ok=True)
    view = bubblewrap.View(folder=folder, binds=environment.binds, temporary_bytes=2**30)
    info, inside = os.pipe()
    begun = time.perf_counter()
    filter_fd = bubblewrap.file_with("filter", seccomp.filter_for())
    words = bubblewrap.arguments(view, variables(1, "/tmp"), filter_fd, inside)
    args_fd = bubblewrap.file_with("arguments", words)
    subprocess.run(
        bubblewrap.command(args_fd, [environment.executable[0], "-c", "pass"]),
        env={},
        pass_fds=(filter_fd, args_fd, inside),
        check=True,
    )
    took = time.perf_counter() - begun
    for descriptor in (info, inside, filter_fd, args_fd):
        os.close(descriptor)
    return took


class WorkerPath:
    """The worker's path without a server: assignments go in, last reports come out."""

    def __init__(self, folder: Path, environment: Environment, standby: int) -> None:
        self.cache = folder / "cache"
        self.cache.mkdir(parents=True)
        self.folders = Folders(folder / "work")
        self.folders.take()
        self.executor = ProcessExecutor(
            folder / "work", Bubblewrap([]), cgroups.probe(None), Quotas(), standby
        )
        self.over = threading.Event()
        self.last: Report | None = None
        connection = Connection("http://127.0.0.1:9")
        self.means = Means(
            environments={(environment.name, environment.version): environment},
            executor=self.executor,
            folders=self.folders,
            inputs=Inputs(folder / "work/fetched", connection, 2**30, time.sleep),
            outputs=Outputs(connection, time.sleep),
            data_folders=(),
            report=self._report,
            now=connection.now,
        )
        self.environment = environment
        self.stored = self._input()
        self.number = 0

    def _report(self, report: Report) -> None:
        if report.kind == "finished":
            self.last = report
            self.over.set()

    def _input(self) -> StoredFile:
        writer = FileWriter(self.cache / "0", FORMAT, resolve(FORMAT, FORMATS))
        writer.write({"value": 1}, 0, 0, "row")
        writer.close()
        data = (self.cache / "0").read_bytes()
        return StoredFile(path="0", size=len(data), sha256=hashlib.sha256(data).hexdigest())

    def run(self) -> float:
        """Run one block; return the seconds from its assignment to its last report."""
        self.number += 1
        self.over.clear()
        assignment = self._assignment()
        begun = time.perf_counter()
        job = Job(assignment, self.means, self.cache)
        job.start()
        self.over.wait()
        took = time.perf_counter() - begun
        job.join()
        assert self.last is not None
        assert self.last.outcome == "done", self.last
        return took

    def _assignment(self) -> Assignment:
        files = [{"path": "inputs/0.arrow", "first": 0, "last": 0}]
        port = {"channel": "main", "format": FORMAT}
        job = {
            "schema": 1,
            "kind": "block",
            "entry": {"file": "algorithm/algorithm.py", "name": "Algorithm"},
            "formats": FORMATS,
            "channel": "main",
            "inputs": [{"name": "x", "group": 0, **port, "files": files}],
            "outputs": [{"name": "out", **port}],
        }
        return Assignment(
            attempt=f"b.{self.number}.1",
            experiment="e",
            experiment_name="e",
            owner="o",
            block="b",
            environment=(self.environment.name, self.environment.version),
            limits=Limits(memory_mb=1000, time_seconds=60, cores=1),
            job=job,
            files={"algorithm/algorithm.py": NOOP},
            inputs=(InputFile(stored=self.stored, path="inputs/0.arrow"),),
        )

    def close(self) -> None:
        """End what waits."""
        self.executor.close()
        self.folders.release()


def measure(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Take the ways in turn, so that whatever else the machine does hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            took = way()
            if number:  # the first warms the disk cache
                found[name].append(took)
    return found


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    environment = environments.describe(
        EnvironmentConfig(executable=(sys.executable, "-m", "gristmill.runtime"))
    )
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        cold = WorkerPath(folder / "cold", environment, 0)
        ready = WorkerPath(folder / "ready", environment, 1)
        ready.executor.standby.want(environment, 1)

        def when_ready() -> float:
            assert ready.executor.standby.settled()
            time.sleep(0.3)  # it is started, but has not loaded all yet
            return ready.run()

        found = measure(
            {
                "by hand": lambda: by_hand(environment, folder / "hand"),
                "cold": cold.run,
                "ready": when_ready,
            },
            rounds,
        )
        cold.close()
        ready.close()
    report(found)


def report(found: dict[str, list[float]]) -> None:
    """Print the table and the JSON line."""
    base = statistics.median(found["by hand"])
    print(f"{'way':<10} {'p50 ms':>8} {'p95 ms':>8} {'ratio':>7}")
    ratios = {}
    for name, times in found.items():
        middle = statistics.median(times)
        high = sorted(times)[int(len(times) * 0.95)]
        ratios[name] = round(middle / base, 2)
        print(f"{name:<10} {middle * 1000:8.1f} {high * 1000:8.1f} {ratios[name]:7.2f}")
    result = {
        "bench": "noop_block",
        "by_hand_ms": round(base * 1000, 1),
        "cold_ratio": ratios["cold"],
        "ready_ratio": ratios["ready"],
        "target": TARGET,
        "met": ratios["ready"] <= TARGET,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
