"""The cache's entries of blocks that are done, from what their attempts reported. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]
_SUMS = ("cpu_user_seconds", "cpu_system_seconds", "bytes_read", "bytes_written")
_MAXIMA = ("wall_seconds", "peak_memory_mb")  # jobs of a block run side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the cache, with its files."""

    key: str
    algorithm: str
    environment: str
    made_by: Any  #: id of a user
    statistics: Document
    results: Any
    outputs: list[Document] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(output["size"] for output in self.outputs)


def joined(reports: Iterable[Document | None]) -> tuple[Document, list[Document]]:
    """Return what the jobs of a block took together, and all files that they wrote."""
    found = [report for report in reports if report is not None]
    took: Document = {"jobs": len(found)}
    took |= {name: sum(report.get(name) or 0 for report in found) for name in _SUMS}
    took |= {name: max((r.get(name) or 0 for r in found), default=0) for name in _MAXIMA}
    return took, [output for report in found for output in report.get("outputs", ())]


def entries_of(
    blocks: Iterable[Mapping[str, Any]],
    attempts: Iterable[Mapping[str, Any]],
    owners: Mapping[str, Any],
    results: Mapping[str, Any],
) -> dict[str, Entry]:
    """Return the entries of done blocks by key; two blocks of one key make one entry.

    `blocks`: their rows; `attempts`: those of this run that are done; `owners`: by experiment;
    `results`: of analyzers, by block.
    """
    reports: dict[Any, list[Document | None]] = defaultdict(list)
    for attempt in attempts:
        reports[attempt["block_id"]].append(attempt["statistics"])
    made: dict[str, Entry] = {}
    for block in blocks:
        statistics, outputs = joined(reports[block["id"]])
        entry = Entry(
            key=block["key"],
            algorithm=block["algorithm"],
            environment=f"{block['environment_name']} ({block['environment_version']})",
            made_by=owners.get(str(block["experiment_id"])),
            statistics=statistics,
            results=results.get(str(block["id"])),
            outputs=outputs,
        )
        made.setdefault(entry.key, entry)
    return made
