"""Transports: what they run, how they fail, and that ssh's line means the same in any shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.commands import Command, Output
from gristmill.errors import ConnectionLost, Transient, TransportError
from gristmill.transports.base import shell_path
from gristmill.transports.local import LocalTransport
from gristmill.transports.ssh import SshTransport, remote_line

TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)


def test_a_command_here() -> None:
    script = 'read x; echo "$x $A ${B-none}"; echo err >&2; exit 3'
    command = Command(("sh", "-c", script), b"in\n", {"A": "1", "B": None})
    out = LocalTransport().run(command)
    assert out == Output(b"in 1 none\n", b"err\n", 3)


def test_variables_are_removed_by_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "x")
    out = LocalTransport().run(Command(("env",), env={"SBATCH_*": None}))
    assert "SBATCH_PARTITION" not in out.text
    assert "PATH=" in out.text


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    began = time.monotonic()
    out = LocalTransport().run(Command(("sh", "-c", "echo begun; sleep 60 & wait"), timeout=0.3))
    assert out.timed_out
    assert out.stdout == b"begun\n"
    assert time.monotonic() - began < 20


def test_a_command_that_is_not_there_is_said() -> None:
    with pytest.raises(TransportError, match="gm-nothing is not installed"):
        LocalTransport().run(Command(("gm-nothing",)))


@pytest.mark.parametrize("prefix", [(), ("env",)])
def test_files_go_and_come(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    transport = LocalTransport(prefix, tmp_path)
    data = bytes(range(256)) * 100
    transport.put("a/b c/$d", data, executable=True)
    assert transport.get("a/b c/$d") == data
    assert os.access(tmp_path / "a/b c/$d", os.X_OK)
    with pytest.raises(FileNotFoundError):
        transport.get("nowhere")
    assert [path.name for path in (tmp_path / "a/b c").iterdir()] == ["$d"]


def test_the_home_is_the_home_there() -> None:
    assert shell_path("~/a b") == "\"$HOME\"/'a b'"
    assert shell_path("$x") == "'$x'"


@pytest.mark.parametrize("shell", [s for s in ("sh", "bash", "dash") if shutil.which(s)])
def test_a_remote_line_keeps_every_word(shell: str) -> None:
    words = ["a b", "it's", '"$HOME"', "`id`", "*", "\\", "!x", "a\nb", "", "~", "ä"]
    env = {"A": "it's $x", "GM_GONE_*": None, "GM_ONE": None}
    line = remote_line(
        Command(("sh", "-c", 'printf "%s|" "$A" "$@"; exit 7', "sh", *words), env=env), "M"
    )
    surroundings = {**os.environ, "GM_GONE_1": "1", "GM_ONE": "1"}
    out = subprocess.run([shell, "-c", line], capture_output=True, env=surroundings, check=False)
    assert out.returncode == 7
    inner = out.stdout.decode().removeprefix("M<\n").removesuffix("M>7\n")
    assert inner.split("|")[:-1] == ["it's $x", *words]


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, max_size=4))
def test_any_words_survive_quoting(words: list[str]) -> None:
    command = Command(("sh", "-c", 'printf "%s\\0" "$@"', "sh", *words))
    out = subprocess.run(["sh", "-c", remote_line(command, "M")], capture_output=True, check=True)
    payload = out.stdout.removeprefix(b"M<\n").rpartition(b"M>")[0]
    expected = "".join(f"{word}\0" for word in words) if words else "\0"
    assert payload.decode() == expected


def read(stdout: bytes, stderr: bytes = b"", rc: int = 0) -> Output:
    return SshTransport("host")._read(Output(stdout, stderr, rc), "M")


def test_banners_are_kept_out() -> None:
    out = read(b"Welcome!\nM<\n123\nM>0\n", b"motd\nM<\nM>0\n")
    assert out == Output(b"123\n", b"", 0)


def test_the_status_is_the_commands_and_not_sshs() -> None:
    assert read(b"M<\nM>255\n", rc=255).rc == 255


@pytest.mark.parametrize(
    ("stdout", "stderr", "error"),
    [
        (b"M<\nhalf of", b"", ConnectionLost),
        (b"", b"client_loop: send disconnect: Broken pipe", ConnectionLost),
        (b"", b"ssh: connect to host h port 22: Connection refused", Transient),
        (b"", b"user@h: Permission denied (publickey).", TransportError),
    ],
)
def test_how_a_connection_fails(stdout: bytes, stderr: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        read(stdout, stderr, 255)
    assert type(caught.value) is error


def test_a_host_cannot_be_an_option() -> None:
    with pytest.raises(TransportError):
        SshTransport("-oProxyCommand=x")


def test_jump_hosts_and_options_reach_ssh() -> None:
    transport = SshTransport("h", user="u", port=2222, jump=["a", "b"], options=["-i", "k"])
    argv = transport._ssh()
    assert argv[-1] == "u@h"
    assert " ".join(argv).endswith("-p 2222 -i k -J a,b u@h")
    transport._folder = None
