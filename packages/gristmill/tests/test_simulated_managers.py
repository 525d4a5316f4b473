"""The conformance suite on the simulated managers: every driver against its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gristmill
from gristmill import conformance, connecting
from gristmill.conformance import Limits
from gristmill.records import Cause
from gristmill.service import ResourceManager
from gristmill.simulators import supervisor
from gristmill.simulators.__main__ import install
from gristmill.simulators.farm import Settings
from gristmill.transports.local import LocalTransport

# driver -> simulator, limits
PBS = Limits(patience=60, walltime=2, kill_within=20, many_within=200)
MANAGERS = {
    "pbspro": ("openpbs", PBS),
    # the job runs into its own limit of memory: Torque has no word for it
    "torque": ("torque", Limits(patience=60, walltime=2, kill_within=20, memory_kill=False)),
    "lsf": ("lsf", Limits(patience=60, walltime=60, kill_within=20, many_within=200)),
    "htcondor": ("htcondor", PBS),
    "moab": ("moab", PBS),
    "loadleveler": (
        "loadleveler",
        Limits(patience=60, walltime=2, kill_within=20, many_within=200, memory_kill=False),
    ),
}
LONG = {"many"}
SLOW = {("lsf", "walltime")}  # it counts minutes

Check = Callable[[ResourceManager, Limits], None]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Installs a simulator and puts its commands first on PATH; ends it after the test."""
    roots = []

    def make(manager: str, **settings: object) -> Path:
        root = tmp_path / "farm"
        folder = install(root, Settings(manager=manager, **settings))  # type: ignore[arg-type]
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        roots.append(root)
        return root

    yield make
    for root in roots:
        supervisor.stop(root)


def cases() -> Iterator[object]:
    for name in MANAGERS:
        for check in conformance.CHECKS:
            slow = check.__name__ in LONG or (name, check.__name__) in SLOW
            marks = [pytest.mark.real_rm] if slow else []
            yield pytest.param(name, check, id=f"{name}-{check.__name__}", marks=marks)


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "check"), list(cases()))
def test_conformance(name: str, check: Check, farm: Callable[..., Path], tmp_path: Path) -> None:
    simulator, limits = MANAGERS[name]
    farm(simulator)
    with gristmill.connect(name, journal=tmp_path / "journal", interval=0.2) as rm:
        check(rm, limits)


@pytest.mark.parametrize("name", MANAGERS)
def test_queues_nodes_and_accounting(name: str, farm: Callable[..., Path], tmp_path: Path) -> None:
    farm(MANAGERS[name][0])
    with gristmill.connect(name, journal=tmp_path / "journal", interval=0.2) as rm:
        job = gristmill.Job(script_text="echo hi\n", name="counted", time="5m", queue="long")
        if name == "htcondor":
            job = job.evolve(queue=None)
        else:
            assert {queue.name for queue in rm.queues()} == {"batch", "long"}
        (node,) = rm.nodes()
        assert (node.name, node.cores, node.up) == ("farm", 4, True)
        run = rm.submit(job)
        run.wait(60)
        used = rm.accounting(run[job])
        assert used.exit_code == 0
        assert used.started
        assert used.ended
        assert used.ended >= used.started
        assert rm.why(run[job]).cause is Cause.SUCCESS


@pytest.mark.parametrize("name", MANAGERS)
def test_what_is_installed_is_found(
    name: str, farm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = farm(MANAGERS[name][0])
    monkeypatch.setenv("PATH", str(root / "bin"))
    assert connecting.detect(LocalTransport()).name == name
