"""Job scripts of other managers: read their headers, and write them for another manager.

`read` knows `#SBATCH`, `#PBS` (PBS Pro and Torque), `#$`, `#OAR`, `# @`, `#MSUB` and `#BSUB`. What
it does not understand is listed, never dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gristmill.errors import BadValue
from gristmill.headers import _gridengine, _loadleveler, _lsf, _oar, _pbs, _slurm
from gristmill.headers._found import Found
from gristmill.jobs import Job

# directive -> what reads its lines, as (number of the line, text after the directive)
READERS: Mapping[str, Callable[[list[tuple[int, str]], str], Found]] = {
    "#SBATCH": _slurm.read,
    "#PBS": _pbs.read,
    "#MSUB": _pbs.read_moab,
    "#BSUB": _lsf.read,
    "#OAR": _oar.read,
    "#$": _gridengine.read,
    "# @": _loadleveler.read,
}
PATTERNS = {
    "#SBATCH": r"#SBATCH\s+(.*)",
    "#PBS": r"#PBS\s+(.*)",
    "#MSUB": r"#MSUB\s+(.*)",
    "#BSUB": r"#BSUB\s+(.*)",
    "#OAR": r"#OAR\s+(.*)",
    "#$": r"#\$\s+(-.*)",
    "# @": r"#\s*@\s*(.*)",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What a script's header says.

    `attributes` are keyword arguments of `Job`; `not_understood` the options that no attribute
    stands for, each as `line 3: #SBATCH --switches=1: why`; `body` is the script without its
    header; `options` are the raw texts of those, for `native`.
    """

    manager: str
    attributes: Mapping[str, Any]
    not_understood: tuple[str, ...] = ()
    body: str = ""
    options: tuple[str, ...] = field(default=(), repr=False)

    def job(self, *, keep: bool = True, **changes: Any) -> Job:
        """The job that the script is; `keep` hands what was not understood on, as raw options
        of the script's own manager. Raises BadValue when the attributes contradict each other."""
        attributes = {**self.attributes, "script_text": self.body, **changes}
        if keep and self.options and "native" not in attributes:
            attributes["native"] = {self.manager: self.options}
        return Job(**attributes)


def read(text: str, manager: str | None = None) -> Header | None:
    """Read the header of a script; None when it has none.

    With headers of two managers that of `manager` counts, else the first in the script, and the
    lines of the other are listed as not understood. Raises BadValue for a manager that has no
    header lines of its own.
    """
    directives = _directives(text)
    if manager is not None:
        wanted = _directive_of(manager)
        directives = {wanted: directives[wanted]} if wanted in directives else {}
    if not directives:
        return None
    directive = next(iter(directives))
    found = READERS[directive](directives[directive], manager or "")
    others = [
        f"line {number}: {other} {line}: of another manager"
        for other, lines in directives.items()
        for number, line in lines
        if other != directive
    ]
    missed = [f"line {number}: {directive} {option}: {why}" for number, option, why in found.missed]
    return Header(
        found.manager,
        found.attributes,
        (*missed, *others),
        _without(text, directive),
        tuple(option for _, option, _ in found.missed if option),
    )


def read_file(path: str | Path, manager: str | None = None) -> Header | None:
    """Read a script; the job's name is the file's when the header gives none."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BadValue(f"script {path} cannot be read: {error.strerror}") from None
    header = read(text, manager)
    if header is None or "name" in header.attributes:
        return header
    attributes = {"name": Path(path).name, **header.attributes}
    return Header(header.manager, attributes, header.not_understood, header.body, header.options)


def _directive_of(manager: str) -> str:
    from gristmill import registry

    dialect = registry.dialect(manager)
    if dialect.directive not in READERS:
        raise BadValue(f"{dialect.title} has no lines in scripts that could be read")
    return dialect.directive


def _directives(text: str) -> dict[str, list[tuple[int, str]]]:
    """The lines of each directive, in the order of their first line.

    As the managers do, only up to the first command of the script.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith(("#", ":")):
            break
        for directive, pattern in PATTERNS.items():
            if match := re.fullmatch(pattern, line.strip()):
                found.setdefault(directive, []).append((number, match[1].strip()))
                break
    return found


def _without(text: str, directive: str) -> str:
    kept, in_header = [], True
    for line in text.split("\n"):
        in_header = in_header and (not line.strip() or line.lstrip().startswith(("#", ":")))
        if not (in_header and re.fullmatch(PATTERNS[directive], line.strip())):
            kept.append(line)
    return "\n".join(kept)
