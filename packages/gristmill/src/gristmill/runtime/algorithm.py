"""Drives an algorithm or analyzer through BEAT's interfaces: legacy, sequential, autonomous."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.runtime import code, messages, parameters
from gristmill.runtime.errors import AlgorithmError, JobError
from gristmill.runtime.files import DataFile, FileWriter, Source
from gristmill.runtime.inputs import Input, InputGroup, InputList
from gristmill.runtime.job import InputPort, Job
from gristmill.runtime.loaders import DataLoader, DataLoaderList
from gristmill.runtime.outputs import Output, OutputList, Results, Sink, Unconnected
from gristmill.runtime.types import resolve

TYPES = ("legacy", "sequential", "autonomous")


@dataclass(slots=True)
class Written:
    """What a job left behind."""

    outputs: dict[str, dict[str, Any]]
    results: dict[str, Any] | None
    statistics: dict[str, int]


class Ports:
    """The data of a job: sources read, files written."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.sources = {port.name: _source(port, job) for port in job.inputs}
        self.main = [port for port in job.inputs if port.group == 0]
        if job.kind != "dataset" and not self.main:
            raise JobError("no input is synchronised (group 0), so there is nothing to run over")
        self.first = _edge(self.sources, self.main, "starts", 0)
        self.last = _edge(self.sources, self.main, "ends", -1)
        self.writers: dict[str, FileWriter] = {}

    def groups(self) -> dict[int, list[InputPort]]:
        """Return the ports of each group, the synchronised one first."""
        found: dict[int, list[InputPort]] = {}
        for port in sorted(self.job.inputs, key=lambda port: port.group):
            found.setdefault(port.group, []).append(port)
        return found

    def writer(self, name: str, reference: str) -> FileWriter:
        """Open the file of an output."""
        folder = self.job.folder / "outputs"
        folder.mkdir(exist_ok=True)
        kind = resolve(reference, self.job.formats)
        self.writers[name] = FileWriter(_inside(folder, f"{name}.arrow"), reference, kind)
        return self.writers[name]

    def close(self, ends: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Finish the files; say for result.json what is in them."""
        for writer in self.writers.values():
            writer.close()
        return {
            name: {
                "file": f"outputs/{writer.path.name}",
                "rows": writer.rows,
                "first": self.first,
                "last": ends[name],
            }
            for name, writer in self.writers.items()
        }

    def statistics(self, units: int) -> dict[str, int]:
        """Count what was read and written, in bytes, and the data units processed."""
        return {
            "bytes_read": sum(source.bytes_read for source in self.sources.values()),
            "bytes_written": sum(writer.bytes_written for writer in self.writers.values()),
            "units": units,
        }


def _inside(folder: Path, name: str) -> Path:
    if "/" in name or name.startswith("."):
        raise JobError(f"output name {name!r} is not a plain name")
    return folder / name


def _source(port: InputPort, job: Job) -> Source:
    kind = resolve(port.format, job.formats)
    files = [DataFile(path, port.format, kind) for path in port.files]
    return Source(files, job.range if port.group == 0 else None, port.name)


def _edge(sources: Mapping[str, Source], ports: list[InputPort], which: str, place: int) -> int:
    """Return the first or last data unit of the synchronised inputs; all must agree."""
    edges = {port.name: getattr(sources[port.name], which) for port in ports}
    found = {name: int(units[place]) for name, units in edges.items() if len(units)}
    if len(set(found.values())) > 1 or len(found) not in (0, len(ports)):
        raise JobError(f"the synchronised inputs cover different data units: {found}")
    return next(iter(found.values()), place)


def run(job: Job) -> Written:
    """Run a block or an analyzer. User code's exceptions go through as they are."""
    kind = job.declaration.get("type", "legacy")
    if kind not in TYPES:
        raise JobError(f"algorithms of type {kind!r} are not known here, only {', '.join(TYPES)}")
    ports = Ports(job)
    algorithm = code.load(job)()
    _setup(algorithm, job)
    if job.declaration.get("api_version", 1) == 1:
        kind = "legacy"
    return (
        _autonomous(algorithm, ports) if kind == "autonomous" else _driven(algorithm, ports, kind)
    )


def _setup(algorithm: Any, job: Job) -> None:
    if hasattr(algorithm, "setup"):
        given = parameters.typed(job.parameters, job.declaration.get("parameters") or {})
        _accept(algorithm.setup(given), "setup")


def _prepare(algorithm: Any, loaders: DataLoaderList) -> None:
    if hasattr(algorithm, "prepare"):
        _accept(algorithm.prepare(loaders), "prepare")


def _accept(answer: Any, method: str) -> None:
    if not answer:
        raise AlgorithmError(
            f"{method}() returned {answer!r}: a false value means that the algorithm failed "
            "(return True when all is well)"
        )


def _driven(algorithm: Any, ports: Ports, kind: str) -> Written:
    """Legacy and sequential: the platform goes through the data, step by step."""
    legacy = kind == "legacy"
    inputs = InputList(_input_groups(ports, main_only=not legacy))
    main = inputs.main_group
    assert main is not None
    outputs = _outputs(ports, lambda: main.last_data_index)
    target: OutputList | Results = outputs
    if ports.job.kind == "analyzer":
        target = Results(ports.job.declaration.get("results") or {})
    arguments: tuple[Any, ...] = (inputs, target)
    if not legacy:
        loaders = _loaders(ports).secondaries()
        _prepare(algorithm, loaders)
        arguments = (inputs, loaders, target)
    steps, total = 0, max(1, ports.last - ports.first + 1)
    while main.hasMoreData():
        main._advance()
        _accept(algorithm.process(*arguments), "process")
        steps += 1
        messages.current.progress((main.last_data_index - ports.first + 1) / total)
    return _finish(ports, outputs, target, steps)


def _autonomous(algorithm: Any, ports: Ports) -> Written:
    """The algorithm goes through the data itself, in one call."""
    loaders = _loaders(ports)
    outputs = _outputs(ports, None)
    target: OutputList | Results = outputs
    if ports.job.kind == "analyzer":
        target = Results(ports.job.declaration.get("results") or {})
    _prepare(algorithm, loaders.secondaries())
    _accept(algorithm.process(loaders, target), "process")
    main = loaders.main_loader
    return _finish(ports, outputs, target, 0 if main is None else main.count())


def _input_groups(ports: Ports, main_only: bool) -> list[InputGroup]:
    return [
        InputGroup(
            members[0].channel,
            [Input(port.name, port.format, ports.sources[port.name]) for port in members],
            restricted_access=number == 0,
        )
        for number, members in ports.groups().items()
        if number == 0 or not main_only
    ]


def _loaders(ports: Ports) -> DataLoaderList:
    loaders = {
        number: DataLoader(
            members[0].channel, {port.name: ports.sources[port.name] for port in members}
        )
        for number, members in ports.groups().items()
    }
    return DataLoaderList(list(loaders.values()), loaders.get(0))


def _outputs(ports: Ports, current: Any) -> OutputList:
    if ports.job.kind == "analyzer":
        return OutputList([])
    connected = {port.name: port.format for port in ports.job.outputs}
    groups = ports.job.declaration.get("groups") or [{}]
    declared = {name: port["type"] for name, port in (groups[0].get("outputs") or {}).items()}
    return OutputList(
        [
            Output(name, reference, _sink(ports, name, reference, name in connected),
                   ports.first - 1, current)
            for name, reference in {**declared, **connected}.items()
        ]
    )  # fmt: skip


def _sink(ports: Ports, name: str, reference: str, connected: bool) -> Sink:
    if connected:
        return ports.writer(name, reference)
    formats = ports.job.formats
    return Unconnected(resolve(reference, formats) if reference in formats else None)


def _finish(ports: Ports, outputs: OutputList, target: OutputList | Results, units: int) -> Written:
    missing = [
        output.name
        for output in outputs
        if output.isConnected() and output.last_written_data_index != ports.last
    ]
    if missing and units:
        raise AlgorithmError(f"Missing data on the following output(s): {', '.join(missing)}")
    results = None
    if isinstance(target, Results):
        if target.written is None:
            raise AlgorithmError("the analyzer ended without writing its results")
        results = target.written
    written = ports.close({output.name: output.last_written_data_index for output in outputs})
    return Written(written, results, ports.statistics(units))
