"""One small experiment and what it names, for the tests of this folder."""

from dataclasses import replace

from backend.app.experiments.planning import (
    AlgorithmSource,
    DatabaseSource,
    DataFile,
    LibrarySource,
    QueueOffer,
    Sources,
)

TOOLCHAIN = {
    "datasets": [{"name": "numbers", "outputs": ["value"]}],
    "blocks": [
        {
            "name": "double",
            "synchronized_channel": "numbers",
            "inputs": ["value"],
            "outputs": ["twice"],
        }
    ],
    "analyzers": [{"name": "sum", "synchronized_channel": "numbers", "inputs": ["twice"]}],
    "connections": [
        {"from": "numbers.value", "to": "double.value", "channel": "numbers"},
        {"from": "double.twice", "to": "sum.twice", "channel": "numbers"},
    ],
    "representation": {"connections": {}, "blocks": {}, "channel_colors": {}},
}
EXPERIMENT = {
    "datasets": {"numbers": {"database": "numbers/1", "protocol": "all", "set": "train"}},
    "blocks": {
        "double": {
            "algorithm": "ann/double/1",
            "inputs": {"in": "value"},
            "outputs": {"out": "twice"},
            "parameters": {"factor": 3},
        }
    },
    "analyzers": {"sum": {"algorithm": "ann/sum/1", "inputs": {"in": "twice"}}},
    "globals": {"queue": "short", "environment": {"name": "Python", "version": "1"}},
}
DOUBLE = {
    "schema_version": 2,
    "language": "python",
    "splittable": True,
    "groups": [
        {
            "inputs": {"in": {"type": "ann/integer/1"}},
            "outputs": {"out": {"type": "ann/integer/1"}},
        }
    ],
    "parameters": {
        "factor": {"type": "int32", "default": 2, "description": "times"},
        "offset": {"type": "float64", "default": 0.0},
    },
    "uses": {"maths": "ann/maths/1"},
    "description": "doubles",
}
SUM = {
    "schema_version": 2,
    "language": "python",
    "groups": [{"inputs": {"in": {"type": "ann/integer/1"}}}],
    "results": {"total": {"type": "int32", "display": True}},
}
DATABASE = {
    "root_folder": "/nowhere",
    "protocols": [
        {
            "name": "all",
            "sets": [{"name": "train", "view": "Train", "outputs": {"value": "ann/integer/1"}}],
        }
    ],
}
SOURCES = Sources(
    algorithms={
        "ann/double/1": AlgorithmSource(declaration=DOUBLE, source="class Algorithm: pass"),
        "ann/sum/1": AlgorithmSource(declaration=SUM, source="class Algorithm: ..."),
    },
    libraries={
        "ann/maths/1": LibrarySource(
            declaration={"language": "python", "uses": {"b": "ann/base/1"}}, files={"m.py": "x = 1"}
        ),
        "ann/base/1": LibrarySource(declaration={"language": "python"}, files={"b.py": "y = 1"}),
    },
    formats={"ann/integer/1": {"value": "int32", "#description": "one number"}},
    databases={
        "numbers/1": DatabaseSource(
            declaration=DATABASE,
            source="class Train: pass",
            files=(DataFile(path="n.csv", size=3, sha256="ab" * 32),),
        )
    },
)
SHORT = QueueOffer(
    id="q1",
    name="short",
    slots=4,
    priority=0,
    environments=frozenset({("Python", "1"), ("Python", "2")}),
    default_environment=("Python", "1"),
)
LONG = replace(SHORT, id="q2", name="long")


def with_block(**changes):
    block = {**EXPERIMENT["blocks"]["double"], **changes}
    return {**EXPERIMENT, "blocks": {"double": block}}


def with_algorithm(source="class Algorithm: pass", **changes):
    changed = AlgorithmSource(declaration={**DOUBLE, **changes}, source=source)
    return replace(SOURCES, algorithms={**SOURCES.algorithms, "ann/double/1": changed})


def reversed_keys(value):
    if isinstance(value, dict):
        return {k: reversed_keys(v) for k, v in reversed(value.items())}
    return [reversed_keys(v) for v in value] if isinstance(value, list) else value
