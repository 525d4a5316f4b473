"""What the command prints: tables, plain or by rich, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

STYLES = {
    "done": "green", "running": "cyan", "failed": "red", "timed out": "red", "lost": "red",
    "out of memory": "red", "node failure": "red", "cancelled": "yellow", "held": "yellow",
}  # fmt: skip


def is_rich() -> bool:
    """Whether the extra is installed and somebody looks at a terminal."""
    if not sys.stdout.isatty():
        return False
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under their headings; None is `-`."""
    texts = [["-" if value is None else str(value) for value in row] for row in rows]
    if is_rich():
        _rich_table(columns, texts)
        return
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for row in (columns, *texts):
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = Table(*columns, box=None, header_style="bold")
    for row in rows:
        found.add_row(*(Text(text, style=STYLES.get(text, "")) for text in row))
    Console().print(found)


def as_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def warn(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"gristmill: {text}\n")


class Progress:
    """How many jobs of a group have ended: a bar on a terminal, a line a change elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._rich: Any = None
        if is_rich():
            from rich.progress import Progress as Bar

            self._rich = Bar()
            self._rich.start()
            self._task = self._rich.add_task("jobs", total=total)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()

    def show(self, text: str, ended: int) -> None:
        """A change, and how many have ended so far."""
        if self._rich is None:
            print(f"[{ended}/{self.total}] {text}", flush=True)
        else:
            self._rich.console.print(text, markup=False, highlight=False)
            self._rich.update(self._task, completed=ended)
