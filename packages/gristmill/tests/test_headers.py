"""Headers of job scripts: read, written for other managers, and read back."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from gristmill import headers, registry
from gristmill.errors import BadValue
from gristmill.jobs import Job, Spec
from gristmill.managers import _common
from gristmill.managers.base import Fate, Request

TOKEN = "0123456789abcdef"
MANAGERS = [name for name in registry.BUILT_IN if name not in ("local", "htcondor")]
# attributes that the script itself carries, not its header
IN_SCRIPT = {"environment", "arguments", "stdin", "directory", "script_text", "stdout", "stderr"}


def random_job(rng: random.Random) -> Job:
    """A job of a few attributes with values that every manager could have."""
    choices: dict[str, list[Any]] = {
        "time": [60, 3600, 5400, 90000, 7 * 86400],
        "queue": ["batch", "long.q"],
        "account": ["acc1"],
        "project": ["proj-1"],
        "reservation": ["res_1"],
        "qos": ["high"],
        "priority": [0, 5, -10],
        "exclusive": [True],
        "features": [["avx"], ["avx", "big"]],
        "mail_on": [["begin"], ["end", "abort"], ["begin", "end", "abort"]],
        "mail_to": ["a.b@example.org"],
        "hold": ["user"],
        "requeue": [True, False],
        "begin": [1_900_000_020],
        "licences": [{"matlab": 2}],
        "array": ["1-9", "2-10:2", "1-5%2", "3"],
        "memory": ["4G", "512M"],
        "gpus": [2, 4],
    }
    shapes: list[dict[str, Any]] = [
        {}, {"nodes": 2}, {"nodes": 2, "tasks_per_node": 4}, {"tasks": 6},
        {"nodes": 2, "cores_per_node": 8}, {"cores_per_task": 4},
        {"nodes": 1, "tasks_per_node": 2, "cores_per_task": 3},
    ]  # fmt: skip
    names = [name for name in choices if rng.random() < 0.4]
    chosen = {name: rng.choice(choices[name]) for name in names}
    return Job(name="abc", script_text="echo hello\n", **chosen, **rng.choice(shapes))


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("seed", range(60))
def test_what_a_driver_writes_exactly_is_read_back_the_same(manager: str, seed: int) -> None:
    spec = random_job(random.Random(seed)).spec
    rendering = registry.dialect(manager).render(Request(spec=spec, token=TOKEN, now=1.9e9))
    script = next(
        (f.content.decode() for f in rendering.files if f.name.endswith(".cmd")), rendering.script
    )
    header = headers.read(script, manager)
    assert header is not None
    assert header.manager == manager
    back = header.job(name="abc").spec
    fates = {note.attribute: note.fate for note in rendering.report.notes}
    inexact = {name for name, fate in fates.items() if fate is not Fate.EXACT}
    if inexact & set(_common.SHAPE):
        inexact |= {*_common.SHAPE, "memory", "gpus", "licences"}  # counted by the shape
    for name, wanted in spec.asked().items():
        if name in inexact | IN_SCRIPT or _changed_elsewhere(manager, name, spec):
            continue
        if name in _common.SHAPE:
            assert _size(back) == _size(spec), (name, script)
        else:
            assert getattr(back, name) == wanted, (name, script)


def _size(spec: Spec) -> tuple[int, int]:
    """Nodes and cores of all: the shape, however it was said."""
    shape = _common.layout(spec)
    return shape.chunks if shape.spread else 1, shape.all_cores


def _changed_elsewhere(manager: str, name: str, spec: Spec) -> bool:
    """What is exact for the manager in a line that cannot be read as the same attribute."""
    if name == "reservation" and manager == "pbspro":
        return True  # it is a queue there
    if name == "begin" and manager == "slurm":
        return True  # a delay from the moment of submission
    if name in ("requeue", "mail_on") and manager in ("oar", "lsf", "loadleveler"):
        return True  # their default, or an event more
    if name in _common.SHAPE and manager in ("oar", "loadleveler", "lsf", "moab", "torque"):
        return spec.exclusive or not (spec.nodes and (spec.tasks_per_node or spec.cores_per_node))
    if name == "account" and manager in ("oar", "slurm"):
        return manager == "oar"
    return name == "project" and manager in ("slurm", "loadleveler")


def test_a_header_of_slurm_becomes_attributes() -> None:
    text = """#!/bin/bash
#SBATCH -J "my job"   # a comment
#SBATCH -N2 --ntasks-per-node=4 -t 01:30
#SBATCH --mem=2G
#SBATCH --switches=1
#SBATCH --gres=gpu:a100:2

module load x
#SBATCH --qos=ignored-after-a-command
"""
    header = headers.read(text)
    assert header is not None
    assert header.attributes == {
        "name": "my job", "nodes": 2, "tasks_per_node": 4, "time": 90,
        "memory": 4 * 1024**3, "gpus": "a100:4",
    }  # fmt: skip
    assert header.not_understood == ("line 5: #SBATCH --switches=1: no attribute stands for it",)
    job = header.job()
    assert job.spec.native == {"slurm": ("--switches=1",)}
    assert job.spec.script_text is not None
    assert "#SBATCH -N2" not in job.spec.script_text
    assert "module load x" in job.spec.script_text


@pytest.mark.parametrize(
    ("text", "manager", "expected"),
    [
        (
            "#PBS -l select=2:ncpus=16:mpiprocs=16:mem=4gb,walltime=36:00:00\n#PBS -J 0-9:2\n",
            "pbspro",
            {"nodes": 2, "tasks_per_node": 16, "cores_per_node": 16, "memory": 8 * 1024**3,
             "time": 36 * 3600, "array": "0-9:2"},
        ),
        (
            "#PBS -l nodes=4:ppn=8:bigmem\n#PBS -t 1-9%3\n#PBS -j oe\n#PBS -m ae\n",
            "torque",
            {"nodes": 4, "cores_per_node": 8, "features": ["bigmem"], "array": "1-9%3",
             "mail_on": ["abort", "end"]},
        ),
        (
            "#$ -pe smp 8\n#$ -l h_rt=1:0:0,h_vmem=2G\n#$ -t 1-10 -tc 2\n#$ -cwd -j y\n",
            "gridengine",
            {"nodes": 1, "cores_per_node": 8, "time": 3600, "memory": 16 * 1024**3,
             "array": "1-10%2"},
        ),
        (
            "#OAR -l /nodes=2/core=4,walltime=36\n#OAR -p \"gpu='YES' AND cluster='a'\"\n",
            "oar",
            {"nodes": 2, "cores_per_node": 4, "time": 36 * 3600, "features": ["gpu", "cluster=a"]},
        ),
        (
            "# @ node = 2\n#@ tasks_per_node=4\n# @ wall_clock_limit = 1:00:00,0:50:00\n"
            "# @ CLASS = \\\n# @ long\n# @ queue\n",
            "loadleveler",
            {"nodes": 2, "tasks_per_node": 4, "time": 3600, "queue": "long"},
        ),
        (
            "#MSUB -l nodes=2:ppn=8,walltime=1:00:00:00,feature=x:y,qos=hi\n",
            "moab",
            {"nodes": 2, "cores_per_node": 8, "time": 86400, "features": ["x", "y"], "qos": "hi"},
        ),
        (
            "#BSUB -J \"a[1-10]%2\" -W 1:30 -n 16\n#BSUB -R \"span[ptile=8] rusage[mem=100]\"\n",
            "lsf",
            {"name": "a", "array": "1-10%2", "time": 5400, "nodes": 2, "cores_per_node": 8,
             "memory": 100 * 1024**2},
        ),
    ],
)  # fmt: skip
def test_headers_of_each_manager(text: str, manager: str, expected: dict[str, Any]) -> None:
    header = headers.read(f"#!/bin/sh\n{text}\necho hi\n")
    assert header is not None
    assert (header.manager, header.attributes, header.not_understood) == (manager, expected, ())


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("#SBATCH --time=soon", "cannot be read"),
        ("#SBATCH --constraint=a|b", "not all wanted"),
        ("#SBATCH --output=%N.out", "placeholder"),
        ("#SBATCH --job-name='open", "quotation"),
        ("#PBS -l select=1:ncpus=1+2:ncpus=2", "several kinds"),
        ("#PBS -W depend=afterok:1", "no attribute"),
        ("#$ -pe fancy 4", "only the site knows"),
        ("#OAR -t besteffort", "no common form"),
        ("#OAR -l /switch=1/nodes=2", "not every site"),
        ("#BSUB -R order[mem]", "no common form"),
        ("# @ job_type = bluegene", "no common form"),
        ("#MSUB -l naccesspolicy=uniqueuser", "only singlejob"),
    ],
)
def test_what_is_not_understood_is_told_with_line_and_reason(line: str, word: str) -> None:
    header = headers.read(f"#!/bin/sh\n{line}\n")
    assert header is not None
    assert len(header.not_understood) == 1, header
    assert header.not_understood[0].startswith("line 2: ")
    assert word in header.not_understood[0]


def test_two_managers_in_one_script_are_read_one_at_a_time() -> None:
    text = "#!/bin/sh\n#SBATCH -J one\n#PBS -N two\n"
    first, second = headers.read(text), headers.read(text, "torque")
    assert first is not None
    assert second is not None
    assert (first.manager, first.attributes["name"]) == ("slurm", "one")
    assert first.not_understood == ("line 3: #PBS -N two: of another manager",)
    assert (second.manager, second.attributes["name"]) == ("torque", "two")


def test_a_second_step_of_loadleveler_is_not_lost() -> None:
    header = headers.read("# @ node = 1\n# @ queue\n# @ node = 2\n# @ queue\n")
    assert header is not None
    assert header.attributes == {"nodes": 1}
    assert len(header.not_understood) == 2


def test_a_script_without_a_header_has_none() -> None:
    assert headers.read("#!/bin/sh\n# a comment\necho '#SBATCH -N 1'\n") is None
    with pytest.raises(BadValue, match="no lines in scripts"):
        headers.read("#SBATCH -N 1\n", "local")


def test_a_converted_script_asks_for_the_same() -> None:
    text = "#!/bin/sh\n#PBS -N conv\n#PBS -l nodes=2:ppn=8\n#PBS -l walltime=1:00:00\nhostname\n"
    header = headers.read(text)
    assert header is not None
    spec = replace(header.job(keep=False).spec, native={})
    script = registry.dialect("slurm").render(Request(spec=spec, token=TOKEN)).script
    again = headers.read(script)
    assert again is not None
    assert again.attributes["time"] == 3600
    assert _size(again.job().spec) == (2, 16)
