"""`# @ keyword = value` lines of LoadLeveler job command files."""

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
    licence,
    nothing,
    output,
    placeholders,
    raw,
    utc,
    whole,
)

NOTIFY = {
    "always": ["begin", "end", "abort"], "error": ["abort"], "start": ["begin"],
    "complete": ["end"], "never": [],
}  # fmt: skip
_path = placeholders({"$(jobid)": "j", "$(job_name)": "x"})


def read(lines: list[tuple[int, str]], manager: str) -> Found:
    """One step: the keywords of a second one would replace those of the first."""
    found = Found("loadleveler")
    queued = False
    for number, line in _continued(lines):
        key, _, value = line.partition("=")
        if queued:
            found.miss(number, line, "it belongs to a second step: make it a job of its own")
        else:
            apply(found, number, key.strip().lower(), value.strip(), TABLE, line)
        queued = queued or key.strip().lower() == "queue"
    _finish(found)
    return found


def _continued(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    r"""A `\` at the end of a line continues it."""
    whole_lines: list[tuple[int, str]] = []
    goes_on = False
    for number, line in lines:
        text = line.removesuffix("\\").rstrip()
        if goes_on:
            first, before = whole_lines.pop()
            whole_lines.append((first, f"{before} {text}"))
        else:
            whole_lines.append((number, text))
        goes_on = line.endswith("\\")
    return whole_lines


def _wall(text: str) -> int:
    """`hard,soft`: the hard limit counts."""
    return clock(text.partition(",")[0].strip())


def _consumables(found: Found, text: str) -> None:
    for name, amount in re.findall(r"(\w+)\(([^)]*)\)", text):
        if name == "ConsumableCpus":
            found.set("cores_per_task", int(amount))
        elif name == "ConsumableMemory":
            found.raw["memory"] = quantities.bytes_of(amount.replace(" ", ""))
        else:
            licence(found, name, amount)


def _requirements(found: Found, text: str) -> None:
    for term in text.split("&&"):
        match = re.fullmatch(r'\s*\(?\s*Feature\s*==\s*"([^"]+)"\s*\)?\s*', term)
        if not match:
            raise BadValue("only features that are all wanted have a common form")
        feature(found, match[1])


def _notification(found: Found, text: str) -> None:
    if events := NOTIFY[text.lower()]:
        found.set("mail_on", events)


def _environment(found: Found, text: str) -> None:
    """`A=1; B=2`. COPY_ALL takes the environment of the submission, which has no common form."""
    pairs = [item.strip().partition("=") for item in text.split(";") if item.strip()]
    if any(not sign for _, sign, _ in pairs):
        raise BadValue("only NAME=value has a common form")
    values = {name: value.strip('"') for name, _, value in pairs if name != "GRISTMILL_MARK"}
    if values:
        found.set("environment", values)


def _exclusive(found: Found, text: str) -> None:
    if text == "not_shared":
        found.set("exclusive", True)


def _shell(found: Found, text: str) -> None:
    if text not in ("/bin/sh", "/bin/bash"):
        raise BadValue("write the shell in the script's first line")


def _kind(found: Found, text: str) -> None:
    if text.lower() not in ("serial", "parallel", "mpich"):
        raise BadValue(f"jobs of the type {text!r} have no common form")


def _finish(found: Found) -> None:
    """Memory is counted for each task."""
    values = found.attributes
    tasks = values.get("tasks") or values.get("nodes", 1) * values.get("tasks_per_node", 1)
    if "memory" in found.raw:
        found.set("memory", found.raw["memory"] * tasks)


def _restart(found: Found, text: str) -> None:
    found.set("requeue", {"yes": True, "no": False}[text])


TABLE: dict[str, Value] = {
    "job_name": attribute("name"),
    "job_type": _kind,
    "node": attribute("nodes", whole),
    "total_tasks": attribute("tasks", whole),
    "tasks_per_node": attribute("tasks_per_node", whole),
    "resources": _consumables,
    "node_resources": _consumables,
    "class": attribute("queue"),
    "ll_res_id": attribute("reservation"),
    "initialdir": attribute("directory"),
    "account_no": attribute("account"),
    "notify_user": attribute("mail_to"),
    "notification": _notification,
    "wall_clock_limit": attribute("time", _wall),
    "startdate": attribute("begin", lambda text: utc(text, "%m/%d/%Y %H:%M")),
    "node_usage": _exclusive,
    "requirements": _requirements,
    "user_priority": attribute("priority", whole),
    "restart": _restart,
    "input": attribute("stdin"),
    "output": lambda found, text: output(found, "stdout", _path(text)),
    "error": lambda found, text: output(found, "stderr", _path(text)),
    "hold": raw("hold"),
    "environment": _environment,
    "shell": _shell,
    "queue": nothing,
}
TABLE["hold"] = lambda found, text: found.set("hold", {"user": "user", "system": "system"}[text])
