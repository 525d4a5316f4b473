"""Placement, job.json and order."""

from dataclasses import replace

from backend.app.experiments import planning
from tests.experiments import cases


def plan(experiment=cases.EXPERIMENT):
    queues = [cases.SHORT, cases.LONG]
    placements, problems = planning.place(
        cases.TOOLCHAIN, experiment, queues, cases.SOURCES.databases
    )
    assert problems == []
    return planning.plan(cases.TOOLCHAIN, experiment, cases.SOURCES, placements)


def problems(experiment, queues=(cases.SHORT,)):
    _, found = planning.place(cases.TOOLCHAIN, experiment, queues, cases.SOURCES.databases)
    return [(p.pointer, p.code) for p in found]


def test_blocks_come_after_what_they_read():
    blocks = plan()
    assert [(b.name, b.position, b.inputs) for b in blocks] == [
        ("numbers", 0, ()),
        ("double", 1, ("numbers",)),
        ("sum", 2, ("double",)),
    ]


def test_job_of_a_block_is_as_the_sandboxing_api_says():
    block = plan()[1]
    assert block.job["job"] == {
        "schema": 1,
        "kind": "block",
        "entry": {"file": "algorithm/algorithm.py", "name": "Algorithm"},
        "declaration": cases.DOUBLE,
        "parameters": {"factor": 3, "offset": 0.0},
        "libraries": {
            "ann/base/1": {"folder": "libraries/ann/base/1", "uses": {}},
            "ann/maths/1": {"folder": "libraries/ann/maths/1", "uses": {"b": "ann/base/1"}},
        },
        "uses": {"maths": "ann/maths/1"},
        "formats": {"ann/integer/1": {"value": "int32"}},
        "channel": "numbers",
        "inputs": [{"name": "in", "group": 0, "channel": "numbers", "format": "ann/integer/1"}],
        "outputs": [{"name": "out", "channel": "numbers", "format": "ann/integer/1"}],
    }
    assert block.job["reads"] == {"in": {"key": plan()[0].key, "output": "value"}}


def test_job_of_a_dataset_names_its_view_and_files():
    block = plan()[0]
    assert block.algorithm == "numbers/1/all/train"
    assert block.job["job"]["entry"] == {"file": "algorithm/view.py", "name": "Train"}
    assert block.job["job"]["root"] == "data"
    assert block.job["data"] == [{"path": "n.csv", "size": 3, "sha256": "ab" * 32}]


def test_an_analyzer_has_results_and_no_outputs():
    assert plan()[2].job["job"]["outputs"] == []
    assert plan()[2].job["job"]["declaration"]["results"]


def test_queue_that_the_user_may_not_use():
    assert problems(cases.with_block(queue="secret")) == [("/blocks/double/queue", "queue")]


def test_no_right_to_any_queue():
    assert problems(cases.EXPERIMENT, queues=()) == [
        ("/globals/queue", "queue"),
        ("/globals/queue", "queue"),
        ("/datasets/numbers", "queue"),
    ]


def test_more_slots_than_the_right():
    assert problems(cases.with_block(nb_slots=5)) == [("/blocks/double/nb_slots", "slots")]


def test_environment_that_the_queue_does_not_offer():
    wanted = {"environment": {"name": "Python", "version": "3"}}
    assert problems(cases.with_block(**wanted)) == [("/blocks/double/environment", "environment")]


def test_a_database_that_needs_an_environment_finds_a_queue_that_offers_it():
    database = cases.SOURCES.databases["numbers/1"]
    needs = {**cases.DATABASE, "environment": {"name": "Views", "version": "1"}}
    databases = {"numbers/1": replace(database, declaration=needs)}
    other = replace(cases.LONG, environments=frozenset({("Views", "1")}))
    placements, found = planning.place(
        cases.TOOLCHAIN, cases.EXPERIMENT, [cases.SHORT, other], databases
    )
    assert found == []
    assert placements["numbers"].queue.name == "long"
    _, found = planning.place(cases.TOOLCHAIN, cases.EXPERIMENT, [cases.SHORT], databases)
    assert [(p.pointer, p.code) for p in found] == [("/datasets/numbers/database", "environment")]
