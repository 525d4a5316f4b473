"""From declarations to blocks that can run: placement, job.json, keys, order. Pure.

What comes in was checked by `gristmill.formats` (names, ports, types, synchronisation, graph);
here only what the house decides is checked: queues, environments, slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backend.app.experiments import keys
from backend.scheduler.core.model import BlockKind, Environment
from gristmill.formats.databases import DataSet, data_sets
from gristmill.formats.dataformats import resolve
from gristmill.formats.parameters import clean_parameters
from gristmill.formats.problems import Path, Problem, listed, problem
from gristmill.formats.toolchains import Connection, connections, topological_order

Declaration = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSource:
    """A version of an algorithm."""

    declaration: Declaration
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySource:
    """A version of a library."""

    declaration: Declaration
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """An uploaded file of a database."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource:
    """A version of a database."""

    declaration: Declaration
    source: str
    files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Everything that an experiment names, by reference; libraries and formats as closures."""

    algorithms: Mapping[str, AlgorithmSource] = field(default_factory=dict)
    libraries: Mapping[str, LibrarySource] = field(default_factory=dict)
    formats: Mapping[str, Declaration] = field(default_factory=dict)
    databases: Mapping[str, DatabaseSource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffer:
    """A queue that the user may use, with the right on it."""

    id: str
    name: str
    slots: int  #: the right
    priority: int
    environments: frozenset[Environment]
    default_environment: Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a block runs."""

    queue: QueueOffer
    environment: Environment
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBlock:
    """A block as its row will hold it."""

    name: str
    kind: BlockKind
    position: int
    inputs: tuple[str, ...]  #: names of the blocks it reads, sorted
    algorithm: str  #: author/name/version, or database/version/protocol/set
    parameters: dict[str, Any]
    placement: Placement
    key: str
    job: dict[str, Any]  #: what the row's `job` holds: see `job_row`


# ---- the toolchain ----


def items(toolchain: Declaration) -> Iterator[tuple[BlockKind, Declaration]]:
    """Yield every dataset, block and analyzer."""
    for section, kind in (
        ("datasets", BlockKind.DATASET),
        ("blocks", BlockKind.BLOCK),
        ("analyzers", BlockKind.ANALYZER),
    ):
        for item in toolchain.get(section, ()):
            yield kind, item


def unsupported(toolchain: Declaration) -> list[Problem]:
    """Return what a checked toolchain holds that cannot be run."""
    return [
        problem(
            ("loops", index),
            "unsupported",
            f"The toolchain has a loop {listed([loop['name']])}; loops cannot be run",
            expected="a toolchain without loops",
        )
        for index, loop in enumerate(toolchain.get("loops", ()))
    ]


def section_of(kind: BlockKind) -> str:
    """Return the section of the experiment's declaration that configures this kind."""
    return {"dataset": "datasets", "block": "blocks", "analyzer": "analyzers"}[kind]


# ---- placement ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placing:
    """What placing one item needs to know."""

    experiment: Declaration
    queues: Mapping[str, QueueOffer]

    @property
    def globals(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.experiment.get("globals", {})
        return found


def place(
    toolchain: Declaration,
    experiment: Declaration,
    queues: Iterable[QueueOffer],
    databases: Mapping[str, DatabaseSource],
) -> tuple[dict[str, Placement], list[Problem]]:
    """Say where each item runs, or what is wrong with where it should.

    A block's queue and environment are its own, else those of `globals`, else the queue's default
    environment. A dataset runs on the queue of `globals`, else on that of the first block.
    """
    placing = _Placing(experiment=experiment, queues={queue.name: queue for queue in queues})
    placements: dict[str, Placement] = {}
    problems: list[Problem] = []
    kinds = {item["name"]: kind for kind, item in items(toolchain)}
    for name in sorted(topological_order(toolchain), key=lambda n: kinds[n] == BlockKind.DATASET):
        if kinds[name] == BlockKind.DATASET:
            found = _place_dataset(name, placing, databases, placements)
        else:
            found = _place_block(name, section_of(kinds[name]), placing)
        if isinstance(found, Placement):
            placements[name] = found
        else:
            problems.append(found)
    return placements, problems


def _place_block(name: str, section: str, placing: _Placing) -> Placement | Problem:
    config = placing.experiment[section][name]
    at: Path = (section, name)
    queue = _queue(config, at, placing)
    if isinstance(queue, Problem):
        return queue
    environment = _environment(config, at, queue, placing)
    if isinstance(environment, Problem):
        return environment
    slots = config.get("nb_slots", 1)
    if slots > queue.slots:
        return problem(
            (*at, "nb_slots"),
            "slots",
            f"Queue {listed([queue.name])} gives you {queue.slots} slots, the block asks {slots}",
            expected=f"at most {queue.slots}",
            found=slots,
        )
    return Placement(queue=queue, environment=environment, slots=slots)


def _queue(config: Mapping[str, Any], at: Path, placing: _Placing) -> QueueOffer | Problem:
    path: Path = (*at, "queue") if "queue" in config else ("globals", "queue")
    name = config.get("queue", placing.globals.get("queue"))
    usable = listed(sorted(placing.queues))
    if name is None:
        return problem(
            (*at, "queue"),
            "missing",
            f"No queue is given, neither here nor in globals; you may use {usable}",
            expected=usable,
        )
    if name in placing.queues:
        return placing.queues[name]
    message = f"You have no right to a queue {listed([name])}; you may use {usable}"
    return problem(path, "queue", message, expected=usable, found=name)


def _environment(
    config: Mapping[str, Any], at: Path, queue: QueueOffer, placing: _Placing
) -> Environment | Problem:
    path: Path = (*at, "environment")
    given = config.get("environment")
    if given is None:
        path, given = ("globals", "environment"), placing.globals.get("environment")
    if given is None:
        return queue.default_environment
    wanted = (given["name"], given["version"])
    if wanted in queue.environments:
        return wanted
    offered = listed(sorted(_spelt(e) for e in queue.environments))
    message = (
        f"Queue {listed([queue.name])} does not offer the environment {_spelt(wanted)}; "
        f"it offers {offered}"
    )
    return problem(path, "environment", message, expected=offered, found=_spelt(wanted))


def _place_dataset(
    name: str,
    placing: _Placing,
    databases: Mapping[str, DatabaseSource],
    placements: Mapping[str, Placement],
) -> Placement | Problem:
    candidates = _queues_for_datasets(placing, placements)
    at: Path = ("datasets", name)
    if not candidates:
        message = "You have no right to any queue, so the dataset cannot be read"
        return problem(at, "queue", message)
    database = databases[placing.experiment["datasets"][name]["database"]]
    given = database.declaration.get("environment")
    if given is None:
        return _placed_anywhere(candidates, placing.globals.get("environment"))
    wanted = (given["name"], given["version"])
    for queue in candidates:
        if wanted in queue.environments:
            return Placement(queue=queue, environment=wanted, slots=1)
    message = f"The database needs the environment {_spelt(wanted)}; no queue of yours offers it"
    return problem((*at, "database"), "environment", message, expected=_spelt(wanted))


def _queues_for_datasets(
    placing: _Placing, placements: Mapping[str, Placement]
) -> list[QueueOffer]:
    """Return the queues to try, best first: that of globals, those in use, all others."""
    first = placing.queues.get(placing.globals.get("queue", ""))
    used = [placement.queue for placement in placements.values()]
    rest = [placing.queues[name] for name in sorted(placing.queues)]
    unique = {queue.id: queue for queue in [*([first] if first else []), *used, *rest]}
    return list(unique.values())


def _placed_anywhere(
    candidates: Sequence[QueueOffer], given: Mapping[str, str] | None
) -> Placement:
    wanted = (given["name"], given["version"]) if given else None
    for queue in candidates:
        if wanted in queue.environments:
            return Placement(queue=queue, environment=wanted, slots=1)
    queue = candidates[0]
    return Placement(queue=queue, environment=queue.default_environment, slots=1)


def _spelt(environment: Environment) -> str:
    return "/".join(environment)


# ---- blocks ----


@dataclass(slots=True, kw_only=True)
class _Planner:
    toolchain: Declaration
    experiment: Declaration
    sources: Sources
    placements: Mapping[str, Placement]
    feeds: Mapping[tuple[str, str], Connection]  #: what feeds each (item, input)
    outputs: dict[tuple[str, str], str] = field(default_factory=dict)  #: toolchain's -> own name
    keys: dict[str, str] = field(default_factory=dict)
    #: what is the same for all blocks that use one thing, made once
    known: dict[tuple[str, str], Any] = field(default_factory=dict)

    def _once(self, what: str, ref: str, make: Callable[[], Any]) -> Any:
        if (what, ref) not in self.known:
            self.known[what, ref] = make()
        return self.known[what, ref]

    def dataset(self, item: Declaration, position: int) -> PlannedBlock:
        name = item["name"]
        config = self.experiment["datasets"][name]
        database = self.sources.databases[config["database"]]
        sets = self._once("sets", config["database"], lambda: data_sets(database.declaration))
        view: DataSet = sets[config["protocol"]][config["set"]]
        for output in view.outputs:
            self.outputs[name, output] = output
        placement = self.placements[name]
        self.keys[name] = keys.dataset_key(
            database=self._once("database", config["database"], lambda: _hash_of(database)),
            protocol=config["protocol"],
            set_name=config["set"],
            environment=placement.environment,
            formats=self._format_hashes(view.outputs.values()),
        )
        return PlannedBlock(
            name=name,
            kind=BlockKind.DATASET,
            position=position,
            inputs=(),
            algorithm=f"{config['database']}/{config['protocol']}/{config['set']}",
            parameters=dict(view.parameters),
            placement=placement,
            key=self.keys[name],
            job=job_row(self._dataset_job(name, view, database), {}, database.files),
        )

    def _dataset_job(self, name: str, view: DataSet, database: DatabaseSource) -> dict[str, Any]:
        folder = database.declaration.get("root_folder")
        return {
            "schema": 1,
            "kind": "dataset",
            "entry": {"file": "algorithm/view.py", "name": view.view},
            "declaration": {"outputs": {o: {"type": t} for o, t in view.outputs.items()}},
            "parameters": dict(view.parameters),
            "root": "data" if database.files or not folder else folder,
            "libraries": {},
            "uses": {},
            "formats": self._formats(view.outputs.values()),
            "channel": name,
            "inputs": [],
            "outputs": [
                {"name": output, "channel": name, "format": ref}
                for output, ref in view.outputs.items()
            ],
        }

    def block(self, kind: BlockKind, item: Declaration, position: int) -> PlannedBlock:
        name = item["name"]
        config = self.experiment[section_of(kind)][name]
        algorithm = self.sources.algorithms[config["algorithm"]]
        for own, theirs in config.get("outputs", {}).items():
            self.outputs[name, theirs] = own
        sources = {own: self.feeds[name, theirs] for own, theirs in config["inputs"].items()}
        reads = {
            own: (self.keys[feed.from_item], self.outputs[feed.from_item, feed.from_port])
            for own, feed in sources.items()
        }
        parameters = self._parameters(config, algorithm)
        self.keys[name] = self._block_key(kind, name, algorithm, parameters, reads)
        job = self._block_job(kind, item, algorithm, parameters, sources)
        return PlannedBlock(
            name=name,
            kind=kind,
            position=position,
            inputs=tuple(sorted({feed.from_item for feed in sources.values()})),
            algorithm=config["algorithm"],
            parameters=parameters,
            placement=self.placements[name],
            key=self.keys[name],
            job=job_row(job, reads, ()),
        )

    def _parameters(self, config: Mapping[str, Any], algorithm: AlgorithmSource) -> dict[str, Any]:
        general = self.experiment.get("globals", {}).get(config["algorithm"], {})
        return clean_parameters(algorithm.declaration, {**general, **config.get("parameters", {})})

    def _block_key(
        self,
        kind: BlockKind,
        name: str,
        algorithm: AlgorithmSource,
        parameters: Mapping[str, Any],
        reads: Mapping[str, tuple[str, str]],
    ) -> str:
        ref = self.experiment[section_of(kind)][name]["algorithm"]

        def hash_algorithm() -> str:
            return keys.algorithm_hash(algorithm.declaration, algorithm.source)

        return keys.block_key(
            kind=kind.value,
            algorithm=self._once("algorithm", ref, hash_algorithm),
            libraries=self._once("libraries", ref, lambda: self._libraries(algorithm)),
            parameters=parameters,
            environment=self.placements[name].environment,
            inputs=reads,
            formats=self._format_hashes(port_formats(algorithm.declaration)),
        )

    def _libraries(self, algorithm: AlgorithmSource) -> dict[str, Any]:
        """Return the tree of hashes of what an algorithm uses."""
        uses = algorithm.declaration.get("uses", {})
        closure = library_closure(uses, self.sources.libraries)
        hashes = {r: keys.library_hash(s.declaration, s.files) for r, s in closure.items()}
        uses_of = {r: s.declaration.get("uses", {}) for r, s in closure.items()}
        return keys.library_tree(uses, hashes, uses_of)

    def _block_job(
        self,
        kind: BlockKind,
        item: Declaration,
        algorithm: AlgorithmSource,
        parameters: Mapping[str, Any],
        sources: Mapping[str, Connection],
    ) -> dict[str, Any]:
        declaration = algorithm.declaration
        channel = item["synchronized_channel"]
        closure = library_closure(declaration.get("uses", {}), self.sources.libraries)
        return {
            "schema": 1,
            "kind": kind.value,
            "entry": {"file": "algorithm/algorithm.py", "name": "Algorithm"},
            "declaration": dict(declaration),
            "parameters": dict(parameters),
            "libraries": {
                ref: {"folder": f"libraries/{ref}", "uses": dict(used.declaration.get("uses", {}))}
                for ref, used in closure.items()
            },
            "uses": dict(declaration.get("uses", {})),
            "formats": self._formats(port_formats(declaration)),
            "channel": channel,
            "inputs": [
                {
                    "name": port,
                    "group": group,
                    "channel": sources[port].channel,
                    "format": details["type"],
                }
                for group, port, details in ports(declaration, "inputs")
            ],
            "outputs": [
                {"name": port, "channel": channel, "format": details["type"]}
                for _, port, details in ports(declaration, "outputs")
            ],
        }

    def _formats(self, refs: Iterable[str]) -> dict[str, Any]:
        formats = self.sources.formats
        return {
            ref: self._once("format", ref, partial(resolve, ref, formats))
            for ref in sorted(set(refs))
        }

    def _format_hashes(self, refs: Iterable[str]) -> list[str]:
        formats = self.sources.formats
        return [
            self._once("format hash", ref, partial(keys.format_hash, ref, formats))
            for ref in sorted(set(refs))
        ]


def _hash_of(database: DatabaseSource) -> str:
    files = {file.path: file.sha256 for file in database.files}
    return keys.database_hash(database.declaration, database.source, files)


def plan(
    toolchain: Declaration,
    experiment: Declaration,
    sources: Sources,
    placements: Mapping[str, Placement],
) -> tuple[PlannedBlock, ...]:
    """Turn a checked experiment into blocks, each after those it reads."""
    planner = _Planner(
        toolchain=toolchain,
        experiment=experiment,
        sources=sources,
        placements=placements,
        feeds={(c.to_item, c.to_port): c for c in connections(toolchain)},
    )
    by_name = {item["name"]: (kind, item) for kind, item in items(toolchain)}
    blocks = []
    for position, name in enumerate(topological_order(toolchain)):
        kind, item = by_name[name]
        if kind == BlockKind.DATASET:
            blocks.append(planner.dataset(item, position))
        else:
            blocks.append(planner.block(kind, item, position))
    return tuple(blocks)


def job_row(
    job: dict[str, Any], reads: Mapping[str, tuple[str, str]], files: Iterable[DataFile]
) -> dict[str, Any]:
    """Return what a block's row holds of its job.

    `job` is job.json without the files of its inputs, the range, the limits and the descriptor
    for messages; `reads` names for each input the producer's key and output; `data` are the
    files of a database.
    """
    return {
        "job": job,
        "reads": {port: {"key": key, "output": output} for port, (key, output) in reads.items()},
        "data": [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in files],
    }


def ports(declaration: Declaration, side: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield (group, name, details) of an algorithm's inputs or outputs."""
    for index, group in enumerate(declaration["groups"]):
        for name, details in group.get(side, {}).items():
            yield index, name, details


def port_formats(declaration: Declaration) -> list[str]:
    """Return the data formats of an algorithm's ports."""
    sides = ("inputs", "outputs")
    return [details["type"] for side in sides for _, _, details in ports(declaration, side)]


def library_closure(
    uses: Mapping[str, str], libraries: Mapping[str, LibrarySource]
) -> dict[str, LibrarySource]:
    """Return the libraries reached through `uses`, by reference, in sorted order."""
    seen: dict[str, LibrarySource] = {}
    todo = list(uses.values())
    while todo:
        ref = todo.pop()
        if ref not in seen:
            seen[ref] = libraries[ref]
            todo += libraries[ref].declaration.get("uses", {}).values()
    return dict(sorted(seen.items()))
