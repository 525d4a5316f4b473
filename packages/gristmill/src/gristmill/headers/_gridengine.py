"""`#$` lines, after qsub(1) of Grid Engine."""

from __future__ import annotations

import re

from gristmill import quantities
from gristmill.errors import BadValue
from gristmill.headers._found import (
    Found,
    Value,
    apply,
    attribute,
    clock,
    feature,
    flag,
    licence,
    mail,
    moment,
    nothing,
    options,
    output,
    placeholders,
    raw,
    whole,
    words,
)

FLAGS = ("-h", "-V", "-cwd", "-notify", "-verify", "-terse")
LETTERS = {"b": "begin", "e": "end", "a": "abort", "s": "abort"}
_path = placeholders({
    "${JOB_ID}": "j", "$JOB_ID": "j", "${TASK_ID}": "a", "$TASK_ID": "a", "$SGE_TASK_ID": "a",
    "${JOB_NAME}": "x", "$JOB_NAME": "x",
})  # fmt: skip


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    found = Found("gridengine")
    for number, line in lines:
        for name, value, shown in _words(found, number, line):
            if name == "-l":
                for item in value.split(","):
                    _resource(found, number, item)
            else:
                apply(found, number, name, value, TABLE, shown)
    _finish(found)
    return found


def _words(found: Found, number: int, line: str) -> list[tuple[str, str, str]]:
    """-pe has two values."""
    text = words(found, number, line)
    if "-pe" in text[:-2]:
        at = text.index("-pe")
        text[at + 1 : at + 3] = [f"{text[at + 1]} {text[at + 2]}"]
    return list(options(text, FLAGS))


def _resource(found: Found, number: int, item: str) -> None:
    name, _, value = item.partition("=")
    if name in RESOURCES:
        apply(found, number, name, value, RESOURCES, f"-l {item}")
    elif value in ("", "true", "TRUE", "1"):
        feature(found, name)
    elif value.isdigit():
        licence(found, name, value)
    else:
        found.miss(number, f"-l {item}")


def _environment(found: Found, text: str) -> None:
    """smp means one node; others spread by their own rules."""
    name, slots = text.split()
    if name == "smp":
        found.set("nodes", 1)
        found.set("cores_per_node", int(slots))
    elif name in ("mpi", "orte", "openmpi"):
        found.set("tasks", int(slots))
    else:
        raise BadValue(f"only the site knows what the parallel environment {name!r} is")


def _join(found: Found, text: str) -> None:
    if text in ("y", "yes"):
        found.attributes.pop("stderr", None)


def _context(found: Found, text: str) -> None:
    if not text.startswith("gristmill="):
        raise BadValue("no attribute stands for it")


def _shell(found: Found, text: str) -> None:
    if text not in ("/bin/sh", "/bin/bash"):
        raise BadValue("write the shell in the script's first line")


def _finish(found: Found) -> None:
    """The throttle, and what is counted for each slot."""
    if "tc" in found.raw and "array" in found.attributes:
        found.set("array", f"{found.attributes['array']}%{found.raw['tc']}")
    slots = found.attributes.get("cores_per_node") or found.attributes.get("tasks") or 1
    if "h_vmem" in found.raw:
        found.set("memory", found.raw["h_vmem"] * slots)
    if "gpu" in found.raw:
        found.set("gpus", found.raw["gpu"] * slots)
    if "licences" in found.attributes:
        counts = found.attributes["licences"].items()
        found.set("licences", {name: count * slots for name, count in counts})


RESOURCES: dict[str, Value] = {
    "h_rt": attribute("time", clock),
    "h_vmem": raw("h_vmem", quantities.bytes_of),
    "gpu": raw("gpu", whole),
    "exclusive": flag("exclusive"),
}
TABLE: dict[str, Value] = {
    "-N": attribute("name"),
    "-q": attribute("queue"),
    "-P": attribute("project"),
    "-A": attribute("account"),
    "-ar": attribute("reservation"),
    "-p": attribute("priority", whole),
    "-pe": _environment,
    "-m": mail(LETTERS),
    "-M": attribute("mail_to"),
    "-r": lambda found, text: found.set("requeue", {"y": True, "yes": True, "n": False}[text]),
    "-a": attribute("begin", moment),
    "-h": flag("hold", "user"),
    "-t": attribute("array", lambda text: re.sub(r":1$", "", text)),
    "-tc": raw("tc", whole),
    "-wd": attribute("directory"),
    "-cwd": nothing,
    "-i": attribute("stdin"),
    "-o": lambda found, text: output(found, "stdout", _path(text)),
    "-e": lambda found, text: output(found, "stderr", _path(text)),
    "-j": _join,
    "-S": _shell,
    "-ac": _context,
}
