"""Jobs that take too much, or do not want to end. The reason is always known."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from backend.worker import processes
from backend.worker.executors import process
from backend.worker.executors.base import Quotas, Reason
from backend.worker.logs import LogKeeper
from backend.worker.sandbox import bubblewrap, cgroups
from tests.worker.running import SMALL, Background, executor, prepared, python, run, shell


def test_memory_over_the_limit_ends_as_such_with_its_log_kept(tmp_path: Path) -> None:
    code = dedent("""
        print("before", flush=True)
        held = []
        while True:
            held.append(bytearray(b"x" * 2**20))
    """)
    ended, heard = run(tmp_path, python(code), memory_mb=100)
    assert ended.reason is Reason.MEMORY
    assert heard.text().startswith("before\n")
    assert ended.usage.peak_memory_mb > 100


def test_memory_of_all_processes_together_and_of_tmp_counts(tmp_path: Path) -> None:
    hold = 'import time; x = bytearray(b"x" * 2**25); time.sleep(60)'
    many = f"for i in 1 2 3 4 5; do /usr/bin/python3 -c '{hold}' & done; wait"
    assert run(tmp_path / "a", shell(many), memory_mb=120)[0].reason is Reason.MEMORY
    fill = "dd if=/dev/zero of=/tmp/x bs=1M count=60; sleep 60"
    large = replace(SMALL, disk_bytes=2**30)
    assert run(tmp_path / "b", shell(fill), large, memory_mb=40)[0].reason is Reason.MEMORY


def test_tmp_and_shared_memory_are_bounded(tmp_path: Path) -> None:
    fill = "dd if=/dev/zero of=/dev/shm/x bs=1M; dd if=/dev/zero of=/tmp/x bs=1M; echo over"
    ended, heard = run(tmp_path, shell(fill), replace(SMALL, disk_bytes=2**30), memory_mb=5000)
    assert ended.exit_code == 0
    assert heard.text().count("No space left") == 2


def test_mapped_input_files_are_not_counted_as_memory(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (200 * 2**20))
    code = dedent("""
        import mmap, time
        with open("/job/inputs/0", "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            print(sum(mapped[i] for i in range(0, len(mapped), 4096)))
            time.sleep(0.3)
    """)
    ended, heard = run(
        tmp_path, python(code), memory_mb=100, inputs=((tmp_path / "big", "inputs/0"),)
    )
    assert (ended.reason, ended.exit_code) == (None, 0), heard.text()


def test_time_over_the_limit_ends_as_such_even_if_sigterm_is_ignored(tmp_path: Path) -> None:
    ended, heard = run(
        tmp_path, shell("trap '' TERM; echo begun; sleep 600 & wait; sleep 600"), seconds=1
    )
    assert ended.reason is Reason.TIME
    assert "begun" in heard.text()
    assert ended.exit_code == 128 + 9


def test_a_busy_loop_is_ended_and_its_time_told(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, shell("while :; do :; done"), seconds=1)
    assert ended.reason is Reason.TIME
    assert ended.usage.cpu_user_seconds > 0


def test_a_cancelled_job_may_clean_up_and_is_gone_within_two_seconds(tmp_path: Path) -> None:
    doing = executor(tmp_path / "work")
    polite = "trap 'echo cleaned; exit 9' TERM; echo begun; while :; do sleep 0.05; done"
    job = Background(doing, prepared(tmp_path / "work/a", shell(polite)))
    job.heard.wait_for("begun")
    job.kill(Reason.CANCELLED)
    ended = job.join()
    assert ended.reason is Reason.CANCELLED
    assert "cleaned" in job.heard.text()


def test_a_job_that_ignores_sigterm_and_forks_daemons_is_gone_within_two_seconds(
    tmp_path: Path,
) -> None:
    doing = executor(tmp_path / "work")
    script = "trap '' TERM; for i in 1 2 3; do setsid sh -c \"trap '' TERM; sleep 4322\" & done; "
    script += "echo begun; while :; do sleep 1; done"
    job = Background(doing, prepared(tmp_path / "work/a", shell(script)))
    job.heard.wait_for("begun")
    job.kill(Reason.CANCELLED)
    job.kill(Reason.FENCED)
    assert job.join().reason is Reason.CANCELLED
    assert process.GRACE < 2
    assert not any("4322" in _command(pid) for pid in _pids())


def _pids() -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_job_killed_while_its_sandbox_is_being_set_up_leaves_nothing(tmp_path: Path) -> None:
    doing = executor(tmp_path / "work")
    for number in range(20):
        job = Background(doing, prepared(tmp_path / f"work/{number}", shell("sleep 4323")))
        job.kill(Reason.FENCED if number % 2 else Reason.NO_SPACE)
        job.join()
    assert not any("4323" in _command(pid) for pid in _pids())


def test_a_fork_bomb_is_stopped_by_counting(tmp_path: Path) -> None:
    # every child only waits: a bomb whose children fork as well would hit the whole machine
    code = dedent("""
        import os, time
        for _ in range(2000):
            if os.fork() == 0:
                time.sleep(60)
        time.sleep(60)
    """)
    ended, _ = run(tmp_path, python(code))
    assert ended.reason is Reason.PROCESSES


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's here")
def test_a_control_group_keeps_a_fork_bomb_small(tmp_path: Path) -> None:
    groups = cgroups.probe(None)
    if groups.pids is None:
        pytest.skip("no group for processes can be made on this machine")
    code = dedent("""
        import os, time
        made = 0
        try:
            for _ in range(1000):
                if os.fork() == 0:
                    time.sleep(60)
                made += 1
        except OSError as error:
            print(made < 64, error, flush=True)
    """)
    ended, heard = run(tmp_path, python(code), groups=groups)
    assert (ended.reason, ended.exit_code) == (None, 0)
    assert "True [Errno 11]" in heard.text()
    assert list(groups.pids.glob(f"gristmill-{os.getpid()}-*")) == []
    (groups.pids / "gristmill-99999999-x").mkdir()
    groups.sweep()
    assert list(groups.pids.glob("gristmill-99999999-*")) == []


def test_a_job_that_fills_the_disk_is_ended(tmp_path: Path) -> None:
    fill = "i=0; while :; do i=$((i+1)); dd if=/dev/zero of=/job/outputs/$i bs=1M count=1; done"
    ended, _ = run(tmp_path, shell(fill))
    assert ended.reason is Reason.DISK


def test_one_file_can_be_no_larger_than_the_quota(tmp_path: Path) -> None:
    code = dedent("""
        try:
            with open("/job/outputs/x", "wb") as file:
                for _ in range(100):
                    file.write(bytes(2**20))
        except OSError as error:
            print(error)
    """)
    ended, heard = run(tmp_path, python(code), replace(SMALL, disk_bytes=5 * 2**20))
    assert ended.reason in (None, Reason.DISK)
    if ended.reason is None:
        assert "File too large" in heard.text()


def test_a_job_that_makes_countless_files_is_ended(tmp_path: Path) -> None:
    code = "i = 0\nwhile True:\n    open(f'/job/outputs/{i}', 'w').close()\n    i += 1\n"
    ended, _ = run(tmp_path, python(code), replace(SMALL, files=500))
    assert ended.reason is Reason.DISK


def test_too_many_open_files_are_the_jobs_own_error(tmp_path: Path) -> None:
    code = "files = [open('/dev/null') for _ in range(5000)]"
    ended, heard = run(tmp_path, python(code))
    assert ended.exit_code == 1
    assert "Too many open files" in heard.text()


def test_a_full_disk_is_the_workers_fault(tmp_path: Path) -> None:
    full = replace(SMALL, free_bytes=2**60)
    assert run(tmp_path / "a", shell("sleep 60"), full)[0].reason is Reason.NO_SPACE
    # even where the job itself met the full disk first, and failed of it
    assert run(tmp_path / "b", shell("exit 1"), full)[0].reason is Reason.NO_SPACE


def test_five_thousand_lines_and_an_exit_are_all_kept_in_order(tmp_path: Path) -> None:
    quotas = replace(SMALL, log_bytes=2**20)
    ended, heard = run(tmp_path, shell("seq 5000; exit 3"), quotas)
    assert ended.exit_code == 3
    assert heard.text() == "".join(f"{i}\n" for i in range(1, 5001))


def test_a_flood_of_output_is_cut_and_said_to_be(tmp_path: Path) -> None:
    ended, heard = run(tmp_path, shell("yes 0123456789 | head -c 300000000; echo the end"))
    assert ended.exit_code == 0
    assert len(heard.text()) < 64 * 1024 + 2 * 2**20
    assert "characters left out]" in heard.text("stderr")
    assert heard.text().endswith("the end\n")


def test_what_is_no_text_is_shown_as_such() -> None:
    said: list[tuple[str, str]] = []
    keeper = LogKeeper(lambda stream, text: said.append((stream, text)), 1000)
    keeper.feed("stdout", "é".encode()[:1])
    keeper.feed("stderr", b"\xff\0")
    keeper.feed("stdout", "é".encode()[1:])
    keeper.feed("stdout", b"\xe2\x82")
    keeper.close()
    assert said == [("stderr", "\ufffd\ufffd"), ("stdout", "é"), ("stdout", "\ufffd")]


def test_messages_are_heard_and_rubbish_is_not(tmp_path: Path) -> None:
    code = dedent("""
        import json, os
        fd = json.load(open("/job/job.json"))["messages_fd"]
        os.write(fd, b'{"kind": "started"}\\n')
        os.write(fd, b'{"kind": "progress", "fraction": 0.5, "message": "x"}\\n')
        os.write(fd, b'[' * 100000 + b'\\nnull\\n{"kind": "progress", "fraction": "a"}\\n')
        os.write(fd, b'{"kind": "progress", "fraction": 1e999}\\n')
        os.write(fd, b'{"kind": "progress", "fraction": 1')
        os.write(fd, b'}\\n')
    """)
    ended, heard = run(tmp_path, python(code))
    assert ended.exit_code == 0, heard.text()
    assert heard.begun.is_set()
    assert heard.fractions == [(0.5, "x"), (1.0, None)]


def test_a_signal_shows_in_the_status(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, shell("kill -SEGV $$"))
    assert ended.exit_code == 128 + 11
    assert ended.reason is None


def test_an_executable_that_is_not_there_is_told(tmp_path: Path) -> None:
    made = shell("")
    missing = type(made)(
        name="x", version="1", os="", packages={}, executable=("/none",), binds=(), standby=False
    )
    ended, heard = run(tmp_path, missing)
    assert ended.exit_code not in (0, None)
    assert "/none" in heard.text("stderr")


def test_the_tree_of_processes_is_found_with_and_without_the_kernels_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = processes.descendants(os.getpid())
    table = processes.parents()
    assert set(table.get(os.getpid(), [])) <= set(own) | {os.getpid()}


# ---- control groups, as far as a folder can stand for them ------------------------------------


def test_a_delegated_version_2_group_is_used(tmp_path: Path) -> None:
    own = tmp_path / "user.slice/worker"
    (own / "gristmill-worker").mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids")
    (own / "cgroup.procs").write_text("")
    found = cgroups.probe(None, root=tmp_path, own="0::/user.slice/worker")
    assert found.limits == "cgroup-v2"
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"
    group = found.make("job")
    group.limit(100, 64)
    assert (own / "job/memory.max").read_text() == str(100 * 2**20)
    assert (own / "job/pids.max").read_text() == "64"
    assert group.joins() == [str(own / "job/cgroup.procs")]
    assert not group.out_of_memory()
    (own / "job/memory.events").write_text("oom 3\noom_kill 1\n")
    assert group.out_of_memory()


def test_a_version_1_memory_group_is_used_only_where_it_is_named(tmp_path: Path) -> None:
    assert cgroups.probe(None, root=tmp_path, own="4:memory:/a\n8:pids:/").limits == "polling"
    assert cgroups.probe(tmp_path / "no", root=tmp_path, own="").limits == "polling"


def test_defaults_are_generous_but_finite() -> None:
    quotas = Quotas()
    assert quotas.log_bytes < 100 * 2**20
    assert quotas.processes < 10_000


def test_a_sandbox_that_is_still_being_set_up_is_not_given_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin/bwrap"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("bwrap")} "$@"\n')
    slow.chmod(0o755)
    command = partial(bubblewrap.command, program=str(slow))
    monkeypatch.setattr(bubblewrap, "command", command)
    waits = replace(shell('[ "$1" = run ] || read -r line; echo began'), standby=True)
    doing = executor(tmp_path / "work", standby=1)
    try:
        doing.standby.want(waits, 1)
        while not list((tmp_path / "work/standby").glob("*/job.json")):
            time.sleep(0.001)
        time.sleep(0.1)  # started by now, and far from set up
        job = Background(doing, prepared(tmp_path / "work/1", waits))
        assert job.join().exit_code == 0
        assert job.heard.text() == "began\n"
        assert doing.standby.settled()
    finally:
        doing.close()
