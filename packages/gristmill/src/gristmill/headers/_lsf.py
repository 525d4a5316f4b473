"""`#BSUB` lines, after bsub(1)."""

from __future__ import annotations

import re

from gristmill import quantities
from gristmill.errors import BadValue
from gristmill.headers._found import (
    Found,
    Value,
    apply,
    attribute,
    feature,
    flag,
    licence,
    nothing,
    options,
    output,
    placeholders,
    raw,
    utc,
    whole,
    words,
)

FLAGS = ("-x", "-B", "-N", "-H", "-r", "-rn")
_path = placeholders({"%J": "j", "%I": "a"})


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    found = Found("lsf")
    for number, line in lines:
        for name, value, shown in options(words(found, number, line), FLAGS):
            apply(found, number, name, value, TABLE, shown)
    _finish(found)
    return found


def _wall(text: str) -> int:
    """`[hours:]minutes[/host]`."""
    hours, _, minutes = text.partition("/")[0].rpartition(":")
    return int(hours or 0) * 3600 + int(minutes) * 60


def _name(found: Found, text: str) -> None:
    """`name[1-10:2]%3`; indices count from 1."""
    match = re.fullmatch(r"([^\[]*)(?:\[([\d,:-]+)\](%\d+)?)?", text)
    if not match:
        raise BadValue(f"{text!r} is not a name with indices")
    found.set("name", match[1] or "job")
    if match[2]:
        found.set("array", match[2] + (match[3] or ""))


def _requirement(found: Found, text: str) -> None:
    """`span[...]`, `rusage[...]` and `select[a && b]`, the sections that have a common form."""
    rest = re.sub(r"\s*(\w+)\[([^\]]*)\]", lambda m: _section(found, m[1], m[2]), text)
    if rest.strip():
        raise BadValue(f"{rest.strip()!r} has no common form")


def _section(found: Found, kind: str, inside: str) -> str:
    if kind == "span":
        name, _, count = inside.partition("=")
        found.raw["ptile" if name == "ptile" else "hosts"] = int(count)
    elif kind == "rusage":
        for item in inside.split(","):
            name, _, amount = item.partition("=")
            if name == "mem":
                found.raw.setdefault("mem", quantities.bytes_of(_unit(amount)))
            else:
                licence(found, name, amount)
    elif kind == "select" and re.fullmatch(r"\s*\w+(\s*&&\s*\w+)*\s*", inside):
        for name in inside.split("&&"):
            feature(found, name.strip())
    else:
        return f"{kind}[{inside}]"
    return ""


def _unit(text: str) -> str:
    """Without a unit LSF takes its own, MB as a rule since 10.1."""
    return f"{text}M" if text.isdigit() else text


def _gpu(found: Found, text: str) -> None:
    match = re.fullmatch(r"num=(\d+)(?::gmodel=([\w-]+))?", text)
    if not match:
        raise BadValue("only the number and the model have a common form")
    found.raw["gpu"] = (int(match[1]), match[2])


def _begin(text: str) -> int:
    return utc(text, "%Y:%m:%d:%H:%M")


def _event(name: str) -> Value:
    return lambda found, _: found.raw.setdefault("mail", []).append(name)


def _description(found: Found, text: str) -> None:
    if not text.startswith("gristmill:"):
        raise BadValue("no attribute stands for it")


def _finish(found: Found) -> None:
    """Slots and how many of them lie on a host; GPUs are for each host."""
    slots, each = found.raw.get("n"), found.raw.get("ptile")
    if "hosts" in found.raw:
        each = slots or 1
    nodes = 1
    if slots and each:
        nodes = -(-slots // each)
        found.set("nodes", nodes)
        found.set("cores_per_node", each)
    elif slots:
        found.set("tasks", slots)
    if "gpu" in found.raw:
        count, kind = found.raw["gpu"]
        found.set("gpus", f"{kind}:{count * nodes}" if kind else count * nodes)
    if "limit" in found.raw or "mem" in found.raw:
        found.set("memory", found.raw.get("limit") or found.raw["mem"])
    if "mail" in found.raw:
        found.set("mail_on", found.raw["mail"])


TABLE: dict[str, Value] = {
    "-J": _name,
    "-W": attribute("time", _wall),
    "-n": raw("n", whole),
    "-R": _requirement,
    "-gpu": _gpu,
    "-M": raw("limit", lambda text: quantities.bytes_of(_unit(text))),
    "-q": attribute("queue"),
    "-G": attribute("account"),
    "-P": attribute("project"),
    "-U": attribute("reservation"),
    "-sla": attribute("qos"),
    "-cwd": attribute("directory"),
    "-i": attribute("stdin"),
    "-o": lambda found, text: output(found, "stdout", _path(text)),
    "-oo": lambda found, text: output(found, "stdout", _path(text)),
    "-e": lambda found, text: output(found, "stderr", _path(text)),
    "-eo": lambda found, text: output(found, "stderr", _path(text)),
    "-u": attribute("mail_to"),
    "-B": _event("begin"),
    "-N": _event("end"),
    "-x": flag("exclusive"),
    "-sp": attribute("priority", whole),
    "-r": flag("requeue"),
    "-rn": flag("requeue", False),
    "-b": attribute("begin", _begin),
    "-H": flag("hold", "user"),
    "-Jd": _description,
    "-L": nothing,
}
