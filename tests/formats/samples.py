"""Small sound declarations of every kind, made anew at each call so that tests may change them."""

from __future__ import annotations

from typing import Any


def integer_format() -> dict[str, Any]:
    return {"value": "int32"}


def everything_format() -> dict[str, Any]:
    return {
        "#description": "Every kind of type",
        "#schema_version": 1,
        "flag": "bool",
        "name": "string",
        "matrix": [0, 8, "float64"],
        "one": "ann/integer/1",
        "many": [3, "ann/integer/1"],
        "nested": {"re": "complex64", "deeper": {"list": [0, {"x": "uint8"}]}},
    }


def formats() -> dict[str, dict[str, Any]]:
    return {
        "ann/integer/1": integer_format(),
        "ann/labelled/1": {"#extends": "ann/integer/1", "label": "string"},
        "ann/named/1": {"#extends": "ann/labelled/1", "name": "string"},
        "ann/everything/1": everything_format(),
    }


def adder() -> dict[str, Any]:
    """A splittable algorithm of API 2 with one group."""
    return {
        "schema_version": 2,
        "api_version": 2,
        "type": "sequential",
        "language": "python",
        "description": "Adds",
        "splittable": True,
        "groups": [
            {
                "name": "main",
                "inputs": {"a": {"type": "ann/integer/1"}, "b": {"type": "ann/integer/1"}},
                "outputs": {"sum": {"type": "ann/integer/1", "description": "a + b"}},
            }
        ],
        "parameters": {
            "offset": {"type": "int8", "default": 3, "range": [-10, 10], "description": "added"},
            "mode": {"type": "string", "default": "plain", "choice": ["plain", "odd"]},
            "scale": {"type": "float64", "default": 1},
        },
        "uses": {"tools": "ann/tools/1"},
    }


def trained() -> dict[str, Any]:
    """An algorithm with a second group: it reads a model while it walks through values."""
    return {
        "schema_version": 2,
        "api_version": 2,
        "type": "sequential",
        "language": "python",
        "splittable": False,
        "groups": [
            {
                "inputs": {"value": {"type": "ann/integer/1"}},
                "outputs": {"score": {"type": "ann/labelled/1"}},
            },
            {"inputs": {"model": {"type": "ann/integer/1"}}},
        ],
    }


def analyzer() -> dict[str, Any]:
    """A legacy analyzer (schema 1)."""
    return {
        "language": "python",
        "groups": [{"inputs": {"score": {"type": "ann/integer/1"}}}],
        "results": {
            "mean": {"type": "float32", "display": True},
            "plot": {"type": "plot/scatter/1", "description": "drawn"},
        },
    }


def loop_half(kind: str) -> dict[str, Any]:
    """A loop processor or evaluator (schema 3)."""
    declaration: dict[str, Any] = {
        "schema_version": 3,
        "api_version": 2,
        "type": f"sequential_loop_{kind}",
        "language": "python",
        "groups": [
            {
                "inputs": {"in": {"type": "ann/integer/1"}},
                "outputs": {"out": {"type": "ann/integer/1"}},
                "loop": {
                    "request": {"type": "ann/integer/1"},
                    "answer": {"type": "ann/labelled/1"},
                },
            }
        ],
    }
    return declaration | ({"splittable": False} if kind == "processor" else {})


def algorithms() -> dict[str, dict[str, Any]]:
    return {
        "ann/adder/1": adder(),
        "ann/trained/1": trained(),
        "ann/mean/1": analyzer(),
        "ann/processor/1": loop_half("processor"),
        "ann/evaluator/1": loop_half("evaluator"),
    }


def library() -> dict[str, Any]:
    return {"language": "python", "description": "Tools", "uses": {"base": "ann/base/1"}}


def libraries() -> dict[str, dict[str, Any]]:
    return {"ann/tools/1": library(), "ann/base/1": {"language": "python"}}


def database() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "description": "Numbers",
        "root_folder": "/data/numbers",
        "environment": {"name": "Python", "version": "1"},
        "protocols": [
            {
                "name": "small.1",
                "template": "simple",
                "sets": [
                    {
                        "name": "train",
                        "template": "set",
                        "view": "Train",
                        "parameters": {"first": 0, "last": 9},
                        "outputs": {"a": "ann/integer/1", "b": "ann/integer/1"},
                    },
                    {"name": "test", "view": "Test", "outputs": {"a": "ann/labelled/1"}},
                ],
            }
        ],
    }


def template() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "sets": [
            {"name": "train", "outputs": {"a": "ann/integer/1", "b": "ann/integer/1"}},
            {"name": "test", "outputs": {"a": "ann/labelled/1"}},
        ],
    }


def database_2() -> dict[str, Any]:
    return {
        "schema_version": 2,
        "root_folder": "nfs://host-1:/data",
        "protocols": [
            {
                "name": "small.1",
                "template": "simple/1",
                "views": {
                    "train": {"view": "Train", "parameters": {"first": 0}},
                    "test": {"view": "Test"},
                },
            }
        ],
    }


def databases() -> dict[str, dict[str, Any]]:
    return {"numbers/1": database(), "numbers/2": database_2()}


def toolchain() -> dict[str, Any]:
    """Train: a + b, twice; test: a model applied to labelled values; then a mean."""
    return {
        "description": "Adds and scores",
        "datasets": [
            {"name": "train", "outputs": ["a", "b"]},
            {"name": "test", "outputs": ["a"]},
        ],
        "blocks": [
            {
                "name": "add",
                "synchronized_channel": "train",
                "inputs": ["a", "b"],
                "outputs": ["sum"],
            },
            {
                "name": "score",
                "synchronized_channel": "test",
                "inputs": ["value", "model"],
                "outputs": ["score"],
            },
        ],
        "analyzers": [{"name": "mean", "synchronized_channel": "test", "inputs": ["score"]}],
        "connections": [
            {"from": "train.a", "to": "add.a", "channel": "train"},
            {"from": "train.b", "to": "add.b", "channel": "train"},
            {"from": "test.a", "to": "score.value", "channel": "test"},
            {"from": "add.sum", "to": "score.model", "channel": "train"},
            {"from": "score.score", "to": "mean.score", "channel": "test"},
        ],
        "representation": {
            "connections": {"train.a/add.a": [{"col": 1, "row": 2}]},
            "blocks": {"train": {"col": 0, "row": 0, "width": 6, "height": 3}},
            "channel_colors": {"train": "#5555ff", "test": "#FF0000"},
        },
    }


def experiment() -> dict[str, Any]:
    return {
        "description": "An example",
        "datasets": {
            "train": {"database": "numbers/1", "protocol": "small.1", "set": "train"},
            "test": {"database": "numbers/1", "protocol": "small.1", "set": "test"},
        },
        "blocks": {
            "add": {
                "algorithm": "ann/adder/1",
                "inputs": {"a": "a", "b": "b"},
                "outputs": {"sum": "sum"},
                "parameters": {"mode": "odd"},
                "nb_slots": 4,
            },
            "score": {
                "algorithm": "ann/trained/1",
                "inputs": {"value": "value", "model": "model"},
                "outputs": {"score": "score"},
                "queue": "long",
                "environment": {"name": "Python", "version": "2"},
            },
        },
        "analyzers": {"mean": {"algorithm": "ann/mean/1", "inputs": {"score": "score"}}},
        "globals": {
            "queue": "short",
            "environment": {"name": "Python", "version": "1"},
            "ann/adder/1": {"offset": 5, "mode": "plain"},
        },
    }


def loop_toolchain() -> dict[str, Any]:
    return {
        "schema_version": 2,
        "datasets": [{"name": "train", "outputs": ["a"]}, {"name": "test", "outputs": ["a"]}],
        "blocks": [],
        "loops": [
            {
                "name": "loop",
                "synchronized_channel": "train",
                "processor_inputs": ["in"],
                "processor_outputs": ["out"],
                "evaluator_inputs": ["in2"],
                "evaluator_outputs": ["out2"],
            }
        ],
        "analyzers": [{"name": "mean", "synchronized_channel": "train", "inputs": ["score"]}],
        "connections": [
            {"from": "train.a", "to": "loop.in", "channel": "train"},
            {"from": "test.a", "to": "loop.in2", "channel": "train"},
            {"from": "loop.out", "to": "mean.score", "channel": "train"},
        ],
        "representation": {"connections": {}, "blocks": {}, "channel_colors": {}},
    }


def loop_experiment() -> dict[str, Any]:
    halves: dict[str, Any] = {}
    for half, suffix in (("processor", ""), ("evaluator", "2")):
        halves[f"{half}_algorithm"] = f"ann/{half}/1"
        halves[f"{half}_inputs"] = {"in": f"in{suffix}"}
        halves[f"{half}_outputs"] = {"out": f"out{suffix}"}
    return {
        "schema_version": 2,
        "datasets": {
            "train": {"database": "numbers/1", "protocol": "small.1", "set": "train"},
            "test": {"database": "numbers/1", "protocol": "small.1", "set": "test"},
        },
        "blocks": {},
        "loops": {"loop": halves},
        "analyzers": {"mean": {"algorithm": "ann/mean/1", "inputs": {"score": "score"}}},
        "globals": {"queue": "short"},
    }
