"""`#OAR` lines, after oarsub(1)."""

from __future__ import annotations

import re

from gristmill.errors import BadValue
from gristmill.headers._found import (
    Found,
    Value,
    apply,
    attribute,
    feature,
    flag,
    options,
    output,
    placeholders,
    words,
)

SHORT = {
    "--name": "-n", "--resource": "-l", "--queue": "-q", "--property": "-p", "--type": "-t",
    "--directory": "-d", "--stdout": "-O", "--stderr": "-E",
}  # fmt: skip
TAGS = {"RUNNING": "begin", "START": "begin", "END": "end", "ERROR": "abort"}
_path = placeholders({"%jobid%": "j", "%jobname%": "x"})


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    found = Found("oar")
    for number, line in lines:
        for name, value, shown in options(words(found, number, line), ("--hold",)):
            apply(found, number, SHORT.get(name, name), value, TABLE, shown)
    return found


def _resources(found: Found, text: str) -> None:
    """`/nodes=2/core=4,walltime=1:30:0`. A walltime of one number is hours."""
    if "+" in text or "{" in text:
        raise BadValue("groups of resources have no common form")
    shape, _, wall = text.partition(",")
    if wall:
        key, _, value = wall.partition("=")
        if key != "walltime":
            raise BadValue(f"{wall!r} has no common form")
        hours, minutes, seconds = (*map(int, value.split(":")), 0, 0)[:3]
        found.set("time", hours * 3600 + minutes * 60 + seconds)
    counts = dict(part.split("=") for part in shape.strip("/").split("/"))
    if not counts.keys() <= {"nodes", "host", "core"}:
        raise BadValue(f"{shape!r} has levels that not every site has")
    nodes, cores = counts.get("nodes") or counts.get("host"), counts.get("core")
    if nodes is None:
        found.set("tasks", int(cores or 1))
        return
    found.set("nodes", int(nodes))
    if cores is None:
        found.set("exclusive", True)
    else:
        found.set("cores_per_node", int(cores))


def _properties(found: Found, text: str) -> None:
    terms = re.split(r"\s+(?:AND|and)\s+", text.strip())
    matches = [re.fullmatch(r"(\w+)\s*=\s*'([\w./+=@^-]*)'", term) for term in terms]
    for match in matches:
        if match is None:
            raise BadValue("only properties that are all equal to a value have a common form")
        feature(found, match[1] if match[2] == "YES" else f"{match[1]}={match[2]}")


def _type(found: Found, text: str) -> None:
    kind, _, value = text.partition("=")
    if kind == "inner":
        found.set("reservation", value)
    elif kind == "idempotent":
        found.set("requeue", True)
    else:
        raise BadValue(f"the type {kind!r} has no common form")


def _notify(found: Found, text: str) -> None:
    match = re.fullmatch(r"(?:\[([A-Z,]*)\])?mail:(\S+)", text)
    if not match:
        raise BadValue("only mail has a common form")
    found.set("mail_to", match[2])
    if match[1]:
        found.set("mail_on", [TAGS[tag] for tag in match[1].split(",")])


def _array(found: Found, text: str) -> None:
    found.set("array", f"1-{int(text)}" if int(text) > 1 else "1")


TABLE: dict[str, Value] = {
    "-n": attribute("name"),
    "-l": _resources,
    "-q": attribute("queue"),
    "-p": _properties,
    "-t": _type,
    "-d": attribute("directory"),
    "-O": lambda found, text: output(found, "stdout", _path(text)),
    "-E": lambda found, text: output(found, "stderr", _path(text)),
    "--project": attribute("project"),
    "--notify": _notify,
    "--hold": flag("hold", "user"),
    "--array": _array,
}
