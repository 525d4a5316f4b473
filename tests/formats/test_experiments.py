"""Experiments: whether they fit their toolchain, algorithms and databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gristmill.formats import check_experiment, check_experiment_form, configured
from tests.formats import samples


def world() -> dict[str, Any]:
    return {
        "toolchain": samples.toolchain(),
        "algorithms": samples.algorithms(),
        "dataformats": samples.formats(),
        "databases": samples.databases(),
        "libraries": samples.libraries(),
        "templates": {"simple/1": samples.template()},
    }


def found(experiment: Any, **changes: Any) -> list[tuple[str, str]]:
    return [(p.pointer, p.code) for p in check_experiment(experiment, **(world() | changes))]


def test_sound_experiments_are_accepted() -> None:
    assert found(samples.experiment()) == []
    assert found(samples.loop_experiment(), toolchain=samples.loop_toolchain()) == []


def test_a_database_with_templates_gives_its_sets() -> None:
    experiment = samples.experiment()
    experiment["datasets"]["train"]["database"] = "numbers/2"
    assert found(experiment) == []
    assert found(experiment, templates=None) == [("/datasets/train/database", "unknown")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda e: e.pop("datasets"), ("/datasets", "missing")),
        (lambda e: e["datasets"].pop("test"), ("/datasets/test", "missing")),
        (lambda e: e["datasets"].update(more=e["datasets"]["test"]), ("/datasets/more", "unknown")),
        (lambda e: e["blocks"].update(mean=e["blocks"]["add"]), ("/blocks/mean", "unknown")),
        (
            lambda e: e["datasets"]["test"].update(database="x/1"),
            ("/datasets/test/database", "unknown"),
        ),
        (
            lambda e: e["datasets"]["test"].update(protocol="x"),
            ("/datasets/test/protocol", "unknown"),
        ),
        (lambda e: e["datasets"]["test"].update(set="x"), ("/datasets/test/set", "unknown")),
        (lambda e: e["datasets"]["train"].update(set="test"), ("/datasets/train/set", "output")),
        (
            lambda e: e["blocks"]["add"].update(algorithm="a/b/1"),
            ("/blocks/add/algorithm", "unknown"),
        ),
        (
            lambda e: e["blocks"]["add"].update(algorithm="ann/mean/1"),
            ("/blocks/add/algorithm", "kind"),
        ),
        (
            lambda e: e["analyzers"]["mean"].update(algorithm="ann/adder/1"),
            ("/analyzers/mean/algorithm", "kind"),
        ),
        (
            lambda e: e["blocks"]["add"].update(algorithm="ann/processor/1"),
            ("/blocks/add/algorithm", "kind"),
        ),
        (lambda e: e["blocks"]["add"]["inputs"].pop("a"), ("/blocks/add/inputs/a", "missing")),
        (lambda e: e["blocks"]["add"]["inputs"].update(c="a"), ("/blocks/add/inputs/c", "unknown")),
        (lambda e: e["blocks"]["add"]["inputs"].update(a="x"), ("/blocks/add/inputs/a", "unknown")),
        (
            lambda e: e["blocks"]["add"]["inputs"].update(b="a"),
            ("/blocks/add/inputs/b", "duplicate"),
        ),
        (
            lambda e: e["blocks"]["add"]["outputs"].update(sum="x"),
            ("/blocks/add/outputs/sum", "unknown"),
        ),
        (
            lambda e: e["blocks"]["add"]["parameters"].update(offset=11),
            ("/blocks/add/parameters/offset", "range"),
        ),
        (
            lambda e: e["blocks"]["add"]["parameters"].update(x=1),
            ("/blocks/add/parameters/x", "unknown"),
        ),
        (
            lambda e: e["blocks"]["score"].update(nb_slots=2),
            ("/blocks/score/nb_slots", "not_splittable"),
        ),
        (lambda e: e["blocks"]["add"].update(nb_slots=0), ("/blocks/add/nb_slots", "value")),
        (lambda e: e["blocks"]["add"].update(nb_slots="2"), ("/blocks/add/nb_slots", "type")),
        (
            lambda e: e["globals"].update({"ann/trained/9": {}}),
            ("/globals/ann~1trained~19", "unused"),
        ),
        (
            lambda e: e["globals"]["ann/adder/1"].update(offset="many"),
            ("/globals/ann~1adder~11/offset", "value"),
        ),
        (
            lambda e: e["globals"].update(environment={"name": "x"}),
            ("/globals/environment/version", "missing"),
        ),
        (lambda e: e["globals"].update(colour=1), ("/globals/colour", "name")),
    ],
)
def test_what_is_wrong_is_told(
    change: Callable[[dict[str, Any]], Any], expected: tuple[str, str]
) -> None:
    experiment = samples.experiment()
    change(experiment)
    assert expected in found(experiment)


def test_unequal_formats_are_told_by_both_names() -> None:
    algorithms = samples.algorithms()
    algorithms["ann/mean/1"]["groups"][0]["inputs"]["score"]["type"] = "ann/named/1"
    [problem] = check_experiment(samples.experiment(), **(world() | {"algorithms": algorithms}))
    assert (problem.pointer, problem.code) == ("/analyzers/mean/inputs/score", "format")
    assert "score.score gives ann/labelled/1" in problem.message
    assert "takes ann/named/1" in problem.message


def test_inputs_of_one_group_come_on_one_channel() -> None:
    algorithms = samples.algorithms()
    groups = algorithms["ann/trained/1"]["groups"]
    groups[0]["inputs"]["model"] = groups.pop()["inputs"]["model"]
    assert found(samples.experiment(), algorithms=algorithms) == [
        ("/blocks/score/inputs/model", "channel")
    ]


def test_inputs_of_one_channel_belong_to_one_group() -> None:
    algorithms = samples.algorithms()
    groups = algorithms["ann/adder/1"]["groups"]
    groups.append({"inputs": {"b": groups[0]["inputs"].pop("b")}})
    assert found(samples.experiment(), algorithms=algorithms) == [
        ("/blocks/add/inputs/b", "channel")
    ]


def test_the_first_group_is_on_the_synchronised_channel() -> None:
    toolchain = samples.toolchain()
    toolchain["blocks"][0]["synchronized_channel"] = "test"
    toolchain["connections"][3]["channel"] = "test"
    assert ("/blocks/add/inputs/a", "channel") in found(samples.experiment(), toolchain=toolchain)


def test_the_libraries_of_an_algorithm_are_checked_to_the_last() -> None:
    libraries = samples.libraries()
    libraries["ann/base/1"]["uses"] = {"tools": "ann/tools/1"}
    assert found(samples.experiment(), libraries=libraries) == [("/blocks/add/algorithm", "cycle")]
    assert found(samples.experiment(), libraries={}) == [("/blocks/add/algorithm", "unknown")]


def test_a_library_may_name_the_environments_it_works_in() -> None:
    libraries = samples.libraries()
    libraries["ann/base/1"]["environments"] = [{"name": "Python", "version": "2"}]
    assert found(samples.experiment(), libraries=libraries) == [("/blocks/add", "environment")]


def test_globals_fill_in_what_a_block_leaves_out() -> None:
    blocks = {one.name: one for one in configured(samples.experiment())}
    add, score, mean = blocks["add"], blocks["score"], blocks["mean"]
    assert add.parameters == {"offset": 5, "mode": "odd"}
    assert (add.queue, score.queue) == ("short", "long")
    assert (add.environment, score.environment) == (("Python", "1"), ("Python", "2"))
    assert (add.slots, score.slots) == (4, 1)
    assert (mean.kind, mean.outputs) == ("analyzer", {})


def test_a_block_may_have_no_queue_and_no_environment_yet() -> None:
    experiment = samples.experiment()
    experiment["globals"] = {}
    add = next(one for one in configured(experiment) if one.name == "add")
    assert (add.queue, add.environment) == (None, None)
    assert check_experiment_form(experiment) == []


def test_the_halves_of_a_loop_agree_on_what_they_send() -> None:
    algorithms = samples.algorithms()
    algorithms["ann/evaluator/1"]["groups"][0]["loop"]["answer"]["type"] = "ann/integer/1"
    assert found(
        samples.loop_experiment(), toolchain=samples.loop_toolchain(), algorithms=algorithms
    ) == [("/loops/loop/evaluator_algorithm", "format")]


def test_what_is_no_experiment_is_told() -> None:
    values: tuple[Any, ...] = (None, 5, [], "x")
    for value in values:
        assert found(value) == [("", "type")]
