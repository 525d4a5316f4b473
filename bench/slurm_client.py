"""What the job library costs over the bare commands of a real Slurm, in one and the same run.

`python bench/slurm_client.py` (as a user who may submit; starts nothing): submit one by one, a DAG
of 1,000 jobs, and the status of 10,000. Prints a table and a JSON line of ratios; below 1 is faster
than the bare commands.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from gristmill.conformance import shell
from gristmill.drivers import Slurm
from gristmill.jobs import Job
from gristmill.journal import Journal

SINGLE = 100
DAG = 1000
LISTED = 10_000
HELD = ["sbatch", "--parsable", "--hold", "--output=/dev/null"]


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bare(argv: list[str], script: str) -> str:
    return subprocess.run(argv, input=script, capture_output=True, text=True, check=True).stdout


def clean() -> None:
    subprocess.run(["scancel", "--me", "--quiet"], check=True)
    while subprocess.run(["squeue", "--me", "-h"], capture_output=True, check=True).stdout:
        time.sleep(0.2)


def single(rm: Slurm) -> dict[str, float]:
    """Medians of one submission, ours and bare turn by turn so that the machine treats both alike.

    The bare command is given the script that ours sends: the time of the manager is the same.
    """
    job = shell("true", "one", hold=True, stdout="/dev/null")
    script = rm.render(job).script
    ours, theirs = [], []
    for _ in range(SINGLE):
        theirs.append(timed(lambda: bare(["sbatch", "--parsable"], script)))
        ours.append(timed(lambda: rm.submit(job)))
    clean()
    return {"ours": statistics.median(ours) * 1000, "bare": statistics.median(theirs) * 1000}


def graph() -> list[Job]:
    """Twenty chains of fifty jobs, each job waiting for the one before and for a neighbour's."""
    rows: list[list[Job]] = []
    for depth in range(DAG // 20):
        before = rows[-1] if rows else []
        rows.append(
            [
                shell(
                    "true",
                    f"g{depth}-{lane}",
                    stdout="/dev/null",
                    after_ok=[before[lane], before[lane - 1]] if before else [],
                )
                for lane in range(20)
            ]
        )
    return [job for row in rows for job in row]


def dag(rm: Slurm) -> dict[str, float]:
    """A thousand dependent jobs: ours held and released, all or nothing; bare one by one."""
    jobs = graph()
    script = rm.render(jobs[0]).script

    def bare_graph() -> None:
        ids: dict[Job, str] = {}
        for job in jobs:
            edges = [f"afterok:{ids[edge.target]}" for edge in job.dependencies]  # type: ignore[index]
            argv = [*HELD] if not edges else [HELD[0], *HELD[1:2], f"-d{','.join(edges)}"]
            ids[job] = bare(argv, script).strip()

    theirs = timed(bare_graph)
    clean()
    ours = timed(lambda: rm.submit(jobs))
    clean()
    return {"ours": DAG / ours, "bare": DAG / theirs}


def listing(rm: Slurm) -> dict[str, float]:
    """The state of ten thousand jobs: ours read and concluded, bare the same question unread.

    `first` is the first look at them, the others are later ones.
    """
    jobs = [shell("true", f"l{n}", hold=True, stdout="/dev/null") for n in range(LISTED)]
    run = rm.submit(jobs)
    question = rm.dialect.live_all()
    assert question is not None
    ours, theirs = [], []
    first = timed(lambda: rm.status(run))
    for _ in range(15):
        theirs.append(timed(lambda: rm._transport.run(question.command)))
        ours.append(timed(lambda: rm.status(run)))
    clean()
    return {
        "ours": statistics.median(ours) * 1000,
        "bare": statistics.median(theirs) * 1000,
        "first": first * 1000,
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Slurm(journal=Journal(f"{folder}/j")) as rm:
        clean()
        one, many, listed = single(rm), dag(rm), listing(rm)
    ratios = {
        "submit_over_bare": round(one["ours"] / one["bare"], 3),
        "dag_rate_over_bare": round(many["ours"] / many["bare"], 3),
        "status_over_bare": round(listed["ours"] / listed["bare"], 3),
        "first_status_over_bare": round(listed["first"] / listed["bare"], 3),
    }
    print(f"submit one            {one['ours']:8.2f} ms   bare {one['bare']:8.2f} ms")
    print(f"submit DAG of {DAG}    {many['ours']:8.1f} /s   bare {many['bare']:8.1f} /s")
    print(f"status of {LISTED}      {listed['ours']:8.1f} ms   bare {listed['bare']:8.1f} ms")
    print(json.dumps(ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
