"""Whether an experiment fits its toolchain, and the algorithms and databases that it names.

The checks that BEAT makes, and those it leaves to run time: a port map that leaves a port out, a
parameter without a value, groups of inputs on the wrong channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.formats import algorithms as algos
from gristmill.formats import dataformats as fmts
from gristmill.formats import experiments, toolchains
from gristmill.formats.databases import DataSet, Templates, data_sets
from gristmill.formats.experiments import Configured
from gristmill.formats.libraries import Libraries, check_uses, library_closure
from gristmill.formats.parameters import parameter_problems
from gristmill.formats.problems import BadDocument, Path, Problem, listed, problem, told
from gristmill.formats.toolchains import Connection, Item

Declarations = Mapping[str, Mapping[str, Any]]  #: reference -> declaration

_ALLOWED_KINDS = {
    "block": ("legacy", "sequential", "autonomous"),
    "analyzer": ("legacy", "sequential", "autonomous"),
    "processor": ("sequential_loop_processor", "autonomous_loop_processor"),
    "evaluator": ("sequential_loop_evaluator", "autonomous_loop_evaluator"),
}


@dataclass(frozen=True, slots=True)
class _World:
    """Everything that an experiment is compared with."""

    items: Mapping[str, Item]
    feeds: Mapping[tuple[str, str], Connection]  #: (item, input) -> what feeds it
    algorithms: Declarations
    formats: Declarations
    databases: Declarations
    templates: Templates
    libraries: Libraries | None


def check_experiment(
    experiment: Any,
    toolchain: Mapping[str, Any],
    algorithms: Declarations,
    dataformats: Declarations,
    databases: Declarations,
    *,
    libraries: Libraries | None = None,
    templates: Templates | None = None,
) -> list[Problem]:
    """Return what is wrong with an experiment, all pointers into its declaration.

    The toolchain and the other declarations are those that the user may see, by reference, each
    already checked on its own. Rights, queues and environments are not looked up here.
    """
    wrong = experiments.check_experiment_form(experiment)
    if wrong:
        return wrong
    feeds = {(line.to_item, line.to_port): line for line in toolchains.connections(toolchain)}
    items = {item.name: item for item in toolchains.items(toolchain)}
    world = _World(items, feeds, algorithms, dataformats, databases, templates or {}, libraries)
    return told(_problems(experiment, world))


def _problems(experiment: Mapping[str, Any], world: _World) -> Iterator[Problem]:
    yield from _name_problems(experiment, world)
    yield from _global_problems(experiment, world)
    produced: dict[tuple[str, str], str] = {}
    for name, entry in experiment["datasets"].items():
        if _kind(world, name) == "dataset":
            yield from _dataset_problems(name, entry, world, produced)
    sound: list[Configured] = []
    for one in experiments.configured(experiment):
        if _kind(world, one.name) == _item_kind(one):
            wrong = list(_block_problems(one, world, produced))
            yield from wrong
            if not wrong:
                sound.append(one)
    for one in sound:
        yield from _format_problems(one, world, produced)
    yield from _loop_problems(sound, world)


def _kind(world: _World, name: str) -> str | None:
    return world.items[name].kind if name in world.items else None


def _item_kind(one: Configured) -> str:
    return "loop" if one.prefix else one.kind


# ---- names ----------------------------------------------------------------------------------


def _name_problems(experiment: Mapping[str, Any], world: _World) -> Iterator[Problem]:
    for section in experiments.SECTIONS:
        kind = section.removesuffix("s")
        wanted = [item.name for item in world.items.values() if item.kind == kind]
        given = experiment.get(section, {})
        for name in given:
            if _kind(world, name) != kind:
                message = f"The toolchain has no {kind} {listed([name])}; it has {listed(wanted)}"
                path: Path = (section, name)
                yield problem(path, "unknown", message, expected=listed(wanted), found=name)
        for name in wanted:
            if name not in given:
                message = f"The {kind} {listed([name])} of the toolchain is not configured"
                path = (section, name) if section in experiment else (section,)
                yield problem(path, "missing", message, expected=f"the {kind} {listed([name])}")


def _global_problems(experiment: Mapping[str, Any], world: _World) -> Iterator[Problem]:
    used = {one.algorithm for one in experiments.configured(experiment)}
    for key, given in experiment.get("globals", {}).items():
        path: Path = ("globals", key)
        if "/" not in key:
            continue
        if key not in used:
            message = f"No block uses the algorithm {key}"
            yield problem(path, "unused", message, expected=listed(sorted(used)), found=key)
        elif key in world.algorithms:
            algorithm = world.algorithms[key]
            yield from parameter_problems(algorithm, given, path, complete=False)


# ---- datasets -------------------------------------------------------------------------------


def _dataset_problems(
    name: str, entry: Mapping[str, Any], world: _World, produced: dict[tuple[str, str], str]
) -> Iterator[Problem]:
    path: Path = ("datasets", name)
    found = _data_set(entry, world, path)
    if isinstance(found, Problem):
        yield found
        return
    for output in world.items[name].outputs:
        if output in found.outputs:
            produced[name, output] = found.outputs[output]
        else:
            known = listed(found.outputs)
            message = (
                f"The set {listed([entry['set']])} has no output {listed([output])}; it has {known}"
            )
            yield problem((*path, "set"), "output", message, expected=output, found=entry["set"])


def _data_set(entry: Mapping[str, Any], world: _World, path: Path) -> DataSet | Problem:
    ref, protocol, set_ = entry["database"], entry["protocol"], entry["set"]
    if ref not in world.databases:
        return problem((*path, "database"), "unknown", f"There is no database {ref}", found=ref)
    try:
        protocols = data_sets(world.databases[ref], world.templates)
    except BadDocument as error:
        message = f"The database {ref} cannot be used: {error.problems[0].message}"
        return problem((*path, "database"), "unknown", message, found=ref)
    if protocol not in protocols:
        known = listed(protocols)
        message = f"The database {ref} has no protocol {listed([protocol])}; it has {known}"
        return problem((*path, "protocol"), "unknown", message, expected=known, found=protocol)
    sets = protocols[protocol]
    if set_ not in sets:
        known = listed(sets)
        message = f"The protocol {listed([protocol])} has no set {listed([set_])}; it has {known}"
        return problem((*path, "set"), "unknown", message, expected=known, found=set_)
    return sets[set_]


# ---- blocks ---------------------------------------------------------------------------------


def _block_problems(
    one: Configured, world: _World, produced: dict[tuple[str, str], str]
) -> Iterator[Problem]:
    algorithm = world.algorithms.get(one.algorithm)
    if algorithm is None:
        message = f"There is no algorithm {one.algorithm}"
        yield problem(one.key("algorithm"), "unknown", message, found=one.algorithm)
        return
    wrong = list(_kind_problems(one, algorithm))
    yield from wrong
    if wrong:
        return
    wrong = list(_port_problems(one, world, algorithm))
    yield from wrong
    if not wrong:
        yield from _channel_problems(one, world, algorithm)
        formats = algos.outputs(algorithm)
        for own, port in one.outputs.items():
            produced[one.name, port] = formats[own]
    yield from parameter_problems(algorithm, one.parameters, one.key("parameters"))
    yield from _slot_problems(one, algorithm)
    yield from _library_problems(one, world, algorithm)


def _kind_problems(one: Configured, algorithm: Mapping[str, Any]) -> Iterator[Problem]:
    path = one.key("algorithm")
    analyzer = algos.is_analyzer(algorithm)
    if analyzer != (one.kind == "analyzer"):
        is_, needed = ("an analyzer", "no analyzer") if analyzer else ("no analyzer", "an analyzer")
        message = f"{one.algorithm} is {is_}; {listed([one.name])} needs {needed}"
        yield problem(path, "kind", message, expected=needed, found=one.algorithm)
        return
    allowed = _ALLOWED_KINDS[one.kind]
    type_ = algorithm.get("type", "legacy")
    if type_ not in allowed:
        message = f"{one.algorithm} is of the type {type_}; here it must be {listed(allowed)}"
        yield problem(path, "kind", message, expected=listed(allowed), found=type_)


def _port_problems(
    one: Configured, world: _World, algorithm: Mapping[str, Any]
) -> Iterator[Problem]:
    item = world.items[one.name]
    in_toolchain = {"inputs": item.inputs, "outputs": item.outputs}
    of_algorithm = {"inputs": [*algos.inputs(algorithm)], "outputs": [*algos.outputs(algorithm)]}
    for side, mapping in (("inputs", one.inputs), ("outputs", one.outputs)):
        path = one.key(side)
        what = side.removesuffix("s")
        yield from _map_problems(
            mapping, of_algorithm[side], path, f"{one.algorithm} has no {what}"
        )
        ports = in_toolchain[side]
        yield from _target_problems(mapping, ports, path, f"{listed([one.name])} has no {what}")
        unused = [port for port in ports if port not in mapping.values()]
        if unused and not one.prefix:
            message = f"The {what} {listed(unused)} of {listed([one.name])} is not mapped"
            yield problem(path, "missing", message, expected=listed(ports))


def _map_problems(
    mapping: Mapping[str, str], ports: list[str], path: Path, nothing: str
) -> Iterator[Problem]:
    for name in mapping:
        if name not in ports:
            message = f"{nothing} {listed([name])}; it has {listed(ports)}"
            yield problem((*path, name), "unknown", message, expected=listed(ports), found=name)
    for name in ports:
        if name not in mapping:
            message = f"The algorithm's {listed([name])} is not mapped to a port of the toolchain"
            yield problem((*path, name), "missing", message, expected="a port of the toolchain")


def _target_problems(
    mapping: Mapping[str, str], ports: tuple[str, ...], path: Path, nothing: str
) -> Iterator[Problem]:
    taken: set[str] = set()
    for name, port in mapping.items():
        if port not in ports:
            message = f"{nothing} {listed([port])}; it has {listed(ports)}"
            yield problem((*path, name), "unknown", message, expected=listed(ports), found=port)
        elif port in taken:
            message = f"Two ports of the algorithm are mapped to {listed([port])}"
            yield problem((*path, name), "duplicate", message, found=port)
        taken.add(port)


def _channel_problems(
    one: Configured, world: _World, algorithm: Mapping[str, Any]
) -> Iterator[Problem]:
    """Each group of an algorithm is one channel, the first one the synchronised channel."""
    item = world.items[one.name]
    channels: dict[int, str] = {0: item.channel}
    owner = {item.channel: 0}
    for name, (group, _) in algos.inputs(algorithm).items():
        feed = world.feeds.get((one.name, one.inputs[name]))
        if feed is None:
            continue
        expected = channels.setdefault(group, feed.channel)
        path = (*one.key("inputs"), name)
        if feed.channel != expected:
            message = (
                f"The input {listed([name])} is synchronised with the channel {listed([expected])} "
                f"in {one.algorithm}, but the toolchain feeds it on {listed([feed.channel])}"
            )
            yield problem(path, "channel", message, expected=expected, found=feed.channel)
        elif owner.setdefault(feed.channel, group) != group:
            message = (
                f"Two groups of {one.algorithm} are fed on the channel {listed([feed.channel])}; "
                "inputs of one channel belong to one group"
            )
            yield problem(path, "channel", message, found=feed.channel)


def _slot_problems(one: Configured, algorithm: Mapping[str, Any]) -> Iterator[Problem]:
    if one.slots > 1 and not algos.is_splittable(algorithm):
        message = f"{one.algorithm} is not splittable: it runs in 1 slot"
        path = (*one.path, "nb_slots")
        yield problem(path, "not_splittable", message, expected="1", found=one.slots)


def _library_problems(
    one: Configured, world: _World, algorithm: Mapping[str, Any]
) -> Iterator[Problem]:
    if world.libraries is None:
        return
    path = one.key("algorithm")
    wrong = check_uses(algorithm, world.libraries)
    for found in wrong:
        message = f"{one.algorithm} cannot be used: {found.message}"
        yield problem(path, found.code, message, found=one.algorithm)
    if wrong or one.environment is None:
        return
    for ref in library_closure(algorithm.get("uses", {}).values(), world.libraries):
        known = world.libraries[ref].get("environments")
        if known and not any((e["name"], e["version"]) == one.environment for e in known):
            named = listed(f"{e['name']} ({e['version']})" for e in known)
            message = f"The library {ref} of {one.algorithm} works only in {named}"
            found_ = "{} ({})".format(*one.environment)
            yield problem(one.path, "environment", message, expected=named, found=found_)


# ---- formats --------------------------------------------------------------------------------


def _format_problems(
    one: Configured, world: _World, produced: Mapping[tuple[str, str], str]
) -> Iterator[Problem]:
    wanted = algos.inputs(world.algorithms[one.algorithm])
    for name, port in one.inputs.items():
        feed = world.feeds.get((one.name, port))
        given = produced.get((feed.from_item, feed.from_port)) if feed else None
        if feed is None or given is None:
            continue
        asked = wanted[name][1]
        if not fmts.fits(given, asked, world.formats):
            message = (
                f"{feed.from_item}.{feed.from_port} gives {given}, "
                f"but {one.name}.{port} takes {asked}"
            )
            path = (*one.key("inputs"), name)
            yield problem(path, "format", message, expected=asked, found=given)


def _loop_problems(sound: list[Configured], world: _World) -> Iterator[Problem]:
    """What the two halves of a loop send each other must be of the same formats."""
    processors = {one.name: one for one in sound if one.kind == "processor"}
    for evaluator in sound:
        processor = processors.get(evaluator.name)
        if evaluator.kind != "evaluator" or processor is None:
            continue
        mine = world.algorithms[evaluator.algorithm]["groups"][0]["loop"]
        theirs = world.algorithms[processor.algorithm]["groups"][0]["loop"]
        for part in ("request", "answer"):
            given, asked = theirs[part]["type"], mine[part]["type"]
            if given != asked:
                message = (
                    f"The {part} of {processor.algorithm} is {given}, "
                    f"but that of {evaluator.algorithm} is {asked}"
                )
                path = evaluator.key("algorithm")
                yield problem(path, "format", message, expected=given, found=asked)
