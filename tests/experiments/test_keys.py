"""What is a hit and what is a miss."""

from dataclasses import replace

import pytest

from backend.app.experiments import keys, planning
from backend.app.experiments.planning import DataFile, LibrarySource
from tests.experiments.cases import (
    DOUBLE,
    EXPERIMENT,
    LONG,
    SHORT,
    SOURCES,
    TOOLCHAIN,
    reversed_keys,
    with_algorithm,
    with_block,
)


def keys_of(experiment=EXPERIMENT, sources=SOURCES, queues=(SHORT, LONG)):
    placements, problems = planning.place(TOOLCHAIN, experiment, queues, sources.databases)
    assert problems == []
    blocks = planning.plan(TOOLCHAIN, experiment, sources, placements)
    return {block.name: block.key for block in blocks}


HITS = {
    "order of keys in the experiment": {"experiment": reversed_keys(EXPERIMENT)},
    "queue": {"experiment": with_block(queue="long")},
    "slots": {"experiment": with_block(nb_slots=4)},
    "the right": {"queues": (replace(SHORT, slots=100, priority=9),)},
    "a default written": {"experiment": with_block(parameters={"factor": 3, "offset": 0.0})},
    "a default as a whole number": {
        "experiment": with_block(parameters={"factor": 3, "offset": 0})
    },
    "a parameter of globals": {
        "experiment": {
            **with_block(parameters={}),
            "globals": {**EXPERIMENT["globals"], "ann/double/1": {"factor": 3}},
        }
    },
    "the environment written at the block": {
        "experiment": with_block(environment={"name": "Python", "version": "1"})
    },
    "descriptions of the algorithm": {
        "sources": with_algorithm(
            description="other",
            parameters={**DOUBLE["parameters"], "factor": {"type": "int32", "default": 2}},
        )
    },
    "order of keys in the algorithm": {"sources": with_algorithm(**reversed_keys(DOUBLE))},
    "description of the format": {
        "sources": replace(SOURCES, formats={"ann/integer/1": {"value": "int32"}})
    },
}
MISSES = {
    "a parameter": {"experiment": with_block(parameters={"factor": 4})},
    "environment version": {
        "experiment": with_block(environment={"name": "Python", "version": "2"})
    },
    "algorithm source": {"sources": with_algorithm("class Algorithm:  pass")},
    "library": {
        "sources": replace(
            SOURCES,
            libraries={
                **SOURCES.libraries,
                "ann/base/1": LibrarySource(
                    declaration={"language": "python"}, files={"b.py": "y = 2"}
                ),
            },
        )
    },
    "format": {
        "sources": replace(
            SOURCES,
            formats={"ann/integer/1": {"#extends": "ann/base/1"}, "ann/base/1": {"value": "int32"}},
        )
    },
    "views of the database": {
        "sources": replace(
            SOURCES,
            databases={"numbers/1": replace(SOURCES.databases["numbers/1"], source="other")},
        )
    },
    "a file of the database": {
        "sources": replace(
            SOURCES,
            databases={
                "numbers/1": replace(
                    SOURCES.databases["numbers/1"],
                    files=(DataFile(path="n.csv", size=3, sha256="cd" * 32),),
                )
            },
        )
    },
}


@pytest.mark.parametrize("case", HITS.values(), ids=HITS.keys())
def test_what_does_not_change_outputs_is_a_hit(case):
    assert keys_of(**case) == keys_of()


@pytest.mark.parametrize("case", MISSES.values(), ids=MISSES.keys())
def test_what_changes_outputs_is_a_miss_downstream_too(case):
    before, after = keys_of(), keys_of(**case)
    assert after["double"] != before["double"]
    assert after["sum"] != before["sum"]


def test_names_of_toolchain_ports_and_blocks_do_not_matter():
    renamed = {
        **TOOLCHAIN,
        "blocks": [{**TOOLCHAIN["blocks"][0], "name": "other", "outputs": ["o"], "inputs": ["i"]}],
        "connections": [
            {"from": "numbers.value", "to": "other.i", "channel": "numbers"},
            {"from": "other.o", "to": "sum.twice", "channel": "numbers"},
        ],
    }
    config = {**EXPERIMENT["blocks"]["double"], "inputs": {"in": "i"}, "outputs": {"out": "o"}}
    experiment = {**EXPERIMENT, "blocks": {"other": config}}
    placements, _ = planning.place(renamed, experiment, [SHORT], SOURCES.databases)
    blocks = planning.plan(renamed, experiment, SOURCES, placements)
    assert {b.key for b in blocks} == set(keys_of().values())


def test_an_alias_swapped_between_two_libraries_is_a_miss():
    hashes = {"a/x/1": "1", "a/y/1": "2"}
    one = keys.library_tree({"p": "a/x/1", "q": "a/y/1"}, hashes, {})
    other = keys.library_tree({"p": "a/y/1", "q": "a/x/1"}, hashes, {})
    assert keys.digest(one) != keys.digest(other)


def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        keys.canonical({"x": float("nan")})
