"""`#PBS` lines of PBS Pro and Torque, after qsub(1B) of both, and `#MSUB` lines of Moab."""

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

FLAGS = ("-h", "-V", "-n", "-E", "-I", "-X", "-z")
LETTERS = {"a": "abort", "b": "begin", "e": "end"}
_path = placeholders({"%%": "%"})


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    """PBS Pro or Torque: by the options that only one of them has, PBS Pro where none is used."""
    text = "\n".join(line for _, line in lines)
    torque = re.search(r"-l\s*(?:\S*,)?(?:nodes=|procs=)|^-[td]\s|^-n\b", text, re.MULTILINE)
    found = Found(manager if manager in ("torque", "pbspro") else "torque" if torque else "pbspro")
    return _read(found, lines, TORQUE if found.manager == "torque" else PBSPRO)


def read_moab(lines: list[tuple[int, str]], manager: str) -> Found:
    return _read(Found("moab"), lines, MOAB)


def _read(found: Found, lines: list[tuple[int, str]], table: dict[str, Value]) -> Found:
    for number, line in lines:
        for name, value, shown in options(words(found, number, line), FLAGS, glued=True):
            if name == "-l":
                _resources(found, number, value)
            else:
                apply(found, number, name, value, table, shown)
    _shape(found)
    _per_node(found)
    return found


def _resources(found: Found, number: int, text: str) -> None:
    """`nodes=2:ppn=4,walltime=1:00:00`: commas divide, but not those inside of a value."""
    for item in re.split(r",(?=[\w.]+=)", text):
        name, _, value = item.partition("=")
        if name in RESOURCES:
            apply(found, number, name, value, RESOURCES, f"-l {item}")
        elif found.manager == "pbspro" and value.isdigit():
            licence(found, name, value)
        else:
            found.miss(number, f"-l {item}")


def _place(found: Found, text: str) -> None:
    for word in text.split(":"):
        if word in ("excl", "exclhost"):
            found.set("exclusive", True)
        elif word in ("scatter", "free", "pack"):
            found.raw["place"] = word
        else:
            raise BadValue(f"{word!r} has no common form")


def _nodes(found: Found, text: str) -> None:
    """`2:ppn=4:gpus=1:bigmem`: the number, cores, GPUs and properties of each."""
    if "+" in text:
        raise BadValue("several kinds of nodes in one job have no common form")
    first, *rest = text.split(":")
    found.set("nodes", int(first))
    for part in rest:
        name, sign, value = part.partition("=")
        if name == "ppn":
            found.raw["ppn"] = int(value)
        elif name == "gpus":
            found.raw["gpus"] = int(value)
        elif not sign:
            feature(found, name)
        else:
            raise BadValue(f"{part!r} has no common form")


def _select(found: Found, text: str) -> None:
    if "+" in text:
        raise BadValue("several kinds of chunks in one job have no common form")
    first, *rest = text.split(":")
    found.raw["chunks"] = int(first)
    for part in rest:
        name, _, value = part.partition("=")
        if name in ("ncpus", "mpiprocs", "ompthreads", "ngpus"):
            found.raw[name] = int(value)
        elif name == "mem":
            found.raw["mem"] = quantities.bytes_of(value)
        elif value == "True":
            feature(found, name)
        else:
            feature(found, part)


def _shape(found: Found) -> None:
    """Chunks are nodes; those of one task each, which may lie anywhere, are tasks."""
    chunks, values = found.raw.get("chunks"), found.raw
    if chunks is None:
        if "ppn" in values:
            found.set("cores_per_node", values["ppn"])
        return
    cores, tasks = values.get("ncpus", 1), values.get("mpiprocs")
    loose = values.get("place") != "scatter" and tasks == 1
    if loose:
        found.set("tasks", chunks)
        found.set("cores_per_task", cores)
        return
    found.set("nodes", chunks)
    if tasks is not None:
        found.set("tasks_per_node", tasks)
    if "ompthreads" in values:
        found.set("cores_per_task", values["ompthreads"])
    found.set("cores_per_node", cores)


def _per_node(found: Found) -> None:
    """What is counted for each chunk or node, for the whole job."""
    count = found.raw.get("chunks") or found.attributes.get("nodes", 1)
    if "mem" in found.raw:
        found.set("memory", found.raw["mem"] * count)
    for name in ("gpus", "ngpus"):
        if name in found.raw:
            found.set("gpus", found.raw[name] * count)


def _join(found: Found, text: str) -> None:
    if text not in ("oe", "eo", "n"):
        raise BadValue(f"{text!r} is not a way to join")
    if text != "n":
        found.attributes.pop("stderr", None)


def _path_of(stream: str) -> Value:
    def read_path(found: Found, text: str) -> None:
        host, sign, path = text.rpartition(":")
        if sign and host:
            raise BadValue("a file on another host has no common form")
        output(found, stream, _path(path))

    return read_path


def _bool(found: Found, text: str) -> None:
    found.set("requeue", {"y": True, "n": False}[text])


def _hold(found: Found, text: str) -> None:
    found.set("hold", "user")


def _features_of_moab(found: Found, text: str) -> None:
    for name in text.split(":"):
        feature(found, name)


def _access(found: Found, text: str) -> None:
    if text.lower() != "singlejob":
        raise BadValue("only singlejob has a common form")
    found.set("exclusive", True)


def _gres(found: Found, text: str) -> None:
    for item in re.split(r"[,%]", text):
        name, _, count = item.partition(":")
        licence(found, name, count)


def _name_of_moab(found: Found, text: str) -> None:
    """Our own scripts carry their mark in the name."""
    found.set("name", re.sub(r"\.[0-9a-z]{16}$", "", text))


RESOURCES: dict[str, Value] = {
    "walltime": attribute("time", clock),
    "nodes": _nodes,
    "procs": attribute("tasks", whole),
    "select": _select,
    "place": _place,
    "ncpus": attribute("cores_per_node", whole),
    "mem": attribute("memory", quantities.bytes_of),
    "pmem": attribute("memory_per_core", quantities.bytes_of),
    "ngpus": raw("gpus", whole),
    "feature": _features_of_moab,
    "qos": attribute("qos"),
    "advres": attribute("reservation"),
    "partition": attribute("queue"),
    "naccesspolicy": _access,
    "gres": _gres,
}
COMMON: dict[str, Value] = {
    "-N": attribute("name"),
    "-q": attribute("queue"),
    "-A": attribute("account"),
    "-p": attribute("priority", whole),
    "-m": mail(LETTERS),
    "-M": attribute("mail_to"),
    "-r": _bool,
    "-a": attribute("begin", moment),
    "-h": _hold,
    "-o": _path_of("stdout"),
    "-e": _path_of("stderr"),
    "-j": _join,
}
PBSPRO: dict[str, Value] = {
    **COMMON,
    "-P": attribute("project"),
    "-J": attribute("array"),
}
TORQUE: dict[str, Value] = {
    **COMMON,
    "-t": attribute("array"),
    "-d": attribute("directory"),
    "-n": flag("exclusive"),
}
MOAB: dict[str, Value] = {
    **COMMON,
    "-N": _name_of_moab,
    "-d": attribute("directory"),
    "-E": nothing,
}
