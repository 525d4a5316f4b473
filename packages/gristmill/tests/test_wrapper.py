"""The script around the body, run by a real shell: environment, interpreters, exit records."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gristmill.jobs import Job
from gristmill.managers import wrapper
from gristmill.managers.wrapper import Frame

FRAME = Frame(job_id="77", array_id="77", index="${GM_INDEX:-}", directive="#SBATCH")


def run(tmp_path: Path, job: Job, body: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    script = wrapper.build(FRAME, job.spec, body, "tok")
    return subprocess.run(
        ["sh"], input=script, capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "GRISTMILL_STATE": str(tmp_path / "state"), **env},
    )  # fmt: skip


def record(tmp_path: Path, name: str = "tok") -> dict[str, str]:
    return wrapper.read_exit_record((tmp_path / "state/exits" / name).read_text())


def test_values_reach_the_job_as_they_are(tmp_path: Path) -> None:
    hard = {"A": "x,y", "B": "l1\nl2", "C": 'it\'s "$HOME" `id` \\n'}
    job = Job(script_text="#!/bin/sh\n", environment=hard, arguments=["a b", "$x"])
    out = run(tmp_path, job, 'printf "%s|" "$A" "$B" "$C" "$@"')
    assert out.stdout == "|".join([*hard.values(), "a b", "$x"]) + "|"


@pytest.mark.parametrize("code", [0, 3, 99, 100])
def test_the_exit_code_is_kept_and_recorded(tmp_path: Path, code: int) -> None:
    out = run(tmp_path, Job(command=["sh", "-c", f"exit {code}"]))
    assert out.returncode == code
    found = record(tmp_path)
    assert (found["exit"], found["id"]) == (str(code), "77")
    assert int(found["start"]) <= int(found["end"])


def test_an_element_has_a_record_of_its_own(tmp_path: Path) -> None:
    run(tmp_path, Job(command=["true"]), GM_INDEX="4")
    assert record(tmp_path, "tok.4")["exit"] == "0"


def test_any_interpreter_and_lines_like_directives(tmp_path: Path) -> None:
    body = "#!/usr/bin/env python3\n#SBATCH --nodes=9\nimport sys\nprint('|x', sys.argv[1:])\n"
    job = Job(script_text=body, arguments=["1"])
    script = wrapper.build(FRAME, job.spec, body, "tok")
    assert not [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert run(tmp_path, job, body).stdout == "|x ['1']\n"


def test_a_body_that_ends_without_a_newline_or_holds_the_mark_of_a_heredoc(tmp_path: Path) -> None:
    assert run(tmp_path, Job(script_text="x"), "cat <<'EOF'\n$x\nEOF").stdout == "$x\n"


def test_stdin_comes_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "in put").write_text("hello")
    assert run(tmp_path, Job(command=["cat"], stdin="in put")).stdout == "hello"


def test_a_signal_is_passed_on_and_the_body_decides(tmp_path: Path) -> None:
    body = "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.1; done"
    script = wrapper.build(FRAME, Job(script_text="x").spec, body, "tok")
    (tmp_path / "job").write_text(script)
    env = {**os.environ, "GRISTMILL_STATE": str(tmp_path / "state")}
    with subprocess.Popen(["sh", "job"], stdout=subprocess.PIPE, cwd=tmp_path, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        assert process.returncode == 5
    assert record(tmp_path)["exit"] == "5"


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    run(tmp_path, Job(script_text="x"), "exit 1", TMPDIR=str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").iterdir()) == []
