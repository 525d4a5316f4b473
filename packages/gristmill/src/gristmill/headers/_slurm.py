"""`#SBATCH` lines, after sbatch(1)."""

from __future__ import annotations

import re

from gristmill import quantities
from gristmill.errors import BadValue
from gristmill.headers._found import (
    Found,
    Value,
    apply,
    attribute,
    flag,
    licence,
    nothing,
    options,
    output,
    placeholders,
    raw,
    whole,
    words,
)

SHORT = {
    "-J": "--job-name", "-t": "--time", "-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task",
    "-p": "--partition", "-A": "--account", "-q": "--qos", "-C": "--constraint", "-D": "--chdir",
    "-o": "--output", "-e": "--error", "-i": "--input", "-a": "--array", "-G": "--gpus",
    "-L": "--licenses", "-b": "--begin", "-H": "--hold",
}  # fmt: skip
FLAGS = ("--exclusive", "--requeue", "--no-requeue", "--hold", "-H")
MAIL = {"BEGIN": "begin", "END": "end", "FAIL": "abort"}
_path = placeholders({"%A_%a": "A_%a", "%j": "j", "%A": "A", "%a": "a", "%x": "x", "%%": "%"})


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    found = Found("slurm")
    for number, line in lines:
        for name, value, shown in options(words(found, number, line), FLAGS, glued=True):
            apply(found, number, SHORT.get(name, name), value, TABLE, shown)
    _memory(found)
    return found


def time(text: str) -> int:
    """M, M:S, H:M:S, D-H, D-H:M, D-H:M:S: `01:30` is one minute and a half."""
    days, sign, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if len(parts) > 3:
        raise BadValue(f"{text!r} is not a time of Slurm")
    if sign:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return int(days) * quantities.DAY + hours * 3600 + minutes * 60 + seconds
    hours, minutes, seconds = (
        parts if len(parts) == 3 else (0, *parts) if len(parts) == 2 else (0, parts[0], 0)
    )
    return hours * 3600 + minutes * 60 + seconds


def mebibytes(text: str) -> int:
    """Without a unit it is MiB."""
    return quantities.bytes_of(f"{text}M" if text.isdigit() else text)


def _features(found: Found, text: str) -> None:
    if not re.fullmatch(r"[\w.=-]+(&[\w.=-]+)*", text):
        raise BadValue("features that are not all wanted together have no common form")
    found.set("features", text.split("&"))


def _mail(found: Found, text: str) -> None:
    if text == "ALL":
        found.set("mail_on", list(MAIL.values()))
    elif text != "NONE":
        found.set("mail_on", [MAIL[word] for word in text.split(",")])


def _licences(found: Found, text: str) -> None:
    for item in text.split(","):
        name, _, count = item.partition(":")
        licence(found, name, count)


def _exclusive(found: Found, text: str) -> None:
    if text:
        raise BadValue("only exclusive nodes, without a kind, have a common form")
    found.set("exclusive", True)


def _gres(found: Found, text: str) -> None:
    """`gpu:2` and `gpu:a100:2` for each node."""
    match = re.fullmatch(r"(?:gpu|gres/gpu)(?::([a-z]\w*))?(?::(\d+))?", text)
    if not match:
        raise BadValue("only gpu has a common form")
    found.raw["gpus_per_node"] = (match[1], int(match[2] or 1))


def _gpus_per_node(found: Found, text: str) -> None:
    kind, _, count = text.rpartition(":")
    found.raw["gpus_per_node"] = (kind or None, int(count))


def _begin(found: Found, text: str) -> None:
    """A delay counts from the submission, so it stays what it is only when submitted now."""
    raise BadValue("it counts from the moment of submission or in the cluster's zone: set begin")


def _memory(found: Found) -> None:
    """Memory and GPUs of a node, times the nodes."""
    nodes = found.attributes.get("nodes", 1)
    if found.raw.get("mem"):
        found.set("memory", found.raw["mem"] * nodes)
    if "gpus_per_node" in found.raw:
        kind, count = found.raw["gpus_per_node"]
        found.set("gpus", f"{kind}:{count * nodes}" if kind else count * nodes)


def _gpus(found: Found, text: str) -> None:
    found.set("gpus", int(text) if text.isdigit() else text)


def _comment(found: Found, text: str) -> None:
    if not text.startswith("gristmill:"):
        raise BadValue("no attribute stands for it")


TABLE: dict[str, Value] = {
    "--job-name": attribute("name"),
    "--time": attribute("time", time),
    "--nodes": attribute("nodes", whole),
    "--ntasks": attribute("tasks", whole),
    "--ntasks-per-node": attribute("tasks_per_node", whole),
    "--cpus-per-task": attribute("cores_per_task", whole),
    "--mem": raw("mem", lambda text: 0 if text == "0" else mebibytes(text)),
    "--mem-per-cpu": attribute("memory_per_core", mebibytes),
    "--gpus": _gpus,
    "--gpus-per-node": _gpus_per_node,
    "--gres": _gres,
    "--partition": attribute("queue"),
    "--account": attribute("account"),
    "--qos": attribute("qos"),
    "--reservation": attribute("reservation"),
    "--priority": attribute("priority", whole),
    "--constraint": _features,
    "--exclusive": _exclusive,
    "--chdir": attribute("directory"),
    "--workdir": attribute("directory"),
    "--input": attribute("stdin"),
    "--output": lambda found, text: output(found, "stdout", _path(text)),
    "--error": lambda found, text: output(found, "stderr", _path(text)),
    "--mail-type": _mail,
    "--mail-user": attribute("mail_to"),
    "--requeue": flag("requeue"),
    "--no-requeue": flag("requeue", False),
    "--licenses": _licences,
    "--array": attribute("array"),
    "--hold": flag("hold", "user"),
    "--begin": _begin,
    "--comment": _comment,
    "--parsable": nothing,
}
