"""Runs an experiment of a prefix block by block, with the runtime and nothing of the server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gristmill.formats import (
    Configured,
    clean_parameters,
    configured,
    data_sets,
    library_closure,
    resolve,
    topological_order,
)
from gristmill.formats.algorithms import inputs as inputs_of
from gristmill.formats.algorithms import outputs as outputs_of
from gristmill.formats.toolchains import connections, items
from gristmill.prefixes import DeclaredExperiment, Prefix


@dataclass
class LocalRun:
    """One run; the files of a block's outputs stay in `folder/<block>/outputs`."""

    prefix: Prefix
    experiment: DeclaredExperiment
    folder: Path
    slots: int = 1  #: into how many ranges splittable blocks are cut
    logs: dict[str, str] = field(default_factory=dict)
    written: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    ports: dict[tuple[str, str], str] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Run every block in order; return the results of the analyzers by block."""
        toolchain = self.prefix.of("toolchains")[self.experiment.toolchain].declaration
        self.feeds = {(line.to_item, line.to_port): line for line in connections(toolchain)}
        self.items = {item.name: item for item in items(toolchain)}
        blocks = {one.name: one for one in configured(self.experiment.declaration)}
        results: dict[str, Any] = {}
        for name in topological_order(toolchain):
            if name in blocks:
                found = self._block(blocks[name])
                results |= {name: found} if found else {}
            else:
                self._dataset(name)
        return results

    # -- jobs --

    def _dataset(self, name: str) -> None:
        entry = self.experiment.declaration["datasets"][name]
        database = self.prefix.of("databases")[entry["database"]]
        chosen = data_sets(database.declaration)[entry["protocol"]][entry["set"]]
        same = {output: output for output in chosen.outputs}
        job = {
            "kind": "dataset",
            "entry": {"file": "algorithm/view.py", "name": chosen.view},
            "parameters": dict(chosen.parameters),
            "channel": name,
            "root": "data",
            "outputs": self._outputs(name, dict(chosen.outputs), same),
        }
        folder = self._folder(name, {"algorithm/view.py": database.source})
        self._keep(name, self._call(folder, job), same)

    def _block(self, one: Configured) -> Any:
        algorithm = self.prefix.of("algorithms")[one.algorithm]
        split = self.slots if algorithm.declaration.get("splittable") else 1
        answers = [
            self._call(*self._job(one, algorithm.declaration, algorithm.source, cut, number))
            for number, cut in enumerate(self._ranges(one, split))
        ]
        for answer in answers:
            self._keep(one.name, answer, one.outputs)
        return answers[0]["results"]

    def _job(
        self,
        one: Configured,
        declaration: Mapping[str, Any],
        source: str,
        cut: tuple[int, int] | None,
        number: int,
    ) -> tuple[Path, dict[str, Any]]:
        libraries = {ref: lib.declaration for ref, lib in self.prefix.of("libraries").items()}
        closure = library_closure(declaration.get("uses", {}).values(), libraries)
        files = {"algorithm/algorithm.py": source}
        for ref in closure:
            for path, text in self.prefix.of("libraries")[ref].files.items():
                files[f"libraries/{ref}/{path}"] = text
        folder = self._folder(f"{one.name}.{number}", files)
        job = {
            "kind": one.kind,
            "entry": {"file": "algorithm/algorithm.py", "name": "Algorithm"},
            "declaration": dict(declaration),
            "parameters": clean_parameters(declaration, one.parameters),
            "libraries": {
                ref: {"folder": f"libraries/{ref}", "uses": libraries[ref].get("uses", {})}
                for ref in closure
            },
            "uses": declaration.get("uses", {}),
            "channel": self.items[one.name].channel,
            "inputs": self._inputs(one, declaration, folder),
            "outputs": self._outputs(one.name, outputs_of(declaration), one.outputs),
            "range": cut,
        }
        return folder, job

    def _inputs(
        self, one: Configured, declaration: Mapping[str, Any], folder: Path
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, (group, _) in inputs_of(declaration).items():
            feed = self.feeds[one.name, one.inputs[name]]
            source = (feed.from_item, feed.from_port)
            files = []
            (folder / "inputs").mkdir(exist_ok=True)
            for number, file in enumerate(self.written[source]):
                path = f"inputs/{len(found)}.{number}.arrow"
                (folder / path).symlink_to(file["path"])
                files.append({"path": path, "first": file["first"], "last": file["last"]})
            port = {"name": name, "group": group, "channel": feed.channel}
            found.append(port | {"format": self.ports[source], "files": files})
        return found

    def _outputs(
        self, name: str, formats: Mapping[str, str], mapping: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        for own, port in mapping.items():
            self.ports[name, port] = formats[own]
        channel = self.items[name].channel
        return [{"name": own, "channel": channel, "format": formats[own]} for own in mapping]

    def _ranges(self, one: Configured, split: int) -> list[tuple[int, int] | None]:
        if split == 1:
            return [None]
        feed = next(feed for (name, _), feed in self.feeds.items() if name == one.name)
        last = self.written[feed.from_item, feed.from_port][-1]["last"]
        edges = [round(n * (last + 1) / split) for n in range(split + 1)]
        return [(a, b - 1) for a, b in pairwise(edges)]

    # -- one call of the runtime --

    def _folder(self, name: str, files: Mapping[str, str]) -> Path:
        folder = self.folder / name
        (folder / "data").mkdir(parents=True)
        (folder / "outputs").mkdir()
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    def _call(self, folder: Path, job: dict[str, Any]) -> dict[str, Any]:
        refs = {port["format"] for side in ("inputs", "outputs") for port in job.get(side, ())}
        known = {ref: one.declaration for ref, one in self.prefix.of("dataformats").items()}
        formats = {ref: resolve(ref, known) for ref in refs}
        (folder / "job.json").write_text(json.dumps({"schema": 1, "formats": formats, **job}))
        command = [sys.executable, "-m", "gristmill.runtime", "run", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.logs[folder.name] = done.stdout + done.stderr
        assert done.returncode == 0, f"{folder.name}: {done.stdout}{done.stderr}"
        answer: dict[str, Any] = json.loads((folder / "result.json").read_text())
        answer["folder"] = folder
        return answer

    def _keep(self, name: str, answer: dict[str, Any], mapping: Mapping[str, str]) -> None:
        for own, port in mapping.items():
            file = answer["outputs"][own]
            file["path"] = answer["folder"] / file["file"]
            self.written.setdefault((name, port), []).append(file)
