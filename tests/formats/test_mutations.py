"""Whatever is done to sound declarations, checks answer, and every place they name is there."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill import formats
from tests.formats import samples

ODD_TEXTS = st.sampled_from(
    ["", "../x", "<b>", "😀", "x" * 10_000, "\0", "\ud800", "a/b/1", "a.b", "a~b/c", "train", "add"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ODD_TEXTS
    | st.text(max_size=5)
    | st.sampled_from([2**70, -1, 0, 1, 2, 3])
)
ODD = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(ODD_TEXTS, SCALARS, max_size=3)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in a document."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, item in children for place in places(item, (*path, key)))]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def mutated(draw: st.DrawFn, *sound: dict[str, Any]) -> Any:
    """Return one of the declarations with some of its entries changed, removed, added or moved."""
    document = copy.deepcopy(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(1, 4))):
        inner = [path for path in places(document) if path]
        if not inner:
            break
        path = draw(st.sampled_from(inner))
        parent, key = at(document, path[:-1]), path[-1]
        match draw(st.sampled_from(["change", "remove", "add", "copy"])):
            case "change":
                parent[key] = draw(ODD)
            case "remove":
                del parent[key]
            case "add" if isinstance(parent, list):
                parent.append(draw(ODD))
            case "add":
                parent[draw(ODD_TEXTS)] = draw(ODD)
            case _:
                parent[key] = copy.deepcopy(at(document, draw(st.sampled_from(inner))))
    return document


def assert_sensible(problems: list[formats.Problem], document: Any) -> None:
    """Each pointer resolves in the document, or only its last token does not."""
    for problem in problems:
        assert problem.message
        "".join([problem.message, problem.pointer, problem.found or ""]).encode()
        tokens = problem.pointer.split("/")[1:]
        value = document
        for index, raw in enumerate(tokens):
            token = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and token.isdigit() and int(token) < len(value):
                value = value[int(token)]
            elif isinstance(value, dict) and token in value:
                value = value[token]
            else:
                assert index == len(tokens) - 1, problem
                assert isinstance(value, dict), problem


@given(mutated(samples.toolchain(), samples.loop_toolchain()))
def test_toolchains(document: Any) -> None:
    problems = formats.check_toolchain(document)
    assert_sensible(problems, document)
    if not problems:
        order = formats.topological_order(document)
        before = formats.predecessors(document)
        assert all(order.index(b) < order.index(name) for name in order for b in before[name])


@given(mutated(*samples.algorithms().values()))
def test_algorithms(document: Any) -> None:
    problems = formats.check_algorithm(document)
    assert_sensible(problems, document)
    if not problems:
        given_ = {
            name: "1" for name, p in document.get("parameters", {}).items() if "default" not in p
        }
        assert_sensible(list(formats.parameter_problems(document, given_, ())), given_)


@given(mutated(*samples.formats().values()))
def test_dataformats(document: Any) -> None:
    problems = formats.check_dataformat(document, samples.formats())
    assert_sensible(problems, document)
    if not problems:
        formats.resolve("ann/new/1", samples.formats() | {"ann/new/1": document})


@given(mutated(samples.library()))
def test_libraries(document: Any) -> None:
    assert_sensible(formats.check_library(document, samples.libraries(), "ann/new/1"), document)


@given(mutated(*samples.databases().values()))
def test_databases(document: Any) -> None:
    templates = {"simple/1": samples.template()}
    problems = formats.check_database(document, templates)
    assert_sensible(problems, document)
    if not problems:
        assert formats.data_sets(document, templates)


@given(mutated(samples.template()))
def test_protocol_templates(document: Any) -> None:
    assert_sensible(formats.check_protocol_template(document), document)


@settings(max_examples=300)
@given(mutated(samples.experiment(), samples.loop_experiment()), st.booleans())
def test_experiments(document: Any, loops: bool) -> None:
    toolchain = samples.loop_toolchain() if loops else samples.toolchain()
    problems = formats.check_experiment(
        document,
        toolchain,
        samples.algorithms(),
        samples.formats(),
        samples.databases(),
        libraries=samples.libraries(),
    )
    assert_sensible(problems, document)
    if not problems:
        for one in formats.configured(document):
            formats.clean_parameters(samples.algorithms()[one.algorithm], one.parameters)


@given(
    mutated(*samples.algorithms().values()),
    mutated(*samples.formats().values()),
    mutated(samples.toolchain()),
)
def test_experiments_in_a_changed_world(algorithm: Any, format_: Any, toolchain: Any) -> None:
    """An experiment meets declarations that are sound on their own but not for it."""
    algorithms, dataformats = samples.algorithms(), samples.formats()
    if formats.check_algorithm(algorithm) == []:
        algorithms["ann/adder/1"] = algorithms["ann/mean/1"] = algorithm
    if formats.check_dataformat(format_, dataformats) == []:
        dataformats["ann/integer/1"] = format_
    if formats.check_toolchain(toolchain):
        toolchain = samples.toolchain()
    experiment = samples.experiment()
    problems = formats.check_experiment(
        experiment, toolchain, algorithms, dataformats, samples.databases()
    )
    assert_sensible(problems, experiment)
