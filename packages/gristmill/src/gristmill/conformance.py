"""The conformance suite: what every manager must do, run against a real one.

`exercise(connect)` runs all of it and raises AssertionError at the first thing that is wrong.
`CHECKS` are the single checks, for a test framework to run one by one. Sites run it on their own
manager with `python -m gristmill.conformance URL`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gristmill.errors import DependencyNeverSatisfied, GristmillError, UnknownJob, Unsupported
from gristmill.jobs import Hold, Job, JobState, Relation
from gristmill.records import Cause, Outcome
from gristmill.service import Change, JobHandle, ResourceManager, Run

Connect = Callable[[], ResourceManager]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the manager under test needs or lacks.

    `patience` seconds for anything to happen; `walltime` the shortest limit worth testing and
    `kill_within` how long after it the manager may take; `memory_kill` whether it enforces
    memory at all, `memory` what is asked for then; `many` jobs at once.
    """

    patience: float = 120.0
    walltime: int = 60
    kill_within: float = 180.0
    memory_kill: bool = True
    memory: str = "100M"
    many: int = 500
    many_within: float = 300.0
    cpu: bool = True  #: the manager's accounting knows CPU time


def exercise(connect: Connect, limits: Limits | None = None) -> None:
    """Run every check, each with a client of its own. Raises AssertionError."""
    for check in CHECKS:
        with connect() as rm:
            check(rm, limits or Limits())


def sleeper(seconds: float, name: str, **options: object) -> Job:
    """A job that sleeps and ends well."""
    return Job(command=["sleep", str(seconds)], name=name, **options)  # type: ignore[arg-type]


def shell(text: str, name: str, **options: object) -> Job:
    """A job of shell code."""
    return Job(script_text=f"#!/bin/sh\n{text}\n", name=name, **options)  # type: ignore[arg-type]


@contextlib.contextmanager
def tidied(rm: ResourceManager, run: Run) -> Iterator[Run]:
    """Nothing is left behind, however a check ends."""
    try:
        yield run
    finally:
        with contextlib.suppress(GristmillError):
            rm.cancel(run)


def until(
    rm: ResourceManager, handle: JobHandle, states: set[JobState], limits: Limits
) -> JobState:
    """Look until the job is in one of the states."""
    end = time.monotonic() + limits.patience
    while (state := handle.status().state) not in states:
        assert time.monotonic() < end, f"{handle} never got to {states}: {rm.why(handle)}"
        assert not state.final, f"{handle} ended before it was {states}: {rm.why(handle)}"
        time.sleep(0.2)
    return state


def submit(rm: ResourceManager, limits: Limits) -> None:
    """One job: id, output, exit code, hard environment, arguments, accounting."""
    hard = {"GM_A": "x,y;z", "GM_B": "line 1\nline 2", "GM_C": 'it\'s "$HOME" `id` \\ %j'}
    text = 'printf "%s|" "$GM_A" "$GM_B" "$GM_C" "$@"; exit 3'
    words = ["a b", "*", "it's"]
    job = shell(text, "1 ä/b:c%d,e f" * 3, environment=hard, arguments=words)
    with tidied(rm, rm.submit(job)) as run:
        record = run[job].wait(limits.patience)
        assert record.state is JobState.FAILED, rm.why(run[job])
        assert record.exit_code == 3
        expected = "|".join([*hard.values(), *words]) + "|"
        assert run[job].log().decode() == expected
        used = run[job].accounting()
        assert used.exit_code == 3
        assert used.started is not None
        assert used.ended is not None
        assert used.wall is not None
        assert run[job].why().cause is Cause.EXIT_CODE


def graph(rm: ResourceManager, limits: Limits) -> None:
    """A diamond: nothing starts before what it waits for, whatever the order in time."""
    note = "date +%s.%N"
    first = shell(f"{note}; sleep 1; {note}", "first")
    left = shell(f"{note}; {note}", "left", after_ok=first)
    right = shell(f"{note}; exit 2", "right", after_ok=first)
    last = shell(f"{note}; {note}", "last", after_ok=left, after_not_ok=right)
    with tidied(rm, rm.submit(last)) as run:
        run.wait(limits.patience)
        states = {handle.name: handle.state for handle in run}
        assert states == {
            "first": JobState.DONE,
            "left": JobState.DONE,
            "right": JobState.FAILED,
            "last": JobState.DONE,
        }
        times = {handle.name: handle.log().split() for handle in run}
        assert float(times["first"][-1]) <= float(times["left"][0])
        assert float(times["left"][-1]) <= float(times["last"][0])
        assert float(times["right"][0]) <= float(times["last"][0])


def array(rm: ResourceManager, limits: Limits) -> None:
    """Steps, portable names, throttle, per-element states and logs."""
    text = 'date +%s.%N; sleep 1; date +%s.%N; [ "$GRISTMILL_ARRAY_INDEX" != 4 ] || exit 5'
    job = shell(text, "array", array="0-8:2%2")
    with tidied(rm, rm.submit(job)) as run:
        record = run[job].wait(limits.patience)
        ends = {element.index: element.state for element in record.elements}
        assert ends == {
            index: JobState.FAILED if index == 4 else JobState.DONE for index in range(0, 9, 2)
        }
        assert record.state is JobState.FAILED
        spans = [
            (float(begin), float(end))
            for index in ends
            for begin, end in [run[job].log(index=index).split()]
        ]
        most = max(sum(b <= begin < e for b, e in spans) for begin, _ in spans)
        assert most <= 2, f"{most} elements ran at once, 2 were allowed"


def hold_release(rm: ResourceManager, limits: Limits) -> None:
    """Held at submission it stays; released it runs."""
    job = shell("echo ran", "held", hold=Hold.USER)
    with tidied(rm, rm.submit(job)) as run:
        handle = run[job]
        until(rm, handle, {JobState.HELD}, limits)
        assert handle.why().cause is Cause.HELD_BY_USER
        assert handle.release() is Outcome.OK
        assert handle.wait(limits.patience).state is JobState.DONE
        assert handle.release() in (Outcome.ALREADY_FINAL, Outcome.OK)


def cancel(rm: ResourceManager, limits: Limits) -> None:
    """Running and waiting jobs end as cancelled; to cancel them again is no error."""
    runs, waits = sleeper(300, "runs"), sleeper(300, "waits", hold=Hold.USER)
    with tidied(rm, rm.submit([runs, waits])) as run:
        until(rm, run[runs], {JobState.RUNNING}, limits)
        outcomes = rm.cancel(run)
        assert set(outcomes.values()) == {Outcome.OK}
        run.wait(limits.patience)
        assert {handle.state for handle in run} == {JobState.CANCELLED}, run.to_json()
        assert set(rm.cancel(run).values()) == {Outcome.ALREADY_FINAL}
        assert run[runs].why().cause is Cause.CANCELLED


def walltime(rm: ResourceManager, limits: Limits) -> None:
    """A job over its time ends as timed out, and what waits for its success never runs."""
    job = sleeper(limits.walltime * 4 + limits.kill_within, "long", time=limits.walltime)
    after = shell("echo no", "after", after_ok=job)
    with tidied(rm, rm.submit(after)) as run:
        run.wait(limits.walltime + limits.kill_within + limits.patience)
        assert run[job].state is JobState.TIMED_OUT, rm.why(run[job])
        assert run[after].state is JobState.CANCELLED, rm.why(run[after])


def memory(rm: ResourceManager, limits: Limits) -> None:
    """A job over its memory ends as out of memory."""
    if not limits.memory_kill:
        return
    grow = "head -c 600000000 /dev/zero | tail | sleep 60"
    job = shell(grow, "greedy", memory=limits.memory, time="5m")
    with tidied(rm, rm.submit(job)) as run:
        record = run[job].wait(limits.patience)
        assert record.state is JobState.OUT_OF_MEMORY, rm.why(run[job])
        assert run[job].why().cause is Cause.MEMORY_LIMIT


def dependency_failure(rm: ResourceManager, limits: Limits) -> None:
    """What can never run is cancelled, with the reason; an ended target is resolved before."""
    bad = shell("exit 1", "bad")
    never, next_never = shell("echo no", "never", after_ok=bad), None
    next_never = shell("echo no", "next", after_ok=never)
    always = shell("echo yes", "always", after_any=bad)
    with tidied(rm, rm.submit([next_never, always])) as run:
        run.wait(limits.patience)
        assert run[bad].state is JobState.FAILED
        assert run[never].state is JobState.CANCELLED, rm.why(run[never])
        assert run[next_never].state is JobState.CANCELLED, rm.why(run[next_never])
        assert run[never].why().cause is Cause.DEPENDENCY_NEVER
        assert run[always].state is JobState.DONE
    for relation, good in ((Relation.AFTER_NOT_OK, True), (Relation.AFTER_OK, False)):
        late = shell("echo late", "late").depends_on(run[bad].id, relation)
        if good:
            with tidied(rm, rm.submit(late)) as second:
                assert second.wait(limits.patience) is JobState.DONE
        else:
            with contextlib.suppress(DependencyNeverSatisfied):
                rm.submit(late)
                raise AssertionError("a dependency that can never be satisfied was submitted")


def history(rm: ResourceManager, limits: Limits) -> None:
    """A later client picks jobs up from the journal and from the bare id."""
    job = shell("exit 4", "past")
    with tidied(rm, rm.submit(job)) as run:
        run.wait(limits.patience)
    again = rm.resume(run.id)
    again.status()
    assert again.handles[0].record.exit_code == 4
    assert again.handles[0].id == run[job].id
    attached = rm.attach(run[job].id)
    assert attached.status().state is JobState.FAILED
    unknown = "99999999"
    with contextlib.suppress(UnknownJob, GristmillError):
        raise AssertionError(f"job {unknown} was found: {rm.attach(unknown)}")


def many(rm: ResourceManager, limits: Limits) -> None:
    """Hundreds at once: all ends are seen, each change is told once."""
    jobs = [shell(f"exit {number % 2}", f"many-{number}") for number in range(limits.many)]
    with tidied(rm, rm.submit(jobs)) as run:
        assert len({handle.id for handle in run}) == limits.many
        ends: list[Change] = [
            change
            for change in rm.watch(run, timeout=limits.many_within)
            if change.after.state.final
        ]
        assert len(ends) == limits.many
        for number, job in enumerate(jobs):
            expected = JobState.FAILED if number % 2 else JobState.DONE
            assert run[job].state is expected, rm.why(run[job])


def signalled(rm: ResourceManager, limits: Limits) -> None:
    """A signal reaches the script, once."""
    if not rm.dialect.features.signals:
        return
    text = (
        "trap 'echo got; got=1' USR1; echo up; i=0; "
        'while [ -z "$got" ] && [ $i -lt 600 ]; do sleep 0.2; i=$((i+1)); done'
    )
    job = shell(text, "signal")
    with tidied(rm, rm.submit(job)) as run:
        until(rm, run[job], {JobState.RUNNING}, limits)
        end = time.monotonic() + limits.patience
        while b"up" not in _log_so_far(run[job]):
            assert time.monotonic() < end, "the job wrote nothing"
            time.sleep(0.2)
        assert run[job].signal("USR1") is Outcome.OK
        assert run[job].wait(limits.patience).state is JobState.DONE, rm.why(run[job])
        # some managers signal every process: the shell then tells of its child's death, too
        words = run[job].log().split()
        assert words[0] == b"up"
        assert words.count(b"got") == 1, words


def _log_so_far(handle: JobHandle) -> bytes:
    try:
        return handle.log()
    except FileNotFoundError:
        return b""


def cluster(rm: ResourceManager, limits: Limits) -> None:
    """Queues and nodes are told, where the manager tells them."""
    with contextlib.suppress(Unsupported):
        assert all(queue.name for queue in rm.queues())
        assert rm.queues()
    with contextlib.suppress(Unsupported):
        nodes = rm.nodes()
        assert any(node.up for node in nodes)


CHECKS: tuple[Callable[[ResourceManager, Limits], None], ...] = (
    cluster,
    submit,
    graph,
    array,
    hold_release,
    cancel,
    signalled,
    dependency_failure,
    history,
    walltime,
    memory,
    many,
)


def main(arguments: list[str]) -> int:
    """Run the suite on the manager of a URL; a line for each check."""
    from gristmill.connecting import connect

    failed = 0
    for check in CHECKS:
        began = time.monotonic()
        with connect(arguments[0] if arguments else None) as rm:
            try:
                check(rm, Limits())
                word = "ok"
            except (AssertionError, GristmillError) as error:
                word, failed = f"FAILED: {error}", failed + 1
        sys.stdout.write(f"{check.__name__:20} {time.monotonic() - began:6.1f} s  {word}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
