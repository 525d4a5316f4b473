"""The local manager beyond the conformance suite: restarts, limits of the machine, trees, GPUs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.conformance import shell, sleeper
from gristmill.drivers import Local
from gristmill.errors import CommandFailed, Refused, Unsupported
from gristmill.jobs import Job, JobState
from gristmill.journal import Journal
from gristmill.localrm import processes
from gristmill.records import Outcome
from gristmill.service import ResourceManager


@pytest.fixture
def rm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    place = tmp_path / "rm"
    place.mkdir()
    (place / "local.toml").write_text('slots = 2\ngpus = 2\nmemory = "4G"\n')
    monkeypatch.setenv("GRISTMILL_LOCAL", str(place))
    monkeypatch.setenv("GRISTMILL_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with Local(journal=Journal(tmp_path / "journal"), interval=0.2) as client:
        yield client
        client.cancel(*client.runs())


def eventually(what: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def supervisor(tmp_path: Path) -> int | None:
    """The pid of this folder's supervisor."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"gristmill.localrm.supervisor" in words and str(tmp_path / "rm").encode() in words:
                ppid = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if _is_supervisor(ppid, tmp_path):
                    continue  # a fork of it
                return int(entry.name)
    return None


def _is_supervisor(pid: int, tmp_path: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(tmp_path / "rm").encode() in words


def test_it_survives_the_death_of_its_supervisor(rm: ResourceManager, tmp_path: Path) -> None:
    first = shell("sleep 1.5; exit 4", "first")
    second = shell("echo yes", "second", after_not_ok=first)
    run = rm.submit(second)
    eventually(lambda: run[first].status().state is JobState.RUNNING)
    pid = supervisor(tmp_path)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    run.wait(60)
    assert (run[first].state, run[first].record.exit_code) == (JobState.FAILED, 4)
    assert run[second].log() == b"yes\n"


def test_a_job_whose_guardian_was_killed_is_a_node_failure(
    rm: ResourceManager, tmp_path: Path
) -> None:
    run = rm.submit(sleeper(60, "orphan"))
    eventually(lambda: run.status() and run.state is JobState.RUNNING)
    pid = int(_wait_for_file(run.handles[0].id, tmp_path))
    os.kill(pid, signal.SIGKILL)
    assert run.wait(60) is JobState.NODE_FAILURE


def _wait_for_file(id: str, tmp_path: Path) -> int:
    from gristmill.localrm.store import Store

    store = Store()
    try:
        eventually(lambda: store.tasks([int(id)])[0]["pid"])
        return int(store.tasks([int(id)])[0]["shepherd"])
    finally:
        store.close()


def test_the_supervisor_goes_when_there_is_nothing_to_do(
    rm: ResourceManager, tmp_path: Path
) -> None:
    rm.submit(shell("true", "short")).wait(60)
    eventually(lambda: supervisor(tmp_path) is None)


def test_nothing_of_a_job_outlives_it(rm: ResourceManager, tmp_path: Path) -> None:
    """Not even a process in a session of its own."""
    run = rm.submit(shell("setsid sleep 600 & echo $! > child; exit 0", "leaves"))
    assert run.wait(60) is JobState.DONE
    assert processes.born(int((tmp_path / "child").read_text())) is None


def test_slots_are_never_oversubscribed(rm: ResourceManager) -> None:
    text = "date +%s.%N; sleep 0.3; date +%s.%N"
    jobs = [shell(text, f"j{n}", cores_per_task=1 + n % 2) for n in range(6)]
    run = rm.submit(jobs)
    run.wait(60)
    spans = [(*map(float, run[job].log().split()), job.spec.cores_per_task or 1) for job in jobs]
    most = max(sum(n for b, e, n in spans if b <= begin < e) for begin, _, _ in spans)
    assert most <= 2


def test_each_gpu_is_given_once(rm: ResourceManager) -> None:
    run = rm.submit(
        [shell("echo $CUDA_VISIBLE_DEVICES; sleep 0.5", f"g{n}", gpus=1) for n in (1, 2)]
    )
    run.wait(60)
    assert {handle.log() for handle in run} == {b"0\n", b"1\n"}


@pytest.mark.parametrize(
    "options", [{"cores_per_task": 3}, {"memory": "5G"}, {"gpus": 3}], ids=lambda o: next(iter(o))
)
def test_what_never_fits_is_refused(rm: ResourceManager, options: dict[str, object]) -> None:
    with pytest.raises(Refused, match="this machine gives jobs"):
        rm.submit(sleeper(1, "huge", **options))


def test_what_it_lacks_is_refused(rm: ResourceManager) -> None:
    with pytest.raises(Unsupported, match=r"nodes=2.*licences"):
        rm.submit(sleeper(1, "wide", nodes=2, licences={"x": 1}))


def test_begin_times_are_kept(rm: ResourceManager) -> None:
    begin = time.time() + 1.2
    run = rm.submit(shell("date +%s.%N", "later", begin=begin))
    run.wait(60)
    assert float(run.handles[0].log()) >= begin - 0.01


def test_priorities_come_first(rm: ResourceManager) -> None:
    low = [shell("date +%s.%N; sleep 0.2", f"low{n}", cores_per_task=2, hold=True) for n in (1, 2)]
    high = shell("date +%s.%N", "high", cores_per_task=2, priority=5, hold=True)
    run = rm.submit([*low, high])
    run.release()
    run.wait(60)
    assert float(run[high].log()) < max(float(run[job].log()) for job in low)


def test_a_missing_directory_is_a_launch_failure(rm: ResourceManager) -> None:
    run = rm.submit(Job(command=["true"], directory="/nonexistent/dir"))
    assert run.wait(60) is JobState.FAILED
    assert "nonexistent" in run.handles[0].record.reason


def test_accounting_knows_cpu_and_memory(rm: ResourceManager) -> None:
    text = (
        "import time; x = bytearray(80 << 20); e = time.time() + 0.4\nwhile time.time() < e: pass"
    )
    run = rm.submit(Job(command=["python3", "-c", text], name="busy"))
    run.wait(60)
    used = run.handles[0].accounting()
    assert used.cpu is not None
    assert used.cpu > 0.2
    assert used.peak_memory is not None
    assert used.peak_memory > 80 << 20


def test_signals_and_unknown_ids(rm: ResourceManager) -> None:
    assert rm.core.dialect.canonical(" 5_3 ") == "5_3"
    run = rm.submit(sleeper(60, "waits", hold=True))
    assert run.handles[0].signal("USR1") is Outcome.FAILED
    with pytest.raises(CommandFailed, match="not the name of a signal"):
        run.handles[0].signal("NOISE")


def test_files_are_staged_in_and_fetched(rm: ResourceManager, tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("data")
    (tmp_path / "there").mkdir()
    job = shell(
        "tr a-z A-Z < in/x > out.txt",
        "staged",
        directory=tmp_path / "there",
        stage_in={str(tmp_path / "here.txt"): "in/x"},
        stage_out={"out.txt": str(tmp_path / "back/result.txt")},
    )
    run = rm.submit(job)
    assert run.wait(60) is JobState.DONE
    assert run.fetch() == [str(tmp_path / "back/result.txt")]
    assert (tmp_path / "back/result.txt").read_text() == "DATA"


def test_old_records_are_cleaned_away(rm: ResourceManager, tmp_path: Path) -> None:
    rm.submit(shell("true", "one")).wait(60)
    (record,) = (tmp_path / "state/exits").iterdir()
    rm.clean(days=1)
    assert record.exists()
    os.utime(record, (0, 0))
    rm.clean(days=1)
    assert not record.exists()
