"""From instructions and reports to rows, without a database."""

from __future__ import annotations

from backend.app.scheduling.entries import entries_of, joined
from backend.app.scheduling.rows import rfc3339, rows_of
from backend.scheduler.core import blocks, experiments
from backend.scheduler.core.events import Outcome
from backend.scheduler.core.instructions import Close, Refuse, SetBlock, SetExperiment
from backend.scheduler.core.model import Failure, FailureKind

State = blocks.State


def set_block(state: State, **more: object) -> SetBlock:
    return SetBlock(block="b", experiment="e", state=state, **more)  # type: ignore[arg-type]


def test_a_block_is_updated_once_and_every_state_is_an_event() -> None:
    path = [State.QUEUED, State.ASSIGNED, State.RUNNING, State.DONE]
    rows = rows_of([set_block(state, worker="w") for state in path], 1000.0)
    change = rows.blocks["b"]
    assert (change.state, change.queued, change.started) == (State.DONE, True, True)
    told = [event.details["state"] for event in rows.experiments["e"].events]
    assert told == [str(state) for state in path]
    assert rows.in_state(State.DONE) == ["b"]


def test_a_block_that_is_queued_again_has_no_worker_and_no_start() -> None:
    path = [set_block(State.RUNNING, worker="w"), set_block(State.LOST), set_block(State.QUEUED)]
    change = rows_of(path, 1000.0).blocks["b"]
    assert (change.worker, change.started, change.queued) == ("", False, True)


def test_an_event_tells_the_failure_without_its_trace() -> None:
    failure = Failure(kind=FailureKind.ALGORITHM, message="oh", trace="secret/path.py")
    rows = rows_of([set_block(State.FAILED, failure=failure)], 1000.0)
    (event,) = rows.experiments["e"].events
    assert event.details["failure"] == {"kind": "algorithm error", "message": "oh"}
    assert rows.blocks["b"].failure == failure


def test_refusals_alone_write_nothing() -> None:
    assert rows_of([Refuse(why="late")], 1000.0).is_empty()
    pending = SetExperiment(experiment="e", state=experiments.State.PENDING, submitted_at=1.0)
    assert not rows_of([pending], 1000.0).is_empty()


def test_an_analyzers_results_are_kept_by_block() -> None:
    close = Close(attempt="b.0.1", outcome=Outcome.DONE, details={"results": {"x": 1}})
    assert rows_of([close], 1000.0).results == {"b": {"x": 1}}


def test_times_are_utc_as_the_api_gives_them() -> None:
    assert rfc3339(0.5) == "1970-01-01T00:00:00.500000Z"


def test_the_jobs_of_a_block_are_joined() -> None:
    reports = [
        {"wall_seconds": 2.0, "cpu_user_seconds": 1.0, "outputs": [{"size": 5}]},
        {"wall_seconds": 3.0, "cpu_user_seconds": 2.0, "outputs": [{"size": 7}]},
        None,
    ]
    took, outputs = joined(reports)
    assert (took["jobs"], took["wall_seconds"], took["cpu_user_seconds"]) == (2, 3.0, 3.0)
    assert [output["size"] for output in outputs] == [5, 7]


def test_two_blocks_of_one_key_make_one_entry() -> None:
    block = {
        "key": "k",
        "algorithm": "a/b/1",
        "environment_name": "Python",
        "environment_version": "3.11",
        "experiment_id": "e",
    }
    both = [{"id": "b1", **block}, {"id": "b2", **block}]
    attempts = [{"block_id": "b1", "statistics": {"outputs": [{"size": 5}]}}]
    made = entries_of(both, attempts, {"e": "ann"}, {"b1": {"x": 1}})
    assert list(made) == ["k"]
    assert (made["k"].size, made["k"].made_by, made["k"].results) == (5, "ann", {"x": 1})
    assert made["k"].environment == "Python (3.11)"
