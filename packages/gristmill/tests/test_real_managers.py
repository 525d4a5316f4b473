"""The conformance suite on managers that really run: local processes, Slurm, Slurm over ssh."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import conformance
from gristmill.conformance import Limits
from gristmill.drivers import Local, Slurm
from gristmill.journal import Journal
from gristmill.service import ResourceManager
from gristmill.transports.local import LocalTransport
from gristmill.transports.ssh import SshTransport

CLUSTERS = Path(__file__).parent / "clusters"
USER = "tester"
Check = Callable[[ResourceManager, Limits], None]
each_check = pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResourceManager]:
    place = tmp_path / "rm"
    place.mkdir()
    (place / "local.toml").write_text("slots = 8\n")
    monkeypatch.setenv("GRISTMILL_LOCAL", str(place))
    monkeypatch.setenv("GRISTMILL_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with Local(journal=Journal(tmp_path / "journal.jsonl"), interval=0.5) as rm:
        yield rm


@each_check
def test_local(check: Check, local: ResourceManager) -> None:
    check(local, Limits(walltime=1, kill_within=10, many=100))


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.fail("the cluster's start scripts install packages and daemons: run as root")
    ping = "scontrol ping | grep -q 'is UP'"
    was_there = subprocess.run(["sh", "-c", ping], capture_output=True, check=False).returncode == 0
    subprocess.run([CLUSTERS / "start_slurm.sh"], check=True, stdout=subprocess.DEVNULL)
    yield
    if not was_there:
        subprocess.run([CLUSTERS / "stop_slurm.sh"], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory that the test user may write, in his home."""
    home = Path(f"~{USER}").expanduser()
    place = home / f"work-{os.getpid()}-{next(_numbers)}"
    subprocess.run(["runuser", "-u", USER, "--", "mkdir", str(place)], check=True)
    yield place
    shutil.rmtree(place)


_numbers = iter(range(10**6))


@pytest.mark.real_rm
@each_check
def test_slurm(check: Check, slurm_cluster: None, workplace: Path, tmp_path: Path) -> None:
    prefix = ("runuser", "-u", USER, "--", "env", f"HOME={workplace.parent}")
    transport = LocalTransport(prefix, workplace)
    with Slurm(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5) as rm:
        check(rm, Limits())


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A real sshd on loopback: its port, and the key that lets the test user in."""
    place = tmp_path_factory.mktemp("sshd")
    out = subprocess.run(
        [CLUSTERS / "start_sshd.sh", place, USER], check=True, capture_output=True, text=True
    )
    pid, port = out.stdout.split()[-2:]
    yield int(port), place / "key"
    subprocess.run(["kill", pid], check=True)


@pytest.mark.real_rm
@each_check
def test_slurm_over_ssh(
    check: Check, slurm_cluster: None, sshd: tuple[int, Path], tmp_path: Path
) -> None:
    port, key = sshd
    options = [
        "-i",
        str(key),
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]
    transport = SshTransport("127.0.0.1", user=USER, port=port, options=options)
    with Slurm(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5) as rm:
        check(rm, Limits(many=200))
