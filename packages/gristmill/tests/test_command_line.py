"""The command `gristmill`, run as a program, on the local manager."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(*words: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "gristmill.cli.main", *words]
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def gristmill(tmp_path: Path) -> Run:
    """The program with a local manager, a journal and a state of its own."""
    place = tmp_path / "rm"
    place.mkdir()
    (place / "local.toml").write_text("slots = 4\n")
    env = {
        **os.environ,
        "GRISTMILL_LOCAL": str(place),
        "GRISTMILL_STATE": str(tmp_path / "state"),
        "GRISTMILL_JOURNAL": str(tmp_path / "journal"),
        "GRISTMILL_MANAGER": "local",
        "COLUMNS": "100",
    }
    env.pop("GRISTMILL_SITE", None)

    def run(*words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        found = command(*words, env={**env, **more}, cwd=tmp_path)
        assert found.returncode == code, (words, found.returncode, found.stdout, found.stderr)
        return found

    return run


def value(found: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(found.stdout)


def test_a_script_is_submitted_with_its_header_and_waited_for(
    gristmill: Run, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text('#!/bin/sh\n#SBATCH --job-name=headed\n#SBATCH -t 5\necho "got $1 $GM"\n')
    found = gristmill("submit", "--wait", "--json", "--env", "GM=a b", "job.sh", "word")
    (job,) = value(found)
    assert (job["name"], job["state"], job["spec"]["time"]) == ("headed", "done", 300)
    assert gristmill("logs", job["id"]).stdout == "got word a b\n"
    table = gristmill("status", job["id"]).stdout.splitlines()
    assert table[0].split()[:3] == ["ID", "NAME", "STATE"]
    assert table[1].split()[:3] == [job["id"], "headed", "done"]
    assert "exit code 0" in gristmill("why", job["id"]).stdout
    assert value(gristmill("accounting", "--json", job["id"]))["exit_code"] == 0
    assert "headed" in gristmill("attach", job["id"]).stdout


def test_a_job_that_fails_is_status_3_when_waited_for(gristmill: Run) -> None:
    found = gristmill("submit", "--wait", "--command", "sh", "--", "-c", "exit 7", code=3)
    assert "failed" in found.stdout
    (run,) = value(gristmill("runs", "--json"))
    assert run["jobs"][0]["exit_code"] == 7
    assert gristmill("watch", run["run"], code=3).stdout == ""


def test_a_file_of_jobs_runs_in_order(gristmill: Run, tmp_path: Path) -> None:
    (tmp_path / "last.sh").write_text("#!/bin/sh\necho last\n")
    (tmp_path / "dag.toml").write_text(
        '[jobs.first]\ncommand = ["sh", "-c", "exit 1"]\n'
        '[jobs.never]\ncommand = ["true"]\nafter_ok = ["first"]\n'
        '[jobs.last]\nscript = "last.sh"\nafter_not_ok = "first"\narray = "0-2"\n'
    )
    found = gristmill("submit", "--dag", "dag.toml", "--wait", code=3)
    assert "[3/3]" in found.stdout
    (run,) = value(gristmill("runs", "--json"))
    states = {job["name"]: job["state"] for job in run["jobs"]}
    assert states == {"first": "failed", "never": "cancelled", "last": "done"}
    last = next(job["id"] for job in run["jobs"] if job["name"] == "last")
    assert gristmill("logs", last, "--index", "1").stdout == "last\n"
    assert gristmill("status", last).stdout.count("[") == 3
    text = json.dumps({"jobs": [{"key": "one", **run["jobs"][0]["spec"]}]})
    (tmp_path / "dag.json").write_text(text)
    gristmill("submit", "--dag", "dag.json", "--wait", code=3)


def test_an_array_takes_its_arguments_from_a_file(gristmill: Run, tmp_path: Path) -> None:
    (tmp_path / "args.txt").write_text("# name and size\none 'two words'\n\nthree $HOME\n")
    (tmp_path / "show.py").write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    found = gristmill(
        "submit", "--json", "--wait", "--array-file", "args.txt", "--array", "%1",
        "show.py", "--", "-x",
    )  # fmt: skip
    (job,) = value(found)
    assert job["spec"]["array"] == "0-1%1"
    logs = [gristmill("logs", job["id"], "--index", str(index)).stdout for index in (0, 1)]
    assert logs == ["['-x', 'one', 'two words']\n", "['-x', 'three', '$HOME']\n"]


def test_jobs_are_held_released_signalled_and_cancelled(gristmill: Run) -> None:
    sleeper = ["--command", "sleep", "300"]
    held = value(gristmill("submit", "--json", "--hold", *sleeper))
    id = held["jobs"][0]["id"]
    assert "held by its owner" in gristmill("status").stdout
    assert gristmill("release", id).stdout.split()[-1] == "ok"
    assert gristmill("cancel", held["run"]).stdout.split()[-1] == "ok"
    gristmill("watch", id, code=3)
    again = gristmill("cancel", id)
    assert "already ended" in again.stdout
    assert "cancelled" in gristmill("status", id).stdout
    assert gristmill("hold", "--json", id, code=1).stdout.strip().startswith("{")


def test_errors_are_one_sentence_with_a_status(gristmill: Run, tmp_path: Path) -> None:
    cases: Sequence[tuple[Sequence[str], int, str]] = [
        (("submit", "missing.sh"), 2, "missing.sh cannot be read: No such file"),
        (("submit",), 2, "name a script"),
        (("submit", "--command", "true", "--time", "01:30"), 2, "is not a duration"),
        (("status", "99999"), 4, "knows no job 99999"),
        (("cancel", "99999"), 4, "knows no job 99999"),
        (("watch", "abcdef"), 4, "runs of the journal begin with"),
        (("submit", "--command", "true", "--qos", "x"), 5, "qos=x"),
        (("submit", "-m", "nosuch", "--command", "true"), 2, "no manager is called 'nosuch'"),
        (("submit", "-m", "ssh://127.0.0.1:9/slurm", "--command", "true"), 6, "127.0.0.1"),
        (("submit", "--dag", "none.json"), 2, "none.json cannot be read"),
        (("convert", "--to", "slurm", "none.sh"), 2, "none.sh cannot be read"),
    ]
    for words, code, text in cases:
        found = gristmill(*words, code=code)
        assert found.stdout == ""
        assert found.stderr.startswith("gristmill: ")
        assert found.stderr.count("\n") == 1, found.stderr
        assert text in found.stderr
    waits = value(gristmill("submit", "--json", "--hold", "--command", "true"))
    id = waits["jobs"][0]["id"]
    assert "had not ended" in gristmill("watch", id, "--timeout", "1s", code=7).stderr
    gristmill("cancel", id)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("dag.toml", "jobs = 3\n", "jobs"),
        ("dag.toml", "[jobs.a]\ncommand = ['x']\nafter_ok = ['b']\n", "no job of the file"),
        ("dag.toml", "[jobs.a]\ncommand = ['x']\nwalltime = 3\n", "walltime"),
        ("dag.toml", "[jobs.a\n", "dag.toml"),
        ("dag.json", "{}", "'jobs'"),
        ("dag.json", '{"jobs": {"a": {"command": ["x"], "after_ok": "a"}}}', "circle"),
    ],
)
def test_a_file_of_jobs_that_makes_no_sense_is_refused(
    gristmill: Run, tmp_path: Path, name: str, text: str, word: str
) -> None:
    (tmp_path / name).write_text(text)
    found = gristmill("submit", "--dag", name, code=2)
    assert word in found.stderr
    assert found.stderr.count("\n") == 1, found.stderr


def test_a_script_is_converted_and_what_is_lost_is_told(gristmill: Run, tmp_path: Path) -> None:
    (tmp_path / "old.pbs").write_text(
        "#!/bin/bash\n#PBS -N old\n#PBS -l nodes=2:ppn=8,walltime=1:00:00\n"
        "#PBS -W umask=022\nhostname\n"
    )
    found = gristmill("convert", "old.pbs", "--to", "slurm")
    assert "#SBATCH --nodes=2" in found.stdout
    assert "#SBATCH --time=0-01:00:00" in found.stdout
    assert "old.pbs: line 4: #PBS -W umask=022" in found.stderr
    told = value(gristmill("convert", "old.pbs", "--to", "oar", "--json"))
    assert (told["from"], told["to"]) == ("torque", "oar")
    gristmill("convert", "old.pbs", "--to", "lsf", "--output", "new.lsf")
    assert "#BSUB -W 60" in (tmp_path / "new.lsf").read_text()
    refused = gristmill("convert", "old.pbs", "--to", "gridengine", code=5)
    assert "nodes=2" in refused.stderr


def test_rendering_shows_script_and_report(gristmill: Run) -> None:
    words = ["render", "--to", "slurm", "--time", "90s", "--command", "true"]
    found = gristmill(*words)
    assert "#SBATCH --time=0-00:02:00" in found.stdout
    assert "time: rounded" in found.stderr
    (told,) = value(gristmill(*words, "--json"))
    assert {note["fate"] for note in told["report"]} == {"exact", "rounded"}
    dry = gristmill("submit", "--dry-run", "--command", "true", "--memory", "1G")
    assert "memory: exact" in dry.stdout
    assert value(gristmill("runs", "--json")) == []


def test_managers_queues_and_nodes_are_listed(gristmill: Run) -> None:
    names = {entry["name"] for entry in value(gristmill("managers", "--json"))}
    assert {"slurm", "oar", "gridengine", "local", "htcondor"} <= names
    assert "Grid Engine" in gristmill("managers").stdout
    assert "local*" in gristmill("queues").stdout
    (node,) = value(gristmill("nodes", "--json"))
    assert node["cores"] == 4


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(gristmill: Run, tmp_path: Path, shell: str) -> None:
    text = gristmill("completion", shell).stdout
    assert all(word in text for word in ("submit", "accounting", "after-ok", "experiment"))
    if program := shutil.which(shell):
        (tmp_path / "completion").write_text(text)
        subprocess.run([program, "-n", "completion"], cwd=tmp_path, check=True)
    if shell == "bash":
        probe = (
            ". ./completion; COMP_WORDS=(gristmill submit --arr); COMP_CWORD=2; _gristmill; "
            'echo "${COMPREPLY[@]}"; COMP_WORDS=(gristmill que); COMP_CWORD=1; _gristmill; '
            'echo "${COMPREPLY[@]}"'
        )
        out = subprocess.run(["bash", "-c", probe], cwd=tmp_path, capture_output=True, text=True)
        assert out.stdout.splitlines() == ["--array-file --array", "queues"]


def test_following_a_log_ends_with_the_job(gristmill: Run) -> None:
    text = "echo one; sleep 1; echo two"
    run = value(gristmill("submit", "--json", "--command", "sh", "--", "-c", text))
    assert gristmill("logs", "--follow", run["jobs"][0]["id"]).stdout == "one\ntwo\n"


@pytest.mark.real_rm
def test_the_command_on_slurm(gristmill: Run, slurm_for_commands: dict[str, str]) -> None:
    """As root, who may submit to the test cluster, too."""
    found = gristmill(
        "submit", "--wait", "--json", "--time", "1m", "--array", "0-1", "--command", "sh", "--",
        "-c", "echo $GRISTMILL_ARRAY_INDEX", **slurm_for_commands,
    )  # fmt: skip
    (job,) = value(found)
    assert job["state"] == "done"
    assert gristmill("logs", job["id"], "--index", "1", **slurm_for_commands).stdout == "1\n"
    assert "debug" in gristmill("queues", **slurm_for_commands).stdout
    assert "n1" in gristmill("nodes", **slurm_for_commands).stdout
    assert value(gristmill("accounting", job["id"], "--json", **slurm_for_commands))["cores"] >= 1


@pytest.fixture(scope="session")
def slurm_for_commands() -> dict[str, str]:
    clusters = Path(__file__).parent / "clusters"
    subprocess.run([clusters / "start_slurm.sh"], check=True, stdout=subprocess.DEVNULL)
    return {"GRISTMILL_MANAGER": "slurm"}
