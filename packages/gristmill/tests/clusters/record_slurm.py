"""Record what a real Slurm answers to the driver's own questions: `record_slurm.py FOLDER`.

Run as a user who may submit. Jobs of every kind are made; then one file for each question is
written, in the form that `gristmill.testing.recorded` reads.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from gristmill.commands import Command, Output
from gristmill.conformance import shell, sleeper
from gristmill.drivers import Slurm
from gristmill.engine.watching import look_up
from gristmill.jobs import Job, JobState
from gristmill.journal import MemoryJournal


def write(folder: Path, name: str, command: Command, out: Output) -> None:
    head = f"$ {shlex.join(command.argv)}\n--- stdout\n".encode()
    tail = f"--- rc={out.rc}\n\n".encode()
    (folder / f"{name}.txt").write_bytes(head + out.stdout + b"--- stderr\n" + out.stderr + tail)


def jobs() -> dict[str, Job]:
    quiet = {"stdout": "/dev/null"}
    return {
        "done": shell("true", "a|b \x7f'\" c", **quiet),
        "failed": shell("exit 3", "failed", **quiet),
        "killed": shell("kill -9 $$", "killed", **quiet),
        "held": shell("true", "held", hold=True, **quiet),
        "running": sleeper(60, "running", time="5m", **quiet),
        "impossible": sleeper(1, "impossible", nodes=99, **quiet),
        "later": sleeper(1, "later", begin=time.time() + 3600, **quiet),
        "array": shell(
            "sleep 20; exit $GRISTMILL_ARRAY_INDEX", "array", array="1,3,5-9:2%2", **quiet
        ),
        "over": shell("exit $GRISTMILL_ARRAY_INDEX", "over", array="0-2", **quiet),
        "cancelled": sleeper(60, "cancelled", **quiet),
    }


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with Slurm(journal=MemoryJournal(), interval=0.5) as rm:
        made = jobs()
        runs = {kind: rm.submit(job).handles[0] for kind, job in made.items()}
        waits = rm.submit(shell("true", "waits", after_any=runs["running"], stdout="/dev/null"))
        while runs["cancelled"].status().state is not JobState.RUNNING:
            time.sleep(0.2)
        runs["cancelled"].cancel()
        for kind in ("done", "failed", "killed", "over", "cancelled"):
            runs[kind].wait(60)
        rm._do(look_up(rm.core, [runs["done"].id]))
        time.sleep(5)  # the accounting database lags
        ids = [handle.id for handle in (*runs.values(), *waits)]
        names = dict(zip(ids, [*runs, "waits"], strict=True))
        (folder / "kinds.txt").write_text("".join(f"{id} {kind}\n" for id, kind in names.items()))
        dialect = rm.dialect
        questions = {
            "live": dialect.live(ids),
            "history": dialect.history(ids, time.time()),
            "accounting": dialect.accounting(runs["failed"].id, time.time()),
            "why": dialect.why(waits.handles[0].id),
            "estimate": dialect.estimate(waits.handles[0].id),
            "queues": dialect.queues(),
            "nodes": dialect.nodes(),
            "hold_ended": dialect.hold([runs["done"].id], made["done"].spec.hold or "user"),  # type: ignore[arg-type]
            "cancel_mixed": dialect.cancel([runs["done"].id, runs["held"].id, "99999"]),
        }
        for name, question in questions.items():
            assert question is not None
            write(folder, name, question.command, rm._transport.run(question.command))
        rm.cancel(*runs.values(), waits)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
