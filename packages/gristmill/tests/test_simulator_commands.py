"""What the simulated commands of the other managers print, and what their jobs see."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.simulators import supervisor
from gristmill.simulators.__main__ import install
from gristmill.simulators.farm import Settings, plan_fault

Answer = tuple[str, str, int]
Shell = Callable[..., Answer]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Callable[[str], Shell]]:
    root = tmp_path / "farm"

    def make(manager: str) -> Shell:
        folder = install(root, Settings(manager=manager))

        def run(*words: str, stdin: str = "") -> Answer:
            done = subprocess.run(
                [folder / words[0], *words[1:]],
                input=stdin.encode(),
                capture_output=True,
                cwd=tmp_path,
                check=False,
            )
            return done.stdout.decode(), done.stderr.decode(), done.returncode

        return run

    yield make
    supervisor.stop(root)


def until(run: Shell, words: tuple[str, ...], text: str) -> str:
    end = time.monotonic() + 30
    while text not in (out := run(*words)[0]):
        assert time.monotonic() < end, out
        time.sleep(0.05)
    return out


def test_lsf_speaks_plain_text_too(shell: Callable[[str], Shell], tmp_path: Path) -> None:
    run = shell("lsf")
    out, _, rc = run("bsub", "-J", "arr[1-3]%2", "-o", "o.%J.%I", "-n", "1", "echo", "hello")
    assert (out, rc) == ("Job <1> is submitted to default queue <batch>.\n", 0)
    until(run, ("bhist", "-l", "1"), "Done successfully")
    rows = until(run, ("bjobs", "-a", "-noheader", "-o", "jobid stat job_name", "1"), "DONE")
    assert "1|DONE|arr[3]" in rows
    assert (tmp_path / "o.1.2").read_text() == "hello\n"
    assert run("bjobs", "9") == ("", "Job <9> is not found\n", 255)
    assert run("bjobs") == ("", "No unfinished job found\n", 0)
    assert run("bkill", "1") == ("", "Job <1>: Job has already finished\n", 255)
    assert run("bsub", "-q", "nosuch", "true")[1:] == (
        "nosuch: No such queue. Job not submitted.\n",
        255,
    )
    assert run("bsub", "-J", "arr[0-3]", "true")[2] == 255  # indices begin at 1
    assert run("bsub", "-w", "done(99)", "true")[2] == 255


def test_lsf_without_ti_pends_for_ever(shell: Callable[[str], Shell]) -> None:
    run = shell("lsf")
    run("bsub", "false")
    run("bsub", "-w", "done(1)", "true")
    run("bsub", "-w", "done(1)", "-ti", "true")
    until(run, ("bjobs", "-a", "-noheader", "-o", "jobid stat"), "3|EXIT")
    reason = until(run, ("bjobs", "-noheader", "-o", "jobid pend_reason", "2"), "never satisfied")
    assert reason.startswith("2|")
    assert run("bstop", "2")[0] == "Job <2> is being stopped\n"
    assert "PSUSP" in run("bjobs", "-noheader", "-o", "stat", "2")[0]
    assert run("bresume", "2")[0] == "Job <2> is being resumed\n"


STEPS = """#!/bin/sh
# @ job_name = steps
# @ output = $(job_name).$(stepid)
# @ wall_clock_limit = 1:00
# @ step_name = one
# @ queue
# @ step_name = two
# @ dependency = (one == 0)
# @ queue
# @ step_name = three
# @ dependency = (one != 0)
# @ queue
echo "step $LOADL_STEP_NAME of $LOADL_STEP_ID"
"""


def test_loadleveler_knows_the_steps_of_one_file(
    shell: Callable[[str], Shell], tmp_path: Path
) -> None:
    run = shell("loadleveler")
    (tmp_path / "job.cmd").write_text(STEPS)
    out = run("llsubmit", "job.cmd")[0]
    assert out == 'llsubmit: The job "farm.1" with 3 job steps has been submitted.\n'
    history = until(run, ("llsummary", "-l", "-j", "farm.1"), "Not Run")
    assert history.count("Completion Code: 0") == 2
    assert (tmp_path / "steps.1").read_text() == "step two of farm.1.1\n"
    assert run("llq")[0] == "llq: There is currently no job status to report.\n"
    (tmp_path / "bad.cmd").write_text("# @ nosuch = 1\n# @ queue\n")
    assert "2512-060" in run("llsubmit", "bad.cmd")[1]
    (tmp_path / "held.cmd").write_text("#!/bin/sh\n# @ hold = user\n# @ queue\ntrue\n")
    run("llsubmit", "held.cmd")
    assert " H  50 " in run("llq")[0]
    assert run("llcancel", "farm.2.0")[0].startswith("llcancel: Cancel command has been sent")


def test_moab_lists_and_cancels(shell: Callable[[str], Shell]) -> None:
    run = shell("moab")
    assert run("msub", "-h", "-N", "held", stdin="true\n")[0] == "\n1\n"
    assert run("msub", "--xml", stdin="#MSUB -l walltime=1:00\nexit 3\n")[0] == (
        '<Data><job JobID="2"/></Data>\n'
    )
    assert "UserHold" in run("showq")[0]
    until(run, ("showq", "-c", "--xml"), 'CompletionCode="3"')
    assert "Completion Code: 3" in run("checkjob", "2")[0]
    assert run("checkjob", "99")[1] == "\nERROR:  invalid job specified: 99\n"
    assert "Estimated Rsv based start" in run("showstart", "1")[0]
    assert run("canceljob", "Moab.1")[0] == "\njob '1' cancelled\n\n"
    assert run("canceljob", "1")[1:] == ("\nERROR:  invalid job specified (1)\n", 1)
    assert run("msub", "-l", "depend=afterok:99", stdin="true\n")[2] == 1


def test_htcondor_reads_submit_files(shell: Callable[[str], Shell], tmp_path: Path) -> None:
    run = shell("htcondor")
    (tmp_path / "p.sh").write_text('#!/bin/sh\necho "$1"\n')
    text = "executable = p.sh\narguments = $(Process)\noutput = o.$(ClusterId).$(ProcId)\nqueue 2\n"
    (tmp_path / "a.sub").write_text(text)
    out = run("condor_submit", "a.sub")[0]
    assert out == "Submitting job(s).\n2 job(s) submitted to cluster 1.\n"
    ads = json.loads(until(run, ("condor_history", "-json", "1"), '"ProcId": 1'))
    assert {ad["JobStatus"] for ad in ads} == {4}
    assert (tmp_path / "o.1.1").read_text() == "1\n"
    assert run("condor_q", "-json")[0] == ""
    assert run("condor_rm", "1")[1:] == ("Couldn't find/remove all jobs in cluster 1\n", 1)
    missing = run("condor_submit", "none.sub")
    assert "Failed to open command file" in missing[1]


@pytest.mark.parametrize("kind", ["slow", "warning", "banner", "truncated"])
def test_faults_spoil_one_answer(kind: str, shell: Callable[[str], Shell], tmp_path: Path) -> None:
    run = shell("torque")
    plan_fault(tmp_path / "farm", "*", kind, seconds=0.2)
    began = time.monotonic()
    out, err, _ = _raw(tmp_path, "qstat", "-Q", "-f")
    whole = run("qstat", "-Q", "-f")[0].encode()
    assert {
        "slow": lambda: out == whole and time.monotonic() - began > 0.2,
        "warning": lambda: out == whole and err.startswith(b"warning"),
        "banner": lambda: out.endswith(whole) and b"\xe9" in out,
        "truncated": lambda: len(out) == len(whole) // 2,
    }[kind]()


def _raw(tmp_path: Path, *words: str) -> tuple[bytes, bytes, int]:
    command = [tmp_path / "farm" / "bin" / words[0], *words[1:]]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout, done.stderr, done.returncode
