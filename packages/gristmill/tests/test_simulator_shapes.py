"""The simulated commands print what the real ones printed: same words, keys and exit status."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.simulators import supervisor
from gristmill.simulators.__main__ import install
from gristmill.simulators.farm import Settings
from gristmill.testing import recorded

RECORDED = Path(__file__).parent / "recorded"
Farm = Callable[..., "Simulator"]


class Simulator:
    """A farm whose host has the name of the recorded one, and a shell to talk to it."""

    def __init__(self, root: Path, manager: str, host: str) -> None:
        self.root, self.work = root, root / "work"
        self.bin = install(root, Settings(manager=manager, host=host, queues=("workq", "batch")))
        self.work.mkdir()
        for name, text in SCRIPTS.items():
            (self.work / name).write_text(text)

    def run(self, line: str) -> tuple[str, str, int]:
        words = shlex.split(line)
        done = subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout, done.stderr, done.returncode

    def id_of(self, line: str) -> str:
        return self.run(line)[0].strip()

    def wait(self, query: str, word: str) -> str:
        end = time.monotonic() + 30
        while word not in (text := self.run(query)[0]):
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text


SCRIPTS = {
    "j.sh": "#!/bin/sh\nsleep 0.1\n",
    "arr.sh": "#!/bin/sh\nsleep 0.1\n",
    "tarr.sh": "#!/bin/sh\nsleep 0.1\n",
    "bad.sh": "#!/bin/sh\nexit 3\n",
    "long.sh": "#!/bin/sh\nsleep 300\n",
}


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    made = []

    def make(manager: str, host: str) -> Simulator:
        made.append(Simulator(tmp_path / manager, manager, host))
        return made[-1]

    yield make
    for simulator in made:
        supervisor.stop(simulator.root)


def plain(text: str) -> str:
    """Numbers and the scaffolding of usage texts do not matter."""
    return re.sub(r"\d+", "N", text).strip()


SAME = [
    (manager, name)
    for manager, names in {
        "openpbs": [
            *("submit", "submit_array", "submit_badname", "submit_badqueue", "submit_badres"),
            *("submit_badwalltime", "submit_nofile", "submit_array_single", "query_garbage"),
            *("query_unknown_x", "del_garbage", "del_unknown", "hold_unknown", "rls_unknown"),
        ],
        "torque": [
            *("submit", "submit_array", "submit_array_J", "submit_badname", "submit_badqueue"),
            *("submit_badres", "submit_badwalltime", "submit_nofile", "submit_toobig"),
            *("query_garbage", "query_unknown_xml", "del_garbage", "del_unknown"),
            *("hold_unknown", "rls_unknown"),
        ],
    }.items()
    for name in names
]
HOST = {"openpbs": "pbshost", "torque": "vm"}


@pytest.mark.parametrize(("manager", "name"), SAME)
def test_answers_are_the_recorded_ones(manager: str, name: str, farm: Farm) -> None:
    simulator = farm(manager, HOST[manager])
    command, real = next(iter(recorded(RECORDED / manager / f"{name}.txt").items()))
    out, err, rc = simulator.run(command)
    assert (plain(out), plain(err), rc) == (plain(real.text), plain(real.error_text), real.rc)


def keys(text: str) -> list[str]:
    """The attributes of the one job of a JSON answer, in their order."""
    (job,) = json.loads(text)["Jobs"].values()
    return list(job)


def recorded_text(manager: str, name: str) -> str:
    return next(iter(recorded(RECORDED / manager / f"{name}.txt").values())).text


def json_part(text: str) -> str:
    return text[: text.rindex("}") + 1]


@pytest.mark.parametrize(
    ("name", "submit", "then", "word"),
    [
        ("query_failed_exit3", "qsub bad.sh", "", '"Exit_status":\t3'),
        ("query_cancelled_pending", "qsub -h long.sh", "qdel", '"F"'),
        ("query_timeout", "qsub -l walltime=1 long.sh", "", '"Exit_status":\t-29'),
        ("query_held", "qsub -h j.sh", "", '"H"'),
        ("gone_dep", "qsub -W depend=afterok:99999 j.sh", "", '"F"'),
    ],
)
def test_openpbs_shows_a_job_with_the_same_attributes(
    name: str, submit: str, then: str, word: str, farm: Farm
) -> None:
    simulator = farm("openpbs", "pbshost")
    id = simulator.id_of(submit)
    if then:
        simulator.run(f"{then} {id}")
    text = simulator.wait(f"qstat -x -f -F json {id}", word)
    real = keys(json_part(recorded_text("openpbs", name)))
    assert [key for key in keys(text) if key != "depend"] == [
        key for key in real if key not in ("depend", "session_id")
    ]


def test_openpbs_finished_jobs_need_x(farm: Farm) -> None:
    simulator = farm("openpbs", "pbshost")
    id = simulator.id_of("qsub bad.sh")
    simulator.wait(f"qstat -x -f {id}", "Exit_status = 3")
    out, err, rc = simulator.run(f"qstat -f -F json {id}")
    assert rc == 35
    assert "use -x or -H to obtain historical job information" in err
    assert "Jobs" not in json.loads(out)
    assert simulator.run(f"qdel {id}")[1:] == (f"qdel: Job has finished {id}\n", 35)


def test_openpbs_guesses_the_type_of_variables(farm: Farm) -> None:
    simulator = farm("openpbs", "pbshost")
    id = simulator.id_of("qsub -h -v N=007,M=1e5,T=True j.sh")
    values = json.loads(simulator.run(f"qstat -f -F json {id}")[0])["Jobs"][id]["Variable_List"]
    assert (values["N"], values["M"], values["T"]) == (7, 100000, "True")


def tags(text: str) -> list[str]:
    body = text[text.index("<Job>") : text.index("</Job>")]
    ignored = {"cput", "vmem", "walltime", "mem", "energy_used"}  # in another order each time
    return [tag for tag in re.findall(r"<([A-Za-z_]\w*)>", body) if tag not in ignored]


def test_torque_shows_a_job_with_the_same_elements(farm: Farm) -> None:
    simulator = farm("torque", "vm")
    id = simulator.id_of("qsub bad.sh")
    text = simulator.wait(f"qstat -x {id}", "<exit_status>3<")
    real = [t for t in tags(recorded_text("torque", "query_failed_exit3_xml")) if t != "depend"]
    assert [tag for tag in tags(text) if tag != "session_id"] == [
        tag for tag in real if tag != "session_id"
    ]


def test_torque_lists_everything_for_the_id_of_an_array(farm: Farm) -> None:
    simulator = farm("torque", "vm")
    other, array = simulator.id_of("qsub -h j.sh"), simulator.id_of("qsub -h -t 0-2 tarr.sh")
    assert other in simulator.run(f"qstat {array}")[0]
    elements = simulator.run(f"qstat -t {array}")[0]
    assert other not in elements
    assert f"{array.replace('[]', '[2]')}" in elements


def test_torque_forgets_after_keep_completed(farm: Farm, tmp_path: Path) -> None:
    simulator = farm("torque", "vm")
    settings = tmp_path / "torque" / "settings.json"
    settings.write_text(settings.read_text().replace("86400.0", "0.0"))
    id = simulator.id_of("qsub bad.sh")
    end = time.monotonic() + 30
    while simulator.run(f"qstat {id}")[2] != 153:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert simulator.run(f"qstat -x {id}") == ("", f"qstat: Unknown Job Id Error {id}\n", 153)


def test_the_help_of_the_module_installs_and_stops(tmp_path: Path) -> None:
    from gristmill.simulators.__main__ import main

    root = tmp_path / "farm"
    assert main(["install", str(root), "--manager", "lsf", "--cores", "2"]) == 0
    assert (root / "bin" / "bsub").exists()
    assert main(["fault", str(root), "bsub", "empty", "--times", "2"]) == 0
    done = subprocess.run([root / "bin" / "bsub", "true"], capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"", 0)
    assert main(["stop", str(root)]) == 0
