"""Real worker processes against a server that speaks the protocol over HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gristmill.protocol import Assignment, InputFile, Limits, StoredFile
from tests.runtime.jobs import FORMATS, integers, read_file, write_file
from tests.worker.fake_server import CREDENTIAL, FakeServer

pytestmark = pytest.mark.e2e

SHELL = """#!/bin/bash
if [ "$1" = describe ]; then
    echo '{"name": "Shell", "version": "1", "os": "any", "packages": {}}'
    exit
fi
cd "$2"
echo '{"kind": "started"}' >&"$(sed 's/.*"messages_fd": \\([0-9]*\\).*/\\1/' job.json)"
finish() { echo "{\\"status\\": \\"done\\", \\"outputs\\": {$1}}" >result.json; }
. ./algorithm/algorithm.sh
"""

COPY = """
class Algorithm:
    def process(self, inputs, outputs):
        print("at", inputs["x"].data.value)
        outputs["out"].write({"value": inputs["x"].data.value})
        return True
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    (tmp_path / "cache").mkdir()
    made = FakeServer(tmp_path / "cache")
    made.start()
    yield made
    made.stop()


class Worker:
    """A worker process."""

    def __init__(self, tmp: Path, server: FakeServer, *options: str, **settings: Any) -> None:
        self.work = tmp / settings.pop("work", "work")
        script = tmp / "environment/shell"
        script.parent.mkdir(exist_ok=True)
        script.write_text(SHELL)
        script.chmod(0o755)
        token = tmp / "token"
        token.write_text(CREDENTIAL + "\n")
        tables = {name: settings.pop(name, {}) for name in ("quotas", "manager")}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in table.items())]
        environments = [
            {"executable": [str(script)], "bind": [str(script.parent)]},
            {
                "executable": [sys.executable, "-m", "gristmill.runtime"],
                "name": "Python",
                "version": "1",
            },
        ]
        for entry in environments:
            lines += ["[[environment]]", *(f"{k} = {json.dumps(v)}" for k, v in entry.items())]
        config = tmp / f"{self.work.name}.toml"
        config.write_text("\n".join(lines))
        argv = ["--server", server.url, "--token-file", str(token), "--config", str(config)]
        argv += ["--name", "w1", "--work", str(self.work), "--cores", "2", "--memory", "2000"]
        self.errors = tmp / f"{self.work.name}.log"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backend.worker", *argv, *options],
                stderr=errors,
                env={**os.environ, "GRISTMILL_WORKER_SECRET": "do not tell"},
            )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def said(self) -> str:
        return self.errors.read_text()


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path, server: FakeServer) -> Iterator[Start]:
    workers: list[Worker] = []

    def one(*options: str, **settings: Any) -> Worker:
        worker = Worker(tmp_path, server, *options, **{"standby": 0, **settings})
        workers.append(worker)
        return worker

    yield one
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
        worker.process.wait()


def shell_job(attempt: str, script: str, seconds: int = 60, **more: Any) -> Assignment:
    """A job whose algorithm is a shell script."""
    given: dict[str, Any] = {
        "attempt": attempt,
        "experiment": "e",
        "experiment_name": "e",
        "owner": "o",
        "block": "b",
        "environment": ("Shell", "1"),
        "limits": Limits(memory_mb=500, time_seconds=seconds, cores=1),
        "job": {"schema": 1, "kind": "block", "outputs": []},
        "files": {"algorithm/algorithm.sh": dedent(script)},
        "inputs": (),
    }
    return Assignment(**{**given, **more})


def python_job(attempt: str, cache: Path, source: str = COPY, count: int = 3) -> Assignment:
    """A job of the reference runtime that copies its input, file 0 of the cache."""
    write_file(cache / "0", "user/integer/1", integers(list(range(count))), FORMATS)
    data = (cache / "0").read_bytes()
    stored = StoredFile(path="0", size=len(data), sha256=hashlib.sha256(data).hexdigest())
    job = {
        "schema": 1,
        "kind": "block",
        "entry": {"file": "algorithm/algorithm.py", "name": "Algorithm"},
        "declaration": {},
        "parameters": {},
        "formats": FORMATS,
        "channel": "main",
        "inputs": [
            {
                "name": "x",
                "group": 0,
                "channel": "main",
                "format": "user/integer/1",
                "files": [{"path": "inputs/0.arrow", "first": 0, "last": count - 1}],
            }
        ],
        "outputs": [{"name": "out", "channel": "main", "format": "user/integer/1"}],
        "range": None,
    }
    return shell_job(
        attempt,
        "",
        environment=("Python", "1"),
        job=job,
        files={"algorithm/algorithm.py": source},
        inputs=(InputFile(stored=stored, path="inputs/0.arrow"),),
    )


def test_a_worker_registers_with_all_it_has(server: FakeServer, start: Start) -> None:
    start()
    server.wait(lambda: server.registrations)
    told = server.registrations[0]
    assert {
        "name": "w1",
        "cores": 2,
        "memory_mb": 2000,
        "executor": "process",
    }.items() <= told.items()
    assert told["sandbox"] == "bubblewrap"
    assert told["limits"] in ("polling", "cgroup-v1", "cgroup-v2")
    found = {(e["name"], e["version"]): e for e in told["environments"]}
    assert set(found) == {("Shell", "1"), ("Python", "1")}
    assert found["Python", "1"]["packages"]["numpy"]
    server.wait(lambda: len(server.heartbeats) > 2)


def test_a_block_runs_through_the_shared_cache_folder(server: FakeServer, start: Start) -> None:
    start("--cache", str(server.cache))
    server.give(python_job("b.0.1", server.cache))
    over = server.wait_for("b.0.1")
    assert over["outcome"] == "done", over
    assert server.of("b.0.1", "started")
    assert server.log("b.0.1") == "at 0\nat 1\nat 2\n"
    told = over["outputs"][0]
    path = server.cache / "incoming/b.0.1" / told["path"]
    assert read_file(path, "user/integer/1", FORMATS) == integers([0, 1, 2])
    assert told["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (told["first"], told["last"], told["rows"]) == (0, 2, 3)
    assert over["usage"]["wall_seconds"] > 0
    assert over["usage"]["bytes_written"] == path.stat().st_size
    assert not server.ranges
    assert not list((server.cache / "proof").iterdir())


def test_without_a_shared_folder_files_travel_and_broken_transfers_go_on(
    server: FakeServer, start: Start
) -> None:
    server.cut_after = 4000
    start()
    server.give(python_job("b.0.1", server.cache, count=1500))
    over = server.wait_for("b.0.1")
    assert over["outcome"] == "done", over
    assert server.ranges[0] is None
    assert server.ranges[1] == "bytes=4000-"
    data = server.uploads["b.0.1/out.arrow"]
    assert hashlib.sha256(data).hexdigest() == over["outputs"][0]["sha256"]
    assert len(data) > 8000
    # fetched once: the next job finds it on the worker's disk
    asked = len(server.ranges)
    server.give(python_job("b.0.2", server.cache, count=1500))
    assert server.wait_for("b.0.2")["outcome"] == "done"
    assert len(server.ranges) == asked


def test_a_damaged_input_is_the_workers_error(server: FakeServer, start: Start) -> None:
    start()
    job = python_job("b.0.1", server.cache)
    data = bytearray((server.cache / "0").read_bytes())
    data[100] ^= 1
    (server.cache / "0").write_bytes(data)
    server.give(job)
    failure = server.wait_for("b.0.1")["failure"]
    assert failure["kind"] == "worker error"
    assert "damaged" in failure["message"]


def test_a_file_that_appears_late_in_a_shared_folder_is_waited_for(
    server: FakeServer, start: Start
) -> None:
    start("--cache", str(server.cache))
    job = python_job("b.0.1", server.cache)
    (server.cache / "0").rename(server.cache / "late")
    server.give(job)
    server.wait(lambda: not server.assignments)
    (server.cache / "late").rename(server.cache / "0")
    assert server.wait_for("b.0.1")["outcome"] == "done"


def test_an_error_of_the_algorithm_comes_with_its_trace(server: FakeServer, start: Start) -> None:
    start()
    source = "class Algorithm:\n    def process(self, inputs, outputs):\n        return 1 / 0\n"
    server.give(python_job("b.0.1", server.cache, source))
    over = server.wait_for("b.0.1")
    assert over["outcome"] == "failed"
    assert over["failure"]["kind"] == "algorithm error"
    assert over["failure"]["message"] == "ZeroDivisionError: division by zero"
    assert 'File "algorithm/algorithm.py", line 3, in process' in over["failure"]["trace"]
    assert over["exit_code"] == 1


ENDS = {
    "finish; exit 0": ("done", None),
    "exit 0": ("failed", "bad output"),
    "exit 5": ("failed", "crashed"),
    "kill -SEGV $$": ("failed", "crashed"),
    "echo 'wrong call' >&2; exit 2": ("failed", "crashed"),
    "mkdir result.json": ("failed", "bad output"),
    "ln -s /etc/hostname result.json": ("failed", "bad output"),
    "mkfifo result.json": ("failed", "bad output"),
    "echo '{\"status\": NaN}' >result.json": ("failed", "bad output"),
    "head -c 100000000 /dev/zero >result.json": ("failed", "bad output"),
    "sleep 60": ("failed", "time limit"),
}


def test_every_way_to_end_has_its_name(server: FakeServer, start: Start) -> None:
    start(quotas={"disk_bytes": 200 * 2**20})
    for number, script in enumerate(ENDS):
        seconds = 1 if script.startswith("sleep") else 60
        server.give(shell_job(f"b.{number}.1", script, seconds))
    for number, (script, (outcome, kind)) in enumerate(ENDS.items()):
        over = server.wait_for(f"b.{number}.1")
        found = (over["outcome"], over["failure"] and over["failure"]["kind"])
        assert found == (outcome, kind), (script, over)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("ln -s /etc/hostname outputs/o.arrow", "not a plain file"),
        ("mkdir outputs/o.arrow", "not a plain file"),
        (":", "o.arrow is missing"),
    ],
)
def test_an_output_that_is_no_plain_file_is_refused(
    server: FakeServer, start: Start, made: str, says: str
) -> None:
    start()
    script = f"""{made}; finish '"o": {{"first": 0, "last": 1, "rows": 2}}'"""
    job = {"schema": 1, "kind": "block", "outputs": [{"name": "o", "format": "x"}]}
    server.give(shell_job("b.0.1", script, job=job))
    failure = server.wait_for("b.0.1")["failure"]
    assert failure["kind"] == "bad output"
    assert says in failure["message"]


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_a_job_cannot_pass_off_another_folder_as_its_outputs(
    server: FakeServer, start: Start, tmp_path: Path, sandbox: str
) -> None:
    start("--sandbox", sandbox)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/o.arrow").write_text("somebody else's")
    script = f"""
        mv outputs away && ln -s {tmp_path}/other outputs
        finish '"o": {{"first": 0, "last": 1, "rows": 2}}'
    """
    job = {"schema": 1, "kind": "block", "outputs": [{"name": "o", "format": "x"}]}
    server.give(shell_job("b.0.1", script, job=job))
    over = server.wait_for("b.0.1")
    assert over["failure"]["kind"] == "bad output", over
    assert (tmp_path / "other/o.arrow").exists()
    assert not server.uploads


def test_an_environment_that_is_not_here_and_places_outside_are_refused(
    server: FakeServer, start: Start
) -> None:
    start()
    server.give(
        shell_job("b.0.1", "", environment=("R", "4")),
        shell_job("b.1.1", "", files={"../../x": "y"}),
        shell_job("b.2.1", "", job={"schema": 1, "kind": "dataset", "root": "/etc"}),
    )
    assert server.wait_for("b.0.1")["failure"]["kind"] == "environment unavailable"
    assert "outside the job folder" in server.wait_for("b.1.1")["failure"]["message"]
    assert "data_folders" in server.wait_for("b.2.1")["failure"]["message"]


def test_a_databases_folder_that_is_allowed_is_seen_read_only(
    server: FakeServer, start: Start, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x").write_text("hello")
    start(data_folders=[str(data)])
    script = f"cat {data}/x; touch {data}/y || echo refused; finish"
    job = {"schema": 1, "kind": "block", "outputs": [], "root": str(data)}
    server.give(shell_job("b.0.1", script, job=job))
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert server.log("b.0.1").startswith("hello")
    assert "refused" in server.log("b.0.1")


def test_five_thousand_lines_arrive_in_order_before_the_end(
    server: FakeServer, start: Start
) -> None:
    start()
    server.give(shell_job("b.0.1", "seq 5000; exit 7"))
    server.wait_for("b.0.1")
    assert server.log("b.0.1") == "".join(f"{n}\n" for n in range(1, 5001))
    assert server.reports[-1]["kind"] == "finished"


def test_cancelling_kills_within_two_seconds(server: FakeServer, start: Start) -> None:
    start()
    script = "trap '' TERM; for i in 1 2 3; do setsid sleep 4324 & done; echo up; "
    script += "while :; do sleep 1; done"
    server.give(shell_job("b.0.1", script))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.cancel.add("b.0.1")
    over = server.wait_for("b.0.1")
    assert over["outcome"] == "cancelled"
    assert over["exit_code"] == 128 + 9  # by SIGKILL, after the grace of one second
    assert not _running("4324")


def _running(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                text = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if word in text and "pytest" not in text:
                    found.append(text)
    return found


def test_sigterm_lets_running_jobs_finish_and_takes_no_more(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.give(shell_job("b.0.1", "echo up; sleep 1; finish"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    assert worker.stop() == 0
    assert server.wait_for("b.0.1")["outcome"] == "done"
    last = server.heartbeats[-1]
    assert (last["draining"], last["running"]) == (True, [])


def test_all_that_jobs_said_arrives_before_a_drained_worker_ends(
    server: FakeServer, start: Start
) -> None:
    worker = start(quotas={"log_bytes": 2**24})
    script = "echo up; sleep 0.5; yes 0123456789 | head -c 8000000; finish"
    server.give(shell_job("b.0.1", script))
    server.wait(lambda: "up" in server.log("b.0.1"))
    assert worker.stop() == 0
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert len(server.log("b.0.1")) == 8000000 + len("up\n")
    assert not list((worker.work / "outbox").iterdir())


def test_after_the_grace_jobs_are_handed_back(server: FakeServer, start: Start) -> None:
    worker = start(grace_seconds=0.5)
    server.give(shell_job("b.0.1", "echo up; sleep 600"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    assert worker.stop() == 0
    assert server.wait_for("b.0.1")["outcome"] == "returned"


def test_killing_the_worker_leaves_no_job_and_its_restart_cleans_up(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.give(shell_job("b.0.1", "setsid sleep 4325 & echo up; sleep 4325"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    assert _running("sleep 4325")
    worker.process.kill()
    worker.process.wait()
    for _ in range(200):
        if not _running("sleep 4325"):
            break
        time.sleep(0.01)
    assert not _running("sleep 4325")
    assert list((worker.work / "jobs").iterdir())
    start()
    server.wait(lambda: len(server.registrations) == 2)
    assert not list((worker.work / "jobs").iterdir())
    assert server.registrations[1]["running"] == []


def test_a_job_goes_on_while_the_server_is_away_and_its_end_is_told_later(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.give(shell_job("b.0.1", "echo up; sleep 1; echo down; finish"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.stop()
    spool = worker.work / "outbox/b.0.1.jsonl"
    while "finished" not in spool.read_text():
        time.sleep(0.02)
    server.start()
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert server.log("b.0.1") == "up\ndown\n"
    assert len(server.registrations) == 1


def test_an_end_that_could_not_be_told_survives_the_workers_own_death(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.give(shell_job("b.0.1", "echo up; sleep 0.5; finish"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.broken = True
    spool = worker.work / "outbox/b.0.1.jsonl"
    while not (spool.exists() and "finished" in spool.read_text()):
        time.sleep(0.02)
    worker.process.kill()
    worker.process.wait()
    server.broken = False
    start()
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert server.registrations[-1]["running"] == ["b.0.1"]
    while spool.exists():
        time.sleep(0.02)


def test_a_job_counts_as_running_until_the_server_has_heard_of_its_end(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.refuse_all_reports = True
    server.give(shell_job("b.0.1", "finish"))
    spool = worker.work / "outbox/b.0.1.jsonl"
    while not (spool.exists() and "finished" in spool.read_text()):
        time.sleep(0.02)
    seen = len(server.heartbeats)
    server.wait(lambda: len(server.heartbeats) > seen + 2)
    assert server.heartbeats[-1]["running"] == ["b.0.1"]
    server.refuse_all_reports = False
    server.wait_for("b.0.1")
    seen = len(server.heartbeats)
    server.wait(lambda: len(server.heartbeats) > seen + 2)
    assert server.heartbeats[-1]["running"] == []


def test_a_token_that_is_not_taken_any_more_is_renewed_with_the_jobs_kept(
    server: FakeServer, start: Start
) -> None:
    start()
    server.give(shell_job("b.0.1", "echo up; sleep 2; finish"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.tokens.clear()
    server.wait(lambda: len(server.registrations) == 2)
    assert server.registrations[1]["running"] == ["b.0.1"]
    assert server.wait_for("b.0.1")["outcome"] == "done"


def test_a_fenced_worker_ends_its_jobs_and_itself_without_a_word(
    server: FakeServer, start: Start
) -> None:
    worker = start()
    server.give(shell_job("b.0.1", "echo up; sleep 4326"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.fenced = True
    assert worker.process.wait(60) == 3
    assert not _running("sleep 4326")
    assert not server.of("b.0.1", "finished")
    assert "no longer wanted" in worker.said()


def test_jobs_that_the_server_has_forgotten_are_ended(server: FakeServer, start: Start) -> None:
    start()
    server.give(shell_job("b.0.1", "echo up; sleep 4327"))
    server.wait(lambda: "up" in server.log("b.0.1"))
    server.forget = ("b.0.1",)
    server.tokens.clear()
    server.wait(lambda: len(server.registrations) == 2)
    for _ in range(500):
        if not _running("sleep 4327"):
            break
        time.sleep(0.01)
    assert not _running("sleep 4327")


def test_a_second_worker_in_the_same_folder_is_refused(server: FakeServer, start: Start) -> None:
    start()
    server.wait(lambda: server.registrations)
    second = start()
    assert second.process.wait(60) == 2
    assert "another worker runs in" in second.said()


def test_a_busy_worker_still_beats(server: FakeServer, start: Start) -> None:
    start(quotas={"log_bytes": 10**6})
    for number in range(3):
        server.give(shell_job(f"b.{number}.1", "yes | head -c 400000000; finish"))
    server.wait(lambda: server.of("b.0.1", "started"))
    before = len(server.heartbeats)
    server.wait(lambda: all(server.of(f"b.{n}.1", "finished") for n in range(3)))
    assert len(server.heartbeats) > before


def test_times_are_the_servers_when_the_clocks_differ(server: FakeServer, start: Start) -> None:
    server.stop()
    there = datetime.now(UTC) - timedelta(days=400)
    server.date = format_datetime(there, usegmt=True)
    server.start()
    start()
    server.give(shell_job("b.0.1", "finish"))
    told = datetime.fromisoformat(server.wait_for("b.0.1")["time"])
    assert abs(told - there) < timedelta(minutes=5)


def test_a_report_that_cannot_be_read_holds_up_nothing(server: FakeServer, start: Start) -> None:
    server.refuse = lambda report: bool(report["text"] and "poison" in report["text"])
    start()
    server.give(shell_job("b.0.1", "echo poison; finish"), shell_job("b.1.1", "echo fine; finish"))
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert server.wait_for("b.1.1")["outcome"] == "done"
    assert server.log("b.1.1") == "fine\n"


def test_the_credential_is_seen_neither_in_ps_nor_by_jobs(
    server: FakeServer, start: Start, tmp_path: Path
) -> None:
    worker = start()
    server.give(
        shell_job("b.0.1", f"cat /proc/*/environ /proc/*/cmdline {tmp_path}/token; env; finish")
    )
    server.wait_for("b.0.1")
    line = Path(f"/proc/{worker.process.pid}/cmdline").read_bytes()
    assert CREDENTIAL.encode() not in line
    assert CREDENTIAL not in server.log("b.0.1")
    assert "do not tell" not in server.log("b.0.1")
    assert CREDENTIAL not in worker.said()


def test_a_full_disk_is_the_workers_error(server: FakeServer, start: Start) -> None:
    start(quotas={"free_bytes": 2**62})
    server.give(shell_job("b.0.1", "sleep 60"))
    assert server.wait_for("b.0.1")["failure"]["kind"] == "worker error"


def test_standby_runs_jobs_one_by_one_and_leaves_nothing(server: FakeServer, start: Start) -> None:
    worker = start("--cache", str(server.cache), standby=1)
    for number in range(4):
        server.give(python_job(f"b.{number}.1", server.cache))
        over = server.wait_for(f"b.{number}.1")
        assert over["outcome"] == "done", over
        assert server.log(f"b.{number}.1") == "at 0\nat 1\nat 2\n"
    assert worker.stop() == 0
    assert not list((worker.work / "standby").iterdir())
    assert not list((worker.work / "jobs").iterdir())


def test_without_a_sandbox_it_says_so_loudly_and_runs(server: FakeServer, start: Start) -> None:
    worker = start("--sandbox", "none")
    server.give(shell_job("b.0.1", "echo up; finish"), python_job("b.1.1", server.cache))
    assert server.wait_for("b.0.1")["outcome"] == "done"
    assert server.wait_for("b.1.1")["outcome"] == "done", server.log("b.1.1")
    assert server.registrations[0]["sandbox"] == "none"
    assert "RUNS JOBS WITHOUT A SANDBOX" in worker.said()


# ---- what it refuses to start with ------------------------------------------------------------


def refused(*argv: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "backend.worker", *argv],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_it_refuses_to_run_without_a_sandbox(tmp_path: Path, server: FakeServer) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "bwrap").write_text("#!/bin/sh\necho 'no namespaces for you' >&2\nexit 1\n")
    (fake / "bwrap").chmod(0o755)
    status, said = refused(
        "--server", server.url, "--work", str(tmp_path / "w"),
        PATH=f"{fake}:{os.environ['PATH']}", GRISTMILL_WORKER_TOKEN=CREDENTIAL,
    )  # fmt: skip
    assert status == 2
    assert "no namespaces for you" in said
    assert "--sandbox none" in said
    assert not server.registrations


def test_a_wrong_credential_ends_it_with_a_sentence(tmp_path: Path, server: FakeServer) -> None:
    status, said = refused(
        "--server", server.url, "--work", str(tmp_path / "w"), GRISTMILL_WORKER_TOKEN="wrong"
    )
    assert status == 4
    assert "the credential is not taken" in said


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("", "no server is named"),
        ("server = 'ftp://x'", "must start with http"),
        ("server = 'http://x'", "no credential"),
        ("server = 'http://x'\ntoken = 't'\nname = '../x'", "cannot be called"),
        ("server = 'http://x'\ntoken = 't'\ncores = 0", "at least 1"),
        ("server = 'http://x'\ntoken = 't'\ncores = 'many'", "many"),
        ("server = 'http://x'\ntoken = 't'\ncolour = 1", "nothing is called 'colour'"),
        ("server = 'http://x'\ntoken = 't'\nsandbox = 'maybe'", "not bubblewrap or none"),
        ("server = 'http://x'\ntoken = 't'\n[quotas]\nfun = 1", "fun"),
        ("server = 'http://x'\ntoken = 't'\n[[environment]]\nname = 'x'", "list of words"),
        (
            "server = 'http://x'\ntoken = 't'\n[[environment]]\nexecutable = ['/none']",
            "no environment works",
        ),
        (
            "server = 'http://x'\ntoken = 't'\n[[environment]]\nexecutable = ['SCRIPT']",
            "is a `bind` missing?",
        ),
        ("server = 'http://x'\ntoken_file = '/none/token'", "cannot be read"),
        ("server = ", "is not TOML"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_explained(tmp_path: Path, config: str, says: str) -> None:
    script = tmp_path / "script"  # works, but is not seen inside a sandbox
    script.write_text(SHELL)
    script.chmod(0o755)
    (tmp_path / "c.toml").write_text(config.replace("SCRIPT", str(script)))
    status, said = refused("--config", str(tmp_path / "c.toml"), "--work", str(tmp_path / "w"))
    assert status == 2
    assert says in said
