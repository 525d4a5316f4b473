"""Paths of stdout and stderr: one set of placeholders, written as each manager wants them.

`%j` the id of the job (of the element, in an array), `%A` the id of the array (of the job, outside
one), `%a` the index, `%x` the name, `%%` a percent sign. Any other `%` stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gristmill.jobs import Spec

PLACEHOLDERS = "jAax"
_PIECE = re.compile(r"%([jAax%])")


def default_stdout(spec: Spec) -> str:
    """Where output goes when the job does not say: the job's name and id, in its directory."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", spec.name)[:60] or "job"
    return f"{name}.%A_%a.out" if spec.array else f"{name}.%j.out"


def outputs(spec: Spec) -> dict[str, str]:
    """The patterns of stdout and, unless it is joined to it, of stderr."""
    stdout = spec.stdout or default_stdout(spec)
    if spec.join:
        return {"stdout": stdout}
    return {"stdout": stdout, "stderr": spec.stderr or default_stdout(spec)[:-4] + ".err"}


def used(pattern: str) -> frozenset[str]:
    """The placeholders in it, without the percent sign."""
    return frozenset(_PIECE.findall(pattern)) - {"%"}


def translate(
    pattern: str, names: Mapping[str, str], quote: Callable[[str], str] = lambda text: text
) -> str:
    """The pattern with each placeholder replaced by `names[letter]` and the rest quoted."""
    pieces = _PIECE.split(pattern)
    out = []
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            out.append(quote(piece) if piece else "")
        else:
            out.append(quote("%") if piece == "%" else names[piece])
    return "".join(out)


def expand(pattern: str, *, job: str, array: str, index: int | None, name: str) -> str:
    """The path itself, once the ids are known."""
    known = {"j": job, "A": array, "a": "" if index is None else str(index), "x": name}
    return translate(pattern, known)
