"""Jobs that mean harm to the worker, not to its machine: none may hold it up, or get it blamed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from backend.worker import processes, trees
from backend.worker.executors.base import Reason
from tests.worker.fake_server import FakeServer
from tests.worker.running import SMALL, python, run, shell
from tests.worker.test_agent import Start, server, shell_job, start

__all__ = ["server", "start"]  # fixtures

DEEP = dedent("""
    import os
    os.chdir("/job/outputs")
    for _ in range(2500):
        os.mkdir("aa")
        os.chdir("aa")
""")


def result(value: str) -> str:
    """A script that leaves these results of an analyzer."""
    return f"""
        cat >result.json <<'END'
{{"status": "done", "results": {{"n": {{"type": "x", "value": {value}}}}}}}
END
    """


def test_text_that_is_no_unicode_is_made_such(tmp_path: Path) -> None:
    code = dedent(r"""
        import json, os
        fd = json.load(open("/job/job.json"))["messages_fd"]
        os.write(fd, b'{"kind": "progress", "fraction": 0.5, "message": "\\ud800 \\u0000"}\n')
    """)
    _, heard = run(tmp_path, python(code))
    assert heard.fractions == [(0.5, "? \N{REPLACEMENT CHARACTER}")]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1e999", "too large for 64 bits"),
        ("[" * 300 + "]" * 300, "nested deeper than 40 levels"),
        ("[" * 900 + "]" * 900, "nested deeper than 40 levels"),
        ("[" * 100_000 + "]" * 100_000, "not JSON"),
        ("9" * 5000, "not JSON"),
    ],
)
def test_results_that_json_or_python_cannot_hold_are_the_jobs_fault(
    server: FakeServer,
    start: Start,
    value: str,
    says: str,
) -> None:
    start()
    job = {"schema": 1, "kind": "analyzer"}
    server.give(shell_job("b.0.1", result(value), job=job), shell_job("b.1.1", "finish"))
    failure = server.wait_for("b.0.1")["failure"]
    assert (failure["kind"], says in failure["message"]) == ("bad output", True), failure
    assert server.wait_for("b.1.1")["outcome"] == "done"


def test_half_characters_in_results_arrive_as_others(server: FakeServer, start: Start) -> None:
    start()
    job = {"schema": 1, "kind": "analyzer"}
    server.give(shell_job("b.0.1", result(r'"\ud800 \u0000"'), job=job))
    over = server.wait_for("b.0.1")
    assert over["results"]["n"]["value"] == "? \N{REPLACEMENT CHARACTER}"


def test_status_2_of_what_had_started_is_not_the_workers_error(
    server: FakeServer,
    start: Start,
) -> None:
    start()
    server.give(shell_job("b.0.1", "echo so >&2; exit 2"))
    failure = server.wait_for("b.0.1")["failure"]
    assert failure["kind"] == "crashed"
    assert failure["message"] == "the block ended with status 2: so"


def test_a_folder_that_no_worker_may_show_is_its_authors_error(
    server: FakeServer,
    start: Start,
) -> None:
    start()
    server.give(shell_job("b.0.1", "", job={"schema": 1, "kind": "dataset", "root": "/etc"}))
    assert server.wait_for("b.0.1")["failure"]["kind"] == "algorithm error"


def test_the_machines_own_folders_are_not_a_jobs_memory() -> None:
    """A process that is not shut in sees them, as one whose sandbox is being set up."""
    for own in (Path("/tmp"), Path("/dev/shm")):
        found = os.statvfs(own)
        other = found.f_blocks * found.f_frsize + 2**30
        assert processes.temporary_bytes(os.getpid(), other) == 0


def test_folders_nested_without_end_are_against_the_quota(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, python(f"{DEEP}\nimport time; time.sleep(60)"), seconds=20)
    assert ended.reason is Reason.DISK
    trees.remove(tmp_path / "work/job")
    assert not (tmp_path / "work/job").exists()


def test_a_job_that_leaves_deep_folders_is_told_of_and_removed(
    server: FakeServer,
    start: Start,
    tmp_path: Path,
) -> None:
    start()
    nest = "/usr/bin/python3 - <<'END'\n" + DEEP + "END\nfinish"
    server.give(shell_job("b.0.1", nest.replace("\n", "\n        ")), shell_job("b.1.1", "finish"))
    server.wait_for("b.0.1")
    assert server.wait_for("b.1.1")["outcome"] == "done"
    assert not list(tmp_path.glob("**/jobs/b.0.1"))


def test_holes_in_files_count_and_so_does_what_was_written_last(tmp_path: Path) -> None:
    quotas = replace(SMALL, disk_bytes=20 * 2**20)
    holes = "for n in 1 2 3; do truncate -s 10M /job/outputs/$n; done"
    ended, _ = run(tmp_path, shell(holes), quotas)
    assert (ended.exit_code, ended.reason) == (0, Reason.DISK)


def test_what_is_there_is_counted_but_for_what_was_given(tmp_path: Path) -> None:
    for name in ("inputs/a", "outputs/b", "outputs/deep/inputs/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 8192)
    size, files = trees.use(tmp_path, 100, frozenset({"inputs"}))
    assert (size, files) == (16384, 6)
    assert trees.use(tmp_path, 3, frozenset())[1] > 3
