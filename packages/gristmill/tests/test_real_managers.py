"""The conformance suite on managers that really run: local processes, Slurm, Slurm over ssh."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import conformance
from gristmill.commands import Command, Output
from gristmill.conformance import Limits
from gristmill.connecting import connect
from gristmill.drivers import Local, Slurm
from gristmill.jobs import JobState
from gristmill.journal import Journal
from gristmill.records import Source
from gristmill.service import AsyncResourceManager, ResourceManager
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
    with slurm_at(workplace, tmp_path) as rm:
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
def test_a_controller_that_hangs_makes_neither_two_jobs_nor_none(
    slurm_cluster: None, workplace: Path, tmp_path: Path
) -> None:
    """`Socket timed out on send/recv operation`: sbatch fails, and the job may be there or not."""
    pid = int(Path("/var/tmp/slurm-ci/pid/slurmctld.pid").read_text())
    job = conformance.shell("true", "ghost")
    goes_on = threading.Timer(13, os.kill, (pid, signal.SIGCONT))
    with slurm_at(workplace, tmp_path) as rm:
        os.kill(pid, signal.SIGSTOP)
        goes_on.start()
        try:
            run = rm.submit(job)
        finally:
            goes_on.join()
        assert run.wait(120) is JobState.DONE
        listed = rm._transport.run(
            Command(("squeue", "--me", "-h", "-t", "all", "-n", "ghost", "-o", "%i %Z"))
        )
        ours = [line for line in listed.text.splitlines() if line.endswith(str(workplace))]
        assert ours == [f"{run.handles[0].id} {workplace}"]


class Forgetful(LocalTransport):
    """The real commands, but for those that have forgotten everything."""

    forgotten: tuple[str, ...] = ()

    def run(self, command: Command) -> Output:
        if command.argv[0] not in self.forgotten:
            return super().run(command)
        if command.argv[0] == "sacct":
            return Output(stderr=b"Slurm accounting storage is disabled\n", rc=1)
        return Output()


@pytest.mark.real_rm
@pytest.mark.parametrize(
    ("forgotten", "source"),
    [(("squeue",), Source.HISTORY), (("squeue", "sacct"), Source.EXIT_FILE)],
)
def test_a_job_that_the_listing_forgot(
    forgotten: tuple[str, ...], source: Source, slurm_cluster: None, workplace: Path, tmp_path: Path
) -> None:
    """By the real history, and without one by the record that the job really wrote."""
    prefix = ("runuser", "-u", USER, "--", "env", f"HOME={workplace.parent}")
    transport = Forgetful(prefix, workplace)
    transport.forgotten = forgotten
    with Slurm(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5) as rm:
        run = rm.submit(
            [conformance.shell("exit 6", "one"), conformance.shell("exit 7", "many", array="1-3:2")]
        )
        run.wait(60)
        assert (run["one"].state, run["one"].record.exit_code) == (JobState.FAILED, 6)
        # slurmdbd may lag behind the end of a job: then its own record speaks first, as it should
        assert run["one"].record.source in (source, Source.EXIT_FILE)
        elements = run["many"].record.elements
        assert [(e.index, e.exit_code) for e in elements] == [(1, 7), (3, 7)]


def slurm_at(workplace: Path, tmp_path: Path) -> Slurm:
    prefix = ("runuser", "-u", USER, "--", "env", f"HOME={workplace.parent}")
    transport = LocalTransport(prefix, workplace)
    return Slurm(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5)


@pytest.mark.real_rm
@each_check
def test_slurm_over_ssh(
    check: Check, slurm_cluster: None, sshd: tuple[int, Path], tmp_path: Path
) -> None:
    with slurm_by_ssh(sshd, tmp_path) as rm:
        check(rm, Limits(many=200))


def slurm_by_ssh(sshd: tuple[int, Path], tmp_path: Path, *more: str) -> Slurm:
    port, key = sshd
    known = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options = ["-i", str(key), *known, *more]
    transport = SshTransport("127.0.0.1", user=USER, port=port, options=options)
    return Slurm(transport=transport, journal=Journal(tmp_path / "j"), interval=0.5)


@pytest.mark.real_rm
def test_a_connection_that_breaks_is_opened_again(
    slurm_cluster: None, sshd: tuple[int, Path], tmp_path: Path
) -> None:
    with slurm_by_ssh(sshd, tmp_path) as rm:
        run = rm.submit(conformance.shell("sleep 2; echo $((6*7))", "survivor"))
        transport = rm._transport
        assert isinstance(transport, SshTransport)
        told = subprocess.run([*transport._ssh(), "-O", "check"], capture_output=True, check=True)
        found = re.search(rb"pid=(\d+)", told.stderr)
        assert found is not None
        os.kill(int(found[1]), signal.SIGKILL)
        assert run.wait(60) is JobState.DONE
        assert run.handles[0].log() == b"42\n"


@pytest.mark.real_rm
async def test_the_asynchronous_client_over_ssh(
    slurm_cluster: None, sshd: tuple[int, Path], tmp_path: Path
) -> None:
    blocking = slurm_by_ssh(sshd, tmp_path)
    async with AsyncResourceManager(
        "slurm", blocking._transport, journal=Journal(tmp_path / "j"), interval=0.5
    ) as rm:
        first = conformance.shell("exit 2", "first")
        run = await rm.submit(conformance.shell("echo $GM", "then", after_not_ok=first,
                                                environment={"GM": "a  b"}))  # fmt: skip
        assert await run.wait(60) is JobState.FAILED
        assert await run["then"].log() == b"a b\n"
        assert (await rm.queues())[0].name == "debug"


@pytest.mark.real_rm
def test_through_a_jump_host_with_the_users_own_configuration(
    slurm_cluster: None, sshd: tuple[int, Path], tmp_path: Path
) -> None:
    port, key = sshd
    (tmp_path / "config").write_text(
        f"Host *\n HostName 127.0.0.1\n Port {port}\n User {USER}\n IdentityFile {key}\n"
        " StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
    )
    url = f"ssh://cluster?jump=gate&option=-F&option={tmp_path}/config"
    with connect(url, journal=tmp_path / "j", interval=0.5) as rm:
        assert rm.name == "slurm"  # found there, since the URL names none
        assert rm.submit(conformance.shell("true", "far")).wait(60) is JobState.DONE
