"""The conformance suite on a real Son of Grid Engine and a real OAR, and what only they do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from gristmill import conformance
from gristmill.conformance import Limits, shell
from gristmill.drivers import GridEngine, Oar
from gristmill.jobs import JobState
from gristmill.journal import Journal
from gristmill.records import Cause
from gristmill.service import ResourceManager
from gristmill.transports.local import LocalTransport

pytestmark = pytest.mark.real_rm

CLUSTERS = Path(__file__).parent / "clusters"
USER = "tester"
Check = Callable[[ResourceManager, Limits], None]
each_check = pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
_numbers = count()


def _cluster(name: str, is_up: str) -> Iterator[None]:
    """Start it unless it runs; then it is left as it was found."""
    if os.geteuid() != 0:
        pytest.fail("the cluster's start scripts install packages and daemons: run as root")
    was_there = subprocess.run(["sh", "-c", is_up], capture_output=True, check=False)
    if was_there.returncode != 0:
        subprocess.run([CLUSTERS / f"start_{name}.sh"], check=True, stdout=subprocess.DEVNULL)
    yield
    if was_there.returncode != 0:
        subprocess.run([CLUSTERS / f"stop_{name}.sh"], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def grid_engine_cluster() -> Iterator[None]:
    yield from _cluster("grid_engine", "timeout 10 qstat -f | grep -q all.q")


@pytest.fixture(scope="session")
def oar_cluster() -> Iterator[None]:
    yield from _cluster("oar", "timeout 20 oarnodes -s | grep -q Alive")


@pytest.fixture
def workplace() -> Iterator[Path]:
    """A directory that the test user may write, in his home."""
    place = Path(f"~{USER}").expanduser() / f"grid-{os.getpid()}-{next(_numbers)}"
    subprocess.run(["runuser", "-u", USER, "--", "mkdir", str(place)], check=True)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def transport(workplace: Path) -> LocalTransport:
    prefix = ("runuser", "-u", USER, "--", "env", f"HOME={workplace.parent}")
    return LocalTransport(prefix, workplace)


@pytest.fixture
def grid_engine(
    grid_engine_cluster: None, transport: LocalTransport, tmp_path: Path
) -> Iterator[GridEngine]:
    with GridEngine(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5) as rm:
        yield rm


@pytest.fixture
def oar(oar_cluster: None, transport: LocalTransport, tmp_path: Path) -> Iterator[Oar]:
    with Oar(transport=transport, journal=Journal(tmp_path / "j"), interval=1.0) as rm:
        yield rm


@each_check
def test_grid_engine(check: Check, grid_engine: GridEngine) -> None:
    # h_vmem limits the address space: the suite's program is refused memory, and not killed
    check(grid_engine, Limits(walltime=3, kill_within=60, memory_kill=False))


@each_check
def test_oar(check: Check, oar: Oar) -> None:
    # OAR starts two or three jobs a second, and knows neither memory nor CPU time
    check(oar, Limits(walltime=3, kill_within=120, memory_kill=False, cpu=False, many=30))


def test_exit_codes_that_are_orders_to_grid_engine_stay_exit_codes(
    grid_engine: GridEngine,
) -> None:
    """99 would run the job again, 100 would put it into error for ever."""
    jobs = [shell(f"echo ran; exit {code}", f"exit-{code}") for code in (99, 100, 250)]
    run = grid_engine.submit(jobs)
    run.wait(120)
    assert [run[job].record.exit_code for job in jobs] == [99, 100, 100]
    assert [run[job].log() for job in jobs] == [b"ran\n"] * 3


def test_an_array_of_grid_engine_from_one_up_is_native(grid_engine: GridEngine) -> None:
    job = shell("echo $SGE_TASK_ID $GRISTMILL_ARRAY_INDEX", "native", array="3-9:3%2")
    run = grid_engine.submit(job)
    assert run.wait(120) is JobState.DONE
    assert [run[job].log(index=index) for index in (3, 6, 9)] == [b"3 3\n", b"6 6\n", b"9 9\n"]


def test_grid_engine_waits_for_any_end_by_itself(grid_engine: GridEngine) -> None:
    first = shell("sleep 2; exit 1", "first")
    then = shell("true", "then", after_any=first)
    assert "-hold_jid <first>" in grid_engine.plan(then).jobs[1].rendering.script
    run = grid_engine.submit(then)
    assert run[then].why().cause is Cause.DEPENDENCY
    run.wait(120)
    assert run[then].state is JobState.DONE


def test_memory_of_all_processes_of_a_job_is_limited_by_grid_engine(
    grid_engine: GridEngine,
) -> None:
    """Each process stays under h_vmem, all of them are above it: the daemon kills the job."""
    one = "(x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 120; :) &"
    job = shell(f"{one} {one} {one} wait", "fat", memory="150M", time="3m")
    run = grid_engine.submit(job)
    record = run[job].wait(170)
    assert record.state is JobState.OUT_OF_MEMORY, (record, grid_engine.why(run[job]))


def test_a_job_of_grid_engine_that_cannot_be_started_has_failed(grid_engine: GridEngine) -> None:
    job = shell("true", "lost", native={"gridengine": ["-wd /nonexistent"]})
    run = grid_engine.submit(job)
    assert run[job].wait(120).state is JobState.FAILED
    why = run[job].why()
    assert why.cause is Cause.LAUNCH_FAILURE
    assert "Eqw" in str(why)
    grid_engine.cancel(run)


def test_oar_waits_for_any_end_by_itself(oar: Oar) -> None:
    first = shell("sleep 2; exit 1", "first")
    then = shell("true", "then", after_any=first)
    run = oar.submit(then)
    run.wait(120)
    assert run[then].state is JobState.DONE
    assert run[first].record.exit_code == 1
