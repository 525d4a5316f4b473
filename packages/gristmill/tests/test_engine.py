"""The client's flows against the fake manager: order, exactly once, all or nothing, states."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gristmill import gatekeeper
from gristmill.commands import Command, Output
from gristmill.engine import flows, submitting
from gristmill.errors import (
    BadValue,
    DependencyNeverSatisfied,
    Refused,
    SubmitFailed,
    Transient,
    Unclear,
    UnknownJob,
    Unsupported,
    WaitTimeout,
)
from gristmill.fakes import FakeDialect, FakeManager
from gristmill.jobs import Hold, Job, JobState, Relation
from gristmill.journal import Journal, MemoryJournal
from gristmill.records import Cause, Outcome, Source
from gristmill.service import AsyncResourceManager, Change, ResourceManager
from gristmill.site import Site
from gristmill.testing import FakeTransport

NOTHING: frozenset[Relation] = frozenset()


def job(name: str, **options: object) -> Job:
    return Job(command=["true"], name=name, **options)  # type: ignore[arg-type]


def submissions(fake: FakeManager) -> list[str]:
    return [entry.given["name"] for entry in fake.jobs.values()]


# -- submission


def test_a_closure_is_submitted_targets_first_with_held_roots_and_then_released() -> None:
    fake = FakeManager(auto=False)
    prep = job("prep")
    solve = job("solve", after_ok=prep)
    tidy = job("tidy", after_any=solve)
    with fake.client() as rm:
        run = rm.submit(tidy)
    assert submissions(fake) == ["prep", "solve", "tidy"]
    assert [entry.given["hold"] for entry in fake.jobs.values()] == [Hold.USER, None, None]
    assert [command.argv[1] for command in fake.ran] == ["submit"] * 3 + ["release"]
    assert run[solve].id == "2"
    assert run["tidy"].job is tidy


def test_a_single_job_is_one_command() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        rm.submit(job("only"))
    assert [command.argv[1] for command in fake.ran] == ["submit"]
    assert fake.jobs["1"].given["hold"] is None


@pytest.mark.parametrize("fault", ["lose_answers", "empty_answers"])
def test_a_lost_answer_is_looked_up_and_never_sent_twice(fault: str) -> None:
    fake = FakeManager(**{fault: 1})  # type: ignore[arg-type]
    with fake.client() as rm:
        run = rm.submit(job("once"))
        assert run.wait() is JobState.DONE
    assert submissions(fake) == ["once"]


def test_a_submission_that_was_surely_not_made_is_sent_again() -> None:
    fake = FakeManager(lose_submissions=1, busy=2)
    with fake.client() as rm:
        rm.submit(job("again"))
    assert submissions(fake) == ["again"]


def test_a_submission_that_hangs_is_never_sent_again() -> None:
    """oarsub waits for its database and submits much later; it cannot even be killed."""
    fake = FakeManager()
    real, sent = fake.run, []

    def run(command: Command) -> Output:
        if command.argv[1] == "submit":
            sent.append(command)
            return Output(rc=-1, timed_out=True)
        return real(command)

    client = fake.client()
    client._transport = FakeTransport(run)
    with client as rm, pytest.raises(Unclear, match="may still appear"):
        rm.submit(job("slow"))
    assert len(sent) == 1


def test_a_manager_that_stays_busy_is_given_up_on() -> None:
    fake = FakeManager(busy=1000)
    with fake.client() as rm, pytest.raises(Transient):
        rm.submit(job("never"))
    assert len(fake.ran) == flows.Policy().attempts


def test_a_group_that_fails_half_way_is_taken_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeManager()

    def refuse(given: dict[str, object]) -> object:
        if given["name"] == "bad":
            raise Refused("the manager says no")
        return real(given)

    real = fake._submit
    monkeypatch.setattr(FakeManager, "_submit", lambda self, given: refuse(given))
    good = job("good")
    with fake.client() as rm, pytest.raises(SubmitFailed, match="1 jobs sent before"):
        rm.submit(job("bad", after_ok=good))
    assert fake.jobs["1"].state is JobState.CANCELLED


def test_what_is_unsupported_is_said_before_anything_is_sent() -> None:
    fake = FakeManager()
    with fake.client() as rm, pytest.raises(Unsupported, match="licences") as caught:
        rm.submit([job("fine"), job("wants", licences={"matlab": 1}, queue="gpu")])
    assert {note.attribute for note in caught.value.notes} == {"licences", "queue"}
    assert fake.ran == []


def test_a_job_submitted_before_is_a_target_and_not_sent_again() -> None:
    fake = FakeManager(auto=False)
    first = job("first")
    with fake.client() as rm:
        rm.submit(first)
        rm.submit(job("second", after_ok=first))
    assert submissions(fake) == ["first", "second"]
    assert fake.jobs["2"].given["dependencies"] == [["after_ok", "1", False]]


@pytest.mark.parametrize(
    ("relation", "code", "sent"),
    [
        (Relation.AFTER_OK, 0, True),
        (Relation.AFTER_OK, 1, False),
        (Relation.AFTER_NOT_OK, 1, True),
        (Relation.AFTER_NOT_OK, 0, False),
        (Relation.AFTER_ANY, 1, True),
        (Relation.AFTER_START, 1, True),
    ],
)
def test_an_ended_target_is_resolved_before_the_manager_is_asked(
    relation: Relation, code: int, sent: bool
) -> None:
    fake = FakeManager(outcomes={"old": code})
    with fake.client() as rm:
        old = rm.submit(job("old"))
        old.wait()
        late = job("late").depends_on(old.handles[0], relation)
        if not sent:
            with pytest.raises(DependencyNeverSatisfied, match="late"):
                rm.submit(late)
            return
        rm.submit(late)
    assert fake.jobs["2"].given["dependencies"] == []


def test_an_unknown_target_is_refused() -> None:
    with FakeManager().client() as rm, pytest.raises(UnknownJob, match="77"):
        rm.submit(job("late", after_ok="77"))


def test_the_plan_says_what_would_be_sent_and_asks_nothing() -> None:
    fake = FakeManager(relations=NOTHING)
    prep = job("prep", environment={"A": "$x"})
    with fake.client() as rm:
        plan = rm.plan(job("solve", after_ok=prep, array="0-3%2"))
    assert fake.ran == []
    assert [planned.held for planned in plan.jobs] == [True, True]
    assert "after_ok: emulated" in str(plan)
    assert "export A='$x'" in str(plan)
    assert plan.refused == ()


# -- the gate


def everything_emulated(**options: object) -> FakeManager:
    return FakeManager(
        relations=NOTHING,
        element_wise=False,
        arrays=False,
        throttle=False,
        **options,  # type: ignore[arg-type]
    )


def test_dependencies_that_the_manager_lacks_mean_the_same() -> None:
    native = FakeManager(outcomes={"bad": 2})
    emulated = everything_emulated(outcomes={"bad": 2})
    found = []
    for fake in (native, emulated):
        first = job("first")
        bad = job("bad", after_ok=first)
        never = job("never", after_ok=bad)
        jobs = [
            job("next", after_any=never),
            job("mend", after_not_ok=bad),
            job("both", after_ok=[first], after_any=bad),
            job("beside", after_start=first),
        ]
        with fake.client() as rm:
            run = rm.submit(jobs)
            run.wait()
            found.append({handle.name: handle.state for handle in run})
            assert run["never"].record.cause is Cause.DEPENDENCY_NEVER
    assert found[0] == found[1]
    assert found[0]["never"] is JobState.CANCELLED
    assert found[0]["mend"] is JobState.DONE


def test_an_emulated_array_keeps_its_throttle_and_its_indices() -> None:
    fake = everything_emulated(outcomes={"many": 0}, auto=False)
    with fake.client() as rm:
        run = rm.submit(job("many", array="1-9:2%2"))
        most = 0
        for _ in range(40):
            run.status()
            most = max(most, len(fake.running()))
            fake.step()
        assert most == 2
        record = run["many"].status()
    assert [element.index for element in record.elements] == [1, 3, 5, 7, 9]
    assert record.state is JobState.DONE
    scripts = [entry.given["script"] for entry in fake.jobs.values()]
    assert 'GRISTMILL_ARRAY_INDEX="7"' in scripts[3]


def test_elements_wait_for_elements_where_the_manager_cannot() -> None:
    fake = everything_emulated(auto=False)
    first = job("first", array=3)
    with fake.client() as rm:
        run = rm.submit(job("second", array=3, each_after_ok=first))
        run.status()
        assert fake.running() == []
        fake.step()  # the first array runs
        fake.jobs["1"].tasks[0].state = JobState.DONE
        run.status()
        fake.jobs["2"].tasks[0].state = JobState.FAILED
        run.status()
        fake.auto = True
        run.wait()
        ends = {element.index: element.state for element in run["second"].record.elements}
    assert ends == {0: JobState.DONE, 1: JobState.CANCELLED, 2: JobState.DONE}


def test_a_gated_job_says_why_it_waits() -> None:
    fake = everything_emulated(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("b", after_ok=job("a")))
        run.status()
        assert run["b"].record.cause is Cause.GATE


def test_the_gate_goes_on_in_a_later_process(tmp_path: Path) -> None:
    fake = everything_emulated()
    with fake.client(journal=Journal(tmp_path / "j")) as rm:
        rm.submit(job("b", after_ok=job("a")))
    with fake.client(journal=Journal(tmp_path / "j")) as later:
        passes = sum(1 for _ in itertools.takewhile(bool, iter(later.tend, None)))
    assert passes >= 1
    assert fake.jobs["2"].state in (JobState.QUEUED, JobState.RUNNING, JobState.DONE)


def test_a_job_waits_for_all_elements_of_an_emulated_array_submitted_earlier() -> None:
    fake = everything_emulated(auto=False)
    many = job("many", array=3)
    with fake.client() as rm:
        rm.submit(many)
        run = rm.submit(job("late", after_any=many))
        for number in ("1", "2", "3"):
            run.status()
            assert fake.jobs["4"].state is JobState.HELD
            fake.jobs[number].tasks[0].state = JobState.DONE
        run.status()
        assert fake.jobs["4"].state is JobState.QUEUED
        other = job("other", array=2)
        rm.submit(other)
        with pytest.raises(Unsupported, match="other"):
            rm.submit(job("bad", after_not_ok=other))


# -- states


def test_an_empty_listing_changes_nothing() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit([job("a"), job("b")])
        fake.step()
        assert {r.state for r in run.status().values()} == {JobState.RUNNING}
        fake.empty_listings = 1
        records = run.status().values()
    assert {record.state for record in records} == {JobState.RUNNING}
    assert {record.source for record in records} == {Source.GRACE}


def test_history_knows_what_the_listing_has_forgotten() -> None:
    fake = FakeManager(keeps_history=True, outcomes={"a": 3})
    with fake.client() as rm:
        run = rm.submit(job("a"))
        fake.step()
        fake.step()
        fake.forget("1")
        record = run["a"].status()
    assert (record.state, record.exit_code) == (JobState.FAILED, 3)


def test_without_a_history_the_exit_record_decides() -> None:
    fake = FakeManager(outcomes={"a": 137})
    with fake.client() as rm:
        run = rm.submit(job("a"))
        fake.step()
        fake.step()
        fake.forget("1")
        record = run["a"].status()
    assert (record.state, record.signal, record.source) == (JobState.FAILED, 9, Source.EXIT_FILE)


def test_a_job_that_nobody_knows_is_lost_after_its_grace_and_not_before() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("a"))
        fake.forget("1")
        assert run["a"].status().state is JobState.QUEUED
        fake.now += FakeDialect.features.grace + 1
        record = run["a"].status()
    assert (record.state, record.cause) == (JobState.LOST, Cause.VANISHED)


def test_a_job_that_vanishes_after_its_cancel_is_cancelled() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("a"))
        run["a"].cancel()
        fake.forget("1")
        fake.now += 6
        assert run["a"].status().state is JobState.CANCELLED


def test_a_job_that_we_killed_is_not_called_failed() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("a"))
        run["a"].cancel()
        fake.jobs["1"].tasks[0].state = JobState.FAILED  # as Grid Engine reports a qdel
        assert run["a"].status().state is JobState.CANCELLED


def test_elements_that_a_listing_lost_keep_the_array_open() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("a", array=4))
        fake.step()
        fake.step()
        del fake.jobs["1"].tasks[3]
        fake.exits.clear()
        assert not run["a"].status().state.final


def test_callbacks_and_watch_tell_each_change_once() -> None:
    fake = FakeManager(outcomes={"b": 1})
    told: list[Change] = []
    with fake.client() as rm:
        rm.on_change(told.append)
        run = rm.submit([job("a"), job("b")])
        seen = [(c.handle.name, c.after.state) for c in rm.watch(run)]
    assert seen == [(c.handle.name, c.after.state) for c in told]
    assert seen.count(("a", JobState.DONE)) == 1
    assert seen.count(("b", JobState.FAILED)) == 1


def test_one_question_for_all_jobs() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit([job(f"j{n}") for n in range(300)])
        fake.ran.clear()
        run.status()
    assert [command.argv[1] for command in fake.ran] == ["status"]


def test_waiting_ends_with_a_sentence_when_time_is_up() -> None:
    fake = FakeManager(auto=False)
    with fake.client(clock=lambda: next(ticks)) as rm:
        ticks = itertools.count(0.0, 5.0)
        run = rm.submit(job("a"))
        with pytest.raises(WaitTimeout, match="1 jobs"):
            run.wait(timeout=20)


# -- actions


def test_actions_are_idempotent_and_say_how_it_went() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        run = rm.submit(job("a", hold=True))
        assert run["a"].release() is Outcome.OK
        assert run["a"].cancel() is Outcome.OK
        run.status()
        assert run["a"].cancel() is Outcome.ALREADY_FINAL
        assert rm.cancel(run, "1") == {"1": Outcome.ALREADY_FINAL}


def test_a_hold_that_the_user_asked_for_is_left_when_the_group_is_released() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        rm.submit([job("kept", hold=True), job("free")])
    assert [entry.state for entry in fake.jobs.values()] == [JobState.HELD, JobState.QUEUED]


# -- later processes


def test_a_later_process_resumes_a_run(tmp_path: Path) -> None:
    fake = FakeManager(outcomes={"a": 4})
    with fake.client(journal=Journal(tmp_path / "j")) as rm:
        run = rm.submit([job("a", array="0-2"), job("b", environment={"A": "ä\n"})])
        run.wait()
    with fake.client(journal=Journal(tmp_path / "j")) as later:
        again = later.resume(run.id[:8])
        assert [h.state for h in again] == [h.state for h in run]
        assert again["b"].spec == run["b"].spec
        assert [r.id for r in later.runs()] == [run.id]
        assert later.attach("2").name == "b"


@pytest.mark.parametrize("made", [1, 2])
def test_a_submitter_that_died_is_mended(tmp_path: Path, made: int) -> None:
    """Killed after `made` of 2 submissions, with no id saved: whole or not at all."""
    fake = FakeManager(auto=False)
    a = job("a")
    journal = Journal(tmp_path / "j")
    rm = fake.client(journal=journal)
    flow = submitting.submit(rm.core, [a, job("b", after_ok=a)], {})
    step = next(flow)
    for _ in range(made):
        assert isinstance(step, flows.Run)
        step = flow.send(fake.run(step.command))
    flow.close()
    with fake.client(journal=Journal(tmp_path / "j")) as later:
        (run,) = later.runs()
        later.resume(run.id)
    states = [entry.state for entry in fake.jobs.values()]
    assert states == ([JobState.QUEUED] * 2 if made == 2 else [JobState.CANCELLED])


def test_a_journal_survives_a_torn_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append({"event": "run", "run": "a", "time": 0, "jobs": []})
    journal.close()
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"event": "se')
    assert [event["run"] for event in Journal(tmp_path / "j").events()] == ["a"]


def test_a_submission_under_way_in_another_process_is_left_alone(tmp_path: Path) -> None:
    fake = FakeManager(auto=False)
    rm = fake.client(journal=Journal(tmp_path / "j"))
    flow = submitting.submit(rm.core, [job("a"), job("b")], {})
    step = next(flow)
    assert isinstance(step, flows.RunMany)
    fake.run(step.commands[0])
    flow.close()
    text = (tmp_path / "j").read_text().replace(f" {os.getpid()}", f" {os.getppid()}")
    (tmp_path / "j").write_text(text)
    with fake.client(journal=Journal(tmp_path / "j")) as later:
        later.resume(later.runs()[0].id)
    assert fake.jobs["1"].state is JobState.HELD


def test_a_keeper_tends_until_nothing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = everything_emulated()
    with fake.client(journal=Journal(tmp_path / "j")) as rm:
        rm.submit(job("c", after_ok=job("b", after_ok=job("a"))))
    monkeypatch.setattr(
        "gristmill.connecting.connect", lambda url, journal: fake.client(journal=Journal(journal))
    )
    assert gatekeeper.keep("fake", tmp_path / "j") == 0
    assert fake.jobs["3"].state in (JobState.QUEUED, JobState.RUNNING, JobState.DONE)


# -- the rest


async def test_the_asynchronous_client_does_the_same() -> None:
    fake = FakeManager(outcomes={"bad": 1})
    bad = job("bad")
    quick = flows.Policy(first_delay=0, lookups=(0,))
    async with AsyncResourceManager(
        fake.dialect(), fake, journal=MemoryJournal(), interval=0.0, policy=quick,
        clock=lambda: fake.now,
    ) as rm:  # fmt: skip
        run = await rm.submit(job("after", after_not_ok=bad))
        changes = [change async for change in rm.watch(run)]
        assert await run.wait() is JobState.FAILED
        assert run["after"].state is JobState.DONE
        assert (await run[bad].accounting()).exit_code == 1
        assert (await rm.attach("1")).id == "1"
    assert len([c for c in changes if c.after.state.final]) == 2


def test_the_site_explains_node_kinds() -> None:
    fake = FakeManager(auto=False)
    site = Site(name="here", kinds={"fat": {"queue": "local", "memory": 2**30}})
    with fake.client(site=site) as rm:
        rm.submit(job("a", node_kind="fat"))
        with pytest.raises(BadValue, match="no 'thin'"):
            rm.submit(job("b", node_kind="thin"))
    assert fake.jobs["1"].given["memory"] == 2**30


def test_the_seeds_names_are_honoured() -> None:
    fake = FakeManager(auto=False)
    with fake.client() as rm:
        handle = rm.submit_job(job("a"), {"priority": 5})
        assert rm.hold_job(handle) is Outcome.OK
    assert fake.jobs["1"].given["priority"] == 5
    assert issubclass(type(rm), ResourceManager)


def test_a_fake_can_be_told_to_lack_things() -> None:
    dialect = replace(FakeManager(), throttle=False).dialect()
    assert not dialect.features.throttle
