"""URLs, detection, the registry, and drivers of third parties."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gristmill import connecting, registry
from gristmill.commands import Command, Output
from gristmill.errors import BadValue, UnknownManager
from gristmill.managers.local import LocalDialect
from gristmill.testing import FakeTransport
from gristmill.transports.local import LocalTransport
from gristmill.transports.ssh import SshTransport


def installed(*commands: str) -> FakeTransport:
    def answer(command: Command) -> Output:
        return Output(rc=0 if command.argv[-1] in commands else 1)

    return FakeTransport(answer)


def test_urls() -> None:
    assert connecting.read_url(None) == (None, None)
    assert connecting.read_url("slurm") == (None, "slurm")
    assert connecting.read_url("local://slurm") == (None, "slurm")
    transport, name = connecting.read_url("ssh://me@host:2222/slurm?jump=a,b&option=-4")
    assert isinstance(transport, SshTransport)
    assert (transport.name, name) == ("ssh://me@host:2222", "slurm")


@pytest.mark.parametrize("url", ["http://host/slurm", "ssh:///slurm", "ftp://x"])
def test_urls_of_another_kind(url: str) -> None:
    with pytest.raises(BadValue, match="cannot be connected to"):
        connecting.read_url(url)


def test_what_is_installed_is_found() -> None:
    slurm = installed("sbatch", "squeue", "scontrol", "scancel")
    assert connecting.detect(slurm).name == "slurm"
    with pytest.raises(UnknownManager, match="name one"):
        connecting.detect(installed())


def test_where_nothing_is_installed_it_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert connecting.detect(LocalTransport()).name == "local"


def test_an_unknown_manager_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UnknownManager, match=r"slurm.*local"):
        registry.dialect("mainframe")


def test_a_third_party_adds_one_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(LocalDialect):
        name = "theirs"

    def entry_points(**query: str) -> list[EntryPoint]:
        point = EntryPoint("theirs", "their.driver:Theirs", query["group"])
        return [point] if query.get("name", "theirs") == "theirs" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Theirs)
    assert registry.dialect("theirs").name == "theirs"
    assert "theirs" in registry.names()
    monkeypatch.setattr(EntryPoint, "load", lambda self: dict)
    with pytest.raises(UnknownManager, match="not a subclass"):
        registry.dialect("theirs")


def test_a_site_file_and_a_journal_by_path(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('interval = 30\n[defaults]\nqueue = "local"\n')
    with connecting.connect(
        "local", site=tmp_path / "site.toml", journal=tmp_path / "j", interval=1
    ) as rm:
        assert rm.core.poll_interval == 30
        assert rm.core.site.defaults == {"queue": "local"}
    with pytest.raises(BadValue, match="nowhere"):
        connecting.connect("local", site=tmp_path / "nowhere")


def test_the_library_needs_nothing_but_python(tmp_path: Path) -> None:
    """`-S`: no installed package can be imported."""
    names = ["service", "conformance", "fakes", "localrm.commands", "transports.ssh", "gatekeeper"]
    names += [place.partition(":")[0].removeprefix("gristmill.") for place in _present()]
    code = "import gristmill, " + ", ".join(f"gristmill.{name}" for name in names)
    source = Path(registry.__file__).parents[1]
    env = {"PYTHONPATH": str(source), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env=env)


def _present() -> list[str]:
    source = Path(registry.__file__).parents[1]
    places = registry.BUILT_IN.values()
    return [p for p in places if (source / f"{p.partition(':')[0].replace('.', '/')}.py").exists()]


def test_the_local_manager_as_a_program(tmp_path: Path) -> None:
    env = {**os.environ, "GRISTMILL_LOCAL": str(tmp_path)}
    code = "import sys; from gristmill.localrm.commands import main; sys.exit(main())"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", code, *words]
        return subprocess.run(
            argv, env=env, input="{}", capture_output=True, text=True, check=False
        )

    assert json.loads(call("machine").stdout)["running"] == 0
    wrong = call("dance")
    assert wrong.returncode == 2
    assert "choose among submit" in wrong.stderr
